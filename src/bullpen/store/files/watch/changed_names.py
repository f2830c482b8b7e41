"""Which files of a folder changed since the last look, so that the others need no look at all.

With 10,000 tasks, asking for the status of each file takes far longer than everything else a claim
does. Linux queues a notice before the call that changes a file returns. So whoever holds the team
lock has the notices of all earlier commits.
"""

from __future__ import annotations

import os
from contextlib import suppress

from bullpen.store.files.watch import inotify
from bullpen.store.files.watch.inotify import Inotify

# A user has few queues (128 by default), and agents that wait need theirs more.
_QUEUES_LEFT_MIN = 16


class ChangedNames:
    """The changed names in one folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._queue: Inotify | None = None
        self._watch: int | None = None
        self._pid = 0
        self._impossible = False

    def take(self) -> set[str] | None:
        """Return the names that changed since the last call; None if anything may have changed.

        That is the case in the first call, after which nothing is missed.
        """
        try:
            return self._take()
        except OSError:
            self.close()
            self._impossible = True
            return None

    def _take(self) -> set[str] | None:
        if self._pid != os.getpid():
            # A forked child that reads the queue of its parent would take the parent's notices.
            self.close()
            self._pid, self._impossible = os.getpid(), False
        if self._impossible:
            return None
        if self._queue is None:
            self._impossible = not inotify.reports_all(self._folder)
            self._queue = None if self._impossible else _opened()
            self._impossible = self._queue is None
        if self._queue is None:
            return None
        watch = self._queue.add(self._folder, inotify.CONTENT)
        notices = self._queue.read()
        same, self._watch = watch is not None and watch == self._watch, watch
        # A notice without a name is about the folder itself, or says that some were lost.
        if not same or not all(notice.name for notice in notices):
            return None
        return {notice.name for notice in notices}

    def close(self) -> None:
        """Release the queue. The next call begins again."""
        if self._queue is not None:
            self._queue.close()
        self._queue = self._watch = None


def _opened() -> Inotify | None:
    """Return a queue, unless so few are left that an agent could miss one."""
    queues: list[Inotify] = []
    try:
        with suppress(OSError):
            while len(queues) <= _QUEUES_LEFT_MIN:
                queues.append(Inotify())
        return queues.pop() if len(queues) > _QUEUES_LEFT_MIN else None
    finally:
        for queue in queues:
            queue.close()
