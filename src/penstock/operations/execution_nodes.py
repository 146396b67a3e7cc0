"""What became of each node of an execution, and what its models used: read off the history.

The state of a run knows only where it is; that a node was completed on its third attempt is in the records.

Above it: `execution_views`. Below it: the engine's records and state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import msgspec

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.model import Workflow
from penstock.engine.records import Body, Record, commands, events
from penstock.engine.state import Activation, RunState
from penstock.engine.transitions import FINISHED_PHASES, Phase
from penstock.operations.views import instant

__all__ = ["Cost", "NodeView", "Usage", "node_views", "usage_of"]

_WAITING = frozenset(
    {
        Phase.OUTCOME_UNKNOWN,
        Phase.ASKING,
        Phase.SLEEPING,
        Phase.INTERRUPTED,
        Phase.AWAITING_SIGNAL,
        Phase.CHILD_RUNNING,
    }
)

_OVER = FINISHED_PHASES | {Phase.FAILED}


# The records that a story is made of; the others are not read for it.
_TELLING = frozenset(
    {
        commands.ScheduleNode,
        events.ActivityRequested,
        commands.StartSubworkflow,
        events.ActivityFailed,
        events.SubworkflowCompleted,
        commands.CompleteNode,
        commands.FailNode,
    }
)


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


@dataclass(slots=True)
class _Story:
    """A node as the records tell it."""

    visits: int = 0
    attempts: int = 0
    status: str = "pending"
    started_at: int | None = None
    ended_at: int | None = None
    code: str | None = None
    error: str | None = None

    def take(self, body: Body, at: int) -> None:
        match body:
            case commands.ScheduleNode():
                self.visits, self.attempts, self.status = self.visits + 1, 0, "running"
                self.started_at, self.ended_at, self.code, self.error = at, None, None, None
            case events.ActivityRequested(attempt=attempt):
                self.attempts = attempt or 0
            case commands.StartSubworkflow():
                self.attempts += 1
            case events.ActivityFailed(code=code, error=str(error)):
                self.code, self.error = code, error
            case events.SubworkflowCompleted(code=code, error=str(error)):
                self.code, self.error = code, error
            case commands.CompleteNode():
                self.status, self.ended_at, self.code, self.error = "completed", at, None, None
            case commands.FailNode(code=code, message=message):
                self.status, self.ended_at = "failed", at
                self.code, self.error = code or self.code, message or self.error
            case _:
                pass


def node_views(workflow: Workflow, state: RunState, records: Sequence[Record]) -> list[NodeView]:
    """Every node of the workflow, in the order of the document, and those that undo others."""
    stories: dict[str, _Story] = {node_id: _Story() for node_id in workflow.nodes}
    for record in records:
        body = record.body if record.body_type in _TELLING else None
        if body is not None:
            stories.setdefault(getattr(body, "node_id", ""), _Story()).take(body, record.at)
    under_way = {item.node_id: item for item in state.activations() if item.phase not in _OVER}
    return [_view(workflow, node_id, story, under_way.get(node_id)) for node_id, story in stories.items()]


def _view(workflow: Workflow, node_id: str, story: _Story, activation: Activation | None) -> NodeView:
    status = story.status
    if activation is not None:
        status = "waiting" if activation.phase in _WAITING else "running"
        if activation.phase in (Phase.BACKING_OFF, Phase.RETRYING):
            status = "retrying"
    elif status == "running":
        # Its scope is gone: a branch that nobody needs any more, or a run that ended.
        status = "cancelled"
    node = workflow.nodes.get(node_id)
    return NodeView(
        node_id=node_id,
        type=str(node.type) if node is not None else "compensation",
        status=status,
        visits=story.visits,
        attempts=story.attempts,
        started_at=instant(story.started_at),
        ended_at=None if activation is not None else instant(story.ended_at),
        error_code=story.code,
        error=story.error,
    )


def usage_of(records: Sequence[Record]) -> Usage | None:
    """The sum of what activities say that they used; None when none says anything."""
    used: list[JsonObject] = []
    for record in records:
        body = record.body_as(events.ActivityCompleted) or record.body_as(events.ActivityFailed)
        if body is not None and body.usage is not None:
            used.append(body.usage)
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
