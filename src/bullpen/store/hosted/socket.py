"""The host process's socket, in a place that only this user can reach."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import struct
from contextlib import suppress
from pathlib import Path

from bullpen.errors import Conflict, Refused, Unavailable

_BACKLOG = 512
_UCRED = struct.Struct("3i")


class PrivatePlace:
    """A socket that listens from `open` to `close`. Removes what a killed host left there."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock: int | None = None

    def open(self) -> socket.socket:
        """Return the listening socket.

        Raises Conflict if another host process listens there, Refused if other users could reach it
        (not_private), Unavailable if a socket cannot be created there.
        """
        try:
            return self._open()
        except OSError as error:
            self.close()
            raise Unavailable(
                f"A socket cannot be created at {self._path}: {error.strerror or error}.",
                remedy="Choose another path of at most about 100 characters.",
            ) from error

    def _open(self) -> socket.socket:
        folder = os.path.dirname(self._path) or "."
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.stat(folder)
        if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise Refused(
                f"Other users can reach {folder}.",
                reason="not_private",
                remedy=f"Make it private: chmod 700 {folder}",
            )
        self._lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._release()
            raise Conflict(
                f"Another host process listens at {self._path}.",
                remedy="Use that one, or stop it first.",
            ) from None
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.bind(self._path)
            os.chmod(self._path, 0o600)
            listening.listen(_BACKLOG)
            listening.setblocking(False)
        except OSError:
            listening.close()
            raise
        return listening

    def close(self) -> None:
        """Remove the socket."""
        if self._lock is not None:
            with suppress(OSError):
                os.unlink(self._path)
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def is_own_process(peer: socket.socket) -> bool:
    """Return whether the process at the other end belongs to this user, if the system can tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    _, uid, _ = _UCRED.unpack(peer.getsockopt(socket.SOL_SOCKET, option, _UCRED.size))
    return bool(uid == os.getuid())


def socket_in(home: Path) -> Path:
    """Return where the host process of a home listens. Its secrets are beside it."""
    return home / "host" / "socket"


def operator_token(socket: str) -> str:
    """Return the secret of this machine's user, which its host left beside its socket."""
    path = Path(socket).parent / "operator.token"
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        raise Unavailable(
            f"{path} does not exist: you have no host process running there.",
            remedy="Start one with `bullpen host run`, or correct BULLPEN_STORE.",
        ) from None
