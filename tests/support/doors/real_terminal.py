"""A real terminal for tests: a tmux server of its own, to type into and to look at."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

DEADLINE_S = 60.0
_POLL_S = 0.02
_LOOK_S = 1.0
"""How often the screen is looked at though nothing was written: only in case tmux redraws it."""


def piped_to(file: Path) -> tuple[str, str]:
    """The words for tmux that let a pane write all its output to a file as well."""
    return "pipe-pane", f"exec cat > {shlex.quote(str(file))}"


def until_shown(
    capture: Callable[[], str],
    output: Path,
    seen: str | Callable[[str], bool],
    *,
    within_s: float = DEADLINE_S,
) -> str:
    """The screen once it shows a text. Looking costs a process, so it looks when it changed."""
    deadline = time.monotonic() + within_s
    looked_at, size = 0.0, -1
    while (now := time.monotonic()) < deadline:
        # The size before the screen: what comes meanwhile is seen the next time. The screen of tmux
        # is never behind this file.
        written = output.stat().st_size if output.exists() else 0
        if written != size or now - looked_at > _LOOK_S:
            looked_at, size = now, written
            shown = capture()
            if seen in shown if isinstance(seen, str) else seen(shown):
                return shown
        time.sleep(_POLL_S)
    raise AssertionError(f"never seen: {seen}\n{capture()}")


class RealTerminal:
    """A terminal of one command. Use it with a folder that only it has, and close it."""

    def __init__(self, folder: Path) -> None:
        # Short: the path of a socket has room for some 100 bytes.
        self._socket = str(folder / "tmux")
        self._pid = folder / "tmux.pid"
        self._output = folder / "tmux.output"

    def start(
        self, *words: str, cwd: Path, env: Mapping[str, str], size: tuple[int, int] = (100, 30)
    ) -> None:
        """Run a command of bullpen; how it ended and what it left of the terminal is shown."""
        given = {"PATH": os.environ["PATH"], "HOME": str(cwd), "LC_ALL": "C.UTF-8", **env}
        clean = [
            "env",
            "-i",
            "TERM=tmux-256color",
            *(f"{key}={each}" for key, each in given.items()),
        ]
        line = shlex.join([*clean, sys.executable, "-m", "bullpen", *words])
        command = (
            f"sh -c {shlex.quote(f'echo $$ > {self._pid}; exec {line}')}; echo ended with $?;"
            " stty -a; exec sleep 600"
        )
        self.open(command, cwd=cwd, size=size)

    def open(self, command: str, *, cwd: Path, size: tuple[int, int] = (100, 30)) -> None:
        """Run any command line."""
        sized = ("-x", str(size[0]), "-y", str(size[1]), "-c", str(cwd))
        begun = ("new-session", "-d", *sized, command, ";", *piped_to(self._output))
        self._tmux("-f", os.devnull, *begun)

    def hang_up(self) -> None:
        """Close the terminal under what runs in it."""
        self._tmux("kill-session")

    @property
    def pid(self) -> int:
        """The process of the command."""
        return int(self._pid.read_text())

    def keys(self, *keys: str) -> None:
        """Press keys, by their names in tmux."""
        self._tmux("send-keys", *keys)

    def say(self, text: str) -> None:
        """Type a line."""
        self._tmux("send-keys", "-l", text)
        self.keys("Enter")

    def shown(self) -> str:
        """What is on the screen."""
        return self._tmux("capture-pane", "-p")

    def until(self, seen: str | Callable[[str], bool]) -> str:
        """The screen once it shows a text."""
        return until_shown(self.shown, self._output, seen)

    def close(self) -> None:
        """End it and what runs in it."""
        subprocess.run(
            ["tmux", "-S", self._socket, "kill-server"], capture_output=True, check=False
        )

    def _tmux(self, *words: str) -> str:
        return subprocess.run(
            ["tmux", "-u", "-S", self._socket, *words],
            capture_output=True, encoding="utf-8", check=True, timeout=30,
        ).stdout  # fmt: skip
