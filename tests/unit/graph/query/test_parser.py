"""The parser of the query language: declarations, reads, mutations, and mistakes."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base import limits
from penstock.definitions.source.findings import Position
from penstock.graph.query.parser import parse_queries
from penstock.graph.query.tree import (
    Aggregate,
    Alias,
    Comparison,
    Constant,
    Delete,
    Field,
    Insert,
    Now,
    Operator,
    Ordering,
    Projection,
    Rank,
    RankKind,
    Read,
    Rrf,
    Update,
    Variable,
)
from penstock.graph.schema.model import Base, ListOf, Scalar, Vector
from tests.unit.graph.samples import query, query_texts


def read(text: str) -> Read:
    body = query(text).body
    assert isinstance(body, Read)
    return body


def messages(text: str) -> list[str]:
    return [each.message for each in parse_queries(text).findings]


def test_the_head_of_a_query_is_read() -> None:
    found = query(
        'query find($a: String?, @description("Names.") $b: [I64], $v: Vector(3)) '
        '@description("Finds.") @instruction("Use it.") @mcp(expose: false, tool_name: "finder") '
        "{ match { $x: User } return { $x } }"
    )
    assert [(each.name, each.type, each.nullable) for each in found.parameters] == [
        ("a", Scalar(Base.STRING), True),
        ("b", ListOf(Base.I64), False),
        ("v", Vector(3), False),
    ]
    assert found.parameters[1].description == "Names."
    assert (found.description, found.instruction) == ("Finds.", "Use it.")
    assert (found.expose, found.tool_name) == (False, "finder")
    assert not found.is_mutation


def test_columns_are_separated_by_commas_or_by_nothing() -> None:
    body = read("query q() { match { $t: Team } return { $t.name  count($p) as people, avg($p.age) as mean } }")
    assert body.returns == (
        Projection(Field("t", "name")),
        Projection(Aggregate("count", Variable("p")), "people"),
        Projection(Aggregate("avg", Field("p", "age")), "mean"),
    )


def test_order_and_limit_are_read() -> None:
    body = read("query q() { match { $t: Team } return { $t.name as n } order { n asc, $t.name desc } limit 25 }")
    assert body.order == (Ordering(Alias("n")), Ordering(Field("t", "name"), descending=True))
    assert body.limit == 25


def test_rankings_are_read() -> None:
    body = read(
        "query q($v: Vector(3)) { match { $d: Doc } return { $d } "
        'order { rrf(nearest($d.e, $v), bm25($d.body, "x"), 30) } limit 5 }'
    )
    nearest = Rank(RankKind.NEAREST, Field("d", "e"), Variable("v"))
    bm25 = Rank(RankKind.BM25, Field("d", "body"), Constant("x", "string"))
    assert body.order == (Ordering(Rrf((nearest, bm25), 30)),)


def test_mutations_are_read() -> None:
    body = query(
        'query q($s: String) { update Task set { state: "done", at: now() } where slug = $s '
        "insert ClosedBy { from: $s to: $s } delete Task where @id = $s or age is null }"
    ).body
    assert isinstance(body, tuple)
    update, insert, delete = body
    assert isinstance(update, Update)
    assert update.values == (("state", Constant("done", "string")), ("at", Now()))
    assert update.where == Comparison(Field("", "slug"), Operator.EQUAL, Variable("s"))
    assert isinstance(insert, Insert)
    assert [name for name, _ in insert.values] == ["from", "to"]
    assert isinstance(delete, Delete)


def test_words_of_the_language_may_be_names() -> None:
    found = query(
        "query match($limit: I32) { match { $return: User { limit: $limit } } return { $return.order as limit } }"
    )
    assert found.name == "match"


def test_several_mistakes_are_reported_at_once_with_places_and_hints() -> None:
    text = "\n".join(
        (
            "query broken() {",
            "  match {",
            "    $a: person",
            "    $b Knows $c",
            "    $x.age > -1",
            "    $x: Person { }",
            "  }",
            "  return { $x.name as in }",
            "}",
            "query fine() { match { $x: User } return { $x } }",
            "qurey other() { }",
        )
    )
    parsed = parse_queries(text)
    assert [each.name for each in parsed.queries] == ["broken", "fine"]
    assert [(each.position, each.message, each.hint) for each in parsed.findings] == [
        (Position(3, 9), "expected a node type, not `person`", "names of node types begin with a capital letter"),
        (Position(4, 8), "names of edges begin with a small letter in queries", "write `knows`"),
        (Position(5, 14), "there are no negative numbers", "pass the number as a parameter"),
        (Position(6, 18), "the braces are empty", "remove them, or write `{ property: value }`"),
        (Position(8, 23), "`in` is a reserved word", "choose another name for the column"),
        (Position(11, 1), "expected `query`, not `qurey`", "did you mean `query`?"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "set x = 3;",
        "reset all;",
        "show all;",
        "explain query q() { match { $x: User } return { $x } }",
        "branch create b from main;",
        "branch list",
    ],
)
def test_statements_of_other_versions_are_refused_by_name(text: str) -> None:
    (finding,) = parse_queries(text).findings
    assert (finding.code, finding.position) == ("UNSUPPORTED_STATEMENT", Position(1, 1))
    assert finding.hint is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("query q { }", "expected `(` after the name of the query, not `{`"),
        ("query q() { }", "the body of a query cannot begin with `}`"),
        ("query q() { match { } return { $x } }", "`match` needs a clause"),
        ("query q() { match { $x: User } return { } }", "`return` needs a column"),
        ("query q() { match { $x: User } }", "expected `return` after `match { … }`, not `}`"),
        ("query q() { match { $x: User } return { $x } limit $n }", "expected a whole number after `limit`, not `$n`"),
        ("query q() { insert User { } }", "there has to be a value"),
        ("query q() { insert User { a: null } }", "null is not a value here"),
        ("query q() { insert User { a: $x.b } }", "a property has no such value"),
        ("query q() { update User set { a: 1 } }", "expected `where` after the new values, not `}`"),
        ("query q($a: enum(x)) { match { $x: User } return { $x } }", "a parameter cannot be an enum"),
        ("query q($a: Strin) { match { $x: User } return { $x } }", "expected a type, not `Strin`"),
        (
            'query q() @descripton("x") { match { $x: User } return { $x } }',
            "an annotation of a query cannot begin with `@descripton`",
        ),
        (
            'query q() @mcp(name: "x") { match { $x: User } return { $x } }',
            "an option of `@mcp` cannot begin with `name`",
        ),
        (
            'query q() @instruction("a") @instruction("b") { match { $x: User } return { $x } }',
            "`@instruction` is here twice",
        ),
        (
            "query q() { match { $x: User } return { $x } ",
            "expected `}` at the end of the query, not the end of the text",
        ),
        ("query q() { match { $x: User } return { medain($x.a) } }", "there is no function `medain`"),
        ("query q() { match { $x: User } return { $x.age > 3 as old } }", "a comparison cannot be a column"),
        ("query q() { match { $x: User } return { $x.age + 1 } }", "unexpected character '+'"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    assert messages(text)[0] == message


def test_there_are_bounds_on_counts_and_depth() -> None:
    many = " ".join("$x: User" for _ in range(limits.GRAPH_CLAUSES_MAX + 1))
    deep = "not { " * (limits.GRAPH_BLOCK_DEPTH_MAX + 1) + "$x: User"
    parentheses = "(" * 500 + "$x.a = 1"
    negations = "not " * 500 + "$x.a = 1"
    for clauses, code in ((many, "TOO_MANY"), (deep, "TOO_DEEP"), (parentheses, "TOO_DEEP"), (negations, "TOO_DEEP")):
        findings = parse_queries(f"query q() {{ match {{ {clauses} }} return {{ $x }} }}").findings
        assert code in [each.code for each in findings]
    parameters = ", ".join(f"$p{number}: I32" for number in range(limits.GRAPH_PARAMETERS_MAX + 1))
    assert [each.code for each in parse_queries(f"query q({parameters}) {{ }}").findings] == ["TOO_MANY"]


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    parse_queries(text)


_WORDS = sorted({*Path(__file__).read_text(encoding="utf-8").split(), "{", "}", "(", ")", "$x", ":", "query", "match"})


@given(st.lists(st.sampled_from(_WORDS), max_size=40).map(" ".join))
def test_no_mixture_of_tokens_breaks_the_parser(text: str) -> None:
    parsed = parse_queries(f"query q() {{ match {{ {text}")
    assert 0 < len(parsed.findings) <= limits.GRAPH_FINDINGS_MAX


@given(query_texts())
def test_texts_of_the_grammar_have_no_findings(text: str) -> None:
    assert parse_queries(text).findings == ()
