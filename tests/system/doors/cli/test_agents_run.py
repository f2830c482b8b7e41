"""`bullpen run` and `bullpen demo`: exit codes, what is shown meanwhile, and Ctrl-C."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.system import processes
from support.doors.json_shapes import fitting_lines

SCRIPT = """
[[agents.team-lead.turns]]
when = "start"
steps = [
  {usage = {input_tokens = 1000, output_tokens = 50, cost_usd = 0.01}},
  {tool = "TaskCreate", input = {subject = "Say \\u001b[31mhello", description = "Aloud"}},
  {tool = "TaskUpdate", input = {taskId = "1", status = "in_progress"}},
  {tool = "TaskUpdate", input = {taskId = "1", status = "completed"}},
  {tool = "Finish", input = {summary = "Hello was said."}},
  {say = "Done."},
]
"""
TWO = """
[[agents.team-lead.turns]]
when = "start"
steps = [
  {tool = "TaskCreate", input = {subject = "Part 1", description = "-"}},
  {tool = "TaskCreate", input = {subject = "Part 2", description = "-"}},
  {tool = "TaskCreate", input = {subject = "Part 3", description = "-"}},
  {tool = "TaskCreate", input = {subject = "Part 4", description = "-"}},
  {tool = "SpawnTeammate", input = {name = "bob", prompt = "Look on."}},
  {tool = "Finish", input = {summary = "Enough.", override_reason = "The rest can wait."}},
]
[[agents.bob.turns]]
repeat = true
steps = [{say = "I look on."}]
"""
DYING = """
[[agents.team-lead.turns]]
repeat = true
steps = [{kill = 9}]
"""
HANGING = """
[[agents.team-lead.turns]]
when = "start"
steps = [
  {tool = "TaskCreate", input = {subject = "Never ends", description = "Ever"}},
  {tool = "SpawnTeammate", input = {name = "bob", prompt = "Wait with me."}},
  {tool = "TaskCreate", input = {subject = "All are here", description = "Go"}},
  {hang = true},
]
[[agents.bob.turns]]
repeat = true
steps = [{say = "Me too."}, {hang = true}]
"""

Words = Callable[..., tuple[str, ...]]


@pytest.fixture
def goal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Any]
) -> Iterator[Words]:
    """The words of a run that plays a script; whatever it leaves running is stopped."""
    socket = f"bullpen-test-{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv("BULLPEN_TMUX_SOCKET", socket)
    monkeypatch.delenv("TMUX", raising=False)

    def words(script: str, *more: str) -> tuple[str, ...]:
        path = tmp_path / "script.toml"
        path.write_text(script, encoding="utf-8")
        return ("run", "Say hello", "-t", "calc", "--driver", "scripted", "--script", str(path),
                "--mode", "bypassPermissions", *more)  # fmt: skip

    yield words
    run("stop", "--all", "--grace", "1", "-t", "calc")
    if shutil.which("tmux"):
        subprocess.run(["tmux", "-L", socket, "kill-server"], capture_output=True, check=False)


def _states(as_json: Callable[..., Any]) -> dict[str, tuple[str, str]]:
    agents = as_json("ps", "-t", "calc")["agents"]
    return {agent["name"]: (agent["state"], agent["end"]) for agent in agents}


def test_a_goal_that_is_reached_ends_with_0_and_needs_no_terminal(
    spawn: Callable[..., Any], goal: Words
) -> None:
    """R-9.9."""
    done = spawn(*goal(SCRIPT))

    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d  team calc: Say hello", lines[0])
    assert any("task #1 Say" in line for line in lines)
    assert any(re.match(r"Done in \d+s: Hello was said\.", line) for line in lines)
    assert any(re.fullmatch(r"  used: +1 turn, 1\.1k tokens, \$0\.010", line) for line in lines)
    assert not set(done.stdout) & set("\x1b\x07")


def test_for_programs_there_are_lines_of_json_and_the_outcome_is_the_last(
    spawn: Callable[..., Any], goal: Words
) -> None:
    done = spawn(*goal(SCRIPT), "--jsonl")

    assert (done.returncode, done.stderr) == (0, "")
    first, *news, outcome = fitting_lines(done.stdout)
    about = {"schema": "bullpen/goal/1", "kind": "goal", "team": "calc", "text": "Say hello"}
    assert first == about
    assert {row["kind"] for row in news} == {"news"}
    assert outcome["kind"] == "outcome"
    assert (outcome["code"], outcome["status"]) == (0, "done")
    assert outcome["summary"] == "Hello was said."
    assert outcome["tasks"] == {"completed": 1}
    assert outcome["usage"]["costUsd"] == 0.01


def test_a_team_that_fails_ends_with_1(spawn: Callable[..., Any], goal: Words) -> None:
    """R-9.9."""
    done = spawn(*goal(DYING, "--backend", "subprocess"))

    assert done.returncode == 1, done.stdout
    assert "Lost after" in done.stdout
    assert "cause:" in done.stdout
    assert "bullpen run -t calc" in done.stdout


def test_a_team_that_does_not_come_to_the_end_in_time_ends_with_2(
    spawn: Callable[..., Any], as_json: Callable[..., Any], goal: Words
) -> None:
    """R-9.9."""
    done = spawn(*goal(HANGING, "--timeout", "3"))

    assert done.returncode == 2, done.stdout
    assert "Unfinished after" in done.stdout
    assert "bullpen run -t calc" in done.stdout
    assert ("stopped", "suspended") in _states(as_json).values()


@pytest.mark.parametrize("backend", ["in-process", "subprocess"])
def test_ctrl_c_stops_the_agents_in_order_and_keeps_the_team(
    follow: Callable[..., Any],
    as_json: Callable[..., Any],
    goal: Words,
    backend: str,
) -> None:
    following = follow(*goal(HANGING, "--backend", backend))
    lines = [following.line()]
    while "bob is ready" not in lines[-1]:
        lines.append(following.line())
    before = {a["name"]: a["place"]["pid"] for a in as_json("ps", "-t", "calc")["agents"]}
    code, said = following.interrupt()

    assert code == 130
    assert said == "Stopping the agents. Press Ctrl-C again to quit at once.\n"
    rest: list[str] = []
    while not rest or "bullpen ps" not in rest[-1]:
        rest.append(following.line())
    assert any(line.startswith("Interrupted after") for line in rest)
    assert "  bullpen run -t calc" in rest
    assert _states(as_json) == {
        "team-lead": ("stopped", "suspended"),
        "bob": ("stopped", "suspended"),
    }
    # One that nobody has counted yet has ended all the same.
    rows = [processes.look(pid) for pid in before.values()]
    assert [row for row in rows if row is not None and row.runs] == []
    assert len(as_json("task", "list", "-t", "calc")["tasks"]) == 2


def test_a_second_ctrl_c_ends_at_once(follow: Callable[..., Any], goal: Words) -> None:
    following = follow(*goal(HANGING, "--backend", "subprocess"))
    while "bob is ready" not in following.line():
        pass
    # Two signals of one kind might arrive as one.
    following._process.send_signal(signal.SIGTERM)
    code, said = following.interrupt()

    assert code == 130
    assert "Quit at once; agents may still be running. See: bullpen ps -t calc" in said


def test_at_a_terminal_the_screen_opens_and_then_there_is_a_summary(
    at_terminal: Callable[..., tuple[int, str]], goal: Words
) -> None:
    code, shown = at_terminal(*goal(SCRIPT), LINES="24")

    assert code == 0
    screen, summary = shown.split("\x1b[?1049l")
    assert "\x1b[?1049h" in screen
    assert re.search(r"Done in \d+s: Hello was said\.", summary)
    assert "bullpen summary -t calc" in summary
    assert "\x1b[?25h" in shown, "the cursor is back"


def test_with_plain_there_are_lines_at_a_terminal(
    at_terminal: Callable[..., tuple[int, str]], goal: Words
) -> None:
    code, shown = at_terminal(*goal(TWO, "--plain"), LINES="24", NO_COLOR="1")

    assert code == 2, "its lead left tasks open"
    assert "\x1b[" not in shown
    assert "team-lead added tasks #1-#4" in shown
    assert re.search(r"Unfinished after \d+s: Enough\.", shown)
    assert "$" not in shown, "no model was asked"


def test_a_run_says_who_still_runs_and_how_to_stop_them(
    spawn: Callable[..., Any], goal: Words
) -> None:
    done = spawn(*goal(TWO, "--backend", "subprocess", "--keep"))

    assert done.returncode == 2, "its lead left tasks open"
    assert re.search(r"still running: +bob\n", done.stdout), done.stdout
    assert "  bullpen stop --all -t calc\n" in done.stdout


def test_a_signal_at_the_screen_stops_the_agents_and_gives_the_terminal_back(
    at_terminal: Callable[..., tuple[int, str]],
    as_json: Callable[..., Any],
    goal: Words,
) -> None:
    def press(terminal: int, process: subprocess.Popen[bytes]) -> None:
        os.write(terminal, b"rm -rf everything\n")
        process.send_signal(signal.SIGINT)

    code, shown = at_terminal(*goal(HANGING), LINES="24", steps=[("bob", press)])

    assert code == 130
    after = shown.split("\x1b[?1049l")[1]
    assert "Interrupted after" in after
    assert "everything" not in after, "what was typed into the screen does not reach the shell"
    assert set(_states(as_json).values()) == {("stopped", "suspended")}
