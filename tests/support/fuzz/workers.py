"""Two processes that run all cases, each in a sandbox of its own."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from functools import cache, partial
from multiprocessing.util import Finalize

import anyio

from bullpen.store.files import locks, records, store
from bullpen.store.files.mail import inbox_file, read_mail

from . import arguments, files
from .budget import Failures, fast_folder, numbers, remove
from .home import Sandbox
from .watchdog import Watchdog

_WAIT_S = 3600.0
_MEMORY_BYTES_MAX = 4 * 1024**3


class Workers:
    """Parts of the cases under way; each test asks for the one that is its own."""

    def __init__(self, parts: Iterable[tuple[str, int]]) -> None:
        self._pool = ProcessPoolExecutor(2, multiprocessing.get_context("forkserver"))
        self._parts: dict[tuple[str, int], Future[Failures]] = {
            part: self._pool.submit(_run, *part) for part in parts
        }

    def check(self, kind: str, part: int) -> None:
        """Wait for a part, and fail if any of its cases did."""
        self._parts[kind, part].result(_WAIT_S).check()

    def close(self) -> None:
        """Run nothing more."""
        self._pool.shutdown(cancel_futures=True)


def _run(kind: str, part: int) -> Failures:
    sandbox, watchdog = _tools()
    cases = numbers(kind, part)
    if kind == "files":
        return anyio.run(partial(files.run, sandbox, watchdog, cases))
    return arguments.run(sandbox, watchdog, cases)


@cache
def _tools() -> tuple[Sandbox, Watchdog]:
    """What a worker needs, made once."""
    # Nobody else is writing here: what looks half written will not be whole in a moment.
    store._READ_ATTEMPTS = 2
    inbox_file._PATIENCE_S = read_mail._PATIENCE_S = records._PATIENCE_S = 0.0
    locks._SETTLE_S = 0.0
    # Who reads a device to its end shall fail, and not take the machine along.
    with suppress(ValueError, OSError):  # Not every system lets itself be told.
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES_MAX, _MEMORY_BYTES_MAX))
    root = fast_folder()
    # The only way to be called when a worker ends: it does not come to its own `atexit`.
    Finalize(None, remove, (root,), exitpriority=1)
    watchdog = Watchdog()
    watchdog.start()
    return Sandbox(root), watchdog
