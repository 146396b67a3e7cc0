"""Identifiers of nodes."""

from __future__ import annotations

import pytest

from penstock.graph.schema.read import read_schema
from penstock.graph.values import GraphValue
from penstock.graph.versions.identity import date_time_text, key_of


def _key(declared: str, values: dict[str, GraphValue | None]) -> str | None:
    reading = read_schema(f"node Item {{ {declared} }}")
    assert reading.schema is not None, reading.findings
    return key_of(reading.schema.node_types["Item"], values)


@pytest.mark.parametrize(
    ("declared", "values", "key"),
    [
        ("a: String @key", {"a": "x"}, "x"),
        ("a: I64 @key", {"a": -7}, "-7"),
        ("a: Bool @key", {"a": True}, "true"),
        ("a: Date @key", {"a": "2026-01-31"}, "2026-01-31"),
        ("a: DateTime @key", {"a": 1_500}, "1970-01-01T00:00:01.500"),
        ("a: String  b: I32  @key(a, b)", {"a": 'x"', "b": 1}, '["x\\"","1"]'),
        ("a: String", {"a": "x"}, None),
        ("a: String @key", {}, None),
    ],
)
def test_the_key_gives_the_identifier(declared: str, values: dict[str, GraphValue | None], key: str | None) -> None:
    assert _key(declared, values) == key


def test_a_whole_second_has_no_fraction() -> None:
    assert date_time_text(-1_000) == "1969-12-31T23:59:59"
