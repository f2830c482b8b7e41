"""Keep the orphans of an agent's commands below the process of the agent.

When a process ends, its children get a new parent: process 1, or on Linux the nearest ancestor that
asked for them (PR_SET_CHILD_SUBREAPER). So whatever a command of an agent starts stays below the
runner of that agent as long as the runner lives, also after a double fork and a new session.

macOS has nothing like it: there, an orphan is found only by its environment, its process group and
the records of `process_owners`. A control group per launch would also outlive the runner, but needs
one that is delegated to this user, which few terminals and containers have.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from contextlib import suppress

from bullpen.agents.system import process_table

KEPT_BELOW = sys.platform == "linux"
"""Whether this system keeps orphans below their launch."""

_PR_SET_CHILD_SUBREAPER = 36
_LOOK_S = 10.0
_lock = threading.Lock()
_adopting = False


def adopt_orphans() -> bool:
    """Let this process adopt the orphans below it and reap them. False if that cannot be done."""
    global _adopting
    if not KEPT_BELOW:
        return False
    with _lock:
        if not _adopting:
            library = ctypes.CDLL(None, use_errno=True)
            _adopting = library.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
            if _adopting:
                threading.Thread(target=_reap, name="reap orphans", daemon=True).start()
    return _adopting


def _reap() -> None:
    """Reap adopted processes that have ended.

    What this process started itself is awaited, and gone long before it is found here twice.
    """
    before: set[tuple[int, str]] = set()
    while True:
        time.sleep(_LOOK_S)
        before = reap_ended(before)


def reap_ended(before: set[tuple[int, str]]) -> set[tuple[int, str]]:
    """Reap the ended children that had ended `before`. Returns those that have ended since."""
    if not _has_ended_children():
        return set()
    ended = {
        (row.pid, row.start)
        for row in process_table.table()
        if row.parent == os.getpid() and not row.runs
    }
    for pid, _ in ended & before:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return ended - before


def _has_ended_children() -> bool:
    """Whether a child has ended: one call, where the process table takes eight for each process."""
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False
