"""One turn of a program: handle what it says and asks, and deliver mail meanwhile."""

from __future__ import annotations

import asyncio
import contextlib

import anyio
from anyio import to_thread

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.desk import Desk, Mail
from bullpen.agents.contracts.driver import TurnFailed, TurnInput, TurnResult
from bullpen.agents.drivers.acp import calls, memory, vendor_fields
from bullpen.agents.drivers.acp import program_events as events
from bullpen.agents.drivers.acp.memory import AcpMemory
from bullpen.agents.drivers.acp.outside_work import is_own_message
from bullpen.agents.drivers.acp.program_session import AcpSession
from bullpen.agents.drivers.acp.silence import SilenceLimits, watch_silence
from bullpen.agents.drivers.acp.turn_text import Spoken, Tally
from bullpen.agents.drivers.tool_server.mcp_server import SERVER_NAME
from bullpen.agents.system.transcript import recorded_result
from bullpen.errors import BullpenError, one_error

# How much of each result is kept until the turn ends.
_OUTPUT_CHARS_MAX = 200_000
# How much text a turn may have. Whoever says more says it without an end.
_TEXT_CHARS_MAX = 4_000_000
# A model that repeats the same call must not get a new prompt each time.
_REASONS_TOLD_MAX = 5
# How long a failed turn waits until what the program said before is stored, on a slow disk.
_STORING_S = 10.0
_CUT_OFF = "(The answer was cut off at its maximum length.)"


