"""The files of a team: where they are, what is in them, and who may write them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bullpen.protocol.agent import AgentSpec, ProcessRecord
from bullpen.protocol.names import LEAD
from bullpen.store.files.store import FileStore
from bullpen.team.team import Team, Teams
from bullpen.view.agent_words import colors_of
from support.crews import Crew, eventually, nothing

from .page import shows

if TYPE_CHECKING:
    from support.agents.tools_fixtures import Bench

TMUX = ProcessRecord.new(backend="tmux", host="here", pid=9, start="1", pane="%14")


def spec(**fields: Any) -> AgentSpec:
    return AgentSpec.new(driver="d", backend="tmux", cwd="/", **fields)


def config(tmp_path: Path, team: str = "crew") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / "home/teams" / team / "config.json").read_text())
    return found


def text_of(path: Path) -> str:
    return path.read_text("utf-8")


def row(tmp_path: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(r for r in config(tmp_path)["members"] if r["name"] == name)
    return found


async def started(team: Team, name: str, place: ProcessRecord = TMUX, **fields: Any) -> None:
    await team.agents.register(name, spec(**fields), by=LEAD, nonce=f"n-{name}")
    await team.agents.ready(name, nonce=f"n-{name}", place=place)


@shows("layout")
async def test_layout(team: Team, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert (home / "teams/crew/config.json").is_file()
    assert not (home / "teams/crew/inboxes/ann.json").exists(), "made with the first message"
    await team.mailbox.send("ann", "Hello.", sender=LEAD)
    assert (home / "teams/crew/inboxes/ann.json").is_file()
    await team.tasks.add("Parse", by=LEAD)
    assert (home / "tasks/crew/1.json").is_file()
    assert (home / "tasks/crew/.lock").stat().st_size == 0


@shows("json")
async def test_json(team: Team, tmp_path: Path) -> None:
    text = (tmp_path / "home/teams/crew/config.json").read_text()
    assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    assert "null" not in text


@shows("highwatermark")
async def test_highwatermark(team: Team, tmp_path: Path) -> None:
    for subject in "abcd":
        await team.tasks.add(subject, by=LEAD)
    await team.tasks.delete("4", by=LEAD)
    assert (tmp_path / "home/tasks/crew/.highwatermark").read_text() == "4"
    assert (await team.tasks.add("e", by=LEAD)).id == "5"


@shows("anonymous-team")
def test_anonymous_team(ok: Callable[..., str], as_json: Callable[..., Any]) -> None:
    ok("team", "create")
    (found,) = as_json("team", "list")["teams"]
    assert re.fullmatch(r"[a-z]+-\d{8}-\d{6}.*", found["name"])


@shows("teammate-row")
async def test_teammate_row(team: Team, tmp_path: Path) -> None:
    await started(team, "eve", prompt="Look.", model="haiku", mode="plan", role="Explore")
    found = row(tmp_path, "eve")
    assert (found["prompt"], found["model"], found["mode"]) == ("Look.", "haiku", "plan")
    assert (found["agentType"], found["planModeRequired"]) == ("Explore", True)
    assert (found["backendType"], found["cwd"]) == ("tmux", "/")
    await started(team, "max", model="haiku")
    assert row(tmp_path, "max")["agentType"] == "general-purpose"
    assert row(tmp_path, "max")["planModeRequired"] is False


@shows("colors-in-ui")
async def test_colors_in_ui(team: Team) -> None:
    assert colors_of(await team.snapshot()) == {"ann": "blue", "bob": "green"}


@shows("is-active")
async def test_is_active(team: Team, tmp_path: Path) -> None:
    await started(team, "eve")
    await team.agents.begin_turn("eve", nonce="n-eve")
    assert row(tmp_path, "eve")["isActive"] is True
    await team.agents.end_turn("eve", nonce="n-eve", reports={}, idle=None)
    assert row(tmp_path, "eve")["isActive"] is False


@shows("row-tools")
async def test_row_tools(team: Team, tmp_path: Path) -> None:
    await started(team, "eve", tools=["Read"], disallowed_tools=["Bash"])
    assert row(tmp_path, "eve")["allowedTools"] == ["Read"]
    assert row(tmp_path, "eve")["disallowedTools"] == ["Bash"]
    assert not {"allowedTools", "disallowedTools"} & set(row(tmp_path, "ann"))


@shows("worktree-path")
async def test_worktree_path(team: Team, tmp_path: Path) -> None:
    tree = {"kind": "worktree", "repository": "/r", "path": "/trees/eve", "inside": "."}
    await team.agents.register("eve", spec(workspace=tree), by=LEAD, nonce="n")
    assert row(tmp_path, "eve")["worktreePath"] == "/trees/eve"


@shows("simple-config")
async def test_simple_config(tmp_path: Path) -> None:
    folder = tmp_path / "home/teams/small"
    folder.mkdir(parents=True)
    member = {"name": "w1", "agentId": "w1@small", "agentType": "worker", "prompt": "Go"}
    text = json.dumps({"teamName": "small", "members": [member]}, indent=2)
    (folder / "config.json").write_text(text)
    team = Teams(FileStore(tmp_path / "home", fsync=False)).open("small")
    await team.mailbox.send("w1", "Hello.", sender="w1")
    await team.tasks.add("Parse", by="w1")
    assert (folder / "config.json").read_text() == text


@shows("plan-files")
async def test_plan_files(crew: Crew) -> None:
    ann = await crew.hire("ann", mode="plan")
    said = await ann.desk.submit_plan("# Plan")
    (request,) = (await crew.team.approvals.all()).values()
    path = Path(request.subject["planFilePath"])
    assert path.parent.name == "plans" and path.suffix == ".md"
    assert text_of(path) == "# Plan"
    assert "needs approval" in said


@shows("transcript")
async def test_transcript(crew: Crew) -> None:
    ann = await crew.hire("ann", nothing, prompt="Go")
    await eventually(lambda: bool(ann.told("end")))
    rows = (ann.folder / "transcript.jsonl").read_text().splitlines()
    assert all(isinstance(json.loads(line), dict) for line in rows)


@shows("delete-removes")
def test_delete_removes(ok: Callable[..., str], home: Path) -> None:
    ok("team", "create", "old")
    ok("task", "add", "One", "-t", "old")
    ok("team", "delete", "old", "--yes")
    assert not (home / "teams/old").exists() and not (home / "tasks/old").exists()


@shows("task-fields")
async def test_task_fields(ann: Bench, tmp_path: Path) -> None:
    given = {"subject": "Parse", "description": "All.", "activeForm": "Parsing"}
    await ann.ok("TaskCreate", **given, metadata={"area": "core"})
    task = json.loads((tmp_path / "home/tasks/crew/1.json").read_text())
    assert (task["id"], task["status"], task["metadata"]["area"]) == ("1", "pending", "core")
    assert {key: task[key] for key in given} == given
    assert (task["blocks"], task["blockedBy"]) == ([], []) and "owner" not in task
