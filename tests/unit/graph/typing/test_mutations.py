"""Mutations."""

import pytest

from penstock.graph.schema.model import Base, Scalar
from penstock.graph.typing.model import (
    CheckedMutation,
    DeleteEdges,
    DeleteNodes,
    InsertEdge,
    InsertNode,
    UpdateNodes,
)
from penstock.graph.typing.patterns import (
    TARGET,
    Compare,
    ConstantList,
    ConstantValue,
    EntityKind,
    FieldValue,
    MetaField,
    MetaValue,
    NowValue,
    ParameterValue,
)
from tests.unit.graph.samples import checked, codes

HEAD = "$s: String, $i: I32?, $b: Blob, $l: [String], $v: Vector(3), $t: DateTime"
USER = 'handle: "a", visits: 1, tags: [], active: true, level: "junior"'


def mutation(text: str) -> CheckedMutation:
    body = checked(f"query q({HEAD}) @mcp(expose: false) {{ {text} }}").body
    assert isinstance(body, CheckedMutation)
    return body


def mutation_codes(text: str) -> list[str]:
    return codes(f"query q({HEAD}) @mcp(expose: false) {{ {text} }}")


def test_an_insert_of_a_node_has_typed_values() -> None:
    (step,) = mutation(
        "insert User { handle: $s, visits: $i, rating: 2, tags: $l, active: false, photo: $b, seen: now(), "
        'level: "senior", born: date("2000-02-29") }'
    ).steps
    assert isinstance(step, InsertNode)
    values = {each.property.name: each.value for each in step.values}
    assert values["handle"] == ParameterValue("s", Scalar(Base.STRING), False)
    assert values["visits"] == ParameterValue("i", Scalar(Base.I32), True)
    assert values["rating"] == ConstantValue(2.0, Scalar(Base.F32))
    assert values["seen"] == NowValue()
    assert values["born"] == ConstantValue("2000-02-29", Scalar(Base.DATE))


def test_lists_and_vectors_are_written_as_lists() -> None:
    (step,) = mutation('insert Doc { slug: $s, title: "t", body: "b", tags: ["x", "y"], embedding: [1, 0.5, 2] }').steps
    assert isinstance(step, InsertNode)
    values = {each.property.name: each.value for each in step.values}
    assert isinstance(values["tags"], ConstantList)
    assert values["tags"].value == ("x", "y")
    assert isinstance(values["embedding"], ConstantList)
    assert values["embedding"].value == (1.0, 0.5, 2.0)


def test_an_insert_of_an_edge_has_two_ends() -> None:
    (step,) = mutation('insert Knows { from: $s, to: "b", kind: "work" }').steps
    assert isinstance(step, InsertEdge)
    assert isinstance(step.source, ParameterValue)
    assert step.target == ConstantValue("b", Scalar(Base.STRING))


def test_updates_and_deletes_have_conditions_on_their_target() -> None:
    update, insert = mutation(
        'update Task set { state: "done", closed_at: now() } where slug = $s and due is null '
        "insert Owns { from: $s, to: $s }"
    ).steps
    assert isinstance(update, UpdateNodes)
    assert isinstance(insert, InsertEdge)
    nodes, edges = mutation("delete User where @id = $s delete Owns where from = $s or to = $s").steps
    assert isinstance(nodes, DeleteNodes)
    assert isinstance(nodes.where, Compare)
    assert nodes.where.left == MetaValue(variable=TARGET, kind=EntityKind.NODE, field=MetaField.ID)
    assert isinstance(edges, DeleteEdges)


def test_bare_names_are_properties_of_the_target() -> None:
    (step,) = mutation("delete User where age > 3").steps
    assert isinstance(step, DeleteNodes)
    assert isinstance(step.where, Compare)
    assert isinstance(step.where.left, FieldValue)
    assert (step.where.left.variable, step.where.left.owners) == (TARGET, ("User",))


def test_a_mutation_says_what_it_does() -> None:
    assert mutation(f"insert User {{ {USER} }}").only_inserts
    assert not mutation("update User set { age: 3 } where age = 4").only_inserts
    assert mutation("delete User where age = 4").deletes


def test_deleting_nodes_writes_their_edges() -> None:
    found = checked('query q() { delete Team where name = "x" }')
    assert found.writes == ("In", "Leads", "MemberOf", "Team")
    assert found.reads == ("In", "Leads", "MemberOf", "Task", "Team", "User")
    assert checked('query q() { insert Owns { from: "a", to: "b" } }').writes == ("Owns",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("insert Usr { a: 1 }", ["T1"]),
        (f"insert User {{ {USER}, nme: 1 }}", ["T2"]),
        (f"insert User {{ {USER}, age: 3, age: 4 }}", ["T13"]),
        ('insert User { handle: "a" }', ["T12"]),
        (f'insert User {{ {USER}, age: "x" }}', ["T3"]),
        (f"insert User {{ {USER}, age: 3000000000 }}", ["T3"]),
        (f"insert User {{ {USER}, age: [3] }}", ["T3"]),
        (f'insert User {{ {USER}, photo: "x" }}', ["T3"]),
        (f"insert User {{ {USER}, age: $s }}", ["T7"]),
        (f"insert User {{ {USER}, rating: $i }}", ["T7"]),
        (f"insert User {{ {USER}, born: now() }}", ["T7"]),
        (f"insert User {{ {USER}, age: $nope }}", ["T14"]),
        ('insert Note { text: "a" } insert Owns { from: "a" }', ["T12"]),
        ('insert Owns { from: "a", from: "b", to: "c" }', ["T13"]),
        ('insert Owns { from: "a", to: $i }', ["T7"]),
        ('insert Owns { from: "a", to: now() }', ["T7"]),
        ('insert Doc { slug: "a", title: "t", body: "b", tags: [], embedding: [1] }', ["T3"]),
        ("update Knows set { weight: 1.0 } where from = $s", ["T16"]),
        ('update Task set { slug: "x" } where slug = $s', ["T11"]),
        ('update Task set { state: "x" } where slug = $s', ["T3"]),
        ("delete Task where @type = $s", ["T11"]),
        ("delete Task where slug = $nope", ["T14"]),
        ("delete Task where from = $s", ["T2"]),
        ("delete Task where exists { $t: Task }", ["T44"]),
        ("delete Task where count { $t: Task } > 1", ["T44"]),
        ('delete User where search(bio, "x")', ["T44"]),
        ("delete User where photo is null", ["T24"]),
        ("delete User where count(age) > 1", ["T44"]),
        ("delete User where tags contains 1", ["T7"]),
        (f"insert User {{ {USER} }} delete Task where slug = $s", ["MIXED_MUTATION"]),
    ],
)
def test_mistakes_have_published_codes(text: str, expected: list[str]) -> None:
    assert mutation_codes(text) == expected
