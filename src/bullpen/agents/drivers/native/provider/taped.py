"""A connection to a model whose answers are recorded, or come from a tape."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import anyio
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    ThinkingPart,
    ToolReturnPart,
    UserPromptPart,
)

from bullpen.agents.drivers.native.limiter import RequestFailed
from bullpen.agents.drivers.native.model import Ask, ModelConnection, Used, Waits
from bullpen.agents.drivers.native.model_choice import ModelChoice
from bullpen.agents.drivers.native.provider.options import ModelOptions
from bullpen.agents.drivers.native.sent_schema import sent_schema
from bullpen.agents.system.secrets import with_texts
from bullpen.agents.tapes.agent_tape import AgentTape
from bullpen.agents.tapes.format import TapedCall
from bullpen.agents.tapes.requests import Asked, Difference, Piece, digest, kept, pieces_of
from bullpen.protocol.agent import REFUSALS, Failure

CANCELLED = "cancelled"
"""How a request failed that somebody interrupted."""

_LASTING: frozenset[Failure] = frozenset({*REFUSALS, "too_long", "rejected", "endless"})
_INTERRUPT_S = 60.0


def connect(
    tape: AgentTape | None,
    stream: str,
    choice: ModelChoice,
    waits: Waits,
    options: ModelOptions,
    *,
    booked_as: str | None = None,
) -> ModelConnection:
    """A connection for one conversation of an agent; with a tape, it records or replays."""
    if tape is None:
        return ModelConnection(choice, waits, options, booked_as=booked_as)
    return _Taped(tape, stream, choice, waits, options, booked_as=booked_as)


class _Taped(ModelConnection):
    """A connection of an agent that has a tape."""

    def __init__(
        self,
        tape: AgentTape,
        stream: str,
        choice: ModelChoice,
        waits: Waits,
        options: ModelOptions,
        *,
        booked_as: str | None,
    ) -> None:
        super().__init__(choice, waits, options, booked_as=booked_as)
        self._tape = tape
        self._stream = stream

    async def open(self) -> None:
        """Prepare for requests. A replay asks no server: the tape knows the window."""
        call = self._tape.expected(self._stream) if self._tape.is_replay else None
        if call is not None and self.options.context_window is None:
            self.options = self.options.over(ModelOptions(context_window=call.window))
        if self._tape.is_replay and self.options.context_window is None:
            self.options = self.options.over(ModelOptions(context_window=self.context_window))
        await super().open()

    async def request(
        self, messages: Sequence[ModelMessage], ask: Ask, *, used: Used
    ) -> ModelResponse:
        """Send a request and record its answer, or answer it from the tape."""
        asked = self._asked(messages, ask)
        if self._tape.is_replay:
            return await self._replayed(asked, used)
        asked_ms = self._tape.now()
        try:
            said = await super().request(messages, ask, used=used)
        except RequestFailed as failed:
            if failed.kind in _LASTING:
                words = {"kind": failed.kind, "words": failed.words, "remedy": failed.remedy}
                self._add(asked, asked_ms, failed=with_texts(words, self._marked))
            raise
        except anyio.get_cancelled_exc_class():
            self._add(asked, asked_ms, failed={"kind": CANCELLED})
            raise
        self._add(asked, asked_ms, said=with_texts(_as_json(said), self._marked))
        return said

    async def _replayed(self, asked: Asked, used: Used) -> ModelResponse:
        asked_ms = self._tape.now()
        call = self._tape.compare(self._stream, asked)
        await self._tape.due(call, answer=True)
        if call.failed is not None:
            await self._failed(call, asked, asked_ms)
        said = self._said(call)
        calls = [each.tool_name for each in said.tool_calls]
        self._report(self._priced(said.usage, said), said, calls, used)
        self._add(asked, asked_ms, said=call.said)
        return said

    async def _failed(self, call: TapedCall, asked: Asked, asked_ms: int) -> None:
        """Fail as on the tape. Raises RequestFailed, or is cancelled."""
        failed = call.failed or {}
        if failed.get("kind") == CANCELLED:
            try:
                await anyio.sleep(_INTERRUPT_S)
            finally:
                self._add(asked, asked_ms, failed=failed)
            lines = ("- the request was interrupted", "+ nobody interrupted it")
            self._tape.depart(self._stream, Difference("interruption", lines))
        self._add(asked, asked_ms, failed=failed)
        kind = failed.get("kind", "")
        known: Failure = next((each for each in _LASTING if each == kind), "rejected")
        words, remedy = failed.get("words", ""), failed.get("remedy", "")
        raise RequestFailed(known, words, remedy=remedy)

    def _said(self, call: TapedCall) -> ModelResponse:
        row = with_texts(call.said, self._tape.places.unmarked)
        try:
            found = ModelMessagesTypeAdapter.validate_python([row])[0]
        except ValueError as error:
            lines = ("- no answer that this version can read", f"+ {str(error).splitlines()[0]}")
            self._tape.depart(self._stream, Difference("answer on the tape", lines))
        if not isinstance(found, ModelResponse):
            lines = ("- no answer of a model", f"+ {type(found).__name__}")
            self._tape.depart(self._stream, Difference("answer on the tape", lines))
        return found

    def _add(self, asked: Asked, asked_ms: int, **told: Any) -> None:
        self._tape.add(
            self._stream,
            asked,
            model=str(self.choice),
            window=self.context_window,
            asked_ms=asked_ms,
            **told,
        )

    def _marked(self, text: str) -> str:
        return self._tape.places.marked(self._tape.redacted(text))

    def _normal(self, text: str) -> str:
        return self._tape.places.normal(self._tape.redacted(text))

    def _asked(self, messages: Sequence[ModelMessage], ask: Ask) -> Asked:
        tools = {tool.name: _tool_digest(tool.description, tool.input) for tool in ask.tools}
        if ask.search is not None:
            tools["(search)"] = digest(repr(ask.search))
        pieces = [kept(piece) for piece in self._pieces(messages)]
        return Asked(
            self._normal(ask.system),
            tools,
            len(messages),
            tuple(pieces),
            words_only=ask.words_only,
        )

    def _pieces(self, messages: Sequence[ModelMessage]) -> Iterator[Piece]:
        """What is new in a conversation: its last message."""
        for part in messages[-1].parts if messages else ():
            content = getattr(part, "content", "")
            if isinstance(part, UserPromptPart):
                yield from pieces_of(self._normal(_text(content)))
            elif isinstance(part, ToolReturnPart):
                yield Piece(part.tool_name, self._normal(_text(content)))
            else:
                yield Piece(type(part).__name__, self._normal(_text(content)))


def _tool_digest(description: str, model: Any) -> str:
    return digest(json.dumps([description, sent_schema(model)], sort_keys=True))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "\n".join(each if isinstance(each, str) else _file(each) for each in content)
    return json.dumps(content, sort_keys=True, default=str)


def _file(part: Any) -> str:
    """An image or PDF, by its type and digest."""
    data = getattr(part, "data", b"")
    raw = data if isinstance(data, bytes) else str(part).encode()
    return f"[{getattr(part, 'media_type', type(part).__name__)} {digest(raw.hex())}]"


def _as_json(said: ModelResponse) -> Mapping[str, Any]:
    """An answer without what only its API understands."""
    parts = [
        ThinkingPart(part.content) if isinstance(part, ThinkingPart) else part
        for part in said.parts
    ]
    plain = ModelResponse(
        parts,
        usage=said.usage,
        model_name=said.model_name,
        timestamp=said.timestamp,
        provider_name=said.provider_name,
        finish_reason=said.finish_reason,
    )
    (row,) = ModelMessagesTypeAdapter.dump_python([plain], mode="json")
    told: Mapping[str, Any] = _stated(row)
    return told


def _stated(value: Any) -> Any:
    """JSON without the fields that say nothing. What a tool is called with stays as it is."""
    if isinstance(value, Mapping):
        return {
            name: each if name == "args" else _stated(each)
            for name, each in value.items()
            if name == "args" or each not in (None, {}, [])
        }
    return [_stated(each) for each in value] if isinstance(value, list) else value
