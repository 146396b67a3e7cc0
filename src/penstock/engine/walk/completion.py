"""The end of a visit: complete or fail a node, and find where the walk goes from there.

Above it: `advance`, the modules of `nodes`. Below it: `turn`, `rules`, `reducers`. A failure looks for its route here:
the node's `on_error`, then (at the root) the workflow's. The enclosing bodies decide in `nodes.bodies`.
"""

from __future__ import annotations

from msgspec.structs import replace

from penstock.base import limits
from penstock.base.encoding import SafeEncoder
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.jq.expressions import EvaluationFailed
from penstock.definitions.model import (
    ActivityDetail,
    ErrorRoute,
    Join,
    Node,
    ParallelDetail,
)
from penstock.definitions.schemas.compiled import Violation
from penstock.engine.records import commands, events
from penstock.engine.reducers import merge_state
from penstock.engine.state import COMPENSATION_PREFIX, Activation, Failure, Scope
from penstock.engine.transitions import Phase
from penstock.engine.walk.rules import RULES
from penstock.engine.walk.turn import Turn, activation_of, truthy

__all__ = [
    "after_completion",
    "complete",
    "complete_towards",
    "describe_violations",
    "fail",
    "time_out",
    "write_checkpoint",
]

_ENCODER = SafeEncoder()


def describe_violations(violations: tuple[Violation, ...]) -> str:
    """Describe the first few violations in one line."""
    found = [f"{item.instance_path or '/'} {item.message}" for item in violations]
    return "; ".join(found[:3]) + (f" (and {len(found) - 3} more)" if len(found) > 3 else "")  # noqa: PLR2004


def complete(turn: Turn, scope: Scope, node: Node, output: JsonValue, fallback: JsonObject | None = None) -> None:
    """Complete the scope's activation and continue with its successor."""
    successor = node.successor
    target = successor.target if successor else None
    if successor is not None and successor.when is not None:
        seen = {**_as_object(turn.root(scope)), node.id: output} if turn.state.native else turn.root(scope)
        outcome = turn.evaluator.evaluate(successor.when, seen)
        if isinstance(outcome, EvaluationFailed):
            failure = _jq_failure(node, "next_failed", outcome.message)
            fail(turn, scope, node, failure, after_fallback=fallback is not None)
            return
        target = successor.target if truthy(outcome.value) else successor.otherwise
    at = activation_of(scope)
    completed = commands.CompleteNode(at.node_id, at.visit, output, target, fallback=fallback)
    _complete(turn, scope, node, completed)


def complete_towards(
    turn: Turn, scope: Scope, node: Node, output: JsonValue, target: str | None, *, timed_out: bool = False
) -> None:
    """Complete the scope's activation towards a target; None leaves the body."""
    at = activation_of(scope)
    completed = commands.CompleteNode(at.node_id, at.visit, output, target, timed_out=timed_out)
    _complete(turn, scope, node, completed)


def _complete(turn: Turn, scope: Scope, node: Node, completed: commands.CompleteNode) -> None:
    updated = _merged_state(turn, node, completed.output)
    if isinstance(updated, Failure):
        fail(turn, scope, node, updated, after_fallback=completed.fallback is not None)
        return
    # A fallback replaces work that was not done, so there is nothing to compensate.
    if completed.fallback is None:
        compensation = _compensation(turn, scope, node, completed.output)
        completed = completed if compensation is None else replace(completed, compensation=compensation)
    turn.record(completed)
    if updated is not None:
        turn.record(events.StateUpdated(node.id, completed.visit, updated))


def after_completion(turn: Turn, scope: Scope, node: Node) -> bool:
    """Write the next record that a completed visit still needs (state, checkpoint); return False if none is missing."""
    activation = activation_of(scope)
    if activation.phase is Phase.COMPLETED:
        updated = _merged_state(turn, node, activation.result)
        if isinstance(updated, dict):
            turn.record(events.StateUpdated(node.id, activation.visit, updated))
            return True
    if activation.phase in (Phase.COMPLETED, Phase.UPDATED) and _checkpoint_due(turn, node):
        write_checkpoint(turn, node, activation)
        return True
    return False


def _merged_state(turn: Turn, node: Node, output: JsonValue) -> JsonObject | Failure | None:
    """Return the new state, None if the node does not write state, or why it cannot."""
    state, workflow = turn.state, turn.workflow
    rules = RULES[node.type]
    writes = rules.writes_native_state if state.native else rules.writes_published_state
    if not writes or state.compensating:
        return None
    produced = output if isinstance(output, dict) else {}
    if not produced and isinstance(state.values, dict):
        return state.values
    merged = merge_state(state.values, produced, workflow.reducers)
    if workflow.state_schema is not None and (found := turn.evaluator.violations(workflow.state_schema, merged)):
        message = describe_violations(found)
        return Failure(
            "STATE_SCHEMA_VIOLATION", f"the state no longer fits its schema: {message}", "orchestration_error"
        )
    if len(_ENCODER.encode(merged)) > limits.STATE_BYTES_MAX:
        message = f"the state grew beyond {limits.STATE_BYTES_MAX} bytes"
        return Failure("STATE_LIMIT_EXCEEDED", message, "orchestration_error")
    return merged


