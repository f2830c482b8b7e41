"""Identify, find and stop processes.

A pid alone does not identify a process, because the system reuses pids; a pid with its start time
does. Processes that left the process group are found by the nonce in their environment, by the
record of who started them, and below the process of their launch.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass

import anyio
from anyio import to_thread

from bullpen.agents.system.process_owners import launch_of_each, owners
from bullpen.agents.system.process_table import (
    Process,
    look,
    marked,
    same_boot,
    start_of,
    table,
)
from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentFacts, ProcessRecord
from bullpen.protocol.presence import Presence

__all__ = [
    "END_S",
    "Process",
    "ancestors",
    "carriers",
    "descendants",
    "end",
    "end_each",
    "group_members",
    "host_name",
    "is_alive",
    "is_elsewhere",
    "look",
    "marked",
    "runs",
    "start_of",
    "starting_beat",
    "table",
    "this_process",
]

END_S = 5.0
"""How long a process may take to disappear after SIGKILL."""

_POLL_S = 0.02
_POLL_MAX_S = 0.2
_STRAYS_FIRST_S = 1.0


def host_name() -> str:
    """The name of this machine among the hosts of its teams.

    BULLPEN_HOST sets it where the system's name is not unique, as in copies of one image.
    """
    return os.environ.get("BULLPEN_HOST") or socket.gethostname()


def is_elsewhere(place: ProcessRecord | None) -> bool:
    """Whether a process is or was on another machine."""
    return place is not None and place.host != host_name()


def ancestors(pid: int) -> list[Process]:
    """The ancestors of a process, the nearest first. An orphan's parent is its adopter.

    The list ends where the system shows no more.
    """
    found: list[Process] = []
    row = look(pid)
    while row is not None and row.parent > 0:
        row = look(row.parent)
        if row is not None:
            found.append(row)
    return found


def descendants(pid: int) -> list[Process]:
    """The running descendants of a process, as far as the processes between them still run."""
    rows = table()
    found: list[Process] = []
    parents = {pid}
    while parents:
        children = [row for row in rows if row.parent in parents and row.runs]
        found += children
        parents = {row.pid for row in children}
    return found


def is_alive(pid: int, start: str) -> bool:
    """Whether exactly this process is still running."""
    row = look(pid)
    return row is not None and row.runs and row.start == start


def group_members(group: int) -> list[int]:
    """The running pids of a process group."""
    return [row.pid for row in table() if row.group == group and row.runs]


def carriers(nonce: str) -> list[int]:
    """The pids of all processes that were started with this nonce in their environment."""
    return [pid for pid, found in marked().items() if found == nonce] if nonce else []


def runs(place: ProcessRecord) -> bool:
    """Whether the process of a record, or any process of its group, is running.

    Raises Unavailable if it ran on another machine, so that this one cannot tell.
    """
    if place.pid is None or place.start is None:
        _refuse_elsewhere(place)
        return False
    row = look(place.pid)
    if row is not None and row.start == place.start and row.runs:
        return True
    _refuse_elsewhere(place)
    if row is not None and row.start != place.start:
        # The pid was reused, so the group of that number had ended before.
        return False
    if place.group is None or same_boot(place.start) is False:
        return False
    return bool(group_members(place.group))


async def end(
    pid: int | None, start: str | None, group: int | None, nonce: str, grace_s: float
) -> None:
    """Stop a process, its group and all that belongs to its launch; return when all are gone.

    They get SIGTERM first and SIGKILL `grace_s` later. Only processes that are certainly the right
    ones are signalled: the process with that pid and start, its group while the process or the
    nonce proves that it is the same group, carriers of the nonce, and with a nonce what descends
    from any of them, except other launches. This process and its own group are never signalled.
    Raises Unavailable if a process still runs `END_S` after SIGKILL.
    """
    target = _Target(pid, start, group, nonce)
    # Times count from the signals, not from the call: one look can take longer than all of them.
    asked = killed = None
    quiet = 0
    poll_s = _POLL_S
    known: set[tuple[int, str]] = set()
    while True:
        begun = time.monotonic()
        scan = await to_thread.run_sync(target.scan, abandon_on_cancel=True)
        left = [*scan.main, *scan.strays]
        found = {(row.pid, row.start) for row in left}
        # A process can fork and end while the table is read, so one empty scan is not enough.
        quiet = quiet + 1 if not left else 0
        if quiet == 2:
            return
        if left and killed is not None and begun - killed > END_S:
            raise target.survived(left, begun - killed)
        waited = 0.0 if asked is None else time.monotonic() - asked
        if scan.main and asked is None:
            target.ask(scan)
            asked = time.monotonic()
        elif left and (waited >= grace_s or not scan.main):
            strays_first = waited < grace_s + _STRAYS_FIRST_S
            if target.kill(scan, strays_first=strays_first) and killed is None:
                killed = time.monotonic()
        # What forks and ends all the time is caught only by looking again at once.
        await anyio.sleep(poll_s if found and found <= known else 0)
        known |= found
        poll_s = min(poll_s * 1.3, _POLL_MAX_S)


@dataclass(frozen=True, slots=True)
class _Scan:
    """The running processes of a target, in its group and outside of it."""

    main: list[Process]
    strays: list[Process]


class _Target:
    """What to stop, and what proves that it is the right process."""

    def __init__(self, pid: int | None, start: str | None, group: int | None, nonce: str) -> None:
        self._pid, self._start, self._nonce = pid, start, nonce
        # Never signal our own group.
        self._group = group if group is not None and group > 1 and group != os.getpgrp() else None
        self._seen: set[tuple[int, str]] = set()
        self._strays: dict[tuple[int, str], Process] = {}
        self._forbidden: set[tuple[int, str]] = set()

    def scan(self) -> _Scan:
        """Read the process table once."""
        everything = table()
        rows = [row for row in everything if row.pid != os.getpid()]
        # After the table, and each looked up at once: what forks all the time ends soon.
        pids = [pid for pid in carriers(self._nonce) if pid != os.getpid()]
        marked_rows = [row for pid in pids if (row := look(pid)) is not None]
        marks = set(pids)
        in_group = [row for row in rows if row.group == self._group]
        if not self._group_is_ours(in_group, marks):
            in_group = []
        leader = [
            row
            for row in rows
            if row.pid == self._pid and row.start == self._start and row not in in_group
        ]
        main = [row for row in [*leader, *in_group] if row.runs]
        self._seen.update((row.pid, row.start) for row in main)
        known = {(row.pid, row.start) for row in main}
        strays = {(row.pid, row.start): row for row in [*marked_rows, *self._below(everything)]}
        # What was below a process that is gone belongs to nobody now, but is still ours.
        self._strays.update(strays)
        return _Scan(main, [row for at, row in strays.items() if row.runs and at not in known])

    def _below(self, rows: list[Process]) -> list[Process]:
        """What belongs to the launch by its place in the table, whatever its environment says."""
        if not self._nonce:
            return []
        roots = {self._pid: self._start} if self._pid is not None else {}
        here = [row for row in rows if roots.get(row.pid) == row.start]
        ours = {(row.pid, row.start): self._nonce for row in here}
        ours |= dict.fromkeys(self._strays, self._nonce)
        launch = launch_of_each(rows, owners(), carried=(), known=ours)
        group = os.getpgrp()
        return [
            row
            for row in rows
            if launch.get(row.pid) == self._nonce and row.pid != os.getpid() and row.group != group
        ]

    def _group_is_ours(self, members: list[Process], marks: set[int]) -> bool:
        """Whether it is still the same group: its id is not reused while a known member exists."""
        return any(
            (row.pid == self._pid and row.start == self._start)
            or row.pid in marks
            or (row.pid, row.start) in self._seen
            for row in members
        )

    def ask(self, scan: _Scan) -> None:
        """Send SIGTERM to the group; stopped processes are continued so that they get it."""
        for row in scan.main:
            self._send(row, signal.SIGTERM)
        for row in scan.main:
            self._send(row, signal.SIGCONT)

    def kill(self, scan: _Scan, *, strays_first: bool) -> bool:
        """Send SIGKILL to all of it. The next scan finds processes that were forked meanwhile.

        With `strays_first`, the main process is left until no stray runs: while it lives, it adopts
        their orphans, so that these are found. Returns whether nothing was left out.
        """
        for row in scan.strays:
            self._send(row, signal.SIGKILL)
        if strays_first and scan.strays and scan.main:
            return False
        for row in scan.main:
            self._send(row, signal.SIGKILL)
        return True

    def _send(self, row: Process, number: signal.Signals) -> None:
        if not _signal(row, number):
            self._forbidden.add((row.pid, row.start))

    def survived(self, left: list[Process], seconds: float) -> Unavailable:
        """The error that names what still runs, and why."""
        forbidden = [row for row in left if (row.pid, row.start) in self._forbidden]
        if forbidden:
            return Unavailable(
                f"{_named(forbidden)} still running: this user may not signal it.",
                remedy="Stop it as the user that it runs as (ps -o pid,user,args).",
            )
        return Unavailable(
            f"{_named(left)} still running {seconds:.0f} s after SIGKILL.",
            remedy="See what it waits for (ps -o pid,stat,wchan,args), then stop it again.",
        )


async def end_each(found: Iterable[tuple[int, str]], *, grace_s: float) -> None:
    """Stop processes, each given by pid and start, with their groups. Raises Unavailable."""
    async with anyio.create_task_group() as group:
        for pid, start in found:
            row = await anyio.to_thread.run_sync(look, pid)
            if row is not None and row.start == start and row.runs:
                group.start_soon(end, pid, start, row.group, "", grace_s)


def this_process(backend: str, *, group: int | None) -> ProcessRecord:
    """The record of an agent that runs in this process."""
    pid = os.getpid()
    return ProcessRecord.new(
        backend=backend, host=host_name(), pid=pid, start=start_of(pid), group=group
    )


def starting_beat(name: str, agent: AgentFacts, detail: str, now_ms: int) -> Presence:
    """The heartbeat that this process sends for an agent that it is about to start."""
    return Presence.new(
        agent=name,
        state="starting",
        since_ms=agent.since_ms,
        beat_ms=now_ms,
        detail=detail,
        host=host_name(),
        pid=os.getpid(),
        start=start_of(os.getpid()),
        nonce=agent.nonce,
    )


def _signal(row: Process, number: signal.Signals) -> bool:
    """Signal exactly this process, and not another that got its pid meanwhile.

    False if this user may not signal it.
    """
    try:
        handle = _handle(row.pid)
        try:
            # A handle stays with its process, which is checked to be the right one.
            if start_of(row.pid) != row.start:
                return True
            if handle is None:
                os.kill(row.pid, number)
            else:
                signal.pidfd_send_signal(handle, number)
        finally:
            if handle is not None:
                os.close(handle)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def _handle(pid: int) -> int | None:
    """A handle on a process, if the system supports it."""
    try:
        return os.pidfd_open(pid)
    except AttributeError:
        return None
    except OSError as error:
        if error.errno == errno.ENOSYS:
            return None
        raise


def _named(rows: Iterable[Process]) -> str:
    return ", ".join(f"Process {row.pid} (state {row.state})" for row in rows)


def _refuse_elsewhere(place: ProcessRecord) -> None:
    # A container has its own host name and sees only its own processes.
    if place.host == host_name():
        return
    raise Unavailable(
        f"Process {place.pid} ran on host {place.host}, but this is {host_name()}.",
        remedy=f"Run the command on {place.host}.",
    )
