"""Identify, find and stop processes.

A pid alone does not identify a process, because the system reuses pids; a pid with its start time
does. Processes that left the process group are found by the nonce in their environment.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import anyio
from anyio import to_thread

from bullpen.agents.contracts.backend import NONCE
from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentFacts, ProcessRecord
from bullpen.protocol.presence import Presence

END_S = 5.0
"""How long a process may take to disappear after its grace period."""

_PROC = "/proc"
_UNKNOWN = "unknown"
_DEAD = frozenset("ZXx")
_PS_S = 10.0
_POLL_S = 0.02
_POLL_MAX_S = 0.2
_LISTS_MAX = 8
_SHARE = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)
_PS_LINE = re.compile(r"(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(.+)")


@dataclass(frozen=True, slots=True)
class Process:
    """One row of the process table."""

    pid: int
    group: int
    state: str
    start: str
    parent: int = 0

    @property
    def runs(self) -> bool:
        """Whether it is running; a zombie has ended and only waits to be reaped."""
        return self.state[0] not in _DEAD


def host_name() -> str:
    """The name of this machine among the hosts of its teams.

    BULLPEN_HOST sets it where the system's name is not unique, as in copies of one image.
    """
    return os.environ.get("BULLPEN_HOST") or socket.gethostname()


def is_elsewhere(place: ProcessRecord | None) -> bool:
    """Whether a process is or was on another machine."""
    return place is not None and place.host != host_name()


def look(pid: int) -> Process | None:
    """The process with this pid now; None if there is none."""
    if pid <= 0:
        return None
    if _has_proc():
        return _proc_row(pid, _boot())
    return next(iter(_ps_rows("-p", str(pid))), None)


def start_of(pid: int) -> str | None:
    """The start of the process with this pid, as a text that is unique to it."""
    row = look(pid)
    return None if row is None else row.start


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


def marked() -> dict[int, str]:
    """Every process with the nonce of a launch, as far as this user may see."""
    found = _proc_nonces() if _has_proc() else _ps_nonces()
    return {pid: nonce for pid, nonce in found if nonce}


def sizes(pids: Iterable[int]) -> dict[int, int]:
    """The memory of processes in bytes; shared memory is divided among them if possible.

    Processes that have ended are left out.
    """
    if not _has_proc():
        wanted = set(pids)
        rows = (line.split() for line in _ps("-ax", "-o", "pid=,rss=").splitlines())
        return {int(pid): int(size) * 1024 for pid, size in rows if int(pid) in wanted}
    found = {pid: _proc_size(pid) for pid in pids}
    return {pid: size for pid, size in found.items() if size is not None}


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
    if place.group is None or _same_boot(place.start) is False:
        return False
    return bool(group_members(place.group))


async def end(
    pid: int | None, start: str | None, group: int | None, nonce: str, grace_s: float
) -> None:
    """Stop a process, its group and all that carry its nonce; return when all are gone.

    They get SIGTERM first and SIGKILL after `grace_s`. Only processes that are certainly the right
    ones are signalled: the process with that pid and start, its group while the process or the
    nonce proves that it is the same group, and carriers of the nonce. This process and its own
    group are never signalled. Raises Unavailable if a process still runs `END_S` after the grace
    period.
    """
    target = _Target(pid, start, group, nonce)
    begun = time.monotonic()
    asked = False
    quiet = 0
    poll_s = _POLL_S
    known: set[tuple[int, str]] = set()
    while True:
        scan = await to_thread.run_sync(target.scan, abandon_on_cancel=True)
        left = [*scan.main, *scan.strays]
        found = {(row.pid, row.start) for row in left}
        # A process can fork and end while the table is read, so one empty scan is not enough.
        quiet = quiet + 1 if not left else 0
        if quiet == 2:
            return
        waited = time.monotonic() - begun
        if waited > grace_s + END_S:
            raise Unavailable(
                f"{_named(left)} still running {waited:.0f} s after the stop signal.",
                remedy="See what it waits for (ps -o pid,stat,wchan,args), then stop it again.",
            )
        if scan.main and not asked:
            target.ask(scan)
            asked = True
        elif waited >= grace_s or not scan.main:
            target.kill(scan)
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

    def scan(self) -> _Scan:
        """Read the process table once."""
        rows = [row for row in table() if row.pid != os.getpid()]
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
        strays = [row for row in marked_rows if row.runs and (row.pid, row.start) not in known]
        return _Scan(main, strays)

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
            _signal(row, signal.SIGTERM)
        for row in scan.main:
            _signal(row, signal.SIGCONT)

    def kill(self, scan: _Scan) -> None:
        """Send SIGKILL to all of it. The next scan finds processes that were forked meanwhile."""
        for row in [*scan.main, *scan.strays]:
            _signal(row, signal.SIGKILL)


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


def _signal(row: Process, number: signal.Signals) -> None:
    """Signal exactly this process, and not another that got its pid meanwhile.

    A process that may not be signalled is named at the end, like all that remain.
    """
    with suppress(ProcessLookupError, PermissionError):
        handle = _handle(row.pid)
        try:
            # A handle stays with its process, which is checked to be the right one.
            if start_of(row.pid) != row.start:
                return
            if handle is None:
                os.kill(row.pid, number)
            else:
                signal.pidfd_send_signal(handle, number)
        finally:
            if handle is not None:
                os.close(handle)


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
    return ", ".join(f"Process {row.pid} (state {row.state})" for row in rows) or "Nothing"


def _refuse_elsewhere(place: ProcessRecord) -> None:
    # A container has its own host name and sees only its own processes.
    if place.host == host_name():
        return
    raise Unavailable(
        f"Process {place.pid} ran on host {place.host}, but this is {host_name()}.",
        remedy=f"Run the command on {place.host}.",
    )


def _same_boot(start: str) -> bool | None:
    """Whether a start was since the last boot of this machine; None if unknown."""
    boot = _boot() if _has_proc() else _UNKNOWN
    return None if boot == _UNKNOWN else start.endswith(f"-{boot}")


# Linux: /proc. A process may disappear at any moment.


def _has_proc() -> bool:
    return os.path.exists(f"{_PROC}/self/stat")


def _boot() -> str:
    try:
        with open(f"{_PROC}/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read()[:8]
    except FileNotFoundError:
        # Some containers hide it; starts are then unique only until the next boot.
        return _UNKNOWN


def _proc_pids() -> list[int]:
    return [int(name) for name in os.listdir(_PROC) if name.isdecimal()]


def _proc_row(pid: int, boot: str) -> Process | None:
    text = _proc_read(pid, "stat")
    if not text:
        return None
    # The program name is in parentheses and may contain anything, even parentheses and spaces.
    fields = text[text.rindex(b")") + 2 :].split()
    start = f"{fields[19].decode()}-{boot}"
    return Process(
        pid, group=int(fields[2]), state=fields[0].decode(), start=start, parent=int(fields[1])
    )


def _proc_size(pid: int) -> int | None:
    match = _SHARE.search(_proc_read(pid, "smaps_rollup"))
    if match:
        return int(match[1]) * 1024
    # Other users' processes show only this, which counts shared pages in full.
    fields = _proc_read(pid, "statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if fields else None


def _proc_nonces() -> list[tuple[int, str]]:
    """The nonce of each process that has one."""
    found: list[tuple[int, str]] = []
    read: set[int] = set()
    # A process that forks and ends meanwhile is in no list with its child: list again, and read
    # what is new. That is quick, unlike reading all of them.
    for _ in range(_LISTS_MAX):
        new = [pid for pid in _proc_pids() if pid not in read]
        if not new:
            break
        read.update(new)
        found += [(pid, nonce) for pid in new if (nonce := _proc_nonce(pid)) is not None]
    return found


def _proc_nonce(pid: int) -> str | None:
    prefix = f"{NONCE}=".encode()
    for entry in _proc_read(pid, "environ").split(b"\0"):
        if entry.startswith(prefix):
            return os.fsdecode(entry[len(prefix) :])
    return None


def _proc_read(pid: int, name: str) -> bytes:
    """A /proc file of a process; empty if the process ended or is another user's."""
    try:
        with open(f"{_PROC}/{pid}/{name}", "rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def table() -> list[Process]:
    """Every process that the system shows, zombies too."""
    if not _has_proc():
        return _ps_rows("-ax")
    boot = _boot()
    rows = (_proc_row(pid, boot) for pid in _proc_pids())
    return [row for row in rows if row is not None]


# macOS: ps.


def _ps(*words: str) -> str:
    """The output of ps; empty if it found nothing."""
    try:
        done = subprocess.run(  # noqa: S603
            ["/bin/ps", *words],
            capture_output=True,
            timeout=_PS_S,
            env={"LC_ALL": "C", "PATH": "/bin:/usr/bin", "TZ": "UTC"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    else:
        why = os.fsdecode(done.stderr).strip()
        if not why:
            return os.fsdecode(done.stdout)
    raise Unavailable(f"Cannot list processes: {why}.", remedy="Check that /bin/ps works.")


def _ps_rows(*which: str) -> list[Process]:
    rows = []
    for line in _ps(*which, "-o", "pid=,ppid=,pgid=,state=,lstart=").splitlines():
        if match := _PS_LINE.fullmatch(line.strip()):
            pid, parent, group, state, start = match.groups()
            start = "-".join(start.split())
            rows.append(
                Process(int(pid), group=int(group), state=state, start=start, parent=int(parent))
            )
    return rows


def _ps_nonces() -> list[tuple[int, str]]:
    """The nonces in the environments that ps prints.

    ps prints the environment right after the command line. So the command line is also read alone,
    and a nonce in it is ignored.
    """
    words = _ps_commands("-axww")
    found = []
    for pid, line in _ps_commands("-axeww").items():
        said = words.get(pid)
        if said is None or not line.startswith(said):
            continue
        match = re.search(rf"(?:^|\s){NONCE}=(\S+)", line[len(said) :])
        if match:
            found.append((pid, match.group(1)))
    return found


def _ps_commands(flags: str) -> dict[int, str]:
    found = {}
    for line in _ps(flags, "-o", "pid=,command=").splitlines():
        pid, _, command = line.strip().partition(" ")
        if pid.isdecimal():
            found[int(pid)] = command
    return found
