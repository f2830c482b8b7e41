"""The native driver: takes an agent's turns by calling the model's API.

It does not use the model library's agent loop, because Bullpen guarantees what is in a request,
when it is on disk, when mail counts as seen, and what remains if it is cancelled in between.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import anyio
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart

from bullpen.agents.contracts.desk import Desk, Mail
from bullpen.agents.contracts.driver import EVERYTHING, TurnFailed, TurnInput, TurnResult
from bullpen.agents.contracts.tool import Tool
from bullpen.agents.drivers.native import compaction
from bullpen.agents.drivers.native import conversation as histories
from bullpen.agents.drivers.native.conversation import History
from bullpen.agents.drivers.native.instructions import system_text
from bullpen.agents.drivers.native.limiter import Limiter, RequestFailed
from bullpen.agents.drivers.native.model import Ask, ModelConnection, Waits, effort_of
from bullpen.agents.drivers.native.model_choice import choose, same_model
from bullpen.agents.drivers.native.normalize import Answer
from bullpen.agents.drivers.native.subagent import Subagent
from bullpen.agents.tools.files.prompt_files import PromptFiles
from bullpen.agents.tools.jobs import start_work
from bullpen.agents.tools.team_tools import TASK, TaskInput, subagent_spec
from bullpen.agents.tools.toolbox import call as call_tool
from bullpen.agents.tools.toolbox import shown, toolbox
from bullpen.errors import BullpenError, Invalid, Unavailable
from bullpen.protocol.agent import AgentSpec

_CUT_OFF = "(The answer was cut off at its maximum length.)"


class Native:
    """Bullpen's own agent, on an Anthropic or OpenAI model."""

    name = "native"
    capabilities = EVERYTHING

    def __init__(
        self,
        spec: AgentSpec,
        env: Mapping[str, str],
        *,
        limits: Path | None = None,
        tools: Callable[[Desk], list[Tool[Desk]]] = toolbox,
        waits: Waits = Waits(),  # noqa: B008 - frozen
    ) -> None:
        self._spec = spec
        self._env = env
        self._limits = limits
        self._tools = tools
        self._waits = waits
        self._history = History()
        self._model_checked = False
        self._connection: ModelConnection | None = None
        self._limiter: Limiter | None = None
        self._ask = Ask(system="", tools=())
        self._window = 0

    async def start(self, desk: Desk) -> None:
        """Load the history and check the model and its key."""
        env = {**desk.env, **self._env}
        choice = choose(self._spec.model, env)
        effort = effort_of(self._spec.options.get("effort"))
        self._tools(desk)
        self._history, damage = await anyio.to_thread.run_sync(histories.load, desk.folder)
        if damage is not None:
            desk.record("trouble", text=damage)
        files = PromptFiles(
            self._spec,
            user_home=env.get("HOME"),
            claude_home=env.get("CLAUDE_CONFIG_DIR"),
            redact=desk.redacted,
        )
        system = await anyio.to_thread.run_sync(
            system_text, desk.agent, desk.team.name, desk.is_lead, self._spec, files
        )
        _record_files(files, desk)
        self._ask = Ask(system=system, tools=(), effort=effort)
        limits = self._limits or _limits_in(env, desk)
        self._limiter = Limiter(limits, choice.key, api=f"the API at {choice.host}")
        self._connection = ModelConnection(choice, self._waits)
        self._window = _window(self._spec, self._connection)
        await self._connection.open()
        desk.record(
            "note", text=f"The model is {choice}, with a context window of {self._window} tokens."
        )

    def remembers(self, message_id: str) -> bool:
        """Whether a message is in the history."""
        return message_id in self._history.ids

    async def turn(self, given: TurnInput, desk: Desk) -> TurnResult:
        """Call the model and run its tools until it ends its turn and there is no mail."""
        said = _Said()
        mail: Mail | None = Mail(given.text, given.ids)
        # The text that started the turn, once it is in the conversation.
        begun = ""
        try:
            while True:
                if self._history.tokens > compaction.COMPACT_AT * self._window:
                    await self._compact(begun, desk, why=f"{self._history.tokens} tokens")
                response, answer = await self._ask_model(mail, begun, desk)
                begun = given.text
                said.add(response)
                calls = answer.response.tool_calls
                for call in calls:
                    await self._run_tool(call, answer.wrong.get(call.tool_call_id), desk)
                    if desk.leaving is not None:
                        # It agreed to shut down: nothing else is asked of the model.
                        said.end()
                        return TurnResult(said.endings())
                mail = await desk.take_mail()
                if not calls:
                    said.end()
                    if mail is None:
                        return TurnResult(said.endings())
        except TurnFailed as failed:
            failed.partial = said.with_partial(failed.partial)
            raise
        except Unavailable as error:
            raise TurnFailed(
                error.message, remedy=error.remedy, partial=said.with_partial("")
            ) from error
        finally:
            self._leave_in_order(desk)

    def _leave_in_order(self, desk: Desk) -> None:
        """Leave a history that the next turn can continue. Does not wait, so cancelling is safe."""
        self._history.settle(histories.CANCELLED)
        if not self._history.unsaved:
            return
        try:
            histories.save(desk.folder, self._history, desk.redacted)
        except Unavailable as error:
            # The turn's own error matters more and is already being raised.
            desk.record("trouble", text=str(error))

    async def aclose(self) -> None:
        """Close the connections to the model."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    async def _ask_model(
        self, mail: Mail | None, begun: str, desk: Desk
    ) -> tuple[ModelResponse, Answer]:
        """One step: send what is new, save the answer, and only then mark mail as seen.

        Returns the answer as the model gave it and as it is stored.
        """
        prompts = [] if mail is None else [mail.text]
        ids = () if mail is None else mail.ids
        try:
            response = await self._send(self._history.with_prompts(prompts), desk, ids=ids)
        except RequestFailed as failed:
            response = await self._send_repaired(failed, prompts, ids, begun, desk)
        answer = self._history.commit(prompts, ids, response)
        await self._save(desk)
        if ids:
            await desk.seen(ids)
        return response, answer

    async def _send_repaired(
        self,
        failed: RequestFailed,
        prompts: Sequence[str],
        ids: Sequence[str],
        begun: str,
        desk: Desk,
    ) -> ModelResponse:
        """Send a request again whose conversation the API does not accept, with less of it.

        A refused conversation is first cut back to what the API accepted last, then compacted. If
        neither is proved to help, the conversation stays as it was: it may not be the cause.
        """
        before, refused = self._history.copy(), failed.kind == "rejected"
        repairs: list[Callable[[], Awaitable[bool]]] = [
            lambda: self._compact(begun, desk, why=failed.words)
        ]
        if refused:
            repairs.insert(0, lambda: self._cut_back(desk, why=failed.words))
        try:
            for repair in repairs:
                if not self._history.messages or not await repair():
                    continue
                try:
                    return await self._send(self._history.with_prompts(prompts), desk, ids=ids)
                except RequestFailed as again:
                    failed = again
        except BaseException:
            if refused:
                self._history.restore(before)
            raise
        if refused:
            self._history.restore(before)
        if failed.kind == "too_long":
            raise TurnFailed(
                f"The prompt is too long even without history: {failed.words}",
                remedy="Give the agent less text, or a model with a larger context window.",
                failure=failed.kind,
            ) from failed
        tried = (
            ", also after the conversation was cut back and compacted" if before.messages else ""
        )
        host = "" if self._connection is None else self._connection.choice.host
        raise TurnFailed(
            f"The API at {host} does not accept the request{tried}: {failed.words}",
            remedy=failed.remedy or "See the transcript for the request.",
            partial=failed.partial,
            failure=failed.kind,
        ) from failed

    async def _cut_back(self, desk: Desk, *, why: str) -> bool:
        """Go back to the last request that the API accepted. Returns whether there is one."""
        if not self._history.cut_back():
            return False
        desk.record(
            "trouble",
            text=f"The API refused the conversation ({why}). Removed the last answer from it.",
        )
        return True

    async def _send(
        self,
        messages: Sequence[ModelMessage],
        desk: Desk,
        *,
        ids: Sequence[str] = (),
        words_only: bool = False,
    ) -> ModelResponse:
        """Send a request through the rate limiter and report its usage."""
        if self._connection is None or self._limiter is None:
            raise Unavailable("The driver was not started.", remedy="Call `start` before `turn`.")
        connection, begun = self._connection, time.monotonic()
        ask = replace(self._ask, tools=shown(self._tools(desk)), words_only=words_only)

        async def attempt() -> ModelResponse:
            # What a broken attempt cost counts for the next one.
            await desk.may_spend()
            return await connection.request(messages, ask, used=desk.used)

        response = await self._limiter.run(attempt, waiting=desk.waiting)
        # Cached tokens count here too: they fill the context window.
        desk.filled(response.usage.input_tokens, window=self._window)
        desk.record(
            "request",
            model=response.model_name,
            messages=len(messages),
            mail=list(ids),
            summary=words_only,
            seconds=round(time.monotonic() - begun, 3),
        )
        self._check_model(connection.choice.model, response.model_name)
        if response.text and not words_only:
            desk.record("text", text=response.text)
        return response

    def _check_model(self, asked: str, told: str | None) -> None:
        if self._model_checked or not told:
            return
        if not same_model(asked, told):
            raise TurnFailed(
                f"The agent asked for the model {asked}, but the API answered with {told}.",
                remedy=f"Ask for {told}, or check the base URL.",
                for_good=True,
                failure="model",
            )
        self._model_checked = True

    async def _run_tool(self, call: ToolCallPart, wrong: str | None, desk: Desk) -> None:
        if wrong is not None:
            self._history.answer(call, wrong, error=True)
            return
        task: Tool[Desk] = Tool(TASK.name, TASK.description, TASK.input, TASK.kind, self._task)
        tools = [task if tool is TASK else tool for tool in self._tools(desk)]
        text, failed = await call_tool(
            tools, call.tool_name, call.args_as_dict(), desk, use_id=call.tool_call_id
        )
        self._history.answer(call, text, error=failed)

    async def _task(self, given: TaskInput, desk: Desk) -> str:
        """Start a teammate, or run a subagent on this driver's model."""
        if given.name:
            return await TASK.run(given, desk)
        env = {**desk.env, **self._env}
        sub = Subagent(
            await subagent_spec(given, desk),
            desk,
            env=env,
            limits=self._limits or _limits_in(env, desk),
            base=self._ask,
            waits=self._waits,
        )
        if not given.run_in_background:
            return await sub.run(given.prompt)

        async def work() -> str:
            try:
                return await sub.run(given.prompt)
            finally:
                # No turn may come that would book what it used.
                with suppress(BullpenError):
                    await desk.may_spend()

        return await start_work(given.description or given.prompt[:80], work, desk)

    async def _compact(self, begun: str, desk: Desk, *, why: str) -> bool:
        """Replace the conversation with a summary; drop what cannot be summarized."""
        before, dropped, summary = len(self._history.messages), False, ""
        while self._history.messages:
            try:
                asked = self._history.with_prompts([compaction.ASK_FOR_SUMMARY])
                summary = (await self._send(asked, desk, words_only=True)).text or ""
            except RequestFailed:
                summary = ""
            if summary:
                self._history.replace(
                    [], compaction.summed_up(summary, current=begun, dropped=dropped)
                )
                break
            dropped = True
            kept = compaction.newer_half(self._history.messages)
            owed = self._history.owed if kept else compaction.forgotten(current=begun)
            self._history.replace(kept, owed)
        lost = " Its older part was dropped." if dropped else ""
        desk.record(
            "note",
            text=f"Compacted a conversation of {before} messages ({why}).{lost}\n{summary}",
        )
        await self._save(desk)
        return True

    async def _save(self, desk: Desk) -> None:
        await anyio.to_thread.run_sync(histories.save, desk.folder, self._history, desk.redacted)


