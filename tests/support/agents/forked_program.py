"""Start `bullpen` by a fork of a process that has imported it: the program without its imports.

    python forked_program.py serve SOCKET MODULE...     forks a child for each client
    python -I -S forked_program.py SOCKET WORDS...      is the program, for whoever starts it

The child has the client's streams, environment and directory; the client passes its signals on.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from importlib import import_module

_BYTES_MAX = 1 << 17
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    """Serve, or be a client."""
    if sys.argv[1] == "serve":
        _serve(sys.argv[2], sys.argv[3:])
    else:
        _ask(sys.argv[1], sys.argv[2:])


def _serve(path: str, modules: list[str]) -> None:
    for module in modules:
        import_module(module)
    # A fork copies only the thread that forks.
    assert threading.active_count() == 1, threading.enumerate()
    gc.freeze()
    signal.signal(signal.SIGCHLD, _reap)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        while True:
            line, _ = listener.accept()
            if os.fork() == 0:
                break
            line.close()
    _become(line)


def _reap(*_: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _become(line: socket.socket) -> None:
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    asked, streams, _, _ = socket.recv_fds(line, _BYTES_MAX, 3)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", errors="replace", closefd=False)
    told = json.loads(asked)
    os.environ.clear()
    os.environ.update(told["env"])
    os.chdir(told["cwd"])
    sys.argv[:] = ["bullpen", *told["words"]]
    line.send(b"%d" % os.getpid())
    # It stays open until this process ends, which tells the client.
    import_module("bullpen.__main__").main()


def _ask(path: str, words: list[str]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.connect(path)
        told = {"words": words, "env": dict(os.environ), "cwd": os.getcwd()}
        socket.send_fds(line, [json.dumps(told).encode()], [0, 1, 2])
        # Only the child has the streams: their other side must see when it closes them.
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        pid = int(line.recv(32))
        for each in _SIGNALS:
            signal.signal(each, lambda number, _: os.kill(pid, number))
        line.recv(1)


if __name__ == "__main__":
    main()
