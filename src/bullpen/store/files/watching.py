"""Following a team's files: a wake-up soon after any of them changes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import anyio
import anyio.to_thread
from watchfiles._rust_notify import RustNotify

from bullpen.store.files import log
from bullpen.store.files.disk import TEMP_SUFFIX
from bullpen.store.files.paths import TeamPaths

# Changes come in flocks, one for each file of a commit: gather them for a moment, no longer.
_GATHER_MS = 50
# The notifier wakes every step, also when nothing happens: shorter costs an idle team its sleep.
_STEP_MS = 25
# Watching can miss changes on network mounts: look by ourselves every so often.
_POLL_MS = 2_000


async def follow(
    paths: TeamPaths, check: Callable[[], object], every_s: float | None
) -> AsyncGenerator[int, None]:
    """Yield the log's number now and after every change; `check` raises when the team is gone.

    The watch stands before the first yield, so that nothing after it is missed. That is why this
    uses watchfiles' notifier and not `awatch`, which begins to watch at the second step only.
    """
    limiter = anyio.CapacityLimiter(1)
    last: tuple[int, ...] = ()
    wait_ms = min(_POLL_MS, round(every_s * 1000)) if every_s else _POLL_MS
    yielded = 0.0
    while True:
        check()
        folders = _folders(paths)
        watcher = RustNotify(folders, False, False, 300, True, False)
        try:
            while folders == _folders(paths):
                check()
                due = every_s is not None and time.monotonic() - yielded >= every_s
                if (now := _marks(paths)) != last or due:
                    last, yielded = now, time.monotonic()
                    yield _seq(paths)
                elif await _changed(watcher, paths, limiter, wait_ms):
                    last = ()
        finally:
            watcher.close()


async def _changed(
    watcher: RustNotify, paths: TeamPaths, limiter: anyio.CapacityLimiter, wait_ms: int
) -> bool:
    """Wait for a change, at most for the time between two looks of our own."""
    stop = threading.Event()
    try:
        found = await anyio.to_thread.run_sync(
            watcher.watch,
            _GATHER_MS,
            _STEP_MS,
            wait_ms,
            stop,
            abandon_on_cancel=True,
            limiter=limiter,
        )
    finally:
        stop.set()
    return not isinstance(found, str) and any(_is_relevant(path, paths) for _, path in found)


def _folders(paths: TeamPaths) -> list[str]:
    """The folders to watch. Other programs make the task list with the first task only."""
    return [folder for folder in (paths.root, paths.tasks) if os.path.isdir(folder)]


def _seq(paths: TeamPaths) -> int:
    head = log.read_head(paths.head)
    return head.seq if head else 0


def _marks(paths: TeamPaths) -> tuple[int, ...]:
    """What changes whenever a file is added, removed, replaced or logged."""
    watched = (paths.events, paths.config, paths.inboxes, paths.tasks, paths.presence)
    marks: list[int] = []
    for path in watched:
        try:
            status = os.stat(path)
            marks += (status.st_mtime_ns, status.st_size)
        except OSError:
            marks += (0, 0)
    return tuple(marks)


def _is_relevant(path: str, paths: TeamPaths) -> bool:
    """Not a lock, a file being written, or our own bookkeeping."""
    name = Path(path).name
    if name.endswith((".lock", TEMP_SUFFIX)) or ".json.tmp." in name:
        return False
    bookkeeping = (paths.head, paths.ledger, paths.mail, paths.archive, paths.quarantine)
    return not path.startswith(bookkeeping)
