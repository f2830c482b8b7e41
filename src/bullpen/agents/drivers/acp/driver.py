"""The ACP driver: another program that speaks the protocol takes the agent's turns."""

from __future__ import annotations

import shlex
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace

import anyio
from anyio import to_thread

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import Capabilities, TurnFailed, TurnInput, TurnResult
from bullpen.agents.drivers.acp import memory
from bullpen.agents.drivers.acp.connection import LINE_BYTES_MAX
from bullpen.agents.drivers.acp.forced_settings import forced_settings
from bullpen.agents.drivers.acp.instructions import introduction
from bullpen.agents.drivers.acp.memory import AcpMemory
from bullpen.agents.drivers.acp.own_rules import unasked
from bullpen.agents.drivers.acp.program_events import Hello, Opened, ProgramError, ToolServer
from bullpen.agents.drivers.acp.program_process import LOG, ProgramProcess
from bullpen.agents.drivers.acp.program_session import AcpSession
from bullpen.agents.drivers.acp.silence import SilenceLimits
from bullpen.agents.drivers.acp.turn import AcpTurn
from bullpen.agents.drivers.outside_turns import OutsideTurns
from bullpen.agents.drivers.tool_server.mcp_server import SERVER_NAME, tool_server
from bullpen.agents.drivers.tool_server.tool_socket import ToolSocket
from bullpen.agents.system.program_sandbox import ProgramSandbox
from bullpen.agents.system.vendors.acp_presets import GENERIC, PRESETS, Preset
from bullpen.agents.system.vendors.programs import command_of, refuse_unapproved
from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentSpec

_LOST = (
    "Your earlier conversation could not be resumed, so you do not remember it. Rely on the state"
    " of the team below."
)


@dataclass(frozen=True, slots=True)
class AcpPace:
    """The time limits of a program, in seconds."""

    # To initialize and open the conversation.
    start_s: float = 80.0
    # To start the team's tool server, once the conversation is open.
    server_s: float = 30.0
    # The same for a program that may start it only with the first prompt.
    maybe_late_s: float = 5.0
    # To end its turn after a cancel, before it is killed.
    cancel_s: float = 1.2
    silence: SilenceLimits = field(default_factory=SilenceLimits)


def make(spec: AgentSpec) -> Acp:
    """Create the driver of a spec: a preset, or the command in its options. Raises Invalid."""
    preset = PRESETS.get(spec.driver, GENERIC)
    return Acp(replace(preset, command=command_of(spec)), spec)


