"""The wire format of Anthropic's Messages API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bullpen.testing.models.shapes import Call, Fault, ModelRequest, Reply, Result, Turn, tokens_of
from bullpen.testing.models.wire import pieces, speaker

_STOPS = {"length": "max_tokens", "filter": "refusal"}


def read(body: Mapping[str, Any]) -> tuple[str, list[Turn]]:
    """Return the system text and the conversation of a request."""
    return _text(body.get("system") or ""), [_turn(message) for message in body["messages"]]


def tools(body: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the offered tools, with their input schemas."""
    return {tool["name"]: tool.get("input_schema", {}) for tool in body.get("tools") or []}


def whole(request: ModelRequest, reply: Reply, number: int) -> dict[str, Any]:
    """Return the answer as one JSON object."""
    return {
        "id": f"msg_{number:06d}",
        "type": "message",
        "role": "assistant",
        "model": reply.model or request.model,
        "content": _blocks(reply),
        "stop_reason": _STOPS.get(reply.stop) or ("tool_use" if reply.calls else "end_turn"),
        "stop_sequence": None,
        "usage": _usage(request, reply),
    }


def events(request: ModelRequest, reply: Reply, number: int) -> Iterator[tuple[str, Any]]:
    """Return the answer as the events of a stream."""
    message = whole(request, reply, number)
    inputs = {call.id: call.json for call in reply.calls}
    # How much will be said is not known yet.
    begun_usage = {**message["usage"], "output_tokens": 1}
    begun = {**message, "content": [], "stop_reason": None, "usage": begun_usage}
    yield _event("message_start", message=begun)
    yield _event("ping")
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty, kind, field, text = {**block, "text": ""}, "text_delta", "text", block["text"]
        else:
            empty = {**block, "input": {}}
            kind, field, text = "input_json_delta", "partial_json", inputs[block["id"]]
        yield _event("content_block_start", index=index, content_block=empty)
        for piece in pieces(text):
            yield _event("content_block_delta", index=index, delta={"type": kind, field: piece})
        yield _event("content_block_stop", index=index)
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=stop, usage=message["usage"])
    yield _event("message_stop")


def error(fault: Fault) -> dict[str, Any]:
    """Return the body of an error."""
    return {"type": "error", "error": {"type": fault.kind, "message": fault.message}}


def error_event(fault: Fault) -> tuple[str, Any]:
    """Return an error in the middle of a stream."""
    return "error", error(fault)


def _event(name: str, **data: Any) -> tuple[str, Any]:
    return name, {"type": name, **data}


def _blocks(reply: Reply) -> list[dict[str, Any]]:
    text = [{"type": "text", "text": reply.text}] if reply.text else []
    return text + [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.input)}
        for call in reply.calls
    ]


def _usage(request: ModelRequest, reply: Reply) -> dict[str, int]:
    return {
        "input_tokens": request.tokens if reply.input_tokens is None else reply.input_tokens,
        "cache_creation_input_tokens": reply.cache_write_tokens,
        "cache_read_input_tokens": reply.cache_read_tokens,
        "output_tokens": tokens_of(json.dumps(_blocks(reply))),
    }


def _turn(message: Mapping[str, Any]) -> Turn:
    content = message["content"]
    blocks = [] if isinstance(content, str) else content
    calls = [
        Call(block["name"], block["input"], block["id"])
        for block in blocks
        if block["type"] == "tool_use"
    ]
    results = [
        Result(block["tool_use_id"], _text(block.get("content") or ""), bool(block.get("is_error")))
        for block in blocks
        if block["type"] == "tool_result"
    ]
    return Turn(speaker(message["role"]), _text(content), tuple(calls), tuple(results))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")
