"""Making a conversation shorter when it no longer fits: a summary in place of what was said."""

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
"""The share of the context window at which the conversation is summed up."""

ASK_FOR_SUMMARY = """\
The conversation has become too long to go on. Write a hand-over for yourself: after this, you \
will see nothing of it but what you write now. Say, in this order:
1. what you were asked to do, by whom, with every requirement and limit in the original words;
2. what is done: files changed, commands run and what they showed, decisions and their reasons;
3. what is not done, what you were about to do next, and what you are waiting for and from whom;
4. names, paths, ids, numbers and error texts that you will need again, exactly.
Leave out what can be read again in the files. Call no tool. Answer with the hand-over alone."""

_BEGIN = "Your earlier conversation was too long and has been replaced by your own hand-over:"
_END = "The state of your team follows with every turn; where it differs from this, it is right."
_DROPPED = (
    "The older part of this conversation was too long even to be summed up, and was dropped. What"
    " you knew only from there is lost: look at the files, the tasks and your mail."
)
_CURRENT = "This turn began with:"
_CURRENT_CHARS_MAX = 8_000


def summed_up(summary: str, *, current: str, dropped: bool) -> list[ModelRequestPart]:
    """What the model is told in place of the conversation."""
    return _told([_BEGIN, summary, *([_DROPPED] if dropped else [])], current)


def forgotten(*, current: str) -> list[ModelRequestPart]:
    """What the model is told when nothing of the conversation could be kept."""
    return _told([_DROPPED], current)


def _told(texts: list[str], current: str) -> list[ModelRequestPart]:
    if current:
        cut = current[:_CURRENT_CHARS_MAX]
        texts.append(f"{_CURRENT}\n{cut}{'…' if cut != current else ''}")
    texts.append(_END)
    return [UserPromptPart(content="\n\n".join(texts))]


def newer_half(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """The newer half of a conversation, which begins by saying that the older one was dropped.

    It begins after that with an answer of the model, so that every answer of a tool that is left
    still has its call. Nothing is left when there is nothing to halve.
    """
    middle = max(len(messages) // 2, 1)
    for start in range(middle, len(messages)):
        # The first message of what is left of an earlier halving is such a note itself.
        if isinstance(messages[start], ModelResponse) and start > 1:
            note = ModelRequest(parts=[UserPromptPart(content=_DROPPED)])
            return [note, *messages[start:]]
    return []
