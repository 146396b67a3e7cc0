"""The parser of the schema language."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base import limits
from penstock.definitions.source.findings import Position
from penstock.graph.schema.model import Annotation, Base, Cardinality, Check, Enum, Index, Key, Range, Scalar, Unique
from penstock.graph.schema.parser import parse_declarations
from penstock.graph.schema.tree import ConstraintDeclaration, EdgeDeclaration, NodeDeclaration, PropertyDeclaration
from tests.unit.graph.samples import WORK, schema_texts


def node(body: str) -> NodeDeclaration:
    parsed = parse_declarations(f"node A {{ {body} }}")
    assert parsed.findings == ()
    (found,) = parsed.declarations
    assert isinstance(found, NodeDeclaration)
    return found


def test_every_part_of_a_declaration_is_read() -> None:
    text = 'node User @description("people") implements Named, Dated { age: I32? @index }'
    (found,) = parse_declarations(text).declarations
    assert isinstance(found, NodeDeclaration)
    assert [each.text for each in found.implements] == ["Named", "Dated"]
    assert found.annotations == (Annotation(name="description", value="people"),)
    assert found.members == (
        PropertyDeclaration(name="age", type=Scalar(Base.I32), nullable=True, annotations=(Annotation(name="index"),)),
    )


def test_an_edge_may_have_a_cardinality_and_no_body() -> None:
    (found,) = parse_declarations("edge Has: A -> B @card(1..) @old").declarations
    assert isinstance(found, EdgeDeclaration)
    assert found.cardinality == Cardinality(1, None)
    assert (found.source.text, found.target.text, found.members) == ("A", "B", ())


@pytest.mark.parametrize(
    ("text", "constraint"),
    [
        ("@key(a, b)", Key(("a", "b"))),
        ("@unique(src, dst)", Unique(("src", "dst"))),
        ("@index(a)", Index(("a",))),
        ("@range(a, 0..200)", Range("a", 0, 200)),
        ("@range(a, -1.5..)", Range("a", -1.5, None)),
        ("@range(a, ..-3)", Range("a", None, -3)),
        (r'@check(a, "^\\d+$")', Check("a", r"^\d+$")),
    ],
)
def test_constraints_of_a_body_are_read(text: str, constraint: object) -> None:
    (member,) = node(text).members
    assert isinstance(member, ConstraintDeclaration)
    assert member.constraint == constraint


def test_a_constraint_behind_a_property_belongs_to_the_body() -> None:
    first, second = node("name: String @unique(name, age)").members
    assert isinstance(first, PropertyDeclaration)
    assert first.annotations == ()
    assert second == ConstraintDeclaration(Unique(("name", "age")))


def test_values_of_an_enum_may_have_dashes_and_begin_with_digits() -> None:
    (member,) = node("s: enum(open, in-progress, 2nd, A_b, --)").members
    assert isinstance(member, PropertyDeclaration)
    assert member.type == Enum(("open", "in-progress", "2nd", "A_b", "--"))


def test_annotations_have_values_and_options() -> None:
    (member,) = node('v: Vector(3) @embed("body", model="m", size=3, on=true) @x(name) @y').members
    assert isinstance(member, PropertyDeclaration)
    assert member.annotations == (
        Annotation(name="embed", value="body", options=(("model", "m"), ("size", 3), ("on", True))),
        Annotation(name="x", value="name"),
        Annotation(name="y"),
    )


def test_several_mistakes_are_reported_at_once_with_places_and_hints() -> None:
    parsed = parse_declarations("node a { x: String }\nnode B {\n  x Strin\n  y: Strng\n  z: I32\n}\nedg C: A -> B\n")
    assert [(each.position, each.message, each.hint) for each in parsed.findings] == [
        (Position(1, 6), "expected the name of a node type, not `a`", "names of types begin with a capital letter"),
        (Position(3, 5), "expected `:` after the name of a property, not `Strin`", None),
        (Position(4, 6), "expected a type, not `Strng`", "did you mean `String`?"),
        (Position(7, 1), "expected a declaration, not `edg`", "did you mean `edge`?"),
    ]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("a: [[String]]", "a list has no lists in it"),
        ("a: [Vector(3)]", "a list has no Vectors in it"),
        ("a: Vector(0)", f"a vector has 1 to {limits.GRAPH_VECTOR_DIMENSION_MAX} numbers"),
        ('a: enum("x")', "values of an enum have no quotes"),
        ("a: String, b: String", "there are no commas between properties"),
        ("@kee(a)", "a line of the body cannot begin with `@kee`"),
        ("Name: String", "expected the name of a property, not `Name`"),
        ("@range(a, 99999999999999999999999..)", "the number has more than 20 digits"),
    ],
)
def test_mistakes_in_a_body_are_named(body: str, message: str) -> None:
    assert [each.message for each in parse_declarations(f"node A {{ {body} }}").findings][:1] == [message]


def test_there_are_bounds_on_types_and_properties() -> None:
    types = "node A { }\n" * (limits.GRAPH_TYPES_MAX + 1)
    assert [each.code for each in parse_declarations(types).findings] == ["TOO_MANY"]
    properties = "\n".join(f"p{number}: I32" for number in range(limits.GRAPH_PROPERTIES_MAX + 1))
    assert [each.code for each in parse_declarations(f"node A {{ {properties} }}").findings] == ["TOO_MANY"]


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    parse_declarations(text)


@given(st.lists(st.sampled_from(WORK.replace("\n", " \n ").split(" ")), max_size=40).map(" ".join))
def test_no_mixture_of_tokens_breaks_the_parser(text: str) -> None:
    parsed = parse_declarations(text)
    assert len(parsed.findings) <= limits.GRAPH_FINDINGS_MAX


@given(schema_texts())
def test_texts_of_the_grammar_have_no_findings(text: str) -> None:
    assert parse_declarations(text).findings == ()
