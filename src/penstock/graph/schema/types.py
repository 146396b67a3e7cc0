"""Value types as they are written: reading one from tokens, and writing it.

Above it: the parsers of both languages, the formatters, messages. Below it: `model` and `syntax`.
"""

from __future__ import annotations

from decimal import Decimal

from penstock.base import limits
from penstock.graph.schema.model import Base, Enum, ListOf, Scalar, ValueType, Vector
from penstock.graph.syntax.cursor import Cursor
from penstock.graph.syntax.tokens import Token, TokenKind

__all__ = ["BASES", "read_fraction", "read_type", "read_whole_number", "written_fraction", "written_type"]

BASES = tuple(str(base) for base in Base)
_VALUE_KINDS = (TokenKind.NAME, TokenKind.TYPE, TokenKind.INTEGER)
# Longer runs of digits are no number that anyone means, and Python refuses to convert the longest.
_DIGITS_MAX = 20
_FRACTION_CHARACTERS_MAX = 100
_FRACTION_MAX = 1e30


def written_type(value_type: ValueType, *, nullable: bool = False) -> str:
    """Write a type in the syntax of both languages."""
    mark = "?" if nullable else ""
    match value_type:
        case Scalar(base):
            return f"{base}{mark}"
        case ListOf(base):
            return f"[{base}]{mark}"
        case Enum(values):
            return f"enum({', '.join(values)}){mark}"
        case Vector(dimension):
            return f"Vector({dimension}){mark}"


def read_whole_number(cursor: Cursor, what: str) -> int:
    """Read a whole number without a sign."""
    if cursor.at("-"):
        cursor.fail(f"{what} is not negative")
    token = cursor.expect_kind(TokenKind.INTEGER, what)
    if len(token.text) > _DIGITS_MAX:
        cursor.report(f"the number has more than {_DIGITS_MAX} digits", at=token.position)
        return 0
    return int(token.text)


def read_fraction(cursor: Cursor) -> float:
    """Read a number with a decimal point."""
    token = cursor.advance()
    value = float(token.text) if len(token.text) <= _FRACTION_CHARACTERS_MAX else _FRACTION_MAX * 2
    if value > _FRACTION_MAX:
        cursor.report("the number is too long or too large", "pass it as a parameter", at=token.position)
        return 0.0
    return value


def written_fraction(value: float) -> str:
    """Write a number with a decimal point and without an exponent, which the languages do not have."""
    text = format(Decimal(repr(value)), "f")
    return text if "." in text else f"{text}.0"


def _base(cursor: Cursor) -> Base:
    if cursor.at("["):
        cursor.fail("a list has no lists in it", "a list has items of a base type, such as [String]")
    token = cursor.token
    if token.kind is not TokenKind.TYPE or token.text not in BASES:
        if token.text == "Vector":
            cursor.fail("a list has no Vectors in it", "a list has items of a base type, such as [F32]")
        hint = cursor.suggestions.nearest(token.text, (*BASES, "Vector"))
        types = f"types are {', '.join(BASES)}, [T], Vector(n)"
        cursor.fail(f"expected a type, not {token.shown}", f"did you mean `{hint}`?" if hint else types)
    cursor.advance()
    return Base(token.text)


def _enum_value(cursor: Cursor) -> str:
    """Read a value of letters, digits, `_` and `-`, which are several tokens without space between them."""
    first = cursor.token
    last: Token | None = None
    text = ""
    while (cursor.token.kind in _VALUE_KINDS or cursor.at("-")) and (last is None or last.end == cursor.token.start):
        last = cursor.advance()
        text += last.text
    if last is None:
        if first.kind is TokenKind.STRING:
            cursor.fail("values of an enum have no quotes", "write enum(open, closed)")
        cursor.fail(f"expected a value of the enum, not {first.shown}", "values have letters, digits, `_` and `-`")
    return text


def _enum(cursor: Cursor) -> Enum:
    cursor.advance()
    cursor.expect("(", "after `enum`")
    cursor.restart_count("values of an enum")
    values: list[str] = []
    while True:
        cursor.count("values of an enum", limits.GRAPH_ENUM_VALUES_MAX)
        values.append(_enum_value(cursor))
        if not cursor.take(","):
            break
    cursor.expect(")", "after the values of an enum")
    return Enum(tuple(values))


def _vector(cursor: Cursor) -> Vector:
    cursor.advance()
    cursor.expect("(", "after `Vector`")
    position = cursor.position
    dimension = read_whole_number(cursor, "the length of the vector")
    if not 1 <= dimension <= limits.GRAPH_VECTOR_DIMENSION_MAX:
        message = f"a vector has 1 to {limits.GRAPH_VECTOR_DIMENSION_MAX} numbers"
        cursor.report(message, code="VECTOR_DIMENSION", at=position)
        dimension = 1
    cursor.expect(")", "after the length of the vector")
    return Vector(dimension)


def read_type(cursor: Cursor) -> tuple[ValueType, bool]:
    """Read a type, and whether it is nullable."""
    found: ValueType
    if cursor.take("["):
        found = ListOf(_base(cursor))
        cursor.expect("]", "after the type of the items")
    elif cursor.at_word("enum"):
        found = _enum(cursor)
    elif cursor.at_kind(TokenKind.TYPE) and cursor.token.text == "Vector":
        found = _vector(cursor)
    else:
        found = Scalar(_base(cursor))
    return found, cursor.take("?")
