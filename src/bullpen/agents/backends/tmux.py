"""The tmux backend: the process of a pane is the agent. Nothing is ever typed into a pane.

tmux is called by its command line, because every call needs a timeout and an environment without
our secrets: the first call starts the server, which keeps that environment.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from subprocess import DEVNULL

import anyio
from anyio import to_thread

from bullpen.agents.backends import output_log
from bullpen.agents.backends.handover import Offer, cannot_start, offered
from bullpen.agents.contracts.backend import Launch
from bullpen.agents.system import process_owners, processes
from bullpen.errors import Unavailable
from bullpen.protocol.agent import ProcessRecord

OLDEST = (3, 1)
"""The first tmux version with pane options, which mark our panes."""

_CALL_S = 10.0
_START_S = 30.0
_CLEAN_UP_S = 3.0
_DEFAULT_SOCKET = "default"
_SIZE = ("-x", "200", "-y", "50")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_PLAIN = re.compile(rb"[A-Za-z0-9/._-]")
_GONE = (
    "no server running",
    "error connecting",
    "server exited",
    "lost server",
    "can't find",
    # It has no sessions left and is about to end.
    "no current target",
    "no sessions",
)
# For our own server only. No user configuration is read.
_OPTIONS = (
    ("history-limit", "10000"),
    ("default-terminal", "screen-256color"),
    ("bell-action", "none"),
    ("status-right", ""),
    ("status-interval", "0"),
)


class _NoAnswer(Unavailable):
    """tmux refused. `said` is its message; `gone` if there is no such server or pane."""

    def __init__(self, what: str, said: str) -> None:
        super().__init__(
            f"tmux cannot {what}: {said or 'it gave no reason'}.",
            remedy="Check that tmux works, or choose the subprocess backend.",
        )
        self.said = said
        self.gone = said.startswith(_GONE)


@dataclass(frozen=True, slots=True)
class _Pane:
    """A pane with our mark."""

    pane: str
    pid: int
    dead: bool
    nonce: str
    start: str
    owner: str


class Tmux:
    """Starts each agent in its own window.

    Without a `session`, the window is in a session `bullpen-TEAM` on our own server, which reads no
    configuration. With a `session`, it is in that session of the server at `socket`; the socket
    `default` is the user's own. Existing panes, windows and options there are left alone.
    """

    name = "tmux"

    def __init__(self, socket: str = "bullpen", session: str | None = None) -> None:
        self._socket, self._session = socket, session

    async def check(self) -> None:
        """Raise Unavailable if tmux is missing or too old, or the session does not exist."""
        said = (await _tmux(["-V"], what="say its version")).strip()
        version = re.search(r"(\d+)\.(\d+)", said)
        if version and (int(version[1]), int(version[2])) < OLDEST:
            raise Unavailable(
                f"Agents need tmux {OLDEST[0]}.{OLDEST[1]} or newer, but this is {said}.",
                remedy="Install a newer tmux, or choose the subprocess backend.",
            )
        if self._session is not None:
            target = f"={self._session}"
            await self._call("has-session", "-t", target, what=f"find session {self._session}")

    async def start(self, launch: Launch) -> ProcessRecord:
        """Start the program in a new window; returns when the program runs. Raises Unavailable."""
        await self._remove_dead(_owner(launch))
        pane = None
        try:
            with anyio.fail_after(_START_S), offered(launch) as offer:
                pane, pid, server = await self._new_pane(launch, offer.words)
                start = await self._hand_over(launch, offer, pane, int(pid))
        except BaseException as error:
            if pane is not None:
                await self._discard(pane, launch.nonce)
            if isinstance(error, TimeoutError):
                raise cannot_start(
                    launch, f"tmux did not start it within {_START_S:.0f} s"
                ) from None
            raise
        return _record(int(pid), start, server=server, pane=pane, log=launch.log)

    async def _discard(self, pane: str, nonce: str) -> None:
        """Stop a pane that nobody will know about, even if the start was cancelled."""
        with (
            anyio.CancelScope(shield=True),
            anyio.move_on_after(_CLEAN_UP_S),
            # The start already failed, and its own error says more.
            suppress(Unavailable),
        ):
            await self._kill_pane(pane)
            await processes.end(None, None, None, nonce, 0)

    async def _hand_over(self, launch: Launch, offer: Offer, pane: str, pid: int) -> str:
        """Let the launcher in a pane execute the program. Returns its start time.

        The launcher waits, so that the pane is set up before the program prints anything.
        """
        start = await to_thread.run_sync(processes.start_of, pid)
        if start is not None:
            await to_thread.run_sync(self._record_owners, pid, launch.nonce)
            await self._prepare(launch, pane, start)
            if await offer.taken(pid, start):
                return start
        raise cannot_start(launch, await self._shown(pane) or "its process ended at once")

    def _record_owners(self, pid: int, nonce: str) -> None:
        """Record whose the process of a pane is, and what its server starts for others.

        On our own server, only agents run. On the user's, people have windows too.
        """
        process_owners.record(pid, nonce)
        server = processes.look(pid)
        if server is not None:
            ours = self._session is None and self._socket != _DEFAULT_SOCKET
            whose = process_owners.SHARED if ours else process_owners.NOBODY
            process_owners.record(server.parent, whose)

    async def _new_pane(self, launch: Launch, words: Sequence[str]) -> list[str]:
        """Open a new window in the session, which is created if it is ours and missing."""
        session = self._session or f"bullpen-{_plain(launch.team)}"
        shown = ("-n", _plain(launch.agent), "-P", "-F", "#{pane_id} #{pane_pid} #{socket_path}")
        what = f"open a window for {launch.agent}"
        while True:
            # Another process may create or end the session at any moment, so try both in turn.
            try:
                window = ("new-window", "-d", "-t", f"={session}:", *shown, "--", *words)
                return _fields(await self._call(*window, what=what))
            except _NoAnswer as no:
                if self._session is not None or not no.gone:
                    raise
            try:
                fresh = ("new-session", "-d", "-s", session, *_SIZE, *shown, "--", *words)
                return _fields(await self._call(*self._options(), *fresh, what=what))
            except _NoAnswer as no:
                if not no.gone and not no.said.startswith("duplicate session"):
                    raise

    def _options(self) -> list[str]:
        """The commands that set up the server, if it is our own."""
        if self._socket == _DEFAULT_SOCKET:
            return []
        set_all = [word for pair in _OPTIONS for word in ("set-option", "-g", *pair, ";")]
        return ["start-server", ";", *set_all]

    async def _prepare(self, launch: Launch, pane: str, start: str) -> None:
        os.close(output_log.open_log(launch.log))
        marks = {
            "remain-on-exit": "on",
            "@bullpen_nonce": launch.nonce,
            "@bullpen_start": start,
            "@bullpen_owner": _owner(launch),
            "@bullpen_log": launch.log,
        }
        words: list[str] = []
        for option, value in marks.items():
            words += ["set-option", "-p", "-t", pane, option, _word(value), ";"]
        words += ["pipe-pane", "-t", pane, f"exec cat >> {_for_pipe(launch.log)}"]
        await self._call(*words, what=f"set up the window of {launch.agent}")

    async def alive(self, place: ProcessRecord) -> bool:
        """Whether the process or any process of its group is running. tmux is not asked."""
        return await to_thread.run_sync(processes.runs, place)

    async def stop(self, place: ProcessRecord, nonce: str, *, grace_s: float) -> None:
        """Stop the process, its group and all that carry the nonce, then remove its pane."""
        deadline = anyio.current_time() + grace_s + processes.END_S
        # Check the host first: for an agent on another host, nothing here may be touched.
        await self.alive(place)
        await processes.end(place.pid, place.start, place.group, nonce, grace_s)
        try:
            with anyio.fail_after(max(1.0, deadline - anyio.current_time())):
                await self._remove(place)
        except TimeoutError:
            raise Unavailable(
                f"Process {place.pid} has ended, but tmux did not remove its pane {place.pane}.",
                remedy="Check that the tmux server responds, then stop the agent again.",
            ) from None

    async def screen(self, place: ProcessRecord) -> str:
        """The content of its pane, even after its end; without a pane, the end of its log."""
        if place.server is not None and place.pane is not None:
            capture = ("capture-pane", "-p", "-J", "-S", f"-{output_log.LINES}", "-t", place.pane)
            try:
                said = await _on(place, *_identify(place.pane), ";", *capture, what="read a pane")
            except _NoAnswer as no:
                if not no.gone:
                    raise
            else:
                identity, _, text = said.partition("\n")
                if identity == _identity(place):
                    return output_log.last_lines(text)
        return await to_thread.run_sync(output_log.tail, place.log)

    def attach(self, place: ProcessRecord) -> list[str] | None:
        """The command that shows the pane, even from inside another tmux."""
        if place.server is None or place.pane is None:
            return None
        return ["env", "-u", "TMUX", "tmux", "-S", place.server, "attach", "-t", place.pane]

    async def places(self) -> dict[str, ProcessRecord]:
        """All panes with our mark on this server, of all homes, dead ones too."""
        found: dict[str, ProcessRecord] = {}
        for pane in await self._panes():
            server = await self._told(pane.pane, "#{socket_path}")
            log = await self._told(pane.pane, "#{@bullpen_log}")
            if server and log:
                found[pane.nonce] = _record(
                    pane.pid, pane.start, server=server, pane=pane.pane, log=log
                )
        return found

    async def aclose(self) -> None:
        """Nothing to close: the panes belong to tmux."""

    async def _remove_dead(self, owner: str) -> None:
        """Remove the dead panes of earlier launches of an agent."""
        for pane in await self._panes():
            if pane.dead and pane.owner == owner:
                await self._kill_pane(pane.pane)

    async def _kill_pane(self, pane: str) -> None:
        await self._call("kill-pane", "-t", pane, what="remove a pane", gone_is_fine=True)

    async def _panes(self) -> list[_Pane]:
        fields = "#{pane_id} #{pane_pid} #{pane_dead} #{@bullpen_nonce} #{@bullpen_start}"
        asked = ("list-panes", "-a", "-F", f"{fields} #{{@bullpen_owner}}")
        said = await self._call(*asked, what="list its panes", gone_is_fine=True)
        rows = [line.split(" ", 5) for line in said.splitlines()]
        return [
            _Pane(pane, int(pid), dead == "1", nonce, start, owner)
            for pane, pid, dead, nonce, start, owner in rows
            if nonce and start
        ]

    async def _told(self, pane: str, about: str) -> str:
        asked = ("display-message", "-p", "-t", pane, about)
        said = await self._call(*asked, what="describe a pane", gone_is_fine=True)
        return said.rstrip("\n")

    async def _shown(self, pane: str) -> str:
        asked = ("capture-pane", "-p", "-J", "-t", pane)
        said = await self._call(*asked, what="read a pane", gone_is_fine=True)
        return output_log.last_lines(said)

    async def _remove(self, place: ProcessRecord) -> None:
        """Remove the pane of a record, if it is still the same: new servers reuse the ids."""
        if place.server is None or place.pane is None:
            return
        try:
            said = await _on(place, *_identify(place.pane), what="find a pane")
            if said.rstrip("\n") == _identity(place):
                await _on(place, "kill-pane", "-t", place.pane, what="remove a pane")
        except _NoAnswer as no:
            if not no.gone:
                raise

    async def _call(self, *words: str, what: str, gone_is_fine: bool = False) -> str:
        """The output of tmux; with `gone_is_fine`, "" if the server or pane does not exist."""
        own = () if self._socket == _DEFAULT_SOCKET else ("-f", os.devnull)
        try:
            return await _tmux(["-L", self._socket, *own, *words], what=what)
        except _NoAnswer as no:
            if gone_is_fine and no.gone:
                return ""
            raise


async def _on(place: ProcessRecord, *words: str, what: str) -> str:
    return await _tmux(["-S", place.server or "", *words], what=what)


async def _tmux(words: Sequence[str], *, what: str) -> str:
    """The output of tmux. Raises Unavailable."""
    program = shutil.which("tmux")
    if program is None:
        raise Unavailable(
            "tmux is not installed.",
            remedy="Install tmux (apt install tmux, brew install tmux), "
            "or choose the subprocess backend.",
        )
    kept = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "TMUX_TMPDIR", "USER")
    env = {name: os.environ[name] for name in kept if name in os.environ}
    try:
        with anyio.fail_after(_CALL_S):
            done = await anyio.run_process(
                [program, "-u", *words], stdin=DEVNULL, check=False, cwd="/", env=env
            )
    except TimeoutError:
        raise _NoAnswer(what, f"it did not respond within {_CALL_S:.0f} s") from None
    if done.returncode != 0:
        raise _NoAnswer(what, os.fsdecode(done.stderr).strip())
    return done.stdout.decode("utf-8", "replace")


def _for_pipe(path: str) -> str:
    """A path, escaped for the one command line that tmux expands and gives to a shell."""
    octal = (
        chr(byte) if _PLAIN.match(bytes([byte])) else f"\\{byte:03o}" for byte in os.fsencode(path)
    )
    return f"\"$(printf '{''.join(octal)}')\""


def _fields(said: str) -> list[str]:
    """The pane, the pid and the path of the socket, which may contain spaces."""
    return said.rstrip("\n").split(" ", 2)


def _plain(name: str) -> str:
    """A name without characters that are special to tmux."""
    return _NOT_IN_NAMES.sub("-", name)


def _word(word: str) -> str:
    """A word escaped for tmux: a semicolon at its end would start another command."""
    return f"{word[:-1]}\\;" if word.endswith(";") else word


def _record(pid: int, start: str, **place: str) -> ProcessRecord:
    # tmux makes the process of a pane the leader of its own session and group.
    host = processes.host_name()
    return ProcessRecord.new(backend=Tmux.name, host=host, pid=pid, start=start, group=pid, **place)


def _owner(launch: Launch) -> str:
    return f"{launch.agent}@{launch.team}"


def _identify(pane: str) -> tuple[str, ...]:
    return ("display-message", "-p", "-t", pane, "#{pane_pid} #{@bullpen_start}")


def _identity(place: ProcessRecord) -> str:
    return f"{place.pid} {place.start}"
