"""`evolve`: fold one record into the state of a run.

Every state that exists was made here, live and on recovery alike, so a recovered run cannot differ from one that never
stopped. Which phase follows is looked up in `transitions`; this module keeps the books around it.

Above it: `turn` (live), `fold` (recovery), `fork`. Below it: `state`, `transitions`. It evaluates nothing, reads no
document and trusts no history: a record that cannot follow raises `CorruptHistory`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from penstock.base.errors import CorruptHistory
from penstock.base.json import JsonObject, JsonValue
from penstock.engine.records import Record
from penstock.engine.scopes import abandon_child, book, close_scope, drop_bodies, drop_scope, open_scope
from penstock.engine.state import (
    COMPENSATION_PREFIX,
    Activation,
    BufferedSignal,
    Child,
    CompensationEntry,
    Ending,
    Failure,
    Frame,
    RunState,
    Scope,
)
from penstock.engine.transitions import ACTIVATION_TRANSITIONS, RUN_TRANSITIONS, Phase

__all__ = ["apply", "evolve", "failure_of", "fold"]


def evolve(state: RunState, record: Record) -> RunState:
    """The state after one more record; the given state stays as it was."""
    draft = state.copy()
    apply(draft, record)
    return draft


def fold(records: Iterable[Record], state: RunState | None = None) -> RunState:
    """The state that a history leads to."""
    draft = RunState() if state is None else state.copy()
    for record in records:
        apply(draft, record)
    return draft


def apply(draft: RunState, record: Record) -> None:
    """Fold a record into a state that the caller owns."""
    if record.seq != draft.seq + 1:
        raise CorruptHistory("HISTORY_GAP", f"row {record.seq} follows row {draft.seq}; rows must count by one")
    if draft.terminal:
        raise CorruptHistory("HISTORY_AFTER_END", f"row {record.seq} ({record.name}) follows the end of the run")
    handler = _HANDLERS.get(record.name)
    if handler is None:
        raise CorruptHistory("RECORD_UNKNOWN", f"row {record.seq} has the unknown name {record.name}")
    draft.seq = record.seq
    draft.updated_at = record.at
    if record.kind == "command":
        draft.commands += 1
    handler(draft, record)


def failure_of(payload: JsonObject, *, reason: str, node_id: str | None, visit: int | None) -> Failure:
    """A failure from the keys that records carry."""
    message = payload.get("message", payload.get("error"))
    return Failure(
        code=str(payload.get("code") or "FAILED"),
        message=str(message or ""),
        reason=str(payload.get("reason") or reason),
        node_id=node_id,
        visit=visit,
        details=payload.get("details"),
    )


def _corrupt(record: Record, why: str) -> CorruptHistory:
    return CorruptHistory("HISTORY_IMPOSSIBLE", f"row {record.seq} ({record.name}) {why}")


def _located(draft: RunState, record: Record) -> tuple[Scope, Activation]:
    node_id = str(record.payload["nodeId"])
    visit = record.payload.get("visit")
    key = (node_id, visit if isinstance(visit, int) else draft.visits.get(node_id, 0))
    serial = draft.active.get(key)
    scope = draft.scopes.get(serial) if serial is not None else None
    if scope is None or scope.activation is None:
        raise _corrupt(record, f"names {node_id} (visit {key[1]}), which is not active")
    return scope, scope.activation


def _moved(activation: Activation, record: Record, variant: str = "") -> Phase:
    allowed, phase = ACTIVATION_TRANSITIONS[record.name + variant]
    if activation.phase not in allowed:
        raise _corrupt(record, f"cannot follow phase {activation.phase} of {activation.node_id}")
    return phase


def _instant(value: JsonValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: JsonValue, default: int = 0) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _secrets(value: JsonValue) -> dict[str, str] | None:
    return {key: str(text) for key, text in value.items()} if isinstance(value, dict) else None


# --- the run -------------------------------------------------------------------------------------


def _run_moved(draft: RunState, record: Record) -> None:
    allowed, status = RUN_TRANSITIONS[record.name]
    if draft.status not in allowed:
        raise _corrupt(record, f"cannot follow run status {draft.status}")
    draft.status = status


def _execution_started(draft: RunState, record: Record) -> None:
    _run_moved(draft, record)
    payload = record.payload
    draft.run_id = str(payload["executionId"])
    draft.workflow_name = str(payload.get("workflowName", ""))
    draft.workflow_version = str(payload.get("workflowVersion", ""))
    draft.definition_hash = str(payload.get("definitionHash", ""))
    draft.native = payload.get("format") == "native"
    draft.mode = str(payload.get("activityExecutionMode", "in_process"))
    draft.attempt = _number(payload.get("runAttempt"), 1)
    draft.parent_run_id = _text(payload.get("parentExecutionId"))
    draft.depth = _number(payload.get("depth"))
    draft.input = payload.get("input")
    draft.values = payload.get("state")
    draft.started_at = record.at
    draft.deadline = _instant(payload.get("deadline"))
    draft.scopes[0] = Scope(serial=0, body="", next=_text(payload.get("entry")))
    draft.next_serial = 1
    draft.ready.add(0)


def _execution_ended(draft: RunState, record: Record) -> None:
    _run_moved(draft, record)
    payload = record.payload
    draft.result = payload.get("result")
    if record.name == "ExecutionFailed":
        ending = draft.ending.failure if draft.ending else None
        draft.failure = ending or failure_of(payload, reason="failed", node_id=_text(payload.get("nodeId")), visit=None)
    elif record.name == "ExecutionCancelled":
        draft.cancel_reason = _text(payload.get("reason"))
    for child_id, child in draft.children.items():
        draft.children[child_id] = replace(child, abandoned=True)
    draft.scopes.clear()
    draft.active.clear()
    draft.ready.clear()


def _cancel_execution(draft: RunState, record: Record) -> None:
    if draft.ending is not None:
        raise _corrupt(record, "comes when the run is ending already")
    draft.ending = Ending(
        outcome="cancelled", reason=_text(record.payload.get("reason")), node_id=_text(record.payload.get("nodeId"))
    )


def _start_compensation(draft: RunState, record: Record) -> None:
    drop_bodies(draft, None)
    draft.compensating = True
    draft.scopes[draft.next_serial] = Scope(serial=draft.next_serial, body="")
    draft.ready.add(draft.next_serial)
    draft.next_serial += 1


def _pause(draft: RunState, record: Record) -> None:
    if record.name == "ExecutionPaused":
        draft.paused = True
    elif record.name == "ExecutionResumed":
        draft.paused = False


# --- a visit -------------------------------------------------------------------------------------


def _schedule_node(draft: RunState, record: Record) -> None:
    payload = record.payload
    node_id = str(payload["nodeId"])
    serial = _number(payload.get("scope"))
    scope = draft.scopes.get(serial)
    if scope is None:
        raise _corrupt(record, f"names scope {serial}, which is not open")
    visit = draft.visits.get(node_id, 0) + 1
    draft.visits[node_id] = visit
    draft.steps += 1
    if not node_id.startswith(COMPENSATION_PREFIX):
        draft.last_node_id = node_id
    if scope.activation is not None:
        draft.active.pop(scope.activation.key, None)
    activation = Activation(node_id=node_id, visit=visit, phase=Phase.SCHEDULING, scheduled_at=record.at)
    if draft.compensating:
        entry, draft.compensations = draft.compensations[-1], draft.compensations[:-1]
        activation = replace(activation, arguments=entry.arguments, secrets=entry.secrets)
    draft.active[activation.key] = serial
    book(draft, replace(scope, activation=activation))


def _plain(draft: RunState, record: Record) -> None:
    scope, activation = _located(draft, record)
    book(draft, replace(scope, activation=replace(activation, phase=_moved(activation, record))))


def _prepared(draft: RunState, record: Record) -> None:
    """A command that carries what the event after it needs."""
    scope, activation = _located(draft, record)
    payload = record.payload
    kept = payload.get("input", payload.get("until", payload.get("prompt")))
    book(draft, replace(scope, activation=replace(activation, phase=_moved(activation, record), arguments=kept)))


def _complete_node(draft: RunState, record: Record) -> None:
    scope, activation = _located(draft, record)
    phase = _moved(activation, record)
    payload = record.payload
    output, target = payload.get("output"), _text(payload.get("next"))
    if activation.frame is not None:
        drop_bodies(draft, scope.serial)
    compensation = payload.get("compensation")
    if isinstance(compensation, dict):
        entry = CompensationEntry(
            node_id=activation.node_id,
            visit=activation.visit,
            arguments=compensation.get("arguments"),
            secrets=_secrets(compensation.get("secrets")),
        )
        draft.compensations = (*draft.compensations, entry)
    draft.nodes_since_checkpoint += 1
    done = replace(activation, phase=phase, result=output, next=target, frame=None, failure=None, deadline=None)
    book(draft, replace(scope, activation=done, next=target, last_output=output))
    if draft.native and not draft.compensating:
        _write_output(draft, scope.serial, activation, output)


def _write_output(draft: RunState, serial: int, activation: Activation, output: JsonValue) -> None:
    scope = draft.scopes[serial]
    holder = scope
    while holder.shares_outputs and holder.parent is not None:
        holder = draft.scopes[holder.parent]
    joined: JsonObject = {}
    frame = activation.frame
    if frame is not None:
        for index in sorted(frame.outputs):
            joined.update(frame.outputs[index])
    draft.scopes[holder.serial] = replace(holder, outputs={**holder.outputs, **joined, activation.node_id: output})


def _state_updated(draft: RunState, record: Record) -> None:
    draft.values = record.payload.get("state")
    _plain(draft, record)


def _checkpoint_written(draft: RunState, record: Record) -> None:
    scope, activation = _located(draft, record)
    variant = ":waiting" if activation.phase is Phase.INTERRUPTED else ":node"
    draft.nodes_since_checkpoint = 0
    book(draft, replace(scope, activation=replace(activation, phase=_moved(activation, record, variant))))


def _fail_node(draft: RunState, record: Record) -> None:
    scope, activation = _located(draft, record)
    payload = record.payload
    failure = failure_of(payload, reason="failed", node_id=activation.node_id, visit=activation.visit)
    if activation.frame is not None:
        drop_bodies(draft, scope.serial)
    if "next" in payload:
        draft.error = {"code": failure.code, "message": failure.message, "node": activation.node_id}
        draft.workflow_error_routed = draft.workflow_error_routed or payload.get("handledBy") == "workflow"
        routed = replace(
            activation, phase=_moved(activation, record, ":routed"), next=_text(payload["next"]), frame=None
        )
        book(draft, replace(scope, activation=routed, next=routed.next))
        return
    failed = replace(activation, phase=_moved(activation, record, ":final"), failure=failure, frame=None)
    book(draft, replace(scope, activation=failed))
    if draft.compensating:
        draft.compensation_failures = (*draft.compensation_failures, failure)
    elif scope.parent is None or payload.get("fatal") is True:
        draft.ending = draft.ending or Ending(outcome="failed", failure=failure, node_id=activation.node_id)


# --- activities ----------------------------------------------------------------------------------


def _activity_requested(draft: RunState, record: Record) -> None:
    scope, activation = _located(draft, record)
    payload = record.payload
    changed = replace(
        activation,
        phase=_moved(activation, record),
        attempt=_number(payload.get("attempt"), activation.attempt + 1),
        deadline=_instant(payload.get("deadline")),
        due_at=None,
    )
    if "arguments" in payload or "secrets" in payload:
        changed = replace(changed, arguments=payload.get("arguments"), secrets=_secrets(payload.get("secrets")))
    if payload.get("nodeType") == "agent_delegate":
        external: JsonObject = {
            name: payload.get(name) for name in ("agentId", "protocol", "delegateInput", "delegateCorrelationId")
        }
        draft.last_delegate = external
        changed = replace(changed, external=external)
    book(draft, replace(scope, activation=changed))


def _activity_completed(draft: RunState, record: Record) -> None:
    scope, activation = _located(draft, record)
    changed = replace(
        activation, phase=_moved(activation, record), result=record.payload.get("result"), deadline=None, due_at=None
    )
    book(draft, replace(scope, activation=changed))


def _activity_failed(draft: RunState, record: Record) -> None:
    scope, activation = _located(draft, record)
    payload = record.payload
    retry_at = _instant(payload.get("retryAt"))
    variant = ":final"
    if payload.get("willRetry") is True:
        variant = ":retry" if retry_at is None else ":backoff"
    reason = "delegate_failed" if activation.external else "activity_failed"
    changed = replace(
        activation,
        phase=_moved(activation, record, variant),
        failure=failure_of(payload, reason=reason, node_id=activation.node_id, visit=activation.visit),
        deadline=None,
        due_at=retry_at,
    )
    book(draft, replace(scope, activation=changed))


# --- waiting -------------------------------------------------------------------------------------


def _timer_started(draft: RunState, record: Record) -> None:
    scope, activation = _located(draft, record)
    due_at = _instant(record.payload.get("deadline"))
    book(draft, replace(scope, activation=replace(activation, phase=_moved(activation, record), due_at=due_at)))


def _timer_fired(draft: RunState, record: Record) -> None:
    kind = record.payload.get("kind")
    if kind == "run":
        failure = Failure("RUN_TIMEOUT", "the run took longer than its timeout allows", "run_timeout")
        draft.ending = draft.ending or Ending(outcome="failed", failure=failure, node_id=draft.last_node_id)
        return
    scope, activation = _located(draft, record)
    variant = f":{kind}" if kind in ("retry", "timeout") else ":wait"
    changed = replace(activation, phase=_moved(activation, record, variant), due_at=None)
    if kind == "timeout":
        drop_bodies(draft, scope.serial)
        abandon_child(draft, activation)
        changed = replace(changed, deadline=None, frame=None)
    book(draft, replace(scope, activation=changed))


def _interrupt_raised(draft: RunState, record: Record) -> None:
    scope, activation = _located(draft, record)
    payload = record.payload
    names = ("prompt", "promptRef", "interruptId", "answerSchema", "approvers")
    changed = replace(
        activation,
        phase=_moved(activation, record),
        deadline=_instant(payload.get("deadline")),
        external={name: payload[name] for name in names if name in payload},
    )
    book(draft, replace(scope, activation=changed))


def _resume_interrupt(draft: RunState, record: Record) -> None:
    scope, activation = _located(draft, record)
    answer = record.payload.get("answer")
    changed = replace(activation, phase=_moved(activation, record), result=answer, deadline=None)
    book(draft, replace(scope, activation=changed))


def _signal_wait(draft: RunState, record: Record) -> None:
    scope, activation = _located(draft, record)
    payload = record.payload
    changed = replace(
        activation,
        phase=_moved(activation, record),
        deadline=_instant(payload.get("deadline")),
        external={"signalName": payload.get("signalName")},
    )
    book(draft, replace(scope, activation=changed))


def _deliver_signal(draft: RunState, record: Record) -> None:
    scope, activation = _located(draft, record)
    payload = record.payload
    if payload.get("buffered") is True:
        name = payload.get("signalName")
        position = next((n for n, signal in enumerate(draft.signals) if signal.name == name), None)
        if position is None:
            raise _corrupt(record, f"takes the signal {name} from the buffer, which has none")
        draft.signals = draft.signals[:position] + draft.signals[position + 1 :]
    _remember_signal(draft, payload)
    changed = replace(activation, phase=_moved(activation, record), result=payload.get("payload"), deadline=None)
    book(draft, replace(scope, activation=changed))


def _signal_buffered(draft: RunState, record: Record) -> None:
    payload = record.payload
    _remember_signal(draft, payload)
    signal = BufferedSignal(
        name=str(payload.get("signalName")), payload=payload.get("payload"), signal_id=_text(payload.get("signalId"))
    )
    draft.signals = (*draft.signals, signal)
    # A waiting activation with this name would have got it: the engine buffers only when nobody waits.


def _remember_signal(draft: RunState, payload: JsonObject) -> None:
    signal_id = payload.get("signalId")
    if isinstance(signal_id, str):
        draft.signal_ids = draft.signal_ids | {signal_id}


def _emit_signal(draft: RunState, record: Record) -> None:
    scope, activation = _located(draft, record)
    names = ("targetExecutionId", "signalName", "payload")
    external = {name: record.payload.get(name) for name in names}
    book(draft, replace(scope, activation=replace(activation, phase=_moved(activation, record), external=external)))


def _signal_emitted(draft: RunState, record: Record) -> None:
    scope, activation = _located(draft, record)
    payload = record.payload
    refused = payload.get("delivered") is False
    failure = None
    if refused:
        failure = failure_of(payload, reason="emit_failed", node_id=activation.node_id, visit=activation.visit)
    phase = _moved(activation, record, ":refused" if refused else ":delivered")
    book(draft, replace(scope, activation=replace(activation, phase=phase, failure=failure)))


# --- bodies --------------------------------------------------------------------------------------


def _parallel_forked(draft: RunState, record: Record) -> None:
    payload = record.payload
    names = payload.get("branchNames")
    total = len(names) if isinstance(names, list) else 0
    frame = Frame(
        kind="parallel",
        total=total,
        needed=_number(payload.get("needed"), total),
        concurrency=_number(payload.get("concurrency"), 1),
    )
    _open_frame(draft, record, frame)


def _for_each_started(draft: RunState, record: Record) -> None:
    payload = record.payload
    items = payload.get("items")
    listed = tuple(items) if isinstance(items, list) else ()
    frame = Frame(
        kind="for_each",
        total=len(listed),
        items=listed,
        concurrency=_number(payload.get("concurrency"), 1),
        policy=str(payload.get("onItemError", "fail")),
    )
    _open_frame(draft, record, frame)


def _loop_started(draft: RunState, record: Record) -> None:
    _open_frame(draft, record, Frame(kind="loop", total=_number(record.payload.get("maxIterations"))))


def _open_frame(draft: RunState, record: Record, frame: Frame) -> None:
    scope, activation = _located(draft, record)
    deadline = _instant(record.payload.get("deadline"))
    changed = replace(activation, phase=_moved(activation, record), frame=frame, deadline=deadline)
    book(draft, replace(scope, activation=changed))


def _scope_opened(draft: RunState, record: Record) -> None:
    scope, activation = _located(draft, record)
    if activation.frame is None:
        raise _corrupt(record, "opens a scope in a node without bodies")
    open_scope(draft, scope, activation, record.payload)


def _scope_closed(draft: RunState, record: Record) -> None:
    scope, activation = _located(draft, record)
    payload = record.payload
    index = _number(payload.get("index"))
    frame = activation.frame
    if frame is None or index not in frame.open:
        raise _corrupt(record, f"closes scope {index}, which is not open")
    failure = None
    if record.name == "ScopeFailed":
        failure = failure_of(payload, reason="scope_failed", node_id=_text(payload.get("failedNodeId")), visit=None)
    close_scope(draft, scope, activation, payload, failure)


def _cancel_branch(draft: RunState, record: Record) -> None:
    scope, activation = _located(draft, record)
    frame = activation.frame
    if frame is None:
        raise _corrupt(record, "cancels a branch of a node without branches")
    index = _number(record.payload.get("index"))
    opened = dict(frame.open)
    serial = opened.pop(index, None)
    if serial is not None:
        drop_scope(draft, serial)
    changed = replace(frame, open=opened, settled=frame.settled | {index})
    book(draft, replace(scope, activation=replace(activation, frame=changed)))


def _nothing(draft: RunState, record: Record) -> None:
    """Records that only tell what another record did."""


# --- children ------------------------------------------------------------------------------------


def _subworkflow_started(draft: RunState, record: Record) -> None:
    scope, activation = _located(draft, record)
    payload = record.payload
    child_id = str(payload.get("childExecutionId"))
    draft.children[child_id] = Child(
        child_id=child_id,
        node_id=activation.node_id,
        visit=activation.visit,
        workflow_ref=str(payload.get("workflowRef")),
        input=payload.get("input"),
        version_pin=_text(payload.get("versionPin")),
    )
    names = ("childExecutionId", "workflowRef", "parentExecutionId")
    draft.last_child = {name: payload.get(name) for name in names}
    changed = replace(
        activation,
        phase=_moved(activation, record),
        external=draft.last_child,
        deadline=_instant(payload.get("deadline")),
    )
    book(draft, replace(scope, activation=changed))


def _subworkflow_completed(draft: RunState, record: Record) -> None:
    payload = record.payload
    child = draft.children.pop(str(payload.get("childExecutionId")), None)
    if child is not None and child.abandoned:
        return
    scope, activation = _located(draft, record)
    failed = payload.get("failed") is True
    failure = None
    if failed:
        failure = failure_of(payload, reason="subworkflow_failed", node_id=activation.node_id, visit=activation.visit)
    changed = replace(
        activation,
        phase=_moved(activation, record, ":failed" if failed else ":done"),
        result=payload.get("mergedOutput"),
        failure=failure,
        deadline=None,
    )
    book(draft, replace(scope, activation=changed))


_HANDLERS: dict[str, Callable[[RunState, Record], None]] = {
    "ExecutionStarted": _execution_started,
    "ExecutionCompleted": _execution_ended,
    "ExecutionFailed": _execution_ended,
    "ExecutionCancelled": _execution_ended,
    "CancelExecution": _cancel_execution,
    "StartCompensation": _start_compensation,
    "PauseExecution": _nothing,
    "ExecutionPaused": _pause,
    "ResumeExecution": _nothing,
    "ExecutionResumed": _pause,
    "ScheduleNode": _schedule_node,
    "NodeScheduled": _plain,
    "CompleteNode": _complete_node,
    "StateUpdated": _state_updated,
    "CheckpointWritten": _checkpoint_written,
    "FailNode": _fail_node,
    "ActivityRequested": _activity_requested,
    "ActivityCompleted": _activity_completed,
    "ActivityFailed": _activity_failed,
    "ActivityOutcomeUnknown": _plain,
    "ActivityRetried": _plain,
    "StartTimer": _prepared,
    "TimerStarted": _timer_started,
    "TimerFired": _timer_fired,
    "RaiseInterrupt": _prepared,
    "InterruptRaised": _interrupt_raised,
    "ResumeInterrupt": _resume_interrupt,
    "InterruptResumed": _plain,
    "StartSignalWait": _plain,
    "SignalWaitStarted": _signal_wait,
    "DeliverSignal": _deliver_signal,
    "SignalReceived": _plain,
    "SignalBuffered": _signal_buffered,
    "EmitSignal": _emit_signal,
    "SignalEmitted": _signal_emitted,
    "StartParallel": _plain,
    "ParallelForked": _parallel_forked,
    "ForEachStarted": _for_each_started,
    "LoopStarted": _loop_started,
    "ScopeOpened": _scope_opened,
    "ScopeCompleted": _scope_closed,
    "ScopeFailed": _scope_closed,
    "CancelParallelBranch": _cancel_branch,
    "ParallelBranchCancelled": _nothing,
    "JoinParallel": _plain,
    "ParallelJoined": _plain,
    "StartSubworkflow": _prepared,
    "SubworkflowStarted": _subworkflow_started,
    "SubworkflowCompleted": _subworkflow_completed,
    "CompleteSubworkflow": _plain,
}
