"""Compaction: replace a conversation that no longer fits with a summary."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    UserPromptPart,
)

COMPACT_AT = 0.8
"""The share of the context window at which the conversation is compacted."""

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


def summed_up(summary: str, *, current: str, dropped: bool) -> list[ModelRequestPart]:
    """What the model gets instead of the conversation."""
    return _told([_BEGIN, summary, *([_DROPPED] if dropped else [])], current)


def forgotten(*, current: str) -> list[ModelRequestPart]:
    """What the model gets if nothing of the conversation could be kept."""
    return _told([_DROPPED], current)


def _told(texts: list[str], current: str) -> list[ModelRequestPart]:
    if current:
        cut = current[:_CURRENT_CHARS_MAX]
        texts.append(f"{_CURRENT}\n{cut}{'…' if cut != current else ''}")
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
