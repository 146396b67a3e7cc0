"""Fold the records of things a run waits for: activities, timers, questions, signals and child runs.

Above it: `evolve`, which finds these handlers in `WAIT_HANDLERS`. Below it: `reading`, `scopes`, `state`.
"""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from penstock.base.json import JsonObject
from penstock.definitions.model import NodeType
from penstock.engine.folding.reading import Handler, corrupt, failure_of, located, moved, on, secrets_of, signal_of
from penstock.engine.folding.scopes import abandon, book, drop_bodies
from penstock.engine.records import Body, Record, VisitBody, commands, events, given
from penstock.engine.state import Child, Dialogue, Ending, Failure, Lease, RunState
from penstock.engine.transitions import Phase

__all__ = ["WAIT_HANDLERS", "plain"]

# What is kept of who voted, beside their principal, to find out whether the next one is somebody else.
_BEHIND_A_VOTE = ("owner", "subject", "lineage", "actingFor")


def plain(draft: RunState, record: Record, body: VisitBody) -> None:
    """Fold a record that only changes the phase."""
    scope, activation = located(draft, record, body)
    book(draft, replace(scope, activation=replace(activation, phase=moved(activation, record, body))))


# --- activities ----------------------------------------------------------------------------------


def _activity_requested(draft: RunState, record: Record, body: events.ActivityRequested) -> None:
    scope, activation = located(draft, record, body)
    changed = replace(
        activation,
        phase=moved(activation, record, body),
        attempt=activation.attempt + 1 if body.attempt is None else body.attempt,
        deadline=body.deadline,
        due_at=None,
        lease=None,
    )
    if body.arguments is not UNSET or body.secrets is not None:
        changed = replace(changed, arguments=given(body.arguments), secrets=secrets_of(body.secrets))
    if body.idempotency_key is not None:
        changed = replace(changed, idempotency_key=body.idempotency_key)
    if activation.dialogue is not None:
        # Another attempt starts afresh: the `resume` value of the last one no longer applies.
        changed = replace(changed, dialogue=Dialogue(round=activation.dialogue.round))
    if body.node_type == NodeType.AGENT_DELEGATE:
        external: JsonObject = {
            "agentId": given(body.agent_id),
            "protocol": given(body.protocol),
            "delegateInput": given(body.delegate_input),
            "delegateCorrelationId": body.delegate_correlation_id,
        }
        draft.last_delegate = external
        changed = replace(changed, external=external)
    book(draft, replace(scope, activation=changed))


def _activity_completed(draft: RunState, record: Record, body: events.ActivityCompleted) -> None:
    scope, activation = located(draft, record, body)
    phase = moved(activation, record, body)
    changed = replace(activation, phase=phase, result=body.result, deadline=None, due_at=None)
    book(draft, replace(scope, activation=changed))


def _activity_failed(draft: RunState, record: Record, body: events.ActivityFailed) -> None:
    scope, activation = located(draft, record, body)
    variant = "final"
    if body.will_retry:
        variant = "retry" if body.retry_at is None else "backoff"
    failure = failure_of(
        body.code,
        body.error if body.message is None else body.message,
        reason=body.reason or ("delegate_failed" if activation.external else "activity_failed"),
        activation=activation,
        details=body.details,
    )
    phase = moved(activation, record, body, variant)
    abandon(draft, activation)  # an attempt that asked and was not answered in time
    changed = replace(activation, phase=phase, failure=failure, deadline=None, due_at=body.retry_at)
    book(draft, replace(scope, activation=changed))


def _activity_asked(draft: RunState, record: Record, body: events.ActivityAsked) -> None:
    scope, activation = located(draft, record, body)
    dialogue = Dialogue(
        round=1 if body.round is None else body.round,
        prompt=body.prompt or "",
        answer_schema=body.answer_schema or {},
        resume=body.resume,
        ask=body.ask,
    )
    draft.client_questions += dialogue.ask is not None
    # The deadline of the attempt stays: an answer may come until then.
    changed = replace(activation, phase=moved(activation, record, body), dialogue=dialogue, lease=None)
    book(draft, replace(scope, activation=changed))


def _activity_leased(draft: RunState, record: Record, body: events.ActivityLeased) -> None:
    scope, activation = located(draft, record, body)
    until = body.lease_until or 0
    # A lease that ends when it begins gives the activity back.
    lease = Lease(holder=str(body.holder), until=until) if until > record.at else None
    book(draft, replace(scope, activation=replace(activation, phase=moved(activation, record, body), lease=lease)))


def _activity_retried(draft: RunState, record: Record, body: events.ActivityRetried) -> None:
    scope, activation = located(draft, record, body)
    # The deadline belonged to the attempt in doubt.
    book(draft, replace(scope, activation=replace(activation, phase=moved(activation, record, body), deadline=None)))


# --- waiting -------------------------------------------------------------------------------------


def _start_timer(draft: RunState, record: Record, body: commands.StartTimer) -> None:
    scope, activation = located(draft, record, body)
    phase = moved(activation, record, body)
    book(draft, replace(scope, activation=replace(activation, phase=phase, arguments=body.until)))


