"""Queries and mutations that callers send themselves. Only graphs that allow it take them.

A model that writes queries can read whatever the graph holds, so this is off unless somebody has decided otherwise for
a graph. Policies then decide about reads and changes as such.

Above it: the catalogue. Below it: `stored_queries`.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Denied, Rejected
from penstock.governance.holds import Approval
from penstock.graph.typing.model import CheckedQuery
from penstock.operations.catalogue.capability import Capability, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.reaching import named
from penstock.operations.gate.context import Context
from penstock.operations.stored_queries.access import (
    BranchOrMain,
    GraphId,
    IfGraphCommit,
    OpenedGraph,
    Snapshot,
    finder,
    opened_graph,
    view_of,
)
from penstock.operations.stored_queries.checking import checked_source
from penstock.operations.stored_queries.permissions import branch_approvals
from penstock.operations.stored_queries.refusals import READ_ERRORS, WRITE_ERRORS
from penstock.operations.stored_queries.running import (
    MUTATE,
    ChangeAnswer,
    QueryCall,
    ReadAnswer,
    changed,
    rows_of,
    typed_params,
)
from penstock.runtime.ports.graphs import MAIN

__all__ = ["OPERATIONS"]

Source = Annotated[
    str,
    Meta(description="The declaration (`.gq`).", min_length=1, max_length=limits.QUERY_SOURCE_CHARACTERS_MAX),
]
Name = Annotated[str, Meta(description="Which of several declarations.", max_length=100)] | None
Params = Annotated[dict[str, Any], Meta(description="Values of its parameters.")]
_ERRORS = ("ADHOC_NOT_ALLOWED", "QUERY_INVALID", "QUERY_NOT_SUPPORTED", "QUERY_LIMITED")


class AdhocQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The query, its parameters, and what it reads."""

    graph_id: GraphId
    query: Source
    name: Name = None
    params: Params = {}
    branch: BranchOrMain = MAIN
    snapshot: Snapshot = None
    limit: Annotated[int, Meta(description="How many rows to return at most.", ge=1, le=limits.GRAPH_ROWS_MAX)] = (
        limits.GRAPH_ROWS_MAX
    )
    offset: Annotated[int, Meta(description="How many rows to leave out.", ge=0)] = 0


class AdhocMutation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The mutation, its parameters, and what it changes."""

    graph_id: GraphId
    query: Source
    name: Name = None
    params: Params = {}
    branch: BranchOrMain = MAIN
    if_graph_commit: IfGraphCommit = None


def _checked(graph: OpenedGraph, given: AdhocQuery | AdhocMutation, schema: Any) -> CheckedQuery:
    """Return the query that a caller sent, if the graph takes queries of callers."""
    if not graph.definition.allow_adhoc:
        message = f"the graph {graph.graph_id} runs stored queries only"
        raise Denied("ADHOC_NOT_ALLOWED", message, "list the stored queries with graph.queries_list")
    return checked_source(graph.store, schema, given.query, given.name)


def _refuse_kind(query: CheckedQuery, *, mutation: bool) -> None:
    if query.is_mutation != mutation:
        wanted = "changes the graph: send it to graph.mutate" if query.is_mutation else "only reads: use graph.query"
        raise Rejected("QUERY_INVALID", f"the query {query.name} {wanted}")


@operation(
    "graph.query",
    route=Route(method="POST", path="/graphs/{graph_id}/query"),
    scopes=("graph:read",),
    reads=True,
    subject="graph_id",
    groups=("graph:read",),
    errors=(*READ_ERRORS, *_ERRORS),
    examples=(
        Example(
            arguments={
                "graph_id": "crm",
                "query": "query names() { match { $p: Person } return { $p.name } limit 10 }",
            }
        ),
    ),
)
async def query(context: Context, given: AdhocQuery) -> ReadAnswer:
    """Run a query that you write yourself.

    Works only if the graph allows it; otherwise run a stored query with graph.query_run. The answer names the version
    that was read: pass it as `snapshot` to read the same version again.
    """
    graph = await opened_graph(context, given.graph_id)
    view = await view_of(graph, given.branch, given.snapshot)
    checked = _checked(graph, given, view.schema)
    _refuse_kind(checked, mutation=False)
    call = QueryCall(
        params=typed_params(checked, given.params), snapshot=given.snapshot, limit=given.limit, offset=given.offset
    )
    return await rows_of(context, graph.store, view, checked, call)


async def _approvals(context: Context, given: AdhocMutation) -> tuple[Approval, ...]:
    return await branch_approvals(context, given.graph_id, given.branch)


@operation(
    MUTATE,
    route=Route(method="POST", path="/graphs/{graph_id}/mutate"),
    scopes=("graph:write",),
    destructive=True,
    risk="medium",
    subject="graph_id",
    groups=("graph:change",),
    approvals=_approvals,
    find=finder("branch"),
    reaches=named("graph:", "graph_id"),
    errors=(*WRITE_ERRORS, *_ERRORS),
    examples=(
        Example(
            arguments={
                "graph_id": "crm",
                "query": "query add($name: String) { insert Person { name: $name } }",
                "params": {"name": "Ada"},
                "branch": "review/ada",
            }
        ),
    ),
)
async def mutate(context: Context, given: AdhocMutation) -> ChangeAnswer:
    """Run a mutation that you write yourself.

    Works only if the graph allows it; otherwise run a stored query with graph.query_run. The change is one commit on
    the branch, or nothing. With `if_graph_commit`, it is refused if the branch has moved on.
    """
    graph = await opened_graph(context, given.graph_id)
    checked = _checked(graph, given, graph.row.schema)
    _refuse_kind(checked, mutation=True)
    call = QueryCall(
        params=typed_params(checked, given.params), branch=given.branch, if_graph_commit=given.if_graph_commit
    )
    return await changed(context, graph, checked, call, decided=True)


OPERATIONS: tuple[Capability, ...] = (query, mutate)
