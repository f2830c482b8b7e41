"""Remember which launch started a process, and say to which launch each process belongs.

A process can change its environment, its session and its process group, but not its pid and start
time. Whoever starts a process for an agent records here for which launch. The records of a user are
in one folder with a fixed path: no variable can point to others. They are small files named by pid
and start time, and only this user can write them. A process belongs to the nearest launch above it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from bullpen.agents.system.process_table import Process, look, start_of

NOBODY = "nobody"
"""The owner of a server that starts processes for anyone of this user, such as tmux."""

SHARED = "shared"
"""The owner of a process in which several agents run, or that runs the work of agents."""

_FOLDER = Path(f"/tmp/bullpen-processes-{os.getuid()}")  # noqa: S108 - made and checked as ours

_OF_NO_LAUNCH = frozenset((NOBODY, SHARED))


class Owners:
    """The records as they were at one moment."""

    def __init__(self, found: dict[tuple[int, str], str]) -> None:
        self._found = found
        self._groups = {pid: (start, nonce) for (pid, start), nonce in found.items()}

    def of_process(self, row: Process) -> str | None:
        """The recorded owner of exactly this process."""
        return self._found.get((row.pid, row.start))

    def of(self, row: Process) -> str | None:
        """The recorded owner of a process, or of the process that leads or led its group.

        The system reuses no pid while a process group has its number, so the record of a leader
        that is gone still applies.
        """
        exact = self.of_process(row)
        if exact is not None:
            return exact
        start, nonce = self._groups.get(row.group, ("", None))
        if nonce in (None, NOBODY, SHARED) or row.pid == row.group:
            return None
        leader = look(row.group)
        return nonce if leader is None or leader.start == start else None


def launch_of_each(
    rows: Iterable[Process],
    owners: Owners,
    *,
    carried: Mapping[int, str] | Iterable[tuple[int, str]],
    known: Mapping[tuple[int, str], str] | None = None,
) -> dict[int, str]:
    """The nonce of the launch of each process that belongs to one, by pid.

    What is `known` or recorded about a process decides, then what holds for its parent. The nonce
    that it carries in its environment counts only if neither says anything.
    """
    by_pid = {row.pid: row for row in rows}
    marks, sure = dict(carried), known or {}
    # Of each process: its launch, and whether that is more than what it carries.
    found: dict[int, tuple[str | None, bool]] = {}
    for pid in by_pid:
        line: list[Process] = []
        owner, proven = None, False
        at: int | None = pid
        while at is not None:
            row = by_pid.get(at)
            if row is None or at in found:
                owner, proven = found.get(at, (None, False))
                break
            line.append(row)
            owner = sure.get((row.pid, row.start)) or owners.of(row)
            proven = owner is not None
            at = None if proven or row.parent == row.pid else row.parent
        for row in reversed(line):
            if not proven or owner in _OF_NO_LAUNCH:
                owner = marks.get(row.pid) or owner
                proven = proven and owner in _OF_NO_LAUNCH
            found[row.pid] = owner, proven
    return {
        pid: owner
        for pid, (owner, _) in found.items()
        if owner is not None and owner not in _OF_NO_LAUNCH
    }


def owners() -> Owners:
    """Every record of this user; none if the folder is not this user's alone."""
    found: dict[tuple[int, str], str] = {}
    if _is_ours():
        for name in os.listdir(_FOLDER):
            pid, _, start = name.partition("-")
            with suppress(OSError, ValueError):
                found[int(pid), start] = (_FOLDER / name).read_text("utf-8")
    return Owners(found)


def record(pid: int, nonce: str) -> None:
    """Record for which launch a process was started. A process that has ended is not recorded.

    If it cannot be written, the process counts as one of an agent that is not known.
    """
    start = start_of(pid)
    if start is None:
        return
    with suppress(OSError):
        _FOLDER.mkdir(mode=0o700, exist_ok=True)
        if _is_ours():
            # Renamed, so that nobody reads half of it.
            fresh = _FOLDER / f".{pid}.{os.getpid()}"
            fresh.write_text(nonce, "utf-8")
            fresh.rename(_file(pid, start))


def forget(pid: int) -> None:
    """Remove the record of a process that runs nothing of a launch any more."""
    start = start_of(pid)
    if start is not None:
        _remove(pid, start)


def forget_ended() -> None:
    """Remove the records of processes that are gone together with their groups."""
    if not _is_ours():
        return
    for name in os.listdir(_FOLDER):
        pid, _, start = name.partition("-")
        if not pid.isdecimal():
            continue
        row = look(int(pid))
        if row.start != start if row is not None else not _has_group(int(pid)):
            (_FOLDER / name).unlink(missing_ok=True)


@contextmanager
def owned(pid: int, nonce: str | None) -> Iterator[None]:
    """Record a process for as long as it or a process of its group runs."""
    if not nonce:
        yield
        return
    start = start_of(pid)
    record(pid, nonce)
    try:
        yield
    finally:
        if start is not None and not _has_group(pid):
            _remove(pid, start)


def _file(pid: int, start: str) -> Path:
    return _FOLDER / f"{pid}-{start}"


def _remove(pid: int, start: str) -> None:
    with suppress(OSError):
        _file(pid, start).unlink(missing_ok=True)


def _has_group(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_ours() -> bool:
    try:
        found = os.lstat(_FOLDER)
    except OSError:
        return False
    private = not stat.S_IMODE(found.st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and private
