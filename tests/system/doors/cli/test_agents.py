"""Starting, looking at and stopping agents: real processes, played by the scripted driver."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

DEADLINE_S = 60
FREE = ("--mode", "bypassPermissions")
"""These tests are about processes: nothing is asked for."""

PROMPT = b"Read the long text"

pytestmark = pytest.mark.usefixtures("warm_agents")

SCRIPT = """
[[agents.alice.turns]]
when = "start"
steps = [
  {usage = {input_tokens = 1000, output_tokens = 50, cost_usd = 0.01}},
  {tool = "TaskList", input = {}},
  {say = "I have \\u001b[31mbegun."},
]
[[agents.alice.turns]]
repeat = true
steps = [{say = "Noted."}]

[[agents.bob.turns]]
when = "start"
steps = [{say = "Busy now."}, {hang = true}]
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    """What the agents of these tests do."""
    path = tmp_path / "script.toml"
    path.write_text(SCRIPT, encoding="utf-8")
    return str(path)


@pytest.fixture
def app(
    run: Callable[..., Any], ok: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """An empty team on a tmux server of its own; whatever runs in it is stopped at the end."""
    socket = f"bullpen-test-{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv("BULLPEN_TMUX_SOCKET", socket)
    monkeypatch.delenv("TMUX", raising=False)
    ok("team", "create", "calc")
    yield "calc"
    run("stop", "--all", "--grace", "1")
    if shutil.which("tmux"):
        subprocess.run(["tmux", "-L", socket, "kill-server"], capture_output=True, check=False)


@pytest.fixture
def alice(app: str, as_json: Callable[..., Any], script: str) -> dict[str, Any]:
    """An agent that has begun, took a turn and is idle."""
    started: dict[str, Any] = as_json("spawn", "alice", "Go", "--driver", "scripted",
                                      "--script", script, *FREE)  # fmt: skip
    _until(lambda: _state(as_json, "alice") == "idle" and _turns(as_json, "alice") >= 1)
    return started


def _until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < until, "it did not come to that in time"
        time.sleep(0.1)


def _agent(as_json: Callable[..., Any], name: str) -> dict[str, Any]:
    agents = as_json("ps")["agents"]
    return next(agent for agent in agents if agent["name"] == name)


def _state(as_json: Callable[..., Any], name: str) -> str:
    return str(_agent(as_json, name)["state"])


def _turns(as_json: Callable[..., Any], name: str) -> int:
    return int(_agent(as_json, name)["usage"]["turns"])


def test_an_agent_can_be_started_seen_read_and_stopped(
    run: Callable[..., Any],
    ok: Callable[..., str],
    as_json: Callable[..., Any],
    app: str,
    script: str,
) -> None:
    words = ("spawn", "alice", "-", "--key", "once", "--driver", "scripted", "--script", script)
    said = run(*words, *FREE, typed=PROMPT).stdout
    assert "Started alice (scripted driver, subprocess backend, pid " in said
    assert "bullpen logs alice -f -t calc" in said
    # What it said is in the log before its turn has ended.
    _until(lambda: _state(as_json, "alice") == "idle" and _turns(as_json, "alice") >= 1)

    rows = ok("ps").splitlines()
    assert rows[2].split()[:5] == ["alice", "idle", rows[2].split()[2], "scripted", "subprocess"]
    assert "nothing new was started" in run(*words, *FREE, typed=PROMPT).stdout
    shown = ok("logs", "alice")
    assert "Read the long text" in shown
    assert "tool    TaskList" in shown
    assert "I have \\x1b[31mbegun." in shown
    assert "1000 tokens in, 50 out, $0.010" in shown

    assert ok("stop", "alice") == "Stopped alice.\n"
    assert ok("stop", "alice").startswith("alice was not running")
    assert "stopped" in ok("ps")


def test_what_cannot_be_had_is_refused_and_leaves_nothing(
    run: Callable[..., Any], as_json: Callable[..., Any], app: str
) -> None:
    codes = {
        ("--driver", "scripted"): 2,
        ("--driver", "scripted", "--script", "/no/such/file"): 5,
        ("--driver", "psychic"): 2,
        ("--backend", "in-process"): 2,
        ("--driver", "scripted", "--env", "NO_SUCH_VARIABLE_HERE"): 2,
        ("--driver", "scripted", "--role", "no-such-role"): 3,
        ("--driver", "scripted", "--cwd", "/no/such/directory"): 3,
    }
    results = {words: run("spawn", "alice", *words) for words in codes}
    assert {words: result.exit_code for words, result in results.items()} == codes
    assert [words for words, result in results.items() if "hint: " not in result.stderr] == []
    assert [agent["name"] for agent in as_json("ps")["agents"]] == ["team-lead"]


def test_all_agents_can_be_stopped_at_once(
    ok: Callable[..., str], as_json: Callable[..., Any], alice: dict[str, Any], script: str
) -> None:
    ok("spawn", "bob", "--driver", "scripted", "--script", script, *FREE)

    said = ok("stop", "--all", "--reason", "Time to go")
    assert sorted(said.splitlines()) == ["Stopped alice.", "Stopped bob."]
    assert ok("stop", "--all") == "No agent was running.\n"
    assert {_state(as_json, name) for name in ("alice", "bob")} == {"stopped"}
    assert {_agent(as_json, name)["cause"] for name in ("alice", "bob")} == {"Time to go"}


def test_a_start_that_fails_can_be_read_at_a_terminal(
    at_terminal: Callable[..., tuple[int, str]], app: str, script: str
) -> None:
    """R-9.12: the whole cause, and no word broken."""
    words = ("--driver", "scripted", "--script", script, "--backend", "tmux", *FREE)
    code, shown = at_terminal("spawn", "zoe", *words, COLUMNS="60")

    assert code == 5
    # How far the start was stood in this line until it failed.
    lines = shown.rpartition("\r\x1b[K")[2].splitlines()
    assert lines[0].startswith("error: 'zoe' could not be started: ")
    assert lines[1].startswith(" " * 7)
    hint = next(at for at, line in enumerate(lines) if line.startswith("hint: "))
    assert "no turns for 'zoe'" in " ".join(lines[:hint])
    assert all(line.startswith(" " * 6) for line in lines[hint + 1 :])
    assert all(len(line) <= 60 for line in lines if script not in line)


def test_what_is_typed_does_not_tear_the_picture_of_ps(
    at_terminal: Callable[..., tuple[int, str]], alice: dict[str, Any]
) -> None:
    def types(terminal: int, process: subprocess.Popen[bytes]) -> None:
        os.write(terminal, b"typed words\n")
        # The kernel passes it on in its own time; only what arrives in the picture counts here.
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)

    code, shown = at_terminal("ps", "--watch", steps=[("alice", types)])
    assert code == 130
    assert "typed words" not in shown


