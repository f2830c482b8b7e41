"""What an agent does between turns: claim, renew and finish tasks; for a lead, end the run."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from contextlib import suppress

import anyio

from bullpen.agents.runner.desk import RunnerDesk
from bullpen.agents.runner.pace import Pace
from bullpen.agents.tools.outside_text.harmless import harmless
from bullpen.agents.tools.task_tools import LEASE_S
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.agents.work import reminders
from bullpen.errors import BullpenError, Conflict, NotFound, Refused, Unavailable
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig
from bullpen.team.agents import rules as agent_rules
from bullpen.team.budget.rules import OverBudget
from bullpen.team.lookup import owner_of
from bullpen.team.requests.rules import may_answer
from bullpen.team.snapshot import MemberView, Snapshot
from bullpen.team.tasks.check_rules import is_done, is_queued
from bullpen.team.tasks.dispatch_rules import in_order, kept_for
from bullpen.team.tasks.stall_rules import NOT_READY

_RENEW_S = 40.0
_REMINDERS_MAX = 3
_LEAD_REMINDERS_MAX = 2
_SHOWN_MAX = 20
# The last one comes before the deadline of a request.
_REQUEST_REMINDERS_MAX = 4
_BUSY_LOOK_S = 10.0
# How often to look whether a task that is kept for another member still is.
_KEPT_LOOK_S = 20.0
# When to try again to prepare a worktree for a task; the delay doubles each time.
_PUT_OFF_S = 15.0
_PUT_OFF_MAX_S = 600.0

UNTIL_DONE = "until_done"
"""The option of a lead that works until the goal is reached, and is reminded of it."""


class Duties:
    """The tasks of one agent, and for a lead those of the team."""

    def __init__(self, desk: RunnerDesk, *, pace: Pace) -> None:
        self._desk = desk
        self._tasks = desk.team.tasks
        self._pace = pace
        self._renewed = -math.inf
        self._began = anyio.current_time()
        # When to look again whether the team is complete.
        self._formed_at: float | None = None
        self._announced: set[tuple[str, int]] = set()
        # How many times it was reminded, and of which tasks.
        self._reminded = 0
        self._reminded_of: set[str] = set()
        self._remind_at: float | None = None
        # The last words of its last turn, and the tasks it completed in it without any.
        self._said = ""
        self._silent: list[str] = []
        # Why a task that it said is done was not completed.
        self._refusals: list[str] = []
        # When to look again at the requests that wait for its answer, and the reminders of each.
        self._requests_at: float | None = None
        self._asked: dict[str, int] = {}
        # Tasks that others gave back, and when they may be handed to this agent.
        self._rests_until: dict[tuple[str, int], float] = {}
        # Tasks that are kept for others: since when it waits, and those the lead was told about.
        self._kept_since: dict[str, float] = {}
        self._kept_told: set[str] = set()
        # Tasks whose worktree could not be prepared: when to try again, and the tries so far.
        self._put_off: dict[str, tuple[float, int]] = {}
        # Tasks that it began to claim and was not told about yet.
        self._claiming: set[str] = set()
        self._asides: list[str] = []
        self._progress: object = None
        self._rest_since: float | None = None
        self._look_at: float | None = None
        self.stalled = ""

    async def adopt(self) -> None:
        """Resume the tasks that this agent had in progress before a restart."""
        asides: list[str] = []
        for task in self._owned((await self._tasks.list()).tasks):
            if task.status == "in_progress":
                self._desk.attempts[task.id] = task.facts.attempt
                # What it waited for may have ended with the earlier process.
                self._remind_at = anyio.current_time()
                ready = await self._begin(task)
                # The earlier process may have ended before it told the agent of the task.
                told = _told("This task is yours and in progress", task)
                asides += [] if ready is None else [told, *ready]
        self._asides = asides

    async def notes(self) -> list[str]:
        """Why this agent should have a turn although it has no mail."""
        desk = self._desk
        if self._silent:
            return self._ask_report()
        if asked := await self._unanswered():
            return asked
        if desk.planning.waits_for is not None:
            # The answer to its plan wakes it, or the plan's deadline does.
            return []
        listing = await self._tasks.list()
        tasks = listing.tasks
        own = self._owned(tasks)
        desk.drop_lost(listing, own)
        working = [task for task in own if task.status == "in_progress"]
        for task in working:
            if task.id in self._claiming and task.id not in desk.attempts:
                # The claim was stored although the store could not say so.
                return await self._take_up(task)
        if working:
            return [] if desk.waits_for_words else await self._remind(working)
        # Its tasks are done or have other owners by now, so there is no reminder.
        self._remind_at = None
        if desk.spec.claims:
            return [] if desk.waits_for_words else await self._claim(tasks)
        unblocked = self._unblocked(tasks, own)
        if unblocked or not self.until_done:
            return unblocked
        return await self._lead_on()

    def _ask_report(self) -> list[str]:
        """Ask once what came of tasks that the agent completed without a word."""
        silent, self._silent = self._silent, []
        return [reminders.unreported(silent)]

    @property
    def until_done(self) -> bool:
        """Whether this is a lead that works until the goal is reached."""
        return self._desk.is_lead and bool(self._desk.spec.options.get(UNTIL_DONE))

    async def _claim(self, tasks: list[Task]) -> list[str]:
        """Claim the next task for the agent: in code, so that no two agents get the same one."""
        desk = self._desk
        by_id = {task.id: task for task in tasks}
        config = await desk.team.agents.config()
        for_all = self._for_all(by_id, config)
        for task in in_order(by_id, config, desk.agent, idle=agent_rules.at_rest(config, tasks)):
            if self._gave_back(task) or self._is_put_off(task) or self._rests(task):
                continue
            if not task.owner and task.id in for_all:
                continue
            self._claiming.add(task.id)
            try:
                claimed = await self._tasks.claim(task.id, by=desk.agent, lease_s=LEASE_S)
            except Refused:
                # Another member was faster.
                self._claiming.discard(task.id)
                continue
            if told := await self._take_up(claimed):
                return told
        await self._tell_kept(by_id, config)
        return []

    def _for_all(self, tasks: Mapping[str, Task], config: TeamConfig) -> Collection[str]:
        """The tasks that must wait, because a member that fits better may still be spawned.

        That is while the lead that spawned this agent has its turn, and not for long.
        """
        now, lead = anyio.current_time(), config.member(LEAD)
        self._formed_at = None
        leading = lead is not None and lead.agent is not None and lead.is_active
        if not leading or now - self._began >= self._pace.form_s:
            return ()
        # Nobody is woken when the lead's turn ends.
        self._formed_at = now + self._pace.form_s / 60
        return tasks.keys() - kept_for(tasks, config).keys()

    def _gave_back(self, task: Task) -> bool:
        """Whether this agent gave a task back and was not assigned it again since."""
        known = task.id in self._desk.given_back
        return not task.owner and (known or self._desk.agent in (task.facts.gave_back or ()))

    def _rests(self, task: Task) -> bool:
        """Whether a task that somebody gave back must not be handed out yet: the lead comes first.

        What the agent was assigned does not wait.
        """
        times = len(task.facts.gave_back or ())
        if not times or task.owner:
            return False
        now = anyio.current_time()
        delay = self._pace.again_s * 2 ** (times - 1)
        return now < self._rests_until.setdefault((task.id, times), now + delay)

    async def _tell_kept(self, tasks: dict[str, Task], config: TeamConfig) -> None:
        """Tell the lead once about each task that waits too long for the member it is meant for."""
        now = anyio.current_time()
        kept = kept_for(tasks, config)
        self._kept_since = {id_: self._kept_since.get(id_, now) for id_ in kept}
        for task_id, since in self._kept_since.items():
            if task_id in self._kept_told or now - since < self._pace.kept_s:
                continue
            self._kept_told.add(task_id)
            if self._desk.agent not in kept[task_id].names:
                names = " or ".join(sorted(kept[task_id].names))
                minutes = f"{(now - since) / 60:.0f} minutes"
                text = (
                    f"Task #{task_id} has waited for {names} for {minutes}: {kept[task_id].why}."
                    " I could take it. Assign it if somebody else should do it."
                )
                await self._desk.tell_lead(text, f"Task #{task_id} waits for {names}")

    async def _take_up(self, task: Task) -> list[str]:
        """Get ready for a task that this agent has claimed; returns what to tell it."""
        self._reminded = 0
        self._remind_at = None
        ready = await self._begin(task)
        self._claiming.discard(task.id)
        told = _told("You have claimed task", task)
        return [] if ready is None else ["\n\n".join([told, *ready])]

    async def _begin(self, task: Task) -> list[str] | None:
        """Prepare the worktree; returns what to tell the agent, None if it could not be done."""
        try:
            ready = await self._desk.begin_task(task)
        except (Conflict, NotFound):
            raise
        except BullpenError as error:
            await self._not_begun(task, error)
            return None
        return [] if ready is None else [ready]

    def _is_put_off(self, task: Task) -> bool:
        return anyio.current_time() < self._put_off.get(task.id, (-math.inf, 0))[0]

    async def _not_begun(self, task: Task, error: BullpenError) -> None:
        """Leave a task whose worktree could not be prepared: forever, or for some time."""
        _, times = self._put_off.get(task.id, (0.0, 0))
        if isinstance(error, Unavailable):
            # It may work later, for example after a full disk was cleaned up.
            delay = min(_PUT_OFF_S * 2**times, _PUT_OFF_MAX_S)
            self._put_off[task.id] = anyio.current_time() + delay, times + 1
        else:
            self._desk.given_back.add(task.id)
        if times == 0:
            text = f"I gave task #{task.id} back: my worktree {NOT_READY}. {error}"
            await self._desk.tell_lead(text, f"Gave task #{task.id} back: {error.message[:60]}")

    def _unblocked(self, tasks: list[Task], own: list[Task]) -> list[str]:
        """Assigned tasks that are no longer blocked; each is told once."""
        done = {task.id for task in tasks if is_done(task)}
        notes = []
        for task in own:
            mark = (task.id, task.facts.attempt)
            free = task.status == "pending" and set(task.blocked_by) <= done
            if free and mark not in self._announced:
                self._announced.add(mark)
                # An assignment without blockers came by mail.
                if task.blocked_by:
                    notes.append(_told("Your task is no longer blocked", task))
        return notes

    async def _remind(self, working: list[Task]) -> list[str]:
        """Remind the agent of its tasks in progress; finally give them back."""
        now = anyio.current_time()
        ids = {task.id for task in working}
        if not ids <= self._reminded_of:
            # It has not been reminded of all of them yet.
            self._reminded, self._reminded_of = 0, ids
        if await self._waits_for_words():
            return []
        left = await self._completed_by_word(working)
        if self._silent:
            return self._ask_report()
        if not left or self._remind_at is None or now < self._remind_at:
            return []
        named = reminders.numbers(task.id for task in left)
        if self._reminded < _REMINDERS_MAX:
            self._remind_at, self._reminded = None, self._reminded + 1
            refusals, self._refusals = self._refusals, []
            await self._show(left, self._reminded, _REMINDERS_MAX)
            last = self._reminded == _REMINDERS_MAX
            words = reminders.unfinished(left, planning=self._desk.mode == "plan", last=last)
            return ["\n".join([*refusals, words])]
        reason = f"{self._desk.agent} ended its turns without finishing"
        for task in left:
            summary = f"Gave task #{task.id} back"
            text = f"I gave task #{task.id} back: I did not finish it"
            text += f" after {_REMINDERS_MAX} reminders."
            with suppress(Refused):
                # It may be somebody else's by now.
                await self._desk.give_back(task.id, reason, text, summary)
        self._remind_at, self._reminded = None, self._reminded + 1
        # A lead gets no message from itself.
        mine = f"Task {named} is no longer yours: you did not finish it."
        return [mine] if self._desk.is_lead else []

    async def _show(self, tasks: list[Task], times: int, most: int) -> None:
        """Show people a reminder. It is given even if this cannot be stored."""
        named = [task.id for task in tasks[:_SHOWN_MAX]]
        desk, agents = self._desk, self._desk.team.agents
        with suppress(BullpenError):
            await agents.remind(desk.agent, named, nonce=desk.nonce, times=times, most=most)

    async def _completed_by_word(self, working: list[Task]) -> list[Task]:
        """Complete what the agent says is done, as reminders offer. Models that call no tools can.

        It is a call like the agent's own: the gate, the checks and the hooks decide. Returns the
        tasks that are left; the next reminder says why they are.
        """
        said, self._said = self._said, ""
        if not self._reminded:
            return working
        left: list[Task] = []
        for task in working:
            if not reminders.says_done(said, task):
                left.append(task)
                continue
            update = {"taskId": task.id, "status": "completed", "report": said}
            text, failed = await call(
                toolbox(self._desk), "TaskUpdate", update, self._desk, of_model=False
            )
            if failed:
                left.append(task)
                self._refusals.append(text)
            elif len(said.splitlines()) == 1:
                # That it is done is no report.
                self._silent.append(task.id)
        return left

    async def _unanswered(self) -> list[str]:
        """Remind the agent of requests that its last turn left unanswered, a few times each."""
        now = anyio.current_time()
        if self._requests_at is None or now < self._requests_at:
            return []
        self._requests_at = None
        desk = self._desk
        pending = await desk.team.approvals.pending(to=desk.agent)
        mine = {request.id for request in pending if may_answer(request, "agent")}
        self._asked = {id_: times for id_, times in self._asked.items() if id_ in mine}
        waiting = [
            request
            for request in pending
            if request.id in mine and self._asked.get(request.id, 0) < _REQUEST_REMINDERS_MAX
        ]
        if not waiting:
            return []
        for request in waiting:
            self._asked[request.id] = self._asked.get(request.id, 0) + 1
        return [reminders.unanswered(waiting)]

    async def give_back_over_budget(self, over: OverBudget) -> None:
        """Give back a task whose budget is used up, and say so."""
        task_id = over.reached.name
        summary = f"Gave task #{task_id} back: its budget is used up"
        with suppress(Refused):
            # It may have been given back before, or taken by somebody else.
            await self._desk.give_back(
                task_id, over.message, f"I gave task #{task_id} back. {over}", summary
            )
        self._asides.append(f"{over.message} You gave task #{task_id} back. Do not work on it.")

    def asides(self) -> list[str]:
        """Texts for the next turn that do not start one; each is returned once."""
        told, self._asides = self._asides, []
        return told

    async def _waits_for_words(self) -> bool:
        """Whether a person talks with this lead: between its turns it waits for words."""
        if not (self.until_done and (await self._desk.team.agents.config()).facts.conversation):
            return False
        self._rest_since = self._look_at = None
        self._remind_at = anyio.current_time() + _KEPT_LOOK_S
        return True

    async def _lead_on(self) -> list[str]:
        """Remind a lead that everyone is idle and the goal is not reached, but not forever."""
        if self._requests_at is not None or await self._waits_for_words():
            # Somebody may wait for its answer; it is reminded of that first.
            return []
        snapshot = await self._desk.team.snapshot()
        now = anyio.current_time()
        if self._busy(snapshot) or snapshot.pending or any(map(is_queued, snapshot.tasks)):
            self._rest_since = None
            # The end of a turn comes by mail, but a stop during one does not.
            self._look_at = now + _BUSY_LOOK_S
            return []
        if self._rest_since is None:
            self._rest_since = now
        waits = any(view.unread for view in self._others(snapshot))
        self._look_at = self._rest_since + self._pace.rest_s * (10 if waits else 1)
        if now < self._look_at:
            return []
        moved = tuple((task.id, task.status, task.owner) for task in snapshot.tasks)
        if self._progress != moved:
            self._progress, self._reminded = moved, 0
        left = [task for task in snapshot.tasks if task.status != "completed"]
        named = reminders.numbers(task.id for task in left[:_SHOWN_MAX])
        if self._reminded >= _LEAD_REMINDERS_MAX:
            idle = "everyone was idle, with open tasks: "
            self.stalled = f"{idle}{named}" if left else "nobody had anything left to do"
            return []
        self._reminded += 1
        self._rest_since = self._look_at = None
        if left:
            await self._show(left, self._reminded, _LEAD_REMINDERS_MAX)
            what_to_do = "Assign, do or delete them. Then finish."
            return [f"Everyone is idle, but these tasks are open: {named}. {what_to_do}"]
        return ["Everyone is idle and no task is open. If the goal is reached, finish."]

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
        """Whether any other agent has a turn or a task, or is starting."""
        return any(
            view.member.is_active or view.tasks or (agent and agent.phase == "starting")
            for view in self._others(snapshot)
            for agent in (view.member.agent,)
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
        """Renew the leases of its tasks in progress."""
        now = anyio.current_time()
        if not self._desk.attempts or now - self._renewed < _RENEW_S:
            return
        self._renewed = now
        for task_id, attempt in list(self._desk.attempts.items()):
            try:
                await self._tasks.renew(
                    task_id, by=self._desk.agent, attempt=attempt, lease_s=LEASE_S
                )
            except Refused:
                # It was completed or given back, or has another owner by now.
                self._desk.attempts.pop(task_id, None)

    def turn_begins(self) -> None:
        """Cancel reminders: the agent has a turn now."""
        self._remind_at = self._look_at = self._rest_since = None

    def turn_ended(self, text: str, *, interrupted: bool) -> None:
        """Schedule the next reminder, later if the agent waits for someone."""
        now = anyio.current_time()
        desk = self._desk
        self._said = text
        silent, desk.unreported = desk.unreported, []
        if not text.strip() and not desk.is_lead:
            self._silent += silent
        times = max(self._asked.values(), default=0)
        self._requests_at = now + (self._pace.remind_s * 6 ** (times - 1) if times else 0.0)
        asked = desk.wrote_to or desk.timers
        waits = self._pace.reply_s if asked or interrupted else 0.0
        again = self._reminded if self._desk.attempts.keys() <= self._reminded_of else 0
        # The first reminder comes at once; so does the end of waiting after the last one.
        if 0 < again < _REMINDERS_MAX:
            waits = max(waits, self._pace.remind_s * 6 ** (again - 1))
        self._remind_at = now + waits

    def owes(self) -> str | None:
        """What an idle agent still has to do, for people to see."""
        return reminders.at_rest(self._desk.attempts, interrupted=self._desk.waits_for_words)

    def next_look_s(self) -> float | None:
        """Seconds until a reminder may be due."""
        waits = self._desk.planning.waits_for is not None or self._desk.waits_for_words
        times = [self._look_at, self._remind_at if self._desk.attempts and not waits else None]
        times.append(self._requests_at if self._asked else None)
        if self._desk.spec.claims and not self._desk.attempts and not waits:
            now = anyio.current_time()
            times.append(self._formed_at)
            times += [at for at, _ in self._put_off.values() if at > now]
            times += [at for at in self._rests_until.values() if at > now]
            # Nobody is woken when the member that a task is kept for ends.
            times += [now + _KEPT_LOOK_S] if self._kept_since else []
        due = [time for time in times if time is not None]
        return max(0.0, min(due) - anyio.current_time()) if due else None

    def _owned(self, tasks: list[Task]) -> list[Task]:
        team = self._desk.team.name
        return [task for task in tasks if owner_of(task, team) == self._desk.agent]


def _told(what: str, task: Task) -> str:
    words = f"{what}: #{task.id} {harmless(' '.join(task.subject.split()))}"
    return f"{words}\n\n{harmless(task.description)}" if task.description else words
