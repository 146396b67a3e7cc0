"""Operations that read runs: lists, status, history, queries.

Above it: the catalogue. Below it: the host port, the index of runs, `runs.views`. Runs are started in `execute`,
changed in `changes` and `messages`, followed in `streams`.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

import msgspec
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.errors import NotFound, Rejected
from penstock.base.ids import id_in_tenant
from penstock.engine.state import RunState
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import milliseconds
from penstock.operations.executions.inputs import (
    ListExecutions,
    ListWorkflowExecutions,
    NamedExecution,
    QueryExecution,
    ReadHistory,
)
from penstock.operations.gate.context import Context
from penstock.operations.permissions.deciding import WhyNot
from penstock.operations.permissions.people import names_of
from penstock.operations.runs.decisions import DecisionView
from penstock.operations.runs.handles import seconds_to_wait, visible_run
from penstock.operations.runs.held_access import without_unseen
from penstock.operations.runs.held_calls import HELD_LABEL
from penstock.operations.runs.views import (
    ExecutionPage,
    ExecutionView,
    HistoryPage,
    QueryAnswer,
    record_view,
    starts_runs,
    summary_of_row,
    view_of_run,
    with_runs_below,
)
from penstock.operations.runs.waits import HELD_PREFIX
from penstock.runtime.ports.runs import RunQuery, RunRow, StoredRun
from penstock.runtime.ports.topics import Mark, Topic
from penstock.runtime.tables.spending import read_spending

__all__ = [
    "OPERATIONS",
    "Bar",
    "Lane",
    "Timeline",
    "Undecided",
    "ended_view",
    "execution_view",
    "keep_view",
    "known_view",
]


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A visit of a node, or several in a row if there are too many to show one by one."""

    visit: int
    visits: int
    status: str
    attempts: int
    begun_seq: int
    ended_seq: int | None
    begun_at: str | None
    ended_at: str | None
    waits_for: str | None = None


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """The visits of one node."""

    node_id: str
    bars: list[Bar]


class Undecided(msgspec.Struct, frozen=True, kw_only=True):
    """An open question, and whether the caller may decide it."""

    interrupt_id: str
    decidable: bool
    why_not: WhyNot | None
    """Why you cannot: you lack the scope, are a program, are not named, asked for it, or have approved it."""


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """The visits of a run along time, in the order in which its nodes were first visited."""

    began_at: str | None
    updated_at: str | None
    sequence: int
    lanes: list[Lane]
    lanes_left_out: int
    first_failure: int | None
    """The record of the first visit or attempt that failed."""
    last_failure: int | None
    waits: list[int]
    """The records with which open waits began."""
    at_sequence: int | None = None
    """The last record up to the requested time."""
    decisions: list[DecisionView] = []
    """What people decided, oldest first; of very many, the last ones."""
    starter_name: str = ""
    """The name of the person or program that started it; "" if it is not known."""
    undecided: list[Undecided] = []
    """The questions that are open now, and whether you may decide them."""


def _view_key(row: RunRow) -> Hashable:
    """Return everything that a view depends on."""
    return (row.run_id, row.created_at, row.definition_hash, row.seq, row.updated_at)


async def execution_view(context: Context, row: RunRow) -> ExecutionView:
    """Return the whole view of a run; it is built again only when the run has moved."""
    return await _with_runs_below(context, row, await _own_view(context, row))


async def _own_view(context: Context, row: RunRow) -> ExecutionView:
    """Return the view of a run without what runs below it used."""
    services = context.services
    known = known_view(context, row)
    if known is not None:
        return known
    stored = await services.store.load(row.run_id)
    workflow = await services.host.workflow(row.definition_hash)
    if stored is None or workflow is None:
        raise NotFound("EXECUTION_NOT_FOUND", f"run {row.run_id} was deleted")
    state = services.run_memory.known_state(stored.row)
    view_now = partial(view_of_run, stored.row, workflow, stored.records, services.base_path, state=state)
    if len(stored.records) + len(workflow.nodes) <= limits.FOLDED_AT_ONCE:
        view = view_now()
    else:  # one at a time in a thread, so that many such requests do not hold up others
        view = await services.view_threads.run(context.principal.id, view_now)
    keep_view(context, row, stored, view)
    return view


def known_view(context: Context, row: RunRow) -> ExecutionView | None:
    """Return the whole view of a run if it was built before, and the run has not moved since."""
    known: ExecutionView | None = context.services.execution_views.get(_view_key(row))
    return known


def keep_view(context: Context, row: RunRow, stored: StoredRun, view: ExecutionView) -> None:
    """Keep the view of a run for others, unless it has moved in between or is very large."""
    if stored.row.seq == row.seq and len(encode_bytes(view)) <= limits.EXECUTION_VIEW_BYTES_KEPT_MAX:
        context.services.execution_views.put(_view_key(row), view)


