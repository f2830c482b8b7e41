"""Make what a model said a conversation that every API accepts. Pure.

The APIs refuse a conversation in which two tool calls have the same id, a tool's name has other
characters than letters, digits, `_` and `-`, a text is blank, an answer has neither text nor call
or ends in a thought, a call has no result, results are not in the order of their calls, or the
same side speaks twice. A model can answer with all of that. Stored as it came, one such answer
would make the API refuse every later request of the agent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from bullpen.agents.system.secrets import with_texts

NO_TEXT = "(No text.)"
"""Stands for an answer that has neither text nor calls."""

NO_OUTPUT = "(No output.)"
"""Stands for an empty tool result."""

INTERRUPTED = (
    "No result: the agent's process ended while the tool was running. The call may have been"
    " carried out, partly or completely. Check before you repeat it."
)

_BEGINNING = "(The beginning of this conversation is missing.)"
_CONTINUE = "Continue."
_UNNAMED = "unnamed"
_NAME_MAX = 64
_ID_MAX = 64
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer as it is stored. `wrong` says by id why a call cannot be made."""

    response: ModelResponse
    wrong: Mapping[str, str]


def normalized(response: ModelResponse, taken: Collection[str] = ()) -> Answer:
    """An answer that every API accepts in a conversation that already has calls with these ids."""
    ids, wrong = set(taken), dict[str, str]()
    parts: list[ModelResponsePart] = []
    for part in response.parts:
        match part:
            case TextPart(content=text):
                if text.strip():
                    parts.append(_with(part, content=readable(text)))
            case ThinkingPart(content=text):
                if text.strip() or part.signature or part.provider_details:
                    parts.append(_with(part, content=readable(text)))
            case ToolCallPart():
                call, why = _call(part, ids, response.provider_name)
                ids.add(call.tool_call_id)
                parts.append(call)
                if why:
                    wrong[call.tool_call_id] = why
            case _:
                parts.append(part)
    if not parts or isinstance(parts[-1], ThinkingPart):
        parts.append(TextPart(NO_TEXT))
    if parts == list(response.parts):
        return Answer(response, wrong)
    return Answer(replace(response, parts=parts), wrong)


def normalized_history(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """A whole conversation that every API accepts, for example one that an older version stored."""
    history: list[ModelMessage] = []
    ids: set[str] = set()
    # The calls of the last answer, each with the id that the model gave it.
    calls: list[tuple[str, ToolCallPart]] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            if not history or isinstance(history[-1], ModelResponse):
                said = [UserPromptPart(_CONTINUE if history else _BEGINNING)]
                history.append(ModelRequest(_answered(calls, []) or said))
            response = normalized(message, ids).response
            calls = list(
                zip((c.tool_call_id for c in message.tool_calls), response.tool_calls, strict=True)
            )
            ids |= {call.tool_call_id for _, call in calls}
            history.append(response)
            continue
        parts = _answered(calls, message.parts)
        parts += [part for part in message.parts if not isinstance(part, ToolReturnPart)]
        parts = [_readable_part(part) for part in parts if not _is_blank(part)]
        calls = []
        if history and isinstance(history[-1], ModelRequest):
            history[-1] = replace(history[-1], parts=[*history[-1].parts, *parts])
        else:
            parts = parts or [UserPromptPart(_CONTINUE)]
            history.append(message if parts == message.parts else replace(message, parts=parts))
    return history


def call_ids(messages: Iterable[ModelMessage]) -> set[str]:
    """The ids of all calls of a conversation."""
    answers = (message for message in messages if isinstance(message, ModelResponse))
    return {call.tool_call_id for answer in answers for call in answer.tool_calls}


def readable(text: str) -> str:
    """A text that can be sent: without halves of characters, which no encoding can express."""
    return _SURROGATES.sub("\ufffd", text)


def _call(
    part: ToolCallPart, taken: Collection[str], provider: str | None
) -> tuple[ToolCallPart, str]:
    """A call that can be stored, and why it cannot be made, if so."""
    name = _NOT_IN_NAMES.sub("_", part.tool_name)[:_NAME_MAX] or _UNNAMED
    args, why = _input(part.args)
    if name != part.tool_name:
        why = (
            f"There is no tool {readable(part.tool_name)!r}. Names of tools have only letters,"
            f" digits, _ and -, and at most {_NAME_MAX} of them. Nothing was done."
        )
    new_id = _id(part.tool_call_id, taken, provider)
    call = _with(part, tool_name=name, args=args, tool_call_id=new_id)
    if new_id != part.tool_call_id:
        # The item of which this was the id.
        call = _with(call, id=None)
    return call, why


def _input(args: str | dict[str, Any] | None) -> tuple[str | dict[str, Any] | None, str]:
    """The input of a call as it can be sent back, and what is wrong with it."""
    if not args:
        return args, ""
    try:
        given = json.loads(args, parse_constant=_no_number) if isinstance(args, str) else args
        json.dumps(given, allow_nan=False)
        if not isinstance(given, dict):
            raise ValueError(f"it is {str(args)[:100]}")
    except (ValueError, TypeError, RecursionError) as error:
        return {"INVALID_JSON": readable(str(args))}, f"The input is not a JSON object: {error}"
    sound = with_texts(given, readable)
    return (args if sound == given else sound), ""


def _no_number(constant: str) -> None:
    raise ValueError(f"{constant} is not a number in JSON")


def _id(given: str, taken: Collection[str], provider: str | None) -> str:
    """The id of a call: the model's own if it is unique and the API takes it back."""
    # Only Anthropic's API limits the characters. Others hide data of their own in ids.
    clean = readable(given)
    if provider == "anthropic":
        clean = _NOT_IN_NAMES.sub("_", clean)
    if clean.strip() and clean not in taken:
        return clean
    base, number = (clean.strip() or "call")[:_ID_MAX], 2
    while (found := f"{base}_{number}") in taken:
        number += 1
    return found


def _answered(
    calls: Iterable[tuple[str, ToolCallPart]], parts: Sequence[ModelRequestPart]
) -> list[ModelRequestPart]:
    """One result for each call, in the order of the calls."""
    results = [part for part in parts if isinstance(part, ToolReturnPart)]
    answers: list[ModelRequestPart] = []
    for old_id, call in calls:
        found = next((result for result in results if result.tool_call_id == old_id), None)
        if found is None:
            found = ToolReturnPart(call.tool_name, INTERRUPTED, old_id, outcome="failed")
        else:
            results.remove(found)
        answers.append(_with(found, tool_name=call.tool_name, tool_call_id=call.tool_call_id))
    return answers


def _readable_part(part: ModelRequestPart) -> ModelRequestPart:
    if isinstance(part, ToolReturnPart | UserPromptPart) and isinstance(part.content, str):
        sound: ModelRequestPart = _with(part, content=readable(part.content))
        return sound
    return part


def _is_blank(part: ModelRequestPart) -> bool:
    content = part.content if isinstance(part, UserPromptPart) else "-"
    return isinstance(content, str) and not content.strip()


def _with(part: Any, **changes: Any) -> Any:
    """The part itself if nothing changes, so that a sound conversation stays as it is."""
    if all(getattr(part, name) == value for name, value in changes.items()):
        return part
    return replace(part, **changes)
