"""Rows of plain records are those that the long way makes, and what is not plain goes the long way."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base import limits
from penstock.graph.records import EdgeRecord, GraphRecord, NodeRecord
from penstock.graph.schema.read import read_schema
from penstock.graph.sql.layout import new_layout
from penstock.graph.versions.entities import ViolationKind
from penstock.runtime.ports.graphs import Stamp
from penstock.runtime.stores.sqlite.graphs.catalogue import StoredSchema
from penstock.runtime.stores.sqlite.graphs.loads.preparing import Prepared, Preparing

SOURCE = """
node Person { name: String @key  age: I32?  score: F64  on: Bool?  mood: enum(calm, glad)? }
node Note { text: String?  at: DateTime? }
node Bounded { n: I32  @range(n, 0..9) }
edge Knows: Person -> Person { since: I32 }
"""
READING = read_schema(SOURCE)
assert READING.schema is not None
SCHEMA = READING.schema
TYPES: dict[str, Any] = {**SCHEMA.node_types, **SCHEMA.edge_types}
PERSON: dict[str, Any] = {"name": "ada", "age": 1, "score": 0.5, "on": None, "mood": None}


def preparing() -> Preparing:
    return Preparing(StoredSchema(1, 1, SOURCE, SCHEMA, new_layout("g1", SCHEMA)))


def stamp() -> Stamp:
    numbers = count(1)
    return Stamp(commit_id="c", at=0, new_id=lambda: f"new{next(numbers)}")


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 64), 1 << 64),
    st.floats(allow_nan=False),
    st.text(max_size=4),
    st.sampled_from(["calm", "ada", "a\0b", "\ud800", "x" * (limits.GRAPH_ENTITY_ID_CHARACTERS_MAX + 1)]),
)
names = st.sampled_from(["name", "age", "score", "on", "mood", "text", "at", "n", "since", "other"])


@st.composite
def records(draw: st.DrawFn) -> GraphRecord:
    type_ = TYPES[draw(st.sampled_from(sorted(TYPES)))]
    properties = {each.name: draw(values) for each in type_.properties}
    if draw(st.booleans()):
        properties[draw(names)] = draw(values)
    identifier = draw(st.sampled_from([None, "ada", "", "i1"]))
    if type_ is SCHEMA.edge_types["Knows"]:
        return EdgeRecord(type_, "ada", "bob", properties, identifier)
    return NodeRecord(type_, properties, identifier)


@given(records())
def test_the_short_way_makes_the_row_of_the_long_way_or_none(record: GraphRecord) -> None:
    plain = preparing()._plain(record, 7, stamp())
    if plain is not None:
        assert plain == preparing()._any(record, 7, stamp())
        assert [type(cell) for cell in plain.row] == [type(cell) for cell in _row(record)]


def _row(record: GraphRecord) -> tuple[Any, ...]:
    made = preparing()._any(record, 7, stamp())
    assert isinstance(made, Prepared)
    return made.row


def test_plain_records_take_the_short_way() -> None:
    for record in (
        NodeRecord(SCHEMA.node_types["Person"], PERSON),
        NodeRecord(SCHEMA.node_types["Note"], {"text": "x", "at": 5}),
        NodeRecord(SCHEMA.node_types["Note"], {"text": "x", "at": None}, "i1"),
        EdgeRecord(SCHEMA.edge_types["Knows"], "ada", "bob", {"since": 3}),
    ):
        assert preparing()._plain(record, 1, stamp()) is not None, record


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"name": ""}, ViolationKind.VALUE),
        ({"name": "a\0"}, ViolationKind.VALUE),
        ({"score": None}, ViolationKind.REQUIRED),
        ({"mood": "sad"}, ViolationKind.ENUM),
        ({"age": 1 << 70}, ViolationKind.VALUE),
        ({"more": 1}, ViolationKind.UNKNOWN_PROPERTY),
    ],
)
def test_what_is_wrong_with_a_record_is_said_with_its_number(changed: dict[str, Any], kind: ViolationKind) -> None:
    good = NodeRecord(SCHEMA.node_types["Person"], PERSON)
    bad = NodeRecord(SCHEMA.node_types["Person"], {**PERSON, **changed})
    rows, violations = preparing().rows([good, bad], 10, stamp())
    assert [each.number for each in rows["Person"]] == [10]
    assert (violations[0].kind, violations[0].record) == (kind, 11)