def test_logs_follow_what_an_agent_does(
    ok: Callable[..., str], follow: Callable[..., Any], alice: dict[str, Any]
) -> None:
    following = follow("logs", "alice", "-f", "-n", "1")
    lines: list[str] = [following.line()]
    ok("send", "alice", "Are you there?")
    while "Noted." not in lines[-1]:
        lines.append(following.line())
    assert any("Are you there?" in line for line in lines)
    assert following.interrupt()[0] == 130


def test_watching_gives_a_line_of_json_for_each_change(
    ok: Callable[..., str], follow: Callable[..., Any], app: str, script: str
) -> None:
    """R-6.1: one machine-readable stream, also without a lead."""
    following = follow("ps", "--watch", "--jsonl")
    assert [agent["name"] for agent in json.loads(following.line())["agents"]] == ["team-lead"]
    ok("spawn", "alice", "--driver", "scripted", "--script", script, *FREE)
    agents: dict[str, str] = {}
    while agents.get("alice") != "idle":
        agents = {a["name"]: a["state"] for a in json.loads(following.line())["agents"]}
    ok("stop", "alice")
    while agents["alice"] != "stopped":
        agents = {a["name"]: a["state"] for a in json.loads(following.line())["agents"]}
    assert following.interrupt()[0] == 130


@pytest.mark.skipif(not shutil.which("tmux"), reason="needs tmux")
def test_an_agent_in_tmux_can_be_looked_at(
    run: Callable[..., Any],
    ok: Callable[..., str],
    as_json: Callable[..., Any],
    at_terminal: Callable[..., tuple[int, str]],
    app: str,
    script: str,
) -> None:
    words = ("--driver", "scripted", "--script", script, "--backend", "tmux", *FREE)
    assert "bullpen attach alice -t calc" in ok("spawn", "alice", "Go", *words)
    assert as_json("attach", "alice")["command"][-1].startswith("%")
    without = run("attach", "alice")
    assert without.exit_code == 2
    assert "no terminal" in without.stderr
    assert "bullpen logs alice -f" in without.stderr

    def leave(*_: object) -> None:
        socket = os.environ["BULLPEN_TMUX_SOCKET"]
        subprocess.run(["tmux", "-L", socket, "detach-client", "-s", "bullpen-calc"], check=True)

    code, shown = at_terminal("attach", "alice", steps=[("begun", leave)])
    assert code == 0
    assert "detached" in shown
    assert _state(as_json, "alice") == "idle"

    ok("stop", "alice")
    assert "is no longer running" in run("attach", "alice").stderr


def test_a_relative_home_is_found_by_an_agent_in_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ok: Callable[..., str]
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "s.toml").write_text("[agents.ann]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BULLPEN_HOME", "home")
    ok("team", "create", "calc")
    scripted = ("--driver", "scripted", "--script", str(tmp_path / "s.toml"))
    ok("spawn", "ann", "--cwd", str(tmp_path / "project"), *scripted)
    ok("stop", "ann")
    assert [found.parent for found in tmp_path.rglob("home")] == [tmp_path]
