"""Spans around calls of the gate, runs and activities, and the context that they pass on.

One trace covers the caller's span, the call of the gate, the run that it starts, every attempt of an activity, and
everything that the attempt calls. The caller's span comes in a header or in `_meta`. A run keeps the span that it was
started in as a label, so it stays in its trace after a restart, and after days of waiting. The span of a run has an id
that is made from the id of the run: attempts can name it as their parent before it is exported, which happens when the
run ends.

Spans have the names of operations, node types and workflows, and ids; never arguments, results or texts.

Above it: `opened`, `app.gate`, `app.penstock`. Below it: the gate, the driver. The library is behind `Tracing`.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, Protocol, TypeAlias

from penstock.base.traces import TRACE_LABEL, current_traceparent, is_traceparent
from penstock.engine.records import events
from penstock.operations.gate.context import Request
from penstock.operations.gate.outcomes import Outcome
from penstock.operations.gate.pipeline import Gate, RefusedCall
from penstock.runtime.activities.performing import (
    ActivityAsks,
    ActivityCall,
    ActivityError,
    ActivityOutcome,
    AsyncPerformer,
)
from penstock.runtime.ports.host import Committed

__all__ = ["EndedRun", "Span", "SpanKind", "TracedGate", "TracedPerformer", "Tracing", "ended_run", "run_span"]

SpanKind: TypeAlias = Literal["server", "client", "internal"]
Attributes: TypeAlias = Mapping[str, str | int]
_ENDINGS = {
    events.ExecutionCompleted.__name__: "completed",
    events.ExecutionFailed.__name__: "failed",
    events.ExecutionCancelled.__name__: "cancelled",
    events.ExecutionContinued.__name__: "continued",
}


class Span(Protocol):
    """A span that is open."""

    def note(self, attributes: Attributes, *, failed: str | None = None) -> None:
        """Add attributes; `failed` says what went wrong, as a code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """A run that has ended, as its span tells it."""

    run_id: str
    workflow: str
    status: str
    began_ms: int
    ended_ms: int
    parent: str
    """The span that it was started in."""
    span_id: str


class Tracing(Protocol):
    """Makes spans. Only `otlp` implements it."""

    def span(
        self, name: str, kind: SpanKind, parent: str | None, attributes: Attributes
    ) -> AbstractContextManager[Span]:
        """Open a span; until it ends, it is the current one."""

    def run_ended(self, run: EndedRun) -> None:
        """Export the span of a run."""


def run_span(traceparent: str, run_id: str) -> str:
    """Return the span of a run that was started in a span."""
    version, trace_id, _, flags = traceparent.split("-")[:4]
    return f"{version}-{trace_id}-{_span_id(run_id)}-{flags}"


def _span_id(run_id: str) -> str:
    return sha256(run_id.encode()).hexdigest()[:16]


def ended_run(committed: Committed) -> EndedRun | None:
    """Return the run that a commit ended, if it belongs to a trace."""
    status = next((_ENDINGS[name] for name in committed.names if name in _ENDINGS), None)
    row = committed.live.row
    parent = None if status is None else row.labels.get(TRACE_LABEL)
    if status is None or parent is None or not is_traceparent(parent):
        return None
    return EndedRun(
        run_id=row.run_id,
        workflow=row.workflow_name,
        status=status,
        began_ms=row.created_at,
        ended_ms=committed.record(len(committed.names) - 1).at,
        parent=parent,
        span_id=_span_id(row.run_id),
    )


class TracedGate(Gate):
    """A gate that makes a span for every call."""

    tracing: Tracing

    def call(self, request: Request) -> Coroutine[Any, Any, Outcome]:
        """Take a call to its outcome, in a span."""
        return self._traced(request)

    async def _traced(self, request: Request) -> Outcome:
        sent = None if request.origin is None else request.origin.traceparent
        parent = sent if is_traceparent(sent) else current_traceparent()
        attributes: dict[str, str | int] = {
            "penstock.operation": request.operation,
            "penstock.surface": request.surface,
            "penstock.request_id": request.request_id,
            "penstock.tenant": request.principal.tenant,
            "penstock.principal": request.principal.id,
        }
        known = self.catalogue.get(request.operation)
        name = "unknown operation" if known is None else known.name
        with self.tracing.span(f"gate {name}", "server", parent, attributes) as span:
            outcome = await super().call(request)
            if isinstance(outcome, RefusedCall):
                span.note({"penstock.code": outcome.error.code}, failed=outcome.error.code)
            return outcome


@dataclass(frozen=True, slots=True)
class TracedPerformer:
    """Performs activities in a span, if their run belongs to a trace."""

    inner: AsyncPerformer
    tracing: Tracing

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Perform one attempt."""
        if call.trace is None or not is_traceparent(call.trace):
            return await self.inner.perform(call)
        activity = call.activity
        attributes: dict[str, str | int] = {
            "penstock.run_id": call.run_id,
            "penstock.workflow": call.workflow_name,
            "penstock.node": activity.node_id,
            "penstock.node_type": activity.node_type,
            "penstock.attempt": activity.attempt,
            "penstock.tenant": call.tenant,
        }
        parent = run_span(call.trace, call.run_id)
        with self.tracing.span(f"activity {activity.node_type}", "client", parent, attributes) as span:
            outcome = await self.inner.perform(call)
            if isinstance(outcome, ActivityError):
                span.note({"penstock.code": outcome.code}, failed=outcome.code)
            elif isinstance(outcome, ActivityAsks):
                span.note({"penstock.asks": "yes"})
            return outcome
