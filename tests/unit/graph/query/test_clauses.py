"""Clauses: bindings, traversals, conditions, and how they are told apart."""

import pytest

from penstock.graph.query.parser import parse_queries
from penstock.graph.query.tree import (
    Binding,
    Clause,
    Comparison,
    Constant,
    Exists,
    Field,
    Negation,
    NotBlock,
    Now,
    Operator,
    Read,
    Traversal,
    Truth,
    Variable,
)
from tests.unit.graph.samples import query


def clauses(text: str) -> tuple[Clause, ...]:
    body = query(f"query q() {{ match {{ {text} }} return {{ $x }} }}").body
    assert isinstance(body, Read)
    return body.match


def clause(text: str) -> Clause:
    (found,) = clauses(text)
    return found


def test_a_binding_has_values_and_may_end_with_a_comma() -> None:
    assert clause('$u: User { handle: $h, name: "x", at: now(), }') == Binding(
        "u", "User", (("handle", Variable("h")), ("name", Constant("x", "string")), ("at", Now()))
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$a knows $b", Traversal("a", "b", ("knows",))),
        ("$a $e:knows $b", Traversal("a", "b", ("knows",), "e")),
        ("$a <knows> $b", Traversal("a", "b", ("knows",), None, True)),
        ("$a $e:<knows> $b", Traversal("a", "b", ("knows",), "e", True)),
        ("$a knows{1,3} $b", Traversal("a", "b", ("knows",), None, False, 1, 3, True)),
        ("$a knows{2,} $b", Traversal("a", "b", ("knows",), None, False, 2, None, True)),
        ("$a (knows|likes) $b", Traversal("a", "b", ("knows", "likes"))),
        ("$a <knows|likes>{1,2} $b", Traversal("a", "b", ("knows", "likes"), None, True, 1, 2, True)),
        ("$a * $b", Traversal("a", "b", ())),
        ("$a $e:* $b", Traversal("a", "b", (), "e")),
        ("$a <*> $_", Traversal("a", "_", (), None, True)),
        ('$a "in" $b', Traversal("a", "b", ("in",))),
        ("$a count $b", Traversal("a", "b", ("count",))),
        ("$a search{1,2} $b", Traversal("a", "b", ("search",), None, False, 1, 2, True)),
    ],
)
def test_traversals_are_read(text: str, expected: Traversal) -> None:
    assert clause(text) == expected


def test_a_bare_variable_before_contains_is_a_traversal() -> None:
    assert clause("$q contains $m") == Traversal("q", "m", ("contains",))
    assert clause('$q contains "x"') == Comparison(Variable("q"), Operator.CONTAINS, Constant("x", "string"))
    assert clause("$q contains $m.x") == Comparison(Variable("q"), Operator.CONTAINS, Field("m", "x"))
    assert clause("$q.tags contains $m") == Comparison(Field("q", "tags"), Operator.CONTAINS, Variable("m"))


def test_a_bare_variable_before_a_binding_is_a_condition() -> None:
    assert clauses("$flag $x: User") == (Truth(Variable("flag")), Binding("x", "User"))
    assert clauses("$flag $a knows $b") == (Truth(Variable("flag")), Traversal("a", "b", ("knows",)))
    assert len(clauses("$flag count { $a knows $_ } > 2")) == 2
    assert len(clauses("$flag exists { $a knows $_ }")) == 2
    assert len(clauses("$flag ($a.x = 1 or $a.y = 2)")) == 2
    assert len(clauses('$flag search($a.x, "y")')) == 2


def test_a_smaller_than_sign_may_begin_edges_or_a_comparison() -> None:
    assert clause('$p < "x"') == Comparison(Variable("p"), Operator.LESS, Constant("x", "string"))
    assert clause('$p <"x"> $q') == Traversal("p", "q", ("x",), None, True)


def test_not_before_a_block_is_a_clause_of_its_own() -> None:
    inner = (Traversal("a", "_", ("knows",)),)
    assert clause("not { $a knows $_ }") == NotBlock(inner)
    assert clause("not exists { $a knows $_ }") == Negation(Exists(inner))
    combined = clause("not { $a knows $_ } and $a.x")
    assert not isinstance(combined, NotBlock)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("$u: User { }", "the braces are empty"),
        ("$u: user", "expected a node type, not `user`"),
        ("$a knows b", "expected a variable at the end of the traversal, not `b`"),
        ("$a $e:Knows $b", "names of edges begin with a small letter in queries"),
        ("$a <and> $b", "`and` is a reserved word"),
        ("$a: User, $b: User", "there are no commas between clauses"),
        ("$a knows{1} $b", "expected `,` between the numbers of steps, not `}`"),
        ("$a knows{1,-2} $b", "the largest number of steps is not negative"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    findings = parse_queries(f"query q() {{ match {{ {text} }} return {{ $x }} }}").findings
    assert findings[0].message == message
