"""Folding the records of things a run waits for: activities, timers, questions, signals and child runs.

Above it: `evolve`, which finds these handlers in `WAIT_HANDLERS`. Below it: `reading`, `scopes`, `state`.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from penstock.base.json import JsonObject
from penstock.engine.reading import (
    corrupt,
    failure_of,
    instant_of,
    located,
    moved,
    number_of,
    secrets_of,
    signal_of,
    text_of,
)
from penstock.engine.records import Record
from penstock.engine.scopes import abandon_child, book, drop_bodies
from penstock.engine.state import Child, Dialogue, Ending, Failure, Lease, RunState
from penstock.engine.transitions import Phase

__all__ = ["WAIT_HANDLERS", "plain"]


def plain(draft: RunState, record: Record) -> None:
    """A record that only moves the phase."""
    scope, activation = located(draft, record)
    book(draft, replace(scope, activation=replace(activation, phase=moved(activation, record))))


# --- activities ----------------------------------------------------------------------------------


def _activity_requested(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    payload = record.payload
    changed = replace(
        activation,
        phase=moved(activation, record),
        attempt=number_of(payload.get("attempt"), activation.attempt + 1),
        deadline=instant_of(payload.get("deadline")),
        due_at=None,
        lease=None,
    )
    if "arguments" in payload or "secrets" in payload:
        changed = replace(changed, arguments=payload.get("arguments"), secrets=secrets_of(payload.get("secrets")))
    if "idempotencyKey" in payload:
        changed = replace(changed, idempotency_key=text_of(payload["idempotencyKey"]))
    if activation.dialogue is not None:
        # Another attempt begins anew; what the last one left with its performer is over.
        changed = replace(changed, dialogue=Dialogue(round=activation.dialogue.round))
    if payload.get("nodeType") == "agent_delegate":
        external: JsonObject = {
            name: payload.get(name) for name in ("agentId", "protocol", "delegateInput", "delegateCorrelationId")
        }
        draft.last_delegate = external
        changed = replace(changed, external=external)
    book(draft, replace(scope, activation=changed))


def _activity_completed(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    changed = replace(
        activation, phase=moved(activation, record), result=record.payload.get("result"), deadline=None, due_at=None
    )
    book(draft, replace(scope, activation=changed))


def _activity_failed(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    payload = record.payload
    retry_at = instant_of(payload.get("retryAt"))
    variant = ":final"
    if payload.get("willRetry") is True:
        variant = ":retry" if retry_at is None else ":backoff"
    reason = "delegate_failed" if activation.external else "activity_failed"
    changed = replace(
        activation,
        phase=moved(activation, record, variant),
        failure=failure_of(payload, reason=reason, node_id=activation.node_id, visit=activation.visit),
        deadline=None,
        due_at=retry_at,
    )
    book(draft, replace(scope, activation=changed))


def _activity_asked(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    payload = record.payload
    schema, ask = payload.get("answerSchema"), payload.get("ask")
    dialogue = Dialogue(
        round=number_of(payload.get("round"), 1),
        prompt=str(payload.get("prompt", "")),
        answer_schema=schema if isinstance(schema, dict) else {},
        resume=payload.get("resume"),
        ask=ask if isinstance(ask, dict) else None,
    )
    draft.client_questions += dialogue.ask is not None
    # The deadline of the attempt stays: until then somebody may answer.
    changed = replace(activation, phase=moved(activation, record), dialogue=dialogue, lease=None)
    book(draft, replace(scope, activation=changed))


def _activity_leased(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    until = number_of(record.payload.get("leaseUntil"))
    # A lease that ends when it begins gives the activity back.
    lease = Lease(holder=str(record.payload.get("holder")), until=until) if until > record.at else None
    book(draft, replace(scope, activation=replace(activation, phase=moved(activation, record), lease=lease)))


def _activity_retried(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    # The deadline was that of the attempt in doubt.
    book(draft, replace(scope, activation=replace(activation, phase=moved(activation, record), deadline=None)))


# --- waiting -------------------------------------------------------------------------------------


def _timer_started(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    due_at = instant_of(record.payload.get("deadline"))
    # A timer that is due when it starts needs nobody to fire it.
    variant = ":due" if due_at is not None and due_at <= record.at else ":later"
    book(draft, replace(scope, activation=replace(activation, phase=moved(activation, record, variant), due_at=due_at)))


def _timer_fired(draft: RunState, record: Record) -> None:
    kind = record.payload.get("kind")
    if kind == "run":
        failure = Failure("RUN_TIMEOUT", "the run took longer than its timeout allows", "run_timeout")
        draft.ending = draft.ending or Ending(outcome="failed", failure=failure, node_id=draft.last_node_id)
        return
    scope, activation = located(draft, record)
    variant = f":{kind}" if kind in ("retry", "timeout") else ":wait"
    changed = replace(activation, phase=moved(activation, record, variant), due_at=None)
    if kind == "timeout":
        drop_bodies(draft, scope.serial)
        abandon_child(draft, activation)
        changed = replace(changed, deadline=None, frame=None)
    book(draft, replace(scope, activation=changed))


def _interrupt_raised(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    payload = record.payload
    names = ("prompt", "promptRef", "interruptId", "answerSchema", "approvers", "anyone", "decline")
    variant = ":checkpoint" if payload.get("checkpoint") is True else ":waiting"
    changed = replace(
        activation,
        phase=moved(activation, record, variant),
        deadline=instant_of(payload.get("deadline")),
        external={name: payload[name] for name in names if name in payload},
    )
    book(draft, replace(scope, activation=changed))


def _resume_interrupt(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    answer, sealed = record.payload.get("answer"), secrets_of(record.payload.get("secrets"))
    if activation.phase is Phase.ASKING and activation.dialogue is not None:
        told = replace(activation.dialogue, answer=answer, sealed=sealed)
        phase = moved(activation, record, ":activity")
        book(draft, replace(scope, activation=replace(activation, phase=phase, dialogue=told, deadline=None)))
        return
    phase = moved(activation, record, ":node")
    changed = replace(activation, phase=phase, result=answer, sealed=sealed, deadline=None)
    book(draft, replace(scope, activation=changed))


def _interrupt_resumed(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    variant = ":activity" if activation.phase is Phase.CONTINUING else ":node"
    deadline = instant_of(record.payload.get("deadline"))
    phase = moved(activation, record, variant)
    book(draft, replace(scope, activation=replace(activation, phase=phase, deadline=deadline)))


def _signal_wait(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    payload = record.payload
    changed = replace(
        activation,
        phase=moved(activation, record),
        deadline=instant_of(payload.get("deadline")),
        external={"signalName": payload.get("signalName")},
    )
    book(draft, replace(scope, activation=changed))


def _deliver_signal(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    payload = record.payload
    if payload.get("buffered") is True:
        name = payload.get("signalName")
        position = next((n for n, signal in enumerate(draft.signals) if signal.name == name), None)
        if position is None:
            raise corrupt(record, f"takes the signal {name} from the buffer, which has none")
        draft.signals = draft.signals[:position] + draft.signals[position + 1 :]
    _remember_signal(draft, payload)
    changed = replace(activation, phase=moved(activation, record), result=payload.get("payload"), deadline=None)
    book(draft, replace(scope, activation=changed))


def _signal_buffered(draft: RunState, record: Record) -> None:
    payload = record.payload
    _remember_signal(draft, payload)
    draft.signals = (*draft.signals, signal_of(payload))
    # A waiting activation with this name would have got it: the engine buffers only when nobody waits.


def _remember_signal(draft: RunState, payload: JsonObject) -> None:
    signal_id = payload.get("signalId")
    if isinstance(signal_id, str):
        draft.signal_ids = {**draft.signal_ids, signal_id: None}


def _emit_signal(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    names = ("targetExecutionId", "signalName", "payload")
    external = {name: record.payload.get(name) for name in names}
    book(draft, replace(scope, activation=replace(activation, phase=moved(activation, record), external=external)))


def _signal_emitted(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    payload = record.payload
    refused = payload.get("delivered") is False
    failure = None
    if refused:
        failure = failure_of(payload, reason="emit_failed", node_id=activation.node_id, visit=activation.visit)
    phase = moved(activation, record, ":refused" if refused else ":delivered")
    book(draft, replace(scope, activation=replace(activation, phase=phase, failure=failure)))


# --- children ------------------------------------------------------------------------------------


def _subworkflow_started(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    payload = record.payload
    child_id = str(payload.get("childExecutionId"))
    draft.children[child_id] = Child(
        child_id=child_id,
        node_id=activation.node_id,
        visit=activation.visit,
        workflow_ref=str(payload.get("workflowRef")),
        input=payload.get("input"),
        version_pin=text_of(payload.get("versionPin")),
    )
    names = ("childExecutionId", "workflowRef", "parentExecutionId")
    draft.last_child = {name: payload.get(name) for name in names}
    changed = replace(
        activation,
        phase=moved(activation, record),
        external=draft.last_child,
        deadline=instant_of(payload.get("deadline")),
    )
    book(draft, replace(scope, activation=changed))


def _start_subworkflow(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    payload = record.payload
    changed = replace(
        activation,
        phase=moved(activation, record),
        attempt=activation.attempt + 1,
        arguments=payload.get("input"),
        external={"childExecutionId": payload.get("childExecutionId")},
        due_at=None,
    )
    book(draft, replace(scope, activation=changed))


def _subworkflow_completed(draft: RunState, record: Record) -> None:
    payload = record.payload
    child = draft.children.pop(str(payload.get("childExecutionId")), None)
    if child is not None and child.abandoned:
        return
    scope, activation = located(draft, record)
    failure, variant, retry_at = None, ":done", instant_of(payload.get("retryAt"))
    if payload.get("failed") is True:
        failure = failure_of(payload, reason="subworkflow_failed", node_id=activation.node_id, visit=activation.visit)
        variant = ":failed"
        if payload.get("willRetry") is True:
            variant = ":retry" if retry_at is None else ":backoff"
    changed = replace(
        activation,
        phase=moved(activation, record, variant),
        result=payload.get("mergedOutput"),
        failure=failure,
        deadline=None,
        due_at=retry_at,
    )
    book(draft, replace(scope, activation=changed))


def _prepared(draft: RunState, record: Record) -> None:
    """A command that carries what the event after it needs."""
    scope, activation = located(draft, record)
    payload = record.payload
    kept = payload.get("until", payload.get("prompt"))
    book(draft, replace(scope, activation=replace(activation, phase=moved(activation, record), arguments=kept)))


WAIT_HANDLERS: dict[str, Callable[[RunState, Record], None]] = {
    "ActivityRequested": _activity_requested,
    "ActivityCompleted": _activity_completed,
    "ActivityFailed": _activity_failed,
    "ActivityAsked": _activity_asked,
    "ActivityLeased": _activity_leased,
    "ActivityOutcomeUnknown": plain,
    "ActivityRetried": _activity_retried,
    "StartTimer": _prepared,
    "TimerStarted": _timer_started,
    "TimerFired": _timer_fired,
    "RaiseInterrupt": _prepared,
    "InterruptRaised": _interrupt_raised,
    "ResumeInterrupt": _resume_interrupt,
    "InterruptResumed": _interrupt_resumed,
    "StartSignalWait": plain,
    "SignalWaitStarted": _signal_wait,
    "DeliverSignal": _deliver_signal,
    "SignalReceived": plain,
    "SignalBuffered": _signal_buffered,
    "EmitSignal": _emit_signal,
    "SignalEmitted": _signal_emitted,
    "StartSubworkflow": _start_subworkflow,
    "SubworkflowStarted": _subworkflow_started,
    "SubworkflowCompleted": _subworkflow_completed,
    "CompleteSubworkflow": plain,
}
