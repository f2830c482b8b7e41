"""The runs whose answers are compared, each from its own beginning."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bullpen.agents.system.transcript import rows
from bullpen.testing.nats import running

from . import cases
from .settle import Settler
from .stage import Stage, contents, copy_home, recorded_rows
from .streams import load

Answers = list[dict[str, Any]]

TURN_S = 60


def recorded(root: Path) -> Answers:
    """Commands that read the recorded home, or are refused. It stays as it is."""
    stage = Stage(root)
    before = contents(copy_home(stage.home))
    answers = stage.answers(cases.lines(cases.RECORDED))
    after = contents(stage.home)
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    assert not changed
    return settled(root, answers)


def writes(root: Path) -> Answers:
    """Commands that change the recorded home."""
    stage = Stage(root)
    copy_home(stage.home)
    stage.named["REQUEST"] = _pending(stage)
    return settled(root, stage.answers(cases.lines(cases.WRITES)))


def _pending(stage: Stage) -> str:
    """The request that waits for an answer."""
    with stage.here():
        (found,) = stage.answer(["requests", "-t", "desk"])["stdout"]["requests"]
    return str(found["id"])


TEAM = """
[team]
name = "shop"

[workspace]
kind = "worktree"

[merge]
target = "main"
gate = ["test ! -e broken"]

[[member]]
name = "cook"
driver = "scripted"
script = "../script.toml"
mode = "acceptEdits"

[[task]]
id = "soup"
subject = "Cook the soup"
"""
SCRIPT = """
[[agents.cook.turns]]
when = "task"
steps = [
  {tool = "Write", input = {file_path = "soup.txt", content = "Soup\\n"}},
  {usage = {input_tokens = 1200, output_tokens = 80, cost_usd = 0.0125}},
  {tool = "TaskUpdate", input = {taskId = "{task}", status = "completed"}},
  {say = "Cooked."},
]

[[agents.ida.turns]]
when = "any"
repeat = true
steps = [{say = "Idle."}]
"""


def live(root: Path) -> Answers:
    """Commands about agents that run, in a repository."""
    stage = Stage(root)
    (root / "script.toml").write_text(SCRIPT, encoding="utf-8")
    (stage.place / "shop.toml").write_text(TEAM, encoding="utf-8")
    for line in ("init -q -b main", "add .", "commit -qm Begin"):
        subprocess.run(["git", *line.split()], cwd=stage.place, env=stage.env, check=True)
    answers: Answers = []
    with stage.here():
        for words in cases.lines(cases.LIVE):
            answers.append(stage.answer(words))
            if words == ["workspace", "show", "cook"]:
                tree = Path(answers[-1]["stdout"]["path"])
                (tree / "unsaved.txt").write_text("Salt\n", encoding="utf-8")
            if words == ["workspace", "saved"]:
                stage.named["SAVED"] = answers[-1]["stdout"]["snapshots"][0]["ref"]
            if words[:2] == ["spawn", "ida"]:
                _wait_for_turn(stage, "ida")
    return [_unnumbered(each) for each in settled(root, answers)]


def _wait_for_turn(stage: Stage, agent: str) -> None:
    """Wait until an agent has taken its first turn: a stop would interrupt it."""
    (transcript,) = stage.home.glob(f"agents/*/{agent}/transcript.jsonl")
    end = time.monotonic() + TURN_S
    while not any(row["kind"] == "end" for row in rows(transcript)):
        assert time.monotonic() < end
        time.sleep(0.05)


def _unnumbered(value: Any) -> Any:
    """An answer without numbers of events: how many there are depends on who is seen when."""
    if isinstance(value, list):
        return [_unnumbered(each) for each in value]
    if isinstance(value, dict):
        return {
            key: "<volatile>" if key == "seq" else _unnumbered(each) for key, each in value.items()
        }
    return value


def server(root: Path) -> Answers:
    """Commands on a server that has the recorded streams, first those that change nothing."""
    return asyncio.run(_on_server(root))


async def _on_server(root: Path) -> Answers:
    async with running(root / "nats") as cluster:
        await load(cluster.urls[0], recorded_rows())
        stage = Stage(root, store=cluster.urls[0])
        stage.named["REQUEST"] = await asyncio.to_thread(_pending, stage)
        lines = cases.lines(cases.ON_SERVER + cases.ON_SERVER_WRITES.lstrip())
        answers = await asyncio.to_thread(stage.answers, lines)
    return settled(root, json.loads(json.dumps(answers).replace(cluster.urls[0], "<server>")))


PHASES: dict[str, Callable[[Path], Answers]] = {
    each.__name__: each for each in (recorded, writes, live, server)
}


def settled(root: Path, answers: Answers) -> Answers:
    """Answers without what differs from run to run."""
    settler = Settler(root)
    return [settler.settle(_ordered(answer)) for answer in answers]


def _ordered(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without the order in which agents came and metrics were found."""
    found = answer["stdout"]
    if "--prometheus-once" in answer["command"]:
        return {**answer, "stdout": {"text": sorted(found["text"])}}
    if answer["command"].startswith("up ") and "values" in found:
        values = sorted(found["values"], key=lambda value: str((value["kind"], value.get("text"))))
        # Whether the end of an agent is told depends on who sees it first.
        told = [each for each in values if "was stopped" not in each.get("text", "")]
        return {**answer, "stdout": {"values": told}}
    return answer
