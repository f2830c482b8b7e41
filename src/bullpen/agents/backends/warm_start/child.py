"""Turn a forked child into the process that its starter asked for."""

from __future__ import annotations

import gc
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn

from bullpen.agents.backends import output_log
from bullpen.agents.backends.warm_start import wire
from bullpen.agents.backends.warm_start.process_image import ProcessImage

FAILED = "failed"
"""The answer of a child that cannot be started at all, with the cause."""

REFUSED = "refused"
"""The answer of a child that has to be started without a warm parent, with the cause."""

PID = "pid"
"""The answer of a child that is ready and waits for the word to go."""

_REQUEST_S = 10.0
_GO_S = 30.0


def become(
    line: socket.socket, image: ProcessImage, accepts: Callable[[Sequence[str]], bool]
) -> list[str]:
    """Take over the launch that the starter sends. Returns its words, or ends this process.

    The starter decides: this process goes on only if it is told to. So a starter that gave up and
    started the agent in another way never has two.
    """
    try:
        # Before anything is read: it must not belong to the group or session of the parent.
        os.setsid()
        _default_signals()
        _close_others(line.fileno())
        line.settimeout(_REQUEST_S)
        asked = wire.receive(line)
        words, env = asked["words"], asked["env"]
        if not accepts(words):
            _answer(line, REFUSED, "it is not the command of an agent")
        if not image.holds(env):
            _answer(line, REFUSED, "its environment is too big")
        image.replace(words, env)
        time.tzset()
        # A parent serves agents with different TMPDIRs.
        tempfile.tempdir = None
        try:
            os.chdir(asked["cwd"])
            _redirect(asked["log"])
        except OSError as error:
            _answer(line, FAILED, str(error))
        wire.send(line, {PID: os.getpid()})
        line.settimeout(_GO_S)
        if line.recv(1) != wire.GO:
            os._exit(1)
        line.close()
    except BaseException:
        # The starter is gone or sent something else. Nothing of this process may go on.
        os._exit(1)
    gc.enable()
    return list(words)


def _answer(line: socket.socket, kind: str, why: str) -> NoReturn:
    with suppress(OSError):
        wire.send(line, {kind: why})
    os._exit(1)


def _default_signals() -> None:
    """Undo what the parent set; all else is as it was when the parent started."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _close_others(kept: int) -> None:
    """Close all descriptors but the standard ones and this one."""
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number > 2 and number != kept:
            # One of them was the list itself.
            with suppress(OSError):
                os.close(number)


def _redirect(log: str) -> None:
    """Let the output of this process go to its log."""
    opened = output_log.open_log(log)
    for standard in (1, 2):
        os.dup2(opened, standard)
    os.close(opened)
