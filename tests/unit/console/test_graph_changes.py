"""What differs between versions of a graph, as rows: only what is another one, with both texts."""

from __future__ import annotations

from penstock.base import limits
from penstock.console.graph_changes import change_rows


def test_only_properties_that_differ_are_listed_and_edges_have_their_ends() -> None:
    before = {"type": "Person", "data": {"name": "ada", "age": 1, "tags": ["a"]}}
    after = {"type": "Person", "data": {"name": "ada", "age": 2}}
    edge = {"edge": "Knows", "from": "ada", "to": "bob", "data": {}}
    rows = change_rows(
        [
            {"kind": "updated", "type_name": "Person", "entity_id": "ada", "before": before, "after": after},
            {"kind": "inserted", "type_name": "Knows", "entity_id": "e1", "before": None, "after": edge},
        ]
    )
    assert rows is not None
    assert rows[0].fields == [("age", "1", "2"), ("tags", '["a"]', None)]
    assert rows[1].fields == [("from", None, "ada"), ("to", None, "bob")]


def test_a_long_value_is_cut_and_other_differences_are_no_rows() -> None:
    long = {"type": "Person", "data": {"name": "x" * 1_000_000}}
    rows = change_rows([{"kind": "inserted", "type_name": "P", "entity_id": "1", "before": None, "after": long}])
    assert rows is not None
    text = rows[0].fields[0][2]
    assert text is not None
    assert text.endswith("… (1000000 characters)")
    assert len(text) < limits.CONSOLE_CELL_CHARACTERS_MAX + 40
    assert change_rows({"changes": []}) is None
    assert change_rows([{"path": "/nodes/0"}]) is None
