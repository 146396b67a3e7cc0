"""Activities: step, llm_call, tool_call, http, query and agent_delegate. The run requests work from an executor.

Results arrive through `walk.activities`. Compensations are activities too and are requested here.

Above it: `table`, `advance` (compensation). Below it: `completion`.
"""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from penstock.definitions.jq.expressions import EvaluationFailed
from penstock.definitions.jq.templates import as_text
from penstock.definitions.model import (
    ActivityDetail,
    Node,
)
from penstock.engine.records import events
from penstock.engine.state import COMPENSATION_PREFIX, Activation, Failure, Scope
from penstock.engine.transitions import Phase
from penstock.engine.walk.completion import (
    complete,
    complete_towards,
    fail,
)
from penstock.engine.walk.rules import Move, NodeRules
from penstock.engine.walk.turn import Turn, activation_of, attempt_timeout_ms, detail_of, parallel_span

__all__ = ["ACTIVITY", "AGENT_DELEGATE", "request_activity"]


def _begin(turn: Turn, scope: Scope, node: Node, detail: ActivityDetail) -> None:
    asked = _next_attempt(turn, scope, node, detail)
    if detail.arguments is not None:
        rendered = turn.render(detail.arguments, scope)
        if isinstance(rendered, EvaluationFailed):
            reason = "delegate_failed" if detail.agent_id is not None else "activity_failed"
            fail(turn, scope, node, Failure("ARGUMENTS_FAILED", f"{node.id}: {rendered.message}", reason, node.id))
            return
        asked = replace(
            asked,
            arguments=rendered.value if turn.state.native else UNSET,
            secrets=dict(rendered.secrets) if rendered.secrets else None,
            delegate_input=rendered.value if detail.agent_id is not None else UNSET,
        )
    if detail.idempotency_key is not None:
        key = turn.render(detail.idempotency_key, scope)
        if isinstance(key, EvaluationFailed):
            fail(
                turn, scope, node, Failure("ARGUMENTS_FAILED", f"{node.id}: {key.message}", "activity_failed", node.id)
            )
            return
        asked = replace(asked, idempotency_key=as_text(key.value))
    turn.record(asked)


def request_activity(turn: Turn, scope: Scope, node: Node) -> None:
    """Request the next attempt of an activity, or of the activity that compensates a node."""
    turn.record(_next_attempt(turn, scope, node, detail_of(node, ActivityDetail)))


def _next_attempt(turn: Turn, scope: Scope, node: Node, detail: ActivityDetail) -> events.ActivityRequested:
    activation = activation_of(scope)
    undo = detail.compensate if activation.node_id.startswith(COMPENSATION_PREFIX) else None
    timeout_ms = attempt_timeout_ms(node, activation)
    asked = events.ActivityRequested(
        activation.node_id,
        activation.visit,
        node_type=str(undo.type if undo else node.type),
        attempt=activation.attempt + 1,
        timeout_ms=timeout_ms,
        deadline=None if timeout_ms is None else turn.at + timeout_ms,
        parallel_span=None if scope.parent is None else parallel_span(turn.workflow, turn.state, scope),
    )
    if detail.agent_id is not None and undo is None:
        return _delegated(turn, detail, activation, asked)
    return asked


def _delegated(
    turn: Turn, detail: ActivityDetail, activation: Activation, asked: events.ActivityRequested
) -> events.ActivityRequested:
    correlation = f"{turn.state.run_id}:delegate:{activation.node_id}"
    if activation.visit > 1:
        correlation = f"{correlation}:{activation.visit}"
    repeated = activation.external or {}
    return replace(
        asked,
        agent_id=detail.agent_id,
        protocol=detail.protocol,
        delegate_correlation_id=correlation,
        delegate_input=repeated.get("delegateInput", UNSET),
    )


def _retry(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    request_activity(turn, scope, node)


def _resolved(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    if turn.state.compensating:
        complete_towards(turn, scope, node, activation.result, None)
        return
    complete(turn, scope, node, activation.result)


def _continuing(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    """Give the answer to the activity that asked: the same attempt continues, with its full timeout."""
    timeout_ms = attempt_timeout_ms(node, activation)
    deadline = None if timeout_ms is None else turn.at + timeout_ms
    turn.record(events.InterruptResumed(*activation.key, deadline=deadline))


_MOVES: dict[Phase, Move] = {Phase.RETRYING: _retry, Phase.RESOLVED: _resolved, Phase.CONTINUING: _continuing}
ACTIVITY = NodeRules(
    detail=ActivityDetail, begin=_begin, moves=_MOVES, hands_out=True, checkpoint="declared_or_host_mediated"
)
AGENT_DELEGATE = NodeRules(detail=ActivityDetail, begin=_begin, moves=_MOVES, hands_out=True)
