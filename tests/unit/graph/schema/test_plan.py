"""Plans from one schema to another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.graph.schema.plan import plan_schema
from penstock.graph.schema.steps import (
    AddProperty,
    DropMode,
    DropProperty,
    DropType,
    RenameProperty,
    RenameType,
    UnsupportedChange,
    step_to_json,
)
from tests.unit.graph.samples import schema, work

BASE = "node A { a: String @key s: enum(x, y) n: I32? }\nnode B { }\nedge E: A -> B @card(0..2)"


def steps(new: str, old: str = BASE) -> list[tuple[str, str | None]]:
    plan = plan_schema(schema(old), schema(new))
    return [(type(step).__name__, step.code) for step in plan.steps]


def test_equal_schemas_have_no_steps() -> None:
    plan = plan_schema(work(), work())
    assert plan.steps == ()
    assert plan.supported
    assert not plan.loses_data


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("node B { }", "node B { }\nnode C { }"), [("AddType", None)]),
        (("n: I32?", "n: I32? o: I32?"), [("AddProperty", None)]),
        (("n: I32?", "n: I32? o: I32"), [("AddProperty", "OG-MF-103")]),
        (("n: I32?", ""), [("DropProperty", "OG-DS-102")]),
        (("edge E: A -> B @card(0..2)", ""), [("DropType", "OG-DS-101")]),
        (("node B { }\nedge E: A -> B @card(0..2)", ""), [("DropType", "OG-DS-101"), ("DropType", "OG-DS-101")]),
        (("n: I32?", 'm: I32? @rename_from("n")'), [("RenameProperty", None)]),
        (("enum(x, y)", "enum(x, y, z)"), [("ExtendEnum", None)]),
        (("enum(x, y)", "enum(x)"), [("UnsupportedChange", "OG-MF-106")]),
        (("I32?", "I64?"), [("UnsupportedChange", "OG-MF-106")]),
        (("I32?", "I32"), [("UnsupportedChange", "OG-MF-107")]),
        (("enum(x, y)", "enum(x, y)?"), [("MakeNullable", None)]),
        (("a: String @key", "a: String"), [("UnsupportedChange", "OG-MF-105")]),
        (("n: I32?", "n: I32? @unique"), [("AddConstraint", "OG-MF-101")]),
        (("n: I32?", "n: I32? @index"), [("AddConstraint", None)]),
        (("n: I32?", "n: I32? @range(n, 0..9)"), [("AddConstraint", "OG-MF-102")]),
        (("@card(0..2)", "@card(0..3)"), [("ChangeCardinality", None)]),
        (("@card(0..2)", ""), [("ChangeCardinality", None)]),
        (("@card(0..2)", "@card(1..2)"), [("ChangeCardinality", "OG-MF-104")]),
        (("@card(0..2)", "@card(0..1)"), [("ChangeCardinality", "OG-MF-104")]),
        (("A -> B", "B -> A"), [("UnsupportedChange", "OG-MF-108")]),
        (("node B", 'node B @description("x")'), [("UpdateTypeMetadata", None)]),
        (("n: I32?", "n: I32? @sensitive"), [("UpdatePropertyMetadata", None)]),
    ],
)
def test_changes_become_steps(change: tuple[str, str], expected: list[tuple[str, str | None]]) -> None:
    assert steps(BASE.replace(*change)) == expected


def test_constraints_may_go() -> None:
    assert steps("node A { a: I32 }", "node A { a: I32 @unique @range(a, 0..9) }") == [("DropConstraint", None)] * 2


def test_a_renamed_type_takes_its_edges_and_constraints_along() -> None:
    old = "node Person { name: String @key nick: String? @index }\nedge Knows: Person -> Person { since: Date? }"
    new = (
        'node User @rename_from("Person") { name: String @key alias: String? @index @rename_from("nick") }\n'
        'edge Likes: User -> User @rename_from("Knows") { since: Date? }'
    )
    plan = plan_schema(schema(old), schema(new))
    assert plan.steps == (
        RenameType(type_name="User", old_name="Person"),
        RenameType(type_name="Likes", old_name="Knows"),
        RenameProperty(type_name="User", property_name="alias", old_name="nick"),
    )


def test_a_rename_that_has_happened_has_no_effect() -> None:
    new = 'node User @rename_from("Person") { a: I32 @rename_from("b") }'
    assert plan_schema(schema(new), schema(new)).steps == ()
    assert steps(new, "node User { a: I32 b: I32? }") == [("DropProperty", "OG-DS-102")]


def test_a_name_is_renamed_once_only() -> None:
    new = 'node B @rename_from("A") { }\nnode C @rename_from("A") { }'
    assert steps(new, "node A { }") == [("RenameType", None), ("AddType", None)]


def test_drops_come_last_and_edges_before_nodes() -> None:
    plan = plan_schema(schema(BASE), schema("node A { a: String @key s: enum(x, y) m: I32? }"), drop_mode=DropMode.HARD)
    assert [type(step) for step in plan.steps] == [AddProperty, DropProperty, DropType, DropType]
    assert [step.type_name for step in plan.steps[2:]] == ["E", "B"]
    assert plan.loses_data
    assert all(step.mode is DropMode.HARD for step in plan.steps if isinstance(step, DropProperty | DropType))


def test_a_node_type_does_not_become_an_edge_type() -> None:
    plan = plan_schema(schema("node A { }\nnode X { }"), schema("node A { }\nedge X: A -> A"))
    assert [type(step) for step in plan.steps] == [UnsupportedChange]
    assert not plan.supported


def test_steps_are_json() -> None:
    old = "node A { a: String @key s: enum(x) n: I32 o: I32? }\nnode B { }\nedge E: A -> A"
    new = (
        'node A { a: String @key s: enum(x, y) n: I32? p: [Date]? q: I32? @rename_from("o") @range(n, 0..) '
        '@check(a, "x") @index(n) }\nnode C @x { }\nedge E: A -> A @card(0..1)'
    )
    shown = [step_to_json(step) for step in plan_schema(schema(old), schema(new)).steps]
    assert {"step": "ExtendEnum", "type_name": "A", "property_name": "s", "values": ["y"]} in shown
    assert {"step": "AddProperty", "type_name": "A", "property_name": "p", "type": "[Date]?"} in shown
    assert {"step": "RenameProperty", "type_name": "A", "property_name": "q", "old_name": "o"} in shown
    assert {"step": "AddType", "type_name": "C", "is_edge": False} in shown
    dropped = {"step": "DropType", "type_name": "B", "is_edge": False, "mode": "soft", "code": "OG-DS-101"}
    assert dropped in shown
    check = {"kind": "check", "properties": ["a"], "pattern": "x"}
    assert {"step": "AddConstraint", "type_name": "A", "constraint": check, "code": "OG-MF-102"} in shown
    assert {"step": "ChangeCardinality", "type_name": "E", "minimum": 0, "maximum": 1, "code": "OG-MF-104"} in shown


_PARTS = (
    "node A { a: String @key }",
    "node A { a: String @key b: I32? }",
    "node A { a: String @key b: I32? @unique }",
    "node B { c: enum(x, y) }",
    "node B { c: enum(x, y, z) d: Date? }",
)


@given(
    st.sampled_from(_PARTS[:3]), st.sampled_from(_PARTS[3:]), st.sampled_from(_PARTS[:3]), st.sampled_from(_PARTS[3:])
)
def test_a_plan_is_empty_exactly_if_nothing_changed(a: str, b: str, c: str, d: str) -> None:
    plan = plan_schema(schema(f"{a}\n{b}"), schema(f"{c}\n{d}"))
    assert (plan.steps == ()) == ((a, b) == (c, d))
