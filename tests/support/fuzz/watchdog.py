"""Frees what hangs on a FIFO, and ends the run with a traceback if nothing else helps."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from contextlib import suppress

_FREE_AFTER_S = 35.0
"""Longer than what counts as slow, so that a case that hangs is found to be slow."""
_END_AFTER_S = 120.0


class Watchdog:
    """Looks after one case at a time."""

    def __init__(self) -> None:
        self._what = ""
        self._since = 0.0
        self._fifos: tuple[str, ...] = ()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="watchdog")

    def start(self) -> None:
        """Look after the cases of this process until it ends."""
        self._thread.start()

    def begin(self, what: str, fifos: tuple[str, ...] = ()) -> None:
        """A case begins."""
        self._what, self._fifos, self._since = what, fifos, time.monotonic()

    def _watch(self) -> None:
        self._since = time.monotonic()
        while True:
            time.sleep(1.0)
            waited = time.monotonic() - self._since
            if waited > _FREE_AFTER_S:
                for path in self._fifos:
                    _let_readers_go(path)
            if waited > _END_AFTER_S:
                print(f"\n{self._what} hangs", file=sys.__stderr__, flush=True)
                faulthandler.dump_traceback(sys.__stderr__ or 2, all_threads=True)
                os._exit(70)


def _let_readers_go(path: str) -> None:
    """Whoever waits for a FIFO's other end gets one, and then its end."""
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
