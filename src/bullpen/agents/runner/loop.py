"""The runner: the loop that gives one agent its turns, wherever the agent runs.

It waits for mail, orders, tasks, timers and ended jobs, gives the driver one turn, records the
result and tells the lead. Orders are obeyed at once, even during a turn, and never reach a model.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

import anyio

from bullpen.agents.contracts.driver import Driver, TurnFailed, TurnInput
from bullpen.agents.drivers.registry import loading_words
from bullpen.agents.mail.sorting import SortedMail
from bullpen.agents.mail.todo_list import todo_text
from bullpen.agents.permissions.rule_language.known_tools import missing_tools
from bullpen.agents.permissions.rule_language.tool_names import missing_tools_note
from bullpen.agents.runner.control import Ended
from bullpen.agents.runner.desk import RunnerDesk
from bullpen.agents.runner.duties import Duties
from bullpen.agents.runner.heartbeat import Heartbeat, RosterEntry
from bullpen.agents.runner.lead_lease import LeadHold
from bullpen.agents.runner.orders import Orders
from bullpen.agents.runner.pace import Pace
from bullpen.agents.runner.record_end import END_S, end_if_gone, record_end, unless_gone
from bullpen.agents.runner.turn_end import (
    Resting,
    TurnEnd,
    idle_notice,
    last_turn,
    withdraw_asked,
    written_to_peers,
)
from bullpen.agents.system.footprint import load_factor
from bullpen.agents.tools.jobs import end_jobs
from bullpen.agents.work.until_stored import until_stored
from bullpen.errors import BullpenError, Conflict, NotFound, Refused, Unavailable
from bullpen.protocol.agent import End, Failure, ProcessRecord
from bullpen.protocol.clock import Clock, now_ms
from bullpen.store.contract import Entry
from bullpen.team.agents.turns import AgentTurn
from bullpen.team.budget.rules import OverBudget

T = TypeVar("T")

_GO_ON = (
    "Your process ended in the middle of a turn and was restarted. Continue where you left off."
)
_TROUBLES_MAX = 10


class Runner:
    """Runs one agent, from the handshake to its end."""

    def __init__(
        self,
        desk: RunnerDesk,
        driver: Driver,
        *,
        place: ProcessRecord,
        clock: Clock = now_ms,
        pace: Pace = Pace(),  # noqa: B008 - frozen
    ) -> None:
        self._desk = desk
        self._team = desk.team
        self._name = desk.agent
        self._driver = driver
        self._place = place
        self._clock = clock
        self._pace = pace
        self._lead_hold = LeadHold(desk.team, nonce=desk.nonce, place=place, clock=clock)
        self._duties = Duties(desk, pace=pace)
        self._heartbeat = Heartbeat(
            desk, place=place, clock=clock, pace=(pace.beat_s, pace.beat_ttl_s)
        )
        self._control = desk.control
        self._orders = Orders(desk)
        self._reports_since: float | None = None
        # Why the next turn begins, besides mail; kept until it has begun.
        self._reasons: list[str] = []
        # The end of the last turn, until every part of it is stored.
        self._pending: TurnEnd | None = None
        self._resting = Resting(desk)
        # How many times in a row the store could not be used.
        self._troubles = 0
        self._failures = 0
        self._failure: Failure | None = None
        self._not_before = -math.inf
        self._start_s = pace.start_s * load_factor()
        self._entry = RosterEntry(desk, look_s=pace.place_look_s)

    async def run(self) -> Ended:
        """Work until the end; returns how it ended. Raises only if the end cannot be recorded."""
        try:
            await self._begin()
        except (BullpenError, TimeoutError) as error:
            cause = str(error) or (
                f"It was not ready in time: after {self._start_s:.0f} s it was still"
                f" {self._desk.activity.detail}."
            )
            return await self._conclude(self._control.ended or Ended("failed", cause))
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._live)
                group.start_soon(self._listen)
                await self._work()
                group.cancel_scope.cancel()
        except anyio.get_cancelled_exc_class():
            # The agent has to go; record that first.
            ended = self._control.end(Ended("stopped", "its process was told to stop"))
            with anyio.CancelScope(shield=True):
                await self._conclude(ended)
            raise
        return await self._conclude(self._control.ended or Ended("finished"))

    def stop(self, end: End, cause: str) -> None:
        """End this agent at once, even during a turn."""
        self._control.stop(end, cause)

    async def _begin(self) -> None:
        """Get ready, then record it: `spawn` waits for this handshake."""
        self._desk.enter("starting", loading_words(self._desk.spec.driver))
        await self._patiently(self._heartbeat.beat)
        # A program is started in the mode of its agent.
        _, asked = await self._patiently(lambda: self._team.agents.get(self._name))
        self._desk.planning.adopt(asked)
        self._desk.first_message = asked.prompt_id
        with anyio.fail_after(self._start_s):
            await self._driver.start(self._desk)
        # Proves that mail can be received: raises if it cannot be read.
        await self._patiently(self._desk.unread)
        if self._desk.is_lead:
            await self._patiently(self._lead_hold.take)
        facts = await self._patiently(
            lambda: self._team.agents.ready(self._name, nonce=self._desk.nonce, place=self._place)
        )
        await self._patiently(lambda: self._desk.spending.adopt(facts, self._desk.folder))
        self._desk.planning.adopt(facts)
        await self._patiently(self._duties.adopt)
        if facts.launch > 1:
            last = await anyio.to_thread.run_sync(last_turn, self._desk.folder, facts)
            self._pending, self._desk.waits_for_words = last.pending, last.waits_for_words
            if last.cut_off:
                self._desk.notes.append(_GO_ON)
        if missing := missing_tools(self._desk.spec):
            self._desk.record("note", text=missing_tools_note(missing))
        self._desk.enter("idle")
        self._desk.record(
            "ready", driver=self._driver.name, launch=facts.launch, born=facts.began_ms
        )
        await self._patiently(self._heartbeat.beat)

    async def _patiently(self, act: Callable[[], Awaitable[T]]) -> T:
        """Do a step of the start, also if the store or the team is away for a moment."""
        look_s = self._pace.place_look_s
        step = partial(unless_gone, self._desk, act, again_s=look_s)
        try:
            return await until_stored(step, tell=self._desk.trouble, within_s=self._start_s)
        except Unavailable as error:
            # The agent is not the cause, so it may be started again.
            self._control.end(Ended("lost", str(error)))
            raise

    async def _work(self) -> None:
        began = False
        while self._control.ended is None:
            try:
                if not began:
                    await self._control.interruptible(self._desk.hooks.started)
                    began = True
                if self._pending is not None:
                    # No turn begins before the last one is over for everybody.
                    await self._carry_out(self._pending)
                await self._desk.send_unsent()
                await self._desk.seen_for_sure(())
                entries = await self._next_turn()
                if entries is not None:
                    await self._take_turn(entries)
                self._troubles = 0
            except NotFound as error:
                await self._end_if_gone()
                if self._troubles == _TROUBLES_MAX:
                    self._control.end(Ended("lost", error.message))
                await self._wait_after(error)
            except Conflict as error:
                self._control.ended = Ended("lost", error.message)
            except OverBudget as error:
                self._control.ended = Ended.at_limit(error)
            except Refused as error:
                self._control.ended = Ended("stopped", error.message)
            except Unavailable as error:
                await self._wait_after(error)

    async def _wait_after(self, error: BullpenError) -> None:
        """Wait until the store is tried again, longer each time."""
        self._desk.trouble(error)
        self._control.clear_wake()
        self._troubles = min(self._troubles + 1, _TROUBLES_MAX)
        wait_s = min(self._pace.retry_s / 100 * 2.0**self._troubles, self._pace.retry_s / 10)
        if self._control.ended is None:
            await self._control.pause(wait_s)

    async def _end_if_gone(self) -> None:
        """End at once if the team, or this agent's place in it, is gone for good."""
        await end_if_gone(self._desk, again_s=self._pace.place_look_s)

    async def _next_turn(self) -> tuple[Entry, ...] | None:
        """The mail for the next turn, or None after a wait without a reason for one."""
        self._control.clear_wake()
        mail = await self._orders.obey()
        answer = await self._desk.planning.look()
        if answer is not None:
            self._desk.notes.append(answer)
        now = anyio.current_time()
        if self._control.ended is None and not self._orders.paused and now >= self._not_before:
            self._reasons += self._desk.due_notes()
            due = bool(mail.urgent or self._reasons) or await self._reports_are_due(mail)
            if not due:
                self._reasons += await self._duties.notes()
            if due or self._reasons:
                # A report that came in meanwhile belongs to this turn.
                return (await self._orders.sorted_mail()).mail
            if self._duties.stalled:
                self._control.end(Ended("finished", self._duties.stalled))
        if self._control.ended is None:
            self._desk.still_idle(self._duties.owes())
            await self._control.pause(self._wait_s(mail))
        return None

    async def _started(self, entries: tuple[Entry, ...]) -> tuple[AgentTurn, TurnInput]:
        """Start a turn: the briefing, why there is a turn, and the mail.

        If it cannot be recorded, the mail and the reasons are there for the next attempt.
        """
        desk = self._desk
        try:
            snapshot = await self._team.snapshot()
            mail = await desk.inject(entries)
            turn = await self._begun()
        except Unavailable:
            desk.not_given(entry.id for entry in entries)
            raise
        if said := desk.planning.changed(turn.agent):
            desk.planning.news.append(said)
        keeps = self._driver.capabilities.keeps_briefing
        briefing, is_whole = desk.briefings.of_turn(snapshot, keeps=keeps)
        todos = todo_text(desk.folder)
        parts = [briefing, *([todos] if todos else [])]
        news, asides = [*desk.mode_news(), *self._reasons], self._duties.asides()
        parts += [*desk.hooks.context(), *news]
        if mail is not None:
            parts.append(mail.text)
        self._reasons, self._reports_since = [], None
        desk.spending.told("digest", briefing)
        desk.spending.told("reminder", todos or "", *news, *asides)
        text = "\n\n".join([*parts, *asides])
        return turn, TurnInput(text, mail.ids if mail else (), whole=is_whole)

    async def _reports_are_due(self, mail: SortedMail) -> bool:
        """Whether reports start a turn: once nobody else is about to send one."""
        if not mail.reports:
            return False
        now = anyio.current_time()
        if self._reports_since is None:
            self._reports_since = now
        if now - self._reports_since >= self._pace.gather_s:
            return True
        return not await self._duties.others_at_work()

    def _wait_s(self, mail: SortedMail) -> float | None:
        """How long to wait until something is due; None if only an event can start a turn."""
        now = anyio.current_time()
        if self._desk.has_unstored:
            return self._pace.retry_s / 10
        # Until then nothing can be done about what is due, so do not poll it.
        if self._orders.paused:
            return None
        if self._not_before > now:
            return self._not_before - now
        times = [self._desk.next_timer_s(), self._duties.next_look_s()]
        if self._desk.planning.waits_for is not None:
            # Nobody sends a message when a deadline passes.
            times.append(self._pace.plan_look_s)
        if mail.reports and self._reports_since is not None:
            times.append(self._reports_since + self._pace.gather_s - now)
        due = [time for time in times if time is not None]
        return max(0.0, min(due)) if due else None

    async def _begun(self) -> AgentTurn:
        """Start a turn. A task whose budget is used up is given back first."""
        while True:
            try:
                return await self._desk.spending.begin_turn()
            except OverBudget as error:
                if error.reached.scope != "task":
                    raise
                await self._duties.give_back_over_budget(error)

    async def _take_turn(self, entries: tuple[Entry, ...]) -> None:
        desk = self._desk
        turn, given = await self._started(entries)
        number = turn.agent.usage.turns
        desk.turn_begins(turn.requests_max)
        desk.enter("working")
        desk.record("turn", number=number, text=given.text, ids=list(given.ids))
        self._duties.turn_begins()
        text, failure = await self._drive(given, turn.seconds_left)
        interrupted = self._control.take_interruption()
        if desk.spending.over is not None and interrupted is None:
            interrupted = "task" if desk.spending.over.reached.scope == "task" else "limit"
        end = TurnEnd(
            number,
            desk.redacted(text),
            ids=given.ids,
            failure=None if failure is None else desk.redacted(failure),
            interrupted=interrupted,
            peers=self._resting.peers_with(written_to_peers(desk.wrote_to)),
            completed=desk.completed,
        )
        self._pending = end
        desk.briefings.turn_over(succeeded=end.succeeded)
        desk.record("end", **end.row())
        await self._carry_out(end)

    async def _drive(self, given: TurnInput, left_s: float | None) -> tuple[str, str | None]:
        """The final text of a turn, and why it failed if it did."""
        # Slightly later than the limit, so that it has passed by the team's clock too.
        most_s = min(self._pace.turn_s, self._pace.turn_s if left_s is None else left_s + 0.05)
        self._failure = None
        try:
            with self._control.begin(anyio.current_time() + most_s):
                if self._control.woken:
                    # Obey an order that came after the mail was sorted.
                    await self._orders.obey()
                if self._control.ended is not None:
                    # A signal came before there was a turn to interrupt.
                    self._control.interrupt("stop")
                result = await self._driver.turn(given, self._desk)
                return result.text, None
        except TurnFailed as error:
            self._failure = error.failure
            if error.for_good:
                self._control.end(Ended("failed", str(error), failure=error.failure))
            return error.partial, str(error)
        except OverBudget:
            return "", None
        except BullpenError as error:
            return "", str(error)
        except Exception as error:
            return "", f"{type(error).__name__}: {error}"
        finally:
            self._control.over()
        braked = self._desk.brake.stopped
        if braked is not None and not self._control.interrupted:
            self._failure = braked.failure
            return "", str(braked)
        over = self._desk.turn_is_over
        if over or self._control.interrupted or await self._is_over_budget():
            return "", None
        return "", f"The turn took longer than {most_s:.0f} s and was stopped."

    async def _is_over_budget(self) -> bool:
        """Whether a budget, such as one on time, is why the turn was cut short."""
        if self._desk.spending.over is None:
            # A store that is away must not cost the end of the turn; that looks again.
            with suppress(BullpenError):
                await self._desk.spending.check()
        return self._desk.spending.over is not None

    async def _carry_out(self, end: TurnEnd) -> None:
        """Store every part of the end of a turn, then go on. Whatever is stored stays stored.

        Raises Unavailable if a part could not be stored; then call it again later.
        """
        desk = self._desk
        desk.turn_over()
        try:
            # A successful turn means that its requests succeeded.
            await desk.seen_for_sure(end.ids if end.succeeded else ())
            reached = self._duties.until_done and await self._team.agents.result() is not None
            await withdraw_asked(desk, end)
            goes_on = self._control.ended is None and desk.leaving is None and not reached
            if goes_on:
                await self._resting.ask(end)
            held = goes_on and self._resting.refused(end) is not None
            idle = None
            if end.interrupted is None and not desk.is_lead and not held:
                idle = await idle_notice(desk, end, now_ms=self._clock())
            await desk.spending.end_turn(end.number, idle)
            over = desk.spending.over
            if over is not None and over.reached.scope == "task":
                await self._duties.give_back_over_budget(over)
        except Unavailable as error:
            desk.enter("waiting", f"storing the end of its turn: {error.message}")
            raise
        self._pending = None
        if over is not None and over.reached.scope != "task":
            self._control.end(Ended.at_limit(over))
        if desk.leaving is not None:
            self._control.end(Ended("finished", desk.leaving))
        elif reached:
            self._control.end(Ended("finished", "the goal is reached"))
        self._go_on_after(end)

    def _go_on_after(self, end: TurnEnd) -> None:
        """Rest after a turn, or wait for the next attempt if it failed."""
        desk = self._desk
        if end.failure is None:
            self._failures = 0
            self._duties.turn_ended(end.text, interrupted=end.interrupted is not None)
            why = self._resting.refused(end)
            if why is not None and self._control.ended is None:
                desk.notes.append(why)
            if not self._orders.paused:
                self._rest()
            return
        self._failures += 1
        if self._failures > self._pace.retries_max:
            self._control.end(Ended("failed", end.failure, failure=self._failure))
            return
        # The note or task that started the turn must not be lost with it.
        desk.notes.append(f"Your last turn failed ({end.failure}). Continue where you left off.")
        delay = self._pace.retry_s * 2 ** (self._failures - 1)
        self._not_before = anyio.current_time() + delay
        desk.enter("waiting", f"trying again in {delay:.0f} s: {end.failure}")

    def _rest(self) -> None:
        """Show that it is idle, or that it waits for an answer to its plan."""
        asked = self._desk.planning.waits_for
        if asked is not None:
            self._desk.enter("waiting", f"approval of its plan ({asked})")
        else:
            self._desk.enter("idle", self._duties.owes())

    async def _listen(self) -> None:
        """Wake the loop when the team changes. Obey orders during a turn too."""
        while True:
            try:
                async with aclosing(self._team.changes(agent=self._name)) as changes:
                    async for _ in changes:
                        if self._control.in_turn:
                            await self._orders.obey()
                        self._desk.notify_waiting()
                        self._control.wake()
            except BullpenError as error:
                if isinstance(error, NotFound):
                    await self._end_if_gone()
                self._desk.trouble(error)
                await anyio.sleep(self._pace.retry_s / 10)

    async def _live(self) -> None:
        """Send heartbeats and renew leases until this launch may no longer act."""
        while self._control.ended is None:
            try:
                await self._heartbeat.go_on(
                    self._duties.renew, self._lead_hold.renew, self._entry.check
                )
            except NotFound:
                await self._end_if_gone()
            except Conflict as error:
                self._control.stop("lost", error.message)

    async def _conclude(self, ended: Ended) -> Ended:
        """Record the end: the last turn, the last heartbeat, the tasks given back, the lead told.

        Raises Unavailable if that cannot be recorded.
        """
        desk = self._desk
        if ended.cause is not None:
            ended = replace(ended, cause=desk.redacted(ended.cause))
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(END_S):
                await end_jobs(desk)
                await self._driver.aclose()
            try:
                ended = await record_end(desk, ended, before=self._before_the_end)
                await self._heartbeat.beat()
                with anyio.move_on_after(END_S):
                    await desk.hooks.ended(ended.cause)
            except (NotFound, Refused):
                # The team is gone, or this launch may no longer act.
                pass
        desk.record("ended", end=ended.end, cause=ended.cause)
        return ended

    async def _before_the_end(self) -> None:
        """Store what must be stored before the end of this agent is."""
        if self._pending is not None:
            await self._carry_out(self._pending)
        await self._desk.spending.before_the_end()
        await self._desk.seen_for_sure(())
        await self._lead_hold.leave()
