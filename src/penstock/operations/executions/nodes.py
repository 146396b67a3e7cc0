"""What became of each node of an execution, and what its models used, as callers are shown it.

The state of a run knows only where it is; that a node was completed on its third attempt is told by its visits.

Above it: `views`. Below it: the visits of the run.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

import msgspec

from penstock.base.json import JsonValue
from penstock.definitions.model import Workflow
from penstock.engine.visits import NodeVisits, RunVisits, Visit, VisitStatus
from penstock.operations.views import instant

__all__ = ["Cost", "NodeView", "Usage", "node_views", "usage_of"]

_NEVER = NodeVisits()


# Looked at for every node, and a member of an enum is found slowly.
_RUNNING = VisitStatus.RUNNING


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node and how its newest visit stands."""

    node_id: str
    type: str
    status: str
    """pending, running, waiting, retrying, completed, failed or cancelled."""
    visits: int = 0
    attempts: int = 0
    started_at: str | None = None
    ended_at: str | None = None
    error_code: str | None = None
    error: str | None = None


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Money, as decimal text."""

    amount: str
    currency: str


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What the models of an execution used so far, failed attempts included."""

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    cost: Cost | None = None
    """None when there was none, or when some of it is not known."""


def node_views(workflow: Workflow, visits: RunVisits) -> list[NodeView]:
    """Every node of the workflow, in the order of the document, and those that undo others."""
    # Of several visits of one node that are under way, the one in the newest scope stands for it.
    under_way = {visit.node_id: visit for visit in sorted(visits.open.values(), key=_scope)}
    others = [node_id for node_id in visits.nodes if node_id not in workflow.nodes]
    return [
        _view(workflow, node_id, visits.nodes.get(node_id, _NEVER), under_way.get(node_id))
        for node_id in (*workflow.nodes, *others)
    ]


def _scope(visit: Visit) -> int:
    return visit.scope


def _view(workflow: Workflow, node_id: str, told: NodeVisits, visit: Visit | None) -> NodeView:
    node = workflow.nodes.get(node_id)
    return NodeView(
        node_id=node_id,
        type=str(node.type) if node is not None else "compensation",
        status=_status(told, visit),
        visits=told.visits,
        attempts=told.attempts,
        started_at=instant(told.begun_at),
        ended_at=None if visit is not None else instant(told.ended_at),
        error_code=told.code,
        error=told.error,
    )


def _status(told: NodeVisits, visit: Visit | None) -> str:
    if visit is not None:
        return str(visit.status)
    if not told.visits:
        return "pending"
    # What ran and is not under way any more: a branch that nobody needs, or a run that ended.
    return "cancelled" if told.status is _RUNNING else str(told.status)


def usage_of(visits: RunVisits) -> Usage | None:
    """The sum of what activities say that they used; None when none says anything."""
    used = visits.usage
    if not used:
        return None
    return Usage(
        input_tokens=sum(_whole(item.get("input_tokens")) for item in used),
        output_tokens=sum(_whole(item.get("output_tokens")) for item in used),
        requests=sum(_whole(item.get("requests")) for item in used),
        cost=_cost([item.get("cost") for item in used]),
    )


def _cost(costs: list[JsonValue]) -> Cost | None:
    total, currencies = Decimal(0), set()
    for cost in costs:
        if not isinstance(cost, dict):
            return None
        try:
            total += Decimal(str(cost.get("amount")))
        except InvalidOperation:
            return None
        currencies.add(str(cost.get("currency")))
    if len(currencies) != 1:
        return None
    return Cost(amount=f"{total:f}", currency=currencies.pop())


def _whole(value: JsonValue) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
