"""The wire format of OpenAI's Responses API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bullpen.testing.models.shapes import Call, Fault, ModelRequest, Reply, Result, Turn, tokens_of
from bullpen.testing.models.wire import parsed, pieces, speaker, text_of

_CALLS = {"function_call", "custom_tool_call", "tool_search_call"}
_OUTPUTS = {"function_call_output", "custom_tool_call_output", "tool_search_output"}
_TOOLS = {"function", "custom", "tool_search"}
_STOPS = {"length": {"reason": "max_output_tokens"}, "filter": {"reason": "content_filter"}}


def read(body: Mapping[str, Any]) -> tuple[str, list[Turn]]:
    """Return the system text and the conversation of a request."""
    system, turns = [body.get("instructions") or ""], []
    given = body["input"]
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        kind, role = item.get("type", "message"), item.get("role")
        if kind in _CALLS:
            turns.append(Turn("assistant", calls=(_call(item),)))
        elif kind in _OUTPUTS:
            turns.append(Turn("user", results=(Result(item["call_id"], _output(item)),)))
        elif role in {"system", "developer"}:
            system.append(text_of(item["content"]))
        elif role is not None:
            turns.append(Turn(speaker(role), text_of(item["content"])))
    return "\n".join(text for text in system if text), turns


def tools(body: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the offered tools, with their input schemas.

    A tool in a namespace is NAMESPACE__TOOL; a tool found by a search counts as offered. A
    free-form tool has no schema and takes its text as `input`.
    """
    offered = {}
    for tool, namespace in _tools(body):
        offered[_full(namespace, tool.get("name", tool["type"]))] = tool.get("parameters") or {}
    return offered


def whole(request: ModelRequest, reply: Reply, number: int) -> dict[str, Any]:
    """Return the answer as one JSON object."""
    sent = request.tokens if reply.input_tokens is None else reply.input_tokens
    items = _items(request, reply, number)
    said = tokens_of(json.dumps(items))
    return {
        **_begun(request, reply, number),
        "status": "completed" if reply.stop == "end" else "incomplete",
        "incomplete_details": _STOPS.get(reply.stop),
        "output": items,
        "usage": {
            "input_tokens": sent,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": said,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": sent + said,
        },
    }


def events(request: ModelRequest, reply: Reply, number: int) -> Iterator[tuple[str, Any]]:
    """Return the answer as the events of a stream."""
    for sequence, (name, data) in enumerate(_events(request, reply, number)):
        yield name, {"type": name, "sequence_number": sequence, **data}


def error(fault: Fault) -> dict[str, Any]:
    """Return the body of an error."""
    told = {"message": fault.message, "type": fault.kind, "param": None, "code": fault.code}
    return {"error": told}


def error_event(fault: Fault) -> tuple[str, Any]:
    """Return an error in the middle of a stream."""
    told = {"code": fault.code or fault.kind, "message": fault.message, "param": None}
    return "error", {"type": "error", "sequence_number": 99, **told}


def _events(request: ModelRequest, reply: Reply, number: int) -> Iterator[tuple[str, Any]]:
    begun = _begun(request, reply, number)
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, item in enumerate(_items(request, reply, number)):
        if item["type"] == "message":
            yield from _message_events(index, item)
        elif item["type"] == "function_call":
            yield from _call_events(index, item)
        else:
            opened = {**item, "status": "in_progress"}
            yield "response.output_item.added", {"output_index": index, "item": opened}
            yield "response.output_item.done", {"output_index": index, "item": item}
    response = whole(request, reply, number)
    yield f"response.{response['status']}", {"response": response}


def _message_events(index: int, item: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    (part,) = item["content"]
    place = {"item_id": item["id"], "output_index": index, "content_index": 0}
    opened = {**item, "status": "in_progress", "content": []}
    yield "response.output_item.added", {"output_index": index, "item": opened}
    yield "response.content_part.added", {**place, "part": {**part, "text": ""}}
    for piece in pieces(part["text"]):
        yield "response.output_text.delta", {**place, "delta": piece, "logprobs": []}
    yield "response.output_text.done", {**place, "text": part["text"], "logprobs": []}
    yield "response.content_part.done", {**place, "part": part}
    yield "response.output_item.done", {"output_index": index, "item": item}


def _call_events(index: int, item: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    place = {"item_id": item["id"], "output_index": index}
    opened = {**item, "status": "in_progress", "arguments": ""}
    yield "response.output_item.added", {"output_index": index, "item": opened}
    for piece in pieces(item["arguments"]):
        yield "response.function_call_arguments.delta", {**place, "delta": piece}
    done = {**place, "name": item["name"], "arguments": item["arguments"]}
    yield "response.function_call_arguments.done", done
    yield "response.output_item.done", {"output_index": index, "item": item}


def _begun(request: ModelRequest, reply: Reply, number: int) -> dict[str, Any]:
    return {
        "id": f"resp_{number:06d}",
        "object": "response",
        "created_at": 1_790_000_000 + number,
        "status": "in_progress",
        "model": reply.model or request.model,
        "output": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": request.body.get("tools") or [],
        "top_p": 1.0,
        "usage": None,
    }


def _items(request: ModelRequest, reply: Reply, number: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if reply.text:
        text = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        said = {"type": "message", "id": f"out_{number:06d}", "role": "assistant"}
        items.append({**said, "status": "completed", "content": [text]})
    for index, call in enumerate(reply.calls):
        items.append({**_call_item(request, call), "id": f"fc_{number:06d}_{index}"})
    return items


def _call_item(request: ModelRequest, call: Call) -> dict[str, Any]:
    offered = {
        _full(space, tool.get("name", tool["type"])): (tool, space)
        for tool, space in _tools(request.body)
    }
    tool, namespace = offered.get(call.name, ({"type": "function", "name": call.name}, ""))
    item: dict[str, Any] = {"type": "function_call", "id": "", "call_id": call.id}
    item["status"] = "completed"
    if tool["type"] == "tool_search":
        return {**item, "type": "tool_search_call", "execution": "client", "arguments": call.input}
    if tool["type"] == "custom":
        return {**item, "type": "custom_tool_call", "name": call.name, "input": call.input["input"]}
    within = {"namespace": namespace} if namespace else {}
    return {**item, **within, "name": tool["name"], "arguments": call.json}


def _tools(body: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Return every tool of a request with its namespace, if it has one."""
    given = body["input"]
    found = [
        tool
        for item in ([] if isinstance(given, str) else given)
        if item.get("type") == "tool_search_output"
        for tool in item.get("tools") or []
    ]
    for tool in [*(body.get("tools") or []), *found]:
        if tool["type"] == "namespace":
            yield from ((inner, tool["name"]) for inner in tool["tools"])
        elif tool["type"] in _TOOLS:
            yield tool, ""


def _full(namespace: str, name: str) -> str:
    return f"{namespace.removesuffix('__')}__{name}" if namespace else name


def _call(item: Mapping[str, Any]) -> Call:
    name = _full(item.get("namespace") or "", item.get("name") or "tool_search")
    given = item.get("arguments")
    if item["type"] == "custom_tool_call":
        given = {"input": item["input"]}
    return Call(name, parsed(given) if isinstance(given, str) else given or {}, item["call_id"])


def _output(item: Mapping[str, Any]) -> str:
    return text_of(item["output"]) if "output" in item else json.dumps(item.get("tools"))
