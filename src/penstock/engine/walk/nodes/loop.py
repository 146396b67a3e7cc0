"""loop: repeat one body while or until a condition holds.

Above it: `table`. Below it: `bodies`, `completion`.
"""

from __future__ import annotations

from penstock.base.json import JsonObject
from penstock.definitions.jq.expressions import EvaluationFailed
from penstock.definitions.model import (
    LoopDetail,
    Node,
)
from penstock.engine.records import events
from penstock.engine.state import Activation, Failure, Scope
from penstock.engine.transitions import Phase
from penstock.engine.walk.completion import (
    complete,
    fail,
)
from penstock.engine.walk.nodes.bodies import frame_of, opened
from penstock.engine.walk.rules import NodeRules, deadline_of
from penstock.engine.walk.turn import Turn, activation_of, detail_of, truthy

__all__ = ["LOOP"]


def _begin(turn: Turn, scope: Scope, node: Node, detail: LoopDetail) -> None:
    deadline = deadline_of(turn, node)
    turn.record(events.LoopStarted(*activation_of(scope).key, max_iterations=detail.iterations_max, deadline=deadline))


def _advance(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    detail, frame = detail_of(node, LoopDetail), frame_of(node, activation)
    if frame.failed:
        first = frame.failure
        code, message = (first.code, first.message) if first else ("ITERATION_FAILED", "an iteration failed")
        fail(turn, scope, node, Failure(code, message, "loop_failed", node.id))
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
        turn.record(opened(turn, activation, frame.started, detail.body))
    elif detail.fail_when_exhausted:
        message = f"loop {node.id} did not finish within {detail.iterations_max} iterations"
        fail(turn, scope, node, Failure("LOOP_LIMIT_REACHED", message, "loop_failed", node.id))
    else:
        complete(turn, scope, node, output)


LOOP = NodeRules(detail=LoopDetail, begin=_begin, moves={Phase.FORKED: _advance})
