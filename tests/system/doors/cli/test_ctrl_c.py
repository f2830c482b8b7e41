"""Ctrl-C at any moment of any command: no traceback, and what was answered is true."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bullpen.agents.system import process_table

DEADLINE_S = 60
MOMENTS = 70 if os.environ.get("BULLPEN_NIGHTLY") else 35
SCRIPT = Path(sys.executable).parent / "bullpen"

HANGING = """
[[agents.team-lead.turns]]
when = "start"
steps = [{tool = "TaskCreate", input = {subject = "Wait", description = "-"}}, {hang = true}]
"""


def interrupted(argv: list[str], after_s: float) -> tuple[int, str, str]:
    """Start a command and press Ctrl-C after a while; its exit code and what it said."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    time.sleep(after_s)
    process.send_signal(signal.SIGINT)
    try:
        said, errors = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
        process.wait()
    return process.returncode, said, errors


def is_clean(errors: str) -> bool:
    """Whether no traceback was shown, except of Python before it has reached our code."""
    return "Traceback" not in errors or is_before_us(errors)


def is_before_us(errors: str) -> bool:
    """Whether Python itself was interrupted, while it was looking for our code."""
    return "Traceback" in errors and "bullpen/__main__.py" not in errors


def test_ctrl_c_at_any_moment_shows_no_traceback(
    team: str, ok: Callable[..., str], as_json: Callable[..., Any]
) -> None:
    start = [str(SCRIPT)], [sys.executable, "-m", "bullpen"]
    began = time.monotonic()
    subprocess.run([*start[0], "send", "alice", "first"], check=True, capture_output=True)
    usual_s = time.monotonic() - began
    rng = random.Random(7)
    acknowledged = {"first"}
    codes: list[int] = []
    for number in range(MOMENTS):
        text = f"message {number}"
        words = rng.choice(
            (["send", "alice", text], ["task", "add", text], ["ps"], ["events"], ["doctor"])
        )
        after_s = rng.uniform(0.02, usual_s * 1.1)
        code, _, errors = interrupted([*start[number % 2], *words], after_s)
        assert is_clean(errors), (words, after_s, errors)
        if not is_before_us(errors):
            assert code in (-signal.SIGINT, 130, 0), (words, code, errors)
            codes.append(code)
        if words[0] == "send" and code == 0:
            acknowledged.add(text)
    assert codes.count(-signal.SIGINT) > 2
    box = json.dumps(as_json("inbox", "alice"))
    assert [text for text in acknowledged if f'"{text}"' not in box] == []
    assert "No problems found" in ok("doctor")


def test_ctrl_c_at_any_moment_of_a_run_leaves_nothing_running(tmp_path: Path, home: Path) -> None:
    script = tmp_path / "script.toml"
    script.write_text(HANGING)
    words = ["run", "Say hello", "--driver", "scripted", "--backend", "subprocess"]
    words += ["--mode", "bypassPermissions", "--script", str(script), "--cwd", str(tmp_path)]
    rng = random.Random(5)
    for number in range(8):
        argv = [sys.executable, "-m", "bullpen", *words, "--team", f"calc{number}"]
        code, said, errors = interrupted(argv, rng.uniform(0.05, 3.0))
        assert is_clean(errors), errors
        if not is_before_us(errors):
            assert code in (-signal.SIGINT, 130), (code, said, errors)
            assert len(errors.splitlines()) <= 1, errors
        left = [row.pid for row in process_table.table() if str(home) in _line_of(row.pid)]
        assert left == []


def test_a_run_whose_reader_is_gone_stops_its_agents(tmp_path: Path, home: Path) -> None:
    script = tmp_path / "script.toml"
    steps = '{tool = "TaskCreate", input = {subject = "Wait", description = "-"}}'
    pause = '{tool = "Bash", input = {command = "sleep 1"}}'
    script.write_text(
        '[[agents.team-lead.turns]]\nwhen = "start"\n'
        f"steps = [{f'{steps}, {pause}, ' * 5}{{hang = true}}]\n"
    )
    words = [
        "run",
        "Say hello",
        "--driver",
        "scripted",
        "--backend",
        "subprocess",
        "--team",
        "pipe",
    ]
    words += ["--mode", "bypassPermissions", "--script", str(script), "--cwd", str(tmp_path)]
    errors = tmp_path / "errors"
    with errors.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "bullpen", *words, "--plain"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            start_new_session=True,
        )
    assert process.stdout is not None
    try:
        assert "team pipe" in process.stdout.readline()
        process.stdout.close()
        code = process.wait(DEADLINE_S)
    finally:
        process.kill()
        process.wait()
    said = errors.read_text()
    assert (code, is_clean(said)) == (141, True), said
    assert "Nobody reads the output any more" in said
    left = [row.pid for row in process_table.table() if str(home) in _line_of(row.pid)]
    assert left == []
    shown = [sys.executable, "-m", "bullpen", "summary", "--team", "pipe"]
    summary = subprocess.run(shown, capture_output=True, text=True, check=True, timeout=DEADLINE_S)
    assert "running" not in summary.stdout


def _line_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def test_ctrl_c_in_the_start_of_a_team_leaves_no_worktree_behind(
    tmp_path: Path, home: Path
) -> None:
    """The next start makes worktrees of the same names, for another team."""
    project = tmp_path / "project"
    project.mkdir()
    for words in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "Begin"]):
        subprocess.run(["git", "-C", str(project), *words], check=True)
    made = [str(SCRIPT), "init", "--template", "backlog", "--driver", "scripted", "--tests", "true"]
    subprocess.run([*made, str(project)], check=True, capture_output=True)
    process = subprocess.Popen(
        [str(SCRIPT), "up", str(project / "TEAM.toml"), "--plain"],
        cwd=project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    trees = tmp_path / "project.bullpen"
    deadline = time.monotonic() + DEADLINE_S
    while not list(trees.glob("*/worker-*")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE_S) == 130
    listed = [str(SCRIPT), "team", "list", "--json"]
    teams = json.loads(subprocess.run(listed, check=True, capture_output=True).stdout)["teams"]
    assert teams == [] and list(trees.glob("*/worker-*")) == []
