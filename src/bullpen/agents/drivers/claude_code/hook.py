"""The hook that Claude Code runs: it asks its agent's runner, and prints what that answers.

It is run by its path, once for every tool call, so it imports nothing but the standard library.
Without a runner nothing may be done: it then blocks the call.
"""

from __future__ import annotations

import socket
import sys

_CHUNK = 65_536
_BLOCK = 2


def main() -> int:
    """Send what stands on stdin to the socket of the first argument; print the answer."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    answer = b""
    try:
        line.connect(sys.argv[1])
        line.sendall(sys.stdin.buffer.read())
        line.shutdown(socket.SHUT_WR)
        while data := line.recv(_CHUNK):
            answer += data
    except OSError as error:
        print(f"The runner of this agent cannot be asked: {error}.", file=sys.stderr)
        return _BLOCK
    if not answer:
        print("The runner of this agent has ended.", file=sys.stderr)
        return _BLOCK
    sys.stdout.buffer.write(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
