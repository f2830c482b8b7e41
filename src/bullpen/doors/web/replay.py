"""A team at any moment of its past, without replaying the whole log each time."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from threading import Lock

from bullpen.protocol.changes import Event
from bullpen.view.scene import Scene, scene_of
from bullpen.view.story import Story

APART = 3000
"""How many changes lie between two stories that are kept: few enough to replay instantly."""


class Replay:
    """The past of one team. Safe to use from several threads."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events
        self._kept: list[Story] = [Story()]
        # The events after which a story is kept, as far as they were counted.
        self._marks: list[int] = [0]
        self._counted, self._since = 0, 0
        # The last moment shown: the next step usually starts there.
        self._last = Story()
        self._lock = Lock()

    def is_of(self, events: Sequence[Event]) -> bool:
        """Whether this is the replay of this log, which may have grown."""
        return self._events is events

    @property
    def end(self) -> int:
        return self._events[-1].seq if self._events else 0

    def at(self, seq: int) -> tuple[Scene, Story]:
        """The team right after an event. The caller must not change the story."""
        wanted = max(1, min(seq, self.end))
        with self._lock:
            self._keep_until(wanted)
            kept = self._kept[
                bisect.bisect_right(self._kept, wanted, key=lambda story: story.seq) - 1
            ]
            story = self._last if kept.seq < self._last.seq <= wanted else kept
            self._last = self._forward(story, wanted)
            story = self._last
        return scene_of(story, now_ms=story.at_ms), story

    def prepare(self) -> None:
        """Replay the whole log once, so that later jumps are quick."""
        with self._lock:
            self._count(self.end)
        for mark in list(self._marks):
            with self._lock:
                self._keep_until(mark)

    def _keep_until(self, wanted: int) -> None:
        self._count(wanted)
        while (number := len(self._kept)) < len(self._marks) and self._marks[number] <= wanted:
            self._kept.append(self._forward(self._kept[-1], self._marks[number]))

    def _count(self, wanted: int) -> None:
        for event in self._events[self._counted : wanted]:
            self._counted = event.seq
            self._since += 1 + len(event.changes)
            if self._since >= APART:
                self._marks.append(event.seq)
                self._since = 0

    def _forward(self, story: Story, wanted: int) -> Story:
        """The story up to an event; the given one stays as it is, as others may read it."""
        if story.seq == wanted:
            return story
        further = story.copied()
        # Events are numbered from 1 without gaps.
        further.tell(self._events[story.seq : wanted])
        return further
