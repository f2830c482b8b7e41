"""The operating system's word: which process this is, whether it runs, and how to end it for good.

A pid alone names nobody, because the system gives it out again; a pid with its start does. What
moved to other process groups is found by the nonce in its environment.
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

from bullpen.agents.backends.base import NONCE
from bullpen.errors import Unavailable
from bullpen.protocol.agent import ProcessRecord

END_S = 5.0
"""How long after its grace a process may take to be gone, before that is an error."""

_PROC = "/proc"
_UNKNOWN = "unknown"
_DEAD = frozenset("ZXx")
_PS_S = 10.0
_POLL_S = 0.02
_POLL_MAX_S = 0.2
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
        """Whether it runs; a zombie has ended and only waits to be counted."""
        return self.state[0] not in _DEAD


def host_name() -> str:
    """The name of this machine among all that run agents of its teams.

    BULLPEN_HOST says it where the system's name is not its own, as in copies of one image.
    """
    return os.environ.get("BULLPEN_HOST") or socket.gethostname()


def is_elsewhere(place: ProcessRecord | None) -> bool:
    """Whether something runs, or ran, on another machine."""
    return place is not None and place.host != host_name()


def look(pid: int) -> Process | None:
    """What the system says about a pid now; None if it says that there is none."""
    if pid <= 0:
        return None
    if _has_proc():
        return _proc_row(pid, _boot())
    return next(iter(_ps_rows("-p", str(pid))), None)


def start_of(pid: int) -> str | None:
    """When the process of that pid started, as a text that no other process ever has."""
    row = look(pid)
    return None if row is None else row.start


def ancestors(pid: int) -> list[Process]:
    """The processes from which one descends, the nearest first. Whose parent has ended is adopted.

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
    """The processes that descend from one and run, as far as those between them still do."""
    rows = table()
    found: list[Process] = []
    parents = {pid}
    while parents:
        children = [row for row in rows if row.parent in parents and row.runs]
        found += children
        parents = {row.pid for row in children}
    return found


def is_alive(pid: int, start: str) -> bool:
    """Whether that very process still runs."""
    row = look(pid)
    return row is not None and row.runs and row.start == start


def group_members(group: int) -> list[int]:
    """The pids that run in a process group."""
    return [row.pid for row in table() if row.group == group and row.runs]


def carriers(nonce: str) -> list[int]:
    """The pids of all processes whose environment at their start held this nonce."""
    return [pid for pid, found in marked().items() if found == nonce] if nonce else []


def marked() -> dict[int, str]:
    """Every process that carries a nonce of any launch, as far as this user may see."""
    found = _proc_nonces() if _has_proc() else _ps_nonces()
    return {pid: nonce for pid, nonce in found if nonce}


def sizes(pids: Iterable[int]) -> dict[int, int]:
    """The bytes of memory of processes, what they share divided among them where that is known.

    One that has ended meanwhile is left out.
    """
    if not _has_proc():
        wanted = set(pids)
        rows = (line.split() for line in _ps("-ax", "-o", "pid=,rss=").splitlines())
        return {int(pid): int(size) * 1024 for pid, size in rows if int(pid) in wanted}
    found = {pid: _proc_size(pid) for pid in pids}
    return {pid: size for pid, size in found.items() if size is not None}


def runs(place: ProcessRecord) -> bool:
    """Whether the process of a record, or any of its group, still runs.

    Raises:
        Unavailable: it ran on another machine, about which this one cannot say anything.
    """
    if place.pid is None or place.start is None:
        _refuse_elsewhere(place)
        return False
    row = look(place.pid)
    if row is not None and row.start == place.start and row.runs:
        return True
    _refuse_elsewhere(place)
    if row is not None and row.start != place.start:
        # The number was given out again, so the group of that number had ended before.
        return False
    if place.group is None or _same_boot(place.start) is False:
        return False
    return bool(group_members(place.group))


async def end(
    pid: int | None, start: str | None, group: int | None, nonce: str, grace_s: float
) -> None:
    """End a process, its group and what carries its nonce; return when all of it is gone.

    First it is asked (SIGTERM), after `grace_s` it is killed, and so is what left its group.
    Only what is surely meant is ever signalled: the process of that pid and start, its group as
    long as it or the nonce proves that the group is still this one, and carriers of the nonce.
    This process and its own group never are.

    Raises:
        Unavailable: something still runs `END_S` after the grace; the text names it.
    """
    target = _Target(pid, start, group, nonce)
    begun = time.monotonic()
    asked = False
    quiet = 0
    poll_s = _POLL_S
    while True:
        scan = await to_thread.run_sync(target.scan, abandon_on_cancel=True)
        left = [*scan.main, *scan.strays]
        # A process can fork and end while the table is read, so one empty look is not enough.
        quiet = quiet + 1 if not left else 0
        if quiet == 2:
            return
        waited = time.monotonic() - begun
        if waited > grace_s + END_S:
            raise Unavailable(
                f"{_named(left)} still runs {waited:.0f} s after it was told to end.",
                remedy="Look what it waits for (ps -o pid,stat,wchan,args), then stop it again.",
            )
        if scan.main and not asked:
            target.ask(scan)
            asked = True
        elif waited >= grace_s or not scan.main:
            target.kill(scan)
        await anyio.sleep(poll_s if left else 0)
        poll_s = min(poll_s * 1.3, _POLL_MAX_S)


@dataclass(frozen=True, slots=True)
class _Scan:
    """What of a target still runs: in its group, and outside of it."""

    main: list[Process]
    strays: list[Process]


