"""The ACP driver: an agent whose turns another program takes, one that speaks the protocol."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from bullpen.agents.drivers.acp import memory
from bullpen.agents.drivers.acp.events import Hello, Opened, ProgramError, ToolServer
from bullpen.agents.drivers.acp.instructions import introduction
from bullpen.agents.drivers.acp.memory import Memory
from bullpen.agents.drivers.acp.own_rules import unasked
from bullpen.agents.drivers.acp.presets import GENERIC, PRESETS, Preset
from bullpen.agents.drivers.acp.process import LOG, Program
from bullpen.agents.drivers.acp.session import Session
from bullpen.agents.drivers.base import (
    Capabilities,
    Desk,
    TurnFailed,
    TurnInput,
    TurnResult,
)
from bullpen.agents.drivers.programs import check_libraries, command_of
from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentSpec

if TYPE_CHECKING:
    from bullpen.agents.tools.door import Door

_LOST = (
    "Your earlier conversation could not be taken up again, so you do not remember it. The state of"
    " the team below is true."
)


@dataclass(frozen=True, slots=True)
class Pace:
    """The times a driven program has, in seconds."""

    # To answer hello and open the conversation.
    start_s: float = 80.0
    # To start the server of the team's tools, once the conversation is open.
    server_s: float = 30.0
    # To end its turn when it is told to, before it is killed.
    cancel_s: float = 1.2


def make(spec: AgentSpec, env: Mapping[str, str]) -> Acp:
    """The driver of a spec: one of the presets, or the command in its options.

    Raises:
        Invalid: the command is missing or is none.
        Unavailable: the protocol's library is not installed.
    """
    command = command_of(spec)
    check_libraries(spec.driver)
    return Acp(replace(PRESETS.get(spec.driver, GENERIC), command=command), spec)


class Acp:
    """A program of another vendor, driven over its stdin and stdout."""

    def __init__(self, preset: Preset, spec: AgentSpec, *, pace: Pace = Pace()) -> None:  # noqa: B008 - frozen
        self._preset = preset
        self._spec = spec
        self._pace = pace
        self._memory = Memory()
        self._door: Door | None = None
        self._session: Session | None = None
        self._lost = False

    @property
    def name(self) -> str:
        """What people call it."""
        return self._preset.name

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        return self._preset.capabilities

    async def start(self, desk: Desk) -> None:
        """Start the program, and open its conversation or take it up again.

        Raises:
            Unavailable: it is not installed, does not answer, or does not do as it is asked.
        """
        from bullpen.agents.tools.door import Door
        from bullpen.agents.tools.serve import tool_server

        await self._refuse_unasked(desk)
        if self.capabilities.resume:
            self._memory, damage = await to_thread.run_sync(memory.load, desk.folder)
            if damage is not None:
                desk.record("trouble", text=damage)
        self._door = Door(tool_server(desk))
        await self._door.open()
        try:
            await self._open(desk)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.aclose()
            raise

    def remembers(self, message_id: str) -> bool:
        """Whether a message is in the program's conversation."""
        return message_id in self._memory.seen

    async def turn(self, given: TurnInput, desk: Desk) -> TurnResult:
        """Have the program take a turn; it is started again if it has ended since the last."""
        from bullpen.agents.drivers.acp.turn import Turn

        await desk.may_spend()
        try:
            session = await self._ready(desk)
            await session.enter(self._mode(desk))
        except (Unavailable, ProgramError) as error:
            raise TurnFailed(f"{self._preset.title} cannot take the turn: {error}") from error
        text = self._with_introduction(given.text, desk)
        turn = Turn(session, self._memory, desk, cancel_s=self._pace.cancel_s)
        try:
            return await turn.take(TurnInput(text, given.ids))
        finally:
            if turn.answered:
                # Before that, nobody has read what the turn began with.
                self._memory.introduced, self._lost = True, False
            if self.capabilities.resume:
                with anyio.CancelScope(shield=True), suppress(Unavailable):
                    await to_thread.run_sync(memory.save, desk.folder, self._memory)

    async def aclose(self) -> None:
        """End the program and all that it started, and close the door to the team's tools."""
        session, self._session = self._session, None
        door, self._door = self._door, None
        try:
            if session is not None:
                await session.aclose(self._preset.exit_s)
        finally:
            if door is not None:
                await door.aclose()

    async def _refuse_unasked(self, desk: Desk) -> None:
        """Refuse a program whose user lets it do things without asking: our gate would be open."""
        if desk.mode == "bypassPermissions":
            return
        found = await to_thread.run_sync(unasked, self.name, desk.env)
        if found:
            raise Unavailable(
                f"{self._preset.title}'s own settings let it do this without asking, so that the"
                f" mode {desk.mode} could not be kept: {', '.join(found[:5])}.",
                remedy="Take it out there, give the agent a home of its own, or spawn it with"
                " --mode bypassPermissions.",
            )

    async def _ready(self, desk: Desk) -> Session:
        """The session, in a new process if the last one has ended."""
        session = self._session
        if session is not None and session.alive:
            return session
        if session is not None:
            self._session = None
            await session.aclose(0.0)
            desk.record("note", text=f"{self._preset.title} has ended and is started again.")
        return await self._open(desk)

    async def _open(self, desk: Desk) -> Session:
        """Start the program and open its conversation, before its time is over."""
        from bullpen.agents.drivers.acp.wire import LINE_BYTES_MAX, Wire
        from bullpen.agents.tools.serve import SERVER_NAME

        await self._let_the_minute_pass()
        known = self._memory.session
        door = self._opened_door()
        server = ToolServer(SERVER_NAME, tuple(door.command), door.env)
        try:
            program = await Program.start(
                self._preset.command,
                env={**desk.env, **dict(self._preset.fixed_env)},
                cwd=self._spec.cwd,
                log=desk.folder / LOG,
                redact=desk.redacted,
                line_bytes_max=LINE_BYTES_MAX,
            )
        except Unavailable as error:
            how = f"Install it: {self._preset.install}." if self._preset.install else ""
            raise Unavailable(error.message, remedy=how or "Check its command.") from error
        session = self._session = Session(self._preset, program)
        session.connect(Wire(program.reader, program.writer, session))
        step, limit_s = "answer hello", self._pace.start_s
        try:
            with anyio.fail_after(limit_s):
                hello = await session.wire.initialize()
                step = "open a conversation"
                opened = await self._conversation(session, hello, server, desk)
                session.open(opened)
                step = "set its mode and model"
                await session.enter(self._mode(desk))
                await self._choose_model(session, opened)
            step, limit_s = "start the server of the team's tools", self._pace.server_s
            if not (self._preset.late_server and opened.session == known):
                with anyio.fail_after(limit_s):
                    await door.visited.wait()
        except TimeoutError as error:
            step = f"{step} within {limit_s:.0f} s"
            raise await self._not_started(session, step, error) from error
        except ProgramError as error:
            raise await self._not_started(session, step, error) from error
        desk.record(
            "note", text=f"{hello.program or self._preset.title} is ready, session {session.id}."
        )
        return session

    async def _not_started(
        self, session: Session, step: str, error: ProgramError | TimeoutError
    ) -> Unavailable:
        program, title = session.program, self._preset.title
        if isinstance(error, TimeoutError):
            why = f"{title} did not {step}"
        elif error.gone:
            await program.settled()
            why = f"{title} ended before it could {step}"
        else:
            why = f"{title} could not {step}: {error.words.rstrip('.')}"
        return Unavailable(
            f"{why}. {program.last_words()}",
            remedy=f"Start it by hand to see what it wants: {shlex.join(self._preset.command)}.",
        )

    async def _conversation(
        self, session: Session, hello: Hello, server: ToolServer, desk: Desk
    ) -> Opened:
        """Take the conversation up again if there was one, or begin a new one."""
        wire = session.wire
        system = self._introduction(desk) if hello.takes_system_text else None
        known = self._memory.session
        if known is not None and hello.loads:
            try:
                loaded = await wire.load_session(known, self._spec.cwd, server, system)
                await session.quiet()
                await self._keep(desk)
                return loaded
            except ProgramError as error:
                if error.gone:
                    raise
                desk.record(
                    "trouble", text=f"The conversation {known} cannot be loaded: {error.words}"
                )
        self._lost = known is not None
        self._memory.forget()
        opened = await wire.new_session(self._spec.cwd, server, system)
        self._memory.session = opened.session
        self._memory.introduced = system is not None
        await self._keep(desk)
        return opened

    async def _let_the_minute_pass(self) -> None:
        """Wait where the program would lose a conversation that was opened just now."""
        now = time.time()
        if self._preset.loads_next_minute and now // 60 == self._memory.opened_at // 60:
            await anyio.sleep(60.5 - now % 60)

    async def _keep(self, desk: Desk) -> None:
        """Remember which conversation was opened, and when."""
        self._memory.opened_at = time.time()
        if self.capabilities.resume:
            await to_thread.run_sync(memory.save, desk.folder, self._memory)

    def _opened_door(self) -> Door:
        if self._door is None:
            raise Unavailable("The driver was not started.", remedy="Start it before its turns.")
        self._door.visited.clear()
        return self._door

    async def _choose_model(self, session: Session, opened: Opened) -> None:
        """Have the program use the model that was asked for, or none at all."""
        asked, choice, title = self._spec.model, opened.model, self._preset.title
        if asked is None or (choice is not None and choice.value == asked):
            return
        if choice is None:
            raise Unavailable(
                f"The agent was to use the model {asked}, but {title} offers no choice of models.",
                remedy="Choose the model in the program's own settings, and ask for none here.",
            )
        if asked not in choice.offered:
            raise Unavailable(
                f"The agent was to use the model {asked}, but {title} uses {choice.value} and"
                f" offers: {', '.join(choice.offered)}.",
                remedy="Ask for one of these.",
            )
        now = await session.wire.set_model(session.id, choice.option, asked)
        if now != asked:
            raise Unavailable(
                f"The agent was to use the model {asked}, but {title} stayed with {now}.",
                remedy="Ask for that model, or look at the program's own settings.",
            )

    def _mode(self, desk: Desk) -> str | None:
        """The mode of its own in which the program has to be now."""
        if desk.mode == "plan" and self._preset.plan_mode is not None:
            return self._preset.plan_mode
        return self._preset.asking_mode

    def _with_introduction(self, text: str, desk: Desk) -> str:
        """The text of a turn; before it, in a new conversation, who the program is."""
        before = [_LOST] if self._lost else []
        if not self._memory.introduced:
            before.insert(0, self._introduction(desk))
        return "\n\n".join([*before, text])

    def _introduction(self, desk: Desk) -> str:
        from bullpen.agents.tools.serve import SERVER_NAME

        return introduction(desk.agent, desk.team.name, desk.is_lead, self._spec, SERVER_NAME)
