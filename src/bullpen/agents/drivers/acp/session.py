"""A driven program with its open conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio

from bullpen.agents.drivers.acp.events import Asked, Event, Opened, ProgramError, PromptEnd
from bullpen.agents.drivers.acp.presets import Preset
from bullpen.agents.drivers.acp.process import Program

if TYPE_CHECKING:
    from bullpen.agents.drivers.acp.turn import Turn
    from bullpen.agents.drivers.acp.wire import Wire

ANSWER_S = 20.0
"""How long a program may take to answer what it does not ask its model about."""


_QUIET_S = 0.5
_REPLAY_MAX_S = 5.0


class Session:
    """What a turn talks to. Between turns nobody listens, and nothing is permitted."""

    def __init__(self, preset: Preset, program: Program) -> None:
        self.preset = preset
        self.program = program
        self.turn: Turn | None = None
        self.id = ""
        self.mode: str | None = None
        # How many tokens the conversation had when the program said so last.
        self.context = 0
        self._wire: Wire | None = None
        self._over = False
        self._heard_at = 0.0

    def connect(self, wire: Wire) -> None:
        """Talk over this from now on."""
        self._wire = wire

    def open(self, opened: Opened) -> None:
        """The conversation is open. What was said in it before was heard by nobody."""
        self.id = opened.session
        self.mode = None if opened.mode is None else opened.mode.value

    @property
    def wire(self) -> Wire:
        """The connection to the program."""
        if self._wire is None:
            raise RuntimeError("The program is not connected.")
        return self._wire

    @property
    def alive(self) -> bool:
        """Whether the program can take another turn."""
        return not self._over and self.program.runs

    async def enter(self, mode: str | None) -> None:
        """Put the program into a mode of its own, if it is not in it. Raises ProgramError."""
        if mode is not None and mode != self.mode:
            try:
                with anyio.fail_after(ANSWER_S):
                    await self.wire.set_mode(self.id, mode)
            except TimeoutError as error:
                raise ProgramError(f"it did not enter its mode {mode}") from error
            self.mode = mode

    async def quiet(self) -> None:
        """Wait until nothing more is replayed: some programs answer before they are through."""
        with anyio.move_on_after(_REPLAY_MAX_S):
            # There is no event to wait for: what it waits for is that nothing happens.
            while (left := self._heard_at + _QUIET_S - anyio.current_time()) > 0:  # noqa: ASYNC110
                await anyio.sleep(left)

    def begin(self, text: str) -> asyncio.Task[PromptEnd]:
        """Give the program a prompt. Whoever stops waiting for its end has to break it off."""
        return asyncio.create_task(self.wire.prompt(self.id, text))

    async def steer(self, text: str, run: str | None) -> bool:
        """Hand a text into the turn that goes on; false if the program did not take it."""
        try:
            with anyio.fail_after(ANSWER_S):
                if self.preset.steering == "steering":
                    return await self.wire.steer(self.id, text)
                if self.preset.steering == "goose" and run is not None:
                    return await self.wire.steer_run(self.id, run, text)
        except (ProgramError, TimeoutError) as error:
            self.program.note(f"It did not take a message in mid-turn: {error}")
        return False

    async def aclose(self, grace_s: float) -> None:
        """End the program and all that it started."""
        if self._over:
            return
        self._over = True
        try:
            await self.program.end(grace_s)
        finally:
            if self._wire is not None:
                await self._wire.aclose()

    def heard(self, session: str, event: Event) -> None:
        """Pass it on to the turn that goes on. Replays and late news are nobody's."""
        self._heard_at = anyio.current_time()
        if self.turn is not None and session == self.id:
            self.turn.heard(event)

    async def asked(self, session: str, asked: Asked) -> str | None:
        """Ask the turn that goes on; outside of a turn nothing is permitted."""
        if self.turn is None or session != self.id:
            return None
        return await self.turn.asked(asked)

    async def drained(self, session: str) -> Sequence[str]:
        """The mail of the turn that goes on."""
        if self.turn is None or session != self.id:
            return ()
        return await self.turn.drained()

    def garbage(self, line: str) -> None:
        """Keep what was no message among its errors: it explains what happens next."""
        self.program.note(line)
