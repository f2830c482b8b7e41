"""Ports and a temporary folder for each agent.

The folder is in `/tmp` and not beside the worktree: sockets are created in it, and the path of a
socket can have about 100 characters. A sandbox hides it and has its own `/tmp` instead.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

from bullpen.errors import Refused, Unavailable, Unreadable
from bullpen.protocol.clock import now_ms
from bullpen.workspace.git.marks import MARK, locked, write_whole

PORTS = 10
"""How many ports each workspace has."""

# Below the ports that systems assign themselves, from 32768 on Linux and 49152 elsewhere.
_FIRST_PORT = 20_000
_SLOTS = 1_000

_TEMP = Path("/tmp")  # noqa: S108 - the same for all processes, whatever their TMPDIR is
_SAID_BYTES_MAX = 4_000
_IN_USE = frozenset((errno.EADDRINUSE, errno.EACCES))

PLAIN = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM")
"""The variables that every command needs; no keys."""

_Rows: TypeAlias = dict[int, "_Row"]


@dataclass(frozen=True, slots=True)
class Slot:
    """A block of ports and a temporary folder."""

    number: int
    temp: str

    @property
    def port(self) -> int:
        """Return the first of its ports."""
        return _FIRST_PORT + self.number * PORTS

    def env(self, top: str) -> dict[str, str]:
        """Return what an agent is told about its ports and folder."""
        return {
            "TMPDIR": self.temp,
            "BULLPEN_PORT": str(self.port),
            "BULLPEN_PORTS": str(PORTS),
            "BULLPEN_WORKSPACE": top,
        }


@dataclass(frozen=True, slots=True)
class _Row:
    """Who has a slot: `key`, while the file or folder `alive` exists."""

    key: str
    alive: str
    temp: str
    at_ms: int


def take_slot(key: str, alive: Path, *, wanted: int | None = None) -> Slot:
    """Return the slot of a workspace: the one that it has, else one whose ports are free.

    It is freed when `alive` is gone, or by `give_back`.

    Raises:
        Unavailable: there is no private place for it, or all ports are in use.
    """
    place = _place()
    with locked(place / "lock", "the ports of this machine"):
        rows = _still_there(_read(place))
        number = next((each for each, row in rows.items() if row.key == key), None)
        if number is None:
            number = _free(rows, wanted)
        before = rows.get(number)
        mine = before is not None and before.key == key
        temp = before.temp if before is not None and mine else ""
        if not _is_private(Path(temp)):
            temp = tempfile.mkdtemp(prefix=f"{number}.", dir=place)
        rows[number] = _Row(key, str(alive), temp, now_ms())
        _write(place, rows)
        return Slot(number, temp)


def give_back(key: str) -> None:
    """Free the slot of a removed workspace, with its temporary folder."""
    place = _place()
    with locked(place / "lock", "the ports of this machine"):
        rows = _read(place)
        for number in [number for number, row in rows.items() if row.key == key]:
            _remove_temp(rows.pop(number))
        _write(place, rows)


def marks_in_use() -> list[Path]:
    """Return the marks of all worktrees of this user that have a slot. Raises Unavailable."""
    place = _place()
    with locked(place / "lock", "the ports of this machine"):
        marks = [Path(row.alive) for row in _read(place).values()]
    return [mark for mark in marks if mark.name == MARK]


@dataclass(frozen=True, slots=True)
class SlotOutcome:
    """How a command ended: its exit code, None if it took too long, and the end of its output."""

    code: int | None
    said: str


def run_in(
    tree: Path,
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    environ: Mapping[str, str] | None,
    seconds: float,
    held: int,
) -> SlotOutcome:
    """Run a user's command in a worktree, in its own process group.

    The lock `held` stays held until it has ended, even if this process is killed; what it leaves in
    the background does not hold it. Background processes are killed too, unless the command
    succeeded.
    """
    plain = {name: os.environ[name] for name in PLAIN if name in os.environ}
    given = {**(plain if environ is None else environ), **env}
    # The lock is the input of the outer shell only.
    words = ["/bin/sh", "-c", '"$@" </dev/null; exit $?', "sh", *argv]
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(  # noqa: S603 - the user's own command, in his own tree
            words,
            cwd=tree,
            env=given,
            stdin=held,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code: int | None = None
        try:
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(seconds)
        finally:
            if code != 0:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        out.seek(max(0, out.seek(0, os.SEEK_END) - _SAID_BYTES_MAX))
        return SlotOutcome(code, out.read().decode("utf-8", "replace").strip())


def _place() -> Path:
    """Return the private folder of this user."""
    place = _TEMP / f"bullpen-{os.getuid()}"
    with suppress(FileExistsError):
        place.mkdir(mode=0o700)
    if not _is_private(place):
        raise Refused(
            f"{place} is not private to you.",
            reason="not_private",
            remedy=f"Delete it, or make it private: chmod 700 {place}",
        )
    return place


def _is_private(path: Path) -> bool:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    ours = found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077
    return ours and stat.S_ISDIR(found.st_mode)


def _read(place: Path) -> _Rows:
    file = place / "slots.json"
    try:
        raw = json.loads(file.read_bytes())
        return {int(number): _Row(**row) for number, row in raw.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        remedy = "Stop the agents with their own worktrees, delete the file, then start them again."
        raise Unreadable(str(file), str(error), remedy=remedy) from None


def _write(place: Path, rows: _Rows) -> None:
    raw = {str(number): asdict(row) for number, row in sorted(rows.items())}
    write_whole(place / "slots.json", json.dumps(raw, indent=2).encode())


def _still_there(rows: _Rows) -> _Rows:
    for row in rows.values():
        if not os.path.lexists(row.alive):
            _remove_temp(row)
    return {number: row for number, row in rows.items() if os.path.lexists(row.alive)}


def _remove_temp(row: _Row) -> None:
    if Path(row.temp).parent == _place():
        shutil.rmtree(row.temp, ignore_errors=True)


def _free(rows: _Rows, wanted: int | None) -> int:
    """Return a free slot; if there is none, the one whose owner has been away longest."""
    first = os.getuid() * 37 % _SLOTS  # so that users of one machine seldom try the same ones
    order = [*([] if wanted is None else [wanted]), *((first + n) % _SLOTS for n in range(_SLOTS))]
    fresh = [number for number in order if number not in rows and 0 <= number < _SLOTS]
    for number in [*fresh, *sorted(rows, key=lambda each: rows[each].at_ms)]:
        if all(_port_is_free(_FIRST_PORT + number * PORTS + n) for n in range(PORTS)):
            return number
    last = _FIRST_PORT + _SLOTS * PORTS - 1
    raise Unavailable(
        f"No {PORTS} consecutive ports are free from {_FIRST_PORT} to {last}.",
        remedy="Stop programs that listen there.",
    )


def _port_is_free(port: int) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(("", port))
        except OSError as error:
            # If the machine lacks one of the families, nobody listens there either.
            if error.errno in _IN_USE:
                return False
    return True