class _Target:
    """What is to be ended, and what proves that it is the right thing."""

    def __init__(self, pid: int | None, start: str | None, group: int | None, nonce: str) -> None:
        self._pid, self._start, self._nonce = pid, start, nonce
        # Nobody ends the group it is in itself: it would not live to tell.
        self._group = group if group is not None and group > 1 and group != os.getpgrp() else None
        self._seen: set[tuple[int, str]] = set()

    def scan(self) -> _Scan:
        """Look at the process table once."""
        marks = set(carriers(self._nonce))
        rows = [row for row in table() if row.pid != os.getpid()]
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
        strays = [row for row in rows if row.pid in marks and row.runs and row not in main]
        return _Scan(main, strays)

    def _group_is_ours(self, members: list[Process], marks: set[int]) -> bool:
        """As long as one member is known, the number of the group cannot have been reused."""
        return any(
            (row.pid == self._pid and row.start == self._start)
            or row.pid in marks
            or (row.pid, row.start) in self._seen
            for row in members
        )

    def ask(self, scan: _Scan) -> None:
        """Ask what is in the group to end; what is stopped goes on, to hear it."""
        for row in scan.main:
            _signal(row, signal.SIGTERM)
        for row in scan.main:
            _signal(row, signal.SIGCONT)

    def kill(self, scan: _Scan) -> None:
        """Kill all of it. What is forked meanwhile is found by the next look."""
        for row in [*scan.main, *scan.strays]:
            _signal(row, signal.SIGKILL)


async def end_each(found: Iterable[tuple[int, str]], *, grace_s: float) -> None:
    """End processes, each by its pid and start, with their groups: those that still run.

    Raises:
        Unavailable: one of them does not end.
    """
    async with anyio.create_task_group() as group:
        for pid, start in found:
            row = await anyio.to_thread.run_sync(look, pid)
            if row is not None and row.start == start and row.runs:
                group.start_soon(end, pid, start, row.group, "", grace_s)


def this_process(backend: str, *, group: int | None) -> ProcessRecord:
    """The place of an agent that is this process."""
    pid = os.getpid()
    return ProcessRecord.new(
        backend=backend, host=host_name(), pid=pid, start=start_of(pid), group=group
    )


def _signal(row: Process, number: signal.Signals) -> None:
    """Signal that very process and none that got its pid in the meantime.

    What may not be signalled is named at the end, like everything else that remains.
    """
    with suppress(ProcessLookupError, PermissionError):
        handle = _handle(row.pid)
        try:
            # A handle keeps to the process it was opened on, which is now checked to be ours.
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
    """A lasting handle on a process, where the system has such a thing."""
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
    # A container has a name of its own and sees no other's processes, on the same machine too.
    if place.host == host_name():
        return
    raise Unavailable(
        f"Process {place.pid} ran on {place.host}; this is {host_name()}.",
        remedy=f"Ask on {place.host}.",
    )


def _same_boot(start: str) -> bool | None:
    """Whether a start was in this run of this machine; None if the system cannot tell."""
    boot = _boot() if _has_proc() else _UNKNOWN
    return None if boot == _UNKNOWN else start.endswith(f"-{boot}")


# Linux: /proc. Whatever is read may be gone the next moment.


def _has_proc() -> bool:
    return os.path.exists(f"{_PROC}/self/stat")


def _boot() -> str:
    try:
        with open(f"{_PROC}/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read()[:8]
    except FileNotFoundError:
        # Some containers hide it; starts are then unique within one run of the machine only.
        return _UNKNOWN


def _proc_pids() -> list[int]:
    return [int(name) for name in os.listdir(_PROC) if name.isdecimal()]


def _proc_row(pid: int, boot: str) -> Process | None:
    text = _proc_read(pid, "stat")
    if not text:
        return None
    # The name of the program is in brackets and may hold anything, brackets and spaces too.
    fields = text[text.rindex(b")") + 2 :].split()
    start = f"{fields[19].decode()}-{boot}"
    return Process(
        pid, group=int(fields[2]), state=fields[0].decode(), start=start, parent=int(fields[1])
    )


def _proc_size(pid: int) -> int | None:
    match = _SHARE.search(_proc_read(pid, "smaps_rollup"))
    if match:
        return int(match[1]) * 1024
    # Of somebody else's process only this may be read, and pages that are shared count in full.
    fields = _proc_read(pid, "statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if fields else None


def _proc_nonces() -> list[tuple[int, str]]:
    prefix = f"{NONCE}=".encode()
    found = []
    for pid in _proc_pids():
        for entry in _proc_read(pid, "environ").split(b"\0"):
            if entry.startswith(prefix):
                found.append((pid, os.fsdecode(entry[len(prefix) :])))
                break
    return found


def _proc_read(pid: int, name: str) -> bytes:
    """A file of a process; empty if the process is gone or somebody else's."""
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
    """What ps prints; empty if it found nothing."""
    try:
        done = subprocess.run(  # noqa: S603
            ["/bin/ps", *words],
            capture_output=True,
            timeout=_PS_S,
            env={"LC_ALL": "C", "PATH": "/bin:/usr/bin", "TZ": "UTC"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(
            f"Cannot list processes: {error}.", remedy="Check that /bin/ps works."
        ) from None
    if done.stderr.strip():
        raise Unavailable(
            f"Cannot list processes: {os.fsdecode(done.stderr).strip()}.",
            remedy="Check that /bin/ps works.",
        )
    return os.fsdecode(done.stdout)


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
    """As ps prints the environment behind the words of the command, without a border.

    So the words alone are printed as well: a nonce among them marks nobody.
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
