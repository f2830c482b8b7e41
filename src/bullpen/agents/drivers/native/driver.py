"""The native driver: takes an agent's turns by calling the model's API.

It does not use the model library's agent loop, because Bullpen guarantees what is in a request,
when it is on disk, when mail counts as seen, and what remains if it is cancelled in between.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import anyio
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.desk import Desk, Mail
from bullpen.agents.contracts.driver import EVERYTHING, TurnFailed, TurnInput, TurnResult
from bullpen.agents.contracts.tool import Attachment, Tool, ToolResult
from bullpen.agents.drivers.native import attachments, compaction
from bullpen.agents.drivers.native import conversation as histories
from bullpen.agents.drivers.native.compaction import Begun
from bullpen.agents.drivers.native.conversation import History
from bullpen.agents.drivers.native.instructions import record_files, system_text
from bullpen.agents.drivers.native.limiter import Limiter, RequestFailed, limits_in
from bullpen.agents.drivers.native.model import Ask, ModelConnection, Waits, booked, effort_of
from bullpen.agents.drivers.native.model_choice import choose
from bullpen.agents.drivers.native.normalize import Answer
from bullpen.agents.drivers.native.provider.checks import AnswerChecks
from bullpen.agents.drivers.native.provider.options import STRICT_MODEL, ModelOptions
from bullpen.agents.drivers.native.provider.search import ProviderSearch
from bullpen.agents.drivers.native.provider.small import SmallModel
from bullpen.agents.drivers.native.provider.taped import connect
from bullpen.agents.drivers.native.said import Said
from bullpen.agents.drivers.native.sent_schema import definitions, is_team_tool
from bullpen.agents.drivers.native.server_tools import (
    OpenServers,
    ServerTools,
    failures_text,
    open_servers,
)
from bullpen.agents.drivers.native.subagent import Subagent
from bullpen.agents.mail.todo_list import todo_text
from bullpen.agents.tapes.agent_tape import MAIN, AgentTape, tape_of
from bullpen.agents.tapes.arrivals import Arrivals
from bullpen.agents.tools.agent_memory import remembered
from bullpen.agents.tools.files.edit_forms import for_model
from bullpen.agents.tools.files.prompt_files import PromptFiles
from bullpen.agents.tools.jobs import start_work
from bullpen.agents.tools.side_by_side import Place, batches, only_reads, run_batch
from bullpen.agents.tools.skills.skill_files import Skills
from bullpen.agents.tools.skills.skill_tool import SKILL, skills_of
from bullpen.agents.tools.team_tools import TASK, TaskInput, subagent_spec
from bullpen.agents.tools.tool_search import ToolShelf
from bullpen.agents.tools.toolbox import call as call_tool
from bullpen.agents.tools.toolbox import shown, toolbox, with_server_tools
from bullpen.errors import BullpenError, Unavailable
from bullpen.protocol.agent import AgentSpec, Usage
from bullpen.team.budget.rules import about_tokens


class Native:
    """Bullpen's own agent, on a model of any provider."""

    name = "native"
    capabilities = EVERYTHING

    def __init__(
        self,
        spec: AgentSpec,
        env: Mapping[str, str],
        *,
        limits: Path | None = None,
        tools: Callable[[Desk], list[Tool[Desk]]] = toolbox,
        open_servers: OpenServers = open_servers,
        waits: Waits = Waits(),  # noqa: B008 - frozen
    ) -> None:
        self._spec = spec
        self._env = env
        self._limits = limits
        self._tools = tools
        self._open_servers = open_servers
        self._servers: ServerTools | None = None
        self._waits = waits
        self._history = History()
        self._shelf = ToolShelf(self._history.loaded)
        # Whether the API refused what was shown to the model.
        self._blind = False
        self._checks = AnswerChecks(strict=bool(spec.options.get(STRICT_MODEL)))
        self._small: SmallModel | None = None
        self._connection: ModelConnection | None = None
        self._limiter: Limiter | None = None
        self._search: ProviderSearch | None = None
        self._tape: AgentTape | None = None
        self._arrivals: Arrivals | None = None
        self._ask = Ask(system="", tools=())
        self._window = 0
        # The texts of team tools that no request had yet; None before the first one.
        self._tool_texts: list[str] | None = None

    async def start(self, desk: Desk) -> None:
        """Load the history and check the model and its key."""
        env = {**desk.env, **self._env}
        choice = choose(self._spec.model, env)
        effort = effort_of(self._spec.options.get("effort"))
        skills = await self._skills(desk, env)
        self._servers = await self._open_servers(self._spec, desk)
        self._history, damage = await anyio.to_thread.run_sync(histories.load, desk.folder)
        self._shelf = ToolShelf(self._history.loaded)
        if damage is not None:
            desk.record("trouble", text=damage)
        files = PromptFiles(
            self._spec,
            user_home=env.get("HOME"),
            claude_home=env.get("CLAUDE_CONFIG_DIR"),
            redact=desk.redacted,
        )
        memory = await anyio.to_thread.run_sync(remembered, self._spec, files)
        if memory is not None and memory.trouble is not None:
            desk.record("trouble", text=memory.trouble)
        who = (desk.agent, desk.team.name, desk.is_lead)
        system = await anyio.to_thread.run_sync(
            system_text, *who, self._spec, files, skills, memory
        )
        record_files(files, desk)
        if self._servers is not None and self._servers.failed:
            system = f"{system}\n\n{failures_text(self._servers.failed)}"
        self._ask = Ask(system=system, tools=(), effort=effort)
        limits = self._limits or limits_in(env, desk)
        self._limiter = Limiter(limits, choice.credential, api=f"the API at {choice.host}")
        self._tape = tape = tape_of(self._spec, env, desk)
        self._arrivals = Arrivals(tape) if tape is not None and tape.is_replay else None
        self._search = ProviderSearch(choice, self._limiter, self._waits, tape)
        options = ModelOptions.of(self._spec.options)
        self._connection = connect(tape, MAIN, choice, self._waits, options)
        await self._connection.open()
        self._window = self._connection.context_window
        desk.record(
            "note",
            text=f"The model is {choice}, with a context window of {self._window} tokens"
            f" ({self._connection.window_from}).",
        )
        if effort is not None and not self._connection.keeps_effort:
            desk.record("note", text=f"{choice} is not known to have an effort; it may ignore it.")
        self._small = await SmallModel.opened(self._spec, env, limits, self._waits, desk, tape)

    async def _skills(self, desk: Desk, env: Mapping[str, str]) -> Skills | None:
        """The skills that it can load. Without any, it does not have the tool either."""
        if SKILL not in self._tools(desk):
            return None
        skills = await anyio.to_thread.run_sync(skills_of, self._spec, env, desk)
        for path, why in skills.left_out.items():
            desk.record("note", text=f"Left the skill {path} out: {why}.")
        if not skills.offered:
            tools = self._tools
            self._tools = lambda desk: [tool for tool in tools(desk) if tool is not SKILL]
        return skills

    def remembers(self, message_id: str) -> bool:
        """Whether a message is in the history."""
        return message_id in self._history.ids

    async def turn(self, given: TurnInput, desk: Desk) -> TurnResult:
        """Call the model and run its tools until it ends its turn and there is no mail."""
        said = Said()
        mail: Mail | None = Mail(given.text, given.ids)
        begun = Begun("", has_briefing=given.whole)
        if self._tape is not None:
            self._tape.turn_begins()
        try:
            if self._arrivals is not None:
                mail = await self._arrivals.first(Mail(given.text, given.ids), desk)
            while True:
                if self._history.tokens > compaction.COMPACT_AT * self._window:
                    why = f"{self._history.tokens} tokens"
                    if not await self._shorten(desk, why=why):
                        await self._compact(begun, desk, why=why)
                desk.next_request()
                response, answer = await self._ask_model(mail, begun, desk)
                begun = replace(begun, text=given.text)
                said.add(response)
                calls = answer.response.tool_calls
                for batch in batches(calls, lambda call: self._only_reads(call, desk)):
                    await self._run_tools(batch, answer.wrong, desk)
                    if desk.turn_is_over:
                        # Nothing else is asked of the model.
                        said.end()
                        return TurnResult(said.endings())
                if self._arrivals is None:
                    mail = await desk.take_mail()
                else:
                    mail = await self._arrivals.next(desk, ended=not calls)
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
        """Close the connections to the model and to servers."""
        servers, self._servers = self._servers, None
        if servers is not None:
            await servers.aclose()
        tape, self._tape = self._tape, None
        if tape is not None:
            tape.close()
        connection, self._connection = self._connection, None
        small, self._small = self._small, None
        if small is not None:
            await small.aclose()
        if connection is not None:
            await connection.aclose()

    async def _ask_model(
        self, mail: Mail | None, begun: Begun, desk: Desk
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
        except TurnFailed as failed:
            if failed.failure == "server" and self._history.has_attachments:
                # Some servers fail on images instead of refusing them; the next turn has none.
                self._history.drop_attachments(attachments.FAILED)
            raise
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
        begun: Begun,
        desk: Desk,
    ) -> ModelResponse:
        """Send a request again whose conversation the API does not accept, with less of it.

        A refused conversation is first cut back to what the API accepted last, then compacted. If
        neither is proved to help, the conversation stays as it was: it may not be the cause.
        """
        before, refused = self._history.copy(), failed.kind == "rejected"
        was_blind = self._blind
        repairs: list[Callable[[], Awaitable[bool]]] = [
            lambda: self._compact(begun, desk, why=failed.words)
        ]
        if refused:
            repairs.insert(0, lambda: self._cut_back(desk, why=failed.words))
        else:
            repairs.insert(0, lambda: self._shorten(desk, why=failed.words))
        if refused and self._history.has_attachments:
            repairs.insert(0, lambda: self._close_eyes(desk, why=failed.words))
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
                self._blind = was_blind
            raise
        if refused:
            self._history.restore(before)
            self._blind = was_blind
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

    async def _close_eyes(self, desk: Desk, *, why: str) -> bool:
        """Send words in place of images and PDFs, which not every API accepts, from now on."""
        self._history.drop_attachments(attachments.UNSEEN)
        self._blind = True
        desk.record(
            "trouble",
            text=f"The API refused the conversation ({why}). Removed images and PDFs from it.",
        )
        return True

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
        connection = self._connection
        tools = for_model(shown(self._all_tools(desk), self._shelf), connection.choice.model)
        ask = replace(self._ask, tools=tools, words_only=words_only)
        if self._tool_texts is None:
            self._tool_texts = definitions(tool for tool in tools if tool.kind == "team")

        def used(usage: Usage, *, calls: Sequence[str] = (), model: str | None = None) -> None:
            texts, self._tool_texts = self._tool_texts or [], []
            tokens = sum(map(about_tokens, texts))
            desk.used(usage.evolve(tool_tokens=tokens), calls=calls, model=model)

        response = await booked(
            connection, self._limiter, messages, ask, desk, mail=ids, summary=words_only, used=used
        )
        # Cached tokens count here too: they fill the context window.
        desk.filled(
            response.usage.input_tokens, window=self._window, model=connection.answered(response)
        )
        self._checks.look(connection, messages, ask, response, desk)
        if response.text and not words_only:
            desk.record("text", text=response.text)
        return response

    def _all_tools(self, desk: Desk) -> list[Tool[Desk]]:
        more = [] if self._servers is None else self._servers.tools
        return with_server_tools(
            self._tools(desk), more, self._spec, mode=desk.mode, is_lead=desk.is_lead
        )

    def _only_reads(self, call: ToolCallPart, desk: Desk) -> bool:
        return only_reads(call.tool_name, self._tools(desk))

    async def _run_tools(
        self, calls: Sequence[ToolCallPart], wrong: Mapping[str, str], desk: Desk
    ) -> None:
        async def run(call: ToolCallPart, place: Place | None) -> None:
            await self._run_tool(call, wrong.get(call.tool_call_id), desk, place)

        await run_batch(calls, run)

    async def _run_tool(
        self, call: ToolCallPart, wrong: str | None, desk: Desk, place: Place | None
    ) -> None:
        if wrong is not None:
            if place is not None:
                await place.ready()
            made = Call(call.tool_name, call.args_as_dict(), "team", call.tool_call_id)
            wrong = desk.note_repeats(made, wrong, failed=True)
            self._history.answer(call, wrong, error=True)
            return
        task: Tool[Desk] = Tool(TASK.name, TASK.description, TASK.input, TASK.kind, self._task)
        tools = [
            task if tool is TASK else tool for tool in self._shelf.callable(self._all_tools(desk))
        ]
        if self._search is not None:
            tools = self._search.given_to(tools)
        files: list[Attachment] = []
        text, failed = await call_tool(
            tools,
            call.tool_name,
            call.args_as_dict(),
            desk,
            use_id=call.tool_call_id,
            place=place,
            attach=files.append,
        )
        if self._tool_texts is not None and is_team_tool(call.tool_name, tools):
            self._tool_texts.append(text)
        text, seen = attachments.seen_part(text, files, self._sees)
        self._history.answer(call, text, error=failed, attachments=seen)

    def _sees(self, media_type: str) -> bool:
        known = self._connection is not None and self._connection.sees(media_type)
        return known and not self._blind

    async def _task(self, given: TaskInput, desk: Desk) -> str | ToolResult:
        """Start a teammate, or run a subagent on this driver's model."""
        if given.name:
            return await TASK.run(given, desk)
        env = {**desk.env, **self._env}
        sub = Subagent(
            await subagent_spec(given, desk),
            desk,
            env=env,
            limits=self._limits or limits_in(env, desk),
            base=self._ask,
            server_tools=[] if self._servers is None else self._servers.tools,
            waits=self._waits,
            tape=self._tape,
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

    async def _shorten(self, desk: Desk, *, why: str) -> bool:
        """Shorten old results of tools. Returns whether that freed enough."""
        found = compaction.shortened(self._history.messages, self._history.tokens)
        if found is None:
            return False
        self._history.shorten(*found)
        desk.record("note", text=f"Shortened old results of tools ({why}): {found[1]} tokens less.")
        await self._save(desk)
        return True

    async def _compact(self, begun: Begun, desk: Desk, *, why: str) -> bool:
        """Replace the conversation with a summary; drop what cannot be summarized."""
        # The turn may have told only what changed since one that is now forgotten.
        state = None if begun.has_briefing else await desk.briefing()
        before, dropped, summary = len(self._history.messages), False, ""
        todos = await anyio.to_thread.run_sync(todo_text, desk.folder)
        self._history.drop_attachments(attachments.OLD)
        while self._history.messages:
            try:
                summary = await self._summary(desk)
            except RequestFailed:
                summary = ""
            if summary:
                told = compaction.summed_up(summary, begun, state, dropped=dropped, todos=todos)
                self._history.replace([], told)
                break
            dropped = True
            kept = compaction.newer_half(self._history.messages)
            told = self._history.owed if kept else compaction.forgotten(begun, state, todos=todos)
            self._history.replace(kept, told)
        lost = " Its older part was dropped." if dropped else ""
        desk.record(
            "note",
            text=f"Compacted a conversation of {before} messages ({why}).{lost}\n{summary}",
        )
        await self._save(desk)
        return True

    async def _summary(self, desk: Desk) -> str:
        """A summary of the conversation, by the small model if there is one and it can."""
        asked = self._history.with_prompts([compaction.ASK_FOR_SUMMARY])
        if self._small is not None:
            tools = shown(self._all_tools(desk), self._shelf)
            ask = replace(self._ask, tools=tools, words_only=True)
            if found := await self._small.text(asked, ask, desk, tokens=self._history.tokens):
                return found
        return (await self._send(asked, desk, words_only=True)).text or ""

    async def _save(self, desk: Desk) -> None:
        await anyio.to_thread.run_sync(histories.save, desk.folder, self._history, desk.redacted)
