"""What this process counts: requests, calls, runs, streams, and what its store does.

Counting happens on every request, so it is a look-up and an addition. Names, buckets and help texts are defined here
once; the renderers (Prometheus text, `system.metrics`) read them. Label values come from closed sets (routes,
operations, statuses), never from callers' text, and each family is bounded as well.

Above it: the gate and the surfaces count, `app` adds gauges, `rest.metrics` renders. Below it: the names of records.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.engine.records import events

__all__ = ["Counter", "Gauge", "Histogram", "Telemetry"]

# From a millisecond to the longest wait that a call may ask for.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_STREAM_SECONDS = (1.0, 10.0, 60.0, 300.0, 1_800.0, 3_600.0, 14_400.0, 86_400.0)
# Replaces the labels when a family is full.
_OTHER = "other"

Labels = tuple[str, ...]


class Counter:
    """A number that only grows, for each set of labels."""

    __slots__ = ("help", "labels", "name", "values")

    def __init__(self, name: str, help_text: str, labels: Labels = ()) -> None:
        self.name, self.help, self.labels = name, help_text, labels
        self.values: dict[Labels, float] = {} if labels else {(): 0.0}

    def add(self, labels: Labels = (), amount: float = 1.0) -> None:
        """Add to the number."""
        values = self.values
        try:
            values[labels] += amount
        except KeyError:
            if len(values) >= limits.METRIC_SERIES_MAX:
                labels = (_OTHER,) * len(labels)
            values[labels] = values.get(labels, 0.0) + amount


class Histogram:
    """Durations, for each set of labels: a count for each bucket; the last bucket counts all longer ones."""

    __slots__ = ("bounds", "help", "labels", "name", "values")

    def __init__(self, name: str, help_text: str, labels: Labels = (), bounds: tuple[float, ...] = _SECONDS) -> None:
        self.name, self.help, self.labels, self.bounds = name, help_text, labels, bounds
        self.values: dict[Labels, tuple[list[int], list[float]]] = {}

    def add(self, seconds: float, labels: Labels = ()) -> None:
        """Count a duration."""
        found = self.values.get(labels)
        if found is None:
            if len(self.values) >= limits.METRIC_SERIES_MAX:
                labels = (_OTHER,) * len(labels)
            found = self.values.setdefault(labels, ([0] * (len(self.bounds) + 1), [0.0]))
        found[0][bisect_left(self.bounds, seconds)] += 1
        found[1][0] += seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """Numbers that are read when they are rendered; `kind` says whether they only grow."""

    name: str
    help: str
    labels: Labels = ()
    kind: Literal["gauge", "counter"] = "gauge"
    read: Callable[[], Mapping[Labels, float]]


class Telemetry:
    """All metrics of one process."""

    def __init__(self) -> None:
        self.http_requests = Counter(
            "penstock_http_requests", "HTTP requests that were answered.", ("method", "route", "status")
        )
        self.http_seconds = Histogram(
            "penstock_http_request_duration_seconds", "From the head of a request to the end of its answer.", ("route",)
        )
        self.calls = Counter("penstock_gate_calls", "Calls of operations.", ("operation", "outcome", "code"))
        self.call_seconds = Histogram("penstock_gate_call_duration_seconds", "How long calls took.", ("operation",))
        self.limited = Counter(
            "penstock_limited", "Calls and requests that were refused because of a limit or a quota.", ("limit",)
        )
        self.runs_started = Counter("penstock_runs_started", "Runs that this process started.")
        self.runs_ended = Counter("penstock_runs_ended", "Runs that ended in this process.", ("status",))
        self.activities = Counter("penstock_activities", "Attempts of activities, by outcome.", ("outcome",))
        self.model_attempts = Counter(
            "penstock_model_attempts", "Attempts to ask models, by outcome.", ("provider", "outcome")
        )
        self.model_tokens = Counter(
            "penstock_model_tokens", "Tokens of models, failed attempts included.", ("provider", "direction")
        )
        self.model_cost = Counter(
            "penstock_model_cost_dollars", "What models cost, as far as their prices are known.", ("provider",)
        )
        self.stream_events = Counter("penstock_stream_events", "Events that were sent.", ("kind",))
        self.stream_errors = Counter("penstock_stream_errors", "Streams that broke or were cut off.", ("kind",))
        self.stream_seconds = Histogram(
            "penstock_stream_connection_duration_seconds", "How long streams were open.", ("kind",), _STREAM_SECONDS
        )
        self.stream_first_seconds = Histogram(
            "penstock_stream_time_to_first_event_seconds", "From opening a stream to its first event.", ("kind",)
        )
        self.mcp_requests = Counter("penstock_mcp_requests", "MCP requests that were answered.", ("method", "status"))
        self.mcp_seconds = Histogram(
            "penstock_mcp_request_duration_seconds", "How long MCP requests took.", ("method",)
        )
        self.mcp_tool_calls = Counter("penstock_mcp_tool_calls", "Calls of tools over MCP.", ("tool_name", "status"))
        self.loop_stalls = Histogram(
            "penstock_event_loop_stall_seconds", "How long the event loop stood still, where that was too long."
        )
        self.loop_stall_max_seconds = 0.0
        """The longest stall."""
        self.mcp_listening = 0
        """The number of MCP clients that are listening for changes."""
        self.mcp_sessions: Callable[[], int] = lambda: 0
        """Returns how many sessions of the handshake era are open. The MCP surface sets it once it is loaded."""
        self.gauges: list[Gauge] = []
        """Read when they are rendered; `app` adds them."""

    def loop_stalled(self, seconds: float) -> None:
        """Count a stall of the event loop."""
        self.loop_stalls.add(seconds)
        self.loop_stall_max_seconds = max(self.loop_stall_max_seconds, seconds)

    def model_used(
        self, provider: str, code: str | None, *, input_tokens: int, output_tokens: int, cost: float | None
    ) -> None:
        """Count an attempt to ask a model: by its provider, because tenants choose the names of models."""
        self.model_attempts.add((provider, _MODEL_OUTCOMES.get(code, "failed")))
        self.model_tokens.add((provider, "input"), input_tokens)
        self.model_tokens.add((provider, "output"), output_tokens)
        if cost is not None:
            self.model_cost.add((provider,), cost)

    def call(self, operation: str | None, code: str | None, seconds: float) -> None:
        """Count a call that passed through the gate; `operation` is `None` if no operation has that name."""
        named = operation or "unknown"
        self.calls.add((named, "answered" if code is None else "refused", code or ""))
        self.call_seconds.add(seconds, (named,))

    def refused_by(self, error: PenstockError) -> None:
        """Count a refusal, if a limit or a quota is the reason. Which one it was comes from a closed set."""
        limit = error.details.get("limit") if error.code == "RATE_LIMITED" else error.details.get("quota")
        if isinstance(limit, str):
            self.limited.add((limit,))

    def recorded(self, names: Iterable[str]) -> None:
        """Count the new records of a run, by their names."""
        for name in names:
            if name in _COUNTED:
                family, labels = _COUNTED[name]
                getattr(self, family).add(labels)

    def families(self) -> Iterator[Counter | Histogram | Gauge]:
        """Yield every family, sorted by name."""
        own = [family for family in vars(self).values() if isinstance(family, Counter | Histogram)]
        yield from sorted([*own, *self.gauges], key=lambda family: family.name)


_MODEL_OUTCOMES = {
    None: "answered",
    "ACTIVITY_TIMEOUT": "timeout",
    "LLM_TIMEOUT": "timeout",
    "LLM_LIMIT_REACHED": "limited",
    "LLM_LIMIT_UNKNOWN": "limited",
}
# By the name of a record: the family that counts it, and the labels.
_COUNTED: dict[str, tuple[str, Labels]] = {
    events.ExecutionStarted.__name__: ("runs_started", ()),
    events.ExecutionCompleted.__name__: ("runs_ended", ("completed",)),
    events.ExecutionFailed.__name__: ("runs_ended", ("failed",)),
    events.ExecutionCancelled.__name__: ("runs_ended", ("cancelled",)),
    events.ExecutionContinued.__name__: ("runs_ended", ("continued",)),
    events.ActivityRequested.__name__: ("activities", ("requested",)),
    events.ActivityCompleted.__name__: ("activities", ("completed",)),
    events.ActivityFailed.__name__: ("activities", ("failed",)),
    events.ActivityOutcomeUnknown.__name__: ("activities", ("unknown",)),
}
