"""Cutting histories: a run that lost the end of its log goes on and comes to the same end.

The records after the cut that came from outside are turned back into inputs, here and not by the engine's own replay,
so that the two check each other. Above it: `scenario`, the tests. Below it: the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.decide import decide
from penstock.engine.folding.evolve import fold
from penstock.engine.outcomes import Refused
from penstock.engine.records import Record
from penstock.engine.state import RunState
from penstock.engine.walk.timers import timers_of
from tests.simulation.ledger import InvariantBroken, require

__all__ = ["Continued", "check_cut", "continue_from", "essence", "input_of", "outline_of_records"]

_ABOUT_ACTIVITIES = frozenset(
    {
        "ActivityAsked",
        "ActivityCompleted",
        "ActivityFailed",
        "ActivityLeased",
        "ActivityOutcomeUnknown",
        "ActivityRetried",
    }
)


@dataclass(frozen=True, kw_only=True)
class Continued:
    """A history that went on after a cut."""

    state: RunState
    records: tuple[Record, ...]


def continue_from(workflow: Workflow, records: Sequence[Record], cut: int) -> Continued:
    """Keep the first `cut` records, go on, and feed what came from outside after them."""
    state = fold(records[:cut])
    kept = list(records[:cut])
    for record in (None, *records[cut:]):
        given = inputs.ContinueRun(at=records[cut - 1].at) if record is None else input_of(record, state)
        if given is None:
            continue
        decision = decide(workflow, state, given)
        if isinstance(decision, Refused):
            told = f"{type(given).__name__} was refused: {decision.code} {decision.message}"
            raise InvariantBroken(f"cut after row {cut}: {told}")
        state = decision.state
        kept.extend(decision.records)
    return Continued(state=state, records=tuple(kept))


def check_cut(workflow: Workflow, records: Sequence[Record], cut: int, *, exact: bool) -> None:
    """Require the same end; `exact` (for histories that were never torn) requires the same records too."""
    wanted = fold(records)
    continued = continue_from(workflow, records, cut)
    require(
        essence(continued.state) == essence(wanted),
        f"cut after row {cut}: {essence(continued.state)} instead of {essence(wanted)}",
    )
    if not exact:
        return
    for mine, theirs in zip(outline_of_records(continued.records), outline_of_records(records), strict=False):
        require(mine == theirs, f"cut after row {cut}: the record {mine} instead of {theirs}")
    require(
        len(continued.records) == len(records),
        f"cut after row {cut}: {len(continued.records)} records instead of {len(records)}",
    )


def essence(state: RunState) -> JsonObject:
    """What a run came to."""
    failure = state.failure
    return {
        "status": str(state.status),
        "result": state.result,
        "values": state.values,
        "code": failure.code if failure else None,
        "message": failure.message if failure else None,
        "reason": state.cancel_reason,
        "steps": state.steps,
        "visits": dict(state.visits),
    }


def outline_of_records(records: Sequence[Record]) -> list[JsonValue]:
    """Records without what a cut may change: row numbers."""
    outlined: list[JsonValue] = []
    for record in records:
        payload = {key: value for key, value in record.payload.items() if key != "lastAppliedEventSeq"}
        outlined.append([record.kind, record.name, payload, record.at])
    return outlined


def input_of(record: Record, state: RunState) -> inputs.Input | None:
    """The input that a record was written for; None for records that follow from others."""
    payload, at = record.payload, record.at
    node_id, visit = str(payload.get("nodeId", "")), payload.get("visit")
    where = visit if isinstance(visit, int) else 0
    match record.name:
        case name if name in _ABOUT_ACTIVITIES:
            return _activity_input(record, node_id, where)
        case "TimerFired":
            return _timer_input(record, state, node_id, where)
        case "ResumeInterrupt":
            answered_by = payload.get("answeredBy")
            by = answered_by if isinstance(answered_by, str) else None
            return inputs.AnswerInterrupt(at=at, answer=payload["answer"], node_id=node_id, visit=where, by=by)
        case "DeliverSignal" | "SignalBuffered" if payload.get("buffered") is not True:
            return inputs.SendSignal(
                at=at,
                name=str(payload["signalName"]),
                payload=payload["payload"],
                signal_id=_text(payload.get("signalId")),
            )
        case "SubworkflowCompleted":
            return _child_input(record)
        case "SignalEmitted":
            return inputs.AcknowledgeEmit(
                at=at,
                node_id=node_id,
                visit=where,
                delivered=payload["delivered"] is True,
                code=_text(payload.get("code")),
                error=_text(payload.get("error")),
            )
        case "CancelExecution":
            return inputs.CancelRun(at=at, reason=_text(payload.get("reason")))
        case "PauseExecution":
            return inputs.PauseRun(at=at, reason=_text(payload.get("reason")))
        case "ResumeExecution":
            return inputs.ResumeRun(at=at)
        case _:
            return None


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _activity_input(record: Record, node_id: str, visit: int) -> inputs.Input:
    payload, at = record.payload, record.at
    match record.name:
        case "ActivityCompleted":
            kept = ("nodeId", "visit", "attempt", "result", "executionId")
            extra = {key: value for key, value in payload.items() if key not in kept}
            return inputs.CompleteActivity(
                at=at, node_id=node_id, visit=visit, result=payload["result"], extra=extra or None
            )
        case "ActivityFailed":
            return inputs.FailActivity(
                at=at,
                node_id=node_id,
                visit=visit,
                error=str(payload["error"]),
                code=_text(payload.get("code")),
                retryable=payload.get("willRetry") is True,
                extra={"usage": payload["usage"]} if "usage" in payload else None,
            )
        case "ActivityAsked":
            return inputs.AskInActivity(
                at=at,
                node_id=node_id,
                visit=visit,
                question=str(payload["prompt"]),
                answer_schema={"type": "object"},
                resume=payload["resume"],
            )
        case "ActivityLeased":
            until = payload["leaseUntil"]
            lease_ms = until - at if isinstance(until, int) else 0
            return inputs.LeaseActivity(
                at=at, node_id=node_id, visit=visit, holder=str(payload["holder"]), lease_ms=lease_ms
            )
        case "ActivityOutcomeUnknown":
            return inputs.ReportOutcomeUnknown(at=at, node_id=node_id, visit=visit)
        case _:
            return inputs.RetryActivity(at=at, node_id=node_id, visit=visit, by=_text(payload.get("decidedBy")))


def _timer_input(record: Record, state: RunState, node_id: str, visit: int) -> inputs.Input | None:
    kind = str(record.payload["kind"])
    if kind in ("duration", "until"):
        kind = "wait"
    for timer in timers_of(state):
        if (timer.kind, timer.node_id, timer.visit) == (kind, node_id, visit):
            return inputs.FireTimer(at=max(record.at, timer.due_at), kind=kind, node_id=node_id, visit=visit)
    return None  # it was due at once, and fired by itself


def _child_input(record: Record) -> inputs.Input:
    payload = record.payload
    return inputs.FinishChild(
        at=record.at,
        child_id=str(payload["childExecutionId"]),
        status="failed" if payload.get("failed") is True else "completed",
        result=payload["childResult"],
        final_state=payload["childFinalState"],
        error=_text(payload.get("error")),
        code=_text(payload.get("code")),
    )
