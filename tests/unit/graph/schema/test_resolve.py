"""From declarations to a schema: rules that every schema keeps."""

import pytest

from penstock.graph.schema.model import Check, Enum, Index, Key, Unique
from penstock.graph.schema.read import read_schema
from tests.unit.graph.samples import schema, work


def codes(text: str) -> list[str]:
    return [each.code for each in read_schema(text).findings]


def test_properties_of_interfaces_are_copied_with_their_constraints() -> None:
    task = work().node_types["Task"]
    assert [each.name for each in task.properties][:2] == ["slug", "title"]
    assert task.key == ("slug",)
    assert task.implements == ("Slugged",)


def test_a_type_may_repeat_a_property_of_its_interface() -> None:
    found = schema("interface I { a: String @unique }\nnode A implements I { a: String @index }").node_types["A"]
    assert set(found.constraints) == {Index(("a",)), Unique(("a",))}


def test_constraints_behind_properties_and_in_the_body_are_the_same() -> None:
    found = schema('node A { a: String @key b: String @unique c: String @index @check(b, "x") }').node_types["A"]
    assert found.constraints == (Key(("a",)), Unique(("b",)), Index(("c",)), Check("b", "x"))
    body = schema('node A { a: String b: String c: String @key(a) @unique(b) @index(c) @check(b, "x") }')
    assert body.node_types["A"].constraints == found.constraints


def test_values_of_an_enum_are_sorted() -> None:
    assert schema("node A { s: enum(b, a) }").node_types["A"].by_name["s"].type == Enum(("a", "b"))


def test_edges_are_found_in_queries_whatever_their_case() -> None:
    assert work().edge_in_query("memberof") is work().edge_types["MemberOf"]
    assert work().edge_types["MemberOf"].query_name == "memberOf"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node A { }\nnode A { }", ["DUPLICATE_TYPE"]),
        ("node Ab { }\nnode AB { }", ["DUPLICATE_TYPE"]),
        ("node A { }\nedge A: A -> A", ["DUPLICATE_TYPE"]),
        ("node User { }\nedge E: Usr -> User", ["UNKNOWN_TYPE"]),
        ("interface I { }\nnode A { }\nedge E: I -> A", ["UNKNOWN_TYPE"]),
        ("node A implements B { }", ["UNKNOWN_TYPE"]),
        ("node A { a: I32 a: I32 }", ["DUPLICATE_PROPERTY"]),
        ("node A { ab: I32 aB: I32 }", ["DUPLICATE_PROPERTY"]),
        ("node A { _rowid: I32 }", ["RESERVED_NAME"]),
        ("node A { }\nedge E: A -> A { src: I32 from: I32 }", ["RESERVED_NAME", "RESERVED_NAME"]),
        ("node A { a: I32 @key(b) }", ["UNKNOWN_PROPERTY"]),
        ("interface I { a: I32 }\nnode A implements I { a: I64 }", ["INTERFACE_CONFLICT"]),
        ("interface I { a: I32 }\ninterface J { a: I32? }\nnode A implements I, J { }", ["INTERFACE_CONFLICT"]),
        ("interface I { a: I32 @key(a) }", ["CONSTRAINT_PLACE"]),
        ("node A { a: I32 @key b: I32 @key }", ["KEY_COUNT"]),
        ("node A { a: I32? @key }", ["KEY_TYPE"]),
        ("node A { a: [I32] @key }", ["KEY_TYPE"]),
        ("node A { a: Blob @key }", ["KEY_TYPE"]),
        ("node A { a: Vector(2) @key }", ["KEY_TYPE"]),
        ("node A { }\nedge E: A -> A { a: I32 @key }", ["CONSTRAINT_PLACE"]),
        ("node A { }\nedge E: A -> A { a: I32 @range(a, 0..1) }", ["CONSTRAINT_PLACE"]),
        ("node A { a: String @range(a, 0..1) }", ["CONSTRAINT_TYPE"]),
        ('node A { a: I32 @check(a, "x") }', ["CONSTRAINT_TYPE"]),
        ("node A { a: [I32] @unique }", ["CONSTRAINT_TYPE"]),
        ("node A { a: Blob @index }", ["CONSTRAINT_TYPE"]),
        ("node A { a: I32 @range(a, 3..1) }", ["RANGE_BOUNDS"]),
        ("node A { a: I32 @unique(a, a) }", ["DUPLICATE_PROPERTY"]),
        ("node A { }\nedge E: A -> A @card(3..1)", ["CARDINALITY"]),
        ("node A { }\nedge E: A -> A @card(0..0)", ["CARDINALITY"]),
        ('node A { a: String @check(a, "(") }', ["CHECK_PATTERN"]),
        ("node A { a: [Blob] }", ["LIST_TYPE"]),
        ("node A { a: enum(x, x) }", ["ENUM_VALUES"]),
        ('node A { a: String @embed("a") }', ["EMBED_TYPE"]),
        ('node A { a: I32 v: Vector(2) @embed("a") }', ["EMBED_TYPE"]),
        ('node A { v: Vector(2) @embed("b") }', ["UNKNOWN_PROPERTY"]),
        ("node A { a: String @rename_from }", ["RENAME_FROM"]),
    ],
)
def test_broken_rules_are_reported(text: str, expected: list[str]) -> None:
    assert codes(text) == expected


def test_unknown_annotations_are_kept_and_near_misses_warned_about() -> None:
    reading = read_schema("node A { a: String @sensitive @uniqe }")
    assert [(each.code, each.hint) for each in reading.findings] == [("ANNOTATION_NAME", "did you mean `@unique`?")]
    assert reading.schema is not None
    names = [each.name for each in reading.schema.node_types["A"].by_name["a"].annotations]
    assert names == ["sensitive", "uniqe"]


def test_unknown_names_come_with_suggestions() -> None:
    (finding,) = read_schema("node Person { }\nedge Knows: Person -> Persn").findings
    assert (finding.location, finding.hint) == ("2:23", "did you mean `Person`?")


def test_an_edge_type_may_be_unique_by_its_ends() -> None:
    found = schema("node A { }\nedge E: A -> A { since: Date @unique(src, dst, since) }").edge_types["E"]
    assert found.constraints == (Unique(("src", "dst", "since")),)


def test_a_text_is_searched_with_an_index_only_if_it_is_a_string_of_a_node_type() -> None:
    reading = read_schema("node A { name: String? @search  age: I32 @search }\nedge E: A -> A { note: String @search }")
    found = sorted((each.code, each.message) for each in reading.findings)
    assert found == [
        ("CONSTRAINT_PLACE", "`@search` is for node types"),
        ("CONSTRAINT_TYPE", "`age` is I32; `@search` is for String"),
    ]
    schema = read_schema("interface N { note: String @search }\nnode A implements N { name: String? @search }").schema
    assert schema is not None
    assert schema.nodes[0].searched == ("note", "name")
