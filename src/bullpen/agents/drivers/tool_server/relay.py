"""The relay: the MCP server that another vendor's program starts. It passes bytes to the runner.

It imports only the standard library, because the program waits for it at its start.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

SOCKET = "BULLPEN_DOOR"
KEY = "BULLPEN_DOOR_KEY"

_CHUNK = 65_536


def main() -> int:
    """Relay stdin to the socket and the socket to stdout, until one of them ends."""
    path, key = os.environ.get(SOCKET), os.environ.get(KEY)
    if not path or not key:
        print(
            f"{SOCKET} and {KEY} are not set. Only an agent's runner can start this program.",
            file=sys.stderr,
        )
        return 2
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.connect(path)
    except OSError as error:
        print(f"Cannot reach the runner of this agent at {path}: {error}", file=sys.stderr)
        return 1
    line.sendall(key.encode() + b"\n")
    threading.Thread(target=_send, args=(line,), daemon=True).start()
    while data := line.recv(_CHUNK):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    return 0


def _send(line: socket.socket) -> None:
    while data := os.read(0, _CHUNK):
        line.sendall(data)
    # The program closed its end: the runner ends the session, which ends the main thread.
    line.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    sys.exit(main())
