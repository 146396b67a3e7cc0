"""`evolve`: fold one record into the state of a run.

Every state is built here, live and on recovery alike, so a recovered run cannot differ from one that never stopped.
`transitions` says which phase follows; this module does the book-keeping around it.

Above it: `turn` (live), `fold` (recovery), `fork`. Below it: `state`, `transitions`. It evaluates nothing, reads no
document and trusts no history: a record that cannot follow raises `CorruptHistory`.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET
from msgspec.structs import replace

from penstock.base.errors import CorruptHistory
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject, JsonValue
from penstock.engine.folding.reading import Handler, corrupt, failure_of, located, moved, on, secrets_of, size_of
from penstock.engine.folding.scopes import abandon, book, close_scope, drop_bodies, drop_scope, open_scope
from penstock.engine.folding.trust import says_untrusted
from penstock.engine.folding.waits import WAIT_HANDLERS, plain
from penstock.engine.records import Body, Record, VisitBody, commands, events, given
from penstock.engine.state import (
    COMPENSATION_PREFIX,
    Activation,
    BufferedSignal,
    CompensationEntry,
    Continuation,
    Ending,
    Failure,
    Frame,
    RunState,
    Scope,
)
from penstock.engine.transitions import RUN_TRANSITIONS, TERMINAL_STATUSES, Phase

__all__ = ["apply", "apply_body", "evolve", "fold"]


def evolve(state: RunState, record: Record) -> RunState:
    """Return the state after one more record; `state` is not changed."""
    draft = state.copy()
    apply(draft, record)
    return draft


def fold(records: Iterable[Record], state: RunState | None = None) -> RunState:
    """Return the state that a history leads to."""
    draft = RunState() if state is None else state.copy()
    for record in records:
        apply_body(draft, record, record.body)
    return draft


def apply(draft: RunState, record: Record) -> None:
    """Fold a record into a state that the caller owns."""
    apply_body(draft, record, record.body)


def apply_body(draft: RunState, record: Record, body: Body | None) -> None:
    """Fold a record whose body the caller has already decoded."""
    if record.seq != draft.seq + 1:
        raise CorruptHistory("HISTORY_GAP", f"row {record.seq} follows row {draft.seq}; rows must count by one")
    if draft.status in TERMINAL_STATUSES:
        raise CorruptHistory("HISTORY_AFTER_END", f"row {record.seq} ({record.name}) follows the end of the run")
    if body is None:
        raise CorruptHistory("RECORD_UNKNOWN", f"row {record.seq} has the unknown name {record.name}")
    draft.seq = record.seq
    draft.history_bytes += size_of(record.content)
    draft.updated_at = record.at
    if record.kind == "command":
        draft.commands += 1
    _HANDLERS[type(body)](draft, record, body)
    if not draft.untrusted and says_untrusted(body):
        draft.untrusted = True


# --- the run -------------------------------------------------------------------------------------


def _run_moved(draft: RunState, record: Record, body: Body) -> None:
    allowed, status = RUN_TRANSITIONS[type(body)]
    if draft.status not in allowed:
        raise corrupt(record, f"cannot follow run status {draft.status}")
    draft.status = status


def _execution_started(draft: RunState, record: Record, body: events.ExecutionStarted) -> None:
    _run_moved(draft, record, body)
    draft.run_id = body.execution_id
    draft.workflow_name = body.workflow_name or ""
    draft.workflow_version = body.workflow_version or ""
    draft.definition_hash = body.definition_hash or ""
    draft.native = body.format == "native"
    draft.mode = body.activity_execution_mode or "in_process"
    draft.attempt = 1 if body.run_attempt is None else body.run_attempt
    draft.tenant = body.tenant or DEFAULT_TENANT
    kinds = body.client_kinds
    draft.client_kinds = tuple(str(kind) for kind in kinds) if isinstance(kinds, list) else ()
    draft.started_by = body.started_by
    draft.starter = body.starter
    draft.parent_run_id = body.parent_execution_id
    draft.depth = body.depth or 0
    draft.input = given(body.input)
    draft.values = body.state
    draft.started_at = record.at
    draft.deadline = body.deadline
    draft.chain_deadline = body.chain_deadline
    draft.continued_from = body.continued_from
    draft.generation = 1 if body.generation is None else body.generation
    draft.runs_without_wait = body.runs_without_wait or 0
    _take_over_signals(draft, body)
    seals = secrets_of(body.secrets)
    draft.scopes[0] = Scope(serial=0, body="", next=body.entry, sealed={} if seals is None else {"input": seals})
    draft.next_serial = 1
    draft.ready.add(0)


def _take_over_signals(draft: RunState, body: events.ExecutionStarted) -> None:
    carried, known = body.carried_signals, body.carried_signal_ids
    if isinstance(known, list):
        draft.signal_ids = {str(signal_id): None for signal_id in known}
    if isinstance(carried, list):
        draft.signals = tuple(_carried(item) for item in carried if isinstance(item, dict))


def _carried(signal: JsonObject) -> BufferedSignal:
    signal_id = signal.get("signalId")
    return BufferedSignal(
        name=str(signal.get("signalName")),
        payload=signal.get("payload"),
        signal_id=signal_id if isinstance(signal_id, str) else None,
    )


def _execution_continued(draft: RunState, record: Record, body: events.ExecutionContinued) -> None:
    draft.continuation = Continuation(
        run_id=str(body.successor_execution_id), input=body.input, newest=body.version == "newest"
    )
    _execution_ended(draft, record, body)


def _history_limit_reached(draft: RunState, record: Record, body: events.HistoryLimitReached) -> None:
    failure = replace(failure_of(body.code, body.error, reason="limit_exceeded"), node_id=draft.last_node_id)
    draft.ending = Ending(outcome="failed", failure=failure, node_id=draft.last_node_id)
    draft.paused = False  # a paused run ends like any other


def _execution_completed(draft: RunState, record: Record, body: events.ExecutionCompleted) -> None:
    draft.result = body.result
    _execution_ended(draft, record, body)


def _execution_failed(draft: RunState, record: Record, body: events.ExecutionFailed) -> None:
    message = body.error if body.message is None else body.message
    failure = failure_of(body.code, message, reason=body.reason or "failed", details=body.details)
    ending = draft.ending.failure if draft.ending else None
    draft.failure = ending or replace(failure, node_id=body.node_id)
    _execution_ended(draft, record, body)


def _execution_cancelled(draft: RunState, record: Record, body: events.ExecutionCancelled) -> None:
    draft.cancel_reason = body.reason
    _execution_ended(draft, record, body)


def _execution_ended(draft: RunState, record: Record, body: Body) -> None:
    _run_moved(draft, record, body)
    for activation in draft.activations():
        abandon(draft, activation)
    for child_id, child in draft.children.items():
        draft.children[child_id] = replace(child, abandoned=True)
    draft.scopes.clear()
    draft.active.clear()
    draft.ready.clear()


def _cancel_execution(draft: RunState, record: Record, body: commands.CancelExecution) -> None:
    if draft.ending is not None:
        raise corrupt(record, "comes when the run is ending already")
    draft.ending = Ending(outcome="cancelled", reason=body.reason, node_id=body.node_id)
    draft.paused = False  # a paused run ends like any other


def _start_compensation(draft: RunState, record: Record, body: commands.StartCompensation) -> None:
    drop_bodies(draft, None)
    draft.compensating = True
    draft.scopes[draft.next_serial] = Scope(serial=draft.next_serial, body="")
    draft.ready.add(draft.next_serial)
    draft.next_serial += 1


# The event that reports what a command did is owed from then on: a history that is cut between the two still gets it.


def _pause(draft: RunState, record: Record, body: commands.PauseExecution) -> None:
    draft.paused = True
    draft.owed = events.ExecutionPaused(reason=body.reason)


def _resume(draft: RunState, record: Record, body: commands.ResumeExecution) -> None:
    draft.paused = False
    draft.owed = events.ExecutionResumed()


def _owed_event(draft: RunState, record: Record, body: Body) -> None:
    if draft.owed is None or type(draft.owed) is not type(body):
        raise corrupt(record, "reports a command that does not precede it")
    draft.owed = None


# --- a visit -------------------------------------------------------------------------------------


def _schedule_node(draft: RunState, record: Record, body: commands.ScheduleNode) -> None:
    node_id, serial = body.node_id, body.scope
    scope = draft.scopes.get(serial)
    if scope is None:
        raise corrupt(record, f"names scope {serial}, which is not open")
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
        activation = replace(activation, arguments=entry.arguments, secrets=entry.secrets, failure=entry.failure)
    draft.active[activation.key] = serial
    book(draft, replace(scope, activation=activation))


def _complete_node(draft: RunState, record: Record, body: commands.CompleteNode) -> None:
    scope, activation = located(draft, record, body)
    phase = moved(activation, record, body)
    output, target, compensation = body.output, body.next, body.compensation
    if activation.frame is not None:
        drop_bodies(draft, scope.serial)
    if compensation is not None:
        entry = CompensationEntry(
            node_id=activation.node_id,
            visit=activation.visit,
            arguments=compensation.get("arguments"),
            secrets=secrets_of(compensation.get("secrets")),
            failure=_unknown_undoing(activation.node_id, compensation.get("error")),
        )
        draft.compensations = (*draft.compensations, entry)
    draft.nodes_since_checkpoint += 1
    done = replace(activation, phase=phase, result=output, next=target, frame=None, failure=None, deadline=None)
    book(draft, replace(scope, activation=done, next=target, last_output=output))
    if draft.native and not draft.compensating:
        # A fallback is not the person's answer, so its parts are not secret.
        answered = activation if body.fallback is None else replace(activation, sealed=None)
        _write_output(draft, scope.serial, answered, output)


def _unknown_undoing(node_id: str, error: JsonValue) -> Failure | None:
    if error is None:
        return None
    return Failure("JQ_FAILED", str(error), "compensation_failed", COMPENSATION_PREFIX + node_id)


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
    outputs = {**holder.outputs, **joined, activation.node_id: output}
    sealed = _joined_seals(holder, activation, joined)
    draft.scopes[holder.serial] = replace(holder, outputs=outputs, sealed=sealed)


def _joined_seals(holder: Scope, activation: Activation, joined: JsonObject) -> dict[str, dict[str, str]]:
    """Return the secret parts of a scope's outputs after some of these outputs changed."""
    frame = activation.frame
    if not holder.sealed and activation.sealed is None and (frame is None or not frame.sealed):
        return holder.sealed
    sealed = {name: places for name, places in holder.sealed.items() if name not in joined}
    sealed.pop(activation.node_id, None)
    if frame is not None:
        for index in sorted(frame.outputs):
            for name in frame.outputs[index]:
                sealed.pop(name, None)
            sealed.update(frame.sealed.get(index, {}))
    if activation.sealed is not None:
        sealed[activation.node_id] = activation.sealed
    return sealed


