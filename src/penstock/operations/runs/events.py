"""Records of a history as events of a stream.

This is a pure function of the history: reading it again, from any point and on any server, gives the same events. A
status is reported when it has changed and the run has come to rest, not in the middle of a decision.

Above it: `executions.streams`, `results`. Below it: the engine's records and state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.base.encoding import encode_bytes
from penstock.base.ids import id_for_callers
from penstock.base.json import JsonObject, JsonValue
from penstock.engine.folding.evolve import apply
from penstock.engine.records import Body, Record, events
from penstock.engine.state import RunState
from penstock.engine.status import run_status
from penstock.engine.transitions import Phase, RunStatus
from penstock.engine.visits import Change, change_of
from penstock.operations.catalogue.fields import instant
from penstock.runtime.activities.progress import Progress

__all__ = [
    "EVENT_TYPES",
    "NODE_PHASES",
    "TOLD_BY_AGENTS",
    "Change",
    "EventFold",
    "change_of",
    "progress_data",
    "tool_call_of",
]

EVENT_TYPES = ("status", "node", "turn", "tool", "output", "error", "complete", "progress", "delta")
TOLD_BY_AGENTS = ("turn", "tool", "delta")
"""Events with contents of a run that works with a model: what it said, which tools it called, what it is saying."""
_ARGUMENTS_CHARACTERS_MAX = 4_000

# The name of each change of a visit in events.
NODE_PHASES: dict[Change, str] = {
    Change.BEGUN: "scheduled",
    Change.ATTEMPT_REQUESTED: "started",
    Change.ATTEMPT_FAILED: "attempt_failed",
    Change.ATTEMPT_COMPLETED: "attempt_completed",
    Change.OUTCOME_UNKNOWN: "outcome_unknown",
    Change.RETRIED: "retried",
    Change.ATTEMPT_ASKED: "waiting_input",
    Change.ASKED: "waiting_input",
    Change.VOTED: "voted",
    Change.ESCALATED: "escalated",
    Change.RESUMED: "answered",
    Change.SIGNAL_AWAITED: "waiting_signal",
    Change.SIGNALLED: "signalled",
    Change.TIMER_STARTED: "waiting_timer",
    Change.TIMER_FIRED: "woken",
    Change.CHILD_STARTED: "waiting_child",
    Change.CHILD_ENDED: "child_ended",
    Change.COMPLETED: "completed",
    Change.FAILED: "failed",
}
# Members of a record that are included in events, with their names there.
_EVENT_MEMBERS = {
    "attempt": "attempt",
    "code": "error_code",
    "error": "error",
    "message": "error",
    "willRetry": "will_retry",
    "prompt": "prompt",
    "answerSchema": "answer_schema",
    "interruptId": "interrupt_id",
    "signalName": "signal",
    "nodeType": "type",
}
_EVENT_INSTANTS = {"deadline": "until", "retryAt": "until"}

Event = tuple[str, JsonObject]


@dataclass(slots=True, kw_only=True)
class EventFold:
    """Turns records into events, one after the other."""

    tenant: str
    execution_id: str
    state: RunState = field(default_factory=RunState)
    reported: str = ""
    """The status that was reported last."""

    @property
    def ended(self) -> bool:
        """Whether the last event was returned."""
        return self.state.terminal

    def is_under_way(self, node_id: str, visit: int, attempt: int) -> bool:
        """Whether an attempt has neither returned nor been abandoned."""
        activation = self.state.activation(node_id, visit)
        return activation is not None and activation.attempt == attempt and activation.phase is Phase.REQUESTED

    def is_to_come(self, node_id: str, visit: int, attempt: int) -> bool:
        """Whether an attempt begins later than what was applied so far."""
        begun = self.state.visits.get(node_id, 0)
        if self.ended or visit < begun:
            return False
        activation = self.state.activation(node_id, visit)
        return visit > begun or (activation is not None and activation.attempt < attempt)

    def skip(self, records: Iterable[Record]) -> None:
        """Apply records whose events were returned earlier."""
        for record in records:
            self._apply(record)

    def take(self, record: Record) -> list[Event]:
        """Apply the next record and return its events."""
        before = self.reported
        self._apply(record)
        emitted: list[Event] = []
        change = change_of(record.name)
        phase = None if change is None else NODE_PHASES.get(change)
        if phase is not None and isinstance(record.payload.get("nodeId"), str):
            approval = change is Change.ASKED and record.payload.get("approvers") is not None
            emitted.append(("node", self._node(record, "waiting_approval" if approval else phase)))
        emitted.extend(self._told(record))
        if self.reported != before:
            emitted.append(("status", {**self._place(record), "status": self.reported}))
        if self.ended:
            emitted.extend(self._end(record))
        return emitted

    def _apply(self, record: Record) -> None:
        apply(self.state, record)
        # In the middle of a decision a run always looks running; its status means something only when it comes to rest.
        if record.seq == 1 or self.state.terminal or self.state.paused or not self.state.unsettled:
            self.reported = run_status(self.state)

    def _place(self, record: Record) -> JsonObject:
        return {"execution_id": self.execution_id, "sequence": record.seq, "at": instant(record.at)}

    def _node(self, record: Record, phase: str) -> JsonObject:
        payload = record.payload
        data: JsonObject = {
            **self._place(record),
            "node_id": payload.get("nodeId"),
            "phase": phase,
            "visit": payload.get("visit"),
        }
        for record_name, event_name in _EVENT_MEMBERS.items():
            if payload.get(record_name) is not None:
                data[event_name] = payload[record_name]
        for record_name, event_name in _EVENT_INSTANTS.items():
            moment = payload.get(record_name)
            if isinstance(moment, int):
                data[event_name] = instant(moment)
        if isinstance(payload.get("childExecutionId"), str):
            data["child_execution_id"] = id_for_callers(self.tenant, str(payload["childExecutionId"]))
        return data

    def _told(self, record: Record) -> list[Event]:
        """Return what a model said in a turn, or that a call of a tool has begun or ended."""
        payload = record.payload
        if record.body_type is events.ActivityCompleted:
            result = payload.get("result")
            if not isinstance(result, dict) or not _is_turn(result):
                return []
            place = {**self._place(record), "node_id": payload.get("nodeId"), "visit": payload.get("visit")}
            calls = result["tool_calls"]
            return [
                ("turn", {**place, "text": result["text"], "tool_calls": len(calls) if isinstance(calls, list) else 0})
            ]
        phase = _TOOL_PHASES.get(record.body_type)
        if phase is None:
            return []
        node_id, visit, index = payload.get("nodeId"), payload.get("visit"), payload.get("index")
        if not isinstance(node_id, str) or not isinstance(visit, int) or not isinstance(index, int):
            return []
        call = tool_call_of(self.state, node_id, visit, index)
        if call is None:
            return []
        told: JsonObject = {**self._place(record), "phase": phase, "call_id": call["id"], "name": call["name"]}
        if phase == "begun":
            arguments = call["arguments"]
            short = len(encode_bytes(arguments)) <= _ARGUMENTS_CHARACTERS_MAX
            told |= {"arguments": arguments} if short else {"arguments_left_out": True}
        elif phase == "failed":
            told |= {"error_code": payload.get("code"), "error": payload.get("error")}
        return [("tool", told)]

    def _end(self, record: Record) -> list[Event]:
        state, place = self.state, self._place(record)
        output: JsonValue = state.result if state.status is RunStatus.COMPLETED else None
        emitted: list[Event] = []
        if state.status is RunStatus.COMPLETED and state.continued_as is None:
            emitted.append(("output", {**place, "output": output}))
        failure = state.failure
        if failure is not None:
            emitted.append(
                (
                    "error",
                    {**place, "code": failure.code, "message": failure.message, "node_id": failure.node_id},
                )
            )
        last: JsonObject = {**place, "status": run_status(state)}
        if state.cancel_reason is not None:
            last["reason"] = state.cancel_reason
        if state.continued_as is not None:
            last["continued_as"] = id_for_callers(self.tenant, state.continued_as)
        emitted.append(("complete", last))
        return emitted


_TOOL_PHASES: dict[type[Body] | None, str] = {
    events.ScopeOpened: "begun",
    events.ScopeCompleted: "done",
    events.ScopeFailed: "failed",
}


def _is_turn(result: JsonObject) -> bool:
    """Whether a result is one turn of a conversation with a model."""
    return isinstance(result.get("text"), str) and result.keys() >= {"tool_calls", "answer", "problem"}


def tool_call_of(state: RunState, node_id: str, visit: int, index: int) -> JsonObject | None:
    """Return the call of a tool that an item of a node stands for; None if it stands for something else."""
    activation = state.activation(node_id, visit)
    items = () if activation is None or activation.frame is None else activation.frame.items
    item = items[index] if 0 <= index < len(items) else None
    return item if isinstance(item, dict) and item.keys() >= {"id", "name", "arguments"} else None


def progress_data(tenant: str, progress: Progress, *, untrusted: bool) -> JsonObject:
    """Return the event for progress that an attempt reported; marked if the run has read untrusted data."""
    data: JsonObject = {
        "execution_id": id_for_callers(tenant, progress.run_id),
        "at": instant(progress.at),
        "node_id": progress.node_id,
        "visit": progress.visit,
        "attempt": progress.attempt,
    }
    more: JsonObject = {"value": progress.value, "message": progress.message, "details": progress.details}
    more |= {"text": progress.text, "offset": progress.offset}
    if untrusted:
        more["untrusted"] = True
    return {**data, **{name: value for name, value in more.items() if value is not None}}
