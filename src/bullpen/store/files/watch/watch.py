"""Follows a team's files: wakes soon after any of them changes.

Linux reports which names changed in the few folders that matter. If it cannot (its queues are
limited, and other systems have none), another implementation of `_Notifier` is used. Heartbeats do
not wake anybody: with fifty agents, nobody would ever sleep.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from typing import Protocol

import anyio
import anyio.to_thread

from bullpen.errors import Unreadable
from bullpen.store.files.disk import TEMP_SUFFIX
from bullpen.store.files.log import event_log
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.watch import inotify

# The files of one commit change within this time. Collect them, so that they wake once.
_GATHER_S = 0.004
# How long to wait for the end of a commit in progress. A reader would have to wait as well.
_PAUSES_S = (0.002, 0.004, 0.008, 0.016)
# Network mounts do not report changes made elsewhere: check this often.
_LOOK_S = 10.0
# The same if nothing reports changes.
_POLL_S = 0.25
_POLL_FILES_S = 2.0
# watchfiles wakes at every step, even if nothing happens: a shorter step costs idle teams CPU.
_NOTIFY_GATHER_MS, _NOTIFY_STEP_MS = 50, 25


async def follow(
    paths: TeamPaths, check: Callable[[], object], every_s: float | None, agent: str | None = None
) -> AsyncGenerator[int, None]:
    """Yield the log's number now and after every change; `check` raises when the team is gone.

    With `agent`, other agents' mail is not a change. Everything is watched before the first yield,
    and notices are cleared before each yield, so that no later change is missed.
    """
    check()
    scope = _Scope(paths, agent)
    notifier = _notifier_for(scope)
    last, stamps, changed = scope.progress(), scope.stamps(), True
    yielded = looked = time.monotonic()
    pauses = iter(_PAUSES_S)
    try:
        while True:
            try:
                changed = notifier.changed() or changed
            except OSError:
                notifier.close()
                notifier, changed = _Poll(scope), True
            check()
            now = time.monotonic()
            if now - looked >= notifier.look_s:
                looked, changed = now, changed or scope.stamps() != stamps
            due = every_s is not None and now - yielded >= every_s
            if not (changed or due or scope.progress() != last):
                left = yielded + every_s - now if every_s is not None else notifier.look_s
                await notifier.wait(min(left, notifier.look_s))
            elif _under_way(paths) and (pause := next(pauses, None)):
                await anyio.sleep(pause)
            else:
                last, stamps, changed = scope.progress(), scope.stamps(), False
                yielded, pauses = now, iter(_PAUSES_S)
                yield _seq(paths)
    finally:
        notifier.close()


def _seq(paths: TeamPaths) -> int:
    head = event_log.read_head(paths.head)
    return head.seq if head else 0


def _under_way(paths: TeamPaths) -> bool:
    """Return whether a commit is logged but not all of its files are in place."""
    try:
        head = event_log.read_head(paths.head)
        return head is not None and head.size != event_log.size_of(paths.events)
    except Unreadable:
        return False  # The reader is told.


class _Scope:
    """What counts as a change."""

    def __init__(self, paths: TeamPaths, agent: str | None) -> None:
        self.paths = paths
        self._inbox = None if agent is None else paths.inbox(agent)
        self.places: tuple[str, ...] = (paths.tasks, paths.requests)
        if self._inbox is None:
            self.places += (paths.root, paths.inboxes, paths.own, paths.notes)
        else:
            # Not the folder of all inboxes, the log or the team's own folder: every message and
            # every turn of anybody changes them, and would wake every agent for nothing.
            self.places += (self._inbox,)

    def rings(self, folder: str, name: str) -> bool:
        """Return whether a change of that name counts: not a lock, temporary file or internal file.

        The log and its head are internal too. They change several times per commit; `progress`
        tells when it is done.
        """
        if name.endswith((".lock", TEMP_SUFFIX)) or ".json.tmp." in name:
            return False
        if folder == self.paths.own:
            return name in ("deleting", "requests")
        return folder in self.places or os.path.join(folder, name) in self.places

    def progress(self) -> tuple[int, int]:
        """Return what changes with every commit and cannot be seen from the files alone."""
        head = None
        with suppress(OSError, Unreadable):
            head = event_log.read_head(self.paths.head)
        size = _stamp(self.paths.events)[1]
        if self._inbox is None:
            return head.seq if head else 0, size
        # A commit logged by a killed process waits for somebody to carry it out.
        return (0, size if head is not None and size != head.size else 0)

    def stamps(self) -> tuple[tuple[int, int, int], ...]:
        """Return what changes whenever a file is added, removed or replaced, locks included."""
        paths = self.paths
        own = (paths.config, paths.inboxes) if self._inbox is None else (self._inbox,)
        return tuple(map(_stamp, (*own, paths.tasks)))


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino


class _Notifier(Protocol):
    """Tells when to check for changes."""

    look_s: float
    """How long to trust it before checking anyway."""

    def changed(self) -> bool:
        """Return whether something changed since the last call. Raises OSError if unknown."""

    async def wait(self, wait_s: float) -> None:
        """Wait until something may have changed, at most this long."""

    def close(self) -> None:
        """Release what it holds."""


def _notifier_for(scope: _Scope) -> _Notifier:
    if sys.platform != "linux":
        return _Notify(scope)
    try:
        return _Kernel(scope)
    except OSError:
        return _Poll(scope)


class _Kernel:
    """Notices from Linux inotify."""

    look_s = _LOOK_S

    def __init__(self, scope: _Scope) -> None:
        self._scope = scope
        self._queue = inotify.Inotify()
        self._watches: dict[int, str] = {}

    def changed(self) -> bool:
        """Watch what exists by now, then take all notices."""
        found = self._stand()
        changed = found.keys() != self._watches.keys()
        for watch in self._watches.keys() - found.keys():
            self._queue.remove(watch)
        self._watches = found
        for notice in self._queue.read():
            if notice.watch is None:
                changed = True
            elif folder := found.get(notice.watch):
                changed = changed or not notice.name or self._scope.rings(folder, notice.name)
        return changed

    def _stand(self) -> dict[int, str]:
        """Watch every place, or the folder in which a missing one will appear."""
        found: dict[int, str] = {}
        missing: list[str] = []
        root = self._scope.paths.root
        if (watch := self._queue.add(root, inotify.GONE)) is not None:
            found[watch] = root
        for place in self._scope.places:
            if (watch := self._queue.add(place, inotify.ANYTHING)) is not None:
                found[watch] = place
            else:
                missing.append(os.path.dirname(place))
        for folder in missing:
            if folder in found.values():
                continue
            if (watch := self._queue.add(folder, inotify.NEW_NAMES)) is not None:
                found[watch] = folder
        return found

    async def wait(self, wait_s: float) -> None:
        """Wait for a notice, then a moment for those that come with it."""
        with anyio.move_on_after(wait_s):
            await anyio.wait_readable(self._queue.fd)
            await anyio.sleep(_GATHER_S)

    def close(self) -> None:
        """Close the queue."""
        self._queue.close()


class _Poll:
    """Polling, for when the system has no notices left."""

    look_s = _POLL_S

    def __init__(self, scope: _Scope) -> None:
        self._scope = scope
        self._files = dict(self._stamps())
        self._looked = time.monotonic()

    def changed(self) -> bool:
        """Compare all files from time to time, because some programs write in place.

        Stamps show all other changes; they are cheaper and checked more often.
        """
        if time.monotonic() - self._looked < _POLL_FILES_S:
            return False
        before, self._files = self._files, dict(self._stamps())
        self._looked = time.monotonic()
        return before != self._files

    def _stamps(self) -> Iterator[tuple[str, tuple[int, int, int]]]:
        for place in self._scope.places:
            with suppress(OSError), os.scandir(place) as entries:
                for entry in entries:
                    if self._scope.rings(place, entry.name) and not entry.is_dir():
                        yield entry.path, _stamp(entry.path)

    async def wait(self, wait_s: float) -> None:
        """Wait until the next check."""
        await anyio.sleep(wait_s)

    def close(self) -> None:
        """Do nothing: nothing is held."""


class _Notify:
    """Change notices on other systems, from watchfiles, which wakes a thread at every step."""

    look_s = 2.0

    def __init__(self, scope: _Scope) -> None:
        # Imported here, because Linux does not need it.
        from watchfiles._rust_notify import RustNotify

        self._new, self._scope = RustNotify, scope
        self._watcher: RustNotify | None = None
        self._watched: list[str] = []
        self._limiter = anyio.CapacityLimiter(1)
        self._heard = False

    def changed(self) -> bool:
        """Watch what exists by now. Other programs create the task list with the first task."""
        paths = self._scope.paths
        there = [folder for folder in (paths.root, paths.tasks) if os.path.isdir(folder)]
        if there != self._watched:
            self.close()
            self._watcher = self._new(there, False, False, 300, True, False)
            self._watched, self._heard = there, True
        heard, self._heard = self._heard, False
        return heard

    async def wait(self, wait_s: float) -> None:
        """Wait for a notice. The notifier itself waits for those that come with it."""
        stop = threading.Event()
        assert self._watcher is not None
        try:
            found = await anyio.to_thread.run_sync(
                self._watcher.watch,
                _NOTIFY_GATHER_MS,
                _NOTIFY_STEP_MS,
                round(wait_s * 1000),
                stop,
                abandon_on_cancel=True,
                limiter=self._limiter,
            )
        finally:
            stop.set()
        if not isinstance(found, str):
            self._heard = any(self._rings(path) for _, path in found)

    def _rings(self, path: str) -> bool:
        folder, name = os.path.split(path)
        for place in (*self._scope.places, self._scope.paths.inboxes):
            # It gives the names behind links.
            if folder in (place, os.path.realpath(place)):
                return self._scope.rings(place, name)
        return False

    def close(self) -> None:
        """Stop the notifier."""
        if self._watcher is not None:
            self._watcher.close()
