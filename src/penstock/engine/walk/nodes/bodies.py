"""What nodes with bodies share: opening a branch, item or iteration, and closing it.

Above it: `parallel`, `for_each`, `loop`, `advance`. Below it: `completion`. `state.Frame` computes whether there is a
move to make; the module of the node decides which move it is.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from penstock.base.json import JsonValue
from penstock.definitions.model import (
    Node,
)
from penstock.engine.records import events
from penstock.engine.state import Activation, Failure, Frame, Scope
from penstock.engine.walk.rules import RULES
from penstock.engine.walk.turn import Turn, activation_of

__all__ = ["close_scope", "fail_scope", "frame_of", "opened"]


def opened(turn: Turn, activation: Activation, index: int, body: str) -> events.ScopeOpened:
    """Return the record that opens a branch, item or iteration."""
    return events.ScopeOpened(
        *activation.key,
        index=index,
        scope=turn.state.next_serial,
        body=body,
        entry=turn.workflow.bodies[body].entry,
    )


def frame_of(node: Node, activation: Activation) -> Frame:
    """Return the frame of an activation whose bodies run; anything else is a bug of the engine."""
    if activation.frame is None:
        raise TypeError(f"{node.id} has no frame")
    return activation.frame


def close_scope(turn: Turn, scope: Scope) -> None:
    """Close a scope that left its body."""
    activation, node = _owner(turn, scope)
    body_result = RULES[node.type].body_result
    output = scope.last_output if body_result is None else body_result(turn, scope, node, node.detail)
    if isinstance(output, Failure):
        _close_failed(turn, scope, activation, node, output)
        return
    turn.record(
        events.ScopeCompleted(
            *activation.key,
            index=scope.index,
            branch_name=scope.name or None,
            output=output if turn.state.native else UNSET,
        )
    )


def fail_scope(turn: Turn, scope: Scope, failure: Failure) -> None:
    """Close a scope whose node failed for good; the enclosing node decides what that means."""
    activation, node = _owner(turn, scope)
    _close_failed(turn, scope, activation, node, failure)


def _close_failed(turn: Turn, scope: Scope, activation: Activation, node: Node, failure: Failure) -> None:
    failed_body_result = RULES[node.type].failed_body_result
    output: JsonValue | UnsetType = UNSET if failed_body_result is None else failed_body_result(node.detail, failure)
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
    """Return the activation and the node that a scope's body belongs to."""
    if scope.parent is None:
        raise TypeError("the root scope belongs to no node")
    activation = activation_of(turn.state.scopes[scope.parent])
    return activation, turn.workflow.nodes[activation.node_id]
