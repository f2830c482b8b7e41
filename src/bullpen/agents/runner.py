"""The loop that gives one agent its turns. The same code wherever the agent runs.

It waits for mail, orders, tasks, timers and ended jobs; gives the driver one turn; records what
came of it; tells the lead. Orders are obeyed at once, in the middle of a turn too, and never
asked of the model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import anyio

from bullpen.agents.chair import Chair
from bullpen.agents.desk import RunnerDesk
from bullpen.agents.digest import digest
from bullpen.agents.drivers.base import Driver, TurnFailed, TurnInput
from bullpen.agents.duties import Duties
from bullpen.agents.idle_notice import idle_notice
from bullpen.agents.pulse import Pulse
from bullpen.agents.tools.jobs import end_jobs
from bullpen.agents.transcript import NAME as TRANSCRIPT
from bullpen.agents.transcript import rows
from bullpen.agents.triage import Triage, triage
from bullpen.errors import BullpenError, Conflict, NotFound, Refused, Unavailable
from bullpen.protocol.agent import End, ProcessRecord
from bullpen.protocol.payloads import Control
from bullpen.store.base import Entry
from bullpen.store.clock import Clock, now_ms
from bullpen.team.agents import Turn
from bullpen.team.budget_rules import OverBudget, Reached

T = TypeVar("T")

_GO_ON = "Your process ended in the middle of a turn and was started again. Go on where you were."


@dataclass(frozen=True, slots=True)
class Pace:
    """The times a runner lives by, in seconds; tests set others."""

    beat_s: float = 4.0
    beat_ttl_s: float = 10.0
    start_s: float = 120.0
    # Reports of teammates that still work may come together: wait so long for the others.
    gather_s: float = 10.0
    # A turn may not last for ever, whatever the model does.
    turn_s: float = 3600.0
    # After a turn that failed: wait, try again, at last give up.
    retry_s: float = 30.0
    retries_max: int = 3
    # How often an agent looks whether the deadline of its plan has passed.
    plan_look_s: float = 10.0
    # How long an agent that asked somebody may wait before it is reminded of its task.
    reply_s: float = 120.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How an agent's life ended."""

    end: End
    cause: str | None = None
    # The limit that it met, if that is why.
    reached: Reached | None = None


# At a limit the agent ends; of a task of which no more may be used, only the turn.
Interruption = Literal["cancel", "pause", "stop", "limit", "task"]


