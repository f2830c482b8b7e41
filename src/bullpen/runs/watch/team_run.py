"""Watches a team until its end: shows progress, restarts agents, stops them, and sums up.

A team with a lead ends with its lead, one without a lead ends with its tasks.
"""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from bullpen.agents.runner.lead_lease import LeadHold
from bullpen.agents.supervisor.roster_view import AgentView
from bullpen.agents.supervisor.supervisor import Supervisor
from bullpen.agents.system import processes
from bullpen.agents.work.until_stored import StoreAway, until_stored
from bullpen.errors import BullpenError, Conflict, Unavailable, one_error
from bullpen.protocol.agent import AgentFacts, End, Usage
from bullpen.protocol.clock import iso, now_ms, slept_s
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.protocol.team import Finished, RunStatus, TeamConfig
from bullpen.runs.forge.worker import ForgeWorker
from bullpen.runs.teamfile.backlog.sources import Backlogs
from bullpen.runs.watch.ending import (
    EndVerdict,
    QueueState,
    all_done,
    at_a_standstill,
    is_idle,
)
from bullpen.runs.watch.outcome import Outcome, Progress, Watch
from bullpen.runs.watch.restarts import Prospect, Restarts
from bullpen.runs.watch.saved_work import changed, left_worktrees
from bullpen.runs.watch.until import DONE, Until
from bullpen.team.agents.rules import ended_by_person
from bullpen.team.agents.verdict import Verdict, judged, left_open
from bullpen.team.snapshot import Snapshot
from bullpen.team.tasks.check_rules import is_queued
from bullpen.team.team import Team
from bullpen.view.news import THE_RUN_IS_OVER, news
from bullpen.view.notable_events import Happening, Kind, happenings
from bullpen.view.summary import summed_up

T = TypeVar("T")

_LOOK_S = 0.5
_IDLE_S = 5.0
"""How long nobody must have anything to do before a team counts as idle."""

_STORE_AWAY_S = 600.0
"""For how long the store may be away before a run fails."""

_SEND_S = 60.0
"""For how long a run that has ended goes on sending notices."""

_SEND_INTERRUPTED_S = 5.0
"""The same for a run that was interrupted: somebody waits for its end."""

_CHORE_PAUSE_S = 2.0
_CHORE_PAUSE_MAX_S = 60.0


class Chore(Protocol):
    """Something that code does for a team while it is watched."""

    name: str

    async def run(self, tell: Callable[[str], None]) -> None:
        """Do it until cancelled; `tell` is for what people should read."""


class Notices(Protocol):
    """What sends notices of a team while it is watched."""

    def hear(self, happening: Happening) -> None:
        """Queue a happening."""

    async def drain(self, *, within_s: float) -> None:
        """Send what is left, for no longer than this, also after its tasks were cancelled."""


@dataclass(frozen=True, slots=True)
class RunServices:
    """What code does for a team while it is watched."""

    restarts: Restarts
    # Whether to wait for what passes by itself, such as a rate limit.
    patient: bool
    chores: Sequence[Chore]
    queue: Callable[[], QueueState]
    # Whether these are quiet hours.
    quiet: Callable[[], bool]
    backlogs: Backlogs | None
    forge: ForgeWorker | None
    notices: Sequence[Notices]
    # What a person has to do that no record of the team says.
    needs: Callable[[], Awaitable[list[str]]]
    # Lines that wait to be shown to whoever watches.
    told: list[str]
    # Ticks the boxes of finished tasks that are still open.
    tick: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint


