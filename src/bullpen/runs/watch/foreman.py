"""Nudges stalled agents, reassigns their tasks, and gives up tasks that nobody finishes.

It looks at what is recorded anyway: the log, heartbeats, transcripts, and now and then a worktree.
An agent that waits for somebody or something is not stalled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio import to_thread

from bullpen.agents.supervisor.roster_view import AgentView
from bullpen.agents.supervisor.supervisor import Supervisor
from bullpen.agents.system import processes
from bullpen.errors import BullpenError, NotFound, Refused
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.changes import Deliver
from bullpen.protocol.clock import Clock, now_ms
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.protocol.team import Unattended
from bullpen.runs.watch.progress_signs import Trail, tree_sign, work_sign
from bullpen.team.agents.liveness import LATE_S, GapWatch
from bullpen.team.budget.rules import of_team
from bullpen.team.lookup import owner_of
from bullpen.team.snapshot import Snapshot
from bullpen.team.tasks import stall_rules
from bullpen.team.tasks.check_rules import is_done, is_queued
from bullpen.team.tasks.dispatch_rules import kept_for
from bullpen.team.tasks.meant_for import MeantFor
from bullpen.team.tasks.rules import open_blockers
from bullpen.team.tasks.stall_rules import Advice, Course, Courses, Work
from bullpen.team.team import Team

LOOK_S = 3.0
_TREE_S = 60.0
"""After how long without any other sign a worktree is checked, and how often."""

OBEY_S = 60.0
"""How long a cancelled turn may go on before its agent is stopped and restarted."""

_WAITS = ("waiting", "starting")


@dataclass(frozen=True, slots=True)
class _TeamNow:
    """The team at one moment: records, agents by name, and members that work or will again."""

    snapshot: Snapshot
    tasks: Mapping[str, Task]
    views: Mapping[str, AgentView]
    working: Sequence[str]
    # The tasks that wait for the members they are meant for.
    kept: Mapping[str, MeantFor]

    @property
    def habits(self) -> Unattended:
        return self.snapshot.team.facts.unattended

    def owner_of(self, task: Task) -> str | None:
        return owner_of(task, self.snapshot.team.name)


@dataclass(slots=True)
class _Sight:
    """What was last seen of a task in progress, and since when that is so."""

    attempt: int
    sign: object
    since_s: float
    looked_s: float
    tree: str | None = None


class Foreman:
    """The foreman of one team, while the team is watched."""

    name = "foreman"

    def __init__(
        self,
        team: Team,
        supervisor: Supervisor,
        *,
        led: bool,
        returning: Callable[[str, AgentFacts], bool] = lambda name, agent: False,
        clock: Clock = now_ms,
        now: Callable[[], float] = anyio.current_time,
        trees: bool = True,
        every_s: float = LOOK_S,
    ) -> None:
        """`returning` says whether an agent that has ended will be restarted.

        Without `trees`, no worktree is checked. After a gap, by both clocks, nobody is stalled.
        """
        self._team = team
        self._supervisor = supervisor
        self._led = led
        self._returning = returning
        self._clock = clock
        self._now = now
        self._gaps = GapWatch(late_s=LATE_S + every_s)
        self._trees = trees
        self._every_s = every_s
        self._seen = 0
        self._courses = Courses()
        self._sights: dict[str, _Sight] = {}
        self._trails: dict[str, Trail] = {}
        self._mailed: dict[str, int] = {}
        self._works: dict[str, str] = {}
        # Since when an idle agent could have claimed a ready task.
        self._free_since: dict[str, float] = {}
        # The agents whose turn has to be cancelled, until they have the order.
        self._to_cancel: set[str] = set()
        # The agents whose turn was cancelled: the launch, and since when.
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
        """Look at once: work was returned, perhaps once too often."""
        self._woken.set()

    async def look(self, tell: Callable[[str], None] = lambda _: None) -> list[Advice]:
        """Look once, and do what is necessary. Returns what was done."""
        self._gaps.look(self._clock(), self._now())
        await self._cancel_turns()
        await self._follow()
        team_now = await self._team_now()
        for known in (self._sights, self._free_since):
            for task_id in known.keys() - team_now.tasks.keys():
                del known[task_id]
        done: list[Advice] = []
        for task in team_now.snapshot.tasks:
            if is_done(task) or is_queued(task):
                self._sights.pop(task.id, None)
                continue
            course = self._courses.of[task.id]
            if task.status == "in_progress":
                self._free_since.pop(task.id, None)
                advice = await self._on_work(task, course, team_now)
            else:
                self._sights.pop(task.id, None)
                advice = await self._on_rest(task, course, team_now) or self._on_neglect(
                    task, team_now
                )
            if advice is not None and await self._do(advice, task, tell):
                done.append(advice)
        await self._cancel_turns()
        await self._end_disobedient(team_now.views, tell)
        return done

    async def _follow(self) -> None:
        # What happened long before the start is not counted: a long log would take long to read.
        started = bool(self._seen)
        events = await (
            self._team.events(after=self._seen) if started else self._team.recent_events()
        )
        self._courses.follow(events)
        for event in events:
            for change in event.changes:
                if isinstance(change, Deliver):
                    sender = change.message.sender
                    self._mailed[sender] = self._mailed.get(sender, 0) + 1
            self._seen = event.seq

    async def _team_now(self) -> _TeamNow:
        snapshot, views = await self._supervisor.look()
        working = [
            view.member.name
            for view in snapshot.members
            if (agent := view.member.agent) is not None
            and (agent.phase != "ended" or self._returning(view.member.name, agent))
        ]
        tasks = {task.id: task for task in snapshot.tasks}
        # With a lead, nobody looks at what nobody takes.
        kept = {} if self._led else kept_for(tasks, snapshot.team)
        return _TeamNow(snapshot, tasks, {view.name: view for view in views}, working, kept)

    async def _on_work(self, task: Task, course: Course, team_now: _TeamNow) -> Advice | None:
        owner = team_now.owner_of(task)
        view = None if owner is None else team_now.views.get(owner)
        if owner is None or view is None or view.driver is None:
            # Bullpen does not run the owner: the lease decides.
            return None
        if owner not in team_now.working:
            return Advice("release", task.id, f"{owner} no longer works")
        trail = await self._trail(owner)
        still_s = await self._still_s(task, view, trail, team_now.snapshot)
        loop = stall_rules.looping(course, ()) or trail.loop
        work = Work(task, owner, still_s, loop)
        tried = {owner, *(task.facts.tried or ()), *course.gave_back}
        others = stall_rules.able_to(task, team_now.snapshot.team, team_now.working, but=tried)
        return stall_rules.in_progress(work, course, team_now.habits, others=others)

    async def _still_s(
        self, task: Task, view: AgentView, trail: Trail, snapshot: Snapshot
    ) -> float | None:
        """Return how long there was no sign of progress; None while the owner waits."""
        now = self._now()
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
            # A nudge gives the owner the same time again, whoever sent it.
            facts.nudged,
            tuple((check.at_ms, check.passed) for check in facts.checks),
        )
        sight = self._sights.get(task.id)
        if sight is None or sight.attempt != facts.attempt or sight.sign != sign:
            self._sights[task.id] = _Sight(facts.attempt, sign, now, now)
            return None
        if view.state in _WAITS or not self._gaps.may_judge(now):
            sight.since_s = now
            return None
        if now - sight.looked_s >= _TREE_S:
            sight.looked_s = now
            tree = await self._tree(view, snapshot)
            if tree is not None and tree != sight.tree:
                # The first time nobody knows what it was before: it may have changed.
                sight.tree, sight.since_s = tree, now
        return now - sight.since_s

    async def _tree(self, view: AgentView, snapshot: Snapshot) -> str | None:
        member = snapshot.team.member(view.name)
        agent = None if member is None else member.agent
        here = view.place is not None and view.place.host == processes.host_name()
        if not self._trees or agent is None or not here:
            return None
        return await to_thread.run_sync(tree_sign, Path(agent.spec.cwd), abandon_on_cancel=True)

    async def _trail(self, name: str) -> Trail:
        if name not in self._trails:
            self._trails[name] = Trail(await self._supervisor.transcript(name))
        self._trails[name].follow()
        return self._trails[name]

    async def _on_rest(self, task: Task, course: Course, team_now: _TeamNow) -> Advice | None:
        if of_team(team_now.snapshot.team, team_now.snapshot.taken_ms, turns=True) is not None:
            # The run ends with the limit as its cause; what is open can be done after a raise.
            return None
        return stall_rules.at_rest(
            task,
            course,
            team_now.tasks,
            team_now.snapshot.team,
            team_now.habits,
            working=team_now.working,
            led=self._led,
            works=await self._returned(task, course, team_now.snapshot),
        )

    def _on_neglect(self, task: Task, team_now: _TeamNow) -> Advice | None:
        """Return what to do about a ready task that idle agents could claim."""
        owner = team_now.owner_of(task)
        resting = [
            view.name
            for view in team_now.views.values()
            if view.state == "idle" and not view.tasks and owner in (None, view.name)
        ]
        kept = team_now.kept.get(task.id)
        if kept is not None:
            # It waits for these: the others would not be handed it.
            resting = [name for name in resting if name in kept.names]
        open_ = task.status == "pending" and task.facts.given_up is None
        free = open_ and not open_blockers(task, team_now.tasks.get)
        if self._led or not free or not stall_rules.able_to(task, team_now.snapshot.team, resting):
            self._free_since.pop(task.id, None)
            return None
        now = self._now()
        if not self._gaps.may_judge(now):
            self._free_since[task.id] = now
        since = self._free_since.setdefault(task.id, now)
        return stall_rules.neglected(task, now - since, team_now.habits)

    async def _returned(self, task: Task, course: Course, snapshot: Snapshot) -> list[str]:
        """Return an id for each work of a task that was returned, in order; equal work is equal."""
        merge, settings = task.facts.merge, snapshot.team.facts.merge
        if merge is None or settings is None or not self._trees:
            return course.returned
        last = merge.commit
        if last in course.returned and last not in self._works:
            place = Path(settings.repository)
            sign = await to_thread.run_sync(
                work_sign, place, merge.base, last, abandon_on_cancel=True
            )
            self._works[last] = sign or last
        return [self._works.get(commit, commit) for commit in course.returned]

    async def _do(self, advice: Advice, task: Task, tell: Callable[[str], None]) -> bool:
        """Follow an advice; False if the task has changed meanwhile."""
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
                        text=_nudge(task, advice.why),
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
            # It was completed, released or claimed by somebody else meanwhile.
            tell(f"task #{task.id} has changed meanwhile: {error.message}")
            return False
        if owner is not None and task.status == "in_progress":
            self._to_cancel.add(owner)
        return True

    async def _cancel_turns(self) -> None:
        """Cancel the turns of members whose tasks were reassigned. Raises Unavailable."""
        for name in list(self._to_cancel):
            with suppress(NotFound, Refused):
                # It has left or ended by now.
                reason = "its task was reassigned"
                await self._supervisor.order(name, "cancel", by=LEAD, reason=reason)
                self._cancelled[name] = (None, self._now())
            self._to_cancel.discard(name)

    async def _end_disobedient(
        self, views: Mapping[str, AgentView], tell: Callable[[str], None]
    ) -> None:
        """End agents whose cancelled turn goes on; they are restarted."""
        now = self._now()
        for name, (launch, since) in list(self._cancelled.items()):
            view = views.get(name)
            if view is None or view.state != "working" or launch not in (None, view.launch):
                del self._cancelled[name]
            elif launch is None or not self._gaps.may_judge(now):
                self._cancelled[name] = (view.launch, since if launch is None else now)
            elif now - since >= OBEY_S:
                del self._cancelled[name]
                tell(f"{name} did not end its cancelled turn: it is restarted")
                with suppress(BullpenError):
                    reason = "its turn did not end when it was cancelled"
                    await self._supervisor.stop(name, by=LEAD, end="lost", reason=reason)


def _nudge(task: Task, why: str) -> str:
    """Return what the owner of a stalled task reads."""
    return (
        f"Task #{task.id} ({task.subject}) is yours and in progress, but you seem to be stuck:"
        f" {why}. Try another approach. Finish it and set it to completed; or set it back to"
        " pending and say what blocks you, so that another teammate can try. If nothing changes,"
        " the task is reassigned."
    )
