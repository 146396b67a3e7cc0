"""A stored query as a capability: typed arguments, the rows that it answers with, and what policies know it by.

Every query of a tenant's graphs is one, named `query:GRAPH/NAME`. Exposed ones are listed as tools; the others can be
called by their name. A policy sees a query as a resource inside its graph. A mutation needs the scopes of a change
beside those of a call, and is decided as a change of its branch, too.

Above it: `exposed` adds these to what a tenant exposes. Below it: `checking`, `running`, `graph.parameters`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from penstock.base import limits
from penstock.base.errors import Denied, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.base.scopes import missing_scope
from penstock.definitions.reached import Reached
from penstock.definitions.source.findings import nearest
from penstock.governance.approvals import value_digest
from penstock.governance.authorship import acts_as_agent, agents_behind
from penstock.governance.holds import Approval
from penstock.graph.parameters.answers import output_schema
from penstock.graph.parameters.schemas import parameters_schema
from penstock.graph.parameters.tools import tool_annotations, tool_description
from penstock.graph.typing.model import CheckedQuery
from penstock.graph.values import GraphValue
from penstock.operations.catalogue.capability import QUERY, Annotations, Authorization, Capability, Governance
from penstock.operations.catalogue.exposure import ExposedGraph
from penstock.operations.gate.context import Context, Services
from penstock.operations.permissions.authorship import refuse_proposed
from penstock.operations.permissions.weaker import scopes_of_author
from penstock.operations.stored_queries.access import graph_store, opened_graph, view_at
from penstock.operations.stored_queries.checking import CheckedGraph, checked_at, checked_graph
from penstock.operations.stored_queries.definitions import GRAPHS, GraphDefinition, StoredQuery, definition_of
from penstock.operations.stored_queries.permissions import branch_approvals
from penstock.operations.stored_queries.refusals import READ_ERRORS, WRITE_ERRORS
from penstock.operations.stored_queries.running import (
    ChangeAnswer,
    QueryCall,
    ReadAnswer,
    changed,
    rows_of,
    typed_params,
    unfit_arguments,
)
from penstock.runtime.ports.graphs import MAIN, GraphRow
from penstock.runtime.tables.resources import list_resources

__all__ = ["QUERY_PREFIX", "GraphTools", "graph_tools", "query_capability", "query_capability_name"]

QUERY_PREFIX = "query:"
_BRANCH: JsonObject = {
    "type": "string",
    "minLength": 1,
    "maxLength": limits.GRAPH_BRANCH_NAME_CHARACTERS_MAX,
    "default": MAIN,
}
_OPTIONS: dict[str, JsonObject] = {
    "snapshot": {
        "type": "string",
        "maxLength": 100,
        "description": "A commit: read the graph as it was then, whatever the branch.",
    },
    "limit": {
        "type": "integer",
        "minimum": 1,
        "maximum": limits.GRAPH_ROWS_MAX,
        "description": "How many rows to return at most.",
    },
    "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "How many rows to leave out."},
    "if_graph_commit": {
        "type": "string",
        "maxLength": 100,
        "description": "The commit that you saw; refused if the branch has moved on since.",
    },
}
_READ_ERRORS = (*READ_ERRORS, "QUERY_LIMITED", "QUERY_NOT_SUPPORTED")
_CHANGE_ERRORS = (*WRITE_ERRORS, "QUERY_LIMITED", "QUERY_NOT_SUPPORTED")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphTools:
    """The stored queries of a tenant, by canonical name, and its graphs."""

    listed: Mapping[str, Capability] = field(default_factory=lambda: MappingProxyType({}))
    unlisted: Mapping[str, Capability] = field(default_factory=lambda: MappingProxyType({}))
    graphs: Mapping[str, ExposedGraph] = field(default_factory=lambda: MappingProxyType({}))
    marks: tuple[str, ...] = ()
    """Changes whenever any of it does."""


def query_capability_name(graph_id: str, name: str) -> str:
    """Return the canonical name of a stored query."""
    return f"{QUERY_PREFIX}{graph_id}/{name}"


async def graph_tools(services: Services, tenant: str) -> GraphTools:
    """Return the stored queries of a tenant as they are now. A graph in quarantine has none."""
    store = services.graphs
    if store is None:
        return GraphTools()
    page = await store.graphs(tenant, limit=limits.GRAPHS_PER_TENANT_MAX)
    if not page.rows:
        return GraphTools()
    stored = await list_resources(services.platform, tenant, GRAPHS.kind, limit=limits.GRAPHS_PER_TENANT_MAX)
    definitions = {row.resource_id: row for row in stored.rows}
    listed: dict[str, Capability] = {}
    unlisted: dict[str, Capability] = {}
    graphs: dict[str, ExposedGraph] = {}
    marks: list[str] = []
    for row in page.rows:
        definition, _ = definition_of(definitions.get(row.ref.name))
        if definition.quarantine is not None:
            marks.append(f"{row.ref.name} {definition.quarantine}")
            continue
        checked = checked_graph(services, row, definition)
        marks.append(f"{row.ref.name} {checked.mark}")
        graph = _graph(row, definition, checked)
        graphs[row.ref.name] = graph
        for query in definition.queries:
            found = checked.queries.get(query.name)
            if found is not None:
                alone = len(page.rows) == 1
                made = query_capability(row, query, found, alone=alone, paired=graph.as_pair)
                (listed if query.expose else unlisted)[made.name] = made
    return GraphTools(
        listed=MappingProxyType(listed),
        unlisted=MappingProxyType(unlisted),
        graphs=MappingProxyType(graphs),
        marks=tuple(marks),
    )


def _graph(row: GraphRow, definition: GraphDefinition, checked: CheckedGraph) -> ExposedGraph:
    graph_id = row.ref.name
    shown = [query.name for query in definition.queries if query.expose and query.name in checked.queries]
    return ExposedGraph(
        graph_id=graph_id,
        title=definition.title or graph_id,
        queries=tuple(query_capability_name(graph_id, name) for name in shown),
        as_pair=len(shown) > definition.tools_max,
        allows_adhoc=definition.allow_adhoc,
    )


def query_capability(
    row: GraphRow, query: StoredQuery, checked: CheckedQuery, *, alone: bool = False, paired: bool = False
) -> Capability:
    """Return a stored query as a capability. `alone`: no other graph is there; `paired`: two tools stand for all."""
    graph_id = row.ref.name
    metadata: dict[str, JsonValue] = {
        "graph": graph_id,
        "query": query.name,
        "tool": query.called,
        "alone": alone,
        "paired": paired,
        "hash": value_digest([query.source, repr(checked)]),
    }
    scopes = ("graph:run", "graph:write") if checked.is_mutation else ("graph:run",)
    return Capability(
        name=query_capability_name(graph_id, query.name),
        title=query.called.replace("_", " ").capitalize(),
        description=tool_description(checked),
        make_input_schema=partial(_input_schema, checked),
        make_output_schema=partial(_output_schema, checked),
        annotations=_annotations(checked),
        governance=Governance(
            risk="medium" if checked.is_mutation else "low",
            scopes=scopes,
            authors=agents_behind(query.author),
            bucket="write" if checked.is_mutation else "read",
        ),
        handler=partial(_change, graph_id, query.name) if checked.is_mutation else partial(_read, row, query, checked),
        convert=partial(_converted, checked),
        authorization=partial(_authorization, graph_id, query.name),
        reaches=lambda arguments: (Reached(query_capability_name(graph_id, query.name)),),
        approvals=partial(_approvals, graph_id) if checked.is_mutation else None,
        errors=_CHANGE_ERRORS if checked.is_mutation else _READ_ERRORS,
        policy_groups=("graph:invoke_query",),
        populator=QUERY,
        metadata=MappingProxyType(metadata),
    )


def _annotations(checked: CheckedQuery) -> Annotations:
    hints = tool_annotations(checked)
    reads = hints["readOnlyHint"] is True
    return Annotations(
        read_only=reads,
        destructive=hints.get("destructiveHint") is True,
        idempotent=reads or hints.get("idempotentHint") is True,
    )


def _authorization(graph_id: str, name: str, arguments: JsonObject) -> Authorization:
    return Authorization(action="graph.query_run", resource_kind="stored_query", resource_id=f"{graph_id}/{name}")


def _input_schema(checked: CheckedQuery) -> JsonObject:
    """Return the schema of a call. The parameters are nested, so that they never clash with the other arguments."""
    params = parameters_schema(checked.parameters)
    words = "The branch that is changed." if checked.is_mutation else "The branch that is read."
    names = ("if_graph_commit",) if checked.is_mutation else ("snapshot", "limit", "offset")
    properties: JsonObject = {
        "params": params,
        "branch": {**_BRANCH, "description": words},
        **{name: _OPTIONS[name] for name in names},
    }
    required: list[JsonValue] = ["params"] if params.get("required") else []
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _output_schema(checked: CheckedQuery) -> JsonObject:
    schema = output_schema(checked)
    properties = schema["properties"]
    if checked.is_mutation or not isinstance(properties, dict):
        return schema
    more: JsonObject = {"type": "boolean", "description": "Whether there are further rows: ask again with `offset`."}
    return {**schema, "properties": {**properties, "more": more}}


def _converted(checked: CheckedQuery, arguments: JsonObject) -> QueryCall:
    """Return the call that arguments mean; raise `Rejected` with every mistake."""
    errors: list[JsonValue] = []
    known = {"params", "branch", *(("if_graph_commit",) if checked.is_mutation else ("snapshot", "limit", "offset"))}
    for name in arguments:
        if name not in known:
            meant = nearest(name[:64], known)
            hint = f"; did you mean `{meant}`?" if meant else ""
            if _has_parameter(checked, name):
                hint = "; parameters of the query go into `params`"
            errors.append(
                {"pointer": "", "keyword": "additionalProperties", "message": f"unknown member `{name[:64]}`{hint}"}
            )
    given = arguments.get("params")
    if given is not None and not isinstance(given, dict):
        errors.append({"pointer": "/params", "keyword": "type", "message": "must be an object"})
    params: Mapping[str, GraphValue | None] = {}
    try:
        params = typed_params(checked, given if isinstance(given, dict) else {})
    except Rejected as error:
        found = error.details.get("errors")
        errors += found if isinstance(found, list) else []
    options = {name: arguments[name] for name in known - {"params"} if arguments.get(name) is not None}
    errors += _option_errors(options)
    if errors:
        raise unfit_arguments(errors)
    return QueryCall(params=params, **options)  # type: ignore[arg-type]  # `_option_errors` has checked them


def _has_parameter(checked: CheckedQuery, name: str) -> bool:
    return any(parameter.name == name for parameter in checked.parameters)


def _option_errors(options: Mapping[str, JsonValue]) -> list[JsonValue]:
    errors: list[JsonValue] = []
    for name, value in options.items():
        wants_number = name in ("limit", "offset")
        fits = isinstance(value, int) and not isinstance(value, bool) if wants_number else isinstance(value, str)
        if fits and isinstance(value, int):
            fits = 1 <= value <= limits.GRAPH_ROWS_MAX if name == "limit" else value >= 0
        elif fits and isinstance(value, str):
            fits = 1 <= len(value) <= limits.GRAPH_BRANCH_NAME_CHARACTERS_MAX
        if not fits:
            wanted = "a whole number within its bounds" if wants_number else "a text that is not empty, nor too long"
            errors.append({"pointer": f"/{name}", "keyword": "type", "message": f"must be {wanted}"})
    return errors


async def _approvals(graph_id: str, context: Context, given: QueryCall) -> tuple[Approval, ...]:
    return await branch_approvals(context, graph_id, given.branch or MAIN)


async def _refuse_by_author(context: Context, query: StoredQuery, what: str) -> None:
    """Refuse a query that is only proposed, and one of an agent that lacks a scope which running it needs."""
    services, author = context.services, query.author
    refuse_proposed(services, author, what)
    if author is None or not acts_as_agent(author) or not services.holds.authorship.enforced:
        return
    scopes = await scopes_of_author(services, author, context.tenant)
    if (missing := missing_scope(scopes, context.capability.governance.scopes)) is not None:
        message = f"{author.principal} wrote the {what} and does not have the scope {missing}, which running it needs"
        hint = "ask a person with that scope to store the query as it is"
        raise Denied("SCOPE_REQUIRED", message, hint, {"scope": missing})


async def _read(
    row: GraphRow, query: StoredQuery, checked: CheckedQuery, context: Context, given: QueryCall
) -> ReadAnswer:
    """Read the requested version. A snapshot may have an earlier schema, which the query has to fit as well."""
    services = context.services
    await _refuse_by_author(context, query, f"query {row.ref.name}/{query.name}")
    store = graph_store(services)
    view = await view_at(store, row.ref, given.branch, given.snapshot)
    if view.schema_version != row.schema_version:
        checked = checked_at(services, view, query)
    return await rows_of(context, store, view, checked, given)


async def _change(graph_id: str, name: str, context: Context, given: QueryCall) -> ChangeAnswer:
    """Change the graph by the query as it is stored now."""
    graph = await opened_graph(context, graph_id)
    stored = graph.definition.by_name.get(name)
    if stored is not None:
        await _refuse_by_author(context, stored, f"query {graph_id}/{name}")
    checked = checked_graph(context.services, graph.row, graph.definition)
    query = checked.queries.get(name)
    if query is None:
        broken = checked.broken.get(name)
        raise broken or Rejected(
            "QUERY_INVALID",
            f"the query {name} was deleted by another call",
            "list the queries again with graph.queries_list",
        )
    return await changed(context, graph, query, given)
