"""Requests to and answers of a mock model, the same for every vendor's API."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from bullpen.protocol.names import LEAD

Api = Literal["anthropic", "responses", "chat", "gemini", "bedrock"]
"""Anthropic Messages, OpenAI Responses, OpenAI Chat Completions, Google's generateContent, and
Amazon Bedrock's Converse.
"""

Stop = Literal["end", "length", "filter"]

Break = Literal["close", "reset", "end", "damage", "silence", "error"]
"""How an answer breaks: the connection is closed or reset, the stream ends politely, an event is
damaged, nothing more comes, or the API reports the error of the fault in the stream.
"""

_numbers = itertools.count(1)
_WHO = re.compile(r"You are (?:(the lead) of team|([^\s,.]+))")


def tokens_of(text: str) -> int:
    """Return the number of tokens that the mock counts for a text."""
    return len(text) // 4


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the model. A `broken` one ends in the middle of its input."""

    name: str
    input: Mapping[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=lambda: f"call_{next(_numbers):06d}")
    broken: bool = False

    @property
    def json(self) -> str:
        """Return the input as it is streamed."""
        text = json.dumps(dict(self.input))
        return text[: len(text) // 2] if self.broken else text


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a tool. Only Anthropic's API says whether it was an error."""

    id: str
    text: str
    error: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of the conversation, as the API got it."""

    role: Literal["user", "assistant"]
    text: str = ""
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request as the server got it. `at` is the monotonic clock of the server's process."""

    api: Api
    model: str
    system: str
    turns: tuple[Turn, ...]
    tools: Mapping[str, Mapping[str, Any]]
    stream: bool
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    at: float

    @property
    def agent(self) -> str | None:
        """Return the name in the "You are NAME" of the system text; the lead's by its role."""
        found = _WHO.search(self.system)
        return (LEAD if found[1] else found[2]) if found else None

    @property
    def given(self) -> str:
        """Return everything said to the model since it last spoke: user text and tool results."""
        new: list[str] = []
        for turn in reversed(self.turns):
            if turn.role == "assistant":
                break
            new = [*(result.text for result in turn.results), turn.text, *new]
        return "\n".join(text for text in new if text)

    @property
    def text(self) -> str:
        """Return everything that was said by anybody, in order."""
        said = ((*(r.text for r in turn.results), turn.text) for turn in self.turns)
        return "\n".join(text for texts in said for text in texts if text)

    @property
    def results(self) -> tuple[Result, ...]:
        """Return every tool result of the conversation, in order."""
        return tuple(result for turn in self.turns for result in turn.results)

    @property
    def tokens(self) -> int:
        """Return the billed tokens: everything that was sent, by length."""
        sent = {key: value for key, value in self.body.items() if key not in {"model", "stream"}}
        return tokens_of(json.dumps(sent, ensure_ascii=False))


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model answers. `model` and `input_tokens` replace the defaults.

    Only Anthropic's API reports cache reads and writes, besides the input. `stop` says that the
    answer was cut off at its maximum length, or held back by a filter.
    """

    text: str = ""
    calls: Sequence[Call] = ()
    model: str | None = None
    input_tokens: int | None = None
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    delay_s: float = 0.0
    stop: Stop = "end"

    @classmethod
    def call(cls, name: str, text: str = "", **given: Any) -> Reply:
        """Return a reply with one tool call."""
        return cls(text, (Call(name, given),))


@dataclass(frozen=True, slots=True)
class Fault:
    """A request that fails. The error body has the vendor's format unless `body` is given.

    With `drop`, the answer begins with that reply and breaks in the middle of it, or after so many
    events: `how` it breaks. What was said until then is billed. `hang_s` is how long nothing
    happens before. `raw` is sent instead of JSON, as it is.
    """

    status: int = 500
    kind: str = "api_error"
    message: str = "Internal server error"
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    drop: Reply | None = None
    after: int | None = None
    how: Break = "close"
    hang_s: float = 0.0
    raw: str | None = None

    @classmethod
    def rate_limited(cls, retry_after: float | None = None) -> Fault:
        """Return a 429, with the seconds to wait if given."""
        headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
        return cls(429, "rate_limit_error", "Too many requests", "rate_limit_exceeded", headers)

    @classmethod
    def overloaded(cls) -> Fault:
        """Return a 529, which Anthropic uses when it is overloaded."""
        return cls(529, "overloaded_error", "Overloaded", "server_is_overloaded")

    @classmethod
    def too_long(cls, tokens: int = 210_000, most: int = 200_000) -> Fault:
        """Return a 400 with the words and code that vendors use for a prompt that is too long."""
        message = f"prompt is too long: {tokens} tokens > {most} maximum"
        return cls(400, "invalid_request_error", message, "context_length_exceeded")

    @classmethod
    def refused(cls, message: str = "messages: bad request") -> Fault:
        """Return a 400 for another reason."""
        return cls(400, "invalid_request_error", message)

    @classmethod
    def unauthorized(cls) -> Fault:
        """Return a 401."""
        return cls(401, "authentication_error", "invalid x-api-key", "invalid_api_key")

    @classmethod
    def dropped(
        cls, after: Reply | None = None, *, events: int | None = None, how: Break = "close"
    ) -> Fault:
        """Return a connection that breaks: in the middle of a reply, or before the first byte."""
        return cls(status=0, drop=after, after=events, how=how)

    @classmethod
    def hanging(cls, seconds: float) -> Fault:
        """Return nothing for this long, then a connection that breaks."""
        return cls(status=0, hang_s=seconds)
