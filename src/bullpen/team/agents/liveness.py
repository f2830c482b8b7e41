"""Who is alive and what is overdue, by what one process saw itself. Pure.

Wall clocks are set, differ between machines and go on while a machine sleeps. So a wall time in a
record is translated once, when it is first seen, and then judged on the monotonic clock. After a
gap, in which this process saw nothing, nobody is judged for as long as one lease: those who are
alive report in the meantime.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from bullpen.protocol.presence import ENDED, Presence
from bullpen.protocol.task import Task
from bullpen.team.lookup import owner_of

SETTLE_S = 120.0
"""For how long after a gap nobody is judged: as long as the lease of a task."""

LATE_S = 10.0
"""A look that comes this much later than usual means that this process did not run."""

JUMP_S = 5.0
"""If the wall clock gains or loses this much, it was set, or the machine slept."""

SILENT = 3
"""A heartbeat is silent after this many times its validity."""


class GapWatch:
    """Notices gaps: the machine slept, this process was stopped or starved, the clock was set."""

    def __init__(self, *, late_s: float = LATE_S) -> None:
        self._late_s = late_s
        self._last: tuple[int, float] | None = None
        self._usual_s = 0.0
        self._judge_from_s = -math.inf

    def look(self, wall_ms: int, now_s: float) -> bool:
        """Note one look, by both clocks. Returns whether there was a gap since the last one."""
        last, self._last = self._last, (wall_ms, now_s)
        if last is None:
            return False
        passed_s = now_s - last[1]
        jumped_s = (wall_ms - last[0]) / 1000 - passed_s
        # Some look every second and others every minute.
        late_s, self._usual_s = passed_s - self._usual_s, passed_s
        gap = late_s > self._late_s or abs(jumped_s) > JUMP_S
        if gap:
            self._judge_from_s = now_s + SETTLE_S
        return gap

    def may_judge(self, now_s: float) -> bool:
        """Return whether silence and leases mean anything now."""
        return now_s >= self._judge_from_s


class Deadlines:
    """Deadlines that records state in wall time, on the monotonic clock of this process."""

    def __init__(self) -> None:
        # For each, the wall time and when that is.
        self._due: dict[str, tuple[int, float]] = {}

    def has_passed(self, key: str, until_ms: int, *, wall_ms: int, now_s: float) -> bool:
        """Return whether a deadline has passed. It counts from when it was first seen."""
        known_ms, due_s = self._due.get(key, (None, 0.0))
        if known_ms != until_ms:
            due_s = now_s + (until_ms - wall_ms) / 1000
            self._due[key] = (until_ms, due_s)
        return due_s <= now_s

    def keep(self, keys: Collection[str]) -> None:
        """Forget all others."""
        self._due = {key: due for key, due in self._due.items() if key in keys}


class HeardBeats:
    """When this process last saw each agent's heartbeat change.

    The time in a heartbeat is the sender's clock. It proves nothing about another machine.
    """

    def __init__(self) -> None:
        # The launch and the time in the last heartbeat; since when it is that one; whether an
        # earlier one of this launch was seen.
        self._last: dict[str, tuple[str | None, int, float, bool]] = {}

    def hear(self, beats: Iterable[Presence], now_s: float) -> None:
        """Note the heartbeats of one look."""
        for beat in beats:
            last = self._last.get(beat.agent)
            if last is None or last[:2] != (beat.nonce, beat.beat_ms):
                again = last is not None and last[0] == beat.nonce
                self._last[beat.agent] = (beat.nonce, beat.beat_ms, now_s, again)

    def unchanged_s(self, beat: Presence, now_s: float) -> float:
        """Return for how long this process has seen no newer heartbeat."""
        last = self._last.get(beat.agent)
        return 0.0 if last is None or last[:2] != (beat.nonce, beat.beat_ms) else now_s - last[2]

    def is_silent(self, beat: Presence, now_s: float) -> bool:
        """Return whether an agent is certainly silent: this process waited long for a newer one."""
        return self.unchanged_s(beat, now_s) > SILENT * beat.ttl_ms / 1000

    def looks_alive(self, beat: Presence, *, wall_ms: int, now_s: float) -> bool:
        """Return whether a heartbeat is recent, for display.

        A process that has just started has seen only one, and believes the time in it.
        """
        if beat.state in ENDED:
            return False
        last = self._last.get(beat.agent)
        if last is None or not last[3]:
            return beat.alive(wall_ms)
        return self.unchanged_s(beat, now_s) <= beat.ttl_ms / 1000


def leases_over(
    tasks: Iterable[Task],
    team: str,
    deadlines: Deadlines,
    *,
    alive: Collection[str],
    wall_ms: int,
    now_s: float,
) -> dict[str, int]:
    """Return the leases that are over: task ids, and the lease each task has.

    The lease of an owner that is certainly alive is never over: it will renew it.
    """
    leases = {
        task.id: (owner_of(task, team), task.facts.lease_until_ms)
        for task in tasks
        if task.status == "in_progress" and task.facts.lease_until_ms is not None
    }
    deadlines.keep(leases)
    passed = {
        task_id: owner
        for task_id, (owner, until_ms) in leases.items()
        if deadlines.has_passed(task_id, until_ms, wall_ms=wall_ms, now_s=now_s)
    }
    return {task_id: leases[task_id][1] for task_id, owner in passed.items() if owner not in alive}
