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
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject, JsonValue
from penstock.engine.evolve_waits import WAIT_HANDLERS, plain
from penstock.engine.reading import (
    corrupt,
    failure_of,
    instant_of,
    located,
    moved,
    number_of,
    secrets_of,
    signal_of,
    size_of,
    text_of,
)
from penstock.engine.records import Record
from penstock.engine.scopes import book, close_scope, drop_bodies, drop_scope, open_scope
from penstock.engine.state import (
    COMPENSATION_PREFIX,
    Activation,
    CompensationEntry,
    Continuation,
    Ending,
    Failure,
    Frame,
    Owed,
    RunState,
    Scope,
)
from penstock.engine.transitions import RUN_TRANSITIONS, TERMINAL_STATUSES, Phase
from penstock.engine.trust import says_untrusted

__all__ = ["apply", "evolve", "fold"]


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
    if draft.status in TERMINAL_STATUSES:
        raise CorruptHistory("HISTORY_AFTER_END", f"row {record.seq} ({record.name}) follows the end of the run")
    handler = _HANDLERS.get(record.name)
    if handler is None:
        raise CorruptHistory("RECORD_UNKNOWN", f"row {record.seq} has the unknown name {record.name}")
    draft.seq = record.seq
    draft.history_bytes += size_of(record.payload)
    draft.updated_at = record.at
    if record.kind == "command":
        draft.commands += 1
    handler(draft, record)
    if not draft.untrusted and says_untrusted(record):
        draft.untrusted = True


# --- the run -------------------------------------------------------------------------------------


def _run_moved(draft: RunState, record: Record) -> None:
    allowed, status = RUN_TRANSITIONS[record.name]
    if draft.status not in allowed:
        raise corrupt(record, f"cannot follow run status {draft.status}")
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
    draft.attempt = number_of(payload.get("runAttempt"), 1)
    draft.tenant = text_of(payload.get("tenant")) or DEFAULT_TENANT
    kinds = payload.get("clientKinds")
    draft.client_kinds = tuple(str(kind) for kind in kinds) if isinstance(kinds, list) else ()
    draft.started_by = text_of(payload.get("startedBy"))
    draft.parent_run_id = text_of(payload.get("parentExecutionId"))
    draft.depth = number_of(payload.get("depth"))
    draft.input = payload.get("input")
    draft.values = payload.get("state")
    draft.started_at = record.at
    draft.deadline = instant_of(payload.get("deadline"))
    draft.chain_deadline = instant_of(payload.get("chainDeadline"))
    draft.continued_from = text_of(payload.get("continuedFrom"))
    draft.generation = number_of(payload.get("generation"), 1)
    draft.runs_without_wait = number_of(payload.get("runsWithoutWait"))
    _take_over_signals(draft, payload)
    draft.scopes[0] = Scope(serial=0, body="", next=text_of(payload.get("entry")))
    draft.next_serial = 1
    draft.ready.add(0)


def _take_over_signals(draft: RunState, payload: JsonObject) -> None:
    carried, known = payload.get("carriedSignals"), payload.get("carriedSignalIds")
    if isinstance(known, list):
        draft.signal_ids = {str(signal_id): None for signal_id in known}
    if isinstance(carried, list):
        draft.signals = tuple(signal_of(item) for item in carried if isinstance(item, dict))


def _execution_continued(draft: RunState, record: Record) -> None:
    payload = record.payload
    draft.continuation = Continuation(
        run_id=str(payload.get("successorExecutionId")),
        input=payload.get("input"),
        newest=payload.get("version") == "newest",
    )
    _execution_ended(draft, record)


def _history_limit_reached(draft: RunState, record: Record) -> None:
    failure = failure_of(record.payload, reason="limit_exceeded", node_id=draft.last_node_id, visit=None)
    draft.ending = Ending(outcome="failed", failure=failure, node_id=draft.last_node_id)
    draft.paused = False  # a paused run ends like any other


