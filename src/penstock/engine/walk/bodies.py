"""Nodes with bodies: starting branches, items and iterations, closing them, joining, and cancelling losers.

Above it: `advance`. Below it: `completion`, `turn`. The arithmetic of when there is a move lives in `state.Frame`;
here is what the move is.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.jq.expressions import EvaluationFailed
from penstock.definitions.model import ForEachDetail, ItemErrorPolicy, LoopDetail, Node, NodeType, ParallelDetail
from penstock.engine.records import commands, events
from penstock.engine.state import Activation, Failure, Frame, Scope
from penstock.engine.walk.completion import complete, fail
from penstock.engine.walk.turn import Turn, activation_of, detail_of, truthy

__all__ = ["advance_bodies", "close_scope", "complete_join", "fail_scope"]


def advance_bodies(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    """Make the next move of a node whose bodies run."""
    frame = activation.frame
    if frame is None:
        raise TypeError(f"{node.id} has no frame")
    match node.detail:
        case ParallelDetail():
            _advance_parallel(turn, scope, node, activation, frame)
        case ForEachDetail():
            _advance_for_each(turn, scope, node, activation, frame)
        case LoopDetail():
            _advance_loop(turn, scope, node, activation, frame)
        case _:
            raise TypeError(f"{node.id} has no bodies")


def _opened(turn: Turn, activation: Activation, index: int, body: str) -> events.ScopeOpened:
    return events.ScopeOpened(
        *activation.key,
        index=index,
        scope=turn.state.next_serial,
        body=body,
        entry=turn.workflow.bodies[body].entry,
    )


def _advance_parallel(turn: Turn, scope: Scope, node: Node, activation: Activation, frame: Frame) -> None:
    detail = detail_of(node, ParallelDetail)
    if frame.completed >= frame.needed:
        remaining = [index for index in range(frame.total) if index not in frame.settled]
        if remaining:
            _cancel_branch(turn, activation, detail, remaining[0])
        else:
            turn.record(commands.JoinParallel(*activation.key, join=str(detail.join)))
    elif frame.total - frame.failed < frame.needed:
        _fail_parallel(turn, scope, node, detail, frame)
    else:
        body = detail.bodies[frame.started]
        opened = _opened(turn, activation, frame.started, body)
        turn.record(replace(opened, branch_name=turn.workflow.bodies[body].name))


def _cancel_branch(turn: Turn, activation: Activation, detail: ParallelDetail, index: int) -> None:
    name = turn.workflow.bodies[detail.bodies[index]].name
    turn.record(commands.CancelParallelBranch(*activation.key, branch_name=name, index=index))


def _fail_parallel(turn: Turn, scope: Scope, node: Node, detail: ParallelDetail, frame: Frame) -> None:
    first = frame.failure
    code = first.code if first else "PARALLEL_JOIN_FAILED"
    told = first.message if first else "no branch completed"
    message = f"{frame.failed} of {frame.total} branches failed, {frame.needed} must complete; first: {told}"
    details: JsonObject = {"failedNodeId": first.node_id if first else None}
    fail(turn, scope, node, Failure(code, message, "parallel_join_failed", node.id, details=details))


def complete_join(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    """Complete a joined parallel node with what its branches gave."""
    detail, frame = detail_of(node, ParallelDetail), activation.frame
    if frame is None:
        raise TypeError(f"{node.id} was not joined")
    if not turn.state.native:
        complete(turn, scope, node, {})
        return
    names = {index: turn.workflow.bodies[body].name for index, body in enumerate(detail.bodies)}
    if node.type is NodeType.RACE:
        winner, output = frame.results.in_order()[0]
        complete(turn, scope, node, {"winner": names[winner], "output": output})
        return
    complete(turn, scope, node, {names[index]: output for index, output in frame.results.in_order()})


def _advance_for_each(turn: Turn, scope: Scope, node: Node, activation: Activation, frame: Frame) -> None:
    detail = detail_of(node, ForEachDetail)
    if frame.failed > 0 and detail.on_item_error is ItemErrorPolicy.FAIL:
        first = frame.failure
        code, told = (first.code, first.message) if first else ("ITEM_FAILED", "an item failed")
        fail(turn, scope, node, Failure(code, f"an item of {node.id} failed: {told}", "for_each_failed", node.id))
    elif frame.started < frame.total:
        opened = _opened(turn, activation, frame.started, detail.body)
        turn.record(replace(opened, item_name=detail.item_name))
    else:
        complete(turn, scope, node, [output for _, output in frame.results.in_order()])


def _advance_loop(turn: Turn, scope: Scope, node: Node, activation: Activation, frame: Frame) -> None:
    detail = detail_of(node, LoopDetail)
    if frame.failed:
        first = frame.failure
        code, told = (first.code, first.message) if first else ("ITERATION_FAILED", "an iteration failed")
        fail(turn, scope, node, Failure(code, told, "loop_failed", node.id))
        return
    output: JsonObject = {"iterations": frame.completed, "last": frame.results.get(0)}
    if not detail.until or frame.completed > 0:
        outcome = turn.evaluate(detail.condition, scope)
        if isinstance(outcome, EvaluationFailed):
            fail(turn, scope, node, Failure("JQ_FAILED", outcome.message, "loop_failed", node.id))
            return
        if truthy(outcome.value) == detail.until:
            complete(turn, scope, node, output)
            return
    if frame.completed < detail.iterations_max:
        turn.record(_opened(turn, activation, frame.started, detail.body))
    elif detail.fail_when_exhausted:
        told = f"loop {node.id} did not finish within {detail.iterations_max} iterations"
        fail(turn, scope, node, Failure("LOOP_LIMIT_REACHED", told, "loop_failed", node.id))
    else:
        complete(turn, scope, node, output)


def close_scope(turn: Turn, scope: Scope) -> None:
    """Close a scope that left its body."""
    activation, node = _owner(turn, scope)
    output: JsonValue = scope.last_output
    if isinstance(node.detail, ForEachDetail) and node.detail.result is not None:
        rendered = turn.render(node.detail.result, scope)
        if isinstance(rendered, EvaluationFailed):
            failure = Failure("JQ_FAILED", f"result of {node.id}: {rendered.message}", "for_each_failed", node.id)
            _close_failed(turn, scope, activation, node, failure)
            return
        output = rendered.value
    turn.record(
        events.ScopeCompleted(
            *activation.key,
            index=scope.index,
            branch_name=scope.name or None,
            output=output if turn.state.native else UNSET,
        )
    )


def fail_scope(turn: Turn, scope: Scope, failure: Failure) -> None:
    """Close a scope whose node failed for good; the node around it decides what that means."""
    activation, node = _owner(turn, scope)
    _close_failed(turn, scope, activation, node, failure)


def _close_failed(turn: Turn, scope: Scope, activation: Activation, node: Node, failure: Failure) -> None:
    output: JsonValue | UnsetType = UNSET
    if isinstance(node.detail, ForEachDetail):
        match node.detail.on_item_error:
            case ItemErrorPolicy.SKIP | ItemErrorPolicy.FAIL:
                pass
            case ItemErrorPolicy.COLLECT:
                output = {"error": {"code": failure.code, "message": failure.message}}
    turn.record(
        events.ScopeFailed(
            *activation.key,
            index=scope.index,
            code=failure.code,
            error=failure.message,
            reason=failure.reason,
            failed_node_id=failure.node_id,
            branch_name=scope.name or None,
            output=output,
        )
    )


def _owner(turn: Turn, scope: Scope) -> tuple[Activation, Node]:
    """The activation and the node that a scope's body belongs to."""
    if scope.parent is None:
        raise TypeError("the root scope belongs to no node")
    activation = activation_of(turn.state.scopes[scope.parent])
    return activation, turn.workflow.nodes[activation.node_id]
