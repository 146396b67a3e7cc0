"""Operations on graphs themselves: list, get, create, delete, and check their health.

Above it: the catalogue. Below it: the port of graphs, `stored_queries.definitions`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Conflict, LimitExceeded
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Deleted
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.graphs.views import GraphView, OneGraph, graph_view
from penstock.operations.stored_queries.access import (
    Branch,
    BranchOrMain,
    GraphId,
    OpenedGraph,
    Snapshot,
    answered_with,
    graph_store,
    opened_graph,
    stamp_of,
    view_of,
)
from penstock.operations.stored_queries.checking import checked_graph, schema_from
from penstock.operations.stored_queries.definitions import GRAPHS, GraphDefinition, definition_of
from penstock.operations.stored_queries.refusals import READ_ERRORS, graph_not_found, refused
from penstock.runtime.ports.graphs import MAIN, GraphCreated, GraphDeleted, GraphRef, GraphRow
from penstock.runtime.ports.platform import ANY_ETAG, ResourceChanged
from penstock.runtime.tables.resources import put_resource, read_resource

__all__ = ["OPERATIONS"]

Title = Annotated[str, Meta(description="What people call it.", min_length=1, max_length=200)]
Description = Annotated[str, Meta(description="What is in it, for people and models.", min_length=1, max_length=4_000)]
SchemaText = Annotated[
    str,
    Meta(description="The schema (`.pg`).", min_length=1, max_length=limits.QUERY_SOURCE_CHARACTERS_MAX),
]
_EXAMPLE = "node Person { name: String @key }\nedge Knows: Person -> Person"


class NoArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing."""


class GraphList(msgspec.Struct, frozen=True, kw_only=True):
    """The graphs of the tenant, by id."""

    graphs: list[GraphView]


