"""The conversation of an agent, saved on disk so that it outlives the process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

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

from bullpen.agents.contracts.tool import Attachment
from bullpen.agents.drivers.conversation_file import append_line, write_whole
from bullpen.agents.drivers.native import attachments as files
from bullpen.agents.drivers.native.normalize import (
    INTERRUPTED,
    NO_OUTPUT,
    Answer,
    call_ids,
    normalized,
    normalized_history,
    readable,
)
from bullpen.agents.system.secrets import with_texts
from bullpen.errors import Unavailable

FILE = "history.json"
FORMAT = 2
"""Format 1 had one line only: the whole conversation."""

# The file is written anew when this much of it, and half of it, is no longer true.
_WASTE_MIN_BYTES = 256 * 1024

CANCELLED = (
    "Cancelled: the turn was stopped while the tool was running. The call may have been carried out"
    " partly. Check before you repeat it."
)
_CUT_BACK = (
    "(The API refused the conversation, so your last answer was removed from it. The tool calls in"
    " it may have been carried out. Check before you repeat them.)"
)


@dataclass(slots=True)
class _Saved:
    """What this process wrote to the file, to append to it only what is new."""

    messages: list[ModelMessage]
    ids: int
    size: int
    # How long the last line is if it has owed parts, which the next line repeats or replaces, and
    # how long all such lines before it are.
    owed_bytes: int = 0
    waste: int = 0
    # How many attachments the owed parts have. If one is dropped, its file goes with the next whole
    # save.
    owed_attachments: int = 0


@dataclass(slots=True)
class History:
    """The conversation up to the model's last response, and what the next request must contain.

    `owed` are the parts that the next request must contain: tool results or a summary. `ids` are
    the team messages that are in the conversation, or were before it was compacted.
    """

    messages: list[ModelMessage] = field(default_factory=list)
    owed: list[ModelRequestPart] = field(default_factory=list)
    ids: dict[str, None] = field(default_factory=dict)
    # The size of the conversation in tokens, as the API counted it.
    tokens: int = 0
    # The names of the deferred tools that the model has loaded, in this order.
    loaded: list[str] = field(default_factory=list)
    # Whether there are changes that are not saved yet.
    unsaved: bool = False
    saved: _Saved | None = field(default=None, repr=False, compare=False)

    def copy(self) -> History:
        """The same conversation, which changes to this one leave alone."""
        return replace(self, messages=list(self.messages), owed=list(self.owed))

    def restore(self, earlier: History) -> None:
        """Take back what was done to the conversation since a copy was made."""
        self.messages, self.owed = earlier.messages, earlier.owed
        self.tokens, self.unsaved = earlier.tokens, True

    def cut_back(self) -> bool:
        """Go back to the last request that the API accepted, without its answer.

        Returns whether there is one.
        """
        if len(self.messages) < 2 or not isinstance(self.messages[-2], ModelRequest):
            return False
        accepted = list(self.messages[-2].parts)
        self.replace(self.messages[:-2], [*accepted, UserPromptPart(content=_CUT_BACK)])
        return True

    def with_prompts(self, prompts: Sequence[str]) -> list[ModelMessage]:
        """The messages of a request: the conversation, what is owed, then these prompts."""
        return [*self.messages, ModelRequest(parts=self._parts(prompts))]

    def commit(self, prompts: Sequence[str], ids: Iterable[str], response: ModelResponse) -> Answer:
        """Add a request that succeeded and its response, which is returned as it is stored."""
        answer = normalized(response, call_ids(self.messages))
        self.messages.append(ModelRequest(parts=self._parts(prompts)))
        self.messages.append(answer.response)
        self.owed = []
        self.ids.update(dict.fromkeys(ids))
        self.tokens = response.usage.input_tokens + response.usage.output_tokens
        self.unsaved = True
        return answer

    def answer(
        self,
        call: ToolCallPart,
        text: str,
        *,
        error: bool,
        attachments: Sequence[Attachment] = (),
    ) -> None:
        """Add the result of a tool call, with what the model is shown."""
        outcome: Literal["failed", "success"] = "failed" if error else "success"
        text = readable(text) if text.strip() else NO_OUTPUT
        content = files.result_content(text, attachments)
        result = ToolReturnPart(call.tool_name, content, call.tool_call_id, outcome=outcome)
        self.owed.append(result)
        self.unsaved = True
        if attachments:
            self._change(files.pruned)

    @property
    def has_attachments(self) -> bool:
        """Whether the next request would have an image or a PDF."""
        return bool(files.attachments_in(self.with_prompts([])))

    def drop_attachments(self, why: str) -> None:
        """Put words in place of all images and PDFs."""
        self._change(lambda messages: files.dropped(messages, why))

    def _change(self, change: Callable[[Sequence[ModelMessage]], list[ModelMessage]]) -> None:
        *self.messages, last = change(self.with_prompts([]))
        self.owed = list(last.parts) if isinstance(last, ModelRequest) else []
        self.unsaved = True

    def replace(self, messages: list[ModelMessage], owed: list[ModelRequestPart]) -> None:
        """Replace the conversation; the ids stay."""
        self.messages = messages
        self.owed = owed
        self.tokens = 0
        self.unsaved = True

    def shorten(self, messages: list[ModelMessage], freed: int) -> None:
        """Replace the conversation by a shorter form of itself."""
        self.messages = messages
        self.tokens = max(self.tokens - freed, 0)
        self.unsaved = True

    def settle(self, why: str) -> None:
        """Answer every open tool call: no API accepts a call without a result."""
        for call in self.open_calls():
            self.answer(call, why, error=True)

    def open_calls(self) -> list[ToolCallPart]:
        """The tool calls without a result, in order."""
        if not self.messages or not isinstance(last := self.messages[-1], ModelResponse):
            return []
        answered = {part.tool_call_id for part in self.owed if isinstance(part, ToolReturnPart)}
        return [call for call in last.tool_calls if call.tool_call_id not in answered]

    def _parts(self, prompts: Sequence[str]) -> list[ModelRequestPart]:
        return [*self.owed, *(UserPromptPart(content=readable(prompt)) for prompt in prompts)]


def load(folder: Path) -> tuple[History, str | None]:
    """The history in this folder, and what was wrong with a file that was moved aside."""
    path = folder / FILE
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return History(), None
    except OSError as error:
        raise _cannot("read", path, error) from error
    try:
        history = _parse(replayed(raw), folder)
    except (ValueError, KeyError, TypeError) as error:
        return History(), _move_aside(path, error)
    history.settle(INTERRUPTED)
    return history, None


def replayed(raw: bytes) -> dict[str, Any]:
    """The conversation that the lines of a file give. An incomplete last line is left out."""
    first, *later = raw.split(b"\n")
    kept: dict[str, Any] = json.loads(first)
    if kept["format"] not in (1, FORMAT):
        raise ValueError(f"its format is {kept['format']!r}, not {FORMAT}")
    for number, line in enumerate(later[:-1], 2):
        try:
            added = json.loads(line)
            messages = [*kept["messages"][: added["from"]], *added["messages"]]
            kept = {**kept, **added, "ids": [*kept["ids"], *added["ids"]], "messages": messages}
        except (ValueError, KeyError, TypeError) as error:
            if number < len(later):
                raise ValueError(f"line {number} is damaged ({error})") from None
    return kept


def save(folder: Path, history: History, redacted: Callable[[str], str]) -> None:
    """Store the history durably and without the secrets that the model may have written.

    What is new since the last time is one line more; after a crash in between, the conversation is
    as it was before. The file is written anew, atomically, if an earlier message changed.
    """
    path = folder / FILE
    saved, history.saved = history.saved, None
    try:
        history.saved = (saved and _append(folder, history, saved, redacted)) or _rewrite(
            folder, history, redacted
        )
    except OSError as error:
        raise _cannot("write", path, error) from error
    history.unsaved = False


def _append(
    folder: Path, history: History, saved: _Saved, redacted: Callable[[str], str]
) -> _Saved | None:
    """Append what is new. None if the file has to be written anew."""
    count, size = len(saved.messages), saved.size
    waste = saved.waste + saved.owed_bytes
    same = len(history.messages) >= count and all(
        now is before for now, before in zip(history.messages, saved.messages, strict=False)
    )
    if not same or len(history.ids) < saved.ids or waste > max(_WASTE_MIN_BYTES, size // 2):
        return None
    added = [*history.messages[count:], *_owed(history)]
    if len(files.attachments_in(added)) < saved.owed_attachments:
        return None
    new = files.kept_in_files(folder, added)
    ids = list(islice(history.ids, saved.ids, None))
    line = _dump(history, {"from": count, "ids": ids, "loaded": history.loaded}, new, redacted)
    if not append_line(folder / FILE, line, size):
        return None
    return _Saved(
        list(history.messages),
        len(history.ids),
        size + len(line),
        len(line) if history.owed else 0,
        waste,
        len(files.attachments_in(_owed(history))),
    )


def _rewrite(folder: Path, history: History, redacted: Callable[[str], str]) -> _Saved:
    kept = files.kept_in_files(folder, [*history.messages, *_owed(history)])
    loaded = {"loaded": history.loaded} if history.loaded else {}
    data = _dump(history, {"format": FORMAT, "ids": list(history.ids), **loaded}, kept, redacted)
    write_whole(folder / FILE, data)
    files.forget_others(folder, kept)
    owed = len(files.attachments_in(_owed(history)))
    return _Saved(list(history.messages), len(history.ids), len(data), owed_attachments=owed)


def _owed(history: History) -> list[ModelMessage]:
    return [ModelRequest(parts=history.owed)] if history.owed else []


def _dump(
    history: History,
    head: dict[str, Any],
    told: list[ModelMessage],
    redacted: Callable[[str], str],
) -> bytes:
    """One line of the file."""
    # The library serializes the messages; they are large, so they are not parsed again.
    messages = ModelMessagesTypeAdapter.dump_json(told)
    text = messages.decode("utf-8")
    if redacted(text) != text:
        # Redact values, not the JSON text, where a secret could match by accident.
        messages = json.dumps(with_texts(json.loads(text), redacted)).encode()
    text = json.dumps({**head, "tokens": history.tokens, "owed": bool(history.owed)})
    return text[:-1].encode() + b', "messages": ' + messages + b"}\n"


def _parse(kept: dict[str, Any], folder: Path) -> History:
    messages = ModelMessagesTypeAdapter.validate_python(kept["messages"])
    if bool(kept["owed"]) is not (bool(messages) and isinstance(messages[-1], ModelRequest)):
        raise ValueError("the owed parts are not a request")
    messages = normalized_history(files.read_again(folder, messages))
    owed: list[ModelRequestPart] = []
    if messages and isinstance(last := messages[-1], ModelRequest):
        owed = list(last.parts)
        messages.pop()
    ids = dict.fromkeys(map(str, kept["ids"]))
    loaded = [str(name) for name in kept.get("loaded", [])]
    return History(messages, owed, ids, int(kept["tokens"]), loaded)


def _move_aside(path: Path, error: Exception) -> str:
    number = 1
    while (aside := path.with_name(f"history.damaged-{number}.json")).exists():
        number += 1
    try:
        os.rename(path, aside)
    except OSError as failed:
        raise _cannot("move aside", path, failed) from failed
    return f"Could not read the history; moved it to {aside}: {error}"


def _cannot(what: str, path: Path, error: OSError) -> Unavailable:
    return Unavailable(
        f"Cannot {what} the agent's history {path}: {error.strerror}.",
        remedy="Check the disk and the permissions of the directory.",
    )
