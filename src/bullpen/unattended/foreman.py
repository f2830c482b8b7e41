"""Sees who comes no further, reminds, hands tasks on, and gives up what comes to nothing.

It looks at what is recorded anyway: the log, heartbeats, transcripts, and now and then at a tree.
Whoever waits for somebody or something is not stalled, however long that takes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import anyio
from anyio import to_thread

from bullpen.agents import processes
from bullpen.agents.rollcall import AgentView
from bullpen.errors import BullpenError, Refused
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.changes import Deliver, Event
from bullpen.protocol.merge import Merge, merge_of
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.protocol.unattended import Unattended
from bullpen.store.clock import Clock, now_ms
from bullpen.team import stall_rules
from bullpen.team.check_rules import is_done, is_queued
from bullpen.team.lookup import owner_of
from bullpen.team.rules import open_blockers
from bullpen.team.snapshot import Snapshot
from bullpen.team.stall_rules import Advice, Course, Courses, Work
from bullpen.team.team import Team
from bullpen.unattended.signs import Trail, tree_sign, work_sign

LOOK_S = 3.0
_TREE_S = 60.0
"""A tree is looked at after so long without any other sign, and not more often."""

OBEY_S = 60.0
"""So long a turn may go on that was cancelled, before its agent is ended and started again."""

_WAITS = ("waiting", "starting")

Look = Callable[[], Awaitable[tuple[Snapshot, list[AgentView]]]]


class Hands(Protocol):
    """What the foreman may do to agents, and where their transcripts are."""

    async def cancel(self, name: str) -> None:
        """End the turn of an agent."""

    async def end(self, name: str, reason: str) -> None:
        """End an agent that is to be started again."""

    async def transcript(self, name: str) -> Path:
        """The transcript of an agent; there need not be one."""


@dataclass(slots=True)
class _Sight:
    """What was last seen of a task in progress, and since when it is so."""

    attempt: int
    sign: object
    since_s: float
    looked_s: float
    tree: str | None = None


class Foreman:
    """The foreman of one team, as long as somebody pursues it."""

    name = "foreman"

    def __init__(
        self,
        team: Team,
        look: Look,
        hands: Hands,
        *,
        led: bool,
        returning: Callable[[str, AgentFacts], bool] = lambda name, agent: False,
        clock: Clock = now_ms,
        trees: bool = True,
        every_s: float = LOOK_S,
    ) -> None:
        """`returning` says of an agent that has ended whether it will be started again.

        Without `trees` none is looked at.
        """
        self._team = team
        self._look = look
        self._hands = hands
        self._led = led
        self._returning = returning
        self._clock = clock
        self._trees = trees
        self._every_s = every_s
        self._seen = 0
        self._courses = Courses()
        self._sights: dict[str, _Sight] = {}
        self._trails: dict[str, Trail] = {}
        self._mailed: dict[str, int] = {}
        self._works: dict[str, str] = {}
        # Since when a ready task could have been taken by somebody who rests.
        self._free_since: dict[str, float] = {}
        # Whose turn was cancelled: the launch, and since when.
        self._cancelled: dict[str, tuple[int | None, float]] = {}
        self._woken = anyio.Event()

    async def run(self, tell: Callable[[str], None]) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self.look(tell)
            with anyio.move_on_after(self._every_s):
                await self._woken.wait()
            self._woken = anyio.Event()

    def wake(self) -> None:
        """Look at once: something came back that may not come back for ever."""
        self._woken.set()

    async def look(self, tell: Callable[[str], None] = lambda _: None) -> list[Advice]:
        """Look once, and do what is to be done; returns that."""
        await self._follow()
        snapshot, views = await self._look()
        by_name = {view.name: view for view in views}
        tasks = {task.id: task for task in snapshot.tasks}
        habits = snapshot.team.facts.habits
        working = self._working(snapshot)
        done: list[Advice] = []
        for task in snapshot.tasks:
            if is_done(task) or is_queued(task):
                self._sights.pop(task.id, None)
                continue
            course = self._courses.of[task.id]
            if task.status == "in_progress":
                self._free_since.pop(task.id, None)
                advice = await self._on_work(task, course, snapshot, by_name, working, habits)
            else:
                self._sights.pop(task.id, None)
                advice = await self._on_rest(task, course, tasks, snapshot, working, habits)
                advice = advice or self._on_neglect(task, tasks, snapshot, by_name, habits)
            if advice is not None and await self._do(advice, task, tell):
                done.append(advice)
        await self._see_who_obeys(by_name, tell)
        return done

    async def _follow(self) -> None:
        events = await self._team.events(after=self._seen)
        self._courses.follow(events)
        for event in events:
            self._count_mail(event)
        if events:
            self._seen = events[-1].seq

    def _count_mail(self, event: Event) -> None:
        for change in event.changes:
            if isinstance(change, Deliver):
                sender = change.message.sender
                self._mailed[sender] = self._mailed.get(sender, 0) + 1

    def _working(self, snapshot: Snapshot) -> list[str]:
        """The members that work, or will be started again."""
        return [
            view.member.name
            for view in snapshot.members
            if (agent := view.member.agent) is not None
            and (agent.phase != "ended" or self._returning(view.member.name, agent))
        ]

    async def _on_work(
        self,
        task: Task,
        course: Course,
        snapshot: Snapshot,
        views: Mapping[str, AgentView],
        working: Sequence[str],
        habits: Unattended,
    ) -> Advice | None:
        owner = owner_of(task, snapshot.team.name)
        view = None if owner is None else views.get(owner)
        if owner is None or view is None or view.driver is None:
            # Not an agent of ours: whoever it is, its lease decides.
            return None
        if owner not in working:
            return Advice("release", task.id, f"{owner} does not work any more")
        trail = await self._trail(owner)
        still_s = await self._still_s(task, view, trail, snapshot)
        loop = stall_rules.looping(course, ()) or trail.loop
        work = Work(task, owner, still_s, loop)
        tried = {owner, *(task.facts.tried or ()), *course.gave_back}
        others = stall_rules.able_to(task, snapshot.team, working, but=tried)
        return stall_rules.in_progress(work, course, habits, others=others)

    async def _still_s(
        self, task: Task, view: AgentView, trail: Trail, snapshot: Snapshot
    ) -> float | None:
        """How long there was no sign of progress; None while its owner waits for something."""
        now = self._clock() / 1000
        facts = task.facts
        sign = (
            view.state,
            view.since_ms,
            view.tool,
            view.actions,
            view.usage.raw,
            view.launch,
            trail.rows,
            self._mailed.get(view.name, 0),
            # After a reminder it has as long again, whoever reminded it.
            facts.nudged,
            tuple((check.at_ms, check.passed) for check in facts.all_checks),
        )
        sight = self._sights.get(task.id)
        if sight is None or sight.attempt != facts.attempt or sight.sign != sign:
            self._sights[task.id] = _Sight(facts.attempt, sign, now, now)
            return None
        if view.state in _WAITS:
            sight.since_s = now
            return None
        if now - sight.looked_s >= _TREE_S:
            sight.looked_s = now
            tree = await self._tree(view, snapshot)
            if tree is not None and tree != sight.tree:
                # What it was before is not known the first time: then it may have changed.
                sight.tree, sight.since_s = tree, now
        return now - sight.since_s

    async def _tree(self, view: AgentView, snapshot: Snapshot) -> str | None:
        member = snapshot.team.member(view.name)
        agent = None if member is None else member.agent
        here = view.place is not None and view.place.host == processes.host_name()
        if not self._trees or agent is None or not here:
            return None
        return await to_thread.run_sync(tree_sign, Path(agent.asked.cwd), abandon_on_cancel=True)

    async def _trail(self, name: str) -> Trail:
        if name not in self._trails:
            self._trails[name] = Trail(await self._hands.transcript(name))
        self._trails[name].follow()
        return self._trails[name]

    async def _on_rest(
        self,
        task: Task,
        course: Course,
        tasks: Mapping[str, Task],
        snapshot: Snapshot,
        working: Sequence[str],
        habits: Unattended,
    ) -> Advice | None:
        works = await self._returned(task, course, snapshot)
        return stall_rules.at_rest(
            task,
            course,
            tasks,
            snapshot.team,
            habits,
            working=working,
            led=self._led,
            works=works,
        )

    def _on_neglect(
        self,
        task: Task,
        tasks: Mapping[str, Task],
        snapshot: Snapshot,
        views: Mapping[str, AgentView],
        habits: Unattended,
    ) -> Advice | None:
        """What is to be done about a task that lies there while those rest who could take it."""
        owner = owner_of(task, snapshot.team.name)
        resting = [
            view.name
            for view in views.values()
            if view.state == "idle" and not view.tasks and owner in (None, view.name)
        ]
        open_ = task.status == "pending" and task.facts.given_up is None
        free = open_ and not open_blockers(task, tasks.get)
        if self._led or not free or not stall_rules.able_to(task, snapshot.team, resting):
            self._free_since.pop(task.id, None)
            return None
        now = self._clock() / 1000
        since = self._free_since.setdefault(task.id, now)
        return stall_rules.neglected(task, now - since, habits)

    async def _returned(self, task: Task, course: Course, snapshot: Snapshot) -> list[str]:
        """What tells the works that came back of a task from each other, in order."""
        merge, row = merge_of(task), snapshot.team.facts.merge
        if merge is None or row is None or not self._trees:
            return course.returned
        last = merge.commit
        if last in course.returned and last not in self._works:
            self._works[last] = await self._work(Path(str(row.get("repository"))), merge)
        return [self._works.get(commit, commit) for commit in course.returned]

    async def _work(self, repository: Path, merge: Merge) -> str:
        sign = await to_thread.run_sync(
            work_sign, repository, merge.base, merge.commit, abandon_on_cancel=True
        )
        return sign or merge.commit

    async def _do(self, advice: Advice, task: Task, tell: Callable[[str], None]) -> bool:
        """Do what is to be done; False if the task has moved on meanwhile."""
        owner = owner_of(task, self._team.name)
        tasks, facts = self._team.tasks, task.facts
        try:
            match advice.step:
                case "nudge":
                    await tasks.nudge(
                        task.id,
                        by=LEAD,
                        attempt=facts.attempt,
                        times=facts.nudges,
                        why=advice.why,
                        text=_reminder(task, advice.why),
                    )
                    self._sights.pop(task.id, None)
                    if owner is not None and owner in self._trails:
                        self._trails[owner].begin_anew()
                    return True
                case "release":
                    await tasks.release(task.id, by=LEAD, reason=advice.why)
                    return True
                case "relieve":
                    await tasks.relieve(task.id, by=LEAD, reason=advice.why)
                case "give_up":
                    await tasks.give_up(task.id, by=LEAD, reason=advice.why)
        except Refused as error:
            # It was completed, given back or taken by somebody else since it was looked at.
            tell(f"task #{task.id} has moved on: {error.message}")
            return False
        if owner is not None and task.status == "in_progress":
            with suppress(BullpenError):
                await self._hands.cancel(owner)
                self._cancelled[owner] = (None, self._clock() / 1000)
        return True

    async def _see_who_obeys(
        self, views: Mapping[str, AgentView], tell: Callable[[str], None]
    ) -> None:
        """End agents whose turn goes on though it was cancelled; they are started again."""
        now = self._clock() / 1000
        for name, (launch, since) in list(self._cancelled.items()):
            view = views.get(name)
            if view is None or view.state != "working" or launch not in (None, view.launch):
                del self._cancelled[name]
            elif launch is None:
                self._cancelled[name] = (view.launch, since)
            elif now - since >= OBEY_S:
                del self._cancelled[name]
                tell(f"{name} does not end its turn: it is ended and started again")
                with suppress(BullpenError):
                    await self._hands.end(name, "its turn did not end when it was cancelled")


def _reminder(task: Task, why: str) -> str:
    """What the owner of a task reads that comes no further."""
    return (
        f"Task #{task.id} ({task.subject}) is yours and in progress, but you seem to come no"
        f" further with it: {why}. Look at it another way. Finish it and set it to completed; or"
        " set it back to pending and say what is in the way, so that somebody else can try. If"
        " nothing changes, it is taken from you."
    )
