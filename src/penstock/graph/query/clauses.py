"""Clauses of a block of the query language.

    clause    = "not" "{" clause+ "}" | binding | traversal | condition
    binding   = "$"name ":" Type ["{" name ":" value ("," name ":" value)* [","] "}"]
    traversal = "$"name ["$"name ":"] edges ["{" int "," [int] "}"] "$"name
    edges     = edge | "(" edge ("|" edge)* ")" | "*" | "<" (edge ("|" edge)* | "*") ">"
    edge      = name | string

The case of the word behind `$x :` separates a binding (`Person`) from an edge that is bound (`$e:knows`). A word
behind `$x` that a variable or bounds follow is an edge, so `$q contains $m` is a traversal over an edge called
`contains`.

Above it: `parser`. Below it: `expressions`, `tree`, `syntax`.
"""

from __future__ import annotations

from penstock.base import limits
from penstock.definitions.source.findings import Position
from penstock.graph.query.expressions import ExpressionParser
from penstock.graph.query.tree import Binding, Clause, Exists, Expression, Negation, NotBlock, Traversal
from penstock.graph.query.words import AGGREGATES, FUNCTIONS, OPERATORS, RESERVED
from penstock.graph.schema.types import read_whole_number
from penstock.graph.syntax.cursor import Cursor
from penstock.graph.syntax.tokens import TokenKind

__all__ = ["ClauseParser"]

# Words that begin another clause, or continue a condition, when they stand behind a bare variable.
_NO_EDGE = frozenset({*RESERVED, *AGGREGATES, *FUNCTIONS, *OPERATORS, "exists", "true", "false"})
_EDGE = (TokenKind.NAME, TokenKind.STRING)