class Acp:
    """Another vendor's program, controlled over its stdin and stdout."""

    def __init__(self, preset: Preset, spec: AgentSpec, *, pace: AcpPace = AcpPace()) -> None:  # noqa: B008 - frozen
        self._preset = preset
        self._spec = spec
        self._pace = pace
        self._memory = AcpMemory()
        self._door: ToolSocket | None = None
        self._session: AcpSession | None = None
        self._lost = False
        self._outside = OutsideTurns(preset.title)

    @property
    def name(self) -> str:
        """What people call it."""
        return self._preset.name

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        return self._preset.capabilities

    async def start(self, desk: Desk) -> None:
        """Start the program and open or resume its conversation. Raises Unavailable."""
        if self.capabilities.resume:
            self._memory, damage = await to_thread.run_sync(memory.load, desk.folder)
            if damage is not None:
                desk.record("trouble", text=damage)
        self._door = ToolSocket(tool_server(desk, in_turn=self._in_turn))
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
        """Let the program take a turn; restart it first if it has ended."""
        await self._settle_outside_work()
        await desk.may_spend()
        try:
            session = await self._ready(desk)
            await session.enter(self._mode(desk))
        except (Unavailable, ProgramError) as error:
            raise TurnFailed(f"{self._preset.title} cannot take the turn: {error}") from error
        told = given.text
        if not given.whole and not session.knows_team:
            # Another process, or it shortened its conversation, or does not say whether it did.
            told = f"{await desk.briefing()}\n\n{told}"
        session.knows_team = False
        text = self._with_introduction(told, desk)
        pace = self._pace
        turn = AcpTurn(session, self._memory, desk, cancel_s=pace.cancel_s, silence=pace.silence)
        try:
            result = await turn.take(TurnInput(text, given.ids))
            await self._expect_tools()
            return result
        finally:
            if turn.answered:
                # Until then, the model has not read the text of the turn.
                self._memory.introduced, self._lost = True, False
            if self.capabilities.resume:
                with anyio.CancelScope(shield=True), suppress(Unavailable):
                    await to_thread.run_sync(memory.save, desk.folder, self._memory)

    def _in_turn(self) -> bool:
        return self._session is not None and self._session.turn is not None

    async def _settle_outside_work(self) -> None:
        """Wait until a program that worked after its turn is stopped and its usage is booked."""
        session = self._session
        if session is None:
            return
        if session.alive:
            self._outside.none()
            return
        await session.aclose(0.0)
        if session.worked_outside:
            self._session = None
            self._outside.another()

    async def _expect_tools(self) -> None:
        """Fail a turn that the program took without the team's tools."""
        door = self._door
        if door is None:
            return
        with anyio.move_on_after(self._pace.server_s):
            await door.visited.wait()
        if not door.visited.is_set():
            raise TurnFailed(
                f"{self._preset.title} took its turn without the team's tools: it did not start the"
                " MCP server that it was given.",
                remedy="Check that the program starts MCP servers of its client over stdio.",
            )

    async def aclose(self) -> None:
        """Stop the program and everything it started, and close the tool socket."""
        session, self._session = self._session, None
        door, self._door = self._door, None
        try:
            if session is not None:
                await session.aclose(self._preset.exit_s)
        finally:
            if door is not None:
                await door.aclose()

    async def _refuse_unasked(self, desk: Desk) -> None:
        """Refuse a program whose own settings, or a repository's, allow actions without asking."""
        await to_thread.run_sync(refuse_unapproved, self._spec, self._preset.title)
        if desk.mode == "bypassPermissions":
            return
        found = await to_thread.run_sync(unasked, self.name, desk.env)
        if found:
            raise Unavailable(
                f"The mode {desk.mode} cannot be enforced: {self._preset.title}'s settings allow"
                f" these actions without asking: {', '.join(found[:5])}.",
                remedy="Remove them from those settings, give the agent its own home, or spawn it"
                " with --mode bypassPermissions.",
            )

    async def _ready(self, desk: Desk) -> AcpSession:
        """The session, in a new process if the last one ended."""
        session = self._session
        if session is not None and session.alive:
            return session
        if session is not None:
            self._session = None
            await session.aclose(0.0)
            desk.record("note", text=f"{self._preset.title} has ended; restarting it.")
        return await self._open(desk)

    async def _open(self, desk: Desk) -> AcpSession:
        """Start the program and open its conversation within the time limits."""
        await self._refuse_unasked(desk)
        await self._let_the_minute_pass()
        known = self._memory.session
        door = self._opened_door()
        server = ToolServer(SERVER_NAME, tuple(door.command), door.env)
        try:
            command, forced = await to_thread.run_sync(
                forced_settings, self._preset, desk.folder, server
            )
            program = await ProgramProcess.start(
                command,
                env={**desk.env, **forced},
                cwd=self._spec.cwd,
                log=desk.folder / LOG,
                redact=desk.redacted,
                line_bytes_max=LINE_BYTES_MAX,
                sandbox=self._sandbox(desk, door),
            )
        except Unavailable as error:
            how = f"Install it: {self._preset.install}." if self._preset.install else ""
            raise Unavailable(
                error.message, remedy=error.remedy or how or "Check its command."
            ) from error
        session = self._session = AcpSession(self._preset, program, self._memory, desk)
        step, limit_s = "initialize", self._pace.start_s
        try:
            with anyio.fail_after(limit_s):
                hello = await session.wire.initialize()
                step = "open a conversation"
                opened = await self._conversation(session, hello, server, desk)
                session.open(opened, loaded=opened.session == known)
                step = "set its mode and model"
                await session.enter(self._mode(desk))
                await self._choose_model(session, opened)
            step, limit_s = "start the team's tool server", self._pace.server_s
            if self._preset.late_server is None:
                with anyio.move_on_after(self._pace.maybe_late_s):
                    await door.visited.wait()
            elif not self._preset.late_server:
                with anyio.fail_after(limit_s):
                    await session.wait_for(door.visited)
        except TimeoutError as error:
            step = f"{step} within {limit_s:.0f} s"
            raise await self._not_started(session, step, error) from error
        except ProgramError as error:
            raise await self._not_started(session, step, error) from error
        desk.record(
            "note", text=f"{hello.program or self._preset.title} is ready, session {session.id}."
        )
        return session

    def _sandbox(self, desk: Desk, door: ToolSocket) -> ProgramSandbox | None:
        if self._spec.policy.sandbox is None:
            return None
        return ProgramSandbox(
            self._spec, desk.folder, [door.path], lambda why: desk.record("note", text=why)
        )

    async def _not_started(
        self, session: AcpSession, step: str, error: ProgramError | TimeoutError
    ) -> Unavailable:
        program, title = session.program, self._preset.title
        if session.worked_outside:
            why = f"{title} went on with earlier work by itself, before it was given a turn"
        elif isinstance(error, TimeoutError):
            why = f"{title} did not {step}"
        elif error.gone:
            await program.settled()
            why = f"{title} ended before it could {step}"
        else:
            why = f"{title} could not {step}: {error.words.rstrip('.')}"
        return Unavailable(
            f"{why}. {program.last_words()}",
            remedy=f"Run it by hand to see what is wrong: {shlex.join(self._preset.command)}",
        )

    async def _conversation(
        self, session: AcpSession, hello: Hello, server: ToolServer, desk: Desk
    ) -> Opened:
        """Resume the conversation if there was one, or start a new one."""
        wire = session.wire
        system = self._introduction(desk) if hello.takes_system_text else None
        known, meta = self._memory.session, self._preset.session_meta
        if known is not None and hello.loads:
            try:
                loaded = await wire.load_session(known, self._spec.cwd, server, system, meta)
                await session.quiet()
                await self._keep(desk)
                return loaded
            except ProgramError as error:
                if error.gone:
                    raise
                desk.record(
                    "trouble", text=f"Could not load the conversation {known}: {error.words}"
                )
        self._lost = known is not None
        self._memory.forget()
        try:
            opened = await wire.new_session(self._spec.cwd, server, system, meta)
        except ProgramError as error:
            if not error.wants_auth:
                raise
            await wire.authenticate(self._auth_method(hello, error))
            opened = await wire.new_session(self._spec.cwd, server, system, meta)
        self._memory.session = opened.session
        self._memory.introduced = system is not None
        await self._keep(desk)
        return opened

    def _auth_method(self, hello: Hello, error: ProgramError) -> str:
        """The way to log in: the preset's, or the only one that needs no terminal."""
        able = [method.id for method in hello.auth if not method.by_hand]
        wanted = self._preset.auth_method
        if wanted in able or (wanted is None and len(able) == 1):
            return wanted or able[0]
        offered = ", ".join(f"{method.id} ({method.name})" for method in hello.auth) or "none"
        raise Unavailable(
            f"{self._preset.title} wants a login before it starts ({error.words.rstrip('.')}), and"
            f" Bullpen cannot choose the method. It offers: {offered}.",
            remedy="Log in once with the program itself, or name the variable with its key by"
            f" --env: {shlex.join(self._preset.command)}",
        )

    async def _let_the_minute_pass(self) -> None:
        """Wait if the program would lose a conversation that was opened less than a minute ago."""
        now = time.time()
        if self._preset.loads_next_minute and now // 60 == self._memory.opened_at // 60:
            await anyio.sleep(60.5 - now % 60)

    async def _keep(self, desk: Desk) -> None:
        """Save which conversation was opened, and when."""
        self._memory.opened_at = time.time()
        if self.capabilities.resume:
            await to_thread.run_sync(memory.save, desk.folder, self._memory)

    def _opened_door(self) -> ToolSocket:
        if self._door is None:
            raise Unavailable("The driver was not started.", remedy="Call `start` before `turn`.")
        self._door.visited.clear()
        return self._door

    async def _choose_model(self, session: AcpSession, opened: Opened) -> None:
        """Make the program use the model that was asked for, or refuse to start."""
        asked, choice, title = self._spec.model, opened.model, self._preset.title
        if asked is None or (choice is not None and choice.value == asked):
            return
        if choice is None:
            raise Unavailable(
                f"The agent asked for the model {asked}, but {title} offers no choice of models.",
                remedy="Choose the model in the program's own settings, and leave it out here.",
            )
        if asked not in choice.offered:
            raise Unavailable(
                f"The agent asked for the model {asked}, but {title} uses {choice.value} and"
                f" offers: {', '.join(choice.offered)}.",
                remedy="Ask for one of the offered models.",
            )
        now = await session.wire.set_model(session.id, choice.option, asked)
        if now != asked:
            raise Unavailable(
                f"The agent asked for the model {asked}, but {title} still uses {now}.",
                remedy=f"Ask for {now}, or check the program's own settings.",
            )

    def _mode(self, desk: Desk) -> str | None:
        """The program's own mode that it has to be in now."""
        if desk.mode == "plan" and self._preset.plan_mode is not None:
            return self._preset.plan_mode
        return self._preset.asking_mode

    def _with_introduction(self, text: str, desk: Desk) -> str:
        """The text of a turn, after the introduction if the conversation is new."""
        before = [*([_LOST] if self._lost else []), *self._outside.notice()]
        if not self._memory.introduced:
            before.insert(0, self._introduction(desk))
        return "\n\n".join([*before, text])

    def _introduction(self, desk: Desk) -> str:
        return introduction(desk.agent, desk.team.name, desk.is_lead, self._spec, SERVER_NAME)
