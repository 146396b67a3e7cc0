"""continue_as_new: the run ends, and a new run with an empty history continues it.

Above it: `table`. Below it: `completion`; `starting`, which also builds the input of the next run.
"""

from __future__ import annotations

from penstock.base import limits
from penstock.base.ids import next_in_chain
from penstock.base.json import JsonValue
from penstock.definitions.jq.expressions import EvaluationFailed
from penstock.definitions.model import (
    ContinueDetail,
    Node,
)
from penstock.engine.outcomes import Refused
from penstock.engine.records import events
from penstock.engine.state import Activation, Failure, Scope
from penstock.engine.transitions import Phase
from penstock.engine.values import refuse_unfit
from penstock.engine.walk.completion import (
    complete_towards,
    fail,
)
from penstock.engine.walk.rules import NodeRules
from penstock.engine.walk.starting import prepared_input, runs_without_wait
from penstock.engine.walk.turn import Turn, detail_of

__all__ = ["CONTINUE_AS_NEW"]


def _begin(turn: Turn, scope: Scope, node: Node, detail: ContinueDetail) -> None:
    rendered = turn.render(detail.input, scope)
    if isinstance(rendered, EvaluationFailed):
        fail(turn, scope, node, Failure("JQ_FAILED", rendered.message, "continue_failed", node.id))
        return
    problem = _problem(turn, detail, rendered.value)
    if problem is not None:
        fail(turn, scope, node, problem)
        return
    complete_towards(turn, scope, node, rendered.value, None)


def _problem(turn: Turn, detail: ContinueDetail, given: JsonValue) -> Failure | None:
    """Return why the run may not continue as a new one with this input, or None."""
    # The input schema of a newer definition is known only when that definition is chosen.
    unfit = refuse_unfit(given, "the input", code="VALIDATION_ERROR") if detail.newest else None
    prepared = unfit if detail.newest else prepared_input(turn.workflow, given, turn.evaluator)
    if isinstance(prepared, Refused):
        return Failure("CONTINUE_INPUT_INVALID", f"the next run cannot start: {prepared.message}", "continue_failed")
    if runs_without_wait(turn.workflow, turn.state) > limits.CONTINUATIONS_WITHOUT_WAIT_MAX:
        message = (
            f"{limits.CONTINUATIONS_WITHOUT_WAIT_MAX} runs continued each other without waiting for anything or asking"
            " for work (is there an endless loop?)"
        )
        return Failure("CONTINUE_WITHOUT_WAIT", message, "limit_exceeded")
    return None


def _continued(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    """Write the last record of a run that another run continues."""
    turn.record(
        events.ExecutionContinued(
            *activation.key,
            successor_execution_id=next_in_chain(turn.state.run_id),
            input=activation.result,
            version="newest" if detail_of(node, ContinueDetail).newest else "pinned",
        )
    )


CONTINUE_AS_NEW = NodeRules(
    detail=ContinueDetail, begin=_begin, moves={Phase.COMPLETED: _continued}, ends_run=True, has_successor=False
)
