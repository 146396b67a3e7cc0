"""Views of runs for callers: the handle, the row of a list, the whole view, the nodes, records of the history.

The state of a run says only where the run is; the status of each node comes from the node's visits.

Above it: the operations on runs and schedules. Below it: the engine's state and visits, the index of runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from penstock.base.ids import id_for_callers
from penstock.base.json import JsonValue
from penstock.definitions.durations import format_instant
from penstock.definitions.model import OUTSIDE_TYPES, NodeType, Workflow
from penstock.engine.inputs import Initiator
from penstock.engine.records import Record, events
from penstock.engine.state import RunState
from penstock.engine.status import run_status
from penstock.engine.transitions import RunStatus
from penstock.engine.visits import NodeVisits, RunVisits, Visit, VisitStatus, fold_with_state, visits_of
from penstock.operations.catalogue.fields import instant
from penstock.operations.runs.waits import WaitingFor, waiting_for
from penstock.runtime.activities.budgets import dollars_of
from penstock.runtime.chains import own_labels
from penstock.runtime.ports.runs import RunRow
from penstock.runtime.spending import Spent

__all__ = [
    "Cost",
    "ErrorView",
    "ExecutionHandle",
    "ExecutionPage",
    "ExecutionSummary",
    "ExecutionView",
    "HistoryPage",
    "NodeView",
    "QueryAnswer",
    "RecordView",
    "UpdateAnswer",
    "Usage",
    "error_of",
    "handle_of",
    "handle_of_state",
    "node_views",
    "record_view",
    "starts_runs",
    "summary_of_row",
    "usage_of",
    "view_of_run",
    "with_runs_below",
]


_NEVER = NodeVisits()
_STARTING = OUTSIDE_TYPES | {NodeType.SUBWORKFLOW}
_DOLLARS = "USD"


# Compared for every node; looking up a member of an enum each time is slow.
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


class UsageShare(msgspec.Struct, frozen=True, kw_only=True):
    """What models used so far, failed attempts included."""

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    cost: Cost | None = None
    """None if it did not exist, or if some of it is unknown."""


class Usage(UsageShare, frozen=True, kw_only=True):
    """What the models of a run used so far, with those of all runs that it started or called."""

    own: UsageShare | None = None
    """Its own share; None if there is no other."""


def node_views(workflow: Workflow, visits: RunVisits) -> list[NodeView]:
    """Return a view of every node of the workflow, in document order, and of the nodes that compensate others."""
    # If several visits of one node are open, the one in the newest scope is shown.
    under_way = {visit.node_id: visit for visit in sorted(visits.open.values(), key=_scope)}
    others = [node_id for node_id in visits.nodes if node_id not in workflow.nodes]
    known = visits.nodes
    return [
        _view(workflow, node_id, known.get(node_id, _NEVER), under_way.get(node_id))
        if node_id in known or node_id in under_way
        # Most nodes of a large workflow were never visited.
        else NodeView(node_id=node_id, type=str(workflow.nodes[node_id].type), status="pending")
        for node_id in (*workflow.nodes, *others)
    ]


def _scope(visit: Visit) -> int:
    return visit.scope


def _view(workflow: Workflow, node_id: str, node_visits: NodeVisits, visit: Visit | None) -> NodeView:
    node = workflow.nodes.get(node_id)
    return NodeView(
        node_id=node_id,
        type=str(node.type) if node is not None else "compensation",
        status=_status(node_visits, visit),
        visits=node_visits.visits,
        attempts=node_visits.attempts,
        started_at=instant(node_visits.begun_at),
        ended_at=None if visit is not None else instant(node_visits.ended_at),
        error_code=node_visits.code,
        error=node_visits.error,
    )


def _status(node_visits: NodeVisits, visit: Visit | None) -> str:
    if visit is not None:
        return str(visit.status)
    if not node_visits.visits:
        return "pending"
    # It ran and is no longer open: its branch was abandoned, or the run ended.
    return "cancelled" if node_visits.status is _RUNNING else str(node_visits.status)


def usage_of(visits: RunVisits) -> Usage | None:
    """Return the sum of the usage that activities report; None if none reports any."""
    used = visits.usage
    if not used:
        return None
    return Usage(
        input_tokens=sum(_whole(item.get("input_tokens")) for item in used),
        output_tokens=sum(_whole(item.get("output_tokens")) for item in used),
        requests=sum(_whole(item.get("requests")) for item in used),
        cost=_cost([item.get("cost") for item in used]),
    )


def starts_runs(nodes: Sequence[NodeView]) -> bool:
    """Whether a run with these nodes can have runs below it."""
    return any(node.type in _STARTING for node in nodes)


def with_runs_below(usage: Usage | None, below: Spent | None) -> Usage | None:
    """Return what a run used together with what all runs below it used."""
    if below is None or not below.requests:
        return usage
    own = usage or Usage()
    known = below.unpriced == 0 and (not own.requests or own.cost is not None)
    known = known and (own.cost is None or own.cost.currency == _DOLLARS)
    before = Decimal(own.cost.amount) if own.cost is not None else Decimal(0)
    total = Decimal(dollars_of(below.cost)) + before
    return Usage(
        input_tokens=own.input_tokens + below.input_tokens,
        output_tokens=own.output_tokens + below.output_tokens,
        requests=own.requests + below.requests,
        cost=Cost(amount=f"{total:f}", currency=_DOLLARS) if known else None,
        own=UsageShare(
            input_tokens=own.input_tokens, output_tokens=own.output_tokens, requests=own.requests, cost=own.cost
        ),
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


class ExecutionHandle(msgspec.Struct, frozen=True, kw_only=True):
    """A run, as much as you need to continue with it."""

    execution_id: str
    workflow_id: str
    workflow_version: str
    definition_hash: str
    status: str
    sequence: int
    url: str
    stream_url: str


class ExecutionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a list."""

    execution_id: str
    workflow_id: str
    workflow_version: str
    definition_hash: str
    status: str
    sequence: int
    created_at: str | None
    updated_at: str | None
    parent_id: str | None
    labels: dict[str, str]
    started_by: str | None = None
    """The principal who started it."""
    started_by_name: str = ""
    """What they are called; of lists of runs only."""


class ExecutionPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of runs. `total` is the number of runs on all pages, if the request asks to count them."""

    items: list[ExecutionSummary]
    next_cursor: str | None
    total: int | None = None


class ErrorView(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run did not complete."""

    code: str
    message: str
    node_id: str | None = None
    details: Any = None


class StartedBy(msgspec.Struct, frozen=True, kw_only=True):
    """Who started a run."""

    principal: str
    kind: str
    """How they are known: key, token, local, schedule, webhook, system, or program."""
    credential: str | None
    """The credential that was used: the id of a key, the name of a webhook's secret; never a secret."""
    on_behalf_of: str | None
    """The principal whose permissions applied, if they acted on behalf of another."""
    principal_kind: str | None = None
    """What they are: person, agent, service, local, schedule, webhook or system; null in older histories."""


class ExecutionView(msgspec.Struct, frozen=True, kw_only=True):
    """A run, with everything that is known about it but its history."""

    execution_id: str
    workflow_id: str
    workflow_version: str
    definition_hash: str
    status: str
    sequence: int
    url: str
    stream_url: str
    created_at: str | None
    updated_at: str | None
    ended_at: str | None
    mode: str
    untrusted: bool = False
    """Whether any of its data comes from outside: from a model, a tool, a server, or a caller over MCP or a webhook."""
    input: Any
    output: Any
    error: ErrorView | None
    state: Any
    nodes: list[NodeView]
    waiting_for: WaitingFor
    labels: dict[str, str]
    parent_id: str | None
    forked_from: str | None
    continued_from: str | None
    continued_as: str | None
    should_continue: bool = False
    """Whether its history is so long that it should continue as a new run."""
    usage: Usage | None
    started_by: StartedBy | None = None


class RecordView(msgspec.Struct, frozen=True, kw_only=True):
    """One record of a history."""

    seq: int
    kind: str
    name: str
    at: str | None
    payload: dict[str, Any]


class HistoryPage(msgspec.Struct, frozen=True, kw_only=True):
    """Records of a run, oldest first."""

    items: list[RecordView]
    next_cursor: str | None
    ended: bool = False
    """Whether the run has ended, so that no more records will follow."""


class QueryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What an expression gave."""

    value: Any


class UpdateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a signal was taken in time, and its result."""

    execution_id: str
    signal_id: str
    taken: bool
    value: Any = None


def handle_of(row: RunRow, base_path: str) -> ExecutionHandle:
    """Return the handle of a run."""
    public = id_for_callers(row.tenant, row.run_id)
    return ExecutionHandle(
        execution_id=public,
        workflow_id=row.workflow_name,
        workflow_version=row.workflow_version,
        definition_hash=row.definition_hash,
        status=row.status,
        sequence=row.seq,
        url=f"{base_path}/executions/{public}",
        stream_url=f"{base_path}/executions/{public}/stream",
    )


