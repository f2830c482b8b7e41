"""Sends traces and metrics by OTLP over HTTP. Only this module uses the library."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import export as sdk
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from bullpen.doors.telemetry import attribute_names as names
from bullpen.doors.telemetry.metrics import Distribution, Labels, Metric
from bullpen.doors.telemetry.span_records import SpanRecord
from bullpen.errors import Unavailable

_SCOPE = InstrumentationScope("bullpen", "1")
_NS = 1_000_000
_BATCH = 512


class Otlp:
    """A collector that speaks OTLP over HTTP; its address is the part before `/v1/traces`.

    The library reads headers, such as a key, from OTEL_EXPORTER_OTLP_HEADERS.
    """

    def __init__(self, url: str, *, timeout_s: float = 10.0) -> None:
        self.url = url.rstrip("/")
        self._complaints = _Complaints()
        log = logging.getLogger("opentelemetry")
        # Its complaints become part of the error that is raised.
        log.propagate = False
        log.addHandler(self._complaints)
        # Takes what it logs while it is being closed.
        log.addHandler(logging.NullHandler())
        self._traces = OTLPSpanExporter(endpoint=f"{self.url}/v1/traces", timeout=timeout_s)
        self._metrics = OTLPMetricExporter(endpoint=f"{self.url}/v1/metrics", timeout=timeout_s)

    def send_spans(self, spans: Sequence[SpanRecord]) -> None:
        """Send spans. Raises Unavailable if the collector does not accept them."""
        for begin in range(0, len(spans), _BATCH):
            batch = [_span(span) for span in spans[begin : begin + _BATCH]]
            if self._traces.export(batch) is not SpanExportResult.SUCCESS:
                raise self._refused("spans")

    def send_metrics(
        self, metrics: Sequence[Metric], *, team: str, from_ms: int, now_ms: int
    ) -> None:
        """Send metrics. Raises Unavailable if the collector does not accept them."""
        sent = [_metric(each, from_ms * _NS, now_ms * _NS) for each in metrics if each.points]
        scope = sdk.ScopeMetrics(scope=_SCOPE, metrics=sent, schema_url="")
        data = sdk.MetricsData([sdk.ResourceMetrics(_resource(team), [scope], schema_url="")])
        if self._metrics.export(data) is not sdk.MetricExportResult.SUCCESS:
            raise self._refused("metrics")

    def close(self) -> None:
        self._traces.shutdown()  # type: ignore[no-untyped-call]
        self._metrics.shutdown()
        logging.getLogger("opentelemetry").removeHandler(self._complaints)

    def _refused(self, what: str) -> Unavailable:
        return Unavailable(
            f"The collector at {self.url} did not accept the {what}: {self._complaints.cause}.",
            remedy="Check that it accepts OTLP over HTTP there; the default port is 4318.",
        )


class _Complaints(logging.Handler):
    """Keeps the last log lines of the library, to say why something failed."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._words: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._words = [*self._words, record.getMessage()][-10:]

    @property
    def cause(self) -> str:
        """Why the last call failed: the error of the system, if there is one."""
        words, self._words = self._words, []
        system = re.search(r"\[Errno -?\d+\] ([\w ]+)", " ".join(words))
        said = system[1] if system else words[0] if words else "no reason was given"
        return said[:200].rstrip(". ")


def _resource(team: str) -> Resource:
    return Resource({names.SERVICE: "bullpen", names.TEAM: _sendable(team)})


def _span(span: SpanRecord) -> ReadableSpan:
    return ReadableSpan(
        name=_sendable(span.name),
        context=_context(span.trace_id, span.span_id),
        parent=None if span.parent_id is None else _context(span.trace_id, span.parent_id),
        resource=_resource(str(span.attributes[names.TEAM])),
        attributes=_attributes(span),
        links=[Link(_context(span.trace_id, each)) for each in span.links],
        kind=SpanKind.INTERNAL,
        status=Status(StatusCode.UNSET if span.error is None else StatusCode.ERROR),
        start_time=span.from_ms * _NS,
        end_time=span.to_ms * _NS,
        instrumentation_scope=_SCOPE,
    )


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )  # fmt: skip


def _attributes(span: SpanRecord) -> Mapping[str, Any]:
    found: dict[str, Any] = {
        key: _sendable(value) if isinstance(value, str)
        else [_sendable(each) for each in value] if isinstance(value, tuple) else value
        for key, value in span.attributes.items()
    }  # fmt: skip
    return found if span.error is None else {**found, names.ERROR: span.error}


def _metric(metric: Metric, from_ns: int, now_ns: int) -> sdk.Metric:
    numbers = [
        sdk.NumberDataPoint(_labels(labels), from_ns, now_ns, value)
        for labels, value in metric.points.items()
        if not isinstance(value, Distribution)
    ]
    spreads = [
        sdk.HistogramDataPoint(
            attributes=_labels(labels),
            start_time_unix_nano=from_ns,
            time_unix_nano=now_ns,
            count=value.count,
            sum=value.total,
            bucket_counts=value.counts,
            explicit_bounds=value.bounds,
            min=value.least,
            max=value.most,
        )
        for labels, value in metric.points.items()
        if isinstance(value, Distribution)
    ]
    data: sdk.Sum | sdk.Gauge | sdk.Histogram
    match metric.kind:
        case "sum":
            data = sdk.Sum(numbers, sdk.AggregationTemporality.CUMULATIVE, is_monotonic=True)
        case "gauge":
            data = sdk.Gauge(numbers)
        case "histogram":
            data = sdk.Histogram(spreads, sdk.AggregationTemporality.CUMULATIVE)
    return sdk.Metric(metric.name, metric.about, metric.unit, data)


def _labels(labels: Labels) -> dict[str, str]:
    return {key: _sendable(value) for key, value in labels}


def _sendable(text: str) -> str:
    """A text in which lone surrogates are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
