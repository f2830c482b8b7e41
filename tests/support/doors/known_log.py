"""The small log of the reports, of which the time of everything is known, and a collector."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bullpen.doors.report.saved import saved_events
from bullpen.protocol.changes import Event
from bullpen.protocol.clock import iso, ms_of

BEGAN_MS = ms_of("2026-11-01T22:00:00.000Z") or 0


def known_log() -> list[Event]:
    """Ann has a turn from 5 to 35 s and Ben from 36 to 60 s, which reads her mail."""
    return saved_events(Path(__file__).parents[2] / "support/doors/report_golden/events.json")


def row(at_s: float, kind: str, **data: Any) -> dict[str, Any]:
    """A row of a transcript."""
    return {"time": iso(BEGAN_MS + round(at_s * 1000)), "kind": kind, **data}


class Collector:
    """What a collector on loopback was sent, read by the protocol's own classes."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.metrics: list[Any] = []
        self.refuses = 0
        self.url = ""

    def take(self, path: str, data: bytes) -> int:
        if self.refuses:
            self.refuses -= 1
            return 400
        if path == "/v1/traces":
            for group in ExportTraceServiceRequest.FromString(data).resource_spans:
                self.spans += (span for scope in group.scope_spans for span in scope.spans)
        elif path == "/v1/metrics":
            for found in ExportMetricsServiceRequest.FromString(data).resource_metrics:
                self.metrics += (each for scope in found.scope_metrics for each in scope.metrics)
        return 200


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that listens until the end of the block."""
    collector = Collector()

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(collector.take(self.path, data))
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        collector.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join(10)