def _timer_started(draft: RunState, record: Record, body: events.TimerStarted) -> None:
    scope, activation = located(draft, record, body)
    due_at = body.deadline
    # A timer that is already due needs no input to fire.
    variant = "due" if due_at is not None and due_at <= record.at else "later"
    phase = moved(activation, record, body, variant)
    book(draft, replace(scope, activation=replace(activation, phase=phase, due_at=due_at)))


def _timer_fired(draft: RunState, record: Record, body: events.TimerFired) -> None:
    kind = body.kind
    if kind == "run":
        failure = Failure("RUN_TIMEOUT", "the run took longer than its timeout allows", "run_timeout")
        draft.ending = draft.ending or Ending(outcome="failed", failure=failure, node_id=draft.last_node_id)
        return
    scope, activation = located(draft, record, body)
    variant = kind if kind in ("retry", "timeout") else "wait"
    changed = replace(activation, phase=moved(activation, record, body, variant), due_at=None)
    if kind == "timeout":
        drop_bodies(draft, scope.serial)
        abandon(draft, activation)
        changed = replace(changed, deadline=None, frame=None)
    book(draft, replace(scope, activation=changed))


def _raise_interrupt(draft: RunState, record: Record, body: commands.RaiseInterrupt) -> None:
    scope, activation = located(draft, record, body)
    phase = moved(activation, record, body)
    book(draft, replace(scope, activation=replace(activation, phase=phase, arguments=body.prompt)))


def _interrupt_raised(draft: RunState, record: Record, body: events.InterruptRaised) -> None:
    scope, activation = located(draft, record, body)
    external: JsonObject = {
        "prompt": body.prompt,
        "promptRef": body.prompt_ref,
        "interruptId": body.interrupt_id,
        "answerSchema": body.answer_schema,
        "approvers": body.approvers,
        "anyone": body.anyone or None,
        "decline": body.decline,
    }
    changed = replace(
        activation,
        phase=moved(activation, record, body, "checkpoint" if body.checkpoint else "waiting"),
        deadline=body.deadline,
        due_at=body.escalates_at,
        external={key: value for key, value in external.items() if value is not None},
    )
    book(draft, replace(scope, activation=changed))


def _interrupt_escalated(draft: RunState, record: Record, body: events.InterruptEscalated) -> None:
    scope, activation = located(draft, record, body)
    external: JsonObject = {**(activation.external or {}), "approvers": body.approvers, "escalatedAt": record.at}
    changed = replace(activation, phase=moved(activation, record, body), due_at=None, external=external)
    book(draft, replace(scope, activation=changed))


def _interrupt_voted(draft: RunState, record: Record, body: events.InterruptVoted) -> None:
    scope, activation = located(draft, record, body)
    asked, approver = activation.external or {}, body.approver or {}
    before = asked.get("votes")
    vote: JsonObject = {"by": body.answered_by, "at": record.at, "answer": body.answer}
    vote.update({name: approver[name] for name in _BEHIND_A_VOTE if approver.get(name) is not None})
    external: JsonObject = {**asked, "votes": [*(before if isinstance(before, list) else []), vote]}
    changed = replace(activation, phase=moved(activation, record, body), external=external)
    book(draft, replace(scope, activation=changed))


def _resume_interrupt(draft: RunState, record: Record, body: commands.ResumeInterrupt) -> None:
    scope, activation = located(draft, record, body)
    answer, sealed = given(body.answer), secrets_of(body.secrets)
    if activation.phase is Phase.ASKING and activation.dialogue is not None:
        message = replace(activation.dialogue, answer=answer, sealed=sealed)
        phase = moved(activation, record, body, "activity")
        book(draft, replace(scope, activation=replace(activation, phase=phase, dialogue=message, deadline=None)))
        return
    phase = moved(activation, record, body, "node")
    changed = replace(activation, phase=phase, result=answer, sealed=sealed, deadline=None, due_at=None)
    book(draft, replace(scope, activation=changed))


def _interrupt_resumed(draft: RunState, record: Record, body: events.InterruptResumed) -> None:
    scope, activation = located(draft, record, body)
    variant = "activity" if activation.phase is Phase.CONTINUING else "node"
    phase = moved(activation, record, body, variant)
    book(draft, replace(scope, activation=replace(activation, phase=phase, deadline=body.deadline)))


def _signal_wait(draft: RunState, record: Record, body: events.SignalWaitStarted) -> None:
    scope, activation = located(draft, record, body)
    phase, external = moved(activation, record, body), {"signalName": body.signal_name}
    book(draft, replace(scope, activation=replace(activation, phase=phase, deadline=body.deadline, external=external)))


def _deliver_signal(draft: RunState, record: Record, body: commands.DeliverSignal) -> None:
    scope, activation = located(draft, record, body)
    if body.buffered:
        name = body.signal_name
        position = next((n for n, signal in enumerate(draft.signals) if signal.name == name), None)
        if position is None:
            raise corrupt(record, f"takes the signal {name} from the buffer, which has none")
        draft.signals = draft.signals[:position] + draft.signals[position + 1 :]
    _remember_signal(draft, body.signal_id)
    changed = replace(activation, phase=moved(activation, record, body), result=body.payload, deadline=None)
    book(draft, replace(scope, activation=changed))


