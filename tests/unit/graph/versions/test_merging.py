"""Three-way merges of changes, against the table in the module's docstring."""

from __future__ import annotations

import pytest

from penstock.graph.typing.patterns import EntityKind
from penstock.graph.versions.entities import ConflictKind
from penstock.graph.versions.merging import Changed, merge_changes

NODE = (EntityKind.NODE, "Person", "ada")
EDGE = (EntityKind.EDGE, "Knows", "e1")
ENDS = (("Person", "ada"), ("Person", "bob"))


@pytest.mark.parametrize(
    ("before", "source", "target", "outcome"),
    [
        (None, "x", None, "source"),
        (None, None, "x", "target"),
        (None, "x", "x", "target"),
        (None, "x", "y", ConflictKind.DIVERGENT_INSERT),
        ("a", "x", "a", "source"),
        ("a", "a", "x", "target"),
        ("a", "x", "x", "target"),
        ("a", "x", "y", ConflictKind.DIVERGENT_UPDATE),
        ("a", None, "a", "source"),
        ("a", "a", None, "target"),
        ("a", None, None, "target"),
        ("a", None, "x", ConflictKind.DELETE_VS_UPDATE),
        ("a", "x", None, ConflictKind.DELETE_VS_UPDATE),
        ("a", "a", "a", "target"),
    ],
)
def test_an_entity_is_merged_as_the_table_says(
    before: str | None, source: str | None, target: str | None, outcome: object
) -> None:
    sides = [{NODE: Changed(before, after)} if after != before else {} for after in (source, target)]
    wanted, conflicts = merge_changes(sides[0], sides[1])
    if isinstance(outcome, ConflictKind):
        assert [each.kind for each in conflicts] == [outcome]
        assert "Person ada" in conflicts[0].message
    else:
        assert conflicts == []
        assert wanted == (sides[0] if outcome == "source" else {})


@pytest.mark.parametrize("deleted_on_source", [True, False])
def test_an_edge_whose_end_the_other_side_deleted_is_an_orphan(deleted_on_source: bool) -> None:
    edge = {EDGE: Changed(None, "x", ENDS)}
    node = {NODE: Changed("a", None)}
    _, conflicts = merge_changes(*((node, edge) if deleted_on_source else (edge, node)))
    assert [(each.kind, each.entity_id) for each in conflicts] == [(ConflictKind.ORPHAN_EDGE, "e1")]


def test_a_deleted_edge_is_no_orphan() -> None:
    _, conflicts = merge_changes({EDGE: Changed("x", None)}, {NODE: Changed("a", None)})
    assert conflicts == []