class TeamRun:
    """One team, from its start to its end."""

    def __init__(
        self,
        team: Team,
        supervisor: Supervisor,
        watch: Watch,
        services: RunServices,
        *,
        seen: int,
        keep: bool = False,
        until: Until = DONE,
        conversation: bool = False,
    ) -> None:
        """With `conversation`, a person is there to talk with the lead: it waits for words."""
        self._team = team
        self._supervisor = supervisor
        self._watch = watch
        self._services = services
        self._seen = seen
        self._keep = keep
        self._until = until
        self._conversation = conversation
        # How the run ended that was before this one.
        self._ended_before: Finished | None = None
        self._idle_since: float | None = None
        self._ends_s = math.inf
        # What the store said when it could not be used, until it can be used again.
        self._away: str | None = None
        self.begun = False
        self._agents: list[AgentView] = []
        # The agents that are being restarted.
        self._resuming: set[str] = set()
        # What each agent waits for. It is no event, but it must be shown.
        self._waits: dict[str, str | None] = {}
        # Without a lead, one process at a time leads the team.
        self._lead_hold = LeadHold(
            team,
            nonce=f"watch-{secrets.token_hex(8)}",
            place=processes.this_process("watch", group=None),
            clock=now_ms,
        )

    async def run(
        self, begin: Callable[[], Awaitable[object]], *, led: bool, timeout_s: float | None
    ) -> Outcome:
        """Begin, watch until the end, and stop the agents. `led` says that there is a lead.

        Raises:
            Conflict: there is no lead, and another process watches the team already.
        """
        verdict: EndVerdict | None = None
        left_s = self._until.left_s(now_ms())
        if left_s is not None:
            self._ends_s = anyio.current_time() + slept_s() + left_s
        if not led:
            await self._lead_hold.take()
        try:
            await self._patiently(self._take_over)
            with one_error(), anyio.move_on_after(timeout_s):
                async with anyio.create_task_group() as group:
                    group.start_soon(self._look_on)
                    await begin()
                    self.begun = True
                    await self._tick()
                    self._happened("started", f"The team {self._team.name} is at work.")
                    for chore in self._services.chores:
                        group.start_soon(self._keep_at, chore)
                    to_the_end = self._led_to_the_end if led else self._to_the_end
                    verdict = await to_the_end(group)
                    group.cancel_scope.cancel()
            if verdict is None:
                verdict = EndVerdict("time", f"The run did not end within {timeout_s:.0f} s.")
            return await self._outcome(verdict, led=led)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._stop("suspended", "the run was interrupted")
                with suppress(BullpenError):
                    await self._team.agents.end_run("interrupted", None, by=LEAD)
                self._happened("ended", "The run was interrupted.", status="interrupted")
                await self._send_notices(await self._look(), within_s=_SEND_INTERRUPTED_S)
            raise
        finally:
            with anyio.CancelScope(shield=True), suppress(BullpenError):
                await self._lead_hold.leave()

    async def _take_over(self) -> None:
        """Note how the run before this one ended, and say whether a person talks with the lead."""
        facts = (await self._team.agents.config()).facts
        self._ended_before = facts.finished
        if facts.run_end is not None:
            await self._team.agents.begin_run(by=LEAD)
        if bool(facts.conversation) != self._conversation:
            await self._team.agents.converse(self._conversation, by=LEAD)

    async def _keep_at(self, chore: Chore) -> None:
        """Do a chore forever; its errors are shown, and never end the run."""
        pause_s = _CHORE_PAUSE_S
        while True:
            began = anyio.current_time()
            try:
                await chore.run(self._services.told.append)
                return
            except BullpenError as error:
                self._services.told.append(f"{chore.name}: {error}")
            except Exception as error:
                # A run must survive a bug, and people must see the bug.
                self._services.told.append(
                    f"{chore.name} stopped because of a bug in Bullpen: {error!r}"
                )
            if anyio.current_time() - began > _CHORE_PAUSE_MAX_S:
                pause_s = _CHORE_PAUSE_S
            await anyio.sleep(pause_s)
            pause_s = min(pause_s * 2, _CHORE_PAUSE_MAX_S)

    async def _look_on(self) -> None:
        """Show progress, soon after each change and now and then."""
        while True:
            try:
                await self._look()
                with anyio.move_on_after(_LOOK_S):
                    async with aclosing(self._team.changes()) as changes:
                        await anext(changes)
                        await anext(changes)
            except Unavailable as error:
                self._store_is_away(error)
                await anyio.sleep(_LOOK_S)

    async def _patiently(self, act: Callable[[], Awaitable[T]]) -> T:
        """Do something with the store, which may be away for some minutes: the run goes on."""
        done = await until_stored(act, tell=self._store_is_away, within_s=_STORE_AWAY_S)
        self._away = None
        return done

    def _store_is_away(self, error: Unavailable) -> None:
        """Tell people that the store cannot be used, once as long as it says the same."""
        if self._away != error.message:
            self._away = error.message
            self._services.told.append(f"the team's store is away: {error}")

    async def _look(self) -> Snapshot:
        # Events first: the snapshot must not be older than the news.
        events = await self._team.events(after=self._seen)
        snapshot, self._agents = await self._supervisor.look()
        self._seen = events[-1].seq if events else self._seen
        happened = [line for event in events for line in news(event)]
        waits = {view.name: view.detail for view in self._agents if view.state == "waiting"}
        happened += [
            f"{name} waits: {why}"
            for name, why in waits.items()
            # A wait for an answer is shown as its request.
            if why
            and self._waits.get(name) != why
            and not any(request.id in why for request in snapshot.pending)
        ]
        self._waits = waits
        found = [each for event in events for each in happenings(self._team.name, event)]
        for each in found:
            self._notify(each)
        # The row of a lead that does not exist shows nothing.
        shown = [view for view in self._agents if not view.lead or view.driver or view.unread]
        told, held = self._take_told(), self._services.queue().trouble
        self._watch(Progress(self._team.name, snapshot, shown, happened + told, found, told, held))
        return snapshot

    def _take_told(self) -> list[str]:
        told = list(self._services.told)
        self._services.told.clear()
        return told

    def _notify(self, happening: Happening) -> None:
        for notices in self._services.notices:
            notices.hear(happening)

    def _happened(self, kind: Kind, text: str, *, status: RunStatus | None = None) -> None:
        self._notify(Happening(kind, self._team.name, iso(now_ms()), text, status=status))

    async def _send_notices(self, snapshot: Snapshot, *, within_s: float) -> None:
        """Wait until the notices are sent, for a while at most, and show what went wrong."""
        async with anyio.create_task_group() as group:
            for notices in self._services.notices:
                group.start_soon(partial(notices.drain, within_s=within_s))
        told = self._take_told()
        if told:
            self._watch(Progress(self._team.name, snapshot, self._agents, told))

    async def _led_to_the_end(self, group: TaskGroup) -> EndVerdict:
        """Wait until the lead has ended for good, and the queued work is merged."""
        while True:
            config, tasks = await self._patiently(self._tended)
            prospects = await self._start_again(config, group)
            member = config.member(LEAD)
            agent = None if member is None else member.agent
            over = self._is_over(config, tasks)
            if over is not None:
                return over
            if agent is None or prospects.get(LEAD) == "never":
                trouble = self._services.queue().trouble
                if trouble is not None or not any(is_queued(task) for task in tasks):
                    return EndVerdict("led", trouble)
            await anyio.sleep(_LOOK_S)

    async def _to_the_end(self, group: TaskGroup) -> EndVerdict:
        """Wait until all tasks are done or given up, or nobody can do the rest."""
        while True:
            await self._patiently(self._lead_hold.renew)
            config, tasks = await self._patiently(self._tended)
            prospects = await self._start_again(config, group)
            over = self._is_over(config, tasks)
            if over is not None:
                return over
            done = all_done(tasks)
            if done is not None and not await self._patiently(self._more_may_come):
                return done
            stands = at_a_standstill(
                tasks, _agents(config), prospects, self._services.queue(), anyio.current_time()
            )
            if stands is not None:
                return stands
            await anyio.sleep(_LOOK_S)

    async def _more_may_come(self) -> bool:
        """Return whether a team that has done everything gets more tasks."""
        backlogs, forge = self._services.backlogs, self._services.forge
        if backlogs is not None and await backlogs.more():
            return True
        return forge is not None and await forge.more()

    def _is_over(self, config: TeamConfig, tasks: Sequence[Task]) -> EndVerdict | None:
        """Return the end if a person said so, the time is up, or nobody has anything to do."""
        ended = ended_by_person(config.facts)
        if ended is not None and ended != self._ended_before:
            return EndVerdict("person")
        until = self._until
        by_clock = until.span_s is None and until.at_ms is not None and now_ms() >= until.at_ms
        # A clock that was set back must not make a run longer than it was meant to be.
        if by_clock or anyio.current_time() + slept_s() >= self._ends_s:
            return EndVerdict("time", f"The run ended as requested: --until {until.words}.")
        if until.what != "idle":
            return None
        now = anyio.current_time()
        if not is_idle(config, tasks) or self._services.quiet():
            self._idle_since = None
            return None
        self._idle_since = now if self._idle_since is None else self._idle_since
        if now - self._idle_since < _IDLE_S:
            return None
        return all_done(tasks) or EndVerdict("unfinished", "All agents are idle; tasks are open.")

    async def _tended(self) -> tuple[TeamConfig, list[Task]]:
        await self._supervisor.tend(by=LEAD)
        return await self._team.agents.config(), (await self._team.tasks.list()).tasks

    async def _start_again(self, config: TeamConfig, group: TaskGroup) -> dict[str, Prospect]:
        """Restart agents that were killed, or failed for a reason that has passed.

        Returns what each agent can expect. One that cannot be started is tried again later.
        """
        now_s = anyio.current_time()
        prospects: dict[str, Prospect] = {}
        for name, agent in _agents(config, lead=True).items():
            prospect = self._services.restarts.prospect(name, agent, now_s)
            prospects[name] = "later" if name in self._resuming else prospect
            if prospects[name] != "now":
                continue
            self._services.restarts.started(name, agent, now_s)
            prospects[name] = "later"
            self._resuming.add(name)
            group.start_soon(self._resume, name)
        return prospects

    async def _resume(self, name: str) -> None:
        """Restart an agent. It may take long, and nobody else waits for it."""
        # A host may have been faster. A short run ends if its lead cannot be started; with its
        # store away, the lead is tried again.
        must = name == LEAD and not self._services.patient
        try:
            with suppress(StoreAway, Conflict if must else BullpenError):
                await self._supervisor.resume(by=LEAD, names=[name])
        finally:
            self._resuming.discard(name)

    async def _outcome(self, verdict: EndVerdict, *, led: bool) -> Outcome:
        """Stop the agents, and say how the run ended."""
        asked = (await self._patiently(self._look)).pending
        found, summary = await self._found(verdict, led=led)
        now = await self._patiently(self._look)
        return await self._ended(judged(found, now.team, now.tasks, asked), summary)

    async def _found(self, verdict: EndVerdict, *, led: bool) -> tuple[Verdict, str]:
        """Stop the agents; how the run ended as it was found, and what the lead says of it."""
        if verdict.status == "time":
            return await self._when_time_is_up(verdict.cause or "", led=led)
        if verdict.status == "led":
            return await self._by_the_lead(verdict.cause)
        if verdict.status == "person":
            return await self._by_a_person(led=led)
        if not self._keep:
            # Without a lead they can be resumed when there is more to do.
            await self._stop("stopped" if led else "suspended", THE_RUN_IS_OVER)
        return Verdict(verdict.status, verdict.cause), ""

    async def _when_time_is_up(self, why: str, *, led: bool) -> tuple[Verdict, str]:
        await self._stop("suspended", "the time is up")
        if led and await self._patiently(self._team.agents.result) is not None:
            return await self._by_the_lead(None)
        tasks = (await self._patiently(self._team.tasks.list)).tasks
        if not led and all_done(tasks) == EndVerdict("done"):
            return Verdict("done"), ""
        waits = "; ".join(f"{name} waited: {why}" for name, why in self._waits.items() if why)
        return Verdict("unfinished", f"{why} {waits.rstrip('.')}." if waits else why), ""

    async def _by_the_lead(self, trouble: str | None) -> tuple[Verdict, str]:
        """How it ended by the lead's result, or by the tasks if it gave none."""
        agents = self._team.agents
        _, lead = await self._patiently(lambda: agents.get(LEAD))
        result = await self._patiently(agents.result)
        tasks = (await self._patiently(self._team.tasks.list)).tasks
        if not self._keep:
            await self._stop("stopped", THE_RUN_IS_OVER)
        if trouble is not None and (result is not None or lead.end not in ("failed", "lost")):
            return Verdict("unfinished", trouble), result.summary if result else ""
        if result is not None and result.voice == "human":
            return Verdict("ended", left_open(tasks)), result.summary
        if result is not None:
            because = f"Tasks stay open: {result.override}" if result.override else None
            return Verdict("done", because), result.summary
        if lead.end in ("failed", "lost"):
            return Verdict("failed", lead.cause or "The lead was lost."), ""
        if lead.end == "finished" and tasks and all_done(tasks) == EndVerdict("done"):
            return Verdict("done"), ""
        return Verdict("unfinished", lead.cause), ""

    async def _by_a_person(self, *, led: bool) -> tuple[Verdict, str]:
        """How a person ended it, with their summary."""
        if not self._keep:
            await self._stop("stopped" if led else "suspended", THE_RUN_IS_OVER)
        result = await self._patiently(self._team.agents.result)
        tasks = (await self._patiently(self._team.tasks.list)).tasks
        return Verdict("ended", left_open(tasks)), "" if result is None else result.summary

    async def _tick(self) -> None:
        """Tick the boxes that merges left open, such as those that a person has committed since."""
        try:
            await self._services.tick()
        except BullpenError as error:
            self._services.told.append(f"finished tasks are not ticked: {error}")

    async def _stop(self, end: End, reason: str) -> None:
        await self._supervisor.stop_all(by=LEAD, end=end, reason=reason)

    async def _ended(self, verdict: Verdict, summary: str) -> Outcome:
        await self._tick()
        await self._patiently(
            lambda: self._team.agents.end_run(verdict.status, verdict.why, by=LEAD)
        )
        snapshot = await self._patiently(self._look)
        needs = await self._patiently(self._services.needs)
        events = await self._patiently(self._team.recent_events)
        left = await self._patiently(lambda: left_worktrees(self._team))
        account = summed_up(
            snapshot,
            events,
            verdict=verdict,
            needs=needs,
            worktrees=left,
            changed=await self._patiently(lambda: changed(self._team)),
        )
        usage = Usage.new()
        for view in self._agents:
            usage = usage.plus(view.usage)
        tasks = Counter[str](task.status for task in snapshot.tasks)
        text = Verdict(verdict.status, verdict.why or summary or None).sentence
        self._happened("ended", text, status=verdict.status)
        await self._send_notices(snapshot, within_s=_SEND_S)
        name, status, why = self._team.name, verdict.status, verdict.why
        return Outcome(verdict.code, status, summary, name, usage, dict(tasks), why, account)


def _agents(config: TeamConfig, *, lead: bool = False) -> dict[str, AgentFacts]:
    """Return the agents that Bullpen runs, by name."""
    return {
        member.name: member.agent
        for member in config.roster
        if member.agent is not None and (lead or not member.is_lead)
    }