class CreateGraph(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Its id, its schema, and how it is offered."""

    id: GraphId
    schema: SchemaText
    title: Title | None = None
    description: Description | None = None
    allow_adhoc: Annotated[bool, Meta(description="Whether callers may send queries of their own.")] = False
    protected_branches: Annotated[
        list[Branch], Meta(description="Branches whose changes need approval.", max_length=100)
    ] = []
    tools_max: Annotated[
        int, Meta(description="Above so many exposed queries, two tools take the place of one for each.", ge=0)
    ] = limits.QUERY_TOOLS_MAX


class UpdateGraph(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which graph, and what is said of it from now on. What is left out stays as it is."""

    graph_id: GraphId
    title: Title | None = None
    description: Description | None = None
    allow_adhoc: Annotated[bool, Meta(description="Whether callers may send queries of their own.")] | None = None
    protected_branches: (
        Annotated[list[Branch], Meta(description="Branches whose changes need approval.", max_length=100)] | None
    ) = None
    tools_max: (
        Annotated[
            int, Meta(description="Above so many exposed queries, two tools take the place of one for each.", ge=0)
        ]
        | None
    ) = None


class DeleteGraph(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which graph."""

    graph_id: GraphId


class GraphHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The health of a graph."""

    status: Annotated[str, Meta(description="ok, or broken: then `problems` says why.")]
    schema_version: int
    head_commit_id: str
    queries: int
    problems: list[str]


class SnapshotOf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which version."""

    graph_id: GraphId
    branch: BranchOrMain = MAIN
    snapshot: Snapshot = None


class SnapshotView(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a graph: what to name to read exactly this again."""

    branch: str | None
    graph_commit_id: str
    schema_version: int
    node_types: list[str]
    edge_types: list[str]


@operation(
    "graph.list",
    route=Route(method="GET", path="/graphs"),
    scopes=("graph:read",),
    reads=True,
    groups=("graph:list",),
    errors=("NOT_CONFIGURED",),
    examples=(Example(arguments={}),),
)
async def graph_list(context: Context, given: NoArguments) -> GraphList:
    """List the graphs."""
    store = graph_store(context.services)
    page = await store.graphs(context.tenant, limit=limits.GRAPHS_PER_TENANT_MAX)
    stored = await GRAPHS.page(context, limit=limits.GRAPHS_PER_TENANT_MAX, cursor=None)
    definitions = {row.resource_id: row for row in stored.rows}
    found = []
    for row in page.rows:
        definition, etag = definition_of(definitions.get(row.ref.name))
        found.append(graph_view(row, OpenedGraph(store=store, row=row, definition=definition, etag=etag)))
    return GraphList(graphs=found)


@operation(
    "graph.get",
    route=Route(method="GET", path="/graphs/{graph_id}"),
    scopes=("graph:read",),
    reads=True,
    subject="graph_id",
    groups=("graph:read",),
    errors=("GRAPH_NOT_FOUND", "NOT_CONFIGURED"),
    examples=(Example(arguments={"graph_id": "crm"}),),
)
async def graph_get(context: Context, given: OneGraph) -> GraphView:
    """Get a graph.

    Returns what is in it, and what callers may do with it.
    """
    row, definition, etag = await _found(context, given.graph_id)
    return graph_view(row, OpenedGraph(store=graph_store(context.services), row=row, definition=definition, etag=etag))


async def _found(context: Context, graph_id: str) -> tuple[GraphRow, GraphDefinition, str]:
    """Return a graph, quarantined or not."""
    row = await graph_store(context.services).graph(GraphRef(context.tenant, graph_id))
    if row is None:
        raise graph_not_found(graph_id)
    definition, etag = definition_of(
        await read_resource(context.services.platform, context.tenant, GRAPHS.kind, graph_id)
    )
    return row, definition, etag


@operation(
    "graph.create",
    route=Route(method="POST", path="/graphs", status=201),
    scopes=("graph:admin",),
    risk="medium",
    subject="id",
    groups=("graph:admin",),
    errors=("GRAPH_EXISTS", "GRAPH_SCHEMA_INVALID", "GRAPHS_LIMITED", "NOT_CONFIGURED"),
    examples=(Example(arguments={"id": "crm", "schema": _EXAMPLE, "title": "Customers"}),),
)
async def graph_create(context: Context, given: CreateGraph) -> Reply[GraphView]:
    """Create an empty graph with a schema.

    Load nodes and edges with graph.load, and store queries with graph.queries_put: each query becomes a tool.
    """
    store = graph_store(context.services)
    schema, ref = schema_from(given.schema), GraphRef(context.tenant, given.id)
    page = await store.graphs(context.tenant, limit=limits.GRAPHS_PER_TENANT_MAX)
    if len(page.rows) >= limits.GRAPHS_PER_TENANT_MAX:
        message = f"a tenant has at most {limits.GRAPHS_PER_TENANT_MAX} graphs"
        raise LimitExceeded("GRAPHS_LIMITED", message, "delete one with graph.delete")
    definition = GraphDefinition(
        title=given.title,
        description=given.description,
        allow_adhoc=given.allow_adhoc,
        protected_branches=tuple(given.protected_branches),
        tools_max=given.tools_max,
    )

    def view(outcome: GraphCreated) -> GraphView:
        row = GraphRow(
            ref=ref,
            schema=schema,
            schema_source=given.schema,
            schema_version=1,
            created_at=outcome.commit.at,
            created_by=outcome.commit.actor,
        )
        return graph_view(row, OpenedGraph(store=store, row=row, definition=definition, etag=""))

    outcome = await store.create_graph(
        ref,
        schema=schema,
        source=given.schema,
        stamp=stamp_of(context),
        call=answered_with(context, view, puts=GRAPHS.row(context, given.id, definition.to_json())),
    )
    if not isinstance(outcome, GraphCreated):
        refused(given.id, outcome)
    context.services.definitions_changed(context.tenant)
    return Reply(value=view(outcome), location=f"/graphs/{given.id}")


async def _find(context: Context, given: UpdateGraph | DeleteGraph) -> None:
    await _found(context, given.graph_id)


@operation(
    "graph.update",
    route=Route(method="PATCH", path="/graphs/{graph_id}"),
    scopes=("graph:admin",),
    idempotent=True,
    risk="high",
    subject="graph_id",
    groups=("graph:admin",),
    find=_find,
    errors=("GRAPH_NOT_FOUND", "GRAPH_OF_SETTINGS", "PRECONDITION_FAILED", "NOT_CONFIGURED"),
    examples=(Example(arguments={"graph_id": "crm", "protected_branches": ["main"]}),),
)
async def graph_update(context: Context, given: UpdateGraph) -> GraphView:
    """Change how a graph is offered.

    Changes its title and description, its protected branches, and whether callers may write their own queries.
    """
    row, definition, etag = await _found(context, given.graph_id)
    if definition.of_settings:
        message = f"the settings of the server declare the graph {given.graph_id}"
        raise Conflict("GRAPH_OF_SETTINGS", message, "change `graphs` in the settings")
    said = {name: getattr(given, name) for name in given.__struct_fields__ if name != "graph_id"}
    chosen = {name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}
    changed = msgspec.structs.replace(
        definition, **{name: value for name, value in chosen.items() if value is not None}
    )
    store, services = graph_store(context.services), context.services
    view = graph_view(row, OpenedGraph(store=store, row=row, definition=changed, etag=etag))
    before = await read_resource(services.platform, context.tenant, GRAPHS.kind, given.graph_id)
    outcome = await put_resource(
        services.platform,
        GRAPHS.row(context, given.graph_id, changed.to_json(), was=before),
        expected_etag=ANY_ETAG if before is None else etag,
        call=idempotency.answered(context, Reply(value=view)),
    )
    if isinstance(outcome, ResourceChanged):
        raise Conflict(
            "PRECONDITION_FAILED", f"the graph {given.graph_id} was changed by another call", "send it again"
        )
    services.definitions_changed(context.tenant)
    return view


@operation(
    "graph.delete",
    route=Route(method="DELETE", path="/graphs/{graph_id}"),
    scopes=("graph:admin",),
    destructive=True,
    risk="high",
    subject="graph_id",
    groups=("graph:admin",),
    find=_find,
    errors=("GRAPH_NOT_FOUND", "GRAPH_OF_SETTINGS", "NOT_CONFIGURED"),
)
async def graph_delete(context: Context, given: DeleteGraph) -> Deleted:
    """Delete a graph with all its branches, commits and stored queries."""
    row, definition, _ = await _found(context, given.graph_id)
    if definition.of_settings:
        message = f"the settings of the server declare the graph {given.graph_id}"
        raise Conflict("GRAPH_OF_SETTINGS", message, "remove it from `graphs` in the settings first")
    services, answer = context.services, Deleted(id=given.graph_id)
    offered = (context.tenant, GRAPHS.kind, given.graph_id)
    outcome = await graph_store(services).delete_graph(
        row.ref, call=answered_with(context, lambda _: answer, deletes=offered)
    )
    services.definitions_changed(context.tenant)
    return answer if isinstance(outcome, GraphDeleted) else refused(given.graph_id, outcome)


@operation(
    "graph.health",
    route=Route(method="GET", path="/graphs/{graph_id}/health"),
    scopes=("graph:read",),
    reads=True,
    subject="graph_id",
    groups=("graph:read",),
    errors=READ_ERRORS,
    examples=(Example(arguments={"graph_id": "crm"}),),
)
async def graph_health(context: Context, given: OneGraph) -> GraphHealth:
    """Check a graph.

    Returns its head, and the stored queries that no longer fit its schema.
    """
    graph = await opened_graph(context, given.graph_id)
    view, checked = await view_of(graph, MAIN, None), checked_graph(context.services, graph.row, graph.definition)
    problems = [f"{name}: {error.message}" for name, error in sorted(checked.broken.items())]
    return GraphHealth(
        status="broken" if problems else "ok",
        schema_version=graph.row.schema_version,
        head_commit_id=view.commit_id,
        queries=len(graph.definition.queries),
        problems=problems,
    )


@operation(
    "graph.snapshot",
    route=Route(method="GET", path="/graphs/{graph_id}/snapshot", query=("branch", "snapshot")),
    scopes=("graph:read",),
    reads=True,
    subject="graph_id",
    groups=("graph:read",),
    errors=READ_ERRORS,
    examples=(Example(arguments={"graph_id": "crm", "branch": "main"}),),
)
async def graph_snapshot(context: Context, given: SnapshotOf) -> SnapshotView:
    """Get the present version of a branch.

    Pass `graph_commit_id` as `snapshot` to several reads, so that all of them see the same version.
    """
    graph = await opened_graph(context, given.graph_id)
    view = await view_of(graph, given.branch, given.snapshot)
    return SnapshotView(
        branch=view.branch,
        graph_commit_id=view.commit_id,
        schema_version=view.schema_version,
        node_types=[item.name for item in view.schema.nodes],
        edge_types=[item.name for item in view.schema.edges],
    )


OPERATIONS: tuple[Capability, ...] = (
    graph_list,
    graph_get,
    graph_create,
    graph_update,
    graph_delete,
    graph_health,
    graph_snapshot,
)
