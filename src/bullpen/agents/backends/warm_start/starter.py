"""Ask a warm parent for an agent, and start one if there is none.

Without an answer in time, the agent is started as usual: a warm parent only saves time and memory.
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from bullpen.agents.backends.handover import cannot_start
from bullpen.agents.backends.warm_start import child, inherited, wire
from bullpen.agents.backends.warm_start.parent import CANNOT, note
from bullpen.agents.backends.warm_start.process_image import ROOM, ROOM_BYTES
from bullpen.agents.contracts.backend import Launch
from bullpen.agents.system import process_owners, process_table
from bullpen.sandbox.outside_sockets import WARM_PARENTS

WARM_START, OFF = "BULLPEN_WARM_START", "off"
"""The variable, and its value with which agents start without a warm parent."""

FOLDER = Path(WARM_PARENTS)
"""The sockets of this user's warm parents. No variable leads to another place."""

_ANSWER_S = 5.0
"""How long a warm parent may take to fork a child."""

_IMPORT_S = 60.0
"""How long a new one may take to import what it needs. On a busy machine, so would the agent."""

_STALLED_S = 5.0
"""How long a new one may use no processor time."""

_CANNOT_S = 600.0
"""For how long it counts that a warm parent could not be started."""

_KEPT_S = 24 * 3600.0
"""For how long the files of a warm parent stay that did not remove them itself."""

_LOOK_S = 0.02
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_log = logging.getLogger(__name__)


class _NotWarm(Exception):
    """Why an agent has to be started without a warm parent."""


class WarmStart:
    """Starts agents by forking. Its parents run `module`, which calls `parent.serve`."""

    def __init__(self, module: str, folder: Path = FOLDER) -> None:
        self._module = module
        self._folder = folder
        self._unreaped: set[int] = set()

    def start(self, launch: Launch) -> int | None:
        """The pid of the started agent; None if it has to be started without a warm parent.

        Raises Unavailable if it cannot be started at all.
        """
        if not launch.modules or sys.platform != "linux":
            return None
        try:
            named = inherited.needs_own_start(launch.env)
            if named is not None:
                raise _NotWarm(f"{named} counts only for a new process")
            with self._connected(launch) as line:
                return _asked(line, launch)
        except (_NotWarm, OSError, EOFError, LookupError, ValueError) as error:
            _log.info("%s is started without a warm parent: %s", launch.agent, error)
            return None

    def environment(self, launch: Launch) -> dict[str, str]:
        """What a warm parent gets of the environment of its first agent."""
        return inherited.environment_at_start(launch.env)

    def reap(self) -> None:
        """Reap the warm parents that this process started and that have ended."""
        for pid in list(self._unreaped):
            _exit_code(pid, self._unreaped)

    def _connected(self, launch: Launch) -> socket.socket:
        """A connection to the warm parent, which is started if there is none. Raises _NotWarm."""
        _check_folder(self._folder)
        self.reap()
        path = str(self._folder / inherited.key(self._module, launch.modules, launch.env))
        patience = _Patience()
        started: int | None = None
        while True:
            line = _connection(path)
            if line is not None:
                return line
            lock = os.open(f"{path}.lock", _LOCK_FLAGS, 0o600)
            try:
                if not _locked(lock):
                    patience.check(_content(lock))
                elif started is not None:
                    _give_up(lock, _exit_code(started, self._unreaped))
                else:
                    _check_not_hopeless(lock)
                    _sweep(self._folder)
                    started = self._start_parent(path, lock, launch)
            finally:
                # The new process has the lock until it ends.
                os.close(lock)
            time.sleep(_LOOK_S)

    def _start_parent(self, path: str, lock: int, launch: Launch) -> int:
        words = [sys.executable, "-P", "-m", self._module, path, str(lock), *launch.modules]
        process = subprocess.Popen(  # noqa: S603 - our own words
            words,
            cwd="/",
            env={**self.environment(launch), ROOM: " " * ROOM_BYTES},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(lock,),
            start_new_session=True,
        )
        # Agents of anyone run below it. It outlives whoever started it, also another agent.
        process_owners.record(process.pid, process_owners.SHARED)
        note(lock, str(process.pid))
        self._unreaped.add(process.pid)
        # It is reaped by its pid, so that it may outlive this object without a warning.
        process.returncode = 0
        return process.pid


