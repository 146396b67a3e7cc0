"""The walk: make every move that needs nobody, lowest scope first, until the run waits or ends.

`settle` is the whole control flow of a decision after its input was recorded. The order (lowest scope serial first) is
a function of the state alone, so a run that was cut anywhere and goes on makes the same moves in the same order.

Above it: `decide`. Below it: `begin`, `bodies`, `completion`, `endings`.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.base import limits
from penstock.base.errors import CorruptHistory
from penstock.definitions.durations import parse_instant_ms
from penstock.definitions.jq.expressions import EvaluationFailed, WouldWait
from penstock.definitions.jq.templates import as_text
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
from penstock.engine.records import commands, events
from penstock.engine.state import Activation, Failure, Scope
from penstock.engine.transitions import TERMINAL_STATUSES, Phase
from penstock.engine.walk.begin import begin, branch_names, request_activity, start_child
from penstock.engine.walk.bodies import advance_bodies, close_scope, complete_join, fail_scope
from penstock.engine.walk.completion import (
    after_completion,
    complete,
    complete_towards,
    describe_violations,
    fail,
    write_checkpoint,
)
from penstock.engine.walk.endings import compensate_next, end_run
from penstock.engine.walk.questions import interrupt_id_of
from penstock.engine.walk.starting import continued
from penstock.engine.walk.turn import Turn, attempt_timeout_ms, detail_of, node_of

__all__ = ["settle"]


def settle(turn: Turn) -> None:
    """Move on until the run waits, pauses or ends; `WouldWait` where that takes more records than the turn may make."""
    state = turn.state
    while state.status not in TERMINAL_STATUSES:
        before = state.seq
        if turn.records_max is not None and len(turn.records) > turn.records_max:
            raise WouldWait
        if state.owed is not None:
            turn.record(state.owed)
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


def _deadline(turn: Turn, node: Node) -> int | None:
    return None if node.timeout_ms is None else turn.at + node.timeout_ms


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
    turn.record(commands.ScheduleNode(target, state.visits.get(target, 0) + 1, scope.serial))
    turn.record(events.NodeScheduled(target, state.visits[target]))


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
    turn.record(
        events.HistoryLimitReached(records=state.seq, bytes=state.history_bytes, code="HISTORY_LIMIT", error=told)
    )


def _announce(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    turn.record(events.NodeScheduled(*activation.key))


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
    turn.record(events.TimerStarted(*activation.key, kind=str(detail.kind), deadline=due_at))


def _due(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    turn.record(events.TimerFired(*activation.key, kind=str(detail_of(node, WaitDetail).kind)))


def _woken(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    complete(turn, scope, node, {})


def _timed_out(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    detail = node.detail
    if isinstance(detail, InterruptDetail | WaitDetail) and detail.has_timeout_route:
        complete_towards(turn, scope, node, None, detail.on_timeout, timed_out=True)
        return
    code = "INTERRUPT_TIMEOUT" if isinstance(detail, InterruptDetail) else "TIMEOUT"
    told = f"{node.id} did not finish within {node.timeout_ms} ms"
    fail(turn, scope, node, Failure(code, told, "timed_out", node.id))


def _raising(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    detail = detail_of(node, InterruptDetail)
    rendered = turn.render(detail.prompt, scope)
    turn.record(
        events.InterruptRaised(
            *activation.key,
            prompt=activation.arguments if isinstance(rendered, EvaluationFailed) else as_text(rendered.value),
            interrupt_id=interrupt_id_of(node.id, activation.visit),
            answer_schema=detail.answer_schema_json,
            prompt_ref=detail.prompt_ref,
            approvers=detail.approvers,
            anyone=detail.anyone and turn.workflow.native,
            decline=detail.decline,
            deadline=_deadline(turn, node),
            checkpoint=turn.workflow.checkpointing.strategy == "after_each_node",
        )
    )


def _raised(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    write_checkpoint(turn, node, activation)


def _answering(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    turn.record(events.InterruptResumed(*activation.key))


def _continuing(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    """Hand the answer to the activity that asked: the same attempt goes on, with its whole time."""
    timeout_ms = attempt_timeout_ms(node, activation)
    deadline = None if timeout_ms is None else turn.at + timeout_ms
    turn.record(events.InterruptResumed(*activation.key, deadline=deadline))


def _answered(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    complete(turn, scope, node, activation.result)


def _signal_wait_starting(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    detail = node.detail
    name = detail.signal if isinstance(detail, WaitDetail) else None
    turn.record(events.SignalWaitStarted(*activation.key, signal_name=name, deadline=_deadline(turn, node)))


def _take_buffered(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    name = _named(activation, "signalName")
    signal = next(buffered for buffered in turn.state.signals if buffered.name == name)
    turn.record(
        commands.DeliverSignal(
            *activation.key, signal_name=name, payload=signal.payload, buffered=True, signal_id=signal.signal_id
        )
    )


def _delivering(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    name = _named(activation, "signalName")
    turn.record(events.SignalReceived(*activation.key, signal_name=name, payload=activation.result))


def _forking(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    detail = detail_of(node, ParallelDetail)
    turn.record(
        events.ParallelForked(
            *activation.key,
            join=str(detail.join),
            branch_names=branch_names(turn, detail),
            needed=detail.needed,
            concurrency=detail.concurrency,
            deadline=_deadline(turn, node),
        )
    )


def _joining(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    turn.record(events.ParallelJoined(*activation.key, join=str(detail_of(node, ParallelDetail).join)))


def _child_starting(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    detail = detail_of(node, SubworkflowDetail)
    turn.record(
        events.SubworkflowStarted(
            *activation.key,
            workflow_ref=detail.workflow_ref,
            parent_execution_id=turn.state.run_id,
            child_execution_id=_named(activation, "childExecutionId"),
            input=activation.arguments,
            version_pin=detail.version_pin,
            deadline=_deadline(turn, node),
        )
    )


def _named(activation: Activation, key: str) -> str:
    """What the outside calls something that an activation waits for."""
    return str((activation.external or {}).get(key))


def _child_done(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    turn.record(
        commands.CompleteSubworkflow(
            *activation.key,
            workflow_ref=_named(activation, "workflowRef"),
            child_execution_id=_named(activation, "childExecutionId"),
        )
    )


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
        turn.record(events.ExecutionCompleted(activation.result))
    elif isinstance(node.detail, ContinueDetail) and activation.phase is Phase.COMPLETED:
        turn.record(continued(turn, node.detail, activation))
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
