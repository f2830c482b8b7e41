"""Following a team's files: a wake-up soon after any of them changes.

Linux tells us which names changed in the few folders that matter. Where it cannot (its queues are
few, and other systems have none) the same question is answered in another way; see `_Bell`.
Heartbeats ring no bell: fifty agents that each send one would never let each other sleep.
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
from bullpen.store.files import inotify, log
from bullpen.store.files.disk import TEMP_SUFFIX
from bullpen.store.files.paths import TeamPaths

# The files of one commit change within this time: gather them, so that they wake us once.
_GATHER_S = 0.004
# How long to wait for the end of a commit that is under way. Whoever reads sooner waits as well.
_PAUSES_S = (0.002, 0.004, 0.008, 0.016)
# Network mounts do not tell of changes made elsewhere: look by ourselves every so often.
_LOOK_S = 10.0
# The same where nobody tells us anything.
_POLL_S = 0.25
_POLL_FILES_S = 2.0
# watchfiles wakes every step, also when nothing happens: shorter costs an idle team its sleep.
_NOTIFY_GATHER_MS, _NOTIFY_STEP_MS = 50, 25


async def follow(
    paths: TeamPaths, check: Callable[[], object], every_s: float | None, agent: str | None = None
) -> AsyncGenerator[int, None]:
    """Yield the log's number now and after every change; `check` raises when the team is gone.

    With `agent`, other agents' mail is no change. Everything is watched before the first yield,
    and what the bell heard is forgotten before each, so that nothing that comes after is missed.
    """
    check()
    scope = _Scope(paths, agent)
    bell = _hang(scope)
    last, stamps, changed = scope.progress(), scope.stamps(), True
    yielded = looked = time.monotonic()
    pauses = iter(_PAUSES_S)
    try:
        while True:
            try:
                changed = bell.rang() or changed
            except OSError:
                bell.close()
                bell, changed = _Poll(scope), True
            check()
            now = time.monotonic()
            if now - looked >= bell.look_s:
                looked, changed = now, changed or scope.stamps() != stamps
            due = every_s is not None and now - yielded >= every_s
            if not (changed or due or scope.progress() != last):
                left = yielded + every_s - now if every_s is not None else bell.look_s
                await bell.wait(min(left, bell.look_s))
            elif _under_way(paths) and (pause := next(pauses, None)):
                await anyio.sleep(pause)
            else:
                last, stamps, changed = scope.progress(), scope.stamps(), False
                yielded, pauses = now, iter(_PAUSES_S)
                yield _seq(paths)
    finally:
        bell.close()


def _seq(paths: TeamPaths) -> int:
    head = log.read_head(paths.head)
    return head.seq if head else 0


def _under_way(paths: TeamPaths) -> bool:
    """Whether somebody has logged a commit and not put all its files in place yet."""
    try:
        head = log.read_head(paths.head)
        return head is not None and head.size != log.size_of(paths.events)
    except Unreadable:
        return False  # Who reads is told.


class _Scope:
    """What counts as a change."""

    def __init__(self, paths: TeamPaths, agent: str | None) -> None:
        self.paths = paths
        self._inbox = None if agent is None else paths.inbox(agent)
        self.places: tuple[str, ...] = (paths.tasks, paths.requests)
        if self._inbox is None:
            self.places += (paths.root, paths.inboxes, paths.own)
        else:
            # Neither the folder of all inboxes nor the log nor the team's own folder: each message
            # to anybody and each turn of anybody changes them, and would wake everybody to find
            # that it is not about them.
            self.places += (self._inbox,)

    def rings(self, folder: str, name: str) -> bool:
        """Whether a change of that name is one: no lock, no file being written, nothing of ours.

        The log and its head are ours too. They change several times for one commit; `progress`
        tells when it is done.
        """
        if name.endswith((".lock", TEMP_SUFFIX)) or ".json.tmp." in name:
            return False
        if folder == self.paths.own:
            return name in ("deleting", "requests")
        return folder in self.places or os.path.join(folder, name) in self.places

    def progress(self) -> tuple[int, int]:
        """What changes with every commit that files alone would not tell of."""
        head = None
        with suppress(OSError, Unreadable):
            head = log.read_head(self.paths.head)
        size = _stamp(self.paths.events)[1]
        if self._inbox is None:
            return head.seq if head else 0, size
        # What a killed process had logged waits for somebody to carry it out.
        return (0, size if head is not None and size != head.size else 0)

    def stamps(self) -> tuple[tuple[int, int, int], ...]:
        """What changes whenever a file is added, removed or replaced; also by locks."""
        paths = self.paths
        own = (paths.config, paths.inboxes) if self._inbox is None else (self._inbox,)
        return tuple(map(_stamp, (*own, paths.tasks)))


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino


class _Bell(Protocol):
    """Something that tells when to look."""

    look_s: float
    """How long to trust it before looking anyway."""

    def rang(self) -> bool:
        """Whether something changed since it was last asked. Raises OSError if it cannot tell."""

    async def wait(self, wait_s: float) -> None:
        """Wait until something may have changed, at most for so long."""

    def close(self) -> None:
        """Let go of what it holds."""


def _hang(scope: _Scope) -> _Bell:
    if sys.platform != "linux":
        return _Notify(scope)
    try:
        return _Kernel(scope)
    except OSError:
        return _Poll(scope)


class _Kernel:
    """Linux's notices."""

    look_s = _LOOK_S

    def __init__(self, scope: _Scope) -> None:
        self._scope = scope
        self._queue = inotify.Inotify()
        self._watches: dict[int, str] = {}

    def rang(self) -> bool:
        """Watch what is there by now, then take all notices."""
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
        """Watch every place, or for want of one the folder in which it will appear."""
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
        """Give the queue back."""
        self._queue.close()


class _Poll:
    """Looking again and again, where the system has no notices left to give."""

    look_s = _POLL_S

    def __init__(self, scope: _Scope) -> None:
        self._scope = scope
        self._files = dict(self._stamps())
        self._looked = time.monotonic()

    def rang(self) -> bool:
        """Compare all files now and then, for who writes in place. Of all others the stamps tell,
        which are cheaper and looked at more often."""
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
        """Wait till the next look."""
        await anyio.sleep(wait_s)

    def close(self) -> None:
        """Nothing is held."""


class _Notify:
    """The notices of other systems, by watchfiles. Its notifier wakes a thread every step."""

    look_s = 2.0

    def __init__(self, scope: _Scope) -> None:
        # Here, because Linux does without.
        from watchfiles._rust_notify import RustNotify

        self._new, self._scope = RustNotify, scope
        self._watcher: RustNotify | None = None
        self._watched: list[str] = []
        self._limiter = anyio.CapacityLimiter(1)
        self._heard = False

    def rang(self) -> bool:
        """Watch what is there by now. Other programs make the task list with the first task."""
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
        """End the notifier."""
        if self._watcher is not None:
            self._watcher.close()
