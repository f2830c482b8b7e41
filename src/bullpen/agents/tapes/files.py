"""The file of a tape: private, appended to by several agents, read with bounds."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

from bullpen.agents.tapes.format import TAPE_BYTES_MAX, Header, Tape, header_line, parsed
from bullpen.agents.tapes.setting import TapeSetting
from bullpen.errors import Conflict, NotFound, Unavailable

_LOCK_S = 5.0
_LOCK_EVERY_S = 0.005
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def create(path: Path, header: Header) -> os.stat_result:
    """Create a tape with its header, readable only by this user.

    Raises:
        Conflict: the file exists.
        Unavailable: it cannot be written.
    """
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
    except FileExistsError:
        raise Conflict(
            f"{path} exists, and a tape is never written over.",
            remedy="Name another file, or a directory: then the tape is named after the team.",
        ) from None
    except OSError as error:
        raise _cannot("write", path, error) from error
    try:
        _write(file, header_line(header).encode())
        os.fsync(file)
        return os.fstat(file)
    except OSError as error:
        raise _cannot("write", path, error) from error
    finally:
        os.close(file)


class TapeFile:
    """An open tape, to which lines are appended."""

    def __init__(self, setting: TapeSetting) -> None:
        """Open the file that was created for the run. Raises Unavailable if it is another one."""
        self.path = Path(setting.record)
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | _FLAGS)
        except OSError as error:
            raise _cannot("write", self.path, error) from error
        found = os.fstat(self._file)
        known = (found.st_dev, found.st_ino) == (setting.device, setting.inode)
        if not known or not stat.S_ISREG(found.st_mode):
            os.close(self._file)
            raise Unavailable(
                f"The tape {self.path} was replaced by another file while the run went on.",
                remedy="Start a new run with another --record FILE.",
            )

    def append(self, line: str) -> None:
        """Append a line, also while other agents do. Raises Unavailable."""
        self._locked(lambda: _write(self._file, line.encode()))

    def tape(self) -> Tape:
        """The tape so far. Raises Unavailable or Invalid."""
        return parsed(self.raw(), name=self.path.name)

    def raw(self, at: int = 0) -> bytes:
        """The bytes so far, from this one on. Raises Unavailable."""
        try:
            return _read(self._file, at)
        except OSError as error:
            raise _cannot("read", self.path, error) from error

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _locked(self, act: Callable[[], None]) -> None:
        deadline = time.monotonic() + _LOCK_S
        try:
            while True:
                try:
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_LOCK_EVERY_S)
            try:
                act()
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        except OSError as error:
            raise _cannot("write", self.path, error) from error


def read_tape(path: Path) -> Tape:
    """The tape in a file. Raises NotFound, Unavailable or Invalid."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise NotFound(
            f"There is no tape {path}.", remedy="Record one: bullpen run GOAL --record FILE"
        ) from None
    except OSError as error:
        raise _cannot("read", path, error) from error
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise Unavailable(f"{path} is not a file.", remedy="Name the file of a tape.")
        return parsed(_read(file, 0), name=path.name)
    except OSError as error:
        raise _cannot("read", path, error) from error
    finally:
        os.close(file)


def _read(file: int, at: int) -> bytes:
    pieces: list[bytes] = []
    size = at
    # One byte too many says that the file is too long.
    while size <= TAPE_BYTES_MAX and (piece := os.pread(file, 1_000_000, size)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _cannot(what: str, path: Path, error: OSError) -> Unavailable:
    return Unavailable(
        f"Cannot {what} the tape {path}: {error.strerror}.",
        remedy="Check the disk and the permissions of its directory.",
    )
