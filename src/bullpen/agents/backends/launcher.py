"""The launcher: receives a command, environment and directory over a socket, and executes it.

tmux starts it in a pane instead of the agent itself. A command in tmux shows up in process lists
and gets the environment of tmux's server, so neither can carry secrets. The launcher's command line
has only the path of a socket, and nothing is written to disk.

It runs as a file with `python -I -S` and uses only the standard library, to start quickly.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

WAIT_S = 30.0
"""How long it waits for the launch; the process that started it may have died."""

KEPT = (b"TERM", b"TMUX", b"TMUX_PANE")
"""Variables that the pane sets, not the launch."""


END = b"."
"""The last field of a complete launch."""


def main(path: str) -> None:
    """Read the launch from the socket and execute it; send an error back over the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(WAIT_S)
        line.connect(path)
        data = b""
        while part := line.recv(65536):
            data += part
        # A launch is: directory, number of words, words, NAME=VALUE..., END; NUL between them.
        if not data.endswith(b"\0" + END):
            sys.exit("the process that started this launcher died before it sent the launch")
        cwd, count, *rest, _ = data.split(b"\0")
        argv = rest[: int(count)]
        env = dict(entry.split(b"=", 1) for entry in rest[int(count) :])
        env.update((name, os.environb[name]) for name in KEPT if name in os.environb)
        at = cwd
        try:
            os.chdir(cwd)
            at = argv[0]
            # Python ignores these signals, and the new program would inherit that.
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            # On success the socket closes by itself, which tells the other side.
            os.execvpe(at, argv, env)  # noqa: S606
        except OSError as error:
            text = f"{os.fsdecode(at)}: {error.strerror}"
            line.sendall(text.encode("utf-8", "replace"))
            sys.exit(text)


if __name__ == "__main__":
    main(sys.argv[1])
