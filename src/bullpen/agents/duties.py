"""What an agent owes its team between turns: tasks to take, to renew, to finish; a team to end."""

from __future__ import annotations

from bullpen.agents.desk import RunnerDesk
from bullpen.agents.frame import harmless
from bullpen.agents.tools.tasks import LEASE_S
from bullpen.errors import BullpenError, Conflict, NotFound, Refused, Unavailable
from bullpen.protocol.names import LEAD
from bullpen.protocol.roster import Member, TeamConfig
from bullpen.protocol.task import Task
from bullpen.store.clock import Clock
from bullpen.team import agent_rules
from bullpen.team.budget_rules import OverBudget
from bullpen.team.check_rules import is_done, is_queued
from bullpen.team.dispatch_rules import in_order
from bullpen.team.lookup import owner_of
from bullpen.team.snapshot import MemberView, Snapshot

_RENEW_S = 40.0
_REMINDERS_MAX = 2
# How long everybody must rest before a lead is told so; longer if mail waits to be read.
_REST_S = 3.0
_UNREAD_REST_S = 30.0
_BUSY_LOOK_S = 10.0
# When a tree could not be got ready for a task, that is tried again, later each time.
_PUT_OFF_S = 15.0
_PUT_OFF_MAX_S = 600.0

UNTIL_DONE = "until_done"
"""The option of a lead that shall work until the goal is reached, and is reminded of it."""


