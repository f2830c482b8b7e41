"""The warm parent: one process without threads that imports what agents need, and forks them.

It never reads what an agent is started with: its child does, so no key of an agent is in the memory
that the next child inherits. It ends when nobody has asked for a while, and when a file of what it
imported has changed.
"""

from __future__ import annotations

import gc
import hashlib
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module

from bullpen.agents.backends.warm_start import wire
from bullpen.agents.backends.warm_start.child import become
from bullpen.agents.backends.warm_start.inherited import namespaces
from bullpen.agents.backends.warm_start.process_image import ROOM, ProcessImage

IDLE_S = 300.0
"""How long it waits for the next request."""

CANNOT = "cannot "
"""How the lock file begins that says why there can be no warm parent."""

_THREADS_S = 3.0
_BACKLOG = 128


class _CannotServe(Exception):
    """Why this process cannot fork agents."""


def serve(
    accepts: Callable[[Sequence[str]], bool], rehearse: Callable[[], None] = lambda: None
) -> list[str]:
    """Be a warm parent. Returns only in each child, with its words; the parent exits.

    The words of this process are the path of its socket, the descriptor of its lock, and the
    modules to import. `accepts` says which words a child may be started with. `rehearse` does once
    what every child would do again, without starting a thread.
    """
    path, lock, *modules = sys.argv[1:]
    os.environ.pop(ROOM, None)
    os.set_inheritable(int(lock), False)
    try:
        image = ProcessImage.found()
        gc.disable()
        _get_ready(modules)
        rehearse()
        _check_alone()
        files = _Files()
        home = namespaces("self")
    except (OSError, _CannotServe) as error:
        note(int(lock), f"{CANNOT}{error}")
        sys.exit(1)
    gc.collect()
    # Without this, the first collection in each child would copy all pages.
    gc.freeze()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        # Only the holder of the lock gets here, so a socket that is there is a dead one's.
        with suppress(FileNotFoundError):
            os.unlink(path)
        umask = os.umask(0o177)
        listener.bind(path)
        os.umask(umask)
        listener.listen(_BACKLOG)
        line = _fork_until_idle(listener, files, home)
        if line is None:
            os.unlink(path)
            sys.exit(0)
    return become(line, image, accepts)


def _get_ready(modules: Sequence[str]) -> None:
    """Import the modules, and call the functions that are named with them."""
    for module in modules:
        name, _, function = module.partition(":")
        # The agent itself says which library is missing, or too old.
        with suppress(Exception):
            found = import_module(name)
            if function:
                getattr(found, function)()


def _fork_until_idle(
    listener: socket.socket, files: _Files, home: list[str]
) -> socket.socket | None:
    """Fork a child for each connection. Returns the connection in a child, None in the parent."""
    listener.setblocking(False)
    woken, wake = socket.socketpair()
    for end in (woken, wake):
        end.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    last = time.monotonic()
    while (left_s := last + IDLE_S - time.monotonic()) > 0:
        ready, _, _ = select.select([listener, woken], [], [], left_s)
        if woken in ready:
            with suppress(BlockingIOError):
                woken.recv(4096)
            _reap()
        if listener not in ready:
            continue
        try:
            line, _ = listener.accept()
        except (BlockingIOError, ConnectionError):
            continue
        if not _is_ours(line, home):
            line.close()
            continue
        last = time.monotonic()
        if not files.are_the_same() or not _is_alone():
            # It closes the connection, and so do all that wait: they start agents without it.
            return None
        # Without memory or a free pid, the starter hears only that the connection is closed.
        with suppress(OSError):
            if os.fork() == 0:
                return line
        line.close()
    return None


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _is_ours(line: socket.socket, home: list[str]) -> bool:
    """Whether the other side is a process of this user outside of every sandbox."""
    try:
        pid, uid = wire.peer(line)
        return uid == os.getuid() and namespaces(pid) == home
    except OSError:
        return False


def _check_alone() -> None:
    """Wait for threads of the rehearsal, which end a moment after it. Raises _CannotServe."""
    deadline = time.monotonic() + _THREADS_S
    while not _is_alone():
        if time.monotonic() > deadline:
            raise _CannotServe("an imported library has started a thread")
        time.sleep(0.01)


def _is_alone() -> bool:
    """Whether this process has one thread: a fork copies only the thread that forks."""
    return threading.active_count() == 1 and len(os.listdir("/proc/self/task")) == 1


class _Files:
    """The files that were imported, as they were when they were imported.

    Their names are one text of its own: a look at the modules would write to the memory of each
    (Python counts references in it), and then no child would share it any more.
    """

    def __init__(self) -> None:
        found = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        self._paths = "\0".join(path for path in found if path)
        self._changed = self._look()

    def are_the_same(self) -> bool:
        """Whether none of them has been changed."""
        return self._look() == self._changed

    def _look(self) -> bytes:
        digest = hashlib.sha256()
        for path in self._paths.split("\0"):
            with suppress(OSError):
                digest.update(b"%d" % os.stat(path).st_mtime_ns)
            digest.update(b" ")
        return digest.digest()


def note(lock: int, text: str) -> None:
    """Write into the lock file: the pid, or why there can be no warm parent."""
    os.truncate(lock, 0)
    os.pwrite(lock, text.encode("utf-8", "replace"), 0)
