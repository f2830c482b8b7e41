"""Read the system's process table: /proc on Linux, ps on macOS.

A pid alone does not identify a process, because the system reuses pids; a pid with its start time
does.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

from bullpen.agents.contracts.backend import NONCE
from bullpen.errors import Unavailable

_PROC = "/proc"
_UNKNOWN = "unknown"
_DEAD = frozenset("ZXx")
_PS_S = 10.0
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


def marked() -> dict[int, str]:
    """Every process with the nonce of a launch, as far as this user may see."""
    found = _proc_nonces() if _has_proc() else _ps_nonces()
    return {pid: nonce for pid, nonce in found if nonce}


def processor_ticks(pid: int) -> int:
    """The processor time that a process has used, in ticks of Linux; 0 if it is gone."""
    fields = _proc_read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[11]) + int(fields[12]) if fields else 0


def mark_of(pid: int) -> str | None:
    """The nonce that a process was started with, as the system shows it."""
    if _has_proc():
        return _proc_nonce(pid) or None
    return dict(_ps_nonces()).get(pid)


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


def same_boot(start: str) -> bool | None:
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