def handle_of_state(state: RunState, base_path: str) -> ExecutionHandle:
    """Return the handle for a state that was just decided, as its index row will show it."""
    public = id_for_callers(state.tenant, state.run_id)
    return ExecutionHandle(
        execution_id=public,
        workflow_id=state.workflow_name,
        workflow_version=state.workflow_version,
        definition_hash=state.definition_hash,
        status=run_status(state),
        sequence=state.seq,
        url=f"{base_path}/executions/{public}",
        stream_url=f"{base_path}/executions/{public}/stream",
    )


def summary_of_row(row: RunRow) -> ExecutionSummary:
    """Return a run as an item of a list."""
    return ExecutionSummary(
        execution_id=id_for_callers(row.tenant, row.run_id),
        workflow_id=row.workflow_name,
        workflow_version=row.workflow_version,
        definition_hash=row.definition_hash,
        status=row.status,
        sequence=row.seq,
        created_at=format_instant(row.created_at),
        updated_at=format_instant(row.updated_at),
        parent_id=None if row.parent_run_id is None else id_for_callers(row.tenant, row.parent_run_id),
        labels=own_labels(row.labels) if row.labels else {},
        started_by=row.started_by,
    )


def view_of_run(
    row: RunRow,
    workflow: Workflow,
    records: Sequence[Record],
    base_path: str,
    *,
    state: RunState | None = None,
    visits: RunVisits | None = None,
) -> ExecutionView:
    """Return the whole view of a run. `records` is its whole history; the rest is folded from it, if known."""
    if state is None:
        state, visits = fold_with_state(records)
    elif visits is None:
        visits = visits_of(records)
    handle = handle_of(row, base_path)
    first = records[0].body_as(events.ExecutionStarted) if records else None
    forked = None if first is None else first.forked_from
    return ExecutionView(
        execution_id=handle.execution_id,
        workflow_id=handle.workflow_id,
        workflow_version=handle.workflow_version,
        definition_hash=handle.definition_hash,
        status=run_status(state),
        sequence=state.seq,
        url=handle.url,
        stream_url=handle.stream_url,
        created_at=instant(row.created_at),
        updated_at=instant(state.updated_at),
        ended_at=instant(state.updated_at) if state.terminal else None,
        mode=state.mode,
        untrusted=state.untrusted,
        input=state.input,
        output=state.result,
        error=error_of(state),
        state=state.values,
        nodes=node_views(workflow, visits),
        waiting_for=waiting_for(row.tenant, workflow, state),
        labels=own_labels(row.labels),
        parent_id=_public(row, state.parent_run_id),
        forked_from=_public(row, _text(forked.get("executionId"))) if forked is not None else None,
        continued_from=_public(row, state.continued_from),
        continued_as=_public(row, state.continued_as),
        should_continue=state.should_continue and not state.terminal,
        usage=usage_of(visits),
        started_by=started_by(state),
    )


def started_by(state: RunState) -> StartedBy | None:
    """Return who started a run; None if its first record does not say."""
    if state.started_by is None:
        return None
    starter = state.starter or {}
    return StartedBy(
        principal=state.started_by,
        kind=_text(starter.get("kind")) or Initiator(principal=state.started_by).kind,
        credential=_text(starter.get("credential")),
        on_behalf_of=_text(starter.get("onBehalfOf")),
        principal_kind=_text(starter.get("principalKind")),
    )


def error_of(state: RunState) -> ErrorView | None:
    """Return why a run did not complete; None if it did, or has not ended."""
    failure = state.failure
    if failure is not None:
        return ErrorView(code=failure.code, message=failure.message, node_id=failure.node_id, details=failure.details)
    if state.status is RunStatus.CANCELLED:
        reason = state.cancel_reason or "cancelled"
        return ErrorView(code="CANCELLED", message=reason, node_id=state.last_node_id)
    return None


def record_view(record: Record) -> RecordView:
    """Return a record as callers see it."""
    at, payload = instant(record.at), record.payload
    return RecordView(seq=record.seq, kind=record.kind, name=record.name, at=at, payload=payload)


def _public(row: RunRow, run_id: str | None) -> str | None:
    return None if run_id is None else id_for_callers(row.tenant, run_id)


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None
