"""A collector in forty lines: it takes OTLP over HTTP on loopback and writes spans down as JSON.

It stands for Jaeger, Tempo or the OpenTelemetry Collector, which listen on port 4318 and show
the same. Its port is printed once it listens; spans go to the file that is named.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector(BaseHTTPRequestHandler):
    """Answers one request."""

    def do_POST(self) -> None:
        """Take spans or metrics."""
        data = self.rfile.read(int(self.headers["Content-Length"]))
        with open(sys.argv[1], "a", encoding="utf-8") as file:
            if self.path == "/v1/traces":
                for group in ExportTraceServiceRequest.FromString(data).resource_spans:
                    for scope in group.scope_spans:
                        for span in scope.spans:
                            took = (span.end_time_unix_nano - span.start_time_unix_nano) // 10**6
                            row = {
                                "id": span.span_id.hex(),
                                "in": span.parent_span_id.hex(),
                                "name": span.name,
                                "ms": took,
                                "links": len(span.links),
                            }
                            print(json.dumps(row), file=file)
            elif self.path == "/v1/metrics":
                for group in ExportMetricsServiceRequest.FromString(data).resource_metrics:
                    for scope in group.scope_metrics:
                        for metric in scope.metrics:
                            print(json.dumps({"metric": metric.name}), file=file)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    print(server.server_address[1], flush=True)
    server.serve_forever()
