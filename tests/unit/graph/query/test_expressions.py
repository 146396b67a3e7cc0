"""Conditions and expressions: precedence, literals, blocks."""

import pytest

from penstock.graph.query.parser import parse_queries
from penstock.graph.query.tree import (
    And,
    BlockAggregate,
    Clause,
    Comparison,
    Constant,
    Exists,
    Expression,
    Field,
    In,
    IsNull,
    ListLiteral,
    Negation,
    Operator,
    Or,
    Read,
    TextMatch,
    TextMatchKind,
    Traversal,
    Truth,
    Variable,
)
from tests.unit.graph.samples import query

A, B, C = (Truth(Field("x", name)) for name in "abc")
INNER = (Traversal("x", "_", ("knows",)),)


def condition(text: str) -> Clause:
    body = query(f"query q() {{ match {{ {text} }} return {{ $x }} }}").body
    assert isinstance(body, Read)
    (found,) = body.match
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$x.a or $x.b and $x.c", Or((A, And((B, C))))),
        ("($x.a or $x.b) and $x.c", And((Or((A, B)), C))),
        ("$x.a or $x.b or $x.c", Or((A, B, C))),
        ("not $x.a and $x.b", And((Negation(A), B))),
        ("not ($x.a and $x.b)", Negation(And((A, B)))),
        ("not not $x.a", Negation(Negation(A))),
        ("not $x.a = true", Negation(Comparison(Field("x", "a"), Operator.EQUAL, Constant(True, "bool")))),
        ("($x.a) = $p", Comparison(Field("x", "a"), Operator.EQUAL, Variable("p"))),
        ("$x.a is null", IsNull(Field("x", "a"))),
        ("$x.a is not null", IsNull(Field("x", "a"), True)),
        ("$x.a in $p", In(Field("x", "a"), Variable("p"))),
        ("$x.a not in [1]", In(Field("x", "a"), ListLiteral((Constant(1, "integer"),)), True)),
        ("$x.in = $x.not", Comparison(Field("x", "in"), Operator.EQUAL, Field("x", "not"))),
        ("exists { $x knows $_ }", Exists(INNER)),
        ("$x.a and not { $x knows $_ }", And((A, Negation(Exists(INNER))))),
        ('search($x.a, "t")', TextMatch(TextMatchKind.SEARCH, Field("x", "a"), Constant("t", "string"))),
        ("fuzzy($x.a, $q, 2)", TextMatch(TextMatchKind.FUZZY, Field("x", "a"), Variable("q"), 2)),
        (
            "count { $x knows $_ } >= $n",
            Comparison(BlockAggregate("count", None, INNER), Operator.GREATER_OR_EQUAL, Variable("n")),
        ),
        (
            "sum($x.a) { $x knows $_ } < 1.5",
            Comparison(BlockAggregate("sum", Field("x", "a"), INNER), Operator.LESS, Constant(1.5, "float")),
        ),
    ],
)
def test_conditions_are_read(text: str, expected: Clause) -> None:
    assert condition(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12", Constant(12, "integer")),
        ("0.50", Constant(0.5, "float")),
        ("true", Constant(True, "bool")),
        (r'"a\nb"', Constant("a\nb", "string")),
        ('date("2026-01-31")', Constant("2026-01-31", "date")),
        ('datetime("2026-01-31T09:00:00Z")', Constant("2026-01-31T09:00:00Z", "datetime")),
        ("[]", ListLiteral(())),
        ('["a", "b",]', ListLiteral((Constant("a", "string"), Constant("b", "string")))),
    ],
)
def test_literals_are_read(text: str, expected: Expression) -> None:
    found = condition(f"$x.a = {text}")
    assert isinstance(found, Comparison)
    assert found.right == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("$x.a = 1 = 2", "comparisons are not chained"),
        ("$x.a == 1", "equality is written `=`"),
        ("$x.a = null", "`null` is a reserved word"),
        ("$x.a = 1e5", "`1e5` is not a number"),
        ("$x.a = [[1]]", "a list has no lists in it"),
        ("$x.a = [$p]", "expected a literal, not `$p`"),
        ("($x.a and $x.b) = 1", "a condition cannot be compared"),
        ("$x.a = ($x.a and $x.b)", "a condition cannot be compared"),
        ("$x.a is 1", "expected `null` after `is`, not `1`"),
        ("name = 1", "a condition cannot begin with `name`"),
        ("avg($x.a) { $x knows $_ } > 1", "`avg` has no block here"),
        ("sum { $x knows $_ } > 1", "`sum` has no block here"),
        ('search("x", "y")', "the first argument of `search` is a property"),
        ("$x.a = 99999999999999999999999", "the number has more than 20 digits"),
        ("$x.a = 9999999999999999999999999999999999.5", "the number is too long or too large"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    findings = parse_queries(f"query q() {{ match {{ {text} }} return {{ $x }} }}").findings
    assert findings[0].message == message