def _state_updated(draft: RunState, record: Record, body: events.StateUpdated) -> None:
    draft.values = body.state
    plain(draft, record, body)


def _checkpoint_written(draft: RunState, record: Record, body: events.CheckpointWritten) -> None:
    scope, activation = located(draft, record, body)
    variant = "waiting" if activation.phase is Phase.RAISED else "node"
    draft.nodes_since_checkpoint = 0
    book(draft, replace(scope, activation=replace(activation, phase=moved(activation, record, body, variant))))


def _fail_node(draft: RunState, record: Record, body: commands.FailNode) -> None:
    scope, activation = located(draft, record, body)
    failure = failure_of(
        body.code, body.message, reason=body.reason or "failed", activation=activation, details=body.details
    )
    if activation.frame is not None:
        drop_bodies(draft, scope.serial)
    if body.next is not UNSET:
        draft.error = {"code": failure.code, "message": failure.message, "node": activation.node_id}
        draft.workflow_error_routed = draft.workflow_error_routed or body.handled_by == "workflow"
        phase = moved(activation, record, body, "routed")
        routed = replace(activation, phase=phase, next=body.next, frame=None)
        book(draft, replace(scope, activation=routed, next=routed.next))
        return
    failed = replace(activation, phase=moved(activation, record, body, "final"), failure=failure, frame=None)
    book(draft, replace(scope, activation=failed))
    if draft.compensating:
        draft.compensation_failures = (*draft.compensation_failures, failure)
    elif scope.parent is None or body.fatal:
        draft.ending = draft.ending or Ending(outcome="failed", failure=failure, node_id=activation.node_id)


