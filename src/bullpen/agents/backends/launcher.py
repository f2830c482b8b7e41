"""Becomes the program that is handed to it over a socket: words, environment, directory.

tmux starts this in a pane instead of the agent itself. What it starts shows up in process lists
and gets the environment of tmux's server, so neither is a way to hand over secrets. Here nothing
is on the command line but the path of a socket, and nothing is ever written to disk.

It is run as a file, by `python -I -S`, and uses the standard library only: it has to be quick.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

WAIT_S = 30.0
"""How long it waits for what it shall become; who started it may have died meanwhile."""

KEPT = (b"TERM", b"TMUX", b"TMUX_PANE")
"""What the pane knows better than whoever asked for the launch."""


END = b"."
"""The last field of a launch that is whole."""


def main(path: str) -> None:
    """Take the launch from the socket and become it; an error goes back over the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(WAIT_S)
        line.connect(path)
        data = b""
        while part := line.recv(65536):
            data += part
        # A launch is: directory, number of words, words, NAME=VALUE..., END; NUL between them.
        if not data.endswith(b"\0" + END):
            sys.exit("whoever started this died before it could say what to start")
        cwd, count, *rest, _ = data.split(b"\0")
        argv = rest[: int(count)]
        env = dict(entry.split(b"=", 1) for entry in rest[int(count) :])
        env.update((name, os.environb[name]) for name in KEPT if name in os.environb)
        at = cwd
        try:
            os.chdir(cwd)
            at = argv[0]
            # Python ignores these for itself, and what is ignored stays so in the new program.
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            # The socket closes by itself when this works: that is how the other side knows.
            os.execvpe(at, argv, env)  # noqa: S606
        except OSError as error:
            text = f"{os.fsdecode(at)}: {error.strerror}"
            line.sendall(text.encode("utf-8", "replace"))
            sys.exit(text)


if __name__ == "__main__":
    main(sys.argv[1])
