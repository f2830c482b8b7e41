"""One turn of a driven program: what it says and asks, and the mail that comes meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import re

import anyio
from anyio import to_thread

from bullpen.agents.drivers.acp import calls, dialects, memory
from bullpen.agents.drivers.acp.events import (
    Asked,
    Broke,
    Event,
    ModeTold,
    ProgramError,
    PromptEnd,
    RunBegan,
    Said,
    Thought,
    ToolUse,
    UsageTold,
)
from bullpen.agents.drivers.acp.memory import Memory
from bullpen.agents.drivers.acp.said import Spoken, Tally
from bullpen.agents.drivers.acp.session import Session
from bullpen.agents.drivers.base import Desk, Mail, TurnFailed, TurnInput, TurnResult
from bullpen.agents.policy.call import Call
from bullpen.agents.tools.serve import SERVER_NAME
from bullpen.errors import BullpenError, one_error

_RESULT_CHARS_MAX = 4_000
# A model that tries the same again and again must not get a prompt each time.
_REASONS_TOLD_MAX = 5
_CUT_OFF = "(The answer was cut off at the limit of its length.)"


class Turn:
    """A turn, from the first prompt to the last. A program may need several prompts for one."""

    def __init__(self, session: Session, known: Memory, desk: Desk, *, cancel_s: float) -> None:
        self._session = session
        self._preset = session.preset
        self._memory = known
        self._desk = desk
        self._cancel_s = cancel_s
        self._spoken = Spoken()
        self._tally = Tally(self._preset.usage_from, known.cost_usd, session.context)
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._uses: dict[str, ToolUse] = {}
        self._recorded: set[str] = set()
        self._permitted: dict[str, Call] = {}
        self._scopes: set[anyio.CancelScope] = set()
        self._prompts: set[asyncio.Task[PromptEnd]] = set()
        self._before: set[tuple[int, str]] = set()
        self._run: str | None = None
        # Mail of the prompt until the model answers; mail and words that nobody has told yet.
        self._given: tuple[str, ...] = ()
        self._waiting: list[Mail] = []
        self._untold: list[str] = []
        self._steered: list[str] = []
        self._handing = anyio.Lock()
        self._answered = anyio.Event()
        self._refused = False
        self._reasons_left = _REASONS_TOLD_MAX
        # Whether the program said that the turn failed, and what it says itself.
        self._broke = False
        self._own_words: list[str] = []

    async def take(self, given: TurnInput) -> TurnResult:
        """Take the turn. Cancelling it, or an error of ours, ends the program's turn as well."""
        self._before = await self._session.program.started_by_it()
        self._session.turn = self
        try:
            with one_error():
                async with anyio.create_task_group() as group:
                    group.start_soon(self._listen)
                    if self._preset.steering in ("steering", "goose", "prompt"):
                        group.start_soon(self._hand_over)
                    await self._converse(given.text, given.ids)
                    group.cancel_scope.cancel()
        except TurnFailed as failed:
            failed.partial = self._spoken.all()
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await self._leave_in_order()
        return TurnResult(self._spoken.endings())

    @property
    def answered(self) -> bool:
        """Whether the model has answered a prompt of this turn."""
        return self._answered.is_set()

    # What the session passes on

    def heard(self, event: Event) -> None:
        """Hear something. What a question refers to is known at once; the rest waits its turn."""
        if isinstance(event, ToolUse):
            event = self._known(event)
        self._events.put_nowait(event)

    async def asked(self, asked: Asked) -> str | None:
        """Decide about a call. None if the turn is over before somebody has."""
        use = self._known(asked.use)
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                return await self._decide(asked, use)
            finally:
                self._scopes.discard(scope)
        return None

    def _known(self, told: ToolUse) -> ToolUse:
        """A call with all that was told about it until now."""
        use = self._uses.get(told.id, ToolUse(told.id)).updated(told)
        if self._preset.ids_name_tools:
            use = dialects.named_by_id(use)
        self._uses[use.id] = use
        return use

    async def drained(self) -> tuple[str, ...]:
        """The mail that came since, for a program that asks for it."""
        if self._preset.steering != "drain":
            return ()
        mail = await self._desk.take_mail()
        if mail is None:
            return ()
        self._steered += mail.ids
        return (mail.text,)

    # The conversation

    async def _converse(self, text: str, ids: tuple[str, ...]) -> None:
        """Prompt until there is nothing left to tell the program."""
        while True:
            end = await self._prompt(text, ids)
            # From here on nothing more is handed into the turn that has ended.
            await self._handing.acquire()
            mail, words = self._waiting, self._untold
            self._judge(end, goes_on=bool(mail or words))
            if words and self._reasons_left == 0:
                self._spoken.add(f"(It went no further. {words[-1]})", "reason")
                self._record_texts(self._spoken.end())
                words = []
            await self._saw(tuple(self._steered))
            self._steered.clear()
            if not mail and not words:
                return
            self._reasons_left -= bool(words)
            self._waiting, self._untold, self._refused = [], [], False
            self._handing.release()
            text = "\n\n".join([*words, *(each.text for each in mail)])
            ids = tuple(message for each in mail for message in each.ids)
            await self._desk.may_spend()

    async def _prompt(self, text: str, ids: tuple[str, ...]) -> PromptEnd:
        """One prompt, with everything that was said until its end."""
        self._given = ids
        asking = self._session.begin(text)
        self._prompts.add(asking)
        await asyncio.wait({asking})
        while others := {each for each in self._prompts if not each.done()}:
            await asyncio.wait(others)
        ended, self._prompts = [asking, *(self._prompts - {asking})], set()
        # All are looked at before one is judged: a prompt that joined the turn fails with it.
        failures = [error for each in ended if (error := each.exception()) is not None]
        try:
            end = asking.result()
            for failure in failures:
                raise failure
        except ProgramError as error:
            raise await self._failed(error) from error
        await self._events.join()
        self._account(end)
        if self._broke:
            raise await self._failed(ProgramError("\n".join(self._own_words[-1:])))
        return end

    def _judge(self, end: PromptEnd, *, goes_on: bool) -> None:
        """What the way in which a prompt ended means for the turn."""
        title = self._preset.title
        if end.stop == "cancelled":
            if not self._refused and not goes_on:
                raise TurnFailed(f"{title} broke its turn off, and does not say why.")
            return
        if end.stop == "refusal":
            raise TurnFailed(
                f"The model of {title} refused to answer.",
                remedy="Look at what the agent was given, and put it in other words.",
            )
        if end.stop == "max_turn_requests":
            raise TurnFailed(
                f"{title} ended its turn at its own limit of requests.",
                remedy="Raise the limit in its settings, or give it less at once.",
            )
        if end.stop == "max_tokens":
            self._spoken.add(_CUT_OFF, "cut-off")
        self._record_texts(self._spoken.end())

    def _record_texts(self, texts: list[str]) -> None:
        for text in texts:
            self._desk.record("text", text=text)

    async def _failed(self, error: ProgramError) -> TurnFailed:
        """A turn that the program could not take: why, with all that it said before."""
        title, program = self._preset.title, self._session.program
        with anyio.move_on_after(1.0):
            await self._events.join()
        if not error.gone:
            return TurnFailed(f"{title} could not take the turn: {error.words}")
        await program.settled()
        return TurnFailed(
            f"{title} ended in the middle of a turn. {program.last_words()}",
            remedy="It is started again for the next turn, with the same conversation.",
        )

    async def _leave_in_order(self) -> None:
        """Whatever happened: nothing waits for an answer, and the program has no turn any more."""
        for scope in list(self._scopes):
            scope.cancel()
        running = {each for each in self._prompts if not each.done()}
        if running:
            await self._break_off(running)
        for each in self._prompts:
            # Nobody waits for it any more; how it ended must not be told as forgotten.
            with contextlib.suppress(Exception, asyncio.CancelledError):
                each.result()
        self._session.turn = None
        self._record_texts(self._spoken.next())

    async def _break_off(self, running: set[asyncio.Task[PromptEnd]]) -> None:
        session = self._session
        with contextlib.suppress(ProgramError):
            await session.wire.cancel(session.id)
        _, late = await asyncio.wait(running, timeout=self._cancel_s)
        if late:
            # It does not listen. The next turn takes the conversation up in a new process.
            session.program.note("It did not end its turn when it was told to, and was killed.")
            await session.aclose(0.0)
            await asyncio.wait(late, timeout=1.0)
            return
        await session.program.end_since(self._before, patience_s=0.2)

    # What it says

    async def _listen(self) -> None:
        while True:
            event = await self._events.get()
            try:
                await self._take_in(event)
            finally:
                self._events.task_done()

    async def _take_in(self, event: Event) -> None:
        match event:
            case Said(text, message):
                if self._is_own(message):
                    self._hear_program(text)
                    return
                await self._model_spoke()
                self._spoken.add(text, message)
            case Thought():
                await self._model_spoke()
            case ToolUse():
                await self._model_spoke()
                await self._used_tool(event)
            case RunBegan(run):
                self._run = run
            case Broke():
                self._broke = True
            case UsageTold():
                self._tally.add(event)
                if event.context and event.window:
                    self._desk.filled(event.context, window=event.window)
            case ModeTold(mode):
                await self._hold_mode(mode)

    def _is_own(self, message: str | None) -> bool:
        pattern = self._preset.own_messages
        return pattern is not None and re.fullmatch(pattern, message or "") is not None

    def _hear_program(self, text: str) -> None:
        """Words that are not the model's: they are no answer, but may say why there is none."""
        words, failure = text.strip(), self._preset.failure
        self._own_words.append(words)
        self._desk.record("note", text=words)
        if failure is not None and words.startswith(failure):
            self._broke = True

    async def _model_spoke(self) -> None:
        """The model has answered: what the prompt held was in a request that succeeded."""
        self._answered.set()
        ids, self._given = self._given, ()
        await self._saw(ids)

    async def _saw(self, ids: tuple[str, ...]) -> None:
        """Remember first, then say so: what was said and not remembered would come twice."""
        if not ids:
            return
        self._memory.saw(ids)
        await to_thread.run_sync(memory.save, self._desk.folder, self._memory)
        await self._desk.seen(ids)

    async def _used_tool(self, use: ToolUse) -> None:
        """Record a call and its end. Those of our own server are recorded where they arrive."""
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

    async def _over(self, use: ToolUse, name: str) -> None:
        text = use.output or "\n".join(use.texts)
        failed = use.status == "failed"
        self._desk.record("result", name=name, text=text[:_RESULT_CHARS_MAX], error=failed)
        self._desk.doing(None)
        call = self._permitted.pop(use.id, None)
        if call is not None:
            told = await self._desk.called(call, text, failed=failed)
            if told != text:
                await self._tell(f"About {name}: {told.removeprefix(text).strip()}")

    async def _hold_mode(self, mode: str) -> None:
        """A program does not leave the mode in which it asks, whoever tells it to."""
        wanted, self._session.mode = self._session.mode, mode
        if wanted is None or mode == wanted:
            return
        self._desk.record("trouble", text=f"It left its mode {wanted} for {mode}; it is set back.")
        try:
            await self._session.enter(wanted)
        except ProgramError as error:
            raise TurnFailed(
                f"{self._preset.title} left the mode {wanted}, in which it asks before it changes"
                f" something, and cannot be set back: {error.words}"
            ) from error

    def _account(self, end: PromptEnd) -> None:
        used = self._tally.of(end)
        self._memory.cost_usd = self._tally.cost_usd
        self._session.context = self._tally.context
        if used is not None and self._preset.capabilities.usage:
            self._desk.used(used, calls=self._tally.tools)
        self._tally.begin()
        self._check_model(end)

    def _check_model(self, end: PromptEnd) -> None:
        asked, told = self._desk.spec.model, end.models
        if asked is None or not told or any(same_model(asked, model) for model in told):
            return
        raise TurnFailed(
            f"The agent was to use the model {asked}, but {self._preset.title} used"
            f" {', '.join(told)}.",
            remedy="Ask for that model, or look at the program's own settings.",
            for_good=True,
        )

    # What it asks

    async def _decide(self, asked: Asked, use: ToolUse) -> str | None:
        if calls.is_of_team(use, SERVER_NAME):
            return asked.option("allow_once")
        if calls.is_plan(use):
            return await self._refuse(asked, await self._plan(use))
        for call in calls.calls_of(use):
            try:
                permitted = await self._desk.permit(call)
            except BullpenError as error:
                return await self._refuse(asked, f"{call} was not done. {error}")
            if dict(permitted) != dict(call.input):
                return await self._refuse(
                    asked,
                    f"{call} was not allowed like that, but with this input:"
                    f" {calls.in_words(permitted)}. Call it again with exactly that.",
                )
            self._permitted[use.id] = call
        # Never for always: what a program keeps on its own disk nobody here could take back.
        return asked.option("allow_once")

    async def _refuse(self, asked: Asked, words: str) -> str | None:
        """Say no, and see to it that the model reads why."""
        self._permitted.pop(asked.use.id, None)
        await self._tell(words)
        self._refused = True
        return asked.option("reject_once")

    async def _plan(self, use: ToolUse) -> str:
        """Submit a plan; the approval comes later, and by another way than this answer."""
        if self._desk.mode != "plan":
            return "There is no plan to be approved: you are not in plan mode. Go on."
        try:
            return await self._desk.submit_plan(calls.plan_of(use, self._spoken.last()))
        except BullpenError as error:
            return str(error)

    async def _tell(self, words: str) -> None:
        """Tell the model: at once where the program goes on by itself, else with a prompt."""
        words = self._desk.redacted(words)
        goes_on = self._preset.after_refusal == "goes on"
        if not (goes_on and await self._session.steer(words, self._run)):
            self._untold.append(words)

    # Mail in mid-turn

    async def _hand_over(self) -> None:
        """Hand mail over as it comes, once the program surely works on the prompt."""
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
    """Whether a program means the model that was asked for: by its name, or a short one of it."""
    plain = told.rsplit("/", 1)[-1]
    dated = plain.rsplit("-", 1)
    undated = dated[0] if len(dated) == 2 and dated[1].isdigit() and len(dated[1]) == 8 else plain
    name = asked.split("[", 1)[0]
    return name in (told, plain, undated, "default") or name in plain.split("-")