async def ended_view(context: Context, stored: StoredRun, state: RunState) -> ExecutionView:
    """Return the whole view of a run that was waited for, from its short history and its final state."""
    services = context.services
    workflow = await services.host.workflow(stored.row.definition_hash)
    if workflow is None:
        return await execution_view(context, stored.row)
    view = view_of_run(stored.row, workflow, stored.records, services.base_path, state=state)
    return await _with_runs_below(context, stored.row, view)


async def _with_runs_below(context: Context, row: RunRow, view: ExecutionView) -> ExecutionView:
    """Return a view with what the runs below its run have used so far. They may go on after it has ended."""
    counted = await read_spending(context.services.store.database, row.run_id) if starts_runs(view.nodes) else None
    if counted is None or not counted.below.requests:
        return view
    return replace(view, usage=with_runs_below(view.usage, counted.below))


_LOOKED_AHEAD = 10  # runs that are read to say whether an agent may see anything further down
_FILTERS = (
    "status",
    "workflow_id",
    "started_by",
    "label",
    "created_after",
    "created_before",
    "updated_after",
    "parent_id",
    "text",
    "order",
    "count",
    "limit",
    "cursor",
)


@operation(
    "execution.list",
    route=Route(method="GET", path="/executions", query=_FILTERS),
    scopes=("execution:read",),
    reads=True,
    errors=("INVALID_LIST_CURSOR",),
    examples=(Example(arguments={"status": ["waiting_input"], "limit": 20}),),
)
async def execution_list(context: Context, given: ListExecutions) -> ExecutionPage:
    """List runs.

    Newest first unless `order` says otherwise, without inputs and outputs. Filter by status, workflow, starter, label
    or time to find runs that failed or wait for somebody; then look at one with execution.status. Agents get the
    `total` of one workflow only.
    """
    name, _, value = (given.label or "").partition("=")
    query = RunQuery(
        statuses=tuple(given.status),
        workflow_name=given.workflow_id,
        started_by=given.started_by,
        parent_run_id=id_in_tenant(context.tenant, given.parent_id) if given.parent_id else None,
        label=(name, value) if given.label else None,
        created_after=milliseconds(given.created_after, "created_after"),
        created_before=milliseconds(given.created_before, "created_before"),
        updated_after=milliseconds(given.updated_after, "updated_after"),
        text=given.text,
        by_update=given.order == "updated",
        counted=given.count,
        limit=given.limit,
        cursor=given.cursor,
        tenant=context.tenant,
    )
    return await _page(context, query)


@operation(
    "workflow.executions",
    route=Route(method="GET", path="/workflows/{workflow_id}/executions", query=("status", "limit", "cursor")),
    scopes=("execution:read",),
    reads=True,
    subject="workflow_id",
    errors=("INVALID_LIST_CURSOR",),
)
async def workflow_executions(context: Context, given: ListWorkflowExecutions) -> ExecutionPage:
    """List the runs of a workflow.

    Newest first, of all its versions; works for deleted workflows too.
    """
    query = RunQuery(
        statuses=tuple(given.status),
        workflow_name=given.workflow_id,
        limit=given.limit,
        cursor=given.cursor,
        tenant=context.tenant,
    )
    return await _page(context, query)


async def _page(context: Context, query: RunQuery) -> ExecutionPage:
    """Return a page of a list.

    Runs that an agent may not know of leave no trace in it: no page is short because of them, and none is promised
    that has only them. Otherwise a filter would tell whose they are.
    """
    services, principal = context.services, context.principal
    page = await services.store.list_runs(query)
    total = page.total if principal.kind != "agent" or _holds_no_call(query) else None
    rows = await without_unseen(services, principal, page.rows)
    cursor, looked_at = page.next_cursor, len(page.rows)
    while cursor is not None and principal.kind == "agent" and looked_at < limits.UNSEEN_RUNS_SKIPPED_MAX:
        missing = query.limit - len(rows)
        further = replace(query, cursor=cursor, limit=missing or _LOOKED_AHEAD, counted=False)
        page = await services.store.list_runs(further)
        seen = await without_unseen(services, principal, page.rows)
        if seen and not missing:
            break
        rows += seen
        cursor, looked_at = page.next_cursor, looked_at + len(page.rows)
    names = await names_of(context, (row.started_by for row in rows))
    items = [replace(summary_of_row(row), started_by_name=names.get(row.started_by or "", "")) for row in rows]
    return ExecutionPage(items=items, next_cursor=cursor, total=total)


