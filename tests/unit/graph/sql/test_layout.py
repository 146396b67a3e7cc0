"""Tables and columns of a schema."""

from __future__ import annotations

import json

from penstock.graph.schema.model import Schema
from penstock.graph.schema.plan import plan_schema
from penstock.graph.schema.read import read_schema
from penstock.graph.sql.layout import layout_from_json, layout_to_json, new_layout, next_layout


def _schema(text: str) -> Schema:
    reading = read_schema(text)
    assert reading.schema is not None, reading.findings
    return reading.schema


def test_names_are_never_used_again() -> None:
    first = _schema("node A { x: String @key  y: I32? }  node B { z: I32? }")
    second = _schema("node A { x: String @key  w: I32? }  node C { z: I32? }")
    layout = new_layout("g1", first)
    following = next_layout(layout, second, plan_schema(first, second))
    assert layout.tables["A"].columns == {"x": "p1", "y": "p2"}
    assert following.tables["A"].columns == {"x": "p1", "w": "p3"}
    assert following.tables["A"].name == layout.tables["A"].name
    assert following.tables["C"].name not in {table.name for table in layout.tables.values()}


def test_a_rename_keeps_table_and_column() -> None:
    first = _schema("node A { x: String @key  y: I32? }")
    second = _schema('node B @rename_from("A") { x: String @key  v: I32? @rename_from("y") }')
    layout = new_layout("g1", first)
    following = next_layout(layout, second, plan_schema(first, second))
    assert following.tables["B"].name == layout.tables["A"].name
    assert following.tables["B"].columns["v"] == layout.tables["A"].columns["y"]


def test_a_layout_comes_back_from_its_json() -> None:
    layout = new_layout("g1", _schema("node A { x: String @key }  edge E: A -> A { w: F64? }"))
    assert layout_from_json(json.loads(json.dumps(layout_to_json(layout)))) == layout
