"""What an agent starts is that agent and nobody else, whatever it does to its environment."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.system import processes
from support.asking import ask, hire, in_team, stored

Free = Callable[..., str]

BULLPEN = f"{sys.executable} -m bullpen"
SCRIPT = """
[[agents.{name}.turns]]
when = "start"
steps = [
  {{tool = "Bash", input = {{command = '''{command}'''}}, may_fail = true}},
  {{say = "Tried."}},
]
"""


@pytest.fixture(autouse=True)
def calc(ok: Free, run: Callable[..., Any]) -> Iterator[None]:
    ok("team", "create", "calc")
    yield
    run("stop", "--all", "--grace", "1", "-t", "calc")


@pytest.fixture
def shell(tmp_path: Path, as_json: Callable[..., Any]) -> Callable[[str, str], Path]:
    """Let an agent run a file of commands in its shell; where these write."""

    def start(lines: str, backend: str = "subprocess") -> Path:
        commands = tmp_path / "as.sh"
        commands.write_text(lines.format(bullpen=BULLPEN, out=tmp_path), "utf-8")
        script = tmp_path / "script.toml"
        script.write_text(SCRIPT.format(name="zoe", command=f"bash {commands}"), "utf-8")
        as_json("spawn", "zoe", "Go", "--driver", "scripted", "--mode", "bypassPermissions",
                "--script", str(script), "-t", "calc", "--backend", backend)  # fmt: skip
        return tmp_path

    return start


def _read(path: Path) -> str:
    """What a command wrote, once it is complete."""
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.05)
    return path.read_text("utf-8")


def _env() -> str:
    return f"env -i PATH={os.environ['PATH']} HOME={os.environ['HOME']}"


def test_an_orphan_without_an_environment_does_not_approve(
    home: Path, shell: Callable[..., Path]
) -> None:
    hire(home, "bob")
    request = ask(home, "bob")
    approve = f"{{bullpen}} --home {home} -t calc approve {request.id}"
    ways = {
        "child": f"({_env()} bash -c '{approve} > {{out}}/child.new 2>&1; "
        "mv {out}/child.new {out}/child' &)",
        "orphan": f"setsid -f {_env()} bash -c 'sleep 1; {approve} > {{out}}/orphan.new 2>&1; "
        "mv {out}/orphan.new {out}/orphan'",
    }
    out = shell("\n".join(f"{line} < /dev/null > /dev/null 2>&1" for line in ways.values()))
    for name in ways:
        assert "error: " in _read(out / name)
    assert stored(home, request).state == "pending"


def test_a_stop_ends_what_left_every_trace_behind(shell: Callable[..., Path], ok: Free) -> None:
    run = "sh -c 'echo $$ > {out}/{name}.new; mv {out}/{name}.new {out}/{name}; exec sleep 600'"
    lines = "\n".join(
        f"{before} {run.replace('{name}', name)} </dev/null >/dev/null 2>&1{after}"
        for name, before, after in (
            ("one", "setsid -f env -i PATH=/bin:/usr/bin", ""),
            ("two", "(env -i PATH=/bin:/usr/bin setsid", " &)"),
            ("forged", "BULLPEN_NONCE=another setsid -f", ""),
        )
    )
    out = shell(lines)
    pids = [int(_read(out / name)) for name in ("one", "two", "forged")]
    assert all((row := processes.look(pid)) is not None and row.runs for pid in pids)
    ok("stop", "zoe", "-t", "calc")
    assert [pid for pid in pids if (row := processes.look(pid)) is not None and row.runs] == []


def test_an_agent_acts_as_itself_and_as_nobody_else(
    home: Path, shell: Callable[..., Path], ok: Free
) -> None:
    ok("member", "add", "bob")
    ok("task", "add", "A task")
    ok("send", "bob", "a secret")
    tries = (
        "BULLPEN_AGENT=team-lead {bullpen} send bob forged",
        "BULLPEN_AGENT=team-lead {bullpen} send team-lead forged",
        "BULLPEN_AGENT=bob {bullpen} task claim 1",
        "{bullpen} inbox bob",
        "BULLPEN_AGENT=bob {bullpen} inbox --mark-seen",
        "{bullpen} --as team-lead send bob forged",
    )
    lines = [f"{line} > {{out}}/{n} 2>&1" for n, line in enumerate(tries)]
    lines += ["{bullpen} task claim 1 > {out}/own 2>&1", "touch {out}/done"]
    out = shell("\n".join(lines))
    _read(out / "done")
    said = [_read(out / str(n)) for n in range(len(tries))]
    assert all(text.startswith("error: ") for text in said), said
    assert "zoe has task 1" in _read(out / "own")
    texts = [e.message.text for e in in_team(home, lambda t: t.mailbox.read("bob")).unread]
    assert texts == ["a secret"]
    assert not [e for e in in_team(home, lambda t: t.events()) if e.actor == "bob"]


def test_a_teammate_that_a_leads_process_started_is_not_the_lead(
    home: Path, tmp_path: Path, spawn: Callable[..., Any]
) -> None:
    """Its runner is a child of the lead's runner, and its lead comes first in the roster."""
    hire(home, "bob")
    request = ask(home, "bob", approver="lead")
    commands = tmp_path / "as.sh"
    commands.write_text(
        f"{BULLPEN} task claim 1 > {tmp_path}/own 2>&1\n"
        f"BULLPEN_AGENT=team-lead {BULLPEN} approve {request.id} > {tmp_path}/lead 2>&1\n"
        f"{BULLPEN} approve {request.id} > {tmp_path}/self 2>&1\n"
        f"touch {tmp_path}/done\n",
        "utf-8",
    )
    script = tmp_path / "script.toml"
    script.write_text(
        "[[agents.team-lead.turns]]\nwhen = 'start'\nsteps = [\n"
        "  {tool = 'TaskCreate', input = {subject = 't', description = 'd'}},\n"
        f"  {{tool = 'Bash', input = {{command = '{BULLPEN} task edit 1 --subject mine'}}}},\n"
        "  {tool = 'SpawnTeammate', input = {name = 'zoe', prompt = 'go'}},\n"
        "  {sleep = 12},\n  {say = 'started'},\n]\n"
        + SCRIPT.format(name="zoe", command=f"bash {commands}"),
        "utf-8",
    )
    spawn("run", "Try", "-t", "calc", "--driver", "scripted", "--mode", "bypassPermissions",
          "--script", str(script), "--backend", "subprocess", "--timeout", "30")  # fmt: skip
    _read(tmp_path / "done")
    assert "zoe has task 1" in _read(tmp_path / "own")
    assert "error: " in _read(tmp_path / "lead")
    assert "error: " in _read(tmp_path / "self")
    assert stored(home, request).state == "pending"
    edits = [e for e in in_team(home, lambda t: t.events()) if e.op == "task.edit"]
    assert {e.actor for e in edits} == {"team-lead"}
