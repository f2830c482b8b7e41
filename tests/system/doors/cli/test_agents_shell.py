"""What an agent can do to its team by typing commands in its shell, with real processes."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.system import processes
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import Control
from support.asking import in_team
from support.doors.every_command import for_people, line_of
from support.open_acts import open_to_agents

BULLPEN = f"{sys.executable} -m bullpen"
DEADLINE_S = 90
SCRIPT = """
[agents.bob]
[agents.cat]
[[agents.zoe.turns]]
when = "start"
steps = [{{tool = "Bash", input = {{command = "bash {typed}", timeout = 600000}}, may_fail = true}}]
"""
WALK = """
import json, sys
from typer.testing import CliRunner
from bullpen.doors.cli.main import app

said = {}
for words in json.load(open(sys.argv[1])):
    said[" ".join(words)] = CliRunner().invoke(app, [*words, "--json"]).stdout
print(json.dumps(said))
"""
HIDE = "env -u BULLPEN_NONCE -u BULLPEN_AGENT -u BULLPEN_TEAM"


@pytest.fixture(autouse=True)
def teams(ok: Callable[..., str], run: Callable[..., Any]) -> Iterator[None]:
    """The team of the agents, and another one with a task."""
    ok("team", "create", "calc")
    ok("team", "create", "other")
    ok("task", "add", "Precious", "-t", "other")
    yield
    run("stop", "--all", "--grace", "1", "-t", "calc")


@pytest.fixture
def hire(tmp_path: Path, as_json: Callable[..., Any]) -> Callable[..., Any]:
    """Spawn a scripted agent; what zoe types at her start is given in `typed`."""
    path, typed = tmp_path / "script.toml", tmp_path / "typed.sh"
    path.write_text(SCRIPT.format(typed=typed), "utf-8")
    typed.write_text("true\n", "utf-8")

    def spawn(name: str) -> Any:
        return as_json("spawn", name, "Go", "--driver", "scripted", "--script", str(path), "--mode",
                       "bypassPermissions", "--no-claim", "-t", "calc")  # fmt: skip

    return spawn


@pytest.fixture
def typing(tmp_path: Path, hire: Callable[..., Any]) -> Callable[..., str]:
    """What zoe, a new agent, reads when she types these lines in her shell."""

    def typed(*lines: str) -> str:
        said, done = tmp_path / "said", tmp_path / "done"
        script = "\n".join([f"exec > {said} 2>&1", *lines, f"touch {done}"])
        (tmp_path / "typed.sh").write_text(script, "utf-8")
        hire("zoe")
        until(done.exists)
        return said.read_text("utf-8")

    return typed


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


def agents_of(home: Path) -> dict[str, Any]:
    config = in_team(home, lambda team: team.agents.config())
    return {member.name: member.agent for member in config.roster}


def test_an_agent_cannot_type_any_command_that_is_not_in_the_table(
    typing: Callable[..., str], tmp_path: Path, home: Path, as_json: Callable[..., Any]
) -> None:
    lines = {path: line_of(path) for path in for_people()}
    (tmp_path / "lines.json").write_text(json.dumps([*lines.values()]), "utf-8")
    (tmp_path / "walk.py").write_text(WALK, "utf-8")
    walk = f"{sys.executable} {tmp_path}/walk.py {tmp_path}/lines.json"
    plain, hidden = typing(
        f"cd {tmp_path}", walk, f"{HIDE} BULLPEN_HOME={home} {walk}"
    ).splitlines()
    for said in (json.loads(plain), json.loads(hidden)):
        reasons = {words: json.loads(text)["error"]["reason"] for words, text in said.items()}
        assert reasons == {" ".join(words): "not_a_person" for words in lines.values()}


def test_an_agent_deletes_creates_and_repairs_no_team(
    typing: Callable[..., str], as_json: Callable[..., Any]
) -> None:
    commands = ("team delete other --yes", "team delete calc --yes --force", "team create mine")
    said = typing(*(f"{BULLPEN} {each}" for each in (*commands, "doctor --fix")))
    assert said.count("error: An agent cannot run") == 4, said
    assert [team["name"] for team in as_json("team", "list")["teams"]] == ["calc", "other"]
    assert as_json("task", "list", "-t", "other")["tasks"][0]["subject"] == "Precious"


def test_an_agent_neither_orders_stops_nor_removes_one_that_it_did_not_spawn(
    typing: Callable[..., str], hire: Callable[..., Any], home: Path, ok: Callable[..., str]
) -> None:
    for name in ("bob", "cat"):
        hire(name)
    ok("task", "add", "Bob's", "--owner", "bob", "-t", "calc")
    order = Control.new(action="stop", sender="zoe", reason="forged").text()
    said = typing(
        f"{BULLPEN} send bob '{order}'",
        f"{BULLPEN} stop cat",
        f"{BULLPEN} stop --all",
        f"{BULLPEN} member remove bob",
        f"{BULLPEN} member add eve",
        f"{BULLPEN} task delete 1",
        f"{BULLPEN} task release 1",
        f"{BULLPEN} task assign 1 zoe",
        f"{BULLPEN} team resume --agent bob",
        f"{BULLPEN} down",
    )
    assert said.count("error: ") == 10, said
    agents = agents_of(home)
    assert set(agents) == {LEAD, "bob", "cat", "zoe"}
    assert {agents[name].phase for name in ("bob", "cat")} == {"running"}
    task = in_team(home, lambda team: team.tasks.get("1"))
    assert task.owner == "bob"


def test_a_parent_stops_and_removes_what_it_spawned(
    typing: Callable[..., str], tmp_path: Path, home: Path
) -> None:
    in_team(home, lambda team: open_to_agents(team, "member.spawn"))
    spawn = f"{BULLPEN} spawn bob Go --driver scripted --script {tmp_path}/script.toml --no-claim"
    said = typing(f"{spawn} >/dev/null", f"{BULLPEN} stop bob", f"{BULLPEN} member remove bob")
    assert "error" not in said, said
    assert set(agents_of(home)) == {LEAD, "zoe"}


def test_a_running_agent_is_stopped_before_it_is_removed(
    hire: Callable[..., Any], home: Path, as_json: Callable[..., Any]
) -> None:
    hire("bob")
    agent = agents_of(home)["bob"]
    in_team(home, lambda team: team.tasks.add("His", by=LEAD, owner="bob"))
    removed = as_json("member", "remove", "bob", "-t", "calc")
    assert not processes.runs(agent.process)
    assert processes.carriers(agent.nonce) == []
    assert "bob" not in agents_of(home)
    assert [(task["id"], task.get("owner")) for task in removed["released"]] == [("1", None)]


def test_a_runner_whose_entry_is_gone_ends_with_its_children(
    hire: Callable[..., Any], tmp_path: Path, home: Path
) -> None:
    (tmp_path / "typed.sh").write_text(f"sleep 600 & echo $! > {tmp_path}/child\nwait\n", "utf-8")
    hire("zoe")
    agent = agents_of(home)["zoe"]
    until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().strip() != "")
    child = int((tmp_path / "child").read_text())
    in_team(home, lambda team: team.roster.remove("zoe", by=LEAD))
    until(lambda: not processes.runs(agent.process))
    until(lambda: not _lives(child))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
