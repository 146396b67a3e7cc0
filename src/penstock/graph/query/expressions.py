"""Conditions and expressions of the query language.

    condition  = and ("or" and)*
    and        = not ("and" not)*
    not        = "not" not | "not" block | comparison
    comparison = operand [operator operand | ["not"] "in" operand | "is" ["not"] "null"]
    operand    = "(" condition ")" | "exists" block | "count" block | "sum" "(" value ")" block | value
    value      = literal | "$"name ["." name] | "@"name | now() | count(…) | nearest(…) | bm25(…) | rrf(…) | search(…)
    literal    = string | int | decimal | true | false | date("…") | datetime("…") | "[" literal ("," literal)* "]"

Comparisons are not chained. There are no negative numbers, no exponents and no null as a value: those are parameters.

Above it: `clauses`. Below it: `tree`, `literals`, `syntax`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from penstock.definitions.source.findings import Position
from penstock.graph.query.literals import at_literal, read_literal
from penstock.graph.query.tree import (
    Aggregate,
    And,
    BlockAggregate,
    Clause,
    Comparison,
    Condition,
    Exists,
    Expression,
    Field,
    In,
    IsNull,
    Negation,
    Now,
    Operator,
    Or,
    Rank,
    RankKind,
    Rrf,
    TextMatch,
    TextMatchKind,
    Truth,
    Variable,
)
from penstock.graph.query.words import AGGREGATES, FUNCTIONS, RESERVED
from penstock.graph.schema.types import read_whole_number
from penstock.graph.syntax.cursor import Cursor
from penstock.graph.syntax.tokens import TokenKind

__all__ = ["ExpressionParser"]

_SYMBOL_OPERATORS = tuple(str(each) for each in Operator if not each[0].isalpha())
_WORD_OPERATORS = tuple(str(each) for each in Operator if each[0].isalpha())
_TEXT_MATCHES = tuple(str(each) for each in TextMatchKind)
_RANKS = tuple(str(each) for each in RankKind)


class ExpressionParser:
    """Reads conditions and expressions. `block` reads a block of clauses, which may have conditions in it again."""

    def __init__(self, cursor: Cursor, block: Callable[[str], tuple[Clause, ...]]) -> None:
        self.cursor = cursor
        self.block = block
        self._in_target = False

    # Conditions

    def target_condition(self) -> Condition:
        """Read the condition of a mutation, in which bare names are properties of what is changed."""
        self._in_target = True
        try:
            return self.condition()
        finally:
            self._in_target = False

    def condition(self) -> Condition:
        """Read a condition."""
        with self.cursor.nested():
            position = self.cursor.position
            operands = [self._and()]
            while self.cursor.take_word("or"):
                operands.append(self._and())
            return operands[0] if len(operands) == 1 else Or(tuple(operands), position=position)

    def _and(self) -> Condition:
        position = self.cursor.position
        operands = [self._not()]
        while self.cursor.take_word("and"):
            operands.append(self._not())
        return operands[0] if len(operands) == 1 else And(tuple(operands), position=position)

    def _not(self) -> Condition:
        cursor = self.cursor
        position = cursor.position
        if not cursor.take_word("not"):
            return self._comparison()
        with cursor.nested():
            if cursor.at("{"):
                return Negation(Exists(self.block("`not`"), position=position), position=position)
            return Negation(self._not(), position=position)

    def _comparison(self) -> Condition:
        cursor = self.cursor
        position = cursor.position
        left = self._operand()
        if not self.at_comparison():
            return (
                left
                if not isinstance(left, Expression) or isinstance(left, TextMatch)
                else Truth(left, position=position)
            )
        if isinstance(left, Truth):
            left = left.operand
        if not isinstance(left, Expression):
            cursor.fail("a condition cannot be compared", "combine conditions with `and`, `or` and `not`")
        condition = self._continued(left, position)
        if self._at_operator():
            cursor.fail("comparisons are not chained", "write two comparisons with `and` between them")
        return condition

    def _at_operator(self) -> bool:
        cursor = self.cursor
        token = cursor.token
        if token.kind is TokenKind.SYMBOL and token.text in _SYMBOL_OPERATORS:
            return True
        return cursor.at_word(*_WORD_OPERATORS)

    def at_comparison(self) -> bool:
        """Whether the expression before this place is compared with something."""
        cursor = self.cursor
        return (
            self._at_operator()
            or cursor.at_word("in", "is")
            or (cursor.at_word("not") and cursor.at_word("in", ahead=1))
        )

    def _continued(self, left: Expression, position: Position) -> Condition:
        cursor = self.cursor
        if cursor.take_word("is"):
            negated = cursor.take_word("not")
            cursor.expect_word("null", "after `is`")
            return IsNull(left, negated, position=position)
        negated = cursor.take_word("not")
        if cursor.take_word("in"):
            return In(left, self._plain_operand(), negated, position=position)
        operator = Operator(cursor.advance().text)
        if cursor.at("="):
            cursor.fail("equality is written `=`", "write one `=`")
        return Comparison(left, operator, self._plain_operand(), position=position)

    def _plain_operand(self) -> Expression:
        position = self.cursor.position
        operand = self._operand()
        if isinstance(operand, Truth):
            return operand.operand
        if isinstance(operand, Expression):
            return operand
        self.cursor.report("a condition cannot be compared", "remove the parentheses", at=position)
        return Variable("_", position=position)

    def _operand(self) -> Condition | Expression:
        cursor = self.cursor
        position = cursor.position
        if cursor.take("("):
            inner = self.condition()
            cursor.expect(")", "after the condition")
            return inner
        if cursor.at_word("exists") and cursor.at("{", ahead=1):
            cursor.advance()
            return Exists(self.block("`exists`"), position=position)
        if cursor.at_word(*AGGREGATES):
            return self._block_aggregate()
        return self.value("a condition")

    def _block_aggregate(self) -> Expression:
        """Read `count { … }` or `sum(e) { … }`; an aggregate without a block is a plain value."""
        cursor = self.cursor
        position = cursor.position
        name = cursor.token.text
        argument = None
        if cursor.at("{", ahead=1):
            cursor.advance()
        else:
            value = self.value("a condition")
            if not cursor.at("{") or not isinstance(value, Aggregate):
                return value
            argument = value.argument
        if name not in ("count", "sum") or (name == "sum") != (argument is not None):
            hint = "write `count { … } > n` or `sum($x.p) { … } > n`"
            cursor.fail(f"`{name}` has no block here", hint)
        function: Literal["count", "sum"] = "count" if name == "count" else "sum"
        return BlockAggregate(function, argument, self.block(f"`{name}`"), position=position)

    # Values

    def simple_value(self) -> Expression:
        """Read a value of a property: a literal, a parameter or `now()`."""
        cursor = self.cursor
        if cursor.at_word("null"):
            cursor.fail("null is not a value here", "pass a nullable parameter, or omit the property")
        position = cursor.position
        value = self.value("a value")
        if isinstance(value, Field | Aggregate | Rank | Rrf | TextMatch):
            hint = "a value is a literal, a parameter or `now()`; compare properties in a clause of their own"
            cursor.report("a property has no such value", hint, at=position)
        return value

    def value(self, what: str) -> Expression:
        """Read an expression that is not a condition."""
        cursor = self.cursor
        position = cursor.position
        if cursor.at_kind(TokenKind.VARIABLE):
            return self._variable()
        if at_literal(cursor):
            return read_literal(cursor)
        if cursor.at_kind(TokenKind.META) and self._in_target:
            return Field("", f"@{cursor.advance().text}", position=position)
        if cursor.at_kind(TokenKind.NAME):
            return self._named(what, position)
        if cursor.at("-"):
            cursor.fail("there are no negative numbers", "pass the number as a parameter")
        cursor.fail(f"{what} cannot begin with {cursor.token.shown}")

    def _variable(self) -> Expression:
        cursor = self.cursor
        position = cursor.position
        name = cursor.advance().text
        if not cursor.take("."):
            return Variable(name, position=position)
        if cursor.at_kind(TokenKind.META):
            return Field(name, f"@{cursor.advance().text}", position=position)
        return Field(name, cursor.expect_kind(TokenKind.NAME, "the name of a property").text, position=position)

    def _named(self, what: str, position: Position) -> Expression:
        cursor = self.cursor
        word = cursor.token.text
        if cursor.at("(", ahead=1):
            if word in AGGREGATES or word in FUNCTIONS:
                return self._call(word, position)
            hint = cursor.suggestions.hint(word, (*AGGREGATES, *FUNCTIONS), otherwise="functions are")
            cursor.fail(f"there is no function `{word}`", hint)
        if word in RESERVED:
            hint = "null is tested with `is null`; values that may be null are parameters" if word == "null" else None
            cursor.fail(f"`{word}` is a reserved word", hint)
        if self._in_target:
            cursor.advance()
            return Field("", word, position=position)
        cursor.fail(f"{what} cannot begin with {cursor.token.shown}", "a property is written `$x.name`")

    def _call(self, word: str, position: Position) -> Expression:
        cursor = self.cursor
        with cursor.nested():
            cursor.advance()
            cursor.advance()
            expression = self._arguments(word, position)
            cursor.expect(")", f"after the arguments of `{word}`")
        return expression

    def _arguments(self, word: str, position: Position) -> Expression:
        cursor = self.cursor
        match word:
            case "now":
                return Now(position=position)
            case "count" | "sum" | "avg" | "min" | "max":
                return Aggregate(word, self.value(f"the argument of `{word}`"), position=position)
            case "rrf":
                return self._rrf(position)
            case _:
                subject = self._subject(word)
                cursor.expect(",", "after the property")
                query = self.value(f"the argument of `{word}`")
        if word in _RANKS:
            return Rank(RankKind(word), subject, query, position=position)
        distance = None
        if word == TextMatchKind.FUZZY and cursor.take(","):
            distance = read_whole_number(cursor, "the distance")
        return TextMatch(TextMatchKind(word), subject, query, distance, position=position)

    def _subject(self, word: str) -> Field:
        cursor = self.cursor
        position = cursor.position
        subject = self.value(f"the argument of `{word}`")
        if isinstance(subject, Field):
            return subject
        cursor.report(f"the first argument of `{word}` is a property", "write `$x.name`", at=position)
        return Field("_", "_", position=position)

    def _rrf(self, position: Position) -> Rrf:
        cursor = self.cursor
        first = self._rank()
        cursor.expect(",", "between the rankings")
        second = self._rank()
        k = read_whole_number(cursor, "the constant of the ranking") if cursor.take(",") else None
        return Rrf((first, second), k, position=position)

    def _rank(self) -> Rank:
        cursor = self.cursor
        if not (cursor.at_word(*_RANKS) and cursor.at("(", ahead=1)):
            cursor.fail(f"expected a ranking, not {cursor.token.shown}", "a ranking is nearest(…) or bm25(…)")
        rank = self.value("a ranking")
        if not isinstance(rank, Rank):
            cursor.fail("expected a ranking", "a ranking is nearest(…) or bm25(…)")
        return rank