# --- bodies --------------------------------------------------------------------------------------


def _parallel_forked(draft: RunState, record: Record, body: events.ParallelForked) -> None:
    total = len(body.branch_names) if isinstance(body.branch_names, list) else 0
    frame = Frame(
        kind="parallel",
        total=total,
        needed=total if body.needed is None else body.needed,
        concurrency=1 if body.concurrency is None else body.concurrency,
    )
    _open_frame(draft, record, body, frame, body.deadline)


def _for_each_started(draft: RunState, record: Record, body: events.ForEachStarted) -> None:
    items = tuple(body.items) if isinstance(body.items, list) else ()
    frame = Frame(
        kind="for_each",
        total=len(items),
        items=items,
        concurrency=1 if body.concurrency is None else body.concurrency,
        policy=body.on_item_error or "fail",
    )
    _open_frame(draft, record, body, frame, body.deadline)


def _loop_started(draft: RunState, record: Record, body: events.LoopStarted) -> None:
    _open_frame(draft, record, body, Frame(kind="loop", total=body.max_iterations or 0), body.deadline)


def _open_frame(draft: RunState, record: Record, body: VisitBody, frame: Frame, deadline: int | None) -> None:
    scope, activation = located(draft, record, body)
    changed = replace(activation, phase=moved(activation, record, body), frame=frame, deadline=deadline)
    book(draft, replace(scope, activation=changed))


