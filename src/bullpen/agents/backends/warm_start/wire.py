"""The messages between a starter and a warm parent: JSON objects, each after its length."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

GO = b"g"
"""What a starter sends to the child that it wants. Without it, the child ends."""

_LENGTH = struct.Struct("!I")
_CREDENTIALS = struct.Struct("3i")
_BYTES_MAX = 8 * 1024 * 1024


def peer(line: socket.socket) -> tuple[int, int]:
    """The process at the other end, as it was when it connected, and its user. Raises OSError."""
    found = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(found)
    return pid, uid


def send(line: socket.socket, message: dict[str, Any]) -> None:
    """Send a message. Raises OSError."""
    # Escaped to ASCII, which keeps bytes of the environment that are not UTF-8.
    data = json.dumps(message).encode("ascii")
    line.sendall(_LENGTH.pack(len(data)) + data)


def receive(line: socket.socket) -> dict[str, Any]:
    """The next message. Raises OSError or EOFError."""
    (length,) = _LENGTH.unpack(_exactly(line, _LENGTH.size))
    if length > _BYTES_MAX:
        raise EOFError("not a message of ours")
    message: dict[str, Any] = json.loads(_exactly(line, length))
    return message


def _exactly(line: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = line.recv(count - len(data))
        if not part:
            raise EOFError("the connection was closed")
        data += part
    return data