class _Patience:
    """How long to wait for a warm parent that is starting: as long as it gets on."""

    def __init__(self) -> None:
        self._begun = self._moved = time.monotonic()
        self._used = -1

    def check(self, pid: str) -> None:
        """Raise _NotWarm if it is not worth waiting any longer."""
        _check_not_stopped(pid)
        used = process_table.processor_ticks(int(pid)) if pid.isdecimal() else 0
        now = time.monotonic()
        if used != self._used:
            self._used, self._moved = used, now
        if now - self._moved > _STALLED_S or now - self._begun > _IMPORT_S:
            raise _NotWarm(f"process {pid} was not ready in {now - self._begun:.0f} s")


def _asked(line: socket.socket, launch: Launch) -> int:
    """The pid of the child that became the agent. Raises Unavailable, _NotWarm."""
    line.settimeout(_ANSWER_S)
    wire.send(
        line,
        {
            "words": list(launch.argv),
            "env": dict(launch.env),
            "cwd": launch.cwd,
            "log": launch.log,
        },
    )
    answer = wire.receive(line)
    if child.PID not in answer:
        # It shows the nonce until it has ended, which closes the connection.
        line.recv(1)
    if child.FAILED in answer:
        raise cannot_start(launch, answer[child.FAILED])
    if child.REFUSED in answer:
        raise _NotWarm(answer[child.REFUSED])
    pid = int(answer[child.PID])
    if process_table.mark_of(pid) != launch.nonce:
        raise _NotWarm(f"process {pid} does not show the nonce of the launch")
    process_owners.record(pid, launch.nonce)
    # From here on it is the agent. Until here, closing the connection ends it.
    line.sendall(wire.GO)
    return pid


def _connection(path: str) -> socket.socket | None:
    """A connection to a warm parent of this user; None if nobody listens. Raises _NotWarm."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.settimeout(_ANSWER_S)
        line.connect(path)
        pid, uid = wire.peer(line)
        if uid != os.getuid():
            raise _NotWarm(f"its socket belongs to user {uid}")
        _check_not_stopped(str(pid))
    except (FileNotFoundError, ConnectionRefusedError):
        line.close()
        return None
    except BaseException:
        line.close()
        raise
    return line


def _check_folder(folder: Path) -> None:
    """Make the folder, and refuse one that is not this user's alone."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise _NotWarm(f"{folder} is not a directory of this user")
    if stat.S_IMODE(found.st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
        raise _NotWarm(f"other users can enter {folder}")


def _sweep(folder: Path) -> None:
    """Remove old files of warm parents that were killed."""
    old = time.time() - _KEPT_S
    for path in folder.glob("*.lock"):
        with suppress(OSError):
            if path.stat().st_mtime > old:
                continue
            lock = os.open(path, _LOCK_FLAGS, 0o600)
            try:
                if _locked(lock):
                    path.with_suffix("").unlink(missing_ok=True)
                    path.unlink()
            finally:
                os.close(lock)


def _locked(lock: int) -> bool:
    """Take the lock. False if a warm parent has it, which may still be starting."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _content(lock: int) -> str:
    return os.pread(lock, 4096, 0).decode("utf-8", "replace")


def _check_not_hopeless(lock: int) -> None:
    """Raise _NotWarm if a warm parent could not be started a short while ago."""
    said = _content(lock)
    if said.startswith(CANNOT) and time.time() - os.fstat(lock).st_mtime < _CANNOT_S:
        raise _NotWarm(said.removeprefix(CANNOT))


def _check_not_stopped(pid: str) -> None:
    row = process_table.look(int(pid)) if pid.isdecimal() else None
    if row is not None and row.state in ("T", "t"):
        raise _NotWarm(f"process {pid} is stopped")


def _give_up(lock: int, code: int | None) -> None:
    """The new warm parent ended at once. Remember that, unless somebody killed it."""
    said = _content(lock)
    if not said.startswith(CANNOT):
        said = f"{CANNOT}it ended with code {code}"
        if code is not None and code > 0:
            note(lock, said)
    raise _NotWarm(said.removeprefix(CANNOT))


def _exit_code(pid: int, unreaped: set[int]) -> int | None:
    """The exit code of a child; None if it runs, or if another thread has reaped it."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        unreaped.discard(pid)
        return None
    if not ended:
        return None
    unreaped.discard(pid)
    return os.waitstatus_to_exitcode(status)
