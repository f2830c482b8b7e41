"""The wire format of Google's generateContent API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from bullpen.testing.models.shapes import Call, Fault, ModelRequest, Reply, Result, Turn, tokens_of
from bullpen.testing.models.wire import pieces, speaker

METHODS = ("generateContent", "streamGenerateContent", "countTokens")
# The Gemini API, and Vertex with a key or with a project.
_PATH = re.compile(r"/v1(?:beta1?)?/(?:projects/.+/|publishers/.+/)?models/([^/:]+):([A-Za-z]+)")
# Each library has its own.
_SCHEMAS = ("parametersJsonSchema", "parameters_json_schema", "parameters")
_STOPS = {"length": "MAX_TOKENS", "filter": "SAFETY"}


def split(path: str) -> tuple[str, str] | None:
    """Return the model and the method of a path; None if it is not a path of this API."""
    found = _PATH.fullmatch(path)
    return (found[1], found[2]) if found and found[2] in METHODS else None


def read(body: Mapping[str, Any]) -> tuple[str, list[Turn]]:
    """Return the system text and the conversation of a request."""
    system = _text((body.get("systemInstruction") or {}).get("parts") or [])
    return system, [_turn(content) for content in body.get("contents") or []]


def tools(body: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the offered tools, with their input schemas."""
    return {
        declared["name"]: next((declared[key] for key in _SCHEMAS if declared.get(key)), {})
        for tool in body.get("tools") or []
        for declared in tool.get("functionDeclarations") or []
    }


def whole(request: ModelRequest, reply: Reply, number: int) -> dict[str, Any]:
    """Return the answer as one JSON object."""
    parts: list[dict[str, Any]] = [{"text": reply.text}] if reply.text else []
    parts.extend(_called(call) for call in reply.calls)
    return _chunk(request, reply, number, parts, _STOPS.get(reply.stop, "STOP"))


def events(request: ModelRequest, reply: Reply, number: int) -> Iterator[tuple[str, Any]]:
    """Return the answer as the chunks of a stream. They have no names; a call is in one piece."""
    for piece in pieces(reply.text):
        yield "", _chunk(request, reply, number, [{"text": piece}])
    for call in reply.calls:
        yield "", _chunk(request, reply, number, [_called(call)])
    # The last chunk has no text: like the real API, it only says why it ends and the usage.
    yield "", _chunk(request, reply, number, [{"text": ""}], _STOPS.get(reply.stop, "STOP"))


def error(fault: Fault) -> dict[str, Any]:
    """Return the body of an error."""
    return {"error": {"code": fault.status, "message": fault.message, "status": fault.kind.upper()}}


def _chunk(
    request: ModelRequest,
    reply: Reply,
    number: int,
    parts: list[dict[str, Any]],
    finish: str | None = None,
) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {
        "candidates": [candidate],
        "usageMetadata": _usage(request, reply),
        "modelVersion": reply.model or request.model,
        "responseId": f"gen-{number:06d}",
    }


def _usage(request: ModelRequest, reply: Reply) -> dict[str, int]:
    sent = request.tokens if reply.input_tokens is None else reply.input_tokens
    said = tokens_of(reply.text + json.dumps([_called(call) for call in reply.calls]))
    return {"promptTokenCount": sent, "candidatesTokenCount": said, "totalTokenCount": sent + said}


def _called(call: Call) -> dict[str, Any]:
    return {"functionCall": {"id": call.id, "name": call.name, "args": dict(call.input)}}


def _turn(content: Mapping[str, Any]) -> Turn:
    parts = content.get("parts") or []
    calls = [
        Call(part["functionCall"]["name"], part["functionCall"].get("args") or {}, _id(part))
        for part in parts
        if "functionCall" in part
    ]
    results = [
        Result(_id(part), json.dumps(part["functionResponse"].get("response"), ensure_ascii=False))
        for part in parts
        if "functionResponse" in part
    ]
    role = speaker("assistant" if content.get("role") == "model" else "user")
    return Turn(role, _text(parts), tuple(calls), tuple(results))


def _id(part: Mapping[str, Any]) -> str:
    named = part.get("functionCall") or part["functionResponse"]
    return str(named.get("id") or named["name"])


def _text(parts: list[dict[str, Any]]) -> str:
    return "\n".join(part["text"] for part in parts if part.get("text") and not part.get("thought"))