def _scope_opened(draft: RunState, record: Record, body: events.ScopeOpened) -> None:
    scope, activation = located(draft, record, body)
    if activation.frame is None:
        raise corrupt(record, "opens a scope in a node without bodies")
    open_scope(draft, scope, activation, body)


def _scope_completed(draft: RunState, record: Record, body: events.ScopeCompleted) -> None:
    _scope_closed(draft, record, body, None)


def _scope_failed(draft: RunState, record: Record, body: events.ScopeFailed) -> None:
    failure = failure_of(body.code, body.error, reason=body.reason or "scope_failed")
    _scope_closed(draft, record, body, replace(failure, node_id=body.failed_node_id))


def _scope_closed(
    draft: RunState, record: Record, body: events.ScopeCompleted | events.ScopeFailed, failure: Failure | None
) -> None:
    scope, activation = located(draft, record, body)
    frame, index = activation.frame, body.index
    if frame is None or index not in frame.open:
        raise corrupt(record, f"closes scope {index}, which is not open")
    close_scope(draft, scope, activation, body, failure)


def _cancel_branch(draft: RunState, record: Record, body: commands.CancelParallelBranch) -> None:
    scope, activation = located(draft, record, body)
    frame = activation.frame
    if frame is None:
        raise corrupt(record, "cancels a branch of a node without branches")
    index = body.index or 0
    opened = dict(frame.open)
    serial = opened.pop(index, None)
    if serial is not None:
        drop_scope(draft, serial)
    changed = replace(frame, open=opened, settled=frame.settled | {index})
    book(draft, replace(scope, activation=replace(activation, frame=changed)))
    draft.owed = events.ParallelBranchCancelled(
        node_id=body.node_id, visit=body.visit, branch_name=body.branch_name, index=body.index
    )


_HANDLERS: dict[type[Body], Handler] = {
    **WAIT_HANDLERS,
    **dict(
        (
            on(events.ExecutionStarted, _execution_started),
            on(events.ExecutionCompleted, _execution_completed),
            on(events.ExecutionFailed, _execution_failed),
            on(events.ExecutionCancelled, _execution_cancelled),
            on(events.ExecutionContinued, _execution_continued),
            on(events.HistoryLimitReached, _history_limit_reached),
            on(commands.CancelExecution, _cancel_execution),
            on(commands.StartCompensation, _start_compensation),
            on(commands.PauseExecution, _pause),
            on(events.ExecutionPaused, _owed_event),
            on(commands.ResumeExecution, _resume),
            on(events.ExecutionResumed, _owed_event),
            on(commands.ScheduleNode, _schedule_node),
            on(events.NodeScheduled, plain),
            on(commands.CompleteNode, _complete_node),
            on(events.StateUpdated, _state_updated),
            on(events.CheckpointWritten, _checkpoint_written),
            on(commands.FailNode, _fail_node),
            on(commands.StartParallel, plain),
            on(events.ParallelForked, _parallel_forked),
            on(events.ForEachStarted, _for_each_started),
            on(events.LoopStarted, _loop_started),
            on(events.ScopeOpened, _scope_opened),
            on(events.ScopeCompleted, _scope_completed),
            on(events.ScopeFailed, _scope_failed),
            on(commands.CancelParallelBranch, _cancel_branch),
            on(events.ParallelBranchCancelled, _owed_event),
            on(commands.JoinParallel, plain),
            on(events.ParallelJoined, plain),
        )
    ),
}