def _compensation(turn: Turn, scope: Scope, node: Node, output: JsonValue) -> JsonObject | None:
    """Render the arguments of the node's compensation. An error is recorded, and fails the compensation later."""
    detail = node.detail
    if not isinstance(detail, ActivityDetail) or detail.compensate is None or turn.state.compensating:
        return None
    rendered = turn.render(detail.compensate.arguments, scope, {node.id: output})
    if isinstance(rendered, EvaluationFailed):
        return {"error": f"{node.id}: {rendered.message}"}
    entry: JsonObject = {"arguments": rendered.value}
    if rendered.secrets:
        entry["secrets"] = dict(rendered.secrets)
    return entry


def _checkpoint_due(turn: Turn, node: Node) -> bool:
    policy, rules = turn.workflow.checkpointing, RULES[node.type]
    if policy.strategy == "disabled" or turn.state.compensating or rules.ends_run:
        return False
    if policy.strategy == "every_n_nodes":
        return turn.state.nodes_since_checkpoint >= policy.interval_nodes
    if policy.declared or rules.checkpoint == "always":
        return True
    # The published default: after everything but the start and the activities performed in process.
    return rules.checkpoint == "declared_or_host_mediated" and turn.state.mode == "host_mediated"


def write_checkpoint(turn: Turn, node: Node, activation: Activation) -> None:
    """Write a checkpoint row, which other readers of the published history expect."""
    policy, state = turn.workflow.checkpointing, turn.state
    turn.record(
        events.CheckpointWritten(
            policy=policy.strategy,
            workflow_version=state.workflow_version,
            definition_hash=state.definition_hash,
            last_applied_event_seq=state.seq,
            node_id=node.id,
            visit=activation.visit,
            state_ref={"kind": "inline_state", "state": state.values},
            interval_nodes=policy.interval_nodes if policy.strategy == "every_n_nodes" else None,
        )
    )


def fail(
    turn: Turn, scope: Scope, node: Node, failure: Failure, *, fatal: bool = False, after_fallback: bool = False
) -> None:
    """Fail the scope's activation: by a route if one matches, for good otherwise.

    A fallback that fails is not followed by another.
    """
    activation = activation_of(scope)
    failed = commands.FailNode(
        *activation.key, reason=failure.reason, message=failure.message, code=failure.code, details=failure.details
    )
    if fatal or _fails_the_run(turn, scope):
        turn.record(replace(failed, fatal=True))
        return
    route, handled_by = _route(turn, scope, node, failure, after_fallback=after_fallback)
    if route is None:
        turn.record(failed)
    elif route.fallback is not None:
        _fall_back(turn, scope, node, failure, route)
    else:
        turn.record(replace(failed, next=route.target, handled_by=handled_by))


def time_out(turn: Turn, scope: Scope, node: Node, code: str = "TIMEOUT") -> None:
    """Fail a node that timed out."""
    message = f"{node.id} did not finish within {node.timeout_ms} ms"
    fail(turn, scope, node, Failure(code, message, "timed_out", node.id))


def _fails_the_run(turn: Turn, scope: Scope) -> bool:
    """Whether a failure fails the run at once. As published, it does inside branches that must all complete."""
    if turn.state.native or scope.parent is None:
        return False
    inner: Scope = scope
    while inner.parent is not None:
        inner = turn.state.scopes[inner.parent]
        owner = turn.workflow.nodes[activation_of(inner).node_id].detail
        if not isinstance(owner, ParallelDetail) or owner.join is not Join.ALL:
            return False
    return True


def _route(
    turn: Turn, scope: Scope, node: Node, failure: Failure, *, after_fallback: bool
) -> tuple[ErrorRoute | None, str]:
    if activation_of(scope).node_id.startswith(COMPENSATION_PREFIX):
        return None, ""
    # At the root nothing follows such a node, so a fallback could not continue anywhere.
    goes_on = scope.parent is not None or RULES[node.type].has_successor
    may_fall_back = not after_fallback and goes_on
    if not after_fallback:
        for route in node.on_error:
            if _fits(route, failure) and (route.fallback is None or may_fall_back):
                return route, "node"
    if scope.parent is None and not turn.state.workflow_error_routed:
        for route in turn.workflow.on_error:
            if _fits(route, failure) and (route.fallback is None or may_fall_back):
                return route, "workflow"
    return None, ""


def _fits(route: ErrorRoute, failure: Failure) -> bool:
    return not route.codes or failure.code in route.codes or "*" in route.codes


def _fall_back(turn: Turn, scope: Scope, node: Node, failure: Failure, route: ErrorRoute) -> None:
    error: JsonObject = {"code": failure.code, "message": failure.message, "node": node.id}
    rendered = turn.render(route.fallback, scope, {"error": error}) if route.fallback is not None else None
    if rendered is None or isinstance(rendered, EvaluationFailed):
        message = rendered.message if isinstance(rendered, EvaluationFailed) else "no fallback"
        fail(turn, scope, node, _jq_failure(node, "fallback_failed", message), after_fallback=True)
        return
    check = RULES[node.type].result_violation
    violation = None if check is None else check(turn, node.detail, rendered.value)
    if violation is not None:
        fail(turn, scope, node, violation, after_fallback=True)
        return
    complete(turn, scope, node, rendered.value, error)


def _jq_failure(node: Node, reason: str, message: str) -> Failure:
    return Failure("JQ_FAILED", f"{node.id}: {message}", reason, node.id)


def _as_object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}
