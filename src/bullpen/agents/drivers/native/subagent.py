"""A short-lived subagent: it answers one question for its agent and is no member of the team.

It has its own conversation and model. Its calls pass the limits of its type, then its agent's gate,
in its agent's name, and what it uses is booked on its agent.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import anyio
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Attachment, Tool
from bullpen.agents.drivers.native import attachments, compaction
from bullpen.agents.drivers.native.conversation import History
from bullpen.agents.drivers.native.instructions import subagent_text
from bullpen.agents.drivers.native.limiter import Limiter, RequestFailed
from bullpen.agents.drivers.native.model import Ask, ModelConnection, Waits, booked
from bullpen.agents.drivers.native.model_choice import choose
from bullpen.agents.drivers.native.provider.options import ModelOptions
from bullpen.agents.drivers.native.provider.search import ProviderSearch
from bullpen.agents.drivers.native.provider.taped import connect
from bullpen.agents.drivers.native.subagent_desk import SubagentDesk
from bullpen.agents.tapes.agent_tape import AgentTape
from bullpen.agents.tools.files.edit_forms import for_model
from bullpen.agents.tools.files.prompt_files import PromptFiles
from bullpen.agents.tools.side_by_side import Place, batches, only_reads, run_batch
from bullpen.agents.tools.skills.skill_tool import SKILL, skills_of
from bullpen.agents.tools.tool_search import TOOL_SEARCH, ToolShelf
from bullpen.agents.tools.toolbox import call as call_tool
from bullpen.agents.tools.toolbox import lacking, toolbox, with_server_tools
from bullpen.errors import Refused, Unavailable
from bullpen.protocol.agent import AgentSpec

REQUESTS_MAX = 30
"""How many requests a subagent makes, unless its definition sets `maxTurns`."""

TOKENS_MAX = 300_000
"""How many tokens a subagent uses before it has to answer."""

ANSWER_CHARS_MAX = 20_000

_END_S = 30.0

_ANSWER_NOW = "You have reached your limit. Call no tools. Answer now with what you have found."


def subagent_tools(
    desk: Desk, spec: AgentSpec, server_tools: Sequence[Tool[Desk]] = ()
) -> list[Tool[Desk]]:
    """Its agent's tools that its type has too. None of them speaks to the team or spawns.

    Raises Refused: no_tools.
    """
    lacks = lacking(spec, mode=spec.start_mode, is_lead=False, may_spawn=False)
    own = [tool for tool in toolbox(desk) if tool.kind != "team" and tool.name not in lacks]
    more = with_server_tools([], server_tools, desk.spec, mode=desk.mode, is_lead=desk.is_lead)
    tools = with_server_tools(own, more, spec, mode=spec.start_mode, is_lead=False)
    if TOOL_SEARCH not in tools and any(tool.deferred for tool in tools):
        tools.append(TOOL_SEARCH)
    if not tools:
        raise Refused(
            "A subagent of this type would have no tools here.",
            reason="no_tools",
            remedy="Use another subagent_type, or add `name` to start a teammate.",
        )
    return tools


class Subagent:
    """One subagent, from its prompt to its answer."""

    def __init__(
        self,
        spec: AgentSpec,
        desk: Desk,
        *,
        env: Mapping[str, str],
        limits: Path,
        base: Ask,
        server_tools: Sequence[Tool[Desk]] = (),
        waits: Waits,
        tape: AgentTape | None = None,
    ) -> None:
        self._spec = spec
        self._desk = desk
        self._env = env
        self._window = 0
        self._own = SubagentDesk(desk, spec)
        self._tools = subagent_tools(desk, spec, server_tools)
        self._base = base
        self._waits = waits
        self._tape = tape
        self._stream = "" if tape is None else tape.stream("subagent")
        self._choice = choose(spec.model, env)
        self._limiter = Limiter(
            limits, self._choice.credential, api=f"the API at {self._choice.host}"
        )
        self._tools = ProviderSearch(self._choice, self._limiter, waits, tape).given_to(self._tools)
        self._history = History()
        self._shelf = ToolShelf(self._history.loaded)
        self._used = 0

    async def run(self, prompt: str) -> str:
        """Work on the prompt; returns the answer. Raises Unavailable, or as `may_spend`."""
        files = PromptFiles(
            self._spec,
            user_home=self._env.get("HOME"),
            claude_home=self._env.get("CLAUDE_CONFIG_DIR"),
            redact=self._desk.redacted,
        )
        skills = None
        if SKILL in self._tools:
            skills = await anyio.to_thread.run_sync(skills_of, self._spec, self._env, self._desk)
            self._tools = [tool for tool in self._tools if tool is not SKILL or skills.offered]
        system = await anyio.to_thread.run_sync(
            subagent_text, self._desk.agent, self._spec, files, skills
        )
        ask = replace(self._base, system=system)
        # Its agent's connection serves one request at a time, and a job runs beside its turns.
        options = ModelOptions.of(self._spec.options)
        connection = connect(self._tape, self._stream, self._choice, self._waits, options)
        await connection.open()
        self._window = connection.context_window
        cause = "it was cancelled"
        try:
            told = await self._own.started()
            answer = await self._answer("\n\n".join([*told, prompt]), connection, ask)
            cause = "it has answered"
            return answer
        except RequestFailed as failed:
            cause = failed.words
            raise Unavailable(
                f"The subagent's request failed: {failed.words}",
                remedy=failed.remedy or "Try again, or do it yourself.",
            ) from failed
        finally:
            with anyio.move_on_after(_END_S, shield=True):
                await connection.aclose()
                await self._own.ended(cause)

    async def _answer(self, prompt: str, connection: ModelConnection, ask: Ask) -> str:
        prompts = [prompt]
        most = self._spec.turns_max or REQUESTS_MAX
        for number in itertools.count(1):
            full = self._history.tokens > compaction.COMPACT_AT * self._window
            last = number >= most or self._used >= TOKENS_MAX or full
            if last:
                prompts.append(_ANSWER_NOW)
            tools = for_model(self._shelf.shown(self._tools), self._choice.model)
            response = await self._send(
                self._history.with_prompts(prompts),
                connection,
                replace(ask, tools=tools, words_only=last),
            )
            answer = self._history.commit(prompts, (), response)
            prompts.clear()
            if last or not answer.response.tool_calls:
                return _bounded(response.text or "(The subagent gave no answer.)")
            calls = answer.response.tool_calls
            for batch in batches(calls, lambda call: only_reads(call.tool_name, self._tools)):
                await self._run_tools(batch, answer.wrong, connection)
        raise AssertionError("unreachable")

    async def _send(
        self, messages: Sequence[ModelMessage], connection: ModelConnection, ask: Ask
    ) -> ModelResponse:
        role = self._spec.role
        response = await booked(connection, self._limiter, messages, ask, self._desk, subagent=role)
        usage = response.usage
        self._used += usage.input_tokens - usage.cache_read_tokens + usage.output_tokens
        return response

    async def _run_tools(
        self,
        calls: Sequence[ToolCallPart],
        wrong: Mapping[str, str],
        connection: ModelConnection,
    ) -> None:
        async def run(call: ToolCallPart, place: Place | None) -> None:
            await self._call(call, wrong.get(call.tool_call_id), connection, place)

        await run_batch(calls, run)

    async def _call(
        self,
        call: ToolCallPart,
        wrong: str | None,
        connection: ModelConnection,
        place: Place | None,
    ) -> None:
        if wrong is not None:
            if place is not None:
                await place.ready()
            self._history.answer(call, wrong, error=True)
            return
        files: list[Attachment] = []
        text, failed = await call_tool(
            self._own.tools(self._shelf.callable(self._tools)),
            call.tool_name,
            call.args_as_dict(),
            self._own.as_desk,
            use_id=call.tool_call_id,
            place=place,
            attach=files.append,
        )
        text, seen = attachments.seen_part(text, files, connection.sees)
        self._history.answer(call, text, error=failed, attachments=seen)


def _bounded(text: str) -> str:
    if len(text) <= ANSWER_CHARS_MAX:
        return text
    return f"{text[:ANSWER_CHARS_MAX]}\n(Cut here: the answer has {len(text)} characters.)"