class AcpTurn:
    """One turn, which may take several prompts."""

    def __init__(
        self,
        session: AcpSession,
        known: AcpMemory,
        desk: Desk,
        *,
        cancel_s: float,
        silence: SilenceLimits,
    ) -> None:
        self._session = session
        self._preset = session.preset
        self._memory = known
        self._desk = desk
        self._cancel_s = cancel_s
        self._silence = silence
        self._spoken = Spoken()
        self._tally = Tally(self._preset.usage_from, known.cost_usd, session.context)
        self._events: asyncio.Queue[events.Event] = asyncio.Queue()
        self._uses: dict[str, events.ToolUse] = {}
        self._recorded: set[str] = set()
        self._permitted: dict[str, Call] = {}
        self._scopes: set[anyio.CancelScope] = set()
        self._prompts: set[asyncio.Task[events.PromptEnd]] = set()
        # Work that the program began while no prompt ran.
        self._late: list[events.Event] = []
        self._before: set[tuple[int, str]] = set()
        self._run: str | None = None
        # Mail in the prompt until the model answers; then mail and texts not delivered yet.
        self._given: tuple[str, ...] = ()
        self._waiting: list[Mail] = []
        self._untold: list[str] = []
        self._steered: list[str] = []
        self._handing = anyio.Lock()
        self._answered = anyio.Event()
        self._refused = False
        self._reasons_left = _REASONS_TOLD_MAX
        # Whether the program reported a failed turn, and its own messages.
        self._broke = False
        self._own_words: list[str] = []
        self._said_chars = 0
        self._too_long = anyio.Event()

    async def take(self, given: TurnInput) -> TurnResult:
        """Take the turn. Cancelling it, or an error of ours, also ends the program's turn."""
        self._before = await self._session.program.started_by_it()
        self._session.turn = self
        try:
            with one_error():
                async with anyio.create_task_group() as group:
                    group.start_soon(self._listen)
                    group.start_soon(self._end_endless)
                    group.start_soon(
                        watch_silence, self._session, self._desk, self._silence, self._is_busy
                    )
                    if self._preset.steering in ("steering", "goose", "prompt"):
                        group.start_soon(self._hand_over)
                    await self._converse(given.text, given.ids)
                    group.cancel_scope.cancel()
        except TurnFailed as failed:
            failed.partial = self._spoken.all()[:_OUTPUT_CHARS_MAX]
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await self._leave_in_order()
        return TurnResult(self._spoken.endings())

    @property
    def answered(self) -> bool:
        """Whether the model has answered a prompt of this turn."""
        return self._answered.is_set()

    # Called by the session

    def heard(self, event: events.Event) -> None:
        """Queue an event. What it says about a tool call is stored at once, for later questions."""
        if isinstance(event, events.TextSaid):
            self._said_chars += len(event.text)
            if self._said_chars > _TEXT_CHARS_MAX:
                self._too_long.set()
                return
        use = event if isinstance(event, events.ToolUse) else None
        is_new = use.id not in self._uses if use else isinstance(event, events.WorkBegan)
        if is_new and not self._is_prompted:
            self._late.append(event)
            return
        self._events.put_nowait(self._known(use) if use else event)

    async def asked(self, asked: events.PermissionAsked) -> str | None:
        """Decide about a call. None if the turn ends before there is a decision."""
        if not self._is_prompted:
            self._late.append(asked.use)
            return None
        use = self._known(asked.use, begins=True)
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                return await self._decide(asked, use)
            finally:
                self._scopes.discard(scope)
        return None

    @property
    def _is_prompted(self) -> bool:
        """Whether the program works on a prompt of ours."""
        return any(not each.done() for each in self._prompts)

    def _is_busy(self) -> bool:
        """Whether a question waits for an answer, or a command or a team tool runs."""
        return bool(self._scopes) or any(
            not use.over and (use.kind == "execute" or calls.is_of_team(use, SERVER_NAME))
            for use in self._uses.values()
        )

    def _known(self, told: events.ToolUse, *, begins: bool = False) -> events.ToolUse:
        """A call with everything known about it so far. `begins`: it has not been made yet."""
        known = self._uses.get(told.id)
        begins = begins or told.status in ("pending", "in_progress")
        if known is None or (known.over and begins):
            # An id that is used again is another call: it must not pass for the one before.
            known = events.ToolUse(told.id)
        use = known.updated(told.cut(_OUTPUT_CHARS_MAX))
        if self._preset.ids_name_tools:
            use = vendor_fields.named_by_id(use)
        self._uses[use.id] = use
        return use

    async def drained(self) -> tuple[str, ...]:
        """New mail, for a program that asks for it."""
        if self._preset.steering != "drain":
            return ()
        mail = await self._desk.take_mail()
        if mail is None:
            return ()
        self._steered += mail.ids
        return (mail.text,)

    # The conversation

    async def _converse(self, text: str, ids: tuple[str, ...]) -> None:
        """Send prompts until there is nothing left to tell the program."""
        while True:
            end = await self._prompt(text, ids)
            # From here on, nothing is delivered to the ended turn.
            await self._handing.acquire()
            mail, words = self._waiting, self._untold
            self._judge(end, goes_on=bool(mail or words))
            if words and self._reasons_left == 0:
                self._spoken.add(f"(The turn ended here. {words[-1]})", "reason")
                self._record_texts(self._spoken.end())
                words = []
            await self._saw(tuple(self._steered))
            self._steered.clear()
            if self._desk.turn_is_over or not (mail or words):
                return
            self._reasons_left -= bool(words)
            self._waiting, self._untold, self._refused = [], [], False
            self._handing.release()
            text = "\n\n".join([*words, *(each.text for each in mail)])
            ids = tuple(message for each in mail for message in each.ids)
            await self._desk.may_spend()

    async def _prompt(self, text: str, ids: tuple[str, ...]) -> events.PromptEnd:
        """Send one prompt and take everything until its end."""
        self._given = ids
        asking = self._session.begin(text)
        self._prompts.add(asking)
        # The prompt joins what the program began by itself.
        late, self._late = self._late, []
        for event in late:
            self.heard(event)
        await asyncio.wait({asking})
        while others := {each for each in self._prompts if not each.done()}:
            await asyncio.wait(others)
        ended, self._prompts = [asking, *(self._prompts - {asking})], set()
        # Wait for all before judging one: a prompt that joined the turn fails with it.
        failures = [error for each in ended if (error := each.exception()) is not None]
        try:
            end = asking.result()
            for failure in failures:
                raise failure
        except events.ProgramError as error:
            raise await self._failed(error) from error
        await self._events.join()
        self._account(end)
        if self._broke:
            raise await self._failed(events.ProgramError("\n".join(self._own_words[-1:])))
        return end

    def _judge(self, end: events.PromptEnd, *, goes_on: bool) -> None:
        """Decide what the end of a prompt means for the turn."""
        title = self._preset.title
        if end.stop == "cancelled":
            if not self._refused and not goes_on:
                raise TurnFailed(f"{title} aborted its turn without a reason.")
            return
        if end.stop == "refusal":
            raise TurnFailed(
                f"The model of {title} refused to answer.",
                remedy="Reword what the agent was given.",
            )
        if end.stop == "max_turn_requests":
            raise TurnFailed(
                f"{title} ended its turn because it reached its own limit of requests.",
                remedy="Raise the limit in its settings, or give the agent smaller tasks.",
            )
        if end.stop == "max_tokens":
            self._spoken.add(_CUT_OFF, "cut-off")
        self._record_texts(self._spoken.end())

    def _record_texts(self, texts: list[str]) -> None:
        for text in texts:
            self._desk.record("text", text=text)

    async def _failed(self, error: events.ProgramError) -> TurnFailed:
        """The error of a turn that the program could not take, with what it said before."""
        title, program = self._preset.title, self._session.program
        with anyio.move_on_after(_STORING_S):
            await self._events.join()
        if not error.gone:
            return TurnFailed(f"{title} could not take the turn: {error.words}")
        await program.settled()
        return TurnFailed(
            f"{title} ended in the middle of a turn. {program.last_words()}",
            remedy="Wait: the next turn restarts it with the same conversation.",
        )

    async def _leave_in_order(self) -> None:
        """Clean up after any end: cancel open questions and the program's turn."""
        for scope in list(self._scopes):
            scope.cancel()
        running = {each for each in self._prompts if not each.done()}
        if running:
            await self._break_off(running)
        for each in self._prompts:
            # Nobody waits for it; asyncio must not report its result as lost.
            with contextlib.suppress(Exception, asyncio.CancelledError):
                each.result()
        self._session.leave_turn(self._uses, self._late)
        self._record_texts(self._spoken.next())

    async def _break_off(self, running: set[asyncio.Task[events.PromptEnd]]) -> None:
        session = self._session
        with contextlib.suppress(events.ProgramError):
            await session.wire.cancel(session.id)
        _, late = await asyncio.wait(running, timeout=self._cancel_s)
        if late:
            # It does not react. The next turn resumes the conversation in a new process.
            session.program.note("It did not end its turn when cancelled, and was killed.")
            await session.aclose(0.0)
            await asyncio.wait(late, timeout=1.0)
            return
        await session.program.end_since(self._before, patience_s=0.2)

    # What the program says

    async def _end_endless(self) -> None:
        """Fail the turn of a program that does not stop talking."""
        await self._too_long.wait()
        raise TurnFailed(
            f"{self._preset.title} sent more than {_TEXT_CHARS_MAX:,} characters in one turn,"
            " without an end.",
            remedy="Check its model and settings.",
            failure="endless",
        )

    async def _listen(self) -> None:
        while True:
            event = await self._events.get()
            try:
                await self._take_in(event)
            finally:
                self._events.task_done()

    async def _take_in(self, event: events.Event) -> None:
        match event:
            case events.TextSaid(text, message):
                if is_own_message(event, self._preset):
                    self._hear_program(text)
                    return
                await self._model_spoke()
                self._spoken.add(text, message)
            case events.Thought():
                await self._model_spoke()
            case events.ToolUse():
                await self._model_spoke()
                await self._used_tool(event)
            case events.RunBegan(run):
                self._run = run
            case events.Broke():
                self._broke = True
            case events.UsageTold():
                self._tally.add(event)
                if event.context and event.window:
                    self._desk.filled(event.context, window=event.window)
            case events.ModeTold(mode):
                await self._hold_mode(mode)

    def _hear_program(self, text: str) -> None:
        """Take the program's own text: it is not an answer, but may say why there is none."""
        words, failure = text.strip(), self._preset.failure
        self._own_words.append(words)
        self._desk.record("note", text=words)
        if failure is not None and words.startswith(failure):
            self._broke = True

    async def _model_spoke(self) -> None:
        """Note that the model answered: the prompt was in a successful request."""
        self._answered.set()
        ids, self._given = self._given, ()
        await self._saw(ids)

    async def _saw(self, ids: tuple[str, ...]) -> None:
        """Save the ids first, then report them as seen: otherwise mail could come twice."""
        if not ids:
            return
        self._memory.saw(ids)
        await to_thread.run_sync(memory.save, self._desk.folder, self._memory)
        await self._desk.seen(ids)

    async def _used_tool(self, use: events.ToolUse) -> None:
        """Record a call and its end. Our own server records its calls itself."""
        self._record_texts(self._spoken.next())
        if calls.is_of_team(use, SERVER_NAME):
            self._tally.tools.append(use.tool)
            return
        call = calls.calls_of(use)[0]
        name = call.tool
        if use.id not in self._recorded and (use.input or use.over):
            self._recorded.add(use.id)
            self._tally.tools.append(name)
            self._desk.record("tool", name=name, input=dict(call.input))
            self._desk.doing(name, call.detail or use.title)
        if use.over:
            await self._over(use, name)

    async def _over(self, use: events.ToolUse, name: str) -> None:
        text, failed = use.output or "\n".join(use.texts), use.status == "failed"
        self._desk.record("result", name=name, text=recorded_result(text), error=failed)
        self._desk.doing(None)
        call = self._permitted.pop(use.id, None)
        self._desk.note_repeats(call or calls.calls_of(use)[0], text, failed=failed)
        if call is not None:
            told = await self._desk.called(call, text, failed=failed)
            if told != text:
                await self._tell(f"About {name}: {told.removeprefix(text).strip()}")

    async def _hold_mode(self, mode: str) -> None:
        """Keep the program in the mode in which it asks."""
        wanted, self._session.mode = self._session.mode, mode
        if wanted is None or mode == wanted:
            return
        self._desk.record(
            "trouble", text=f"The program switched from mode {wanted} to {mode}; switching back."
        )
        try:
            await self._session.enter(wanted)
        except events.ProgramError as error:
            raise TurnFailed(
                f"{self._preset.title} left the mode {wanted}, in which it asks for permission, and"
                f" could not be switched back: {error.words}"
            ) from error

    def _account(self, end: events.PromptEnd) -> None:
        used = self._tally.of(end)
        self._memory.cost_usd = self._tally.cost_usd
        self._session.context = self._tally.context
        self._session.knows_team = self._tally.has_grown
        if used is not None and self._preset.capabilities.usage:
            self._desk.used(used, calls=self._tally.tools)
        self._tally.begin()
        self._check_model(end)

    def _check_model(self, end: events.PromptEnd) -> None:
        asked, told = self._desk.spec.model, end.models
        if asked is None or not told or any(same_model(asked, model) for model in told):
            return
        raise TurnFailed(
            f"The agent asked for the model {asked}, but {self._preset.title} used"
            f" {', '.join(told)}.",
            remedy="Ask for that model, or check the program's own settings.",
            for_good=True,
        )

    # What the program asks

    async def _decide(self, asked: events.PermissionAsked, use: events.ToolUse) -> str | None:
        if calls.is_of_team(use, SERVER_NAME):
            return asked.option("allow_once")
        if calls.is_plan(use):
            return await self._refuse(asked, await self._plan(use))
        name = calls.refused_tool(use, self._preset.refused_tools)
        if name is not None and self._desk.mode != "bypassPermissions":
            return await self._refuse(
                asked,
                f"{name} is not available: nobody would be asked about the calls that follow from"
                " it. Give the work to a teammate, or do it yourself.",
            )
        for call in calls.calls_of(use):
            try:
                permitted = await self._desk.permit(call)
            except BullpenError as error:
                return await self._refuse(asked, f"{call} was not done. {error}")
            if dict(permitted) != dict(call.input):
                return await self._refuse(
                    asked,
                    f"{call} was not allowed with this input. Call it again with exactly this:"
                    f" {calls.in_words(permitted)}",
                )
            self._permitted[use.id] = call
        # Never "always": Bullpen could not revoke what a program stores itself.
        return asked.option("allow_once")

    async def _refuse(self, asked: events.PermissionAsked, words: str) -> str | None:
        """Refuse a call and make sure that the model reads why."""
        self._permitted.pop(asked.use.id, None)
        await self._tell(words)
        self._refused = True
        return asked.option("reject_once")

    async def _plan(self, use: events.ToolUse) -> str:
        """Submit a plan. The approval comes later, not with this answer."""
        if self._desk.mode != "plan":
            return "You are not in plan mode, so no approval is needed. Continue."
        try:
            return await self._desk.submit_plan(calls.plan_of(use, self._spoken.last()))
        except BullpenError as error:
            return str(error)

    async def _tell(self, words: str) -> None:
        """Tell the model something: at once if the program continues, else with a prompt."""
        words = self._desk.redacted(words)
        goes_on = self._preset.after_refusal == "goes on"
        if not (goes_on and await self._session.steer(words, self._run)):
            self._untold.append(words)

    # Mail during the turn

    async def _hand_over(self) -> None:
        """Deliver mail as it comes, once the program is working on the prompt."""
        await self._answered.wait()
        while True:
            mail = await self._desk.wait_mail()
            self._waiting.append(mail)
            async with self._handing:
                if mail in self._waiting and await self._steer(mail.text):
                    self._waiting.remove(mail)
                    self._steered += mail.ids

    async def _steer(self, text: str) -> bool:
        if self._preset.steering != "prompt":
            return await self._session.steer(text, self._run)
        self._prompts.add(self._session.begin(text))
        return True


def same_model(asked: str, told: str) -> bool:
    """Whether the reported model is the one asked for, by its full or a short name."""
    plain = told.rsplit("/", 1)[-1]
    dated = plain.rsplit("-", 1)
    undated = dated[0] if len(dated) == 2 and dated[1].isdigit() and len(dated[1]) == 8 else plain
    name = asked.split("[", 1)[0]
    return name in (told, plain, undated, "default") or name in plain.split("-")
