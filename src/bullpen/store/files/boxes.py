"""Mailboxes that were read and have not changed since, so that looking again costs next to nothing.

An agent that waits looks into its mailbox whenever anything about its team changes, and a door
into everybody's every other second.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from bullpen.store.base import Mailbox
from bullpen.store.files import mailbox
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.records import Stamp, stamp_of

# Together about as much memory as the team's tasks may take; a bigger inbox is read each time.
_BOXES_MAX = 64
_BYTES_MAX = 1_000_000
# A file that changes twice within the clock's grain has the same stamp after both. What was read
# sooner than this after it was written is therefore read again, not believed.
_GRAIN_NS = 20_000_000

_Stamps = tuple[Stamp | None, Stamp | None]


class _Known(NamedTuple):
    stamps: _Stamps
    box: Mailbox


class Boxes:
    """The mailboxes of one team."""

    def __init__(self, paths: TeamPaths) -> None:
        self._paths = paths
        self._known: dict[str, _Known] = {}

    def unchanged(self, agent: str) -> Mailbox | None:
        """The mailbox, if it is as it was when it was last read."""
        known = self._known.get(agent)
        try:
            return known.box if known and known.stamps == self._stamps(agent) else None
        except OSError:
            return None  # Who reads it is told why.

    def read(self, agent: str) -> Mailbox:
        """The mailbox, read anew and remembered."""
        stamps, now = self._stamps(agent), time.time_ns()
        box = mailbox.read(self._paths, agent, after=None, history=False)
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