def _holds_no_call(query: RunQuery) -> bool:
    """Whether no run that fits holds a call, so that everybody may know how many there are."""
    return query.workflow_name is not None and not query.workflow_name.startswith(HELD_PREFIX)


@operation(
    "execution.status",
    route=Route(method="GET", path="/executions/{execution_id}", etag=True),
    scopes=("execution:read",),
    reads=True,
    subject="execution_id",
    errors=("EXECUTION_NOT_FOUND",),
    examples=(Example(arguments={"execution_id": "r_01KA4T8R9B6S3VQ2XHJ7M5N0PE"}),),
)
async def execution_status(context: Context, given: NamedExecution) -> Reply[ExecutionView]:
    """Get a run.

    Returns status, input, output or error, state, the status of each node, and everything that the run waits for:
    questions to answer with execution.answer, activities to submit, signals, timers and child runs. To wait for a
    change, use execution.wait.
    """
    view = await _view_now(context, given.execution_id)
    below = "" if view.usage is None or view.usage.own is None else f"-{view.usage.requests}"
    return Reply(value=view, etag=f"{view.sequence}-{view.definition_hash[:12]}{below}")


async def _view_now(context: Context, execution_id: str) -> ExecutionView:
    """Return the view of a run that the caller named.

    While the store does not change, the same view is returned.
    """
    services, place = context.services, (context.tenant, execution_id)
    mark = services.store.changed(Topic.ANYTHING)
    seen: tuple[Mark, ExecutionView] | None = services.execution_views.get(place)
    if seen is not None and seen[0] == mark:
        return seen[1]
    row = await visible_run(context, execution_id)
    view = await execution_view(context, row)
    # Not everybody may see a held call, so its view is not kept by its name.
    if HELD_LABEL not in row.labels and services.execution_views.get(_view_key(row)) is view:
        services.execution_views.put(place, (mark, view))
    return view


@operation(
    "execution.history",
    route=Route(
        method="GET", path="/executions/{execution_id}/history", query=("after", "limit", "cursor", "wait_seconds")
    ),
    scopes=("execution:read",),
    reads=True,
    subject="execution_id",
    errors=("EXECUTION_NOT_FOUND", "INVALID_LIST_CURSOR"),
    examples=(Example(arguments={"execution_id": "r_01KA4T8R9B6S3VQ2XHJ7M5N0PE", "after": 12}),),
)
async def execution_history(context: Context, given: ReadHistory) -> HistoryPage:
    """Read the history of a run.

    Returns every decision and every event, oldest first, with its sequence number. Pass one of them to execution.fork
    to start from there. To follow a run, ask again for what comes `after` the last one, with `wait_seconds`, until it
    has `ended`.
    """
    row, host = await visible_run(context, given.execution_id), context.services.host
    after = given.after if given.cursor is None else _sequence(given.cursor)
    if given.wait_seconds and row.seq <= after and not row.terminal:
        run_id, seconds = row.run_id, seconds_to_wait(context, given.wait_seconds)
        await context.caller.while_connected(lambda: host.wait(run_id, after_seq=after, timeout_seconds=seconds))
        row = await visible_run(context, given.execution_id)
    records = await host.history(row.run_id, after_seq=after, limit=given.limit)
    more = bool(records) and records[-1].seq < row.seq
    return HistoryPage(
        items=[record_view(record) for record in records],
        next_cursor=str(records[-1].seq) if more else None,
        ended=row.terminal and not more,
    )


def _sequence(cursor: str) -> int:
    if not cursor.isascii() or not cursor.isdecimal() or len(cursor) > len(str(2**53)):
        raise Rejected(
            "INVALID_LIST_CURSOR",
            "the cursor does not come from this list",
            "leave `cursor` out to start from the first page",
        )
    return int(cursor)


@operation(
    "execution.query",
    route=Route(method="POST", path="/executions/{execution_id}/query"),
    scopes=("execution:read",),
    reads=True,
    subject="execution_id",
    errors=("EXECUTION_NOT_FOUND", "JQ_INVALID", "JQ_FAILED", "FIELDS_HIDDEN"),
    examples=(Example(arguments={"execution_id": "order-1042", "expression": ".state.total"}),),
    reveals="run",
)
async def execution_query(context: Context, given: QueryExecution) -> QueryAnswer:
    """Query the data of a run.

    Evaluates a jq expression on the run as it is now, or as it was when it ended. Changes nothing.
    """
    row = await visible_run(context, given.execution_id)
    return QueryAnswer(value=await context.run(row.run_id).query(given.expression))


OPERATIONS: tuple[Capability, ...] = (
    workflow_executions,
    execution_list,
    execution_status,
    execution_history,
    execution_query,
)
