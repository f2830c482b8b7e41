"""The command in a real terminal: a tmux of our own, small and large."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from bullpen.agents.system.processes import host_name, start_of
from bullpen.app.stores import open_teams
from bullpen.protocol.agent import ProcessRecord
from support.doors.real_terminal import piped_to, until_shown
from support.doors.tui_teams import at, hire, small_team

DEADLINE_S = 30.0

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")


class Terminal:
    """A terminal that can be typed into and looked at."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self.output = Path(f"{socket}.output")

    def tmux(self, *words: str) -> str:
        """What tmux answers."""
        return subprocess.run(
            ["tmux", "-S", self._socket, *words],
            capture_output=True, text=True, check=True, timeout=20,
        ).stdout  # fmt: skip

    def keys(self, *keys: str) -> None:
        """Type."""
        self.tmux("send-keys", "-t", "tui", *keys)

    def shown(self) -> str:
        """What is on the screen."""
        return self.tmux("capture-pane", "-p", "-t", "tui")

    def until(self, seen: str | Callable[[str], bool]) -> str:
        """The screen once it shows a text."""
        return until_shown(self.shown, self.output, seen, within_s=DEADLINE_S)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A tmux server that ends with the test."""
    socket = str(tmp_path / "tmux")
    yield Terminal(socket)
    subprocess.run(["tmux", "-S", socket, "kill-server"], capture_output=True, check=False)


def start(terminal: Terminal, home: Path, size: tuple[int, int], **env: str) -> None:
    """Begin `bullpen tui` in a terminal of that size; the shell stays when it has ended."""
    words = [sys.executable, "-m", "bullpen", "tui", "-t", "alpha", "--home", str(home)]
    given = {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8", **env}
    run = ["env", "-i", "TERM=tmux-256color", *(f"{key}={value}" for key, value in given.items())]
    command = f"{shlex.join([*run, *words])}; echo ended with $?; exec sleep 60"
    terminal.tmux(
        "-f", "/dev/null", "new-session", "-d", "-s", "tui", "-x", str(size[0]), "-y",
        str(size[1]), command, ";", *piped_to(terminal.output),
    )  # fmt: skip


@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_it_works_in_a_real_terminal(
    tmp_path: Path, terminal: Terminal, size: tuple[int, int]
) -> None:
    home = tmp_path / "home"
    anyio.run(small_team, home)
    start(terminal, home, size)
    first = terminal.until("1/6 tasks")
    assert "alice" in first
    assert len(first.splitlines()) <= size[1]
    terminal.keys("C-t")
    terminal.until("Blocked (3)")
    terminal.keys("g")
    terminal.until("most effort")
    terminal.keys("C-t")
    terminal.until("you → alice:")
    terminal.keys("S-Down")
    terminal.until("─ bob")
    terminal.keys("/att", "Tab", "Enter")
    terminal.until("has no terminal to")
    terminal.keys("-l", "Hello all")
    terminal.keys("C-j")
    terminal.keys("-l", "of you")
    terminal.until("of you")
    terminal.keys("Enter")
    terminal.until("To alice: Hello all")
    terminal.keys("?")
    terminal.until("Keys")
    terminal.keys("Escape")
    terminal.until(lambda shown: "Keys" not in shown)
    terminal.keys("C-d")
    terminal.until("ended with 0")


def test_attach_gives_the_terminal_away_and_takes_it_back(
    tmp_path: Path, terminal: Terminal
) -> None:
    home = tmp_path / "home"
    anyio.run(small_team, home)
    start(terminal, home, (100, 30))
    socket = str(tmp_path / "tmux")
    terminal.tmux("new-session", "-d", "-s", "agent", "echo its own terminal; exec sleep 60")
    pane, pid = terminal.tmux(
        "list-panes", "-t", "agent", "-F", "#{pane_id} #{pane_pid}"
    ).split()  # fmt: skip
    place = ProcessRecord.new(
        backend="tmux", host=host_name(), pid=int(pid), start=start_of(int(pid)),
        group=int(pid), server=socket, pane=pane,
    )  # fmt: skip

    async def join() -> None:
        async with open_teams(at(home)) as teams:
            await hire(teams.open("alpha"), "dan", place=place, backend="tmux")

    anyio.run(join)
    terminal.until("dan")
    terminal.keys("/attach dan", "Enter")
    terminal.until("its own terminal")
    client = terminal.tmux("list-clients", "-t", "agent", "-F", "#{client_name}").strip()
    terminal.tmux("detach-client", "-t", client)
    terminal.until("1/6 tasks")
    terminal.keys("C-c")
    terminal.until("ended with 0")


def test_without_colour_nothing_is_coloured(tmp_path: Path, terminal: Terminal) -> None:
    home = tmp_path / "home"
    anyio.run(small_team, home)
    start(terminal, home, (80, 24), NO_COLOR="1", PYTHONIOENCODING="ascii")
    terminal.until("1/6 tasks")
    shown = terminal.tmux("capture-pane", "-p", "-e", "-t", "tui")
    for code in shown.split("\x1b[")[1:]:
        numbers = code.split("m")[0].split(";")
        # Either a basic attribute, or a grey of which all parts are the same.
        if numbers[:2] in (["38", "2"], ["48", "2"]):
            assert len(set(numbers[2:5])) == 1, numbers
        else:
            assert not {"31", "32", "33", "34", "35", "36"} & set(numbers), numbers
    assert terminal.shown().isascii()
    terminal.keys("C-c")
    terminal.until("ended with 0")
