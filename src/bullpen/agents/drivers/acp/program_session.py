"""A running program with its open conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

import anyio

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.drivers.acp import program_events as events
from bullpen.agents.drivers.acp.connection import AcpConnection
from bullpen.agents.drivers.acp.memory import AcpMemory
from bullpen.agents.drivers.acp.outside_work import LATE, REPLAYED, OutsideWork
from bullpen.agents.drivers.acp.program_process import ProgramProcess
from bullpen.agents.system.vendors.acp_presets import Preset
from bullpen.errors import BullpenError

ANSWER_S = 20.0
"""How long a program may take to answer requests that need no model."""

_LOOK_S = 0.1
_QUIET_S = 0.5
_REPLAY_MAX_S = 5.0
# A program that prints nothing else must not keep the runner busy with its log.
_GARBAGE_LINES_MAX = 1_000
# How long after the end of a turn its last words may come. A model takes longer to answer again.
_LATE_S = 0.25


class TurnListener(Protocol):
    """The running turn, as its session needs it."""

    def heard(self, event: events.Event) -> None:
        """Take an event from the program."""

    async def asked(self, asked: events.PermissionAsked) -> str | None:
        """Decide about a call. None if the turn ends before there is a decision."""

    async def drained(self) -> tuple[str, ...]:
        """New mail."""


class AcpSession:
    """The session that turns use. A program that works while there is no turn is ended."""

    def __init__(
        self, preset: Preset, program: ProgramProcess, known: AcpMemory, desk: Desk
    ) -> None:
        self.preset = preset
        self.program = program
        self.turn: TurnListener | None = None
        self.id = ""
        self.mode: str | None = None
        # The tokens of the conversation, as last reported.
        self.context = 0
        # Whether it still has the briefing of the last turn, for certain.
        self.knows_team = False
        # When the program last said anything.
        self.heard_at = 0.0
        self._memory = known
        self._desk = desk
        self._over = False
        self._outside = OutsideWork(preset, cost_usd=known.cost_usd, context=0)
        # Calls of earlier turns that have not ended, and updates that are excused until then.
        self._running: frozenset[str] = frozenset()
        self._excused: tuple[type, ...] = ()
        self._excused_until = 0.0
        self._ending: asyncio.Task[None] | None = None
        self._garbage_left = _GARBAGE_LINES_MAX
        self.wire = AcpConnection(program.reader, program.writer, self)

    def open(self, opened: events.Opened, *, loaded: bool) -> None:
        """Note that the conversation is open. Replayed messages were dropped."""
        self.id = opened.session
        self.mode = None if opened.mode is None else opened.mode.value
        self._watch(REPLAYED if loaded else (), _REPLAY_MAX_S)

    def leave_turn(self, uses: Mapping[str, events.ToolUse], late: Sequence[events.Event]) -> None:
        """End the turn. `late` is what the program has begun since its last prompt ended."""
        self.turn = None
        self._running = frozenset(
            key for key in {*self._running, *uses} if key not in uses or not uses[key].over
        )
        self._watch(LATE, _LATE_S)
        for event in late:
            self._heard_outside(event)

    def _watch(self, excused: tuple[type, ...], seconds: float) -> None:
        """Watch for work from now on: there is no turn."""
        if self._ending is not None:
            return
        self._excused, self._excused_until = excused, anyio.current_time() + seconds
        self._outside = OutsideWork(
            self.preset, cost_usd=self._memory.cost_usd, context=self.context
        )

    @property
    def worked_outside(self) -> bool:
        """Whether the program worked without a turn, so that it is being ended or has been."""
        return self._ending is not None

    @property
    def alive(self) -> bool:
        """Whether the program can take another turn."""
        return not self._over and self._ending is None and self.program.runs

    async def enter(self, mode: str | None) -> None:
        """Put the program into one of its modes, if it is not in it. Raises ProgramError."""
        if mode is not None and mode != self.mode:
            try:
                with anyio.fail_after(ANSWER_S):
                    await self.wire.set_mode(self.id, mode)
            except TimeoutError as error:
                raise events.ProgramError(f"it did not enter its mode {mode}") from error
            self.mode = mode

    async def quiet(self) -> None:
        """Wait until the replay is over: some programs answer before it is."""
        with anyio.move_on_after(_REPLAY_MAX_S):
            # There is no event to wait for, only silence.
            while (left := self.heard_at + _QUIET_S - anyio.current_time()) > 0:  # noqa: ASYNC110
                await anyio.sleep(left)

    async def wait_for(self, event: asyncio.Event) -> None:
        """Wait for an event. Raises ProgramError if the program ends before."""
        while not event.is_set():
            if not self.alive:
                raise events.ProgramError("it has ended", gone=True)
            # The end of the program is no event.
            with anyio.move_on_after(_LOOK_S):
                await event.wait()

    def begin(self, text: str) -> asyncio.Task[events.PromptEnd]:
        """Send a prompt. A caller that stops waiting for its end has to cancel it."""
        prompt = asyncio.create_task(self.wire.prompt(self.id, text))
        prompt.add_done_callback(lambda _: self._hear())
        return prompt

    async def steer(self, text: str, run: str | None) -> bool:
        """Deliver a text to the running turn; false if the program did not accept it.

        A program that is stopped, or gets no time on a busy machine, reads the text later. So the
        time to answer runs only from when the program is heard again.
        """
        accepted = False
        with anyio.CancelScope() as answering:
            giving_up = asyncio.create_task(self._unanswered(anyio.current_time(), answering))
            try:
                if self.preset.steering == "steering":
                    accepted = await self.wire.steer(self.id, text)
                elif self.preset.steering == "goose" and run is not None:
                    accepted = await self.wire.steer_run(self.id, run, text)
            except events.ProgramError as error:
                self.program.note(f"It did not accept a message during the turn: {error}")
            finally:
                giving_up.cancel()
        if answering.cancelled_caught:
            self.program.note("It did not answer whether it accepted a message during the turn.")
        return accepted

    async def _unanswered(self, since: float, answering: anyio.CancelScope) -> None:
        """Stop waiting for an answer when the program has gone on without giving it."""
        while self.heard_at <= since:  # noqa: ASYNC110 - many things are heard; none is an event
            await anyio.sleep(_LOOK_S)
        await anyio.sleep(ANSWER_S)
        answering.cancel()

    async def aclose(self, grace_s: float) -> None:
        """Stop the program and everything it started."""
        if self._ending is not None and self._ending is not asyncio.current_task():
            await asyncio.wait({self._ending})
        if self._over:
            return
        self._over = True
        try:
            await self.program.end(grace_s)
        finally:
            await self.wire.aclose()

    def _hear(self) -> None:
        self.heard_at = asyncio.get_running_loop().time()

    def heard(self, session: str, event: events.Event) -> None:
        """Pass an event to the running turn. Without a turn, see whether the program works."""
        self._hear()
        if self.turn is None:
            self._heard_outside(event)
        elif session == self.id:
            self.turn.heard(event)

    async def asked(self, session: str, asked: events.PermissionAsked) -> str | None:
        """Ask the running turn; outside of a turn nothing is permitted."""
        self._hear()
        if self.turn is None:
            self._outside.add_question(asked.use)
            self._end_outside_work()
        elif session == self.id:
            return await self.turn.asked(asked)
        return None

    def _heard_outside(self, event: events.Event) -> None:
        if not self.id and not isinstance(event, events.WorkBegan):
            # It replays the conversation that it is loading.
            return
        if isinstance(event, events.ModeTold):
            # The next turn switches it back.
            self.mode = event.mode
        excused = self._excused if anyio.current_time() < self._excused_until else ()
        self._outside.add(event, running=self._running, excused=excused)
        if self._outside.found:
            self._end_outside_work()

    def _end_outside_work(self) -> None:
        if self._ending is None and not self._over:
            self._ending = asyncio.create_task(self._stop_and_book())

    async def _stop_and_book(self) -> None:
        """Stop a program that works without a turn, and book what it used."""
        desk, title = self._desk, self.preset.title
        try:
            await self.aclose(0.0)
        except BullpenError as error:
            desk.record("trouble", text=f"{title} could not be stopped: {error}")
        used, is_estimate = self._outside.usage()
        self._memory.cost_usd = self._outside.cost_usd
        about = "about " if is_estimate else ""
        desk.record(
            "trouble",
            text=f"{title} worked although no turn was running, and was stopped. It used"
            f" {about}{used.tokens} tokens in {about}{used.requests} model requests."
            f" What it did: {self._outside.words()}",
            estimated=is_estimate,
        )
        if not self.preset.capabilities.usage:
            return
        desk.used(used)
        try:
            await desk.may_spend()
        except BullpenError as error:
            # The next turn is refused for the same reason.
            desk.record("trouble", text=str(error))

    async def drained(self, session: str) -> Sequence[str]:
        """The mail of the running turn."""
        if self.turn is None or session != self.id:
            return ()
        return await self.turn.drained()

    def garbage(self, line: str) -> None:
        """Log a line that is not a message with the errors: it may explain a later failure."""
        self._garbage_left -= 1
        if self._garbage_left >= 0:
            self.program.note(line)
