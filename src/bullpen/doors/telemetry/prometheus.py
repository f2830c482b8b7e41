"""Metrics for Prometheus: the text format, and a small server on loopback.

Written by hand: the format is short and needs no library.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress

import anyio
from anyio.abc import ByteStream, SocketAttribute

from bullpen.doors.telemetry.metrics import Distribution, Labels, Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_UNITS = {"s": "_seconds", "USD": "_usd"}
_OTHER = re.compile(r"[^a-zA-Z0-9_]")
_REQUEST_MAX = 16_384
_REQUEST_S = 5.0
_HOST = re.compile(
    rb"^host:\s*(127\.0\.0\.1|localhost|\[::1\])(:\d+)?\s*$", re.IGNORECASE | re.MULTILINE
)


def prometheus_text(metrics: Iterable[Metric], *, team: str) -> str:
    """All metrics in the text format of Prometheus."""
    return "".join(f"{line}\n" for metric in metrics for line in _metric(metric, team))


def _metric(metric: Metric, team: str) -> Iterator[str]:
    name = _OTHER.sub("_", metric.name) + _UNITS.get(metric.unit, "")
    name += "_total" if metric.kind == "sum" else ""
    kind = "counter" if metric.kind == "sum" else metric.kind
    yield f"# HELP {name} {metric.about}"
    yield f"# TYPE {name} {kind}"
    for labels, value in metric.points.items():
        labels = (("team", team), *labels)
        if not isinstance(value, Distribution):
            yield f"{name}{_labels(labels)} {_number(value)}"
            continue
        below = 0
        for bound, count in zip((*value.bounds, float("inf")), value.counts, strict=True):
            below += count
            yield f"{name}_bucket{_labels((*labels, ('le', _number(bound))))} {below}"
        yield f"{name}_sum{_labels(labels)} {_number(value.total)}"
        yield f"{name}_count{_labels(labels)} {value.count}"


def _labels(labels: Labels) -> str:
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels) + "}"


def _escaped(value: str) -> str:
    whole = value.encode("utf-8", "backslashreplace").decode("utf-8")
    return whole.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return "+Inf" if value == float("inf") else f"{value:.10g}"


async def serve(
    port: int, text: Callable[[], Awaitable[str]], *, ready: Callable[[str], None]
) -> None:
    """Serve metrics on loopback until cancelled; `text` gives the current ones."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    bound = listener.extra(SocketAttribute.local_port)  # noqa: S610 (this is no database)
    ready(f"http://127.0.0.1:{bound}/metrics")

    async def answer(stream: ByteStream) -> None:
        async with stream:
            # A client that sends nothing or disconnects gets no answer.
            with suppress(anyio.BrokenResourceError, anyio.EndOfStream), anyio.move_on_after(30):
                head = await _head(stream)
                await stream.send(await _response(head, text))

    async with listener:
        await listener.serve(answer)


async def _head(stream: ByteStream) -> bytes:
    head = b""
    with anyio.move_on_after(_REQUEST_S):
        while b"\r\n\r\n" not in head and len(head) < _REQUEST_MAX:
            head += await stream.receive(4096)
    return head


async def _response(head: bytes, text: Callable[[], Awaitable[str]]) -> bytes:
    words = head.split(b"\r\n", 1)[0].split(b" ")
    # A web page must not read this through a host name that points to loopback.
    if not _HOST.search(head):
        return _reply("403 Forbidden", "Only loopback host names are served.\n")
    if len(words) < 2 or words[0] != b"GET":
        return _reply("405 Method Not Allowed", "Only GET is allowed.\n")
    if words[1].split(b"?", 1)[0] != b"/metrics":
        return _reply("404 Not Found", "The metrics are at /metrics.\n")
    return _reply("200 OK", await text())


def _reply(status: str, body: str) -> bytes:
    data = body.encode("utf-8")
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(data)}\r\n"
        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + data
