"""The wire format of OpenAI's Chat Completions API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bullpen.testing.models.responses import error
from bullpen.testing.models.shapes import Call, Fault, ModelRequest, Reply, Result, Turn, tokens_of
from bullpen.testing.models.wire import parsed, pieces, text_of

__all__ = ["error", "error_event", "events", "read", "tools", "whole"]


def read(body: Mapping[str, Any]) -> tuple[str, list[Turn]]:
    """Return the system text and the conversation of a request."""
    system: list[str] = []
    turns: list[Turn] = []
    for message in body["messages"]:
        role, text = message["role"], text_of(message.get("content"))
        if role in {"system", "developer"}:
            system.append(text)
        elif role == "tool":
            turns.append(Turn("user", results=(Result(message["tool_call_id"], text),)))
        elif role == "assistant":
            turns.append(Turn("assistant", text, _calls(message)))
        else:
            turns.append(Turn("user", text))
    return "\n".join(system), turns


def tools(body: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the offered tools, with their input schemas."""
    return {
        tool["function"]["name"]: tool["function"].get("parameters") or {}
        for tool in body.get("tools") or []
    }


def whole(request: ModelRequest, reply: Reply, number: int) -> dict[str, Any]:
    """Return the answer as one JSON object."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.calls:
        message["tool_calls"] = _wire_calls(reply)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
    return {
        **_head(request, reply, number, "chat.completion"),
        "choices": [choice],
        "usage": _usage(request, reply),
    }


def events(request: ModelRequest, reply: Reply, number: int) -> Iterator[tuple[str, Any]]:
    """Return the answer as the chunks of a stream. They have no names; the last is `[DONE]`."""
    head = _head(request, reply, number, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> tuple[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return "", {**head, "choices": [choice], "usage": None}

    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(reply.text):
        yield chunk({"content": piece})
    for index, call in enumerate(_wire_calls(reply)):
        function = call["function"]
        opened = {**call, "index": index, "function": {**function, "arguments": ""}}
        yield chunk({"tool_calls": [opened]})
        for piece in pieces(function["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, _finish(reply))
    if (request.body.get("stream_options") or {}).get("include_usage"):
        yield "", {**head, "choices": [], "usage": _usage(request, reply)}
    yield "", "[DONE]"


def error_event(fault: Fault) -> tuple[str, Any]:
    """Return an error in the middle of a stream."""
    return "", error(fault) if fault.body is None else dict(fault.body)


def _head(request: ModelRequest, reply: Reply, number: int, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{number:06d}",
        "object": kind,
        "created": 1_790_000_000 + number,
        "model": reply.model or request.model,
    }


def _usage(request: ModelRequest, reply: Reply) -> dict[str, int]:
    sent = request.tokens if reply.input_tokens is None else reply.input_tokens
    said = tokens_of(reply.text + json.dumps(_wire_calls(reply)))
    return {"prompt_tokens": sent, "completion_tokens": said, "total_tokens": sent + said}


def _finish(reply: Reply) -> str:
    usual = "tool_calls" if reply.calls else "stop"
    return {"length": "length", "filter": "content_filter"}.get(reply.stop, usual)


def _wire_calls(reply: Reply) -> list[dict[str, Any]]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.json}}
        for call in reply.calls
    ]


def _calls(message: Mapping[str, Any]) -> tuple[Call, ...]:
    return tuple(
        Call(call["function"]["name"], parsed(call["function"]["arguments"]), call["id"])
        for call in message.get("tool_calls") or []
    )
