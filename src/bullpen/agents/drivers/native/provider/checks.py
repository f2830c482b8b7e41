"""Look at answers for what an agent has to say: another model's name, and a cut prompt."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from pydantic_ai.messages import ModelMessage, ModelResponse

from bullpen.agents.contracts.desk import Reporting
from bullpen.agents.contracts.driver import TurnFailed
from bullpen.agents.drivers.native.model import Ask, ModelConnection

CHARS_PER_TOKEN_MAX = 7
"""No text of work has so many characters in a token: a server that counts less read less."""

_CHARS_MIN = 8_000


class AnswerChecks:
    """What was said about the answers of one agent, so that it is said once."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._names: set[str] = set()
        self._cut = False

    def look(
        self,
        connection: ModelConnection,
        messages: Sequence[ModelMessage],
        ask: Ask,
        said: ModelResponse,
        desk: Reporting,
    ) -> None:
        """Record what is odd about an answer. Raises TurnFailed if that ends the agent."""
        self._look_at_name(connection, said, desk)
        if not self._cut:
            self._look_at_size(connection, messages, ask, said, desk)

    def _look_at_name(
        self, connection: ModelConnection, said: ModelResponse, desk: Reporting
    ) -> None:
        other = connection.answered(said)
        if other is None or other in self._names:
            return
        if self._strict:
            raise TurnFailed(
                f"The agent asked for the model {connection.choice.model}, but the API answered"
                f" with {said.model_name}.",
                remedy=f"Ask for {said.model_name}, check the base URL, or allow other names.",
                for_good=True,
                failure="model",
            )
        self._names.add(other)
        desk.record(
            "note",
            text=f"The API answers with the model {said.model_name}; {connection.choice.model} was"
            " asked for.",
        )

    def _look_at_size(
        self,
        connection: ModelConnection,
        messages: Sequence[ModelMessage],
        ask: Ask,
        said: ModelResponse,
        desk: Reporting,
    ) -> None:
        counted = said.usage.input_tokens
        chars = len(ask.system) + sum(map(len, _texts(messages)))
        if not counted or chars < _CHARS_MIN or chars <= counted * CHARS_PER_TOKEN_MAX:
            return
        self._cut = True
        desk.record(
            "trouble",
            text=f"The server at {connection.choice.host} counted only {counted} tokens for a"
            f" prompt of {chars} characters: it seems to cut prompts without saying so. Set the"
            " model's context_window to what the server takes, or give the server a larger one.",
        )


def _texts(messages: Sequence[ModelMessage]) -> Iterator[str]:
    """The texts of a conversation. Pictures and the like have other sizes."""
    for message in messages:
        # What a model thought is not always sent again.
        for part in message.parts:
            content = getattr(part, "content", None)
            if part.part_kind != "thinking" and content is not None:
                items = content if isinstance(content, list | tuple) else [content]
                yield from (item for item in items if isinstance(item, str))
            args = getattr(part, "args", None)
            if args is not None:
                yield args if isinstance(args, str) else json.dumps(args, default=str)