def _signal_buffered(draft: RunState, record: Record, body: events.SignalBuffered) -> None:
    _remember_signal(draft, body.signal_id)
    draft.signals = (*draft.signals, signal_of(body))
    # No activation can be waiting for this signal: the engine buffers only if none is.


def _remember_signal(draft: RunState, signal_id: str | None) -> None:
    if signal_id is not None:
        draft.signal_ids = {**draft.signal_ids, signal_id: None}


def _emit_signal(draft: RunState, record: Record, body: commands.EmitSignal) -> None:
    scope, activation = located(draft, record, body)
    external: JsonObject = {
        "targetExecutionId": body.target_execution_id,
        "signalName": body.signal_name,
        "payload": body.payload,
    }
    phase = moved(activation, record, body)
    book(draft, replace(scope, activation=replace(activation, phase=phase, external=external)))


def _signal_emitted(draft: RunState, record: Record, body: events.SignalEmitted) -> None:
    scope, activation = located(draft, record, body)
    refused = body.delivered is False
    failure = None
    if refused:
        failure = failure_of(body.code, body.error, reason="emit_failed", activation=activation)
    phase = moved(activation, record, body, "refused" if refused else "delivered")
    book(draft, replace(scope, activation=replace(activation, phase=phase, failure=failure)))


# --- children ------------------------------------------------------------------------------------


def _subworkflow_started(draft: RunState, record: Record, body: events.SubworkflowStarted) -> None:
    scope, activation = located(draft, record, body)
    child_id = str(body.child_execution_id)
    draft.children[child_id] = Child(
        child_id=child_id,
        node_id=activation.node_id,
        visit=activation.visit,
        workflow_ref=str(body.workflow_ref),
        input=body.input,
        version_pin=body.version_pin,
    )
    draft.last_child = {
        "childExecutionId": body.child_execution_id,
        "workflowRef": body.workflow_ref,
        "parentExecutionId": body.parent_execution_id,
    }
    phase = moved(activation, record, body)
    changed = replace(activation, phase=phase, external=draft.last_child, deadline=body.deadline)
    book(draft, replace(scope, activation=changed))


def _start_subworkflow(draft: RunState, record: Record, body: commands.StartSubworkflow) -> None:
    scope, activation = located(draft, record, body)
    changed = replace(
        activation,
        phase=moved(activation, record, body),
        attempt=activation.attempt + 1,
        arguments=body.input,
        external={"childExecutionId": body.child_execution_id},
        due_at=None,
    )
    book(draft, replace(scope, activation=changed))


def _subworkflow_completed(draft: RunState, record: Record, body: events.SubworkflowCompleted) -> None:
    child = draft.children.pop(str(body.child_execution_id), None)
    if child is not None and child.abandoned:
        return
    scope, activation = located(draft, record, body)
    failure, variant = None, "done"
    if body.failed:
        failure = failure_of(body.code, body.error, reason="subworkflow_failed", activation=activation)
        variant = "failed"
        if body.will_retry:
            variant = "retry" if body.retry_at is None else "backoff"
    changed = replace(
        activation,
        phase=moved(activation, record, body, variant),
        result=given(body.merged_output),
        failure=failure,
        deadline=None,
        due_at=body.retry_at,
    )
    book(draft, replace(scope, activation=changed))


WAIT_HANDLERS: dict[type[Body], Handler] = dict(
    (
        on(events.ActivityRequested, _activity_requested),
        on(events.ActivityCompleted, _activity_completed),
        on(events.ActivityFailed, _activity_failed),
        on(events.ActivityAsked, _activity_asked),
        on(events.ActivityLeased, _activity_leased),
        on(events.ActivityOutcomeUnknown, plain),
        on(events.ActivityRetried, _activity_retried),
        on(commands.StartTimer, _start_timer),
        on(events.TimerStarted, _timer_started),
        on(events.TimerFired, _timer_fired),
        on(commands.RaiseInterrupt, _raise_interrupt),
        on(events.InterruptRaised, _interrupt_raised),
        on(events.InterruptVoted, _interrupt_voted),
        on(events.InterruptEscalated, _interrupt_escalated),
        on(commands.ResumeInterrupt, _resume_interrupt),
        on(events.InterruptResumed, _interrupt_resumed),
        on(commands.StartSignalWait, plain),
        on(events.SignalWaitStarted, _signal_wait),
        on(commands.DeliverSignal, _deliver_signal),
        on(events.SignalReceived, plain),
        on(events.SignalBuffered, _signal_buffered),
        on(commands.EmitSignal, _emit_signal),
        on(events.SignalEmitted, _signal_emitted),
        on(commands.StartSubworkflow, _start_subworkflow),
        on(events.SubworkflowStarted, _subworkflow_started),
        on(events.SubworkflowCompleted, _subworkflow_completed),
        on(commands.CompleteSubworkflow, plain),
    )
)
