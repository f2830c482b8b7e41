"""What the vendors refuse in a conversation, in about their words.

The ids of calls are unique, names of tools have only letters, digits, `_` and `-`, no text is
blank, every call has its result right after it and in the order of the calls, and Anthropic's roles
alternate. The strictest vendor decides where they differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bullpen.testing.models.shapes import Api, ModelRequest

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]+")


def refusal(request: ModelRequest) -> str | None:
    """Return why the vendor refuses this conversation; None if it does not."""
    check = _CHECKS.get(request.api)
    return None if check is None else next(check(request.body), None)


def _calls(calls: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Return what is wrong with the ids and names of all calls."""
    ids = [call_id for call_id, _ in calls]
    if len(set(ids)) < len(ids):
        yield "messages: `tool_use` ids must be unique"
    if not all(ids):
        yield "messages: the id of a tool call is empty"
    for _, name in calls:
        if not _NAME.fullmatch(name):
            yield f"messages: tool name {name!r} does not match '^[a-zA-Z0-9_-]{{1,64}}$'"


def _results(called: Sequence[str], answered: Sequence[str]) -> Iterator[str]:
    """Return what is wrong with the results right after some calls."""
    if extra := [each for each in answered if each not in called]:
        yield f"messages: unexpected `tool_use_id` found in `tool_result` blocks: {extra}"
    if missing := [each for each in called if each not in answered]:
        yield f"messages: `tool_use` ids were found without `tool_result` blocks: {missing}"
    elif list(answered) != list(called):
        yield f"messages: the results {answered} are not in the order of the calls {called}"


def _text(text: str | None) -> Iterator[str]:
    if text is not None and not text.strip():
        yield "messages: text content blocks must contain non-whitespace text"


def _anthropic(body: Mapping[str, Any]) -> Iterator[str]:
    calls: list[tuple[str, str]] = []
    open_calls: list[str] = []
    expected = "user"
    for message in body["messages"]:
        if message["role"] != expected:
            yield f"messages: roles must alternate, but two in a row are {message['role']!r}"
        expected = "assistant" if message["role"] == "user" else "user"
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks:
            yield "messages: all messages must have non-empty content"
        for block in blocks:
            if block["type"] == "text":
                yield from _text(block["text"])
        uses = [block for block in blocks if block["type"] == "tool_use"]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        yield from _results(open_calls, results)
        if any(block["type"] != "tool_result" for block in blocks[: len(results)]):
            yield "messages: `tool_result` blocks must come first"
        open_calls = [use["id"] for use in uses]
        calls += [(use["id"], use["name"]) for use in uses]
        if message["role"] == "assistant" and blocks and blocks[-1]["type"] == "thinking":
            yield "messages: the final block in an assistant message cannot be `thinking`"
    if open_calls:
        yield f"messages: `tool_use` ids were found without `tool_result` blocks: {open_calls}"
    yield from _calls(calls)
    for call_id, _ in calls:
        if not _ANTHROPIC_ID.fullmatch(call_id):
            yield f"messages: tool_use.id {call_id!r} does not match '^[a-zA-Z0-9_-]+$'"


def _chat(body: Mapping[str, Any]) -> Iterator[str]:
    calls: list[tuple[str, str]] = []
    open_calls: list[str] = []
    answered: list[str] = []
    before = ""
    for message in [*body["messages"], {"role": "end"}]:
        role, content = message["role"], message.get("content")
        if role == "tool":
            answered.append(message["tool_call_id"])
            before = role
            continue
        yield from _results(open_calls, answered)
        open_calls, answered = [], []
        texts = (
            [content] if isinstance(content, str) else [each.get("text") for each in content or []]
        )
        for text in texts:
            yield from _text(text)
        if role == "assistant":
            made = message.get("tool_calls") or []
            if before == "assistant":
                yield "messages: two answers in a row"
            if not made and not texts:
                yield "messages: an answer has neither content nor tool_calls"
            open_calls = [call["id"] for call in made]
            calls += [(call["id"], call["function"]["name"]) for call in made]
        before = role
    yield from _calls(calls)


def _responses(body: Mapping[str, Any]) -> Iterator[str]:
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    calls: list[tuple[str, str]] = []
    open_calls: list[str] = []
    answered: list[str] = []
    for item in [*items, {"type": "end"}]:
        kind = item.get("type", "message")
        if kind == "function_call_output":
            answered.append(item["call_id"])
            continue
        if answered or (kind in ("end", "message") and item.get("role") != "assistant"):
            yield from _results(open_calls, answered)
            open_calls, answered = [], []
        if kind == "function_call":
            open_calls.append(item["call_id"])
            calls.append((item["call_id"], item["name"]))
        elif kind == "message":
            content = item["content"]
            texts = (
                [content] if isinstance(content, str) else [each.get("text") for each in content]
            )
            for text in texts:
                yield from _text(text)
    yield from _calls(calls)
    ids = [item["id"] for item in items if item.get("id")]
    if len(set(ids)) < len(ids):
        yield "input: duplicate item found"


_CHECKS: Mapping[Api, Callable[[Mapping[str, Any]], Iterator[str]]] = {
    "anthropic": _anthropic,
    "chat": _chat,
    "responses": _responses,
}