class ClauseParser:
    """Reads clauses and blocks of clauses."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.expressions = ExpressionParser(cursor, self.block)

    def block(self, place: str) -> tuple[Clause, ...]:
        """Read `{ clause+ }`."""
        cursor = self.cursor
        with cursor.nested():
            cursor.expect("{", f"after {place}")
            position = cursor.position
            broken = len(cursor.findings)
            found = cursor.block(self._clause, place)
            if not found and len(cursor.findings) == broken:
                cursor.report(f"{place} needs a clause", "bind a node: `$x: Type`", at=position)
        return found

    def _clause(self) -> Clause:
        cursor = self.cursor
        cursor.count("clauses of a query", limits.GRAPH_CLAUSES_MAX)
        position = cursor.position
        if cursor.at_kind(TokenKind.VARIABLE):
            if cursor.at(":", ahead=1):
                return self._binding(position)
            if self._at_traversal():
                return self._traversal(position)
        if cursor.at(","):
            cursor.fail("there are no commas between clauses", "remove it")
        bare_not = cursor.at_word("not") and cursor.at("{", ahead=1)
        condition = self.expressions.condition()
        if bare_not and isinstance(condition, Negation) and isinstance(condition.operand, Exists):
            return NotBlock(condition.operand.clauses, position=position)
        return condition

    # Bindings

    def _binding(self, position: Position) -> Binding:
        cursor = self.cursor
        variable = cursor.advance().text
        cursor.advance()
        hint = "names of node types begin with a capital letter"
        type_name = cursor.expect_kind(TokenKind.TYPE, "a node type", hint).text
        values: tuple[tuple[str, Expression], ...] = ()
        if cursor.take("{"):
            values = self._matches()
        return Binding(variable, type_name, values, position=position)

    def _matches(self) -> tuple[tuple[str, Expression], ...]:
        cursor = self.cursor
        if cursor.at("}"):
            cursor.fail("the braces are empty", "remove them, or write `{ property: value }`")
        found = [self.assignment()]
        while cursor.take(","):
            if cursor.at("}"):
                break
            found.append(self.assignment())
        cursor.expect("}", "after the properties")
        return tuple(found)

    def assignment(self) -> tuple[str, Expression]:
        """Read `property: value`."""
        cursor = self.cursor
        hint = "names of properties begin with a small letter"
        name = cursor.expect_kind(TokenKind.NAME, "the name of a property", hint).text
        cursor.expect(":", "after the name of a property")
        return name, self.expressions.simple_value()

    # Traversals

    def _at_traversal(self) -> bool:
        """Whether a variable at this place begins a traversal."""
        cursor = self.cursor
        following = cursor.ahead(1)
        if following.kind is TokenKind.VARIABLE:
            return cursor.at(":", ahead=2) and (not cursor.at_kind(TokenKind.TYPE, ahead=3) or self._at_capital_edge())
        if following.kind in _EDGE:
            if following.text in OPERATORS and cursor.at(".", ahead=3):
                return False
            if cursor.at_kind(TokenKind.VARIABLE, ahead=2) or self._at_bounds(2):
                return following.text not in RESERVED or following.kind is TokenKind.STRING
            return following.kind is TokenKind.NAME and following.text not in _NO_EDGE and not cursor.at("(", ahead=2)
        if cursor.at("*", ahead=1):
            return True
        if following.kind is TokenKind.TYPE:
            return cursor.at_kind(TokenKind.VARIABLE, ahead=2)
        opening = "<" if cursor.at("<", ahead=1) else "("
        if cursor.at(opening, ahead=1):
            closing = ">" if opening == "<" else ")"
            if cursor.at("*", ahead=2):
                return cursor.at(closing, ahead=3)
            return cursor.at_kind(*_EDGE, ahead=2) and (cursor.at("|", ahead=3) or cursor.at(closing, ahead=3))
        return False

    def _at_capital_edge(self) -> bool:
        """Whether `$a $e:Edge $b` stands on one line: a traversal with a mistake, not a binding behind a condition."""
        same_line = not any(self.cursor.ahead(count).starts_line for count in (1, 4))
        return same_line and self.cursor.at_kind(TokenKind.VARIABLE, ahead=4)

    def _at_bounds(self, ahead: int) -> bool:
        return self.cursor.at("{", ahead=ahead) and self.cursor.at_kind(TokenKind.INTEGER, ahead=ahead + 1)

    def _traversal(self, position: Position) -> Traversal:
        cursor = self.cursor
        source = cursor.advance().text
        edge_variable = None
        if cursor.at_kind(TokenKind.VARIABLE):
            edge_variable = cursor.advance().text
            cursor.expect(":", "after the variable of the edge")
        undirected = cursor.at("<")
        edges = self._edges()
        minimum = maximum = None
        has_bounds = cursor.at("{")
        if has_bounds:
            minimum, maximum = self._bounds()
        hint = "a traversal is `$a edge $b`; `$_` is a node that needs no name"
        target = cursor.expect_kind(TokenKind.VARIABLE, "a variable at the end of the traversal", hint).text
        return Traversal(
            source, target, edges, edge_variable, undirected, minimum, maximum, has_bounds, position=position
        )

    def _edges(self) -> tuple[str, ...]:
        cursor = self.cursor
        if cursor.at("<") or cursor.at("("):
            closing = ">" if cursor.advance().text == "<" else ")"
            edges = () if cursor.take("*") else self._alternatives()
            cursor.expect(closing, "after the edges")
            return edges
        return () if cursor.take("*") else (self._edge(),)

    def _alternatives(self) -> tuple[str, ...]:
        found = [self._edge()]
        while self.cursor.take("|"):
            self.cursor.count("clauses of a query", limits.GRAPH_CLAUSES_MAX)
            found.append(self._edge())
        return tuple(found)

    def _edge(self) -> str:
        cursor = self.cursor
        if cursor.at_kind(TokenKind.STRING):
            return cursor.advance().text
        if cursor.at_kind(TokenKind.TYPE):
            name = cursor.token.text
            hint = f"write `{name[0].lower()}{name[1:]}`"
            cursor.fail("names of edges begin with a small letter in queries", hint)
        if cursor.at_word(*RESERVED):
            name = cursor.token.text
            cursor.fail(f"`{name}` is a reserved word", f'write the name of the edge in quotes: "{name}"')
        return cursor.expect_kind(TokenKind.NAME, "the name of an edge").text

    def _bounds(self) -> tuple[int, int | None]:
        cursor = self.cursor
        cursor.advance()
        minimum = read_whole_number(cursor, "the smallest number of steps")
        cursor.expect(",", "between the numbers of steps")
        maximum = None if cursor.at("}") else read_whole_number(cursor, "the largest number of steps")
        cursor.expect("}", "after the numbers of steps")
        return minimum, maximum
