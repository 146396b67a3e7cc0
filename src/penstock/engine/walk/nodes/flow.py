"""Nodes that need nothing from outside: start, end, fail, switch and set_state.

Each ends as soon as it begins. Above it: `table`. Below it: `completion`.
"""

from __future__ import annotations

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.jq.expressions import EvaluationFailed
from penstock.definitions.jq.templates import as_text
from penstock.definitions.model import (
    EndDetail,
    FailDetail,
    Node,
    SetStateDetail,
    StartDetail,
    SwitchDetail,
)
from penstock.engine.records import events
from penstock.engine.state import Activation, Failure, Scope
from penstock.engine.transitions import Phase
from penstock.engine.walk.completion import (
    complete,
    complete_towards,
    describe_violations,
    fail,
)
from penstock.engine.walk.rules import NodeRules
from penstock.engine.walk.turn import Turn, truthy

__all__ = ["END", "FAIL", "SET_STATE", "START", "SWITCH", "result_violation"]


def _start(turn: Turn, scope: Scope, node: Node, detail: StartDetail) -> None:
    complete(turn, scope, node, {})


def _end(turn: Turn, scope: Scope, node: Node, detail: EndDetail) -> None:
    result: JsonValue = turn.state.values if not turn.state.native else None
    if detail.output is not None:
        rendered = turn.render(detail.output, scope)
        if isinstance(rendered, EvaluationFailed):
            fail(turn, scope, node, Failure("JQ_FAILED", rendered.message, "output_mapping_jq_failed", node.id))
            return
        result = rendered.value
    violation = result_violation(turn, detail, result)
    if violation is not None:
        fail(turn, scope, node, violation)
        return
    complete_towards(turn, scope, node, result, None)


def result_violation(turn: Turn, detail: EndDetail, result: JsonValue) -> Failure | None:
    """Return why a run may not end with a result, or None."""
    for schema in (detail.output_schema, turn.workflow.output_schema):
        if schema is not None and (found := turn.evaluator.violations(schema, result)):
            message = f"the result does not fit the output schema: {describe_violations(found)}"
            return Failure("OUTPUT_SCHEMA_VIOLATION", message, "output_invalid")
    return None


def _fail(turn: Turn, scope: Scope, node: Node, detail: FailDetail) -> None:
    rendered = turn.render(detail.message, scope)
    message = rendered.message if isinstance(rendered, EvaluationFailed) else as_text(rendered.value)
    fail(turn, scope, node, Failure(detail.code, message, "failed_by_workflow", node.id))


def _switch(turn: Turn, scope: Scope, node: Node, detail: SwitchDetail) -> None:
    root = turn.root(scope)
    for case in detail.cases:
        outcome = turn.evaluator.evaluate(case.when, root)
        if isinstance(outcome, EvaluationFailed):
            fail(turn, scope, node, Failure("JQ_FAILED", outcome.message, "switch_routing_failed", node.id))
            return
        if truthy(outcome.value):
            complete_towards(turn, scope, node, {}, case.target)
            return
    if detail.has_default:
        complete_towards(turn, scope, node, {}, detail.default)
        return
    message = f"no case of switch {node.id} matches and it has no default"
    fail(turn, scope, node, Failure("SWITCH_NO_MATCH", message, "switch_routing_failed", node.id))


def _set_state(turn: Turn, scope: Scope, node: Node, detail: SetStateDetail) -> None:
    output: JsonObject = {}
    for key, template in detail.assignments:
        rendered = turn.render(template, scope)
        if isinstance(rendered, EvaluationFailed):
            fail(turn, scope, node, Failure("JQ_FAILED", f"{key}: {rendered.message}", "set_state_failed", node.id))
            return
        output[key] = rendered.value
    complete(turn, scope, node, output)


def _completed(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    turn.record(events.ExecutionCompleted(activation.result))


START = NodeRules(detail=StartDetail, begin=_start, checkpoint="declared")
END = NodeRules(
    detail=EndDetail,
    begin=_end,
    moves={Phase.COMPLETED: _completed},
    ends_run=True,
    writes_published_state=False,
    result_violation=result_violation,
)
FAIL = NodeRules(detail=FailDetail, begin=_fail, has_successor=False)
SWITCH = NodeRules(detail=SwitchDetail, begin=_switch, has_successor=False)
SET_STATE = NodeRules(detail=SetStateDetail, begin=_set_state, writes_native_state=True)
