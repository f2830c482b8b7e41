"""Ends a command whose terminal was closed: in order, and if that hangs, at once.

Closing a terminal sends SIGHUP, then SIGCONT. From then on, every read and write of it fails.
"""

from __future__ import annotations

import _thread
import errno
import os
import signal
import termios
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import anyio

INTERRUPTED = 130
"""The exit code of a command that was ended with Ctrl-C, or whose terminal was closed."""

PATIENCE_S = 4.0
"""For how long a command whose terminal was closed may take to end."""

_STEP_S = 0.1
_STREAMS = (0, 1, 2)
_GONE = (errno.EIO, errno.ENXIO)


@contextmanager
def endings() -> Iterator[AsyncIterator[signal.Signals]]:
    """The signals that end a command in order: Ctrl-C, SIGTERM and a closed terminal.

    SIGHUP may come more than once, from the system and from a shell, and is no wish to hurry.
    Where it was ignored when the command began (`nohup`), it stays so.
    """
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    came = False

    def heard(*_: object) -> None:
        nonlocal came
        if not came:
            came = True
            end_soon()

    try:
        with anyio.open_signal_receiver(*numbers) as signals:
            if signal.SIGHUP in numbers:
                # The event loop hears of it too. This is for one that is blocked.
                signal.signal(signal.SIGHUP, heard)
                signal.siginterrupt(signal.SIGHUP, False)
            yield signals
    finally:
        if came:
            # The next one would cut off what is left to do.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)


def end_soon() -> None:
    """End this process if it still runs after a few seconds.

    Nothing is lost: what the team's records acknowledged is on disk.
    """
    # A signal handler calls this: the class for threads takes locks, which may be held just now.
    _thread.start_new_thread(_end_late, (PATIENCE_S,))


def _end_late(patience_s: float) -> None:
    # In steps: time in which this process was stopped, or hardly ran, does not count.
    for _ in range(round(patience_s / _STEP_S)):
        time.sleep(_STEP_S)
    os._exit(INTERRUPTED)


def is_closed(stream: int) -> bool:
    """Whether a stream is a terminal that is gone."""
    try:
        termios.tcgetattr(stream)
    except termios.error as error:
        return error.args[0] in _GONE
    return False


@contextmanager
def unless_closed(then: Callable[[], object] = bool) -> Iterator[None]:
    """Write to the terminal. If it is gone, do something else: writing to it is no error."""
    try:
        yield
    except OSError:
        if not let_go():
            raise
        then()


def let_go() -> bool:
    """Whether the terminal is gone; from then on, what is written to it is discarded."""
    closed = [stream for stream in _STREAMS if is_closed(stream)]
    if closed:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in closed:
            os.dup2(nowhere, stream)
        os.close(nowhere)
    return bool(closed)
