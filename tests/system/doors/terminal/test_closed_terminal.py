"""Somebody closes the terminal of a run: it ends in order, and another one continues it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from support.doors.closing import (
    COMMANDS,
    MEMBERS,
    TEAM,
    PtyTerminal,
    Stage,
    TmuxTerminal,
    is_gone,
    wait_for,
)
from support.doors.real_terminal import DEADLINE_S
from support.doors.tui_teams import small_team

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")


PICTURE = ("─ team ─", "─ tasks ─", "make coffee", "wants to run", "? help")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A folder in which a team can be started."""
    return Stage(tmp_path)


@pytest.fixture
def tmux() -> Iterator[TmuxTerminal]:
    """A terminal of tmux."""
    folder = Path(tempfile.mkdtemp(prefix="bp-", dir="/tmp"))
    terminal = TmuxTerminal(folder)
    yield terminal
    terminal.close()
    shutil.rmtree(folder)


@pytest.fixture
def ssh() -> Iterator[PtyTerminal]:
    """A terminal without tmux."""
    terminal = PtyTerminal()
    yield terminal
    terminal.close()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_ends_with_its_window_and_continues_in_another(
    stage: Stage, tmux: TmuxTerminal, command: str
) -> None:
    pid = stage.start(tmux, *COMMANDS[command])
    wait_for(stage.waits)
    tmux.hang_up()
    wait_for(lambda: is_gone(pid))
    stage.ended_in_order(MEMBERS[command])
    stage.resumes("run", "-t", TEAM)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_ends_with_its_connection(stage: Stage, ssh: PtyTerminal, command: str) -> None:
    """A command that ssh runs has the terminal as its own: all signals are for it."""
    ssh.command(("sh", "start.sh", *COMMANDS[command]), cwd=stage.folder, env=stage.env)
    wait_for(stage.waits)
    ssh.hang_up()
    assert ssh.ended() == 130
    stage.ended_in_order(MEMBERS[command])
    if command == "up":
        stage.resumes("up")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_that_gets_the_signals_alone_ends_and_leaves_the_terminal_as_it_was(
    stage: Stage, tmux: TmuxTerminal, command: str
) -> None:
    pid = stage.start(tmux, *COMMANDS[command])
    wait_for(stage.waits)
    for number in (signal.SIGHUP, signal.SIGCONT):
        os.kill(pid, number)
    assert f"bullpen ps -t {TEAM}" in tmux.until("ended with 130")
    tmux.say("stty -a")
    settings = tmux.until("icanon").split()
    assert {"icanon", "echo", "isig"} <= set(settings)
    stage.ended_in_order(MEMBERS[command])


@pytest.mark.parametrize("own", [True, False], ids=["with a signal", "without a signal"])
def test_the_screen_of_a_team_closes_with_its_terminal(
    tmp_path: Path, ssh: PtyTerminal, own: bool
) -> None:
    stage = Stage(tmp_path)
    anyio.run(small_team, stage.home)
    words = ("sh", "start.sh", "tui", "-t", "alpha")
    ssh.command(words, cwd=tmp_path, env=stage.env, own=own)
    ssh.until("1/6 tasks")
    ssh.hang_up()
    assert ssh.ended() == 0


@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGSTOP], ids=lambda each: each.name)
def test_a_run_that_was_suspended_goes_on_where_it_was(
    stage: Stage, tmux: TmuxTerminal, number: signal.Signals
) -> None:
    pid = stage.start(tmux, *COMMANDS["run"])
    tmux.until("make coffee")
    wait_for(stage.waits)
    os.kill(pid, number)
    tmux.until("Stopped")
    tmux.say("clear; fg")
    # The whole picture again, and not only what has changed since.
    tmux.until(lambda shown: all(part in shown for part in PICTURE) and "Stopped" not in shown)
    tmux.say("/finish I had tea")
    assert "I had tea" in tmux.until("ended with 0")


def test_a_run_in_lines_that_was_suspended_goes_on(stage: Stage, tmux: TmuxTerminal) -> None:
    pid = stage.start(tmux, *COMMANDS["up --plain"])
    wait_for(stage.waits)
    tmux.keys("C-z")
    tmux.until("Stopped")
    tmux.say("fg")
    # Before that, the shell would get the next key.
    wait_for(lambda: not is_stopped(pid))
    tmux.keys("C-c")
    tmux.until("ended with 130")
    stage.ended_in_order("worker")


def is_stopped(pid: int) -> bool:
    """Whether a process was suspended."""
    told = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=True
    )
    return told.stdout.startswith("T")


ENDLESS = """
import anyio, signal, sys, time
from bullpen.doors.terminal import closed
closed.PATIENCE_S = {patience_s}
async def body():
    with closed.endings() as signals:
        print("begun", flush=True)
        {then}
        async for number in signals:
            print(number.name, flush=True)
            if number == signal.SIGTERM: return
anyio.run(body)
"""


def endless(*, patience_s: float, then: str, ignored: bool = False) -> subprocess.Popen[str]:
    """Start a program that does not end when its terminal is closed."""
    begin = signal.SIG_IGN if ignored else signal.SIG_DFL
    line = f"import signal; signal.signal(signal.SIGHUP, {int(begin)})\n"
    program = subprocess.Popen(
        [sys.executable, "-c", line + ENDLESS.format(patience_s=patience_s, then=then)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stdout is not None
    assert program.stdout.readline() == "begun\n"
    return program


def test_a_program_whose_loop_is_blocked_ends_all_the_same() -> None:
    with endless(patience_s=0.2, then="time.sleep(600)") as program:
        program.send_signal(signal.SIGHUP)
        assert program.wait(DEADLINE_S) == 130


def test_a_program_that_was_told_to_survive_its_terminal_does() -> None:
    with endless(patience_s=0.2, then="pass", ignored=True) as program:
        program.send_signal(signal.SIGHUP)
        program.send_signal(signal.SIGTERM)
        assert program.communicate(timeout=DEADLINE_S)[0] == "SIGTERM\n"
        assert program.returncode == 0


STOPS_SLOWLY = """
import anyio, sys
from bullpen.doors.cli.output.page import Page
from bullpen.doors.cli.output.watch_run import Watcher, watch
from bullpen.doors.terminal import closed
closed.PATIENCE_S = 3600.0
async def start(saw):
    try:
        print("begun", flush=True)
        await anyio.sleep_forever()
    finally:
        print("stopping", flush=True)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(sys.stdin.readline)
        print("stopped", flush=True)
watch(Watcher(Page(), "Wait"), start, elsewhere=None)
"""


def test_a_run_that_is_told_twice_that_its_terminal_goes_still_ends_in_order() -> None:
    """A shell tells its jobs, and then the system tells them too. Nobody is in a hurry."""
    with subprocess.Popen(
        [sys.executable, "-c", STOPS_SLOWLY],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    ) as program:  # fmt: skip
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        program.send_signal(signal.SIGHUP)
        assert program.stdout.readline() == "stopping\n"
        program.send_signal(signal.SIGHUP)
        said = program.communicate("\n", timeout=DEADLINE_S)[0]
    assert said.startswith("stopped\n")
    assert program.returncode == 0
