"""Answers of checked queries: columns, rows as JSON, and the JSON Schema of the whole answer.

An answer of a read is `{query_name, target, row_count, columns, rows, graph_commit_id}`; cells that are null are left
out of a row, so no cell is required. Integers of 64 bits are texts in it, because many programs read numbers as
doubles. An answer of a mutation is `{branch, query_name, affected_nodes, affected_edges, actor_id, commit}`.

Above it: `tools`, operations. Below it: `schemas`, `values`. It runs no queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.base.json import JsonObject, JsonValue
from penstock.graph.parameters.schemas import type_schema
from penstock.graph.parameters.values import to_json
from penstock.graph.schema.model import Base, Enum, ListOf, Scalar, ValueType, Vector
from penstock.graph.typing.model import CheckedParameter, CheckedQuery, CheckedRead, Column, ColumnType
from penstock.graph.typing.patterns import AggregateValue, NodeObjectType
from penstock.graph.values import GraphValue

__all__ = ["column_descriptions", "node_to_json", "output_schema", "parameter_descriptions", "row_to_json"]

_KINDS = {
    Base.STRING: "string",
    Base.BLOB: "blob",
    Base.BOOL: "bool",
    Base.I32: "int",
    Base.U32: "int",
    Base.I64: "bigint",
    Base.U64: "bigint",
    Base.F32: "float",
    Base.F64: "float",
    Base.DATE: "date",
    Base.DATE_TIME: "datetime",
}
_STRING: JsonObject = {"type": "string"}
_COUNT: JsonObject = {"type": "integer", "minimum": 0}


# Descriptions


def _kind(value_type: ColumnType) -> JsonObject:
    match value_type:
        case Scalar(base):
            return {"kind": _KINDS[base]}
        case Enum():
            return {"kind": "string"}
        case ListOf(base):
            return {"kind": "list", "item_kind": _KINDS[base]}
        case Vector(dimension):
            return {"kind": "vector", "vector_dim": dimension}
        case NodeObjectType():
            return {"kind": "object"}


def column_descriptions(columns: Sequence[Column]) -> list[JsonObject]:
    """Describe columns by name, kind and whether they may be null."""
    return [{"name": each.name, **_kind(each.type), "nullable": each.nullable} for each in columns]


def parameter_descriptions(parameters: Sequence[CheckedParameter]) -> list[JsonObject]:
    """Describe parameters by name, kind and whether they may be null."""
    return [{"name": each.name, **_kind(each.type), "nullable": each.nullable} for each in parameters]


# Rows


def node_to_json(identifier: str, properties: Mapping[str, GraphValue | None], node: NodeObjectType) -> JsonObject:
    """Return a node as an object: `@id` and its properties; those that are null are left out."""
    found: JsonObject = {"@id": identifier}
    for each in node.properties:
        value = properties.get(each.name)
        if value is not None:
            found[each.name] = to_json(value, each.type, wide_as_text=True)
    return found


def row_to_json(columns: Sequence[Column], cells: Sequence[GraphValue | Mapping[str, GraphValue] | None]) -> JsonObject:
    """Return a row as an object; cells that are null are left out."""
    row: JsonObject = {}
    for column, cell in zip(columns, cells, strict=True):
        if cell is None:
            continue
        if isinstance(column.type, NodeObjectType):
            assert isinstance(cell, Mapping), f"{column.name} is a node"
            row[column.name] = node_to_json(str(cell["@id"]), cell, column.type)
        else:
            assert not isinstance(cell, Mapping), f"{column.name} is a value"
            row[column.name] = to_json(cell, column.type, wide_as_text=not _is_count(column))
    return row


def _is_count(column: Column) -> bool:
    """Whether a column counts rows. No count is too large for a number in JSON, unlike other values of 64 bits."""
    return isinstance(column.expression, AggregateValue) and column.expression.function == "count"


# Schemas


def _cell_schema(column: Column) -> JsonObject:
    if _is_count(column):
        return {"type": "integer", "minimum": 0}
    value_type = column.type
    if isinstance(value_type, NodeObjectType):
        properties: JsonObject = {"@id": _STRING}
        properties.update({each.name: _answer_schema(each.type) for each in value_type.properties})
        return {"type": "object", "properties": properties, "required": ["@id"], "additionalProperties": False}
    return _answer_schema(value_type)


def _answer_schema(value_type: ValueType) -> JsonObject:
    """Return the schema of a value in an answer, where integers of 64 bits are texts only."""
    base = value_type.base if isinstance(value_type, Scalar | ListOf) else None
    if base not in (Base.I64, Base.U64):
        return type_schema(value_type)
    text: JsonObject = {"type": "string", "pattern": "^-?[0-9]{1,20}$"}
    return {"type": "array", "items": text} if isinstance(value_type, ListOf) else text


def _read_schema(read: CheckedRead) -> JsonObject:
    cells: JsonObject = {each.name: _cell_schema(each) for each in read.columns}
    row: JsonObject = {"type": "object", "properties": cells, "additionalProperties": False}
    column: JsonObject = {
        "type": "object",
        "properties": {
            "name": _STRING,
            "kind": _STRING,
            "nullable": {"type": "boolean"},
            "item_kind": _STRING,
            "vector_dim": _COUNT,
        },
        "required": ["name", "kind", "nullable"],
    }
    target: JsonObject = {"type": "object", "properties": {"branch": _STRING, "snapshot": _STRING}}
    properties: JsonObject = {
        "query_name": _STRING,
        "target": target,
        "row_count": _COUNT,
        "columns": {"type": "array", "items": column},
        "rows": {"type": "array", "items": row},
        "graph_commit_id": _STRING,
    }
    required: list[JsonValue] = ["query_name", "target", "row_count", "columns", "rows"]
    return {"type": "object", "properties": properties, "required": required}


def _mutation_schema() -> JsonObject:
    properties: JsonObject = {
        "branch": _STRING,
        "query_name": _STRING,
        "affected_nodes": _COUNT,
        "affected_edges": _COUNT,
        "actor_id": _STRING,
        "commit": {"type": ["object", "null"]},
    }
    required: list[JsonValue] = ["branch", "query_name", "affected_nodes", "affected_edges", "commit"]
    return {"type": "object", "properties": properties, "required": required}


def output_schema(query: CheckedQuery) -> JsonObject:
    """Return the schema of the answer of a query."""
    return _read_schema(query.body) if isinstance(query.body, CheckedRead) else _mutation_schema()
