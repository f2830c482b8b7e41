"""What an agent has said and been told, on disk: it outlives the process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from bullpen.agents.drivers.kept import write_whole
from bullpen.agents.secrets import with_texts
from bullpen.errors import Unavailable

FILE = "history.json"
FORMAT = 1

INTERRUPTED = (
    "There is no answer: the agent's process ended while the tool ran. It may have been carried"
    " out, in part or whole; look before you do it again."
)
CANCELLED = (
    "Cancelled by a stop of the turn before it answered. It may have been carried out in part;"
    " look before you do it again."
)


@dataclass(slots=True)
class History:
    """The conversation up to the last answer of the model, and what the model is owed.

    `owed` goes into the next request whatever else does: answers of tools, or a summary. `ids` are
    the messages of the team that are in the conversation, or were before it was summed up.
    """

    messages: list[ModelMessage] = field(default_factory=list)
    owed: list[ModelRequestPart] = field(default_factory=list)
    ids: dict[str, None] = field(default_factory=dict)
    # The size of the conversation in tokens, as the API counted it.
    tokens: int = 0
    # Whether there is something that the file does not hold yet.
    unsaved: bool = False

    def with_prompts(self, prompts: Sequence[str]) -> list[ModelMessage]:
        """The messages of a request that says this, after what is owed."""
        return [*self.messages, ModelRequest(parts=self._parts(prompts))]

    def commit(self, prompts: Sequence[str], ids: Iterable[str], response: ModelResponse) -> None:
        """Keep a request that succeeded, and its answer."""
        self.messages.append(ModelRequest(parts=self._parts(prompts)))
        self.messages.append(response)
        self.owed = []
        self.ids.update(dict.fromkeys(ids))
        self.tokens = response.usage.input_tokens + response.usage.output_tokens
        self.unsaved = True

    def answer(self, call: ToolCallPart, text: str, *, error: bool) -> None:
        """Keep the answer of a tool."""
        self.owed.append(
            ToolReturnPart(
                tool_name=call.tool_name,
                content=text,
                tool_call_id=call.tool_call_id,
                outcome="failed" if error else "success",
            )
        )
        self.unsaved = True

    def replace(self, messages: list[ModelMessage], owed: list[ModelRequestPart]) -> None:
        """Take another conversation for this one; the ids stay."""
        self.messages = messages
        self.owed = owed
        self.tokens = 0
        self.unsaved = True

    def settle(self, why: str) -> None:
        """Answer every tool call that has no answer: no API accepts a call without one."""
        for call in self.open_calls():
            self.answer(call, why, error=True)

    def open_calls(self) -> list[ToolCallPart]:
        """The tool calls that have no answer yet, in order."""
        if not self.messages or not isinstance(last := self.messages[-1], ModelResponse):
            return []
        answered = {part.tool_call_id for part in self.owed if isinstance(part, ToolReturnPart)}
        return [call for call in last.tool_calls if call.tool_call_id not in answered]

    def _parts(self, prompts: Sequence[str]) -> list[ModelRequestPart]:
        return [*self.owed, *(UserPromptPart(content=prompt) for prompt in prompts)]


def load(folder: Path) -> tuple[History, str | None]:
    """The history in this folder, and what was wrong with it if it had to be moved aside.

    Raises:
        Unavailable: the file is there and cannot be read.
    """
    path = folder / FILE
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return History(), None
    except OSError as error:
        raise _cannot("read", path, error) from error
    try:
        history = _parse(json.loads(raw))
    except (ValueError, KeyError, TypeError) as error:
        return History(), _move_aside(path, error)
    history.settle(INTERRUPTED)
    return history, None


def save(folder: Path, history: History, redacted: Callable[[str], str]) -> None:
    """Write the history in one step: a crash leaves the old file or the new one.

    What the model itself wrote may hold a secret, which must not be on disk.
    """
    path = folder / FILE
    try:
        write_whole(path, _dump(history, redacted))
    except OSError as error:
        raise _cannot("write", path, error) from error
    history.unsaved = False


def _dump(history: History, redacted: Callable[[str], str]) -> bytes:
    owed = [ModelRequest(parts=history.owed)] if history.owed else []
    # The library writes the messages itself; they are the bulk, so they are not parsed again.
    messages = ModelMessagesTypeAdapter.dump_json([*history.messages, *owed])
    text = messages.decode("utf-8")
    if redacted(text) != text:
        # In the values and not in the text, of which a secret may be but an accidental part.
        messages = json.dumps(with_texts(json.loads(text), redacted)).encode()
    head = json.dumps(
        {
            "format": FORMAT,
            "ids": list(history.ids),
            "tokens": history.tokens,
            "owed": bool(owed),
        }
    )
    return head[:-1].encode() + b', "messages": ' + messages + b"}\n"


def _parse(kept: Any) -> History:
    if kept["format"] != FORMAT:
        raise ValueError(f"its format is {kept['format']!r}, not {FORMAT}")
    messages = ModelMessagesTypeAdapter.validate_python(kept["messages"])
    owed: list[ModelRequestPart] = []
    if kept["owed"]:
        last = messages.pop()
        if not isinstance(last, ModelRequest):
            raise ValueError("what is owed is no request")
        owed = list(last.parts)
    ids = dict.fromkeys(map(str, kept["ids"]))
    return History(messages, owed, ids, int(kept["tokens"]))


def _move_aside(path: Path, error: Exception) -> str:
    number = 1
    while (aside := path.with_name(f"history.damaged-{number}.json")).exists():
        number += 1
    try:
        os.rename(path, aside)
    except OSError as failed:
        raise _cannot("move aside", path, failed) from failed
    return f"The history could not be read and is now {aside}: {error}"


def _cannot(what: str, path: Path, error: OSError) -> Unavailable:
    return Unavailable(
        f"Cannot {what} the agent's history {path}: {error.strerror}.",
        remedy="Look at the disk and at the permissions of the directory.",
    )
