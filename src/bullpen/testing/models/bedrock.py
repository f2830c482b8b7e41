"""The wire format of Amazon Bedrock's Converse API, whose streams are binary."""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from bullpen.testing.models.shapes import Call, Fault, ModelRequest, Reply, Result, Turn, tokens_of
from bullpen.testing.models.wire import pieces, speaker

STREAM = "application/vnd.amazon.eventstream"
"""The content type of a stream."""

_PATH = re.compile(r"/model/([^/]+)/(converse(?:-stream)?)")
_STOPS = {"length": "max_tokens", "filter": "content_filtered"}
_EXCEPTIONS = {
    400: "ValidationException",
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}


def split(path: str) -> tuple[str, bool] | None:
    """Return the model, and whether it streams; None if it is not a path of this API."""
    found = _PATH.fullmatch(path)
    return (unquote(found[1]), found[2] == "converse-stream") if found else None


def read(body: Mapping[str, Any]) -> tuple[str, list[Turn]]:
    """Return the system text and the conversation of a request."""
    system = "\n".join(part["text"] for part in body.get("system") or [] if "text" in part)
    return system, [_turn(message) for message in body.get("messages") or []]


def tools(body: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the offered tools, with their input schemas."""
    offered = (body.get("toolConfig") or {}).get("tools") or []
    specs = [tool["toolSpec"] for tool in offered if "toolSpec" in tool]
    return {spec["name"]: spec["inputSchema"]["json"] for spec in specs}


def whole(request: ModelRequest, reply: Reply, number: int) -> dict[str, Any]:
    """Return the answer as one JSON object."""
    content: list[dict[str, Any]] = [{"text": reply.text}] if reply.text else []
    content += [{"toolUse": _use(call) | {"input": dict(call.input)}} for call in reply.calls]
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": _stop(reply),
        "usage": _usage(request, reply),
        "metrics": {"latencyMs": number},
    }


def events(request: ModelRequest, reply: Reply, number: int) -> Iterator[tuple[str, Any]]:
    """Return the answer as the events of a stream."""
    yield "messageStart", {"role": "assistant"}
    index = 0
    if reply.text:
        for piece in pieces(reply.text):
            yield "contentBlockDelta", {"contentBlockIndex": index, "delta": {"text": piece}}
        yield "contentBlockStop", {"contentBlockIndex": index}
        index += 1
    for call in reply.calls:
        start = {"contentBlockIndex": index, "start": {"toolUse": _use(call)}}
        yield "contentBlockStart", start
        for piece in pieces(call.json):
            delta = {"toolUse": {"input": piece}}
            yield "contentBlockDelta", {"contentBlockIndex": index, "delta": delta}
        yield "contentBlockStop", {"contentBlockIndex": index}
        index += 1
    yield "messageStop", {"stopReason": _stop(reply)}
    yield "metadata", {"usage": _usage(request, reply), "metrics": {"latencyMs": number}}


def error(fault: Fault) -> dict[str, Any]:
    """Return the body of an error."""
    return {"message": fault.message}


def error_headers(fault: Fault) -> dict[str, str]:
    """Return the header that names an error."""
    return {"x-amzn-errortype": _EXCEPTIONS.get(fault.status, "InternalServerException")}


def frame(name: str, data: Any) -> bytes:
    """Return one event as it is framed: lengths, headers, content and their checksums."""
    named = {
        ":event-type": name,
        ":content-type": "application/json",
        ":message-type": "event",
    }
    heads = b"".join(_header(key, value) for key, value in named.items())
    body = json.dumps(data).encode()
    start = struct.pack(">II", len(heads) + len(body) + 16, len(heads))
    message = start + struct.pack(">I", zlib.crc32(start)) + heads + body
    return message + struct.pack(">I", zlib.crc32(message))


def _header(key: str, value: str) -> bytes:
    name, text = key.encode(), value.encode()
    return bytes([len(name)]) + name + b"\x07" + struct.pack(">H", len(text)) + text


def _stop(reply: Reply) -> str:
    return _STOPS.get(reply.stop) or ("tool_use" if reply.calls else "end_turn")


def _usage(request: ModelRequest, reply: Reply) -> dict[str, int]:
    sent = request.tokens if reply.input_tokens is None else reply.input_tokens
    said = tokens_of(reply.text + "".join(call.name + call.json for call in reply.calls))
    return {"inputTokens": sent, "outputTokens": said, "totalTokens": sent + said}


def _use(call: Call) -> dict[str, Any]:
    return {"toolUseId": call.id, "name": call.name}


def _turn(message: Mapping[str, Any]) -> Turn:
    parts = message.get("content") or []
    uses = [part["toolUse"] for part in parts if "toolUse" in part]
    results = [part["toolResult"] for part in parts if "toolResult" in part]
    return Turn(
        speaker(message["role"]),
        "\n".join(part["text"] for part in parts if "text" in part),
        tuple(Call(use["name"], use.get("input") or {}, use["toolUseId"]) for use in uses),
        tuple(
            Result(
                result["toolUseId"],
                "\n".join(
                    part["text"] if "text" in part else json.dumps(part.get("json"))
                    for part in result.get("content") or []
                ),
                result.get("status") == "error",
            )
            for result in results
        ),
    )