def _execution_ended(draft: RunState, record: Record) -> None:
    _run_moved(draft, record)
    payload = record.payload
    draft.result = payload.get("result")
    if record.name == "ExecutionFailed":
        ending = draft.ending.failure if draft.ending else None
        draft.failure = ending or failure_of(
            payload, reason="failed", node_id=text_of(payload.get("nodeId")), visit=None
        )
    elif record.name == "ExecutionCancelled":
        draft.cancel_reason = text_of(payload.get("reason"))
    for child_id, child in draft.children.items():
        draft.children[child_id] = replace(child, abandoned=True)
    draft.scopes.clear()
    draft.active.clear()
    draft.ready.clear()


def _cancel_execution(draft: RunState, record: Record) -> None:
    if draft.ending is not None:
        raise corrupt(record, "comes when the run is ending already")
    draft.ending = Ending(
        outcome="cancelled", reason=text_of(record.payload.get("reason")), node_id=text_of(record.payload.get("nodeId"))
    )
    draft.paused = False  # a paused run ends like any other


def _start_compensation(draft: RunState, record: Record) -> None:
    drop_bodies(draft, None)
    draft.compensating = True
    draft.scopes[draft.next_serial] = Scope(serial=draft.next_serial, body="")
    draft.ready.add(draft.next_serial)
    draft.next_serial += 1


def _pause(draft: RunState, record: Record) -> None:
    draft.paused = record.name == "PauseExecution"
    _owe(draft, record, "ExecutionPaused" if draft.paused else "ExecutionResumed")


def _owe(draft: RunState, record: Record, name: str) -> None:
    """Note the event that tells what a command did, so that a history cut between the two still gets it."""
    told = {key: value for key, value in record.payload.items() if key != "executionId"}
    draft.owed = Owed(name=name, payload=told)


def _told(draft: RunState, record: Record) -> None:
    if draft.owed is None or draft.owed.name != record.name:
        raise corrupt(record, "tells of a command that is not before it")
    draft.owed = None


# --- a visit -------------------------------------------------------------------------------------


def _schedule_node(draft: RunState, record: Record) -> None:
    payload = record.payload
    node_id = str(payload["nodeId"])
    serial = number_of(payload.get("scope"))
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