class Runner:
    """One agent at work, from the handshake to its end."""

    def __init__(
        self,
        desk: RunnerDesk,
        driver: Driver,
        *,
        nonce: str,
        place: ProcessRecord,
        clock: Clock = now_ms,
        pace: Pace = Pace(),  # noqa: B008 - frozen
    ) -> None:
        self._desk = desk
        self._team = desk.team
        self._name = desk.agent
        self._driver = driver
        self._nonce = nonce
        self._place = place
        self._clock = clock
        self._pace = pace
        self._chair = Chair(desk.team, nonce=nonce, place=place, clock=clock)
        self._duties = Duties(desk, reply_s=pace.reply_s, clock=clock)
        self._pulse = Pulse(
            desk, nonce=nonce, place=place, clock=clock, pace=(pace.beat_s, pace.beat_ttl_s)
        )
        self._ended: Ended | None = None
        self._paused = False
        self._interruption: Interruption | None = None
        self._turn: anyio.CancelScope | None = None
        self._stirred = anyio.Event()
        self._reports_since: float | None = None
        self._failures = 0
        self._not_before = 0.0
        desk.stir = self._stir
        desk.planning.nonce = desk.spending.nonce = nonce
        desk.spending.cut = self._cut_turn
        desk.hooks.end_agent = lambda why: self.stop("stopped", why)
        desk.hooks.give_back = self._duties.give_back

    async def run(self) -> Ended:
        """Work until the end, and say how it came. Raises only if even that cannot be recorded."""
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
            # Whoever cancels the task wants the agent gone: say so first.
            self._ended = self._ended or Ended("stopped", "its process was told to end")
            with anyio.CancelScope(shield=True):
                await self._conclude(self._ended)
            raise
        return await self._conclude(self._ended or Ended("finished"))

    def stop(self, end: End, cause: str) -> None:
        """End this agent at once, in the middle of a turn too."""
        self._ended = self._ended or Ended(end, cause)
        self._interrupt("stop")

    async def _begin(self) -> None:
        """Get ready, and prove it: the handshake that whoever spawned us waits for."""
        await self._pulse.beat()
        # A program is started in the mode that its agent is in.
        self._desk.planning.adopt((await self._team.agents.get(self._name))[1])
        with anyio.fail_after(self._pace.start_s):
            await self._driver.start(self._desk)
        self._desk.trust_memory(self._driver.remembers)
        # Proves that mail can be received: what cannot be read raises.
        await self._desk.unread()
        if self._desk.is_lead:
            await self._chair.take()
        facts = await self._team.agents.ready(self._name, nonce=self._nonce, place=self._place)
        await self._desk.spending.adopt(facts, self._desk.folder)
        self._desk.planning.adopt(facts)
        await self._duties.adopt()
        if facts.launch > 1 and await anyio.to_thread.run_sync(_cut_off, self._desk.folder):
            self._desk.notes.append(_GO_ON)
        self._desk.enter("idle")
        self._desk.record(
            "ready", driver=self._driver.name, launch=facts.launch, born=facts.began_ms
        )
        await self._pulse.beat()

    async def _work(self) -> None:
        began = False
        while self._ended is None:
            try:
                if not began:
                    await self._hooked(self._desk.hooks.started)
                    began = True
                given = await self._next_turn()
                if given is not None:
                    await self._take_turn(given)
            except (Conflict, NotFound) as error:
                self._ended = Ended("lost", error.message)
            except OverBudget as error:
                self._ended = _at_limit(error)
            except Refused as error:
                self._ended = Ended("stopped", error.message)
            except Unavailable as error:
                self._desk.record("trouble", text=str(error))
                await self._pause(self._pace.retry_s / 10)

    async def _next_turn(self) -> TurnInput | None:
        """What the next turn begins with; waits for something to begin one."""
        self._stirred = anyio.Event()
        mail = await self._sorted()
        await self._obey(mail)
        answer = await self._desk.planning.look()
        if answer is not None:
            self._desk.notes.append(answer)
        now = self._clock() / 1000
        if self._ended is None and not self._paused and now >= self._not_before:
            notes = self._desk.due_notes()
            due = bool(mail.urgent or notes) or await self._reports_are_due(mail)
            if not due:
                notes += await self._duties.notes()
            if due or notes:
                self._reports_since = None
                # Whoever came to rest while this was decided has reported: it is in this turn.
                mail = await self._sorted()
                return await self._input(mail.mail, notes)
            if self._duties.stalled:
                self._ended = Ended("finished", "nobody had anything left to do")
        if self._ended is None:
            await self._pause(self._wait_s(mail))
        return None

    async def _sorted(self) -> Triage:
        """The unread mail, sorted."""
        entries = await self._desk.unread()
        if not entries:
            return Triage((), (), urgent=False, reports=False)
        return triage(entries, await self._team.agents.config(), agent=self._name)

    async def _input(self, entries: tuple[Entry, ...], notes: list[str]) -> TurnInput:
        """The state of the team, why there is a turn, and the mail."""
        snapshot = await self._team.snapshot()
        mail = await self._desk.inject(entries)
        parts = [digest(snapshot, self._name), *self._desk.hooks.context(), *notes]
        if mail is not None:
            parts.append(mail.text)
        return TurnInput("\n\n".join(parts), mail.ids if mail else ())

    async def _reports_are_due(self, mail: Triage) -> bool:
        """Whether reports should begin a turn: when nobody else is about to send one."""
        if not mail.reports:
            return False
        now = self._clock() / 1000
        if self._reports_since is None:
            self._reports_since = now
        if now - self._reports_since >= self._pace.gather_s:
            return True
        return not await self._duties.others_at_work()

    def _wait_s(self, mail: Triage) -> float | None:
        """How long nothing is due, as far as time alone decides."""
        now = self._clock() / 1000
        # What is due meanwhile has to wait, and must not be looked at again and again.
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

    async def _pause(self, seconds: float | None) -> None:
        """Wait until something happens, at most so long."""
        with anyio.move_on_after(seconds):
            await self._stirred.wait()

    async def _obey(self, mail: Triage) -> None:
        """Act on orders. They are done with when they are obeyed; no model sees them."""
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
                self.stop("stopped", order.reason or f"{order.sender} said so")
            case "pause":
                self._paused = True
                self._interrupt("pause")
                self._desk.enter("waiting", f"paused by {order.sender}")
            case "resume":
                self._paused = False
                self._desk.enter("idle")
            case "cancel":
                self._interrupt("cancel")

    def _interrupt(self, why: Interruption) -> None:
        if self._turn is not None:
            self._interruption = why
            self._turn.cancel()
        self._stir()

    def _cut_turn(self) -> None:
        if self._turn is not None:
            self._turn.cancel()

    async def _begun(self) -> Turn:
        """Begin a turn; before that, give a task back of which nothing may be used any more."""
        while True:
            try:
                return await self._desk.spending.begin_turn()
            except OverBudget as error:
                if error.reached.scope != "task":
                    raise
                await self._duties.hand_in(error)

    async def _take_turn(self, given: TurnInput) -> None:
        desk = self._desk
        turn = await self._begun()
        given = TurnInput("\n\n".join([given.text, *self._duties.asides()]), given.ids)
        desk.wrote_to.clear()
        desk.enter("working")
        desk.record("turn", number=turn.agent.used.turns, text=given.text, ids=list(given.ids))
        self._duties.turn_begins()
        text, failure = await self._drive(given, turn.seconds_left)
        text = desk.redacted(text)
        failure = None if failure is None else desk.redacted(failure)
        interrupted, self._interruption = self._interruption, None
        if desk.spending.over is not None and interrupted is None:
            interrupted = "task" if desk.spending.over.reached.scope == "task" else "limit"
        desk.record("end", text=text, failure=failure, interrupted=interrupted)
        if failure is None and interrupted is None:
            # A turn that succeeded is a request that succeeded.
            await desk.seen(given.ids)
        desk.turn_over()
        await self._settle_turn(text, failure, interrupted)

    async def _drive(self, given: TurnInput, left_s: float | None) -> tuple[str, str | None]:
        """The final text, and why the turn failed if it did."""
        # A moment later than the limit, so that it is over for the team's clock too.
        most_s = min(self._pace.turn_s, self._pace.turn_s if left_s is None else left_s + 0.05)
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + most_s) as scope:
                self._turn = scope
                if self._stirred.is_set():
                    # An order that came since the mail was sorted is in nobody's hands yet.
                    await self._obey(await self._sorted())
                if self._ended is not None:
                    # So is a signal: there was no turn yet that it could have ended.
                    self._interrupt("stop")
                result = await self._driver.turn(given, self._desk)
                return result.text, None
        except TurnFailed as error:
            if error.for_good:
                self._ended = self._ended or Ended("failed", str(error))
            return error.partial, str(error)
        except OverBudget:
            return "", None
        except BullpenError as error:
            return "", str(error)
        except Exception as error:
            return "", f"{type(error).__name__}: {error}"
        finally:
            self._turn = None
        if self._interruption is not None or await self._is_over_budget():
            return "", None
        return "", f"The turn took longer than {most_s:.0f} s and was ended."

    async def _is_over_budget(self) -> bool:
        """Whether a limit is why the turn was cut short, one on time for example."""
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
            await self._duties.hand_in(over)
        elif over is not None:
            self._ended = self._ended or _at_limit(over)
        if desk.leaving is not None:
            self._ended = self._ended or Ended("finished", desk.leaving)
        elif self._duties.until_done and await self._team.agents.result() is not None:
            self._ended = self._ended or Ended("finished", "the goal is reached")
        if failure is None:
            self._failures = 0
            self._duties.turn_ended(interrupted=interrupted is not None)
            if interrupted is None and self._ended is None:
                await self._may_rest(text)
            if not self._paused:
                self._rest()
            return
        self._failures += 1
        if self._failures > self._pace.retries_max:
            self._ended = self._ended or Ended("failed", failure)
            return
        # Whatever began the turn, a note or a task, must not be lost with it.
        desk.notes.append(f"Your last turn broke off ({failure}). Go on where you were.")
        delay = self._pace.retry_s * 2 ** (self._failures - 1)
        self._not_before = self._clock() / 1000 + delay
        desk.enter("waiting", f"trying again in {delay:.0f} s: {failure}")

    async def _may_rest(self, text: str) -> None:
        """Ask the hooks. Why they want it to go on begins another turn."""
        desk = self._desk
        waits = bool(desk.planning.waits_for or desk.wrote_to or desk.timers)
        why = await self._hooked(lambda: desk.hooks.turn_over(text, waiting=waits))
        if why is not None:
            desk.notes.append(why)

    async def _hooked(self, run: Callable[[], Awaitable[T]]) -> T | None:
        """Run hooks between turns. Orders are obeyed meanwhile, as in a turn; None if one came."""
        try:
            with anyio.CancelScope() as scope:
                self._turn = scope
                return await run()
        finally:
            self._turn = None
        self._interruption = None
        return None

    def _rest(self) -> None:
        """Show that it rests, or for whose answer to its plan it waits."""
        asked = self._desk.planning.waits_for
        if asked is not None:
            self._desk.enter("waiting", f"approval of its plan ({asked})")
        else:
            self._desk.enter("idle", self._duties.owes())

    async def _listen(self) -> None:
        """Stir when anything about the team changes; obey orders also while a turn runs."""
        while True:
            try:
                async with aclosing(self._team.changes(agent=self._name)) as changes:
                    async for _ in changes:
                        if self._turn is not None:
                            await self._obey(await self._sorted())
                        self._desk.stir_waiting()
                        self._stir()
            except NotFound:
                self.stop("stopped", "the team was deleted")
                return
            except BullpenError as error:
                self._desk.record("trouble", text=str(error))
                await anyio.sleep(self._pace.retry_s / 10)

    async def _live(self) -> None:
        """Show that it lives, and keep what it holds, until it may not any more."""
        try:
            await self._pulse.go_on(self._duties.renew, self._chair.renew)
        except NotFound:
            self.stop("stopped", "the team was deleted")
        except Conflict as error:
            self.stop("lost", error.message)

    async def _conclude(self, ended: Ended) -> Ended:
        """Record the end: the last heartbeat, the tasks given back, the lead told."""
        desk = self._desk
        if ended.cause is not None:
            ended = replace(ended, cause=desk.redacted(ended.cause))
        with anyio.move_on_after(30, shield=True):
            try:
                await end_jobs(desk)
                await self._driver.aclose()
                await self._chair.leave()
                ending = await self._team.agents.end(
                    self._name,
                    ended.end,
                    by=self._name,
                    nonce=self._nonce,
                    cause=ended.cause,
                    reached=ended.reached,
                )
                if ending is not None and ending.agent.end is not None:
                    # Whoever told it to end has said before how that is to be called.
                    ended = Ended(ending.agent.end, ending.agent.cause)
                desk.enter("failed" if ended.end in ("failed", "lost") else "stopped", ended.cause)
                await self._pulse.beat()
                await desk.hooks.ended(ended.cause)
            except (NotFound, Refused):
                # The team is gone, or this launch is nobody in it any more: nobody can be told.
                pass
        desk.record("ended", end=ended.end, cause=ended.cause)
        return ended

    def _stir(self) -> None:
        self._stirred.set()


def _at_limit(over: OverBudget) -> Ended:
    """The end of an agent at a limit: its work stays as it is."""
    return Ended("stopped", f"{over.message} {over.remedy}", over.reached)


def _cut_off(folder: Path) -> bool:
    """Whether the last turn on record was not ended, or was ended by force."""
    last: dict[str, Any] = {}
    for row in rows(folder / TRANSCRIPT):
        if row.get("kind") in ("turn", "end"):
            last = row
    return last.get("kind") == "turn" or last.get("interrupted") in ("stop", "limit")
