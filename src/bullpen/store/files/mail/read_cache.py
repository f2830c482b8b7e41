"""Caches mailboxes that have not changed, so that reading them again is nearly free.

A waiting agent reads its mailbox whenever anything about its team changes, and a screen reads
everybody's every other second.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from bullpen.store.contract import Mailbox
from bullpen.store.files.mail import read_mail
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.records import Stamp, stamp_of

# About as much memory as the team's tasks may take; a larger inbox is read each time.
_BOXES_MAX = 64
_BYTES_MAX = 1_000_000
# A file that changes twice within the clock's resolution has the same stamp after both. So a file
# that was read this soon after it was written is read again.
_GRAIN_NS = 20_000_000

_Stamps = tuple[Stamp | None, Stamp | None]


class _Known(NamedTuple):
    stamps: _Stamps
    box: Mailbox


class ReadCache:
    """The mailboxes of one team."""

    def __init__(self, paths: TeamPaths) -> None:
        self._paths = paths
        self._known: dict[str, _Known] = {}

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
        self._known.pop(agent, None)
        settled = all(each is None or now - each.mtime_ns > _GRAIN_NS for each in stamps)
        if settled and (stamps[0] is None or stamps[0].size <= _BYTES_MAX):
            if len(self._known) >= _BOXES_MAX:
                self._known.clear()
            self._known[agent] = _Known(stamps, box)
        return box

    def _stamps(self, agent: str) -> _Stamps:
        return _stamp(self._paths.inbox(agent)), _stamp(self._paths.injected(agent))


def _stamp(path: str) -> Stamp | None:
    try:
        return stamp_of(os.lstat(path))
    except FileNotFoundError:
        return None
