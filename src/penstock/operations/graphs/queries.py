"""Operations on the stored queries of a graph: put, get, list, delete, check, explain, run.

A stored query is a tool from the moment that it is stored. `graph.query_run` calls it by its name, exposed or not; the
gate makes the call of the query itself in its place, so that policies, limits and records are those of the query.

Above it: the catalogue. Below it: `stored_queries`.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Conflict, NotFound, PenstockError, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.base.scopes import missing_scope
from penstock.graph.parameters.schemas import parameters_schema
from penstock.graph.typing.model import CheckedQuery
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Deleted
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.gate.policy_stage import Standpoint
from penstock.operations.permissions.authorship import author_of
from penstock.operations.runs.proposals import AuthorView, ProposalView, author_view, proposals_of
from penstock.operations.stored_queries.access import (
    BranchOrMain,
    GraphId,
    OpenedGraph,
    Snapshot,
    finder,
    opened_graph,
    view_of,
)
from penstock.operations.stored_queries.capabilities import GraphTools, graph_tools, query_capability_name
from penstock.operations.stored_queries.checking import (
    checked_graph,
    checked_source,
    declared_in,
    name_problems,
    schema_from,
)
from penstock.operations.stored_queries.definitions import GRAPHS, GraphDefinition, StoredQuery
from penstock.operations.stored_queries.refusals import READ_ERRORS, refused
from penstock.operations.stored_queries.running import ChangeAnswer, ReadAnswer, typed_params
from penstock.runtime.ports.graphs import MAIN, Explanation
from penstock.runtime.ports.platform import ANY_ETAG, ResourceChanged
from penstock.runtime.tables.resources import put_resource, read_resource

__all__ = ["OPERATIONS"]

_PATH = "/graphs/{graph_id}/queries/{name}"
QueryName = Annotated[
    str,
    Meta(
        description="The query.",
        pattern=rf"^[A-Za-z_][A-Za-z0-9_]{{0,{limits.QUERY_NAME_CHARACTERS_MAX - 1}}}$",
        examples=["find_person"],
    ),
]
Source = Annotated[
    str,
    Meta(description="The declaration (`.gq`).", min_length=1, max_length=limits.QUERY_SOURCE_CHARACTERS_MAX),
]
_EXAMPLE = (
    "query find_person($name: String)\n"
    '  @description("A person by name.")\n'
    "{ match { $p: Person { name: $name } } return { $p.name } }"
)


class PutQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The query, and how it is offered."""

    graph_id: GraphId
    name: QueryName
    source: Source
    expose: (
        Annotated[bool, Meta(description="Whether it is in lists of tools; as it says itself unless set.")] | None
    ) = None
    tool_name: (
        Annotated[str, Meta(description="Its name as a tool, if not its own.", pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None
    ) = None


class OneQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which query."""

    graph_id: GraphId
    name: QueryName


class ParameterView(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter of a query."""

    name: str
    schema: dict[str, Any]
    nullable: bool
    description: str | None


class QueryView(msgspec.Struct, frozen=True, kw_only=True):
    """A stored query."""

    name: str
    tool_name: str
    description: str | None
    instruction: str | None
    mutation: bool
    exposed: bool
    params: list[ParameterView]
    source: str | None = None
    problem: str | None = None
    """Why it cannot be run now; null if it can."""
    author: AuthorView | None = None
    """Who wrote it, and whether it takes effect."""


class ListQueries(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which queries."""

    graph_id: GraphId
    filter: (
        Annotated[str, Meta(description="Only queries whose name or description has this.", max_length=200)] | None
    ) = None


class QueryList(msgspec.Struct, frozen=True, kw_only=True):
    """The queries that the caller may run."""

    queries: list[QueryView]
    proposals: list[ProposalView] = []
    """Held calls that would store one."""


class ValidateQueries(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The text to check, against the schema of the graph or against another one."""

    graph_id: GraphId
    source: Source
    schema: Annotated[str, Meta(description="Another schema (`.pg`) to check it against.")] | None = None


class QueryCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What a check found."""

    valid: bool
    queries: list[QueryView]
    problems: list[dict[str, Any]]


class ExplainQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which query, with which parameters."""

    graph_id: GraphId
    name: QueryName
    params: Annotated[dict[str, Any], Meta(description="Values of its parameters.")] = {}
    branch: BranchOrMain = MAIN
    snapshot: Snapshot = None
    run: Annotated[bool, Meta(description="Run it, and measure.")] = False


class QueryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How a query is run."""

    statement: str
    steps: list[dict[str, Any]]
    estimated_cost: str
    rows: int | None
    milliseconds: float | None


class RunQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which query, with which parameters, on which version."""

    graph_id: GraphId
    name: QueryName
    params: Annotated[dict[str, Any], Meta(description="Values of its parameters.")] = {}
    branch: BranchOrMain = MAIN
    snapshot: Snapshot = None
    limit: Annotated[int, Meta(description="How many rows at most.", ge=1, le=limits.GRAPH_ROWS_MAX)] | None = None
    offset: Annotated[int, Meta(description="How many rows to leave out.", ge=0)] | None = None
    if_graph_commit: (
        Annotated[str, Meta(description="For a mutation: the commit that you saw.", max_length=100)] | None
    ) = None


def query_view(
    query: StoredQuery,
    checked: CheckedQuery | None,
    *,
    problem: str | None,
    whole: bool,
    author: AuthorView | None = None,
) -> QueryView:
    """Return a stored query as callers see it; with its source, if the `whole` is wanted."""
    schema = {} if checked is None else parameters_schema(checked.parameters)
    members = schema.get("properties")
    properties = members if isinstance(members, dict) else {}
    return QueryView(
        name=query.name,
        tool_name=query.called,
        description=None if checked is None else checked.description,
        instruction=None if checked is None else checked.instruction,
        mutation=checked is not None and checked.is_mutation,
        exposed=query.expose,
        params=[
            ParameterView(
                name=item.name,
                schema=member if isinstance(member := properties.get(item.name), dict) else {},
                nullable=item.nullable,
                description=item.description,
            )
            for item in (() if checked is None else checked.parameters)
        ],
        source=query.source if whole else None,
        problem=problem,
        author=author,
    )


def _found(graph: OpenedGraph, name: str) -> StoredQuery:
    query = graph.definition.by_name.get(name)
    if query is None:
        message = f"the graph {graph.graph_id} has no stored query {name}"
        raise NotFound("QUERY_NOT_FOUND", message, "list them with graph.queries_list")
    return query


@operation(
    "graph.queries_list",
    route=Route(method="GET", path="/graphs/{graph_id}/queries", query=("filter",)),
    scopes=("graph:run",),
    reads=True,
    subject="graph_id",
    groups=("graph:invoke_query",),
    errors=READ_ERRORS,
    examples=(Example(arguments={"graph_id": "crm"}),),
)
async def queries_list(context: Context, given: ListQueries) -> QueryList:
    """List the stored queries of a graph that you may run.

    Returns them with their parameters. Run one with graph.query_run, or with its own tool.
    """
    graph = await opened_graph(context, given.graph_id)
    tools = await graph_tools(context.services, context.tenant)
    allowed = await _allowed(context, tools, given.graph_id)
    checked = checked_graph(context.services, graph.row, graph.definition)
    found = [
        query_view(
            query,
            checked.queries[query.name],
            problem=None,
            whole=False,
            author=author_view(context.services, query.author),
        )
        for query in graph.definition.queries
        if query.expose and query_capability_name(given.graph_id, query.name) in allowed
    ]
    wanted = (given.filter or "").lower()
    return QueryList(
        queries=[item for item in found if wanted in f"{item.name} {item.description or ''}".lower()],
        proposals=[item for item in await proposals_of(context, "query") if item.name == given.graph_id],
    )


async def _allowed(context: Context, tools: GraphTools, graph_id: str) -> frozenset[str]:
    """Return the queries of a graph that the caller may run with some arguments."""
    services, principal = context.services, context.principal
    candidates = [tools.listed[name] for name in tools.graphs[graph_id].queries] if graph_id in tools.graphs else []
    within = [item for item in candidates if missing_scope(principal.scopes, item.governance.scopes) is None]
    stage = services.policies
    policies = None if stage is None or context.request.from_inside else await stage.of(context.tenant)
    if stage is None or policies is None:
        return frozenset(item.name for item in within)
    standpoint = Standpoint(surface=context.request.surface, remote=context.request.remote)
    return stage.visible(policies, principal, within, standpoint)


@operation(
    "graph.queries_get",
    route=Route(method="GET", path=_PATH),
    scopes=("graph:read",),
    reads=True,
    subject="graph_id",
    groups=("graph:read",),
    errors=(*READ_ERRORS, "QUERY_NOT_FOUND"),
    examples=(Example(arguments={"graph_id": "crm", "name": "find_person"}),),
)
async def queries_get(context: Context, given: OneQuery) -> QueryView:
    """Get a stored query with its source."""
    graph = await opened_graph(context, given.graph_id)
    query = _found(graph, given.name)
    checked = checked_graph(context.services, graph.row, graph.definition)
    broken = checked.broken.get(query.name)
    problem = None if broken is None else broken.message
    author = author_view(context.services, query.author)
    return query_view(query, checked.queries.get(query.name), problem=problem, whole=True, author=author)


@operation(
    "graph.queries_put",
    route=Route(method="PUT", path=_PATH),
    scopes=("graph:admin",),
    idempotent=True,
    risk="medium",
    stores="query",
    subject="graph_id",
    groups=("graph:admin",),
    find=finder(),
    errors=(*READ_ERRORS, "QUERY_INVALID", "QUERY_NOT_SUPPORTED", "GRAPH_OF_SETTINGS", "PRECONDITION_FAILED"),
    examples=(Example(arguments={"graph_id": "crm", "name": "find_person", "source": _EXAMPLE}),),
)
async def queries_put(context: Context, given: PutQuery) -> QueryView:
    """Store a query, or replace it.

    The query is checked against the schema of the graph, and becomes a tool. Its name is that of the declaration. A
    query that is not exposed is not listed as a tool, but can be run by name.
    """
    graph = await opened_graph(context, given.graph_id)
    _refuse_settings(graph)
    checked = checked_source(graph.store, graph.row.schema, given.source, given.name)
    query = StoredQuery(
        name=given.name,
        source=given.source,
        expose=checked.expose if given.expose is None else given.expose,
        tool_name=given.tool_name or checked.tool_name,
        author=author_of(context),
    )
    changed = graph.definition.with_query(query)
    problems = name_problems(changed.queries)
    if len(changed.queries) > limits.STORED_QUERIES_PER_GRAPH_MAX:
        problems.append(f"a graph has at most {limits.STORED_QUERIES_PER_GRAPH_MAX} stored queries")
    if problems:
        listed: list[JsonValue] = [*problems]
        raise Rejected("QUERY_INVALID", problems[0], "choose another name", {"problems": listed})
    answer = query_view(query, checked, problem=None, whole=True, author=author_view(context.services, query.author))
    context.call.about(None, query=given.name)
    await _stored(context, graph, changed, Reply(value=answer))
    return answer


async def _find_query(context: Context, given: OneQuery | RunQuery) -> None:
    _found(await opened_graph(context, given.graph_id), given.name)


@operation(
    "graph.queries_delete",
    route=Route(method="DELETE", path=_PATH),
    scopes=("graph:admin",),
    destructive=True,
    risk="medium",
    subject="graph_id",
    groups=("graph:admin",),
    find=_find_query,
    errors=(*READ_ERRORS, "QUERY_NOT_FOUND", "GRAPH_OF_SETTINGS", "PRECONDITION_FAILED"),
)
async def queries_delete(context: Context, given: OneQuery) -> Deleted:
    """Delete a stored query.

    Its tool disappears with it.
    """
    graph = await opened_graph(context, given.graph_id)
    _refuse_settings(graph)
    query = _found(graph, given.name)
    answer = Deleted(id=query.name)
    context.call.about(None, query=given.name)
    await _stored(context, graph, graph.definition.without_query(query.name), Reply(value=answer))
    return answer


def _refuse_settings(graph: OpenedGraph) -> None:
    if graph.definition.of_settings:
        message = f"the settings of the server name the files with the queries of {graph.graph_id}"
        raise Conflict("GRAPH_OF_SETTINGS", message, "change those files; the server reloads them")


async def _stored(context: Context, graph: OpenedGraph, definition: GraphDefinition, reply: Reply[Any]) -> None:
    """Store how a graph is offered in place of what was read; refuse if somebody else was faster."""
    platform = context.services.platform
    before = await read_resource(platform, context.tenant, GRAPHS.kind, graph.graph_id)
    row = GRAPHS.row(context, graph.graph_id, definition.to_json(), was=before)
    outcome = await put_resource(
        platform,
        row,
        expected_etag=ANY_ETAG if before is None else graph.etag,
        call=idempotency.answered(context, reply),
    )
    if isinstance(outcome, ResourceChanged):
        message = f"the queries of {graph.graph_id} were changed in between"
        raise Conflict("PRECONDITION_FAILED", message, "send it again")
    context.services.definitions_changed(context.tenant)


@operation(
    "graph.queries_validate",
    route=Route(method="POST", path="/graphs/{graph_id}/queries/validate"),
    scopes=("graph:read",),
    reads=True,
    subject="graph_id",
    groups=("graph:read",),
    errors=(*READ_ERRORS, "GRAPH_SCHEMA_INVALID"),
    examples=(Example(arguments={"graph_id": "crm", "source": _EXAMPLE}),),
)
async def queries_validate(context: Context, given: ValidateQueries) -> QueryCheck:
    """Check queries against the schema of a graph.

    Nothing is stored.
    """
    graph = await opened_graph(context, given.graph_id)
    schema = graph.row.schema if given.schema is None else schema_from(given.schema)
    problems: list[dict[str, Any]] = []
    found: list[QueryView] = []
    try:
        declared = declared_in(given.source)
    except Rejected as error:
        return QueryCheck(valid=False, queries=[], problems=[{"message": error.message, **error.details}])
    for query in declared.values():
        try:
            checked = checked_source(graph.store, schema, query.source, query.name)
        except Rejected as error:
            problems.append({"query": query.name, "message": error.message, **error.details})
            continue
        found.append(query_view(query, checked, problem=None, whole=False))
    return QueryCheck(valid=not problems, queries=found, problems=problems)


@operation(
    "graph.queries_explain",
    route=Route(method="POST", path="/graphs/{graph_id}/queries/{name}/explain"),
    scopes=("graph:read",),
    reads=True,
    subject="graph_id",
    groups=("graph:read",),
    errors=(*READ_ERRORS, "QUERY_NOT_FOUND", "QUERY_INVALID", "QUERY_LIMITED", "QUERY_NOT_SUPPORTED"),
    examples=(Example(arguments={"graph_id": "crm", "name": "find_person", "params": {"name": "Ada"}}),),
)
async def queries_explain(context: Context, given: ExplainQuery) -> QueryPlan:
    """Explain how a stored query runs.

    Says what it looks up by an index, and what it reads completely.
    """
    graph = await opened_graph(context, given.graph_id)
    query = _found(graph, given.name)
    view = await view_of(graph, given.branch, given.snapshot)
    checked = checked_source(graph.store, view.schema, query.source, query.name)
    params = typed_params(checked, given.params)
    found = await graph.store.explain(view, checked, params, at=context.now_ms(), run=given.run)
    if not isinstance(found, Explanation):
        refused(given.graph_id, found)
    return QueryPlan(
        statement=found.statement,
        steps=[msgspec.to_builtins(step) for step in found.steps],
        estimated_cost=found.estimated_cost,
        rows=found.rows,
        milliseconds=found.milliseconds,
    )


def _in_its_place(arguments: JsonObject) -> tuple[str, JsonObject, PenstockError] | None:
    """Return the call of the query that arguments name, and the error if there is no such query."""
    graph_id, name = arguments.get("graph_id"), arguments.get("name")
    if not isinstance(graph_id, str) or not isinstance(name, str):
        return None
    others = {key: value for key, value in arguments.items() if key not in ("graph_id", "name")}
    return query_capability_name(graph_id, name), others, _unknown(graph_id, name)


def _unknown(graph_id: str, name: str) -> NotFound:
    message = f"there is no stored query {graph_id[:100]}/{name[:100]}"
    return NotFound("QUERY_NOT_FOUND", message, "list them with graph.queries_list")


def _subject(arguments: JsonObject) -> str | None:
    graph_id, name = arguments.get("graph_id"), arguments.get("name")
    return f"{graph_id}/{name}" if isinstance(graph_id, str) and isinstance(name, str) else None


@operation(
    "graph.query_run",
    route=Route(method="POST", path=_PATH),
    scopes=("graph:run",),
    destructive=True,
    subject=_subject,
    resource_kind="stored_query",
    groups=("graph:invoke_query",),
    stands_for=_in_its_place,
    find=_find_query,
    errors=("QUERY_NOT_FOUND", *READ_ERRORS, "QUERY_LIMITED", "QUERY_NOT_SUPPORTED", "BRANCH_BUSY"),
    examples=(Example(arguments={"graph_id": "crm", "name": "find_person", "params": {"name": "Ada"}}),),
)
async def query_run(context: Context, given: RunQuery) -> ReadAnswer | ChangeAnswer:
    """Run a stored query.

    Works for queries that are not exposed, too; find one with graph.queries_list. Pass its parameters in `params`. A
    read returns rows, a mutation what it changed. 64-bit integers are strings in rows.
    """
    raise _unknown(given.graph_id, given.name)


OPERATIONS: tuple[Capability, ...] = (
    queries_list,
    queries_get,
    queries_put,
    queries_delete,
    queries_validate,
    queries_explain,
    query_run,
)
