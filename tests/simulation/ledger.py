"""The durable log of one simulated run, and what must hold of it after every append.

Rows are kept as JSON bytes, the way a store would, and read back from them: a live state that holds anything which
does not survive storage differs from the state folded here. Above it: `world`. Below it: the engine's `fold`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from penstock.engine.effects import (
    CancelChild,
    DeliverSignal,
    Effect,
    PerformActivity,
    StartChild,
    StartSuccessor,
    WakeUp,
    WithdrawTask,
)
from penstock.engine.folding.evolve import fold
from penstock.engine.inputs import Input
from penstock.engine.records import Record, record_of, row_of
from penstock.engine.state import RunState

__all__ = ["TERMINAL_RECORDS", "InvariantBroken", "Ledger", "require"]

TERMINAL_RECORDS = frozenset({"ExecutionCompleted", "ExecutionFailed", "ExecutionCancelled", "ExecutionContinued"})


class InvariantBroken(AssertionError):
    """Something that must always hold did not."""


def require(holds: bool, what: str) -> None:
    """Break off when an invariant does not hold."""
    if not holds:
        raise InvariantBroken(what)


def stored(run_id: str, record: Record) -> bytes:
    """A record as a store keeps it."""
    return msgspec.json.encode(row_of(run_id, record))


def read_back(row: bytes) -> Record:
    """A record as a store gives it back."""
    return record_of(msgspec.json.decode(row))


@dataclass(kw_only=True)
class Ledger:
    """What was durably written for a run, and the state it folds to."""

    run_id: str
    rows: list[bytes] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    state: RunState = field(default_factory=RunState)
    attempts: dict[tuple[str, int], int] = field(default_factory=dict)
    results: set[tuple[str, int, int]] = field(default_factory=set)
    instants: set[tuple[str, int, int]] = field(default_factory=set)
    emitted: set[tuple[str, int]] = field(default_factory=set)
    children: set[str] = field(default_factory=set)
    signals: set[str] = field(default_factory=set)
    questions: set[str] = field(default_factory=set)
    leases: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict)
    # Every input that was decided on, with how many of its records were written and how many there were.
    taken: list[tuple[Input, int, int]] = field(default_factory=list)
    cuts: int = 0  # how often only a part of a decision was written

    def append(self, records: Sequence[Record]) -> None:
        """Write records and check what they say against everything written before."""
        kept = []
        for record in records:
            row = stored(self.run_id, record)
            again = read_back(row)
            require(again == record, f"row {record.seq} ({record.name}) is not the same after storage")
            self._watch(again)
            self.rows.append(row)
            self.records.append(again)
            kept.append(again)
        self.state = fold(kept, self.state)

    def recovered(self) -> RunState:
        """The state that a process finds after a restart: everything is read again."""
        state = fold(read_back(row) for row in self.rows)
        require(state == self.state, "folding the whole history gives another state than folding it piece by piece")
        return state

    def _watch(self, record: Record) -> None:
        require(record.seq == len(self.records) + 1, f"row {record.seq} follows row {len(self.records)}")
        last = self.records[-1].name if self.records else ""
        require(last not in TERMINAL_RECORDS, f"{record.name} follows {last}")
        payload = record.payload
        require(payload.get("executionId") == self.run_id, f"row {record.seq} is of another run")
        node, visit = str(payload.get("nodeId", "")), payload.get("visit")
        key = (node, visit if isinstance(visit, int) else 0)
        match record.name:
            case "ActivityRequested":
                attempt = self.attempts.get(key, 0) + 1
                require(payload["attempt"] == attempt, f"attempt {payload['attempt']} of {key} where {attempt} was due")
                self.attempts[key] = attempt
                self.leases.pop(key, None)
            case "ActivityCompleted" | "ActivityFailed":
                self._watch_result(record, key)
            case "ActivityLeased" | "ActivityAsked":
                self._watch_work(record, key)
            case "EmitSignal":
                self.emitted.add(key)
            case "SubworkflowStarted":
                child = str(payload["childExecutionId"])
                require(child not in self.children, f"child {child} was started twice")
                self.children.add(child)
            case "DeliverSignal" | "SignalBuffered" | "ExecutionStarted":
                self._watch_signal(record)
            case _:
                pass
        for name in ("deadline", "retryAt"):
            instant = payload.get(name)
            if isinstance(instant, int):
                self.instants.add((*key, instant))

    def _watch_result(self, record: Record, key: tuple[str, int]) -> None:
        attempt = record.payload["attempt"]
        require(attempt == self.attempts.get(key), f"a result of {key} attempt {attempt}, which is not under way")
        identity = (*key, self.attempts[key])
        require(identity not in self.results, f"a second result of {identity} was recorded")
        self.results.add(identity)

    def _watch_work(self, record: Record, key: tuple[str, int]) -> None:
        """Nothing is asked twice, and nobody gets what somebody else still has."""
        if record.name == "ActivityAsked":
            self.leases.pop(key, None)
            question = str(record.payload["interruptId"])
            require(question not in self.questions, f"the question {question} was asked twice")
            self.questions.add(question)
            return
        holder, until = str(record.payload["holder"]), record.payload["leaseUntil"]
        had, had_until = self.leases.get(key, (holder, 0))
        require(had == holder or had_until <= record.at, f"{holder} took {key} from {had}, who still has it")
        if isinstance(until, int) and until > record.at:
            self.leases[key] = (holder, until)
        else:
            self.leases.pop(key, None)

    def _watch_signal(self, record: Record) -> None:
        """A signal comes into a run once, and leaves the buffer once if it was kept there."""
        known = record.payload.get("carriedSignalIds")
        # What the run before this one knew came in with it.
        self.signals.update(str(name) for name in (known if isinstance(known, list) else []))
        identity = record.payload.get("signalId")
        if not isinstance(identity, str):
            return
        if record.payload.get("buffered") is True:
            require(identity in self.signals, f"signal {identity} left the buffer without having come in")
            identity = f"{identity} from the buffer"
        require(identity not in self.signals, f"signal {identity} was taken twice")
        self.signals.add(identity)

    def require_recorded(self, effect: Effect) -> None:
        """No effect is due before the record that asks for it is durable."""
        found = False
        match effect:
            case PerformActivity(node_id=node_id, visit=visit, attempt=attempt):
                found = self.attempts.get((node_id, visit)) == attempt
                found = found and (node_id, visit, attempt) not in self.results
            case StartChild(child_id=child_id) | CancelChild(child_id=child_id):
                found = child_id in self.children
            case WithdrawTask(activity=asked):
                found = self.attempts.get((asked.node_id, asked.visit)) == asked.attempt
            case StartSuccessor(successor_id=successor_id):
                last = self.records[-1]
                found = last.name == "ExecutionContinued" and last.payload["successorExecutionId"] == successor_id
            case DeliverSignal(node_id=node_id, visit=visit):
                found = (node_id, visit) in self.emitted
            case WakeUp(node_id=node_id, visit=visit, due_at=due_at):
                found = (node_id, visit, due_at) in self.instants
        require(found, f"effect {effect.effect_id} is due and no record asks for it")
