"""The hook command that Claude Code runs: it asks the agent's runner and prints the answer.

It runs as a file, once for every tool call, so it imports only the standard library. Without a
runner, it blocks the call.
"""

from __future__ import annotations

import socket
import sys

_CHUNK = 65_536
_BLOCK = 2


def main() -> int:
    """Send stdin to the socket in the first argument, and print the answer."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    answer = b""
    try:
        line.connect(sys.argv[1])
        line.sendall(sys.stdin.buffer.read())
        line.shutdown(socket.SHUT_WR)
        while data := line.recv(_CHUNK):
            answer += data
    except OSError as error:
        print(f"Cannot reach the runner of this agent: {error}.", file=sys.stderr)
        return _BLOCK
    if not answer:
        print("The runner of this agent has ended.", file=sys.stderr)
        return _BLOCK
    sys.stdout.buffer.write(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
