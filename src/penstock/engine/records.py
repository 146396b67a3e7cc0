"""History records: commands (what the engine decided) and events (what happened), and their row form.

Names and payload keys are the published ones, camelCase; keys of ours stand beside them. One record is one row
``{executionId, seq, kind, name, payload, createdAt, recordSchemaVersion}``; every payload names its run.

Above it: everything in the engine makes or folds records; stores keep rows. It does not say what a record means:
`transitions` and `evolve` do.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from penstock.base.errors import CorruptHistory
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.durations import format_instant, parse_instant_ms

__all__ = ["COMMANDS", "EVENTS", "RECORD_SCHEMA_VERSION", "Kind", "Record", "identity", "record_of", "row_of"]

RECORD_SCHEMA_VERSION: Final = 1

Kind = Literal["command", "event"]

# Published commands first, then ours.
COMMANDS: Final = frozenset(
    {
        "ScheduleNode",
        "CompleteNode",
        "FailNode",
        "RaiseInterrupt",
        "ResumeInterrupt",
        "StartParallel",
        "CancelParallelBranch",
        "JoinParallel",
        "StartTimer",
        "StartSignalWait",
        "DeliverSignal",
        "EmitSignal",
        "StartSubworkflow",
        "CompleteSubworkflow",
        "CancelExecution",
        "PauseExecution",
        "ResumeExecution",
        "StartCompensation",
    }
)
EVENTS: Final = frozenset(
    {
        "ExecutionStarted",
        "NodeScheduled",
        "ActivityRequested",
        "ActivityCompleted",
        "ActivityFailed",
        "StateUpdated",
        "CheckpointWritten",
        "InterruptRaised",
        "InterruptResumed",
        "ParallelForked",
        "ParallelJoined",
        "ParallelBranchCancelled",
        "TimerStarted",
        "TimerFired",
        "SignalWaitStarted",
        "SignalReceived",
        "SubworkflowStarted",
        "SubworkflowCompleted",
        "ExecutionCompleted",
        "ExecutionFailed",
        "ExecutionCancelled",
        "ExecutionContinued",
        "HistoryLimitReached",
        "ActivityAsked",
        "ActivityLeased",
        "ActivityOutcomeUnknown",
        "ActivityRetried",
        "SignalBuffered",
        "SignalEmitted",
        "ForEachStarted",
        "LoopStarted",
        "ScopeOpened",
        "ScopeCompleted",
        "ScopeFailed",
        "ExecutionPaused",
        "ExecutionResumed",
    }
)


# `gc=False`: it holds plain JSON and cannot be part of a circle, so the garbage collector need not look at it.
class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One row of a run's history; `at` is epoch milliseconds, taken from the input that caused it."""

    seq: int
    kind: Kind
    name: str
    payload: JsonObject
    at: int


def identity(record: Record) -> JsonObject:
    """What replay compares: the command's name and its node."""
    node = record.payload.get("nodeId")
    return {"name": record.name, "nodeId": node} if isinstance(node, str) else {"name": record.name}


def row_of(run_id: str, record: Record) -> JsonObject:
    """The published row form of a record."""
    return {
        "executionId": run_id,
        "seq": record.seq,
        "kind": record.kind,
        "name": record.name,
        "payload": record.payload,
        "createdAt": format_instant(record.at),
        "recordSchemaVersion": RECORD_SCHEMA_VERSION,
    }


def record_of(row: JsonObject, *, seq: int = 0, at: int = 0) -> Record:
    """A record from its row; `seq` and `at` fill in what foreign rows leave out. Newer rows are refused."""
    version = row.get("recordSchemaVersion", RECORD_SCHEMA_VERSION)
    if not isinstance(version, int) or version > RECORD_SCHEMA_VERSION:
        raise CorruptHistory(
            "RECORD_VERSION_UNSUPPORTED",
            f"a history row has schema version {version}; this engine reads up to {RECORD_SCHEMA_VERSION}",
            hint="open the store with the release that wrote it, or a newer one",
        )
    kind, name, payload = row.get("kind"), row.get("name"), row.get("payload")
    if kind not in ("command", "event") or not isinstance(name, str) or not isinstance(payload, dict):
        raise CorruptHistory("RECORD_MALFORMED", f"history row {row.get('seq', seq)} has no kind, name or payload")
    return Record(
        seq=_whole(row.get("seq"), seq),
        kind="command" if kind == "command" else "event",
        name=name,
        payload=payload,
        at=_instant(row.get("createdAt"), at),
    )


def _whole(value: JsonValue, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _instant(value: JsonValue, default: int) -> int:
    parsed = parse_instant_ms(value) if isinstance(value, str) else None
    return default if parsed is None else parsed
