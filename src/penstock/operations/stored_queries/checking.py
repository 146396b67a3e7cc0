"""Checks the schema and the stored queries of a graph: from texts to checked queries, with every mistake at once.

What was checked is kept until the schema or the queries change. A query that does not fit the schema any more is
broken: it is not offered, and calling it says why.

Above it: `capabilities`, the operations on graphs. Below it: the languages in `graph`, the port of graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from types import MappingProxyType

from penstock.base import limits
from penstock.base.errors import Conflict, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.source.findings import Finding, Severity
from penstock.graph.query.read import read_queries
from penstock.graph.query.tree import Query
from penstock.graph.schema.model import Schema
from penstock.graph.schema.read import read_schema
from penstock.graph.typing.check import check_query
from penstock.graph.typing.model import CheckedQuery
from penstock.operations.gate.context import Services
from penstock.operations.stored_queries.definitions import GraphDefinition, StoredQuery
from penstock.operations.stored_queries.tool_names import is_tool_name, reserved_tool_names
from penstock.runtime.ports.graphs import GraphRow, GraphStore, View

__all__ = [
    "CheckedGraph",
    "checked_at",
    "checked_graph",
    "checked_source",
    "declared_in",
    "findings_view",
    "name_problems",
    "refuse_broken",
    "schema_from",
]

_DIGITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedGraph:
    """The stored queries of a graph against its present schema."""

    queries: Mapping[str, CheckedQuery]
    """Those that fit, by name."""
    broken: Mapping[str, Rejected]
    """Those that do not, by name."""
    mark: str
    """Changes whenever the schema or a query does."""


def findings_view(findings: Iterable[Finding]) -> list[JsonValue]:
    """Return findings as callers see them."""
    return [finding.to_json() for finding in findings]


def _rejected(code: str, what: str, findings: Iterable[Finding]) -> Rejected:
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    first = errors[0]
    place = f"{first.location}: " if first.location else ""
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    details: JsonObject = {"findings": findings_view(findings)}
    return Rejected(
        code,
        f"{what}: {place}{first.message}{more}",
        first.hint or "correct the mistakes that `findings` lists",
        details,
    )


def schema_from(text: str) -> Schema:
    """Return the schema that a text declares; raise `Rejected` with every mistake."""
    reading = read_schema(text)
    if reading.schema is None:
        raise _rejected("GRAPH_SCHEMA_INVALID", "the schema has mistakes", reading.findings)
    return reading.schema


def _declared(text: str) -> tuple[Query, ...]:
    reading = read_queries(text)
    if reading.findings:
        raise _rejected("QUERY_INVALID", "the query cannot be read", reading.findings)
    return reading.queries


def declared_in(text: str) -> Mapping[str, StoredQuery]:
    """Return every query that a file declares, by name, as it would be stored; raise `Rejected` with every mistake."""
    queries = _declared(text)
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    places = [starts[query.position.line - 1] + query.position.column - 1 if query.position else 0 for query in queries]
    ends = [*places[1:], len(text)] if places else []
    return {
        query.name: StoredQuery(
            name=query.name,
            source=text[place:end].strip() + "\n",
            expose=query.expose is not False,
            tool_name=query.tool_name,
        )
        for query, place, end in zip(queries, places, ends, strict=True)
    }


def checked_source(store: GraphStore, schema: Schema, source: str, name: str | None = None) -> CheckedQuery:
    """Return the one query that a text declares, checked; raise `Rejected` with every mistake.

    With a `name`, a text with several queries is accepted, and the query of that name is meant.
    """
    queries = _declared(source)
    chosen = [query for query in queries if name in (None, query.name)]
    if len(chosen) != 1:
        named = ", ".join(query.name for query in queries) or "none"
        message = f"there is no query {name}" if name else "the text must declare one query"
        raise Rejected("QUERY_INVALID", f"{message}; it declares {named}", "name one of them")
    checked = check_query(chosen[0], schema)
    if checked.query is None:
        raise _rejected("QUERY_INVALID", f"the query {chosen[0].name} does not fit the schema", checked.findings)
    unsupported = store.unsupported(checked.query, schema)
    if unsupported is not None:
        message = f"the query {chosen[0].name} cannot be run here: {unsupported.message}"
        raise Rejected("QUERY_NOT_SUPPORTED", message, None, {"reason": unsupported.code})
    return checked.query


def name_problems(queries: Iterable[StoredQuery]) -> list[str]:
    """Return what is wrong with the names of stored queries as tools."""
    taken: dict[str, str] = {}
    found = []
    for query in queries:
        called = query.called
        if not is_tool_name(called):
            found.append(f"{query.name}: `{called}` is not a name of a tool: letters, digits, - and _, at most 64")
        if called in reserved_tool_names():
            found.append(f"{query.name}: `{called}` is the name of a built-in tool; choose a `tool_name`")
        known = taken.setdefault(called, query.name)
        if known != query.name:
            found.append(f"{query.name}: the query {known} is called `{called}` as a tool, too; choose a `tool_name`")
    return found


def refuse_broken(store: GraphStore, schema: Schema, queries: Iterable[StoredQuery]) -> None:
    """Refuse a schema or a set of queries that do not fit each other, with every mistake of every query."""
    listed = tuple(queries)
    problems = name_problems(listed)
    if len(listed) > limits.STORED_QUERIES_PER_GRAPH_MAX:
        problems.append(f"a graph has at most {limits.STORED_QUERIES_PER_GRAPH_MAX} stored queries")
    findings: list[JsonValue] = []
    for query in listed:
        try:
            checked_source(store, schema, query.source, query.name)
        except Rejected as error:
            problems.append(error.message)
            found = error.details.get("findings")
            findings += (
                [{"query": query.name, **item} for item in found if isinstance(item, dict)]
                if isinstance(found, list)
                else []
            )
    if problems:
        message = "; ".join(problems[:3]) + (f" (and {len(problems) - 3} more)" if len(problems) > 3 else "")  # noqa: PLR2004
        details: JsonObject = {"problems": [*problems], "findings": findings}
        raise Rejected("QUERY_INVALID", message, "correct the mistakes that `problems` and `findings` list", details)


def checked_graph(services: Services, row: GraphRow, definition: GraphDefinition) -> CheckedGraph:
    """Return the checked queries of a graph; they are kept until its schema or its queries change."""
    mark = _mark(row, definition)
    key = (row.ref, mark)
    known: CheckedGraph | None = services.checked_graphs.get(key)
    if known is not None:
        return known
    store = services.graphs
    if store is None:
        raise Conflict("NOT_CONFIGURED", "this server keeps no graphs")
    queries: dict[str, CheckedQuery] = {}
    broken: dict[str, Rejected] = {}
    for query in definition.queries:
        try:
            queries[query.name] = checked_source(store, row.schema, query.source, query.name)
        except Rejected as error:
            broken[query.name] = error
    found = CheckedGraph(queries=MappingProxyType(queries), broken=MappingProxyType(broken), mark=mark)
    services.checked_graphs.put(key, found)
    return found


def checked_at(services: Services, view: View, query: StoredQuery) -> CheckedQuery:
    """Return a stored query, checked against the schema of a view; raise `Rejected` if it does not fit that."""
    key = (view.ref, view.schema_version, query)
    known: CheckedQuery | None = services.checked_graphs.get(key)
    if known is None:
        if services.graphs is None:
            raise Conflict("NOT_CONFIGURED", "this server keeps no graphs")
        known = checked_source(services.graphs, view.schema, query.source, query.name)
        services.checked_graphs.put(key, known)
    return known


def _mark(row: GraphRow, definition: GraphDefinition) -> str:
    """Return a digest of everything that the offer of a graph depends on."""
    digest = sha256(row.schema_source.encode())
    digest.update(f"\0{row.schema_version}\0{row.created_at}\0{definition!r}".encode())
    return digest.hexdigest()[:_DIGITS]