class Duties:
    """The tasks of one agent, and for a lead those of the team."""

    def __init__(self, desk: RunnerDesk, *, reply_s: float, clock: Clock) -> None:
        self._desk = desk
        self._tasks = desk.team.tasks
        self._reply_s = reply_s
        self._clock = clock
        self._renewed = 0.0
        self._announced: set[tuple[str, int]] = set()
        self._reminded = 0
        self._remind_at: float | None = None
        self._gave_back: set[str] = set()
        # When a task may be tried again whose tree could not be got ready, and how often it was.
        self._put_off: dict[str, tuple[float, int]] = {}
        self._asides: list[str] = []
        self._progress: object = None
        self._rest_since: float | None = None
        self._look_at: float | None = None
        self.stalled = False

    async def adopt(self) -> None:
        """Take up what this agent had in progress before a restart."""
        for task in self._owned((await self._tasks.list()).tasks):
            if task.status == "in_progress":
                self._desk.attempts[task.id] = task.facts.attempt
                # Whatever it waited for may have come to its end with the process before.
                self._remind_at = self._clock() / 1000
                try:
                    ready = await self._desk.begin_task(task)
                except (Conflict, NotFound):
                    raise
                except BullpenError as error:
                    await self._not_begun(task, error)
                else:
                    self._asides += [] if ready is None else [ready]

    async def notes(self) -> list[str]:
        """Why this agent should have a turn although it has no mail."""
        desk = self._desk
        tasks = (await self._tasks.list()).tasks
        own = self._owned(tasks)
        working = [task for task in own if task.status == "in_progress"]
        if working:
            return await self._remind(working)
        # Whatever it had is done, or somebody else's by now: there is nothing to remind it of.
        self._remind_at = None
        if desk.spec.claims:
            return await self._claim(tasks)
        unblocked = self._unblocked(tasks, own)
        if unblocked:
            return unblocked
        if self.until_done:
            return await self._lead_on()
        return []

    @property
    def until_done(self) -> bool:
        """Whether this is a lead that works until the goal is reached."""
        return self._desk.is_lead and bool(self._desk.spec.options.get(UNTIL_DONE))

    async def _claim(self, tasks: list[Task]) -> list[str]:
        """Take the next task for it: by code, so that no two agents ever have the same one."""
        desk = self._desk
        by_id = {task.id: task for task in tasks}
        config = await desk.team.agents.config()
        for task in in_order(by_id, config, desk.agent, idle=_idle(config, tasks)):
            if task.id in self._gave_back or self._is_put_off(task):
                continue
            try:
                claimed = await self._tasks.claim(task.id, by=desk.agent, lease_s=LEASE_S)
            except Refused:
                # Somebody else was faster.
                continue
            self._reminded = 0
            self._remind_at = None
            try:
                ready = await desk.begin_task(claimed)
            except (Conflict, NotFound):
                raise
            except BullpenError as error:
                await self._not_begun(claimed, error)
                continue
            note = _told("You have claimed task", claimed)
            return [note if ready is None else f"{note}\n\n{ready}"]
        return []

    def _is_put_off(self, task: Task) -> bool:
        return self._clock() / 1000 < self._put_off.get(task.id, (0.0, 0))[0]

    async def _not_begun(self, task: Task, error: BullpenError) -> None:
        """Leave a task for which its tree could not be got ready: for good, or for some time."""
        _, times = self._put_off.get(task.id, (0.0, 0))
        if isinstance(error, Unavailable):
            # A full disk, for example: it may have room again.
            delay = min(_PUT_OFF_S * 2**times, _PUT_OFF_MAX_S)
            self._put_off[task.id] = self._clock() / 1000 + delay, times + 1
        else:
            self._gave_back.add(task.id)
        if times == 0 and not self._desk.is_lead:
            await self._desk.team.mailbox.send(
                LEAD,
                f"I gave task #{task.id} back: my tree could not be got ready for it. {error}",
                sender=self._desk.agent,
                summary=f"Gave task #{task.id} back: {error.message[:60]}",
            )

    def _unblocked(self, tasks: list[Task], own: list[Task]) -> list[str]:
        """Tasks assigned to it that nothing blocks any more, each told once."""
        done = {task.id for task in tasks if is_done(task)}
        notes = []
        for task in own:
            mark = (task.id, task.facts.attempt)
            free = task.status == "pending" and set(task.blocked_by) <= done
            if free and mark not in self._announced:
                self._announced.add(mark)
                # An assignment without blockers was told by mail.
                if task.blocked_by:
                    notes.append(_told("Nothing blocks your task any more", task))
        return notes

    async def _remind(self, working: list[Task]) -> list[str]:
        """Remind it of what it has in progress; at last give that back."""
        now = self._clock() / 1000
        if self._remind_at is None or now < self._remind_at:
            return []
        self._remind_at = None
        self._reminded += 1
        named = ", ".join(f"#{task.id}" for task in working)
        if self._reminded <= _REMINDERS_MAX:
            words = (
                f"Task {named} is still yours and in progress. Finish it and set it to completed,"
                " set it back to pending if you cannot, or ask whom you wait for."
            )
            return [words]
        reason = f"{self._desk.agent} ended its turns without finishing"
        for task in working:
            await self.give_back(task.id, reason)
        if self._desk.is_lead:
            # What is written in the lead's name to the lead is its user's word.
            return [f"Task {named} is no longer yours: you did not finish it."]
        await self._desk.team.mailbox.send(
            LEAD,
            f"I gave task {named} back: I was reminded of it {_REMINDERS_MAX} times"
            " and did not finish it.",
            sender=self._desk.agent,
            summary=f"Gave task {named} back",
        )
        return []

    async def give_back(self, task_id: str, reason: str) -> None:
        """Give a task back and do not take it again: it comes to nothing here."""
        await self._tasks.release(task_id, by=self._desk.agent, reason=reason)
        self._desk.attempts.pop(task_id, None)
        self._gave_back.add(task_id)

    async def hand_in(self, over: OverBudget) -> None:
        """Give a task back of which nothing may be used any more, and say so."""
        task_id = over.reached.name
        await self.give_back(task_id, over.message)
        self._asides.append(f"{over.message} You gave it back: leave it as it is.")
        if not self._desk.is_lead:
            await self._desk.team.mailbox.send(
                LEAD,
                f"I gave task #{task_id} back. {over}",
                sender=self._desk.agent,
                summary=f"Gave task #{task_id} back: its budget is used up",
            )

    def asides(self) -> list[str]:
        """What the next turn has to be told, though it would not begin one; handed out once."""
        told, self._asides = self._asides, []
        return told

    async def _lead_on(self) -> list[str]:
        """Remind a lead that everybody rests and the goal is not reached, but not for ever."""
        snapshot = await self._desk.team.snapshot()
        now = self._clock() / 1000
        if self._busy(snapshot) or any(map(is_queued, snapshot.tasks)):
            self._rest_since = None
            # Who ends a turn writes to the lead; who is stopped in one does not.
            self._look_at = now + _BUSY_LOOK_S
            return []
        if self._rest_since is None:
            self._rest_since = now
        waits = any(view.unread for view in self._others(snapshot))
        self._look_at = self._rest_since + (_UNREAD_REST_S if waits else _REST_S)
        if now < self._look_at:
            return []
        moved = _progress(snapshot)
        if self._progress != moved:
            self._progress, self._reminded = moved, 0
        if self._reminded >= _REMINDERS_MAX:
            self.stalled = True
            return []
        self._reminded += 1
        self._rest_since = self._look_at = None
        left = [task for task in snapshot.tasks if task.status != "completed"]
        if left:
            named = ", ".join(f"#{task.id}" for task in left[:20])
            words = (
                f"Everybody rests, but these tasks are open: {named}. Give them to somebody,"
                " do or delete them, then finish."
            )
            return [words]
        return ["Everybody rests and no task is open. If the goal is reached, finish."]

    def _others(self, snapshot: Snapshot) -> list[MemberView]:
        """The other agents of ours that have not ended."""
        return [
            view
            for view in snapshot.members
            if view.member.name != self._desk.agent
            and (agent := view.member.agent) is not None
            and agent.phase != "ended"
        ]

    def _busy(self, snapshot: Snapshot) -> bool:
        """Whether anybody has a turn or a task or is starting: what the team knows for sure."""
        return any(
            view.member.is_active or view.tasks or _starting(view.member)
            for view in self._others(snapshot)
        )

    async def others_at_work(self) -> bool:
        """Whether another agent of ours has a turn at the moment."""
        config = await self._desk.team.agents.config()
        return any(
            member.is_active
            for member in agent_rules.living(config)
            if member.name != self._desk.agent
        )

    async def renew(self) -> None:
        """Keep the leases of what it has in progress: the runner lives, so the work goes on."""
        now = self._clock() / 1000
        if not self._desk.attempts or now - self._renewed < _RENEW_S:
            return
        self._renewed = now
        for task_id, attempt in list(self._desk.attempts.items()):
            try:
                await self._tasks.renew(
                    task_id, by=self._desk.agent, attempt=attempt, lease_s=LEASE_S
                )
            except Refused:
                # Completed, given back, or somebody else's by now: the store has the last word.
                self._desk.attempts.pop(task_id, None)

    def turn_begins(self) -> None:
        """A turn begins: whatever was to be reminded of is in it."""
        self._remind_at = self._look_at = self._rest_since = None

    def turn_ended(self, *, interrupted: bool) -> None:
        """A turn is over: from now on it may be reminded, later if it waits for somebody."""
        now = self._clock() / 1000
        desk = self._desk
        asked = desk.wrote_to or desk.timers or desk.planning.waits_for
        waits = bool(asked or interrupted)
        self._remind_at = now + (self._reply_s if waits else 0.0)

    def owes(self) -> str | None:
        """What an idle agent still owes, for people to see."""
        tasks = ", ".join(f"#{task_id}" for task_id in self._desk.attempts)
        return f"owes task {tasks}" if tasks else None

    def next_look_s(self) -> float | None:
        """Seconds until a reminder may be due."""
        times = [self._look_at, self._remind_at if self._desk.attempts else None]
        if self._desk.spec.claims and not self._desk.attempts:
            now = self._clock() / 1000
            times += [at for at, _ in self._put_off.values() if at > now]
        due = [time for time in times if time is not None]
        return max(0.0, min(due) - self._clock() / 1000) if due else None

    def _owned(self, tasks: list[Task]) -> list[Task]:
        team = self._desk.team.name
        return [task for task in tasks if owner_of(task, team) == self._desk.agent]


def _progress(snapshot: Snapshot) -> object:
    """Something that changes whenever a task does."""
    return tuple((task.id, task.status, task.owner) for task in snapshot.tasks)


def _idle(config: TeamConfig, tasks: list[Task]) -> list[str]:
    """The agents that have neither a turn nor a task."""
    busy = {owner_of(task, config.name) for task in tasks if task.status == "in_progress"}
    living = agent_rules.living(config)
    return [each.name for each in living if not each.is_active and each.name not in busy]


def _starting(member: Member) -> bool:
    return member.agent is not None and member.agent.phase == "starting"


def _told(what: str, task: Task) -> str:
    words = f"{what}: #{task.id} {harmless(' '.join(task.subject.split()))}"
    return f"{words}\n\n{harmless(task.description)}" if task.description else words
