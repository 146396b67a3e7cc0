"""Answers: columns, rows and their schema."""

from penstock.base.json import JsonObject
from penstock.definitions.schemas.compiled import CompiledSchema, compile_schema, is_valid
from penstock.graph.parameters.answers import (
    column_descriptions,
    output_schema,
    parameter_descriptions,
    row_to_json,
)
from penstock.graph.typing.model import CheckedRead
from penstock.graph.values import GraphValue
from tests.unit.graph.samples import checked

QUERY = checked(
    "query q($v: Vector(3), $l: [Date]) @mcp(expose: false) { match { $u: User $d: Doc $u.born in $l } "
    "return { $u, $u.visits, $u.seen, $d.tags, $d.embedding as e, $u.level } "
    "order { nearest($d.embedding, $v) } limit 3 }"
)


def answer(row: JsonObject) -> JsonObject:
    assert isinstance(QUERY.body, CheckedRead)
    columns = column_descriptions(QUERY.body.columns)
    return {
        "query_name": "q",
        "target": {"branch": "main"},
        "row_count": 1,
        "columns": list(columns),
        "rows": [row],
        "graph_commit_id": "c1",
    }


def test_columns_and_parameters_are_described() -> None:
    assert isinstance(QUERY.body, CheckedRead)
    assert column_descriptions(QUERY.body.columns) == [
        {"name": "u", "kind": "object", "nullable": False},
        {"name": "u.visits", "kind": "bigint", "nullable": False},
        {"name": "u.seen", "kind": "datetime", "nullable": True},
        {"name": "d.tags", "kind": "list", "item_kind": "string", "nullable": False},
        {"name": "e", "kind": "vector", "vector_dim": 3, "nullable": True},
        {"name": "u.level", "kind": "string", "nullable": False},
    ]
    assert parameter_descriptions(QUERY.parameters) == [
        {"name": "v", "kind": "vector", "vector_dim": 3, "nullable": False},
        {"name": "l", "kind": "list", "item_kind": "date", "nullable": False},
    ]


def test_rows_fit_the_schema_of_the_answer() -> None:
    assert isinstance(QUERY.body, CheckedRead)
    stored: dict[str, GraphValue] = {"@id": "ada", "handle": "ada", "visits": 2**60, "tags": ("x",)}
    row = row_to_json(QUERY.body.columns, (stored, 5, 1000, ("a",), None, "junior"))
    assert row == {
        "u": {"@id": "ada", "handle": "ada", "visits": str(2**60), "tags": ["x"]},
        "u.visits": "5",
        "u.seen": "1970-01-01T00:00:01.000Z",
        "d.tags": ["a"],
        "u.level": "junior",
    }
    schema = compile_schema(output_schema(QUERY))
    assert isinstance(schema, CompiledSchema)
    assert is_valid(schema, answer(row))
    assert not is_valid(schema, answer({**row, "u.visits": 5}))
    assert not is_valid(schema, answer({**row, "u.level": "boss"}))
    assert not is_valid(schema, answer({**row, "other": 1}))


def test_a_count_is_a_number_where_other_integers_of_64_bits_are_texts() -> None:
    query = checked("query q() { match { $u: User } return { count($u) as users, max($u.visits) as most } }")
    assert isinstance(query.body, CheckedRead)
    row = row_to_json(query.body.columns, (3, 2**60))
    assert row == {"users": 3, "most": str(2**60)}
    schema = compile_schema(output_schema(query))
    assert isinstance(schema, CompiledSchema)
    assert is_valid(schema, answer(row))
    assert not is_valid(schema, answer({"users": "3"}))


def test_the_answer_of_a_mutation_has_a_schema() -> None:
    schema = compile_schema(output_schema(checked('query q() { insert Note { text: "x" } }')))
    assert isinstance(schema, CompiledSchema)
    changed: JsonObject = {"branch": "main", "query_name": "q", "affected_nodes": 1, "affected_edges": 0}
    assert is_valid(schema, {**changed, "commit": None})
    assert not is_valid(schema, changed)
