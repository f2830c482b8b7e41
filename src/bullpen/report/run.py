"""A run as its log tells it: all that a page about it shows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

from bullpen.agents.news import asked_for
from bullpen.errors import Invalid
from bullpen.protocol import jsontext
from bullpen.protocol.changes import Event
from bullpen.protocol.request import Request
from bullpen.protocol.times import ms_of
from bullpen.team.approvals import open_requests
from bullpen.team.cost import Cost, cost_of
from bullpen.team.snapshot import Snapshot, member_view
from bullpen.unattended.summary import Summary, summed_up
from bullpen.view.scene import Scene, scene_of
from bullpen.view.story import Said, Story, story_of

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Decision:
    """Something that was asked for, and what was answered, by whom and in which words."""

    kind: str
    sender: str
    about: str
    # All of what was asked: a plan, or the input of a call.
    whole: str
    asked_ms: int
    state: str
    by: str | None
    answered_ms: int | None
    words: str | None


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a team, over or not. What is over is the same whenever it is looked at."""

    story: Story
    scene: Scene
    summary: Summary
    cost: Cost
    decisions: tuple[Decision, ...]
    over: bool
    now_ms: int

    def clock(self, at_ms: int | None) -> str:
        """A moment of it, in UTC; with the day if it took longer than one."""
        if at_ms is None:
            return ""
        try:
            moment = datetime.fromtimestamp(at_ms / 1000, UTC)
        except (OverflowError, ValueError, OSError):
            return ""
        long = self.now_ms - (self.story.began_ms or 0) >= _DAY_MS
        return moment.strftime("%m-%d %H:%M:%S" if long else "%H:%M:%S")

    def when(self, time: str) -> str:
        """The same of a time as the log has it."""
        return self.clock(ms_of(time))

    def conversation(self) -> Iterator[tuple[bool, list[Said]]]:
        """What was said, in order: each message alone, runs of notices together."""
        for notice, run in groupby(self.story.said, key=lambda said: said.kind is not None):
            if notice:
                yield True, list(run)
            else:
                yield from ((False, [said]) for said in run)


def run_of(events: Sequence[Event], *, now_ms: int) -> Run:
    """The run that a whole log tells; `now_ms` counts only while it is not over.

    Raises:
        Invalid: it is no log of a team from its first event.
    """
    try:
        story = story_of(events)
        team = story.team
    except ValueError as error:
        raise Invalid(
            f"This is no whole log of a team: {error}.",
            remedy="Save it from its first event: bullpen events --json > FILE",
        ) from None
    at_work = any(member.agent and member.agent.phase != "ended" for member in team.roster)
    now = max(now_ms, story.at_ms) if at_work else story.at_ms
    working: dict[str | None, list[str]] = {}
    scene = scene_of(story, now_ms=now)
    for card in scene.tasks:
        if card.state == "in_progress":
            working.setdefault(card.owner, []).append(card.id)
    snapshot = Snapshot(
        team=team,
        members=tuple(
            member_view(member, None, tuple(working.get(name, ())), story.unread(name), now)
            for name, member in story.members.items()
        ),
        tasks=tuple(task for task in story.tasks.values() if not task.is_internal),
        pending=tuple(open_requests(story.requests.values(), now)),
        seq=story.seq,
        taken_ms=now,
    )
    return Run(
        story=story,
        scene=scene,
        summary=summed_up(snapshot, events),
        cost=cost_of(team, snapshot.tasks, now_ms=now),
        decisions=tuple(
            _decision(request)
            for request in sorted(story.requests.values(), key=lambda each: each.created_ms)
            if request.kind != "shutdown"
        ),
        over=not at_work,
        now_ms=now,
    )


def _decision(request: Request) -> Decision:
    subject = request.subject
    if request.kind == "plan":
        whole = str(subject.get("plan", ""))
    else:
        whole = jsontext.dumps(subject.get("input")).decode()
    said = (request.answer or {}).get("feedback")
    by = "a rule" if request.voice == "policy" else request.answered_by
    return Decision(
        kind=request.kind,
        sender=request.sender,
        about=asked_for(request),
        whole=whole,
        asked_ms=request.created_ms,
        state=request.state,
        by=by,
        answered_ms=request.answered_ms,
        words=None if said is None else str(said),
    )
