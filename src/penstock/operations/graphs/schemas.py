"""Operations on the schema of a graph: read it, plan a change, apply it.

A change that stored queries do not survive is refused, as is one that the data do not fit. Properties and types that
are dropped stay in older snapshots, unless the call allows data loss.

Above it: the catalogue. Below it: the port of graphs, `stored_queries.checking`.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Conflict
from penstock.base.json import JsonObject, JsonValue
from penstock.governance.holds import Approval
from penstock.graph.schema.model import EdgeType, EntityType, NodeType
from penstock.graph.schema.plan import SchemaPlan
from penstock.graph.schema.types import written_type
from penstock.operations.catalogue.capability import Capability, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context
from penstock.operations.graphs.views import CommitView, OneGraph, commit_view, plan_steps
from penstock.operations.stored_queries.access import (
    GraphId,
    IfGraphCommit,
    answered_with,
    finder,
    opened_graph,
    stamp_of,
    view_of,
)
from penstock.operations.stored_queries.checking import refuse_broken, schema_from
from penstock.operations.stored_queries.permissions import branch_approvals
from penstock.operations.stored_queries.refusals import READ_ERRORS, WRITE_ERRORS, refused, violation_view
from penstock.runtime.ports.graphs import MAIN, SchemaApplied, SchemaRefused

__all__ = ["OPERATIONS"]

_EXAMPLE = "node Person { name: String @key age: I32? }\nedge Knows: Person -> Person"


class PropertyOfType(msgspec.Struct, frozen=True, kw_only=True):
    """A property of a type."""

    name: str
    type: str
    """The type as in a schema, such as `I64?`."""
    key: bool = False
    """Whether it identifies a node, alone or with others."""


class TypeOfGraph(msgspec.Struct, frozen=True, kw_only=True):
    """A type of nodes or edges."""

    name: str
    kind: Annotated[str, Meta(description="node or edge.")]
    properties: list[PropertyOfType]
    description: str | None = None
    source: str | None = None
    """The type of nodes that such an edge comes from."""
    target: str | None = None
    """The type of nodes that it leads to."""
    implements: list[str] = []
    """The interfaces of a type of nodes; their properties are among its own."""


class SchemaOfGraph(msgspec.Struct, frozen=True, kw_only=True):
    """The schema of a graph, as it was written, and its types."""

    schema: str
    schema_version: int
    types: list[TypeOfGraph] = []
    """The types of nodes, then those of edges, in the order of the schema."""


class ApplySchema(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The schema, and what it may cost."""

    graph_id: GraphId
    schema: Annotated[
        str,
        Meta(description="The whole new schema (`.pg`).", min_length=1, max_length=limits.QUERY_SOURCE_CHARACTERS_MAX),
    ]
    dry_run: Annotated[bool, Meta(description="Only show the steps; change nothing.")] = False
    allow_data_loss: Annotated[
        bool, Meta(description="Delete what is dropped from all versions; older snapshots end.")
    ] = False
    if_graph_commit: IfGraphCommit = None


class SchemaOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The steps from the old schema to the new one, and whether they were made."""

    supported: bool
    applied: bool
    step_count: int
    steps: list[dict[str, Any]]
    schema_version: int
    commit: CommitView | None


@operation(
    "graph.schema_get",
    route=Route(method="GET", path="/graphs/{graph_id}/schema"),
    scopes=("graph:read",),
    reads=True,
    subject="graph_id",
    groups=("graph:read",),
    errors=READ_ERRORS,
    examples=(Example(arguments={"graph_id": "crm"}),),
)
async def schema_get(context: Context, given: OneGraph) -> SchemaOfGraph:
    """Get the schema of a graph.

    Returns its types of nodes and edges, with their properties.
    """
    graph = await opened_graph(context, given.graph_id)
    row = graph.row
    types = [*map(_type_view, row.schema.nodes), *map(_type_view, row.schema.edges)]
    return SchemaOfGraph(schema=row.schema_source, schema_version=row.schema_version, types=types)


def _type_view(declared: EntityType) -> TypeOfGraph:
    key = (declared.key or ()) if isinstance(declared, NodeType) else ()
    described = next((item.value for item in declared.annotations if item.name == "description"), None)
    return TypeOfGraph(
        name=declared.name,
        kind="node" if isinstance(declared, NodeType) else "edge",
        properties=[
            PropertyOfType(name=item.name, type=written_type(item.type, nullable=item.nullable), key=item.name in key)
            for item in declared.properties
        ],
        description=described if isinstance(described, str) else None,
        source=declared.source if isinstance(declared, EdgeType) else None,
        target=declared.target if isinstance(declared, EdgeType) else None,
        implements=list(declared.implements) if isinstance(declared, NodeType) else [],
    )


async def _approvals(context: Context, given: ApplySchema) -> tuple[Approval, ...]:
    return () if given.dry_run else await branch_approvals(context, given.graph_id, MAIN)


async def _witness(context: Context, given: ApplySchema) -> JsonValue:
    graph = await opened_graph(context, given.graph_id)
    return {"schema_version": graph.row.schema_version, "head": (await view_of(graph, MAIN, None)).commit_id}


async def _impact(context: Context, given: ApplySchema) -> JsonObject:
    graph = await opened_graph(context, given.graph_id)
    schema = schema_from(given.schema)
    plan = await graph.store.plan_schema(graph.ref, schema, allow_data_loss=given.allow_data_loss)
    if not isinstance(plan, SchemaPlan):
        refused(given.graph_id, plan)
    steps: list[JsonValue] = [*plan_steps(plan)]
    return {"supported": plan.supported, "loses_data": plan.loses_data, "steps": steps}


@operation(
    "graph.schema_apply",
    route=Route(method="POST", path="/graphs/{graph_id}/schema"),
    scopes=("graph:admin",),
    destructive=True,
    idempotent=True,
    risk="high",
    subject="graph_id",
    groups=("graph:schema_apply",),
    witness=_witness,
    impact=_impact,
    approvals=_approvals,
    find=finder(),
    errors=(*WRITE_ERRORS, "GRAPH_SCHEMA_INVALID", "GRAPH_SCHEMA_REFUSED", "QUERY_INVALID", "GRAPH_OF_SETTINGS"),
    examples=(Example(arguments={"graph_id": "crm", "schema": _EXAMPLE, "dry_run": True}),),
)
async def schema_apply(context: Context, given: ApplySchema) -> SchemaOutcome:
    """Change the schema of a graph, or show the steps (`dry_run`).

    Refused if a stored query would not fit the schema, if the data break a new constraint, or if a step is not
    supported. Dropped data can still be read in older snapshots, unless `allow_data_loss` is set.
    """
    graph = await opened_graph(context, given.graph_id)
    if graph.definition.of_settings and not given.dry_run and not context.request.from_inside:
        message = f"the settings of the server name the file with the schema of {given.graph_id}"
        raise Conflict("GRAPH_OF_SETTINGS", message, "change that file; the server reloads it")
    schema = schema_from(given.schema)
    plan = await graph.store.plan_schema(graph.ref, schema, allow_data_loss=given.allow_data_loss)
    if not isinstance(plan, SchemaPlan):
        refused(given.graph_id, plan)
    if given.dry_run:
        return _outcome(plan, applied=False, version=graph.row.schema_version, commit=None)
    refuse_broken(graph.store, schema, graph.definition.queries)

    def view(outcome: SchemaApplied) -> SchemaOutcome:
        commit = None if outcome.commit is None else commit_view(outcome.commit)
        return _outcome(outcome.plan, applied=commit is not None, version=outcome.schema_version, commit=commit)

    outcome = await graph.store.apply_schema(
        graph.ref,
        schema,
        source=given.schema,
        allow_data_loss=given.allow_data_loss,
        stamp=stamp_of(context, if_graph_commit=given.if_graph_commit),
        call=answered_with(context, view),
    )
    if isinstance(outcome, SchemaRefused):
        raise _not_applied(outcome)
    if not isinstance(outcome, SchemaApplied):
        refused(given.graph_id, outcome)
    context.services.definitions_changed(context.tenant)
    return view(outcome)


def _outcome(plan: SchemaPlan, *, applied: bool, version: int, commit: CommitView | None) -> SchemaOutcome:
    return SchemaOutcome(
        supported=plan.supported,
        applied=applied,
        step_count=len(plan.steps),
        steps=plan_steps(plan),
        schema_version=version,
        commit=commit,
    )


def _not_applied(outcome: SchemaRefused) -> Conflict:
    listed: list[JsonValue] = [violation_view(item) for item in outcome.violations]
    steps: list[JsonValue] = [*plan_steps(outcome.plan)]
    why = outcome.violations[0].message if outcome.violations else "a step is not supported"
    message = f"the schema was not applied: {why}"
    return Conflict(
        "GRAPH_SCHEMA_REFUSED",
        message,
        "look at `steps` and `violations`, and change the schema in smaller steps",
        {"steps": steps, "violations": listed},
    )


OPERATIONS: tuple[Capability, ...] = (schema_get, schema_apply)
