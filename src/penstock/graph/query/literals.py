"""Literals of the query language.

Above it: `expressions`. Below it: `tree`, `syntax`. Whether a date is a real day is up to `typing`.
"""

from __future__ import annotations

from penstock.base import limits
from penstock.graph.query.tree import Constant, ListLiteral
from penstock.graph.schema.types import read_fraction, read_whole_number
from penstock.graph.syntax.cursor import Cursor
from penstock.graph.syntax.tokens import TokenKind

__all__ = ["at_literal", "read_literal"]

_KINDS = (TokenKind.STRING, TokenKind.INTEGER, TokenKind.FLOAT)


def at_literal(cursor: Cursor) -> bool:
    """Whether a literal begins here."""
    if cursor.at_kind(*_KINDS) or cursor.at("["):
        return True
    if cursor.at_word("true", "false"):
        return True
    return cursor.at_word("date", "datetime") and cursor.at("(", ahead=1)


def read_literal(cursor: Cursor) -> Constant | ListLiteral:
    """Read a literal that `at_literal` has found."""
    if not cursor.at("["):
        return _constant(cursor)
    position = cursor.position
    cursor.advance()
    cursor.restart_count("items of a list")
    items: list[Constant] = []
    while not cursor.at("]"):
        cursor.count("items of a list", limits.GRAPH_LIST_ITEMS_MAX)
        if cursor.at("["):
            cursor.fail("a list has no lists in it", "items are single values")
        if not at_literal(cursor):
            cursor.fail(f"expected a literal, not {cursor.token.shown}", "items of a list are literals")
        items.append(_constant(cursor))
        if not cursor.take(","):
            break
    cursor.expect("]", "after the items of a list")
    return ListLiteral(tuple(items), position=position)


def _constant(cursor: Cursor) -> Constant:
    position = cursor.position
    token = cursor.token
    if token.kind is TokenKind.STRING:
        return Constant(cursor.advance().text, "string", position=position)
    if token.kind is TokenKind.INTEGER:
        number = read_whole_number(cursor, "a number")
        if cursor.token.start == token.end and cursor.at_kind(TokenKind.NAME, TokenKind.TYPE):
            cursor.fail(f"`{token.text}{cursor.token.text}` is not a number", "there are no exponents and no units")
        return Constant(number, "integer", position=position)
    if token.kind is TokenKind.FLOAT:
        return Constant(read_fraction(cursor), "float", position=position)
    if cursor.at_word("true", "false"):
        return Constant(cursor.advance().text == "true", "bool", position=position)
    word = cursor.advance().text
    cursor.expect("(", f"after `{word}`")
    text = cursor.expect_kind(TokenKind.STRING, f'a text in quotes, such as {word}("2026-01-31")').text
    cursor.expect(")", f"after the text of `{word}`")
    return Constant(text, "date" if word == "date" else "datetime", position=position)
