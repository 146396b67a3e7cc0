"""Graphs that the settings of the server declare: brought into force by the process itself, with a record.

Everything is checked first: the schema, the queries, and the policies of the graph. The schema is applied if it
differs, then the policies and the queries are replaced, all of them or none. A graph whose files have
mistakes can be quarantined: it is there, and every call on it says why it cannot be used.

Above it: `app.files.graphs`. Below it: the port of graphs, `stored_queries`.
"""

from __future__ import annotations

import msgspec

from penstock.base.errors import Conflict
from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context
from penstock.operations.stored_queries.access import graph_store, stamp_of
from penstock.operations.stored_queries.checking import refuse_broken, schema_from
from penstock.operations.stored_queries.definitions import (
    GRAPHS,
    GraphDefinition,
    StoredQuery,
    definition_of,
    stored_definition,
)
from penstock.operations.stored_queries.policies import PolicyFile, graph_policies, put_in_force
from penstock.operations.stored_queries.refusals import refused
from penstock.runtime.ports.graphs import GraphCall, GraphCreated, GraphRef, GraphRow, SchemaApplied, SchemaRefused
from penstock.runtime.ports.platform import ANY_ETAG, ResourceRow
from penstock.runtime.tables.resources import put_resource, put_resources, read_resource

__all__ = ["CONFIGURE", "GUARD", "OPERATIONS", "QUARANTINE", "RELEASE"]

CONFIGURE = "graph.configure"
"""The internal operation that brings a declared graph into force."""
GUARD = "graph.guard"
"""The internal operation that brings only the policies of a declared graph into force, for a command on a file."""
QUARANTINE = "graph.quarantine"
"""The internal operation that takes a declared graph out of use."""
RELEASE = "graph.release"
"""The internal operation that leaves graphs to their tenant that are not declared any more."""


