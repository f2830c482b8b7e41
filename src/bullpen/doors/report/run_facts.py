"""A run as its log tells it: everything that a report shows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

from bullpen.errors import Invalid
from bullpen.protocol.changes import Event
from bullpen.protocol.record.note import Note, in_order
from bullpen.protocol.request import Request
from bullpen.store.contract import TeamState
from bullpen.team.budget.cost import Cost, cost_of
from bullpen.team.snapshot import assemble
from bullpen.view.scene import Scene, scene_of
from bullpen.view.story import Said, Story, story_of
from bullpen.view.summary import Summary, summed_up

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a team. Once it is over, it is always the same."""

    story: Story
    scene: Scene
    summary: Summary
    cost: Cost
    decisions: tuple[Request, ...]
    over: bool
    now_ms: int

    @property
    def notes(self) -> list[Note]:
        """The notes of the team at the end, the plan first."""
        return in_order(self.story.notes)

    def clock(self, at_ms: int | None) -> str:
        """A moment in UTC; with the date if the run took longer than a day."""
        if at_ms is None:
            return ""
        try:
            moment = datetime.fromtimestamp(at_ms / 1000, UTC)
        except (OverflowError, ValueError, OSError):
            return ""
        long = self.now_ms - (self.story.began_ms or 0) >= _DAY_MS
        return moment.strftime("%m-%d %H:%M:%S" if long else "%H:%M:%S")

    def conversation(self) -> Iterator[tuple[bool, list[Said]]]:
        """The messages in order: each one alone, successive notices together."""
        for notice, run in groupby(self.story.said, key=lambda said: said.kind is not None):
            if notice:
                yield True, list(run)
            else:
                yield from ((False, [said]) for said in run)


def run_of(events: Sequence[Event], *, now_ms: int) -> Run:
    """The run that a log tells; `now_ms` matters only while it is not over.

    Raises:
        Invalid: the log is not complete.
    """
    try:
        story = story_of(events)
        team = story.team
    except ValueError as error:
        raise Invalid(
            f"The log of the team is not complete: {error}.",
            remedy="Save it from its first event: bullpen events --json > FILE",
        ) from None
    at_work = any(member.agent and member.agent.phase != "ended" for member in team.roster)
    now = max(now_ms, story.at_ms) if at_work else story.at_ms
    state = TeamState(team, story.tasks, story.requests, story.seq, notes=story.notes)
    unread = {name: story.unread(name) for name in story.members}
    snapshot = assemble(state, {}, unread, now_ms=now)
    return Run(
        story=story,
        scene=scene_of(story, now_ms=now),
        summary=summed_up(snapshot, events),
        cost=cost_of(team, snapshot.tasks, now_ms=now),
        decisions=tuple(
            request
            for request in sorted(story.requests.values(), key=lambda each: each.created_ms)
            if request.kind != "shutdown"
        ),
        over=not at_work,
        now_ms=now,
    )
