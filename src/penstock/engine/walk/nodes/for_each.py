"""for_each: one body, once for each item of a list, with limited concurrency.

Above it: `table`. Below it: `bodies`, `completion`.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.json import JsonValue
from penstock.definitions.jq.expressions import EvaluationFailed
from penstock.definitions.model import (
    ForEachDetail,
    ItemErrorPolicy,
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
from penstock.engine.walk.turn import Turn, activation_of, detail_of

__all__ = ["FOR_EACH"]


def _begin(turn: Turn, scope: Scope, node: Node, detail: ForEachDetail) -> None:
    rendered = turn.render(detail.items, scope)
    if isinstance(rendered, EvaluationFailed):
        fail(turn, scope, node, Failure("JQ_FAILED", rendered.message, "for_each_failed", node.id))
        return
    items = rendered.value
    if not isinstance(items, list):
        message = f"`items` of {node.id} must give a list, not {type(items).__name__}"
        fail(turn, scope, node, Failure("ITEMS_NOT_A_LIST", message, "for_each_failed", node.id))
        return
    if len(items) > limits.FOR_EACH_ITEMS_MAX:
        message = f"`items` of {node.id} has {len(items)} items; at most {limits.FOR_EACH_ITEMS_MAX} are allowed"
        fail(turn, scope, node, Failure("ITEMS_LIMIT_EXCEEDED", message, "for_each_failed", node.id))
        return
    turn.record(
        events.ForEachStarted(
            *activation_of(scope).key,
            items=items,
            concurrency=detail.concurrency,
            on_item_error=str(detail.on_item_error),
            deadline=deadline_of(turn, node),
        )
    )


def _advance(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    detail, frame = detail_of(node, ForEachDetail), frame_of(node, activation)
    if frame.failed > 0 and detail.on_item_error is ItemErrorPolicy.FAIL:
        first = frame.failure
        code, message = (first.code, first.message) if first else ("ITEM_FAILED", "an item failed")
        fail(turn, scope, node, Failure(code, f"an item of {node.id} failed: {message}", "for_each_failed", node.id))
    elif frame.started < frame.total:
        item = opened(turn, activation, frame.started, detail.body)
        turn.record(replace(item, item_name=detail.item_name))
    else:
        complete(turn, scope, node, [output for _, output in frame.results.in_order()])


def _item_result(turn: Turn, scope: Scope, node: Node, detail: ForEachDetail) -> JsonValue | Failure:
    if detail.result is None:
        return scope.last_output
    rendered = turn.render(detail.result, scope)
    if isinstance(rendered, EvaluationFailed):
        return Failure("JQ_FAILED", f"result of {node.id}: {rendered.message}", "for_each_failed", node.id)
    return rendered.value


def _failed_item_result(detail: ForEachDetail, failure: Failure) -> JsonValue | UnsetType:
    match detail.on_item_error:
        case ItemErrorPolicy.SKIP | ItemErrorPolicy.FAIL:
            return UNSET
        case ItemErrorPolicy.COLLECT:
            return {"error": {"code": failure.code, "message": failure.message}}


FOR_EACH = NodeRules(
    detail=ForEachDetail,
    begin=_begin,
    moves={Phase.FORKED: _advance},
    body_result=_item_result,
    failed_body_result=_failed_item_result,
)