class DeclaredGraph(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A graph as the settings declare it, with the contents of its files."""

    graph_id: str
    schema: str
    queries: list[StoredQuery] = []
    title: str | None = None
    description: str | None = None
    allow_adhoc: bool = False
    protected_branches: list[str] = []
    tools_max: int = 0
    policies: list[PolicyFile] = []
    beside_server: bool = False
    """Whether the server has policies of its own, which may not be in force yet when it starts."""


class GuardedGraph(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A graph, and the policies that the settings declare for it."""

    graph_id: str
    policies: list[PolicyFile] = []
    beside_server: bool = False


class QuarantinedGraph(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which graph, and why."""

    graph_id: str
    reason: str


class ReleasedGraphs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The graphs that are still declared."""

    declared: list[str]


class Configured(msgspec.Struct, frozen=True, kw_only=True):
    """What was done."""

    graph_id: str
    created: bool = False
    schema_changed: bool = False
    queries: int = 0
    policies: int = 0


class Released(msgspec.Struct, frozen=True, kw_only=True):
    """How many graphs were left to their tenant."""

    count: int


@operation(CONFIGURE, route=None, scopes=("graph:admin",), risk="high", subject="graph_id")
async def configure(context: Context, given: DeclaredGraph) -> Configured:
    """Bring a graph that the settings declare into force."""
    store, ref = graph_store(context.services), GraphRef(context.tenant, given.graph_id)
    schema, queries = schema_from(given.schema), tuple(sorted(given.queries, key=lambda item: item.name))
    refuse_broken(store, schema, queries)
    definition = GraphDefinition(
        title=given.title,
        description=given.description,
        allow_adhoc=given.allow_adhoc,
        protected_branches=tuple(given.protected_branches),
        tools_max=given.tools_max,
        queries=queries,
        of_settings=True,
    )
    row = await store.graph(ref)
    wanted = GraphRow(
        ref=ref,
        schema=schema,
        schema_source=given.schema,
        schema_version=0 if row is None else row.schema_version,
        created_at=context.now_ms(),
        created_by=context.principal.id,
    )
    policies = graph_policies(context.services, wanted, definition, given.policies, beside_server=given.beside_server)
    before = await read_resource(context.services.platform, context.tenant, GRAPHS.kind, given.graph_id)
    # With a new schema, the queries that fit it are stored in the same transaction.
    call = GraphCall(context.call, puts=GRAPHS.row(context, given.graph_id, definition.to_json(), was=before))
    schema_changed = row is not None and row.schema_source != given.schema
    if row is None:
        created = await store.create_graph(ref, schema=schema, source=given.schema, stamp=stamp_of(context), call=call)
        if not isinstance(created, GraphCreated):
            refused(given.graph_id, created)
    elif schema_changed:
        applied = await store.apply_schema(ref, schema, source=given.schema, stamp=stamp_of(context), call=call)
        if isinstance(applied, SchemaRefused):
            why = applied.violations[0].message if applied.violations else "a step is not supported"
            message = f"the changed schema of {given.graph_id} cannot be applied: {why}"
            raise Conflict("GRAPH_SCHEMA_REFUSED", message, "change it in steps that the data allow")
        if not isinstance(applied, SchemaApplied):
            refused(given.graph_id, applied)
    put_in_force(context.services, wanted, policies)
    changed = await _stored(context, given.graph_id, definition)
    if row is None or schema_changed or changed:
        context.services.definitions_changed(context.tenant)
    return Configured(
        graph_id=given.graph_id,
        created=row is None,
        schema_changed=schema_changed,
        queries=len(queries),
        policies=len(policies),
    )


async def _stored(context: Context, graph_id: str, definition: GraphDefinition) -> bool:
    """Store how a graph is offered, if that differs; return whether it did."""
    platform = context.services.platform
    before = await read_resource(platform, context.tenant, GRAPHS.kind, graph_id)
    if before is not None and definition_of(before)[0] == definition:
        return False
    row = GRAPHS.row(context, graph_id, definition.to_json(), was=before)
    await put_resource(platform, row, expected_etag=ANY_ETAG, call=context.call)
    return True


@operation(
    GUARD,
    route=None,
    scopes=("graph:admin",),
    idempotent=True,
    risk="high",
    subject="graph_id",
    errors=("POLICY_INVALID",),
)
async def guard(context: Context, given: GuardedGraph) -> Configured:
    """Bring the policies of a declared graph into force, and leave the graph as it is stored."""
    row = await graph_store(context.services).graph(GraphRef(context.tenant, given.graph_id))
    if row is None:
        return Configured(graph_id=given.graph_id)  # no process brought it into force yet: there is nothing to guard
    definition, _ = await stored_definition(context.services, context.tenant, given.graph_id)
    if definition.quarantine is not None:
        return Configured(graph_id=given.graph_id)  # every call on it is refused
    policies = graph_policies(context.services, row, definition, given.policies, beside_server=given.beside_server)
    put_in_force(context.services, row, policies)
    return Configured(graph_id=given.graph_id, queries=len(definition.queries), policies=len(policies))


@operation(QUARANTINE, route=None, scopes=("graph:admin",), risk="high", subject="graph_id")
async def quarantine(context: Context, given: QuarantinedGraph) -> Configured:
    """Take a graph out of use whose files have mistakes. Its data and its former queries stay."""
    platform = context.services.platform
    definition, _ = definition_of(await read_resource(platform, context.tenant, GRAPHS.kind, given.graph_id))
    held = msgspec.structs.replace(definition, quarantine=given.reason, of_settings=True)
    if await _stored(context, given.graph_id, held):
        context.services.definitions_changed(context.tenant)
    return Configured(graph_id=given.graph_id, queries=len(held.queries))


@operation(RELEASE, route=None, scopes=("graph:admin",), risk="medium")
async def release(context: Context, given: ReleasedGraphs) -> Released:
    """Leave graphs to their tenant that the settings do not declare any more."""
    page = await GRAPHS.page(context, limit=100, cursor=None)
    left: list[ResourceRow] = []
    for row in page.rows:
        definition, _ = definition_of(row)
        if definition.of_settings and row.resource_id not in given.declared:
            released = msgspec.structs.replace(definition, of_settings=False, quarantine=None)
            left.append(GRAPHS.row(context, row.resource_id, released.to_json(), was=row))
    if left:
        await put_resources(context.services.platform, left, call=context.call)
        context.services.definitions_changed(context.tenant)
    return Released(count=len(left))


OPERATIONS: tuple[Capability, ...] = (configure, guard, quarantine, release)
