"""Loading and exporting the data of a graph as NDJSON: one record, a node or an edge, on each line.

    {"type": "Person", "data": {"name": "Ada"}}
    {"edge": "Knows", "from": "Ada", "to": "Bob", "data": {"since": "2020-01-31"}}

A load is staged in pieces, so that runs do not wait for it, and published at once, as one commit with the record of the
call. If anything in it is wrong, nothing is loaded.

Above it: the catalogue. Below it: the port of graphs, `graph.records`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from io import StringIO
from itertools import islice
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.governance.holds import Approval
from penstock.graph.records import GraphRecord, RecordProblem, parse_records, write_record
from penstock.graph.schema.model import Schema
from penstock.graph.versions.entities import LoadMode
from penstock.operations.catalogue.capability import Capability, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Cursor
from penstock.operations.catalogue.reaching import named
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.graphs.views import CommitView, commit_view
from penstock.operations.stored_queries.access import (
    Branch,
    BranchOrMain,
    GraphId,
    IfGraphCommit,
    OpenedGraph,
    Snapshot,
    answered_with,
    finder,
    opened_graph,
    stamp_of,
    view_of,
)
from penstock.operations.stored_queries.permissions import branch_approvals, included_call
from penstock.operations.stored_queries.refusals import READ_ERRORS, WRITE_ERRORS, refused
from penstock.runtime.ports.graphs import MAIN, ExportPage, LoadBegun, LoadProgress, LoadPublished

__all__ = ["OPERATIONS"]

_EXAMPLE = '{"type": "Person", "data": {"name": "Ada"}}\n{"type": "Person", "data": {"name": "Bob"}}\n'


class LoadRecords(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The records, and where they go."""

    graph_id: GraphId
    data: Annotated[
        str,
        Meta(
            description="One JSON object on each line: a node (`type`, `data`), or an edge (`edge`, `from`, `to`, "
            "`data`).",
            min_length=1,
            max_length=limits.GRAPH_LOAD_CHARACTERS_MAX,
        ),
    ]
    mode: Annotated[
        Literal["append", "merge", "overwrite"],
        Meta(
            description="What happens to existing entities: `append` refuses them, `merge` replaces them, "
            "`overwrite` replaces all entities of every type in the load."
        ),
    ] = "merge"
    branch: BranchOrMain = MAIN
    source: Annotated[Branch, Meta(description="Fork the branch from this one if it does not exist.")] | None = None
    if_graph_commit: IfGraphCommit = None
    message: Annotated[str, Meta(description="Why, for the list of commits.", max_length=1_000)] | None = None


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """How many entities."""

    name: str
    entities_loaded: int


class LoadAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was loaded."""

    branch: str
    base_branch: str | None
    branch_created: bool
    mode: str
    nodes: list[Loaded]
    edges: list[Loaded]
    total_entities: int
    commit: CommitView | None
    actor_id: str


class ExportGraph(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which version, and which page."""

    graph_id: GraphId
    branch: BranchOrMain = MAIN
    snapshot: Snapshot = None
    cursor: Cursor = None
    limit: Annotated[int, Meta(description="How many records at most.", ge=1, le=limits.GRAPH_EXPORT_RECORDS_MAX)] = (
        limits.GRAPH_EXPORT_RECORDS_MAX
    )


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """Records of a graph: nodes first, then edges."""

    graph_commit_id: str
    """The version; pass it as `snapshot` to get further pages of the same version."""
    records: int
    data: str
    """One record on each line, as graph.load takes them."""
    next_cursor: str | None


async def _approvals(context: Context, given: LoadRecords) -> tuple[Approval, ...]:
    return await branch_approvals(context, given.graph_id, given.branch)


async def _find(context: Context, given: LoadRecords) -> None:
    """Find the branch of a load, or the one that it would be forked from."""
    await finder("branch" if given.source is None else "source")(context, given)


async def _witness(context: Context, given: LoadRecords) -> JsonValue:
    """Return the head of the branch that a load would change; None if the branch does not exist yet."""
    graph = await opened_graph(context, given.graph_id)
    branches = await graph.store.branches(graph.ref)
    if not isinstance(branches, tuple):
        refused(given.graph_id, branches)
    return {"head": next((row.head_commit_id for row in branches if row.name == given.branch), None)}