class _Said:
    """What the model said in a turn: its last text, and each text that would have ended it."""

    def __init__(self) -> None:
        self._last = ""
        self._endings: list[str] = []

    def add(self, response: ModelResponse) -> None:
        """Add the text of a response."""
        text = response.text or ""
        if response.finish_reason == "content_filter" and not text:
            raise TurnFailed(
                "The model's API blocked the answer (content filter).",
                remedy="Reword what the agent was given.",
            )
        if response.finish_reason == "length" and not response.tool_calls:
            text = f"{text}\n{_CUT_OFF}".lstrip()
        self._last = text or self._last

    def end(self) -> None:
        """Note that the model wants to end its turn here."""
        if self._last:
            self._endings.append(self._last)
        self._last = ""

    def endings(self) -> str:
        """All texts that would have ended the turn; mail may have continued it."""
        return "\n\n".join(self._endings)

    def with_partial(self, partial: str) -> str:
        """All texts, and the partial one that was interrupted."""
        return "\n\n".join(text for text in (*self._endings, self._last, partial) if text)


def _record_files(files: PromptFiles, desk: Desk) -> None:
    """Record which of the project's files the model is told, and which it is not."""
    for file in files.taken.values():
        desk.record("read", path=file.path, real=file.real, bytes=file.size, sha256=file.digest)
    for path, why in files.left_out.items():
        desk.record("note", text=f"Left {path} out of the system text: {why}.")


def _limits_in(env: Mapping[str, str], desk: Desk) -> Path:
    if home := env.get("BULLPEN_HOME"):
        return Path(home) / "limits"
    if home := env.get("HOME"):
        return Path(home) / ".bullpen" / "limits"
    return desk.folder.parent / "limits"


def _window(spec: AgentSpec, connection: ModelConnection) -> int:
    asked = spec.options.get("context_window")
    if asked is None:
        return connection.context_window
    if not isinstance(asked, int) or asked <= 0:
        raise Invalid(
            f"The context window {asked!r} is not a number of tokens.",
            remedy="Give a whole number.",
        )
    return asked
