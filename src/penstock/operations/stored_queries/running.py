"""Running a checked query for a caller: a read of a version, or a mutation of a branch.

A read may name a snapshot, so that several reads see the same version. A mutation is one commit, stored with the record
of the call. Rows are JSON objects without members that are null; whole numbers of 64 bits are texts, because many
programs that read JSON round them.

Above it: `capabilities`, the operations for queries of callers. Below it: the port of graphs, `graph.parameters`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.schemas.misfits import unfit_message
from penstock.graph.parameters.answers import column_descriptions, row_to_json
from penstock.graph.parameters.calls import coerce_parameters
from penstock.graph.typing.model import CheckedQuery, CheckedRead
from penstock.graph.values import GraphValue
from penstock.operations.catalogue.fields import instant
from penstock.operations.gate.context import Context
from penstock.operations.stored_queries.access import OpenedGraph, answered_with, stamp_of
from penstock.operations.stored_queries.permissions import included_call
from penstock.operations.stored_queries.refusals import refused
from penstock.runtime.ports.graphs import MAIN, GraphStore, Mutated, PageWanted, ReadRows, View

__all__ = ["MUTATE", "ChangeAnswer", "QueryCall", "ReadAnswer", "changed", "rows_of", "typed_params", "unfit_arguments"]

MUTATE = "graph.mutate"
"""The operation as which policies decide about every change of data by a query."""


class QueryCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a query, with arguments of the declared types."""

    params: Mapping[str, GraphValue | None]
    branch: str | None = None
    snapshot: str | None = None
    limit: int | None = None
    offset: int = 0
    if_graph_commit: str | None = None


class TargetView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was read: a branch, or a snapshot."""

    branch: str | None = None
    snapshot: str | None = None


class ReadAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that a query found."""

    query_name: str
    target: TargetView
    graph_commit_id: Annotated[
        str, Meta(description="The version that was read; pass it as `snapshot` to read it again.")
    ]
    row_count: int
    columns: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    more: Annotated[bool, Meta(description="Whether there are further rows: ask again with `offset`.")]


class ChangeCommit(msgspec.Struct, frozen=True, kw_only=True):
    """The commit of a change."""

    commit_id: str
    at: str | None


class ChangeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a mutation changed."""

    query_name: str
    branch: str
    affected_nodes: int
    affected_edges: int
    actor_id: str | None
    commit: Annotated[ChangeCommit | None, Meta(description="Null if it matched nothing.")]


def typed_params(query: CheckedQuery, given: JsonObject) -> Mapping[str, GraphValue | None]:
    """Return the parameters of a call with their types; raise `Rejected` with every mistake."""
    coerced = coerce_parameters(query.parameters, given)
    if isinstance(coerced, tuple):
        raise unfit_arguments(
            [{"pointer": f"/params{item.path}", "keyword": "params", "message": str(item)} for item in coerced]
        )
    return coerced


def unfit_arguments(errors: list[JsonValue]) -> Rejected:
    """Return the refusal of arguments with these mistakes."""
    message = unfit_message("the arguments do not fit:", errors)
    return Rejected("INVALID_ARGUMENTS", message, "correct the fields that `errors` lists", {"errors": errors})


async def rows_of(context: Context, store: GraphStore, view: View, query: CheckedQuery, call: QueryCall) -> ReadAnswer:
    """Run a read that was checked against the schema of a view."""
    size = min(call.limit or limits.GRAPH_ROWS_MAX, limits.GRAPH_ROWS_MAX)
    found = await store.read(
        view, query, call.params, at=context.now_ms(), page=PageWanted(first=call.offset, size=size)
    )
    if not isinstance(found, ReadRows):
        refused(view.ref.name, found)
    columns = query.body.columns if isinstance(query.body, CheckedRead) else ()
    rows = [row_to_json(columns, row) for row in found.rows]
    target = TargetView(snapshot=call.snapshot) if call.snapshot is not None else TargetView(branch=view.branch)
    return ReadAnswer(
        query_name=query.name,
        target=target,
        graph_commit_id=view.commit_id,
        row_count=len(rows),
        columns=column_descriptions(columns),
        rows=rows,
        more=found.more,
    )


async def changed(
    context: Context, graph: OpenedGraph, query: CheckedQuery, call: QueryCall, *, decided: bool = False
) -> ChangeAnswer:
    """Run a mutation. It is decided as a change of the graph, unless it was `decided` so already."""
    branch = call.branch or MAIN
    if not decided:
        await included_call(context, MUTATE, {"graph_id": graph.graph_id, "branch": branch})
    context.call.about(None, branch=branch, query=query.name)

    def view(outcome: Mutated) -> ChangeAnswer:
        commit = outcome.commit
        return ChangeAnswer(
            query_name=query.name,
            branch=branch,
            affected_nodes=outcome.affected_nodes,
            affected_edges=outcome.affected_edges,
            actor_id=context.principal.id,
            commit=None if commit is None else ChangeCommit(commit_id=commit.commit_id, at=instant(commit.at)),
        )

    outcome = await graph.store.mutate(
        graph.ref,
        query,
        call.params,
        branch=branch,
        stamp=stamp_of(context, if_graph_commit=call.if_graph_commit, message=query.name),
        call=answered_with(context, view),
    )
    return view(outcome) if isinstance(outcome, Mutated) else refused(graph.graph_id, outcome)
