"""A stride: an activity completes, its node with it, and the next node is scheduled and asked for, in one go.

Most decisions of most runs are this one. The walk of `advance` would make the same records one at a time, fold each
into the state, and look each time for what comes next; here they are made together and the state is moved once.
Whatever is out of the ordinary (a route, a branch that ends, an undo, a checkpoint, a limit) is left to the walk.

The two ways must agree to the letter. They are compared where histories are cut: a run whose history ends after the
first of the four records goes on by the walk, and recovery folds every record by itself with `evolve`.

Above it: `activities`. Below it: `turn`, `state`.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.json import JsonValue
from penstock.definitions.expressions import EvaluationFailed
from penstock.definitions.model import ActivityDetail, Node
from penstock.engine.reading import size_of
from penstock.engine.records import commands, events, given, made
from penstock.engine.state import Activation, RunState, Scope
from penstock.engine.transitions import Phase
from penstock.engine.trust import is_outside
from penstock.engine.turn import Turn, activation_of

__all__ = ["stride"]

_RECORDS = 4
_LIST_BYTES = _RECORDS + 1  # brackets and commas, which do not count


def stride(turn: Turn, node: Node, activation: Activation, completed: events.ActivityCompleted) -> bool:
    """Take the result of an activity and schedule the next node; False, and nothing done, when there is more to it."""
    state = turn.state
    scope = state.scopes[state.active[activation.node_id, activation.visit]]
    target = _plain_target(turn, scope, node)
    if target is None:
        return False
    visit = state.visits.get(target, 0) + 1
    run_id, at, seq, result = state.run_id, turn.at, state.seq, completed.result
    records = (
        made(seq + 1, completed, at, run_id),
        made(seq + 2, commands.CompleteNode(*activation.key, output=result, next=target), at, run_id),
        made(seq + 3, commands.ScheduleNode(target, visit, scope.serial), at, run_id),
        made(seq + 4, events.NodeScheduled(target, visit), at, run_id),
    )
    size = size_of([record.content for record in records]) - _LIST_BYTES
    if state.history_bytes + size >= limits.HISTORY_BYTES_MAX:
        return False
    turn.records += records
    state.seq = seq + _RECORDS
    state.history_bytes += size
    state.updated_at = at
    _move(state, scope, activation, Activation(target, visit, Phase.SCHEDULED, at), result)
    _request(turn, state.scopes[scope.serial], turn.workflow.nodes[target])
    return True


def _plain_target(turn: Turn, scope: Scope, node: Node) -> str | None:
    """The next node, if there is nothing to do on the way but to go there."""
    state, detail, successor = turn.state, node.detail, node.successor
    if successor is None or successor.when is not None or successor.target is None:
        return None
    if not isinstance(detail, ActivityDetail) or detail.compensate is not None or not state.native:
        return None
    if state.paused or state.compensating or turn.workflow.checkpointing.strategy != "disabled":
        return None
    if scope.shares_outputs or (
        scope.parent is not None and successor.target == turn.workflow.bodies[scope.body].exit_target
    ):
        return None
    if state.steps >= limits.STEPS_PER_RUN_MAX or state.seq + _RECORDS >= limits.HISTORY_ROWS_MAX:
        return None
    return successor.target


def _move(state: RunState, scope: Scope, left: Activation, entered: Activation, result: JsonValue) -> None:
    """Bring the state to where the four records lead."""
    target = entered.node_id
    state.commands += 2
    state.steps += 1
    state.nodes_since_checkpoint += 1
    state.last_node_id = target
    state.visits[target] = entered.visit
    del state.active[left.node_id, left.visit]
    state.active[target, entered.visit] = scope.serial
    state.ready.add(scope.serial)
    state.scopes[scope.serial] = replace(
        scope, activation=entered, next=target, last_output=result, outputs={**scope.outputs, left.node_id: result}
    )


def _request(turn: Turn, scope: Scope, node: Node) -> None:
    """Ask for the activity that was just scheduled, unless it is none, or has more to it."""
    state, detail, scheduled = turn.state, node.detail, activation_of(scope)
    if not isinstance(detail, ActivityDetail) or detail.agent_id is not None or detail.idempotency_key is not None:
        return
    if scope.parent is not None:
        return  # it may be in a branch, which the record would name
    deadline = None if node.timeout_ms is None else turn.at + node.timeout_ms
    arguments: JsonValue | UnsetType = UNSET
    if detail.arguments is not None:
        rendered = turn.render(detail.arguments, scope)
        if isinstance(rendered, EvaluationFailed) or rendered.secrets:
            return
        arguments = rendered.value
    asked = events.ActivityRequested(
        node.id,
        scheduled.visit,
        node_type=str(node.type),
        attempt=1,
        timeout_ms=node.timeout_ms,
        deadline=deadline,
        arguments=arguments,
    )
    state.seq += 1
    turn.records.append(made(state.seq, asked, turn.at, state.run_id))
    state.history_bytes += size_of(asked)
    state.untrusted = state.untrusted or is_outside(node.type)
    requested = replace(scheduled, phase=Phase.REQUESTED, attempt=1, arguments=given(arguments), deadline=deadline)
    state.scopes[scope.serial] = replace(scope, activation=requested)
    state.ready.discard(scope.serial)
