"""interrupt: the run asks a person and waits for the answer, which becomes the result of the node.

Answers arrive through `walk.questions`. Above it: `table`. Below it: `completion`.
"""

from __future__ import annotations

from penstock.definitions.jq.expressions import EvaluationFailed
from penstock.definitions.jq.templates import as_text
from penstock.definitions.model import (
    InterruptDetail,
    Node,
)
from penstock.engine.records import commands, events
from penstock.engine.state import Activation, Failure, Scope
from penstock.engine.transitions import Phase
from penstock.engine.walk.completion import (
    complete,
    complete_towards,
    fail,
    time_out,
    write_checkpoint,
)
from penstock.engine.walk.questions import interrupt_id_of
from penstock.engine.walk.rules import NodeRules, deadline_of
from penstock.engine.walk.turn import Turn, activation_of, detail_of

__all__ = ["INTERRUPT"]

_PROMPT_CHARACTERS_IN_COMMAND = 200  # as published: the event carries the whole prompt


def _begin(turn: Turn, scope: Scope, node: Node, detail: InterruptDetail) -> None:
    rendered = turn.render(detail.prompt, scope)
    if isinstance(rendered, EvaluationFailed):
        fail(turn, scope, node, Failure("JQ_FAILED", rendered.message, "interrupt_failed", node.id))
        return
    prompt = as_text(rendered.value)
    turn.record(commands.RaiseInterrupt(*activation_of(scope).key, prompt=prompt[:_PROMPT_CHARACTERS_IN_COMMAND]))


def _raising(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    detail = detail_of(node, InterruptDetail)
    rendered = turn.render(detail.prompt, scope)
    turn.record(
        events.InterruptRaised(
            *activation.key,
            prompt=activation.arguments if isinstance(rendered, EvaluationFailed) else as_text(rendered.value),
            interrupt_id=interrupt_id_of(node.id, activation.visit),
            answer_schema=detail.answer_schema_json,
            prompt_ref=detail.prompt_ref,
            approvers=detail.approvers,
            anyone=detail.anyone and turn.workflow.native,
            decline=detail.decline,
            deadline=deadline_of(turn, node),
            checkpoint=turn.workflow.checkpointing.strategy == "after_each_node",
            escalates_at=None if detail.escalate_ms is None else turn.at + detail.escalate_ms,
        )
    )


def _raised(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    write_checkpoint(turn, node, activation)


def _answering(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    turn.record(events.InterruptResumed(*activation.key))


def _answered(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    complete(turn, scope, node, activation.result)


def _timed_out(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    detail = detail_of(node, InterruptDetail)
    if detail.has_timeout_route:
        complete_towards(turn, scope, node, None, detail.on_timeout, timed_out=True)
        return
    time_out(turn, scope, node, "INTERRUPT_TIMEOUT")


INTERRUPT = NodeRules(
    detail=InterruptDetail,
    begin=_begin,
    moves={
        Phase.RAISING: _raising,
        Phase.RAISED: _raised,
        Phase.ANSWERING: _answering,
        Phase.ANSWERED: _answered,
        Phase.TIMED_OUT: _timed_out,
    },
    hands_out=True,
)
