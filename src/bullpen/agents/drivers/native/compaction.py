"""Compaction: make a conversation that no longer fits shorter.

Old results of tools are shortened first. If that frees too little, a summary replaces the
conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ToolReturnPart,
    UserPromptPart,
)

COMPACT_AT = 0.8
"""The share of the context window at which the conversation is compacted."""

KEPT_SHARE = 0.25
"""The share of the conversation, its newest part, in which no result is shortened."""

FREED_SHARE = 0.3
"""How much of the conversation has to be freed. Each change makes the API read it all anew."""

_RESULT_CHARS_MAX = 2_000
_HEAD_CHARS, _TAIL_CHARS = 600, 200
_CHARS_A_TOKEN = 4

ASK_FOR_SUMMARY = """\
This conversation has become too long. Write a hand-over for yourself: it will replace the \
conversation, and you will see nothing else of it. Write, in this order:
1. what you were asked to do and by whom, with every requirement and limit in the original words;
2. what is done: changed files, commands and their results, decisions and their reasons;
3. what is not done, what you were about to do next, and what you are waiting for and from whom;
4. names, paths, ids, numbers and error texts that you will need again, exactly.
Leave out what you can read again in the files. Call no tools. Answer only with the hand-over."""

_BEGIN = "Your earlier conversation was too long and has been replaced by your own hand-over:"
_END = "Every turn starts with the state of your team. Trust it over the hand-over."
_DROPPED = (
    "The older part of this conversation was too long to summarize and was dropped. If you miss"
    " something from it, look at the files, the tasks and your mail."
)
_CURRENT = "This turn started with:"
_CURRENT_CHARS_MAX = 8_000


@dataclass(frozen=True, slots=True)
class Begun:
    """The text that started the turn, once it is in the conversation; whether it tells all."""

    text: str
    has_briefing: bool


def summed_up(
    summary: str, begun: Begun, state: str | None, *, dropped: bool, todos: str | None = None
) -> list[ModelRequestPart]:
    """What the model gets instead of the conversation.

    `state` is the state of its team, `todos` is its list as it is now.
    """
    return _told([_BEGIN, summary, *([_DROPPED] if dropped else [])], begun, state, todos)


def forgotten(begun: Begun, state: str | None, *, todos: str | None) -> list[ModelRequestPart]:
    """What the model gets if nothing of the conversation could be kept."""
    return _told([_DROPPED], begun, state, todos)


def _told(
    texts: list[str], begun: Begun, state: str | None, todos: str | None
) -> list[ModelRequestPart]:
    if state is not None:
        texts.append(state)
    if begun.text:
        cut = begun.text[:_CURRENT_CHARS_MAX]
        texts.append(f"{_CURRENT}\n{cut}{'…' if cut != begun.text else ''}")
    if todos:
        texts.append(f"{todos}\nThis list is newer than the one above, if there is one.")
    texts.append(_END)
    return [UserPromptPart(content="\n\n".join(texts))]


def newer_half(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """The newer half of a conversation, after a note that the older half was dropped.

    It starts with a model response, so that every tool result has its call, or is empty.
    """
    middle = max(len(messages) // 2, 1)
    for start in range(middle, len(messages)):
        # After an earlier halving, the first message is such a note itself.
        if isinstance(messages[start], ModelResponse) and start > 1:
            note = ModelRequest(parts=[UserPromptPart(content=_DROPPED)])
            return [note, *messages[start:]]
    return []


def shortened(
    messages: Sequence[ModelMessage], tokens: int
) -> tuple[list[ModelMessage], int] | None:
    """The conversation with its old large results of tools shortened, and how many tokens it lost.

    `tokens` is its present size. None if that would free too little.
    """
    room = int(tokens * KEPT_SHARE) * _CHARS_A_TOKEN
    freed, made = 0, list[ModelMessage]()
    for message in reversed(messages):
        if isinstance(message, ModelRequest):
            parts = [part if room > 0 else _shorter(part) for part in message.parts]
            freed += sum(_size(part) for part in message.parts) - sum(map(_size, parts))
            room -= sum(map(_size, parts))
            message = replace(message, parts=parts)
        else:
            room -= sum(len(str(part)) for part in message.parts)
        made.append(message)
    lost = freed // _CHARS_A_TOKEN
    return (made[::-1], lost) if lost >= tokens * FREED_SHARE else None


def _shorter(part: ModelRequestPart) -> ModelRequestPart:
    if not isinstance(part, ToolReturnPart) or not isinstance(part.content, str):
        return part
    same: Any = part
    text = part.content
    if len(text) <= _RESULT_CHARS_MAX:
        return part
    left_out = len(text) - _HEAD_CHARS - _TAIL_CHARS
    note = f"[… {left_out} characters were left out to save space. Call the tool again for them. …]"
    shorter: ModelRequestPart = replace(
        same, content=f"{text[:_HEAD_CHARS]}\n{note}\n{text[-_TAIL_CHARS:]}"
    )
    return shorter


def _size(part: ModelRequestPart) -> int:
    content = getattr(part, "content", "")
    return len(content) if isinstance(content, str) else 0
