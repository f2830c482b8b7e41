"""A team on its way to its end: watched, kept going, stopped in order, and how that came out.

A team with a lead ends with its lead, one without ends with its tasks. All else is the same.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from bullpen.agents import processes
from bullpen.agents.chair import Chair
from bullpen.agents.drivers.programs import READY_S
from bullpen.agents.news import THE_RUN_IS_OVER, news
from bullpen.agents.rollcall import AgentView
from bullpen.agents.supervisor import Supervisor
from bullpen.agents.transcript import rows
from bullpen.errors import BullpenError, Conflict, one_error
from bullpen.protocol.agent import AgentFacts, End, Usage
from bullpen.protocol.names import LEAD
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.task import Task
from bullpen.protocol.times import iso
from bullpen.store.clock import Clock, now_ms
from bullpen.team.check_rules import is_queued
from bullpen.team.snapshot import Snapshot
from bullpen.team.team import Team
from bullpen.unattended.ending import QueueState, Verdict, all_done, at_a_standstill, is_idle
from bullpen.unattended.happenings import Happening, Kind, happenings
from bullpen.unattended.notices import Notices
from bullpen.unattended.outcome import CODES, Outcome, Progress, Status, Watch
from bullpen.unattended.restarts import Prospect, Restarts
from bullpen.unattended.summary import Summary, summed_up
from bullpen.unattended.until import DONE, Until

_LOOK_S = 0.5
_IDLE_S = 5.0
"""So long nobody must have anything to do before a team counts as idle."""

_CHORE_PAUSE_S = 2.0
_CHORE_PAUSE_MAX_S = 60.0

Tell = Callable[[str], None]


class Chore(Protocol):
    """Something that code does for a team as long as it is pursued."""

    name: str

    async def run(self, tell: Tell) -> None:
        """Do it until cancelled; `tell` is for what people should read."""


@dataclass(frozen=True, slots=True)
class Care:
    """What is seen to while a team is pursued, by code."""

    restarts: Restarts = field(default_factory=lambda: Restarts(patient=False, members=()))
    # Whether what passes by itself is waited for, such as a rate limit.
    patient: bool = False
    chores: Sequence[Chore] = ()
    # How the merge queue is, and whether it is quiet at the moment.
    queue: Callable[[], QueueState] = QueueState
    quiet: Callable[[], bool] = lambda: False
    # Looks whether there are more tasks though all are done; with `standing` again and again.
    more: Callable[[], Awaitable[bool]] | None = None
    standing: bool = False
    notices: Notices | None = None
    # What a person has to see to that no record of the team says.
    needs: Callable[[], Awaitable[list[str]]] | None = None


class Pursuit:
    """One team, from its start to its end."""

    def __init__(
        self,
        team: Team,
        supervisor: Supervisor,
        watch: Watch,
        *,
        seen: int,
        keep: bool = False,
        until: Until = DONE,
        care: Care = Care(),  # noqa: B008 - frozen
        clock: Clock = now_ms,
    ) -> None:
        self._team = team
        self._supervisor = supervisor
        self._watch = watch
        self._seen = seen
        self._keep = keep
        self._until = until
        self._care = care
        self._clock = clock
        self._idle_since: float | None = None
        self.begun = False
        self._agents: list[AgentView] = []
        self._told: list[str] = []
        # Who is being started again.
        self._resuming: set[str] = set()
        # Whom somebody waits for, by name: what is no event must be told too.
        self._waits: dict[str, str | None] = {}
        # Code leads a team that has no lead, from one process at a time.
        self._chair = Chair(
            team,
            nonce=f"watch-{secrets.token_hex(8)}",
            place=processes.this_process("watch", group=None),
            clock=clock,
        )

    async def run(
        self, begin: Callable[[], Awaitable[object]], *, led: bool, timeout_s: float | None
    ) -> Outcome:
        """Begin, watch until the end, and stop whoever is left. `led`: there is a lead.

        Raises:
            Conflict: nobody leads, and another process watches the team already.
        """
        verdict: Verdict | None = None
        if self._care.notices is not None:
            self._care.notices.tell = self.tell
        if not led:
            await self._chair.take()
        try:
            with one_error(), anyio.move_on_after(timeout_s):
                async with anyio.create_task_group() as group:
                    group.start_soon(self._look_on)
                    await begin()
                    self.begun = True
                    self._happened("started", f"The team {self._team.name} is at work.")
                    for chore in self._care.chores:
                        group.start_soon(self._keep_at, chore)
                    to_the_end = self._led_to_the_end if led else self._to_the_end
                    verdict = await to_the_end(group)
                    group.cancel_scope.cancel()
            if verdict is None:
                verdict = Verdict("time", f"It was not reached in {timeout_s:.0f} s.")
            return await self._outcome(verdict, led=led)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._stop("suspended", "the run was interrupted")
                self._happened("ended", "The run was interrupted.", status="interrupted")
                await self._tell_the_rest(await self._look())
            raise
        finally:
            with anyio.CancelScope(shield=True), suppress(BullpenError):
                await self._chair.leave()

    def tell(self, line: str) -> None:
        """Let whoever watches read a line."""
        self._told.append(line)

    async def _keep_at(self, chore: Chore) -> None:
        """Do a chore for ever; trouble with it is told, and never ends the run."""
        pause_s = _CHORE_PAUSE_S
        while True:
            began = anyio.current_time()
            try:
                await chore.run(self.tell)
                return
            except BullpenError as error:
                self._told.append(f"{chore.name}: {error}")
            except Exception as error:
                # A night must outlive a fault of ours, and people must see it.
                self._told.append(f"{chore.name} broke off, which is a fault of ours: {error!r}")
            if anyio.current_time() - began > _CHORE_PAUSE_MAX_S:
                pause_s = _CHORE_PAUSE_S
            await anyio.sleep(pause_s)
            pause_s = min(pause_s * 2, _CHORE_PAUSE_MAX_S)

    async def _look_on(self) -> None:
        """Show how far the team is, soon after each change and now and then."""
        while True:
            await self._look()
            with anyio.move_on_after(_LOOK_S):
                async with aclosing(self._team.changes()) as changes:
                    await anext(changes)
                    await anext(changes)

    async def _look(self) -> Snapshot:
        # Events first: the picture must not lag behind the news.
        events = await self._team.events(after=self._seen)
        snapshot, self._agents = await self._supervisor.look()
        self._seen = events[-1].seq if events else self._seen
        happened = [line for event in events for line in news(event)]
        waits = {view.name: view.detail for view in self._agents if view.state == "waiting"}
        fresh = [
            name
            for name, why in waits.items()
            # What waits for an answer is shown as the request that it is.
            if why and self._waits.get(name) != why and not _is_asked(why, snapshot)
        ]
        happened += [f"{name} waits: {waits[name]}" for name in fresh]
        told, self._told = self._told, []
        self._waits = waits
        found = [each for event in events for each in happenings(self._team.name, event)]
        for each in found:
            self._tell_outside(each)
        # The row of a lead that nobody is shows nothing.
        shown = [view for view in self._agents if not view.lead or view.driver or view.unread]
        self._watch(Progress(self._team.name, snapshot, shown, happened + told, found))
        return snapshot

    def _tell_outside(self, happening: Happening) -> None:
        if self._care.notices is not None:
            self._care.notices.hear(happening)

    def _happened(self, kind: Kind, text: str, *, status: str | None = None) -> None:
        at = iso(self._clock())
        happening = Happening(kind, self._team.name, at, text, status=status)
        self._tell_outside(happening)

    async def _tell_the_rest(self, snapshot: Snapshot) -> None:
        """Wait until the world outside was told, for a while at most."""
        if self._care.notices is None:
            return
        await self._care.notices.drain()
        told, self._told = self._told, []
        if told:
            self._watch(Progress(self._team.name, snapshot, self._agents, told))

    def _held_up(self) -> str:
        """What the agents waited for when the time was over."""
        waits = [f"{name} waited: {why}" for name, why in self._waits.items() if why]
        return f" {'; '.join(waits)}." if waits else ""

    async def _led_to_the_end(self, group: TaskGroup) -> Verdict:
        """Wait until the lead has ended for good, and what it leaves in the queue is merged."""
        while True:
            config, tasks = await self._tended()
            prospects = await self._start_again(config, group)
            member = config.member(LEAD)
            agent = None if member is None else member.agent
            over = self._is_over(config, tasks)
            if over is not None:
                return over
            if agent is None or prospects.get(LEAD) == "never":
                trouble = self._care.queue().trouble
                if trouble is not None or not any(is_queued(task) for task in tasks):
                    return Verdict("led", trouble)
            await anyio.sleep(_LOOK_S)

    async def _to_the_end(self, group: TaskGroup) -> Verdict:
        """Wait until all tasks are done or given up, or nobody can do any more of them."""
        while True:
            await self._chair.renew()
            config, tasks = await self._tended()
            prospects = await self._start_again(config, group)
            over = self._is_over(config, tasks)
            if over is not None:
                return over
            done = all_done(tasks)
            if done is not None and not await self._more_may_come():
                return done
            agents = _agents(config)
            stands = at_a_standstill(
                tasks, agents, prospects, self._care.queue(), anyio.current_time()
            )
            if stands is not None:
                return stands
            await anyio.sleep(_LOOK_S)

    async def _more_may_come(self) -> bool:
        """Whether a team that has done all it knows of looks for more."""
        if self._until.what == "time":
            # What is looked at again is worked on until the time has come.
            return self._care.standing
        return self._care.more is not None and await self._care.more()

    def _is_over(self, config: TeamConfig, tasks: Sequence[Task]) -> Verdict | None:
        """The end by the clock, or because nobody has anything to do."""
        until = self._until
        if until.at_ms is not None and self._clock() >= until.at_ms:
            return Verdict("time", f"It was to end at {until.words}.")
        if until.what != "idle":
            return None
        now = anyio.current_time()
        if not is_idle(config, tasks) or self._care.quiet():
            self._idle_since = None
            return None
        self._idle_since = now if self._idle_since is None else self._idle_since
        if now - self._idle_since < _IDLE_S:
            return None
        return all_done(tasks) or Verdict("unfinished", "Everybody rests, and tasks are open.")

    async def _tended(self) -> tuple[TeamConfig, list[Task]]:
        await self._supervisor.tend(by=LEAD)
        return await self._team.agents.config(), (await self._team.tasks.list()).tasks

    async def _start_again(self, config: TeamConfig, group: TaskGroup) -> dict[str, Prospect]:
        """Start those again that were killed, or failed by what is over; what each has to expect.

        The lead has been told. Whoever cannot be started now is tried again later.
        """
        now_s = self._clock() / 1000
        prospects: dict[str, Prospect] = {}
        for name, agent in _agents(config, lead=True).items():
            prospect = self._care.restarts.prospect(name, agent, now_s)
            prospects[name] = "later" if name in self._resuming else prospect
            if prospects[name] != "now":
                continue
            self._care.restarts.started(name, agent, now_s)
            prospects[name] = "later"
            self._resuming.add(name)
            group.start_soon(self._resume, name)
        return prospects

    async def _resume(self, name: str) -> None:
        """Start an agent again; that may take long, and nobody else has to wait for it."""
        # A host may have been faster. That a lead cannot be started ends a run that is short.
        must = name == LEAD and not self._care.patient
        try:
            with suppress(Conflict if must else BullpenError):
                await self._supervisor.resume(
                    by=LEAD, names=[name], ready_s=None if name == LEAD else READY_S
                )
        finally:
            self._resuming.discard(name)

    async def _outcome(self, verdict: Verdict, *, led: bool) -> Outcome:
        """Stop whoever is left, and say how it ended."""
        if verdict.status == "time":
            await self._stop("suspended", "the time was over")
            tasks = (await self._team.tasks.list()).tasks
            if not led and all_done(tasks) == Verdict("done"):
                return await self._ended("done", "", None)
            cause = f"{verdict.cause or ''}{self._held_up()}"
            return await self._ended("unfinished", "", cause)
        if verdict.status == "led":
            return await self._by_the_lead(verdict.cause)
        if not self._keep:
            # Without a lead they go on when there is more to do.
            await self._stop("stopped" if led else "suspended", THE_RUN_IS_OVER)
        summary = await self._last_words() if led else ""
        return await self._ended(verdict.status, summary, verdict.cause)

    async def _by_the_lead(self, trouble: str | None) -> Outcome:
        """How it ended by the lead's word, and by the tasks if it gave none."""
        _, lead = await self._team.agents.get(LEAD)
        result = await self._team.agents.result()
        tasks = (await self._team.tasks.list()).tasks
        if not self._keep:
            await self._stop("stopped", THE_RUN_IS_OVER)
        if lead.end in ("failed", "lost"):
            return await self._ended("failed", "", lead.cause or "The lead was lost.")
        if trouble is not None:
            return await self._ended("unfinished", result.summary if result else "", trouble)
        if result is not None:
            because = f"Tasks stay open: {result.override}" if result.override else None
            return await self._ended("done", result.summary, because)
        if lead.end == "finished" and tasks and all_done(tasks) == Verdict("done"):
            return await self._ended("done", await self._last_words(), None)
        return await self._ended("unfinished", await self._last_words(), lead.cause)

    async def _last_words(self) -> str:
        """The last thing the lead said."""
        path = await self._supervisor.transcript(LEAD)
        if not path.exists():
            return ""
        texts = [row.get("text") for row in rows(path) if row.get("kind") == "end"]
        return next((text for text in reversed(texts) if isinstance(text, str) and text), "")

    async def _stop(self, end: End, reason: str) -> None:
        await self._supervisor.stop_all(by=LEAD, end=end, reason=reason)

    async def _ended(self, status: Status, summary: str, cause: str | None) -> Outcome:
        snapshot = await self._look()
        account = await self._summed_up(snapshot, status, cause)
        usage = Usage.new()
        for view in self._agents:
            usage = usage.plus(view.usage)
        tasks = Counter[str](task.status for task in snapshot.tasks)
        text = f"{status}: {summary or cause or 'all tasks are done'}"
        self._happened("ended", text, status=status)
        await self._tell_the_rest(snapshot)
        return Outcome(
            CODES[status], status, summary, self._team.name, usage, dict(tasks), cause, account
        )

    async def _summed_up(self, snapshot: Snapshot, status: Status, cause: str | None) -> Summary:
        needs = [] if self._care.needs is None else await self._care.needs()
        events = await self._team.events()
        return summed_up(snapshot, events, status=status, cause=cause, needs=needs)


def _agents(config: TeamConfig, *, lead: bool = False) -> dict[str, AgentFacts]:
    """The agents of ours, by name."""
    return {
        member.name: member.agent
        for member in config.roster
        if member.agent is not None and (lead or not member.is_lead)
    }


def _is_asked(why: str, snapshot: Snapshot) -> bool:
    return any(request.id in why for request in snapshot.pending)
