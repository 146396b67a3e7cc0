"""The check of a query against a schema: a checked query, or everything that is wrong with it.

Codes that begin with `T` are those that the language publishes:

| Code | Meaning |
| --- | --- |
| `T1` `T2` `T4` | unknown node type, property, edge type |
| `T3` | a literal does not fit its property (a value of an enum, a day that does not exist, a number out of range) |
| `T5` | a traversal does not fit the types of its nodes |
| `T6` | a variable that is not bound |
| `T7` | values that cannot be compared or assigned |
| `T8` `T9` | the argument of an aggregate; a group; a `not` block that refers to nothing outside it |
| `T11` | a property or field that cannot be used here |
| `T12` `T13` `T14` | an insert without a required property; a duplicate; a variable of a mutation that is no
parameter |
| `T15` | bounds of steps; operands of `nearest` |
| `T16` | an update of edges |
| `T17` `T21` | an order by `nearest` or `rrf` without a limit |
| `T19` `T20` | operands of `search` and `fuzzy`; of `match_text` and `bm25` |
| `T22` `T23` | a traversal without direction between two types; a variable of an edge in the wrong place |
| `T24` | a Blob, which queries cannot read |
| `T25` | two columns with one name |
| `T32` `T33` `T35` `T36` `T37` `T38` | rankings, searches and aliases where they cannot stand |
| `T39` `T40` `T41` | a block that refers to nothing outside; a block's argument; a value that is not a condition |
| `T42` `T44` `T45` | an order by something else than a column; blocks and values that mutations do not have |
| `T47` `T49` `T50` | reserved names of parameters and variables; a variable with two types |

The others are our own:

| Code | Meaning |
| --- | --- |
| `DUPLICATE_PARAMETER` | two parameters with one name |
| `TOOL_NAME` | the name of the tool is not 1 to 64 letters, digits, `_` and `-` |
| `COLUMN_NAME` | a column of a constant without `as` |
| `LIMIT` | a limit of 0, or above the largest |
| `ORDER_TYPE`, `RANK_DIRECTION` | an order by lists or nodes; a ranking with `desc` |
| `MIXED_MUTATION` | deletes beside inserts or updates |
| `UNUSED_PARAMETER` | a warning: nothing depends on the parameter |
| `VECTOR_EXPOSED` | a warning: a language model cannot write the vector that the tool asks for |
| `UNCONNECTED` | a warning: parts of the pattern are not connected, so that all combinations match |

Above it: everything that has queries. Below it: `reads`, `mutations`. It changes nothing and reads no data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.base import limits
from penstock.definitions.source.findings import Finding, Position, Severity
from penstock.graph.query.tree import Parameter, Query, Read
from penstock.graph.schema.model import Schema, Vector
from penstock.graph.typing.connections import parts_of
from penstock.graph.typing.context import ANONYMOUS, QueryContext
from penstock.graph.typing.model import CheckedMutation, CheckedParameter, CheckedQuery, CheckedRead
from penstock.graph.typing.mutations import read_mutation
from penstock.graph.typing.reads import read_read

__all__ = ["TOOL_NAME", "QueryChecking", "check_query"]

TOOL_NAME = re.compile("[A-Za-z0-9_-]{1,64}")
_RESERVED_PREFIX = "__"


@dataclass(frozen=True, slots=True)
class QueryChecking:
    """A checked query, or None if there are errors; `findings` has warnings, too."""

    query: CheckedQuery | None
    findings: tuple[Finding, ...]


def check_query(query: Query, schema: Schema) -> QueryChecking:
    """Check a query against a schema."""
    context = QueryContext(schema, {each.name: each for each in query.parameters})
    _check_head(query, context)
    body: CheckedRead | CheckedMutation | None
    if isinstance(query.body, Read):
        body = read_read(context, query.body)
        if body is not None:
            _check_connections(query, body, context)
    else:
        body = read_mutation(context, query.body)
    broken = body is None or any(each.severity is Severity.ERROR for each in context.findings)
    if not broken:
        _check_uses(query, context)
    findings = sorted(dict.fromkeys(context.findings), key=lambda each: each.position or Position(1, 1))
    checked = None if body is None or broken else _checked(query, body, context)
    return QueryChecking(checked, tuple(findings[: limits.GRAPH_FINDINGS_MAX]))


def _checked(query: Query, body: CheckedRead | CheckedMutation, context: QueryContext) -> CheckedQuery:
    return CheckedQuery(
        name=query.name,
        parameters=tuple(_parameter(each, context.enum_uses) for each in query.parameters),
        description=query.description,
        instruction=query.instruction,
        expose=query.expose is not False,
        tool_name=query.tool_name,
        body=body,
        reads=tuple(sorted(context.reads)),
        writes=tuple(sorted(context.writes)),
    )


def _parameter(parameter: Parameter, uses: Mapping[str, set[tuple[str, ...] | None]]) -> CheckedParameter:
    with_values = uses.get(parameter.name, set())
    values = next(iter(with_values)) if len(with_values) == 1 else None
    return CheckedParameter(
        name=parameter.name,
        type=parameter.type,
        nullable=parameter.nullable,
        description=parameter.description,
        values=values,
    )


def _check_head(query: Query, context: QueryContext) -> None:
    seen: set[str] = set()
    for each in query.parameters:
        if each.name in seen:
            message = f"there are two parameters `${each.name}`"
            context.report("DUPLICATE_PARAMETER", message, each.position, "rename one")
        seen.add(each.name)
        if each.name == ANONYMOUS or each.name.startswith(_RESERVED_PREFIX):
            context.report("T47", f"no parameter is called `${each.name}`", each.position, "choose another name")
        if isinstance(each.type, Vector) and query.expose is not False:
            message = f"`${each.name}` is a vector, which a language model cannot write"
            hint = "hide the query from tools: `@mcp(expose: false)`"
            context.warn("VECTOR_EXPOSED", message, each.position, hint)
    if query.tool_name is not None and not TOOL_NAME.fullmatch(query.tool_name):
        message = f"`{query.tool_name}` is not a tool name"
        context.report("TOOL_NAME", message, query.position, "use 1 to 64 letters, digits, `_` and `-`")


def _check_uses(query: Query, context: QueryContext) -> None:
    for each in query.parameters:
        if each.name not in context.enum_uses:
            message = f"nothing depends on `${each.name}`"
            context.warn("UNUSED_PARAMETER", message, each.position, "remove it, or use it in a condition")


def _check_connections(query: Query, read: CheckedRead, context: QueryContext) -> None:
    parts = parts_of(read.pattern)
    if len(parts) > 1:
        firsts = [next(name for name in part if "#" not in name) for part in parts]
        names = " and ".join(f"`${name}`" for name in firsts[:3])
        message = f"{names} are not connected, so that all combinations match"
        context.warn("UNCONNECTED", message, query.position, "connect them by an edge or a comparison")
