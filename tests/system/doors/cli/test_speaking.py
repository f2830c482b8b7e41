"""An agent never speaks as a person, however its programs hide where they come from."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bullpen.protocol.request import Request
from support.asking import ask, hire, in_team, stored

TRIES = """
[[agents.{name}.turns]]
when = "start"
steps = [
{steps}
  {{tool = "Finish", input = {{summary = "Tried."}}, may_fail = true}},
  {{say = "Tried."}},
]
"""
STEP = "  {{tool = \"Bash\", input = {{command = '''{command}'''}}, may_fail = true}},\n"
BARE = "env -u BULLPEN_NONCE -u BULLPEN_AGENT -u BULLPEN_TEAM"
WAYS = (
    "{bullpen} approve {id}",
    "{bullpen} --as team-lead approve {id}",
    f"{BARE} {{bullpen}} approve {{id}}",
    f"exec {BARE} {{bullpen}} approve {{id}}",
    f"({BARE} {{bullpen}} approve {{id}})",
    f"{BARE} {{bullpen}} -t calc --as team-lead approve {{id}}",
)

Free = Callable[..., str]


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., str]:
    """A script in which an agent tries all ways to answer a request, each with its own output."""

    def write(name: str, request: Request, ways: tuple[str, ...] = WAYS) -> str:
        bullpen = f"{sys.executable} -m bullpen"
        steps = "".join(
            STEP.format(command=way.format(bullpen=bullpen, id=request.id)) for way in ways
        )
        path = tmp_path / "script.toml"
        path.write_text(TRIES.format(name=name, steps=steps), "utf-8")
        return str(path)

    return write


@pytest.fixture(autouse=True)
def calc(ok: Free, run: Callable[..., Any]) -> Iterator[None]:
    """A team; whatever runs in it is stopped at the end."""
    ok("team", "create", "calc")
    yield
    for team in ("calc", "other"):
        run("stop", "--all", "--grace", "1", "-t", team)


def _answers(home: Path, name: str) -> list[str]:
    """What an agent's tries ended with."""
    (path,) = home.glob(f"agents/*/{name}/transcript.jsonl")
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [row["text"] for row in rows if row["kind"] == "result" and row["name"] == "Bash"]


@pytest.mark.parametrize("team", ["calc", "other"])
def test_an_agents_own_programs_cannot_approve(
    team: str,
    ok: Free,
    home: Path,
    as_json: Callable[..., Any],
    script: Callable[..., str],
    follow: Callable[..., Any],
) -> None:
    """R-4.1: no self-approval; an agent's Bash that unset its variables is still an agent's."""
    hire(home, "bob")
    request = ask(home, "bob")
    if team != "calc":
        ok("team", "create", team)
    as_json("spawn", "alice", "Go", "--driver", "scripted", "--mode", "bypassPermissions",
            "--script", script("alice", request), "-t", team)  # fmt: skip
    logs = follow("logs", "alice", "-f", "-t", team)
    while "text    Tried." not in logs.line():
        pass
    answers = _answers(home, "alice")
    assert len(answers) == len(WAYS)
    assert all("error: " in text for text in answers), answers
    after = stored(home, request)
    assert (after.state, after.voice) == ("pending", None)


@pytest.mark.parametrize("team", ["calc", "other"])
def test_agents_inside_the_process_of_a_run_cannot_approve_either(
    team: str, home: Path, spawn: Callable[..., Any], script: Callable[..., str]
) -> None:
    """R-4.1: also where the process above carries no mark of an agent."""
    hire(home, "bob")
    request = ask(home, "bob")
    done = spawn("run", "Try", "-t", team, "--driver", "scripted", "--mode",
                 "bypassPermissions", "--script", script("team-lead", request))  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = _answers(home, "team-lead")
    assert len(answers) == len(WAYS)
    assert all("error: " in text for text in answers), answers
    after = stored(home, request)
    # The end of a run ends the agents of its team, and with bob his question.
    end = "expired" if team == "calc" else "pending"
    assert (after.state, after.voice, after.answered_by) == (end, None, None)


def test_a_lead_that_is_asked_answers_in_its_own_voice(
    home: Path, spawn: Callable[..., Any], script: Callable[..., str]
) -> None:
    hire(home, "bob")
    request = ask(home, "bob", approver="lead")
    path = script("team-lead", request, WAYS[:1])
    done = spawn("run", "Try", "-t", "calc", "--driver", "scripted", "--mode",
                 "bypassPermissions", "--script", path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    after = stored(home, request)
    assert (after.state, after.voice, after.answered_by) == ("approved", "agent", "team-lead")


def test_an_agent_spawns_nobody_that_may_do_more_and_begins_no_run(
    home: Path,
    tmp_path: Path,
    as_json: Callable[..., Any],
    follow: Callable[..., Any],
) -> None:
    """R-4.2: never wider than the parent, at this door too."""
    bullpen = f"{sys.executable} -m bullpen"
    path = tmp_path / "script.toml"
    free = f"--driver scripted --script {path} --mode bypassPermissions"
    commands = (f"{BARE} {bullpen} -t calc spawn eve Go {free}", f"{bullpen} run Go {free}")
    steps = "".join(STEP.format(command=command) for command in commands)
    path.write_text(TRIES.format(name="alice", steps=steps), "utf-8")
    as_json("spawn", "alice", "Go", "--driver", "scripted", "--mode", "acceptEdits",
            "--allow", "Bash", "--script", str(path), "-t", "calc")  # fmt: skip
    logs = follow("logs", "alice", "-f", "-t", "calc")
    while "text    Tried." not in logs.line():
        pass
    wide, run = _answers(home, "alice")
    assert "error: " in wide
    assert "bypassPermissions" in wide
    assert "error: An agent cannot run `bullpen run`." in run
    names = {member.name for member in in_team(home, lambda team: team.roster.list())}
    assert "eve" not in names


def test_a_person_in_a_terminal_that_an_agent_did_not_open_is_a_person(
    home: Path, spawn: Callable[..., Any]
) -> None:
    hire(home, "bob")
    request = ask(home, "bob")
    assert spawn("approve").returncode == 0
    assert stored(home, request).voice == "human"
