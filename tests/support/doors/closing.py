"""Commands in terminals that are closed under them, and what the records say afterwards."""

from __future__ import annotations

import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

import anyio

from bullpen.agents.system import processes
from bullpen.app.settings import Settings
from bullpen.app.stores import open_teams
from bullpen.errors import NotFound
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.names import LEAD
from bullpen.team.agents.verdict import MANNERS
from bullpen.team.team import Team
from support.doors.real_terminal import DEADLINE_S, RealTerminal

T = TypeVar("T")

TEAM = "closed"
SHELL = ("bash", "--norc", "--noprofile", "-i")
COMMANDS = {
    "run": ("run", "A goal", "-t", TEAM, "--driver", "scripted", "--script", "s.toml"),
    "up": ("up",),
    "up --plain": ("up", "--plain"),
}
MEMBERS = {"run": LEAD, "up": "worker", "up --plain": "worker"}

_UNHURRIED = (
    "from bullpen.doors.terminal import closed; closed.PATIENCE_S = 3600.0;"
    " from bullpen.__main__ import main; main()"
)
"""What ends in time ends by itself: that which ends a command that hangs is far away."""

_SCRIPT = """
[[agents.NAME.turns]]
repeat = true
steps = [{tool = "Bash", input = {command = "make coffee"}}, {say = "Done."}]
"""
_TEAM_FILE = f"""
[team]
name = "{TEAM}"

[[member]]
name = "worker"
driver = "scripted"
script = "s.toml"
backend = "subprocess"

[[task]]
id = "coffee"
subject = "Coffee"
"""
_OWN_TERMINAL = (
    "import fcntl, os, signal, sys, termios\n"
    "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
    "if sys.argv[1] == 'own': fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "os.execvp(sys.argv[2], sys.argv[2:])\n"
)


class Closable(Protocol):
    """A terminal with a shell in it."""

    def shell(self, *, cwd: Path, env: Mapping[str, str]) -> None:
        """Start the shell."""

    def say(self, text: str) -> None:
        """Type a line."""

    def hang_up(self) -> None:
        """Close the terminal."""


class TmuxTerminal(RealTerminal):
    """A terminal of tmux with an interactive shell."""

    def shell(self, *, cwd: Path, env: Mapping[str, str]) -> None:
        """Start the shell."""
        variables = (f"{key}={value}" for key, value in env.items())
        self.open(shlex.join(["env", "-i", *variables, "TERM=tmux-256color", *SHELL]), cwd=cwd)


class PtyTerminal:
    """A terminal without tmux, as ssh makes it."""

    def __init__(self) -> None:
        self._closing = threading.Event()
        self._reader: threading.Thread | None = None
        self._ours = -1
        self._written = b""
        self._process: subprocess.Popen[bytes] | None = None

    def shell(self, *, cwd: Path, env: Mapping[str, str]) -> None:
        """Start the shell."""
        self.command(SHELL, cwd=cwd, env=env)

    def command(
        self, words: tuple[str, ...], *, cwd: Path, env: Mapping[str, str], own: bool = True
    ) -> None:
        """Start a command. If the terminal is not its own, no signal says that it was closed."""
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _OWN_TERMINAL, "own" if own else "lent", *words],
            stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, start_new_session=True,
            env={**env, "TERM": "xterm-256color"},
        )  # fmt: skip
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def say(self, text: str) -> None:
        """Type a line."""
        os.write(self._ours, f"{text}\n".encode())

    def hang_up(self) -> None:
        """Close the connection."""
        self._closing.set()
        if self._reader is not None:
            self._reader.join()

    def close(self) -> None:
        """Close the connection, and wait for what it was for."""
        self.hang_up()
        if self._process is not None:
            self.ended()

    def until(self, text: str) -> None:
        """Wait until a text was written."""
        wait_for(lambda: text.encode() in self._written)

    def ended(self) -> int:
        """How the command ended."""
        assert self._process is not None
        return self._process.wait(DEADLINE_S)

    def _read(self) -> None:
        # What nobody reads would block whoever writes.
        while not self._closing.is_set():
            if select.select([self._ours], [], [], 0.02)[0]:
                with suppress(OSError):
                    self._written += os.read(self._ours, 65536)
        os.close(self._ours)


class Stage:
    """A folder with a script and a team file, and commands that are run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        self.settings = Settings(home=self.home, team=TEAM, agent=LEAD)
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "BULLPEN_HOME": str(self.home),
            "LC_ALL": "C.UTF-8",
            "PS1": "ended with $? ",
        }
        script = "".join(_SCRIPT.replace("NAME", name) for name in (LEAD, "worker"))
        (folder / "s.toml").write_text(script)
        (folder / "TEAM.toml").write_text(_TEAM_FILE)
        start = f'echo $$ > pid; exec {shlex.join([sys.executable, "-c", _UNHURRIED])} "$@"'
        (folder / "start.sh").write_text(start)

    def start(self, terminal: Closable, *words: str) -> int:
        """Start a command in a terminal; its process."""
        terminal.shell(cwd=self.folder, env=self.env)
        terminal.say(f"clear; sh start.sh {shlex.join(words)}")
        named = self.folder / "pid"
        wait_for(lambda: named.is_file() and bool(named.read_text().strip()))
        return int(named.read_text())

    def waits(self) -> bool:
        """Whether the member waits for an answer, in this launch."""
        events = self.happened()
        ready = [at for at, op in enumerate(events) if op == "agent.ready"]
        return bool(ready) and "request.permission" in events[ready[-1] :]

    def happened(self) -> list[str]:
        """The events of the team, in order; none before there is a team."""
        nothing: list[str] = []
        return self.look(_events, missing=nothing)

    def look(self, ask: Callable[[Team], Awaitable[T]], *, missing: T) -> T:
        """What the records say; `missing` as long as there are none."""

        async def read() -> T:
            async with open_teams(self.settings) as teams:
                try:
                    return await ask(teams.open(TEAM))
                except NotFound:
                    return missing

        return anyio.run(read)

    def ended_in_order(self, name: str) -> None:
        """Assert that a run was stopped, and nothing of it is left."""
        agent = self.look(lambda team: _agent(team, name), missing=None)
        assert agent is not None
        assert (agent.phase, agent.end) == ("ended", "suspended")
        assert agent.cause == "the run was interrupted"
        assert self.look(lambda team: team.agents.leader(), missing=None) is None
        assert agent.process is not None
        assert agent.process.pid is not None
        assert is_gone(agent.process.pid), "its agent runs"

    def resumes(self, *words: str) -> None:
        """Assert that another run continues where this one stopped."""
        before = len(self.happened())
        with subprocess.Popen(
            [sys.executable, "-m", "bullpen", *words, "--plain"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            cwd=self.folder, env=self.env, encoding="utf-8", start_new_session=True,
        ) as second:  # fmt: skip
            try:
                wait_for(
                    lambda: second.poll() is not None or "agent.ready" in self.happened()[before:]
                )
                second.send_signal(signal.SIGTERM)
                said = second.communicate(timeout=DEADLINE_S)[0]
            finally:
                second.kill()
        assert second.returncode == MANNERS["interrupted"].code, said


async def _events(team: Team) -> list[str]:
    return [event.op for event in await team.events()]


async def _agent(team: Team, name: str) -> AgentFacts | None:
    member = (await team.agents.config()).member(name)
    return None if member is None else member.agent


def is_gone(pid: int) -> bool:
    """Whether a process has ended."""
    row = processes.look(pid)
    return row is None or not row.runs


def wait_for(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, "it hangs"
        time.sleep(0.05)