@operation(
    "graph.load",
    route=Route(method="POST", path="/graphs/{graph_id}/load", other_names={"from": "source"}),
    scopes=("graph:write",),
    destructive=True,
    risk="medium",
    subject="graph_id",
    groups=("graph:change",),
    approvals=_approvals,
    find=_find,
    reaches=named("graph:", "graph_id"),
    witness=_witness,
    errors=(*WRITE_ERRORS, "GRAPH_RECORDS_INVALID", "BRANCH_NAME_INVALID", "BRANCH_TOO_DEEP"),
    examples=(Example(arguments={"graph_id": "crm", "data": _EXAMPLE, "mode": "append"}),),
)
async def load(context: Context, given: LoadRecords) -> LoadAnswer:
    """Load nodes and edges, all of them or none.

    The load is one commit on the branch. With `source`, a branch that does not exist is forked first, which needs the
    right to create branches.
    """
    graph = await opened_graph(context, given.graph_id)
    if given.source is not None and await _is_new(graph, given.branch):
        arguments: JsonObject = {"graph_id": given.graph_id, "name": given.branch, "source": given.source}
        await included_call(context, "graph.branches_create", arguments)
    context.call.about(None, branch=given.branch)
    stamp = stamp_of(context, if_graph_commit=given.if_graph_commit, message=given.message)
    derived = idempotency.derived_id(context.principal, context.request)
    load_id = f"l_{derived or context.services.new_id().removeprefix('r_')}"
    if derived is not None:
        # A process that died may have left it half done, and nobody else can have begun it.
        await graph.store.abandon_load(load_id)
    begun = await graph.store.begin_load(
        graph.ref,
        branch=given.branch,
        mode=LoadMode(given.mode),
        source=given.source,
        load_id=load_id,
        stamp=stamp,
    )
    if not isinstance(begun, LoadBegun):
        refused(given.graph_id, begun)
    try:
        loaded = 0
        async for records in _pieces(graph.row.schema, given.data):
            now = replace(stamp, at=context.services.clock.now_ms())  # the load is not abandoned while it goes on
            progress = await graph.store.add_to_load(begun.load_id, records, stamp=now)
            if not isinstance(progress, LoadProgress):
                refused(given.graph_id, progress)
            loaded += len(records)
        context.call.about(None, branch=given.branch, records=loaded)
        outcome = await graph.store.publish_load(
            begun.load_id, stamp=stamp, call=answered_with(context, lambda made: _answer(context, made))
        )
        return _answer(context, outcome) if isinstance(outcome, LoadPublished) else refused(given.graph_id, outcome)
    except BaseException:
        # Until it is published or abandoned, the branch takes no other writes.
        await graph.store.abandon_load(begun.load_id)
        raise


async def _is_new(graph: OpenedGraph, branch: str) -> bool:
    rows = await graph.store.branches(graph.ref)
    return isinstance(rows, tuple) and all(row.name != branch for row in rows)


async def _pieces(schema: Schema, data: str) -> AsyncIterator[list[GraphRecord]]:
    """Yield the records of a load in pieces, read in a thread; raise `Rejected` with every mistake, up to a bound.

    They are not all read first: that would take several times the memory of the text, and computing for as long would
    hold up everybody else. After a mistake, the rest is read for further ones only.
    """
    problems: list[RecordProblem] = []
    lines, number = StringIO(data, newline="\n"), 1
    while len(problems) < limits.GRAPH_VIOLATIONS_MAX:
        piece = list(islice(lines, limits.GRAPH_RECORDS_READ_AT_ONCE))
        if not piece:
            break
        records, wrong = await asyncio.to_thread(_read, piece, schema, number)
        problems += wrong
        number += len(piece)
        if records and not problems:
            yield records
    if problems:
        listed: list[JsonValue] = [msgspec.to_builtins(item) for item in problems]
        message = f"the records cannot be loaded: {problems[0]}"
        raise Rejected(
            "GRAPH_RECORDS_INVALID", message, "correct the mistakes that `problems` lists", {"problems": listed}
        )


def _read(lines: Sequence[str], schema: Schema, number: int) -> tuple[list[GraphRecord], list[RecordProblem]]:
    """Return the records of some lines, and what is wrong with them."""
    records: list[GraphRecord] = []
    problems: list[RecordProblem] = []
    for found in parse_records(lines, schema, first_number=number):
        if isinstance(found, tuple):
            problems += found
            if len(problems) >= limits.GRAPH_VIOLATIONS_MAX:
                break
        else:
            records.append(found)
    return records, problems


def _answer(context: Context, made: LoadPublished) -> LoadAnswer:
    nodes = [Loaded(name=name, entities_loaded=count) for name, count in sorted(made.nodes.items())]
    edges = [Loaded(name=name, entities_loaded=count) for name, count in sorted(made.edges.items())]
    return LoadAnswer(
        branch=made.branch,
        base_branch=made.base_branch,
        branch_created=made.branch_created,
        mode=made.mode.value,
        nodes=nodes,
        edges=edges,
        total_entities=sum(item.entities_loaded for item in (*nodes, *edges)),
        commit=None if made.commit is None else commit_view(made.commit),
        actor_id=context.principal.id,
    )


@operation(
    "graph.export",
    route=Route(method="GET", path="/graphs/{graph_id}/export", query=("branch", "snapshot", "limit", "cursor")),
    scopes=("graph:read",),
    reads=True,
    subject="graph_id",
    groups=("graph:export",),
    errors=READ_ERRORS,
    examples=(Example(arguments={"graph_id": "crm", "limit": 1000}),),
)
async def export(context: Context, given: ExportGraph) -> Exported:
    """Export the nodes and edges of a version.

    Returns them page by page, in the form that graph.load takes.
    """
    graph = await opened_graph(context, given.graph_id)
    view = await view_of(graph, given.branch, given.snapshot)
    page = await graph.store.export(view, limit=given.limit, cursor=given.cursor)
    if not isinstance(page, ExportPage):
        refused(given.graph_id, page)
    data = await asyncio.to_thread(lambda: "".join(f"{write_record(record)}\n" for record in page.records))
    return Exported(graph_commit_id=view.commit_id, records=len(page.records), data=data, next_cursor=page.next_cursor)


OPERATIONS: tuple[Capability, ...] = (load, export)
