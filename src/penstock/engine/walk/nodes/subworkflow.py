"""subworkflow: the run starts a child run and waits for its end.

Above it: `table`. Below it: `completion`; the host starts the child run and reports its end.
"""

from __future__ import annotations

from msgspec.structs import replace

from penstock.base import limits
from penstock.base.ids import chain_of
from penstock.definitions.jq.expressions import EvaluationFailed
from penstock.definitions.model import (
    Node,
    SubworkflowDetail,
)
from penstock.engine.records import commands, events
from penstock.engine.state import Activation, Failure, RunState, Scope
from penstock.engine.transitions import Phase
from penstock.engine.walk.completion import (
    complete,
    describe_violations,
    fail,
)
from penstock.engine.walk.rules import NodeRules, deadline_of, name_of
from penstock.engine.walk.turn import Turn, activation_of, detail_of

__all__ = ["SUBWORKFLOW"]


def _begin(turn: Turn, scope: Scope, node: Node, detail: SubworkflowDetail) -> None:
    """Start a child run, or the next one after a failed attempt."""
    state, activation = turn.state, activation_of(scope)
    child = commands.StartSubworkflow(
        *activation.key, workflow_ref=detail.workflow_ref, child_execution_id=_child_id(state, activation)
    )
    if activation.attempt:
        # As with activities, a retry gets the input of the first attempt.
        turn.record(replace(child, input=activation.arguments))
        return
    if state.depth >= limits.SUBWORKFLOW_DEPTH_MAX:
        message = f"child runs nest deeper than {limits.SUBWORKFLOW_DEPTH_MAX}"
        fail(turn, scope, node, Failure("SUBWORKFLOW_DEPTH_EXCEEDED", message, "subworkflow_failed", node.id))
        return
    rendered = turn.render(detail.input, scope)
    if isinstance(rendered, EvaluationFailed):
        fail(turn, scope, node, Failure("JQ_FAILED", rendered.message, "subworkflow_failed", node.id))
        return
    turn.record(replace(child, input=rendered.value))


def _child_id(state: RunState, activation: Activation) -> str:
    """Return the id of the next child run.

    It is derived from parent, node, visit and attempt, so that starting it twice finds the first one.
    """
    first, attempt = f"{state.run_id}:sub:{activation.node_id}", activation.attempt + 1
    if attempt > 1:
        return f"{first}:{activation.visit}.{attempt}"
    # A published node may have a name that would make its child look like the continuation of another run.
    is_plain = activation.visit == 1 and chain_of(first) == first
    return first if is_plain else f"{first}:{activation.visit}"


def _retry(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    _begin(turn, scope, node, detail_of(node, SubworkflowDetail))


def _child_starting(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    detail = detail_of(node, SubworkflowDetail)
    turn.record(
        events.SubworkflowStarted(
            *activation.key,
            workflow_ref=detail.workflow_ref,
            parent_execution_id=turn.state.run_id,
            child_execution_id=name_of(activation, "childExecutionId"),
            input=activation.arguments,
            version_pin=detail.version_pin,
            deadline=deadline_of(turn, node),
        )
    )


def _child_done(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    turn.record(
        commands.CompleteSubworkflow(
            *activation.key,
            workflow_ref=name_of(activation, "workflowRef"),
            child_execution_id=name_of(activation, "childExecutionId"),
        )
    )


def _merged(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    schema = node.output_schema
    if schema is not None and (found := turn.evaluator.violations(schema, activation.result)):
        message = f"the child's result does not fit: {describe_violations(found)}"
        fail(turn, scope, node, Failure("OUTPUT_SCHEMA_VIOLATION", message, "subworkflow_failed", node.id))
        return
    complete(turn, scope, node, activation.result)


SUBWORKFLOW = NodeRules(
    detail=SubworkflowDetail,
    begin=_begin,
    moves={
        Phase.RETRYING: _retry,
        Phase.STARTING_CHILD: _child_starting,
        Phase.CHILD_DONE: _child_done,
        Phase.CHILD_MERGED: _merged,
    },
    hands_out=True,
)
