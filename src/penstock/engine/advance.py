"""The walk: make every move that needs nobody, lowest scope first, until the run waits or ends.

`settle` is the whole control flow of a decision after its input was recorded. The order (lowest scope serial first) is
a function of the state alone, so a run that was cut anywhere and goes on makes the same moves in the same order.

Above it: `decide`. Below it: `begin`, `bodies`, `completion`, `endings`.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.base import limits
from penstock.base.errors import CorruptHistory
from penstock.base.json import JsonObject
from penstock.definitions.durations import parse_instant_ms
from penstock.definitions.expressions import EvaluationFailed, WouldWait
from penstock.definitions.model import (
    ContinueDetail,
    InterruptDetail,
    Node,
    NodeType,
    ParallelDetail,
    SubworkflowDetail,
    WaitDetail,
    WaitKind,
)
from penstock.definitions.templates import as_text
from penstock.engine.begin import begin, branch_names, request_activity, start_child
from penstock.engine.bodies import advance_bodies, close_scope, complete_join, fail_scope
from penstock.engine.completion import (
    after_completion,
    complete,
    complete_towards,
    describe_violations,
    fail,
    write_checkpoint,
)
from penstock.engine.endings import compensate_next, end_run
from penstock.engine.questions import interrupt_id_of
from penstock.engine.starting import continued_payload
from penstock.engine.state import Activation, Failure, Scope
from penstock.engine.transitions import TERMINAL_STATUSES, Phase
from penstock.engine.turn import Turn, attempt_timeout_ms, detail_of, node_of

__all__ = ["settle"]


def settle(turn: Turn) -> None:
    """Move on until the run waits, pauses or ends; `WouldWait` where that takes more records than the turn may make."""
    state = turn.state
    while state.status not in TERMINAL_STATUSES:
        before = state.seq
        if turn.records_max is not None and len(turn.records) > turn.records_max:
            raise WouldWait
        if state.owed is not None:
            turn.event(state.owed.name, dict(state.owed.payload))
        elif state.ending is None and state.history_full:
            _stop_at_full_history(turn)
        elif state.paused:
            return
        elif state.ending is not None and not state.compensating:
            end_run(turn)
        elif state.ready:
            _advance(turn, state.scopes[min(state.ready)])
        else:
            return
        if state.seq == before:
            raise CorruptHistory("ENGINE_STUCK", f"run {state.run_id} has a next move that makes no record")


def _advance(turn: Turn, scope: Scope) -> None:
    activation = scope.activation
    if turn.state.compensating and (activation is None or activation.phase in _OVER):
        compensate_next(turn, scope)
        return
    if activation is None:
        _go_on(turn, scope)
        return
    _MOVES[activation.phase](turn, scope, node_of(turn.workflow, activation), activation)


def _where(activation: Activation) -> JsonObject:
    return {"nodeId": activation.node_id, "visit": activation.visit}


def _go_on(turn: Turn, scope: Scope) -> None:
    """Schedule the next node of a scope, or close the scope at the end of its body."""
    target = scope.next
    body = turn.workflow.bodies[scope.body]
    if target is None or (scope.parent is not None and target == body.exit_target):
        close_scope(turn, scope)
        return
    state = turn.state
    if state.steps >= limits.STEPS_PER_RUN_MAX:
        _stop_at_limit(turn, scope)
        return
    payload: JsonObject = {"nodeId": target, "visit": state.visits.get(target, 0) + 1}
    if scope.serial:
        payload["scope"] = scope.serial
    turn.command("ScheduleNode", payload)
    turn.event("NodeScheduled", {"nodeId": target, "visit": state.visits[target]})


def _stop_at_limit(turn: Turn, scope: Scope) -> None:
    activation = scope.activation
    if activation is None:
        parent = turn.state.scopes[scope.parent or 0]
        scope, activation = parent, parent.activation
    if activation is None:
        raise CorruptHistory("ENGINE_STUCK", "a limit was reached before the first node")
    told = (
        f"the run made {turn.state.steps} node visits, and {limits.STEPS_PER_RUN_MAX} are allowed (is there an endless "
        "loop? a run that lives long should go on with `continue_as_new`)"
    )
    failure = Failure("RUN_LIMIT_EXCEEDED", told, "limit_exceeded", activation.node_id)
    fail(turn, scope, node_of(turn.workflow, activation), failure, fatal=True)


def _stop_at_full_history(turn: Turn) -> None:
    """Fail a run that no more can be recorded of; what was recorded stays, and what must be undone is undone."""
    state = turn.state
    told = (
        f"the history has {state.seq} records and {state.history_bytes} bytes; "
        f"{limits.HISTORY_ROWS_MAX} records and {limits.HISTORY_BYTES_MAX} bytes are allowed. "
        "Let the workflow go on with `continue_as_new` when `.run.continue_suggested` is true"
    )
    payload: JsonObject = {"records": state.seq, "bytes": state.history_bytes, "code": "HISTORY_LIMIT", "error": told}
    turn.event("HistoryLimitReached", payload)


def _announce(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    turn.event("NodeScheduled", _where(activation))


def _begin(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    begin(turn, scope, node)


def _retry(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    if isinstance(node.detail, SubworkflowDetail):
        start_child(turn, scope, node, node.detail)
    else:
        request_activity(turn, scope, node)


def _resolved(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    if turn.state.compensating:
        complete_towards(turn, scope, node, activation.result, None)
        return
    complete(turn, scope, node, activation.result)


def _failing(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    fail(turn, scope, node, activation.failure or Failure("FAILED", "failed", "activity_failed", node.id))


def _timer_starting(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    detail = detail_of(node, WaitDetail)
    due_at = turn.at + (detail.duration_ms or 0)
    if detail.kind is WaitKind.UNTIL:
        due_at = parse_instant_ms(str(activation.arguments)) or turn.at
    turn.event("TimerStarted", {**_where(activation), "kind": str(detail.kind), "deadline": due_at})


def _due(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    turn.event("TimerFired", {**_where(activation), "kind": str(detail_of(node, WaitDetail).kind)})


def _woken(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    complete(turn, scope, node, {})


def _timed_out(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    detail = node.detail
    if isinstance(detail, InterruptDetail | WaitDetail) and detail.has_timeout_route:
        complete_towards(turn, scope, node, None, detail.on_timeout, {"timedOut": True})
        return
    code = "INTERRUPT_TIMEOUT" if isinstance(detail, InterruptDetail) else "TIMEOUT"
    told = f"{node.id} did not finish within {node.timeout_ms} ms"
    fail(turn, scope, node, Failure(code, told, "timed_out", node.id))


def _raising(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    detail = detail_of(node, InterruptDetail)
    rendered = turn.render(detail.prompt, scope)
    payload: JsonObject = {
        **_where(activation),
        "prompt": activation.arguments if isinstance(rendered, EvaluationFailed) else as_text(rendered.value),
        "interruptId": interrupt_id_of(node.id, activation.visit),
        "answerSchema": detail.answer_schema_json,
    }
    if detail.prompt_ref is not None:
        payload["promptRef"] = detail.prompt_ref
    if detail.approvers is not None:
        payload["approvers"] = detail.approvers
    if detail.anyone and turn.workflow.native:
        payload["anyone"] = True
    if detail.decline is not None:
        payload["decline"] = detail.decline
    if node.timeout_ms is not None:
        payload["deadline"] = turn.at + node.timeout_ms
    if turn.workflow.checkpointing.strategy == "after_each_node":
        payload["checkpoint"] = True
    turn.event("InterruptRaised", payload)


def _raised(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    write_checkpoint(turn, node, activation)


def _answering(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    turn.event("InterruptResumed", _where(activation))


def _continuing(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    """Hand the answer to the activity that asked: the same attempt goes on, with its whole time."""
    payload = _where(activation)
    timeout_ms = attempt_timeout_ms(node, activation)
    if timeout_ms is not None:
        payload["deadline"] = turn.at + timeout_ms
    turn.event("InterruptResumed", payload)


def _answered(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    complete(turn, scope, node, activation.result)


def _signal_wait_starting(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    detail = node.detail
    name = detail.signal if isinstance(detail, WaitDetail) else None
    payload: JsonObject = {**_where(activation), "signalName": name}
    if node.timeout_ms is not None:
        payload["deadline"] = turn.at + node.timeout_ms
    turn.event("SignalWaitStarted", payload)


def _take_buffered(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    name = activation.external.get("signalName") if activation.external else None
    signal = next(buffered for buffered in turn.state.signals if buffered.name == name)
    payload: JsonObject = {**_where(activation), "signalName": name, "payload": signal.payload, "buffered": True}
    if signal.signal_id is not None:
        payload["signalId"] = signal.signal_id
    turn.command("DeliverSignal", payload)


def _delivering(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    name = activation.external.get("signalName") if activation.external else None
    turn.event("SignalReceived", {**_where(activation), "signalName": name, "payload": activation.result})


def _forking(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    detail = detail_of(node, ParallelDetail)
    payload: JsonObject = {
        **_where(activation),
        "join": str(detail.join),
        "branchNames": branch_names(turn, detail),
        "needed": detail.needed,
        "concurrency": detail.concurrency,
    }
    if node.timeout_ms is not None:
        payload["deadline"] = turn.at + node.timeout_ms
    turn.event("ParallelForked", payload)


def _joining(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    turn.event("ParallelJoined", {**_where(activation), "join": str(detail_of(node, ParallelDetail).join)})


def _child_starting(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    detail = detail_of(node, SubworkflowDetail)
    payload: JsonObject = {
        **_where(activation),
        "workflowRef": detail.workflow_ref,
        "parentExecutionId": turn.state.run_id,
        "childExecutionId": (activation.external or {}).get("childExecutionId"),
        "input": activation.arguments,
    }
    if detail.version_pin is not None:
        payload["versionPin"] = detail.version_pin
    if node.timeout_ms is not None:
        payload["deadline"] = turn.at + node.timeout_ms
    turn.event("SubworkflowStarted", payload)


def _child_done(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    named = activation.external or {}
    payload: JsonObject = {**_where(activation), "workflowRef": named.get("workflowRef")}
    turn.command("CompleteSubworkflow", {**payload, "childExecutionId": named.get("childExecutionId")})


def _merged(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    schema = node.output_schema
    if schema is not None and (found := turn.evaluator.violations(schema, activation.result)):
        told = f"the child's result does not fit: {describe_violations(found)}"
        fail(turn, scope, node, Failure("OUTPUT_SCHEMA_VIOLATION", told, "subworkflow_failed", node.id))
        return
    complete(turn, scope, node, activation.result)


def _emitted(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    named = activation.external or {}
    complete(turn, scope, node, {"run": named.get("targetExecutionId"), "signal": named.get("signalName")})


def _over(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    if node.type is NodeType.END and activation.phase is Phase.COMPLETED:
        turn.event("ExecutionCompleted", {"result": activation.result})
    elif isinstance(node.detail, ContinueDetail) and activation.phase is Phase.COMPLETED:
        told = continued_payload(turn, node.detail, activation.result)
        turn.event("ExecutionContinued", {**_where(activation), **told})
    elif not after_completion(turn, scope, node):
        _go_on(turn, scope)


def _failed(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    fail_scope(turn, scope, activation.failure or Failure("FAILED", "failed", "failed", node.id))


_OVER = frozenset({Phase.COMPLETED, Phase.UPDATED, Phase.CHECKPOINTED, Phase.ROUTED, Phase.FAILED})
_Move = Callable[[Turn, Scope, Node, Activation], None]
_MOVES: dict[Phase, _Move] = {
    Phase.SCHEDULING: _announce,
    Phase.SCHEDULED: _begin,
    Phase.RETRYING: _retry,
    Phase.RESOLVED: _resolved,
    Phase.CONTINUING: _continuing,
    Phase.FAILING: _failing,
    Phase.STARTING_TIMER: _timer_starting,
    Phase.DUE: _due,
    Phase.WOKEN: _woken,
    Phase.TIMED_OUT: _timed_out,
    Phase.RAISING: _raising,
    Phase.RAISED: _raised,
    Phase.ANSWERING: _answering,
    Phase.ANSWERED: _answered,
    Phase.STARTING_SIGNAL_WAIT: _signal_wait_starting,
    Phase.AWAITING_SIGNAL: _take_buffered,
    Phase.DELIVERING: _delivering,
    Phase.SIGNALLED: _answered,
    Phase.EMITTED: _emitted,
    Phase.FORKING: _forking,
    Phase.FORKED: advance_bodies,
    Phase.JOINING: _joining,
    Phase.JOINED: complete_join,
    Phase.STARTING_CHILD: _child_starting,
    Phase.CHILD_DONE: _child_done,
    Phase.CHILD_MERGED: _merged,
    Phase.COMPLETED: _over,
    Phase.UPDATED: _over,
    Phase.CHECKPOINTED: _over,
    Phase.ROUTED: _over,
    Phase.FAILED: _failed,
}
