"""emit: the run sends a signal to another run and continues when it is acknowledged.

Above it: `table`. Below it: `completion`; the host delivers the signal.
"""

from __future__ import annotations

from penstock.definitions.jq.expressions import EvaluationFailed
from penstock.definitions.model import (
    EmitDetail,
    Node,
)
from penstock.engine.records import commands
from penstock.engine.state import Activation, Failure, Scope
from penstock.engine.transitions import Phase
from penstock.engine.walk.completion import (
    complete,
    fail,
)
from penstock.engine.walk.rules import NodeRules
from penstock.engine.walk.turn import Turn, activation_of

__all__ = ["EMIT"]


def _begin(turn: Turn, scope: Scope, node: Node, detail: EmitDetail) -> None:
    target, payload = turn.render(detail.run, scope), turn.render(detail.payload, scope)
    for rendered in (target, payload):
        if isinstance(rendered, EvaluationFailed):
            fail(turn, scope, node, Failure("JQ_FAILED", rendered.message, "emit_failed", node.id))
            return
    if isinstance(target, EvaluationFailed) or isinstance(payload, EvaluationFailed):
        return
    if not isinstance(target.value, str) or not target.value:
        fail(turn, scope, node, Failure("EMIT_TARGET_INVALID", "`run` must give a run id", "emit_failed", node.id))
        return
    turn.record(
        commands.EmitSignal(
            *activation_of(scope).key,
            target_execution_id=target.value,
            signal_name=detail.signal,
            payload=payload.value,
        )
    )


def _emitted(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    named = activation.external or {}
    complete(turn, scope, node, {"run": named.get("targetExecutionId"), "signal": named.get("signalName")})


EMIT = NodeRules(detail=EmitDetail, begin=_begin, moves={Phase.EMITTED: _emitted}, hands_out=True)
