"""The runner: the loop that gives one agent its turns, wherever the agent runs.

It waits for mail, orders, tasks, timers and ended jobs, gives the driver one turn, records the
result and tells the lead. Orders are obeyed at once, even during a turn, and never reach a model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import anyio

from bullpen.agents.contracts.driver import Driver, TurnFailed, TurnInput
from bullpen.agents.mail.briefing import briefing_text
from bullpen.agents.mail.sorting import SortedMail, triage
from bullpen.agents.runner.control import Ended, Interruption
from bullpen.agents.runner.desk import RunnerDesk
from bullpen.agents.runner.duties import Duties
from bullpen.agents.runner.heartbeat import Heartbeat
from bullpen.agents.runner.idle_notice import idle_notice
from bullpen.agents.runner.lead_lease import LeadHold
from bullpen.agents.system.transcript import NAME as TRANSCRIPT
from bullpen.agents.system.transcript import rows
from bullpen.agents.tools.jobs import end_jobs
from bullpen.errors import BullpenError, Conflict, NotFound, Refused, Unavailable
from bullpen.protocol.agent import End, ProcessRecord
from bullpen.protocol.clock import Clock, now_ms
from bullpen.protocol.payloads import Control
from bullpen.store.contract import Entry
from bullpen.team.agents.operations import AgentTurn
from bullpen.team.budget.rules import OverBudget

T = TypeVar("T")

_GO_ON = (
    "Your process ended in the middle of a turn and was restarted. Continue where you left off."
)
_DELETED = "the team was deleted"


@dataclass(frozen=True, slots=True)
class Pace:
    """The intervals of a runner, in seconds. Tests set their own."""

    beat_s: float = 4.0
    beat_ttl_s: float = 10.0
    start_s: float = 120.0
    # How long to wait for more reports while teammates are working.
    gather_s: float = 10.0
    # The longest that a turn may take.
    turn_s: float = 3600.0
    # After a failed turn: wait, try again, finally give up.
    retry_s: float = 30.0
    retries_max: int = 3
    # How often the deadline of an agent's plan is checked.
    plan_look_s: float = 10.0
    # How long an agent that asked someone may wait before it is reminded of its task.
    reply_s: float = 120.0


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
        self._duties = Duties(desk, reply_s=pace.reply_s, clock=clock)
        self._heartbeat = Heartbeat(
            desk, place=place, clock=clock, pace=(pace.beat_s, pace.beat_ttl_s)
        )
        self._control = desk.control
        self._paused = False
        self._reports_since: float | None = None
        self._failures = 0
        self._not_before = 0.0

    async def run(self) -> Ended:
        """Work until the end; returns how it ended. Raises only if the end cannot be recorded."""
        try:
            await self._begin()
        except (BullpenError, TimeoutError) as error:
            cause = str(error) or f"It was not ready after {self._pace.start_s:.0f} s."
            return await self._conclude(Ended("failed", cause))
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._live)
                group.start_soon(self._listen)
                await self._work()
                group.cancel_scope.cancel()
        except anyio.get_cancelled_exc_class():
            # The agent has to go; record that first.
            with anyio.CancelScope(shield=True):
                await self._conclude(
                    self._control.ended or Ended("stopped", "its process was told to stop")
                )
            raise
        return await self._conclude(self._control.ended or Ended("finished"))

    def stop(self, end: End, cause: str) -> None:
        """End this agent at once, even during a turn."""
        self._control.stop(end, cause)

    async def _begin(self) -> None:
        """Get ready, then record it: `spawn` waits for this handshake."""
        await self._heartbeat.beat()
        # A program is started in the mode of its agent.
        self._desk.planning.adopt((await self._team.agents.get(self._name))[1])
        with anyio.fail_after(self._pace.start_s):
            await self._driver.start(self._desk)
        # Proves that mail can be received: raises if it cannot be read.
        await self._desk.unread()
        if self._desk.is_lead:
            await self._lead_hold.take()
        facts = await self._team.agents.ready(self._name, nonce=self._desk.nonce, place=self._place)
        await self._desk.spending.adopt(facts, self._desk.folder)
        self._desk.planning.adopt(facts)
        await self._duties.adopt()
        if facts.launch > 1 and await anyio.to_thread.run_sync(_cut_off, self._desk.folder):
            self._desk.notes.append(_GO_ON)
        self._desk.enter("idle")
        self._desk.record(
            "ready", driver=self._driver.name, launch=facts.launch, born=facts.began_ms
        )
        await self._heartbeat.beat()

    async def _work(self) -> None:
        began = False
        while self._control.ended is None:
            try:
                if not began:
                    await self._hooked(self._desk.hooks.started)
                    began = True
                given = await self._next_turn()
                if given is not None:
                    await self._take_turn(given)
            except NotFound as error:
                self._control.ended = await self._end_when_not_found(error)
            except Conflict as error:
                self._control.ended = Ended("lost", error.message)
            except OverBudget as error:
                self._control.ended = Ended.at_limit(error)
            except Refused as error:
                self._control.ended = Ended("stopped", error.message)
            except Unavailable as error:
                self._desk.record("trouble", text=str(error))
                await self._control.pause(self._pace.retry_s / 10)

    async def _end_when_not_found(self, error: NotFound) -> Ended:
        """The end of an agent that did not find its team, or its place in it."""
        try:
            await self._team.agents.config()
        except NotFound:
            return Ended("stopped", _DELETED)
        except BullpenError:
            pass  # Whether the team exists is not known, so say what was missing.
        return Ended("lost", error.message)

    async def _next_turn(self) -> TurnInput | None:
        """The input of the next turn, or None after a wait without a reason for one."""
        self._control.clear_wake()
        mail = await self._sorted()
        await self._obey(mail)
        answer = await self._desk.planning.look()
        if answer is not None:
            self._desk.notes.append(answer)
        now = self._clock() / 1000
        if self._control.ended is None and not self._paused and now >= self._not_before:
            notes = self._desk.due_notes()
            due = bool(mail.urgent or notes) or await self._reports_are_due(mail)
            if not due:
                notes += await self._duties.notes()
            if due or notes:
                self._reports_since = None
                # A report that came in meanwhile belongs to this turn.
                mail = await self._sorted()
                return await self._input(mail.mail, notes)
            if self._duties.stalled:
                self._control.end(Ended("finished", "nobody had anything left to do"))
        if self._control.ended is None:
            await self._control.pause(self._wait_s(mail))
        return None

    async def _sorted(self) -> SortedMail:
        """The unread mail, sorted."""
        entries = await self._desk.unread()
        if not entries:
            return SortedMail((), (), urgent=False, reports=False)
        return triage(entries, await self._team.agents.config(), agent=self._name)

    async def _input(self, entries: tuple[Entry, ...], notes: list[str]) -> TurnInput:
        """The input of a turn: the briefing, why there is a turn, and the mail."""
        snapshot = await self._team.snapshot()
        mail = await self._desk.inject(entries)
        parts = [briefing_text(snapshot, self._name), *self._desk.hooks.context(), *notes]
        if mail is not None:
            parts.append(mail.text)
        return TurnInput("\n\n".join(parts), mail.ids if mail else ())

    async def _reports_are_due(self, mail: SortedMail) -> bool:
        """Whether reports start a turn: once nobody else is about to send one."""
        if not mail.reports:
            return False
        now = self._clock() / 1000
        if self._reports_since is None:
            self._reports_since = now
        if now - self._reports_since >= self._pace.gather_s:
            return True
        return not await self._duties.others_at_work()

    def _wait_s(self, mail: SortedMail) -> float | None:
        """How long to wait until something is due; None if only an event can start a turn."""
        now = self._clock() / 1000
        # Until then nothing can be done about what is due, so do not poll it.
        if self._paused:
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

    async def _obey(self, mail: SortedMail) -> None:
        """Obey orders and mark them as seen; no model reads them."""
        for entry, payload in mail.orders:
            await self._desk.seen([entry.id])
            if not isinstance(payload, Control):
                await self._desk.planning.heard(entry, payload)
                continue
            self._desk.record("order", action=payload.action, sender=entry.message.sender)
            self._follow_order(payload)

    def _follow_order(self, order: Control) -> None:
        match order.action:
            case "stop":
                self._control.stop("stopped", order.reason or f"{order.sender} ordered it")
            case "pause":
                self._paused = True
                self._control.interrupt("pause")
                self._desk.enter("waiting", f"paused by {order.sender}")
            case "resume":
                self._paused = False
                self._desk.enter("idle")
            case "cancel":
                self._control.interrupt("cancel")

    async def _begun(self) -> AgentTurn:
        """Start a turn. A task whose budget is used up is given back first."""
        while True:
            try:
                return await self._desk.spending.begin_turn()
            except OverBudget as error:
                if error.reached.scope != "task":
                    raise
                await self._duties.give_back_over_budget(error)

    async def _take_turn(self, given: TurnInput) -> None:
        desk = self._desk
        turn = await self._begun()
        given = TurnInput("\n\n".join([given.text, *self._duties.asides()]), given.ids)
        desk.wrote_to.clear()
        desk.enter("working")
        desk.record("turn", number=turn.agent.usage.turns, text=given.text, ids=list(given.ids))
        self._duties.turn_begins()
        text, failure = await self._drive(given, turn.seconds_left)
        text = desk.redacted(text)
        failure = None if failure is None else desk.redacted(failure)
        interrupted = self._control.take_interruption()
        if desk.spending.over is not None and interrupted is None:
            interrupted = "task" if desk.spending.over.reached.scope == "task" else "limit"
        desk.record("end", text=text, failure=failure, interrupted=interrupted)
        if failure is None and interrupted is None:
            # A successful turn means that its requests succeeded.
            await desk.seen(given.ids)
        desk.turn_over()
        await self._settle_turn(text, failure, interrupted)

    async def _drive(self, given: TurnInput, left_s: float | None) -> tuple[str, str | None]:
        """The final text of a turn, and why it failed if it did."""
        # Slightly later than the limit, so that it has passed by the team's clock too.
        most_s = min(self._pace.turn_s, self._pace.turn_s if left_s is None else left_s + 0.05)
        try:
            with self._control.begin(anyio.current_time() + most_s):
                if self._control.woken:
                    # Obey an order that came after the mail was sorted.
                    await self._obey(await self._sorted())
                if self._control.ended is not None:
                    # A signal came before there was a turn to interrupt.
                    self._control.interrupt("stop")
                result = await self._driver.turn(given, self._desk)
                return result.text, None
        except TurnFailed as error:
            if error.for_good:
                self._control.end(Ended("failed", str(error)))
            return error.partial, str(error)
        except OverBudget:
            return "", None
        except BullpenError as error:
            return "", str(error)
        except Exception as error:
            return "", f"{type(error).__name__}: {error}"
        finally:
            self._control.over()
        if self._control.interrupted or await self._is_over_budget():
            return "", None
        return "", f"The turn took longer than {most_s:.0f} s and was stopped."

    async def _is_over_budget(self) -> bool:
        """Whether a budget, such as one on time, is why the turn was cut short."""
        if self._desk.spending.over is None:
            with suppress(OverBudget):
                await self._desk.spending.check()
        return self._desk.spending.over is not None

    async def _settle_turn(
        self, text: str, failure: str | None, interrupted: Interruption | None
    ) -> None:
        desk = self._desk
        idle = None
        if interrupted is None and not desk.is_lead:
            idle = await idle_notice(desk, text, failure, now_ms=self._clock())
        await desk.spending.end_turn(idle)
        over = desk.spending.over
        if over is not None and over.reached.scope == "task":
            await self._duties.give_back_over_budget(over)
        elif over is not None:
            self._control.end(Ended.at_limit(over))
        if desk.leaving is not None:
            self._control.end(Ended("finished", desk.leaving))
        elif self._duties.until_done and await self._team.agents.result() is not None:
            self._control.end(Ended("finished", "the goal is reached"))
        if failure is None:
            self._failures = 0
            self._duties.turn_ended(interrupted=interrupted is not None)
            if interrupted is None and self._control.ended is None:
                await self._may_rest(text)
            if not self._paused:
                self._rest()
            return
        self._failures += 1
        if self._failures > self._pace.retries_max:
            self._control.end(Ended("failed", failure))
            return
        # The note or task that started the turn must not be lost with it.
        desk.notes.append(f"Your last turn failed ({failure}). Continue where you left off.")
        delay = self._pace.retry_s * 2 ** (self._failures - 1)
        self._not_before = self._clock() / 1000 + delay
        desk.enter("waiting", f"trying again in {delay:.0f} s: {failure}")

    async def _may_rest(self, text: str) -> None:
        """Ask the hooks. If one refuses, its reason starts another turn."""
        desk = self._desk
        waits = bool(desk.planning.waits_for or desk.wrote_to or desk.timers)
        why = await self._hooked(lambda: desk.hooks.turn_over(text, waiting=waits))
        if why is not None:
            desk.notes.append(why)

    async def _hooked(self, run: Callable[[], Awaitable[T]]) -> T | None:
        """Run hooks between turns; None if an order interrupts them."""
        try:
            with self._control.begin():
                return await run()
        finally:
            self._control.over()
        self._control.take_interruption()
        return None

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
                            await self._obey(await self._sorted())
                        self._desk.notify_waiting()
                        self._control.wake()
            except NotFound:
                self._control.stop("stopped", _DELETED)
                return
            except BullpenError as error:
                self._desk.record("trouble", text=str(error))
                await anyio.sleep(self._pace.retry_s / 10)

    async def _live(self) -> None:
        """Send heartbeats and renew leases until this launch may no longer act."""
        try:
            await self._heartbeat.go_on(self._duties.renew, self._lead_hold.renew)
        except NotFound:
            self._control.stop("stopped", _DELETED)
        except Conflict as error:
            self._control.stop("lost", error.message)

    async def _conclude(self, ended: Ended) -> Ended:
        """Record the end: the last heartbeat, the tasks given back, the lead told."""
        desk = self._desk
        if ended.cause is not None:
            ended = replace(ended, cause=desk.redacted(ended.cause))
        with anyio.move_on_after(30, shield=True):
            try:
                await end_jobs(desk)
                await self._driver.aclose()
                await self._lead_hold.leave()
                ending = await self._team.agents.end(
                    self._name,
                    ended.end,
                    by=self._name,
                    nonce=self._desk.nonce,
                    cause=ended.cause,
                    reached=ended.reached,
                )
                if ending is not None and ending.agent.end is not None:
                    # The member that stopped it has already recorded how it ended.
                    ended = Ended(ending.agent.end, ending.agent.cause)
                desk.enter("failed" if ended.end in ("failed", "lost") else "stopped", ended.cause)
                await self._heartbeat.beat()
                await desk.hooks.ended(ended.cause)
            except (NotFound, Refused):
                # The team is gone, or this launch may no longer act.
                pass
        desk.record("ended", end=ended.end, cause=ended.cause)
        return ended


def _cut_off(folder: Path) -> bool:
    """Whether the last recorded turn has no end, or was interrupted."""
    last: dict[str, Any] = {}
    for row in rows(folder / TRANSCRIPT):
        if row.get("kind") in ("turn", "end"):
            last = row
    return last.get("kind") == "turn" or last.get("interrupted") in ("stop", "limit")
