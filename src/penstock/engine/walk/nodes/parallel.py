"""parallel and race: branches that run concurrently until all, one or enough of them have completed.

Above it: `table`. Below it: `bodies`, `completion`.
"""

from __future__ import annotations

from msgspec.structs import replace

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.model import (
    Node,
    NodeType,
    ParallelDetail,
)
from penstock.engine.records import commands, events
from penstock.engine.state import Activation, Failure, Frame, Scope
from penstock.engine.transitions import Phase
from penstock.engine.walk.completion import (
    complete,
    fail,
)
from penstock.engine.walk.nodes.bodies import frame_of, opened
from penstock.engine.walk.rules import NodeRules, deadline_of
from penstock.engine.walk.turn import Turn, activation_of, detail_of

__all__ = ["PARALLEL"]


def _begin(turn: Turn, scope: Scope, node: Node, detail: ParallelDetail) -> None:
    needed = detail.needed if detail.join == "n_of_m" else None
    names = _branch_names(turn, detail)
    turn.record(commands.StartParallel(*activation_of(scope).key, join=str(detail.join), branch_names=names, n=needed))


def _branch_names(turn: Turn, detail: ParallelDetail) -> list[JsonValue]:
    """Return the names of a parallel node's branches, in listed order."""
    return [turn.workflow.bodies[body].name for body in detail.bodies]


def _forking(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    detail = detail_of(node, ParallelDetail)
    turn.record(
        events.ParallelForked(
            *activation.key,
            join=str(detail.join),
            branch_names=_branch_names(turn, detail),
            needed=detail.needed,
            concurrency=detail.concurrency,
            deadline=deadline_of(turn, node),
        )
    )


def _advance(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    detail, frame = detail_of(node, ParallelDetail), frame_of(node, activation)
    if frame.completed >= frame.needed:
        remaining = [index for index in range(frame.total) if index not in frame.settled]
        if remaining:
            _cancel_branch(turn, activation, detail, remaining[0])
        else:
            turn.record(commands.JoinParallel(*activation.key, join=str(detail.join)))
    elif frame.total - frame.failed < frame.needed:
        _fail(turn, scope, node, detail, frame)
    else:
        body = detail.bodies[frame.started]
        branch = opened(turn, activation, frame.started, body)
        turn.record(replace(branch, branch_name=turn.workflow.bodies[body].name))


def _cancel_branch(turn: Turn, activation: Activation, detail: ParallelDetail, index: int) -> None:
    name = turn.workflow.bodies[detail.bodies[index]].name
    turn.record(commands.CancelParallelBranch(*activation.key, branch_name=name, index=index))


def _fail(turn: Turn, scope: Scope, node: Node, detail: ParallelDetail, frame: Frame) -> None:
    first = frame.failure
    code = first.code if first else "PARALLEL_JOIN_FAILED"
    text = first.message if first else "no branch completed"
    message = f"{frame.failed} of {frame.total} branches failed, {frame.needed} must complete; first: {text}"
    details: JsonObject = {"failedNodeId": first.node_id if first else None}
    fail(turn, scope, node, Failure(code, message, "parallel_join_failed", node.id, details=details))


def _joining(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    turn.record(events.ParallelJoined(*activation.key, join=str(detail_of(node, ParallelDetail).join)))


def _joined(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    """Complete a joined parallel node with the results of its branches."""
    detail, frame = detail_of(node, ParallelDetail), frame_of(node, activation)
    if not turn.state.native:
        complete(turn, scope, node, {})
        return
    names = {index: turn.workflow.bodies[body].name for index, body in enumerate(detail.bodies)}
    if node.type is NodeType.RACE:
        winner, output = frame.results.in_order()[0]
        complete(turn, scope, node, {"winner": names[winner], "output": output})
        return
    complete(turn, scope, node, {names[index]: output for index, output in frame.results.in_order()})


PARALLEL = NodeRules(
    detail=ParallelDetail,
    begin=_begin,
    moves={Phase.FORKING: _forking, Phase.FORKED: _advance, Phase.JOINING: _joining, Phase.JOINED: _joined},
)