def _complete_node(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    phase = moved(activation, record)
    payload = record.payload
    output, target = payload.get("output"), text_of(payload.get("next"))
    if activation.frame is not None:
        drop_bodies(draft, scope.serial)
    compensation = payload.get("compensation")
    if isinstance(compensation, dict):
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
        # A fallback is not what a person answered.
        answered = activation if "fallback" not in payload else replace(activation, sealed=None)
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
    """The secret parts of a scope's outputs, when some of these are new."""
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


def _state_updated(draft: RunState, record: Record) -> None:
    draft.values = record.payload.get("state")
    plain(draft, record)


def _checkpoint_written(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    variant = ":waiting" if activation.phase is Phase.RAISED else ":node"
    draft.nodes_since_checkpoint = 0
    book(draft, replace(scope, activation=replace(activation, phase=moved(activation, record, variant))))


def _fail_node(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    payload = record.payload
    failure = failure_of(payload, reason="failed", node_id=activation.node_id, visit=activation.visit)
    if activation.frame is not None:
        drop_bodies(draft, scope.serial)
    if "next" in payload:
        draft.error = {"code": failure.code, "message": failure.message, "node": activation.node_id}
        draft.workflow_error_routed = draft.workflow_error_routed or payload.get("handledBy") == "workflow"
        routed = replace(
            activation, phase=moved(activation, record, ":routed"), next=text_of(payload["next"]), frame=None
        )
        book(draft, replace(scope, activation=routed, next=routed.next))
        return
    failed = replace(activation, phase=moved(activation, record, ":final"), failure=failure, frame=None)
    book(draft, replace(scope, activation=failed))
    if draft.compensating:
        draft.compensation_failures = (*draft.compensation_failures, failure)
    elif scope.parent is None or payload.get("fatal") is True:
        draft.ending = draft.ending or Ending(outcome="failed", failure=failure, node_id=activation.node_id)


# --- bodies --------------------------------------------------------------------------------------


def _parallel_forked(draft: RunState, record: Record) -> None:
    payload = record.payload
    names = payload.get("branchNames")
    total = len(names) if isinstance(names, list) else 0
    frame = Frame(
        kind="parallel",
        total=total,
        needed=number_of(payload.get("needed"), total),
        concurrency=number_of(payload.get("concurrency"), 1),
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
        concurrency=number_of(payload.get("concurrency"), 1),
        policy=str(payload.get("onItemError", "fail")),
    )
    _open_frame(draft, record, frame)


def _loop_started(draft: RunState, record: Record) -> None:
    _open_frame(draft, record, Frame(kind="loop", total=number_of(record.payload.get("maxIterations"))))


def _open_frame(draft: RunState, record: Record, frame: Frame) -> None:
    scope, activation = located(draft, record)
    deadline = instant_of(record.payload.get("deadline"))
    changed = replace(activation, phase=moved(activation, record), frame=frame, deadline=deadline)
    book(draft, replace(scope, activation=changed))


def _scope_opened(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    if activation.frame is None:
        raise corrupt(record, "opens a scope in a node without bodies")
    open_scope(draft, scope, activation, record.payload)


def _scope_closed(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    payload = record.payload
    index = number_of(payload.get("index"))
    frame = activation.frame
    if frame is None or index not in frame.open:
        raise corrupt(record, f"closes scope {index}, which is not open")
    failure = None
    if record.name == "ScopeFailed":
        failure = failure_of(payload, reason="scope_failed", node_id=text_of(payload.get("failedNodeId")), visit=None)
    close_scope(draft, scope, activation, payload, failure)


def _cancel_branch(draft: RunState, record: Record) -> None:
    scope, activation = located(draft, record)
    frame = activation.frame
    if frame is None:
        raise corrupt(record, "cancels a branch of a node without branches")
    index = number_of(record.payload.get("index"))
    opened = dict(frame.open)
    serial = opened.pop(index, None)
    if serial is not None:
        drop_scope(draft, serial)
    changed = replace(frame, open=opened, settled=frame.settled | {index})
    book(draft, replace(scope, activation=replace(activation, frame=changed)))
    _owe(draft, record, "ParallelBranchCancelled")


_HANDLERS: dict[str, Callable[[RunState, Record], None]] = {
    **WAIT_HANDLERS,
    "ExecutionStarted": _execution_started,
    "ExecutionCompleted": _execution_ended,
    "ExecutionFailed": _execution_ended,
    "ExecutionCancelled": _execution_ended,
    "ExecutionContinued": _execution_continued,
    "HistoryLimitReached": _history_limit_reached,
    "CancelExecution": _cancel_execution,
    "StartCompensation": _start_compensation,
    "PauseExecution": _pause,
    "ExecutionPaused": _told,
    "ResumeExecution": _pause,
    "ExecutionResumed": _told,
    "ScheduleNode": _schedule_node,
    "NodeScheduled": plain,
    "CompleteNode": _complete_node,
    "StateUpdated": _state_updated,
    "CheckpointWritten": _checkpoint_written,
    "FailNode": _fail_node,
    "StartParallel": plain,
    "ParallelForked": _parallel_forked,
    "ForEachStarted": _for_each_started,
    "LoopStarted": _loop_started,
    "ScopeOpened": _scope_opened,
    "ScopeCompleted": _scope_closed,
    "ScopeFailed": _scope_closed,
    "CancelParallelBranch": _cancel_branch,
    "ParallelBranchCancelled": _told,
    "JoinParallel": plain,
    "ParallelJoined": plain,
}
