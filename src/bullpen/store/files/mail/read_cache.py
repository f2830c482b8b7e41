"""Caches mailboxes that have not changed, so that reading them again is nearly free.

A waiting agent reads its mailbox whenever anything about its team changes, and a screen counts
everybody's unread mail every other second.
"""

from __future__ import annotations

import os
import threading
import time
from typing import NamedTuple

from bullpen.store.contract import Mailbox
from bullpen.store.files.mail import read_mail
from bullpen.store.files.mail.inbox_file import read_state
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.records import Stamp, stamp_of

# The inboxes that are kept, in bytes on disk. A larger one is read each time.
_BYTES_MAX = 1_000_000
_ALL_BYTES_MAX = 64_000_000
# A file that changes twice within the clock's resolution has the same stamp after both. So a file
# that was read this soon after it was written is read again.
_GRAIN_NS = 20_000_000

_Stamps = tuple[Stamp | None, Stamp | None]


class _Known(NamedTuple):
    stamps: _Stamps
    box: Mailbox

    @property
    def bytes(self) -> int:
        return self.stamps[0].size if self.stamps[0] is not None else 0


class _Paths(NamedTuple):
    inbox: str
    injected: str
    state: str


class ReadCache:
    """The mailboxes of one team, those that were read last, and how much is unread in each."""

    def __init__(self, paths: TeamPaths) -> None:
        self._paths = paths
        # Built once, because checking a name takes longer than looking at its file.
        self._paths_of: dict[str, _Paths] = {}
        self._guard = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._bytes = 0
        self._unread: dict[str, tuple[Stamp, int]] = {}

    def unchanged(self, agent: str) -> Mailbox | None:
        """Return the mailbox if it has not changed since it was last read."""
        known = self._known.get(agent)
        try:
            return known.box if known and known.stamps == self._stamps(agent) else None
        except OSError:
            return None  # Reading it reports why.

    def read(self, agent: str) -> Mailbox:
        """Read the mailbox again and cache it."""
        stamps, now = self._stamps(agent), time.time_ns()
        box = read_mail.read(self._paths, agent, after=None, history=False)
        settled = all(each is None or now - each.mtime_ns > _GRAIN_NS for each in stamps)
        with self._guard:
            self._forget(agent)
            if settled and (stamps[0] is None or stamps[0].size <= _BYTES_MAX):
                self._keep(agent, _Known(stamps, box))
            if settled and stamps[0] is not None:
                self._unread[agent] = stamps[0], len(box.unread)
        return box

    def unread(self, agent: str) -> int:
        """Return how many messages are unread. The inbox is read only if nobody kept the count."""
        paths = self._paths_for(agent)
        inbox = _stamp(paths.inbox)
        if inbox is None:
            return 0
        known = self._unread.get(agent)
        if known is not None and known[0] == inbox:
            return known[1]
        state = read_state(paths.state, inbox)
        if state is None or not state.exact:
            return len(self.read(agent).unread)
        self._unread[agent] = inbox, state.unread
        return state.unread

    def _keep(self, agent: str, known: _Known) -> None:
        self._known[agent] = known
        self._bytes += known.bytes
        while self._bytes > _ALL_BYTES_MAX:
            self._forget(next(iter(self._known)))

    def _forget(self, agent: str) -> None:
        known = self._known.pop(agent, None)
        self._bytes -= known.bytes if known is not None else 0

    def _stamps(self, agent: str) -> _Stamps:
        paths = self._paths_for(agent)
        return _stamp(paths.inbox), _stamp(paths.injected)

    def _paths_for(self, agent: str) -> _Paths:
        paths, of = self._paths_of.get(agent), self._paths
        if paths is None:
            paths = _Paths(of.inbox(agent), of.injected(agent), of.shadow_state(agent))
            self._paths_of[agent] = paths
        return paths


def _stamp(path: str) -> Stamp | None:
    try:
        return stamp_of(os.lstat(path))
    except FileNotFoundError:
        return None
