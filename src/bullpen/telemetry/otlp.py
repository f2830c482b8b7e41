"""Sending traces and metrics by OTLP over HTTP: the only module that knows the library."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as SdkMetric
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from bullpen.errors import Unavailable
from bullpen.telemetry import names
from bullpen.telemetry.metrics import Distribution, Labels, Metric
from bullpen.telemetry.traced import SpanRecord

_SCOPE = InstrumentationScope("bullpen", "1")
_NS = 1_000_000
_BATCH = 512


class Otlp:
    """A collector that understands OTLP over HTTP, at the address before `/v1/traces`.

    Headers, as for a key, are taken from OTEL_EXPORTER_OTLP_HEADERS by the library.
    """

    def __init__(self, url: str, *, timeout_s: float = 10.0) -> None:
        self.url = url.rstrip("/")
        self._heard = _Heard()
        log = logging.getLogger("opentelemetry")
        # What it has to say is said by the error that is raised.
        log.propagate = False
        log.addHandler(self._heard)
        # Also what it says while it is being closed, for nobody.
        log.addHandler(logging.NullHandler())
        self._traces = OTLPSpanExporter(endpoint=f"{self.url}/v1/traces", timeout=timeout_s)
        self._metrics = OTLPMetricExporter(endpoint=f"{self.url}/v1/metrics", timeout=timeout_s)

    def send_spans(self, spans: Sequence[SpanRecord]) -> None:
        """Send spans. Raises Unavailable if the collector did not take them."""
        for begin in range(0, len(spans), _BATCH):
            batch = [_span(span) for span in spans[begin : begin + _BATCH]]
            if self._traces.export(batch) is not SpanExportResult.SUCCESS:
                raise self._refused("spans")

    def send_metrics(
        self, metrics: Sequence[Metric], *, team: str, from_ms: int, now_ms: int
    ) -> None:
        """Send metrics. Raises Unavailable if the collector did not take them."""
        data = _metrics_data(metrics, team=team, from_ms=from_ms, now_ms=now_ms)
        if self._metrics.export(data) is not MetricExportResult.SUCCESS:
            raise self._refused("metrics")

    def close(self) -> None:
        """Let go of the connections."""
        self._traces.shutdown()  # type: ignore[no-untyped-call]
        self._metrics.shutdown()
        logging.getLogger("opentelemetry").removeHandler(self._heard)

    def _refused(self, what: str) -> Unavailable:
        return Unavailable(
            f"The collector at {self.url} did not take the {what}: {self._heard.why}.",
            remedy="See that it listens there for OTLP over HTTP, by default on port 4318.",
        )


class _Heard(logging.Handler):
    """Keeps what a library complains of, to say why something failed."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._words: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a complaint; of many, the last few."""
        self._words = [*self._words, record.getMessage()][-10:]

    @property
    def why(self) -> str:
        """Why it failed, in the words of the system if they are there."""
        words, self._words = self._words, []
        system = re.search(r"\[Errno -?\d+\] ([\w ]+)", " ".join(words))
        said = system[1] if system else words[0] if words else "it does not say why"
        return said[:200].rstrip(". ")


def _resource(team: str) -> Resource:
    return Resource({names.SERVICE: "bullpen", names.TEAM: _kept(team)})


def _span(span: SpanRecord) -> ReadableSpan:
    return ReadableSpan(
        name=_kept(span.name),
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
        key: _kept(value) if isinstance(value, str)
        else [_kept(each) for each in value] if isinstance(value, tuple) else value
        for key, value in span.attributes.items()
    }  # fmt: skip
    return found if span.error is None else {**found, names.ERROR: span.error}


def _metrics_data(
    metrics: Sequence[Metric], *, team: str, from_ms: int, now_ms: int
) -> MetricsData:
    sent = [_metric(each, from_ms * _NS, now_ms * _NS) for each in metrics if each.points]
    scope = ScopeMetrics(scope=_SCOPE, metrics=sent, schema_url="")
    return MetricsData([ResourceMetrics(_resource(team), [scope], schema_url="")])


def _metric(metric: Metric, from_ns: int, now_ns: int) -> SdkMetric:
    numbers = [
        NumberDataPoint(_labels(labels), from_ns, now_ns, value)
        for labels, value in metric.points.items()
        if not isinstance(value, Distribution)
    ]
    spreads = [
        HistogramDataPoint(
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
    data: Sum | Gauge | Histogram
    match metric.kind:
        case "sum":
            data = Sum(numbers, AggregationTemporality.CUMULATIVE, is_monotonic=True)
        case "gauge":
            data = Gauge(numbers)
        case "histogram":
            data = Histogram(spreads, AggregationTemporality.CUMULATIVE)
    return SdkMetric(metric.name, metric.about, metric.unit, data)


def _labels(labels: Labels) -> dict[str, str]:
    return {key: _kept(value) for key, value in labels}


def _kept(text: str) -> str:
    """A text that can be sent: lone surrogates as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
