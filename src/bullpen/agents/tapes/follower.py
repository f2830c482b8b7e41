"""Follows the tape that a replay writes, as it grows."""

from __future__ import annotations

import json
from collections import Counter
from typing import Self

from bullpen.agents.tapes.departures import Departure
from bullpen.agents.tapes.files import TapeFile
from bullpen.agents.tapes.format import READY


class Follower:
    """What a growing tape has so far. Each look reads only what is new."""

    def __init__(self, file: TapeFile) -> None:
        self._file = file
        self._at = 0
        self._ready = Counter[str]()
        # What has happened so far, and where the run left the tape.
        self.answered: set[tuple[str, str, int]] = set()
        self.left: Departure | None = None

    def look(self) -> Self:
        """Read what is new. Raises Unavailable."""
        raw = self._file.raw(self._at)
        whole = raw[: raw.rfind(b"\n") + 1]
        self._at += len(whole)
        for line in whole.splitlines():
            row = json.loads(line)
            if row.get("kind") == "call":
                self.answered.add((row["agent"], row["stream"], row["number"]))
            elif row.get("kind") == READY:
                self._ready[row["agent"]] += 1
                self.answered.add((row["agent"], READY, self._ready[row["agent"]]))
            elif row.get("kind") == "left" and self.left is None:
                self.left = Departure.of(row)
        return self
