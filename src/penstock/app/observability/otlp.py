"""The OpenTelemetry libraries: spans, metrics and log lines, sent to a collector over OTLP (HTTP, protobuf).

Endpoints, headers, timeouts, certificates, samplers, batch sizes and resource attributes are read by the libraries
themselves from the environment. Sending is done in threads of theirs: a collector that is away costs spans, not calls.

Above it: `opened`, which imports this module only if a signal is chosen. Below it: `opentelemetry`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from opentelemetry._logs import SeverityNumber
from opentelemetry.context import Context as OtelContext
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.environment_variables import OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Gauge as OtelGauge
from opentelemetry.sdk.metrics.export import (
    Histogram as OtelHistogram,
)
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from opentelemetry.trace import (
    Span as OtelSpan,
)
from opentelemetry.trace import (
    SpanKind as OtelSpanKind,
)

from penstock import __version__
from penstock.app.observability.traced import Attributes, EndedRun, Span, SpanKind
from penstock.base.traces import TRACEPARENT, current_traceparent
from penstock.operations.telemetry.metrics import Counter, Gauge, Histogram, Telemetry

__all__ = ["OtlpLogHandler", "OtlpMetrics", "OtlpTracing", "own_resource"]

_SCOPE = "penstock"
_KINDS: dict[SpanKind, OtelSpanKind] = {
    "server": OtelSpanKind.SERVER,
    "client": OtelSpanKind.CLIENT,
    "internal": OtelSpanKind.INTERNAL,
}
_FORCED_ID: ContextVar[int | None] = ContextVar("forced_span_id", default=None)
_MILLISECOND = 1_000_000


def own_resource() -> Resource:
    """Return what this process is called: as the environment says, or else `penstock`."""
    named = OTEL_SERVICE_NAME in os.environ or f"{SERVICE_NAME}=" in os.environ.get(OTEL_RESOURCE_ATTRIBUTES, "")
    return Resource.create({SERVICE_VERSION: __version__, **({} if named else {SERVICE_NAME: "penstock"})})


class _Ids(RandomIdGenerator):
    """Random ids, except for the spans of runs."""

    def generate_span_id(self) -> int:
        return _FORCED_ID.get() or super().generate_span_id()


class _OpenSpan:
    """A span that is open."""

    __slots__ = ("_span",)

    def __init__(self, span: OtelSpan) -> None:
        self._span = span

    def note(self, attributes: Attributes, *, failed: str | None = None) -> None:
        """Add attributes; `failed` says what went wrong, as a code."""
        self._span.set_attributes(attributes)
        if failed is not None:
            self._span.set_status(Status(StatusCode.ERROR, failed))


class OtlpTracing:
    """Makes spans and sends them."""

    def __init__(self, resource: Resource) -> None:
        self._provider = TracerProvider(resource=resource, id_generator=_Ids(), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer(_SCOPE, __version__)

    @contextmanager
    def span(self, name: str, kind: SpanKind, parent: str | None, attributes: Attributes) -> Iterator[Span]:
        """Open a span; until it ends, it is the current one."""
        span = self._tracer.start_span(name, _context(parent), _KINDS[kind], attributes)
        token = TRACEPARENT.set(_traceparent(span.get_span_context()))
        try:
            yield _OpenSpan(span)
        except BaseException as error:
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            TRACEPARENT.reset(token)
            span.end()

    def run_ended(self, run: EndedRun) -> None:
        """Export the span of a run."""
        token = _FORCED_ID.set(int(run.span_id, 16))
        try:
            attributes = {
                "penstock.run_id": run.run_id,
                "penstock.workflow": run.workflow,
                "penstock.status": run.status,
            }
            span = self._tracer.start_span(
                f"run {run.workflow}",
                _context(run.parent),
                OtelSpanKind.INTERNAL,
                attributes,
                start_time=run.began_ms * _MILLISECOND,
            )
        finally:
            _FORCED_ID.reset(token)
        if run.status == "failed":
            span.set_status(Status(StatusCode.ERROR))
        span.end(max(run.began_ms, run.ended_ms) * _MILLISECOND)

    def close(self) -> None:
        """Send what is left. It blocks, within the bounds of the exporter."""
        self._provider.shutdown()


def _context(traceparent: str | None) -> OtelContext:
    if traceparent is None:
        return OtelContext()
    _, trace_id, span_id, flags = traceparent.split("-")[:4]
    parent = SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))
    return set_span_in_context(NonRecordingSpan(parent), OtelContext())


def _traceparent(span: SpanContext) -> str:
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"


class OtlpMetrics:
    """Sends what this process counts: the same families, with the same names, as the page for Prometheus."""

    def __init__(self, resource: Resource, telemetry: Telemetry, began_ms: int) -> None:
        self._resource = resource
        self._telemetry = telemetry
        self._began = began_ms * _MILLISECOND
        self._exporter = OTLPMetricExporter()

    def send(self, now_ms: int) -> None:
        """Send the present numbers. It blocks, within the bounds of the exporter."""
        now = now_ms * _MILLISECOND
        metrics = [self._metric(family, now) for family in self._telemetry.families()]
        scope = ScopeMetrics(InstrumentationScope(_SCOPE, __version__), metrics, "")
        self._exporter.export(MetricsData([ResourceMetrics(self._resource, [scope], "")]))

    def _metric(self, family: Counter | Histogram | Gauge, now: int) -> Metric:
        cumulative = AggregationTemporality.CUMULATIVE
        match family:
            case Counter():
                points = self._numbers(family.labels, family.values, now)
                return Metric(family.name, family.help, "1", Sum(points, cumulative, is_monotonic=True))
            case Histogram():
                durations = [self._durations(family, labels, *found, now) for labels, found in family.values.items()]
                return Metric(family.name, family.help, "s", OtelHistogram(durations, cumulative))
            case Gauge():
                points = self._numbers(family.labels, family.read(), now)
                if family.kind == "counter":
                    return Metric(family.name, family.help, "1", Sum(points, cumulative, is_monotonic=True))
                return Metric(family.name, family.help, "1", OtelGauge(points))

    def _numbers(
        self, names: tuple[str, ...], values: Mapping[tuple[str, ...], float], now: int
    ) -> list[NumberDataPoint]:
        return [
            NumberDataPoint(dict(zip(names, labels, strict=True)), self._began, now, value)
            for labels, value in sorted(values.items())
        ]

    def _durations(
        self, family: Histogram, labels: tuple[str, ...], counts: list[int], total: list[float], now: int
    ) -> HistogramDataPoint:
        unknown = cast("float", None)  # neither the least nor the greatest is counted; the wire may leave them out
        return HistogramDataPoint(
            dict(zip(family.labels, labels, strict=True)),
            self._began,
            now,
            sum(counts),
            total[0],
            list(counts),
            family.bounds,
            unknown,
            unknown,
        )

    def close(self) -> None:
        """Close the connections."""
        self._exporter.shutdown()


_SEVERITIES = (
    (logging.CRITICAL, SeverityNumber.FATAL),
    (logging.ERROR, SeverityNumber.ERROR),
    (logging.WARNING, SeverityNumber.WARN),
    (logging.INFO, SeverityNumber.INFO),
)


class OtlpLogHandler(logging.Handler):
    """Sends log lines, with their fields (the ids of the request and the run among them) and the current span."""

    def __init__(self, resource: Resource) -> None:
        super().__init__()
        self._provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
        self._logger = self._provider.get_logger(_SCOPE, __version__)

    def emit(self, record: logging.LogRecord) -> None:
        """Send a line."""
        try:
            fields: dict[str, Any] = getattr(record, "fields", None) or {}
            attributes = {name: value for name, value in fields.items() if isinstance(value, str | int | float | bool)}
            severity = next((number for level, number in _SEVERITIES if record.levelno >= level), SeverityNumber.DEBUG)
            self._logger.emit(
                timestamp=int(record.created * 1000) * _MILLISECOND,
                context=_context(current_traceparent()),
                severity_number=severity,
                severity_text=record.levelname,
                body=record.getMessage(),
                attributes={**attributes, "logger": record.name},
            )
        except Exception:  # a handler must not end what it reports about
            self.handleError(record)

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()
        super().close()
