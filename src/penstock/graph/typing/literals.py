"""Literals as typed values, by the type of what they are compared with or assigned to.

Above it: `operands`, `mutations`. Below it: `patterns`, `calendar`.
"""

from __future__ import annotations

from struct import error as struct_error
from struct import pack, unpack

from penstock.graph.calendar import parse_date, parse_date_time
from penstock.graph.query.tree import Constant, ListLiteral
from penstock.graph.schema.model import Base, Enum, ListOf, Scalar, ValueType, Vector
from penstock.graph.schema.types import written_type
from penstock.graph.typing.patterns import ConstantList, ConstantValue
from penstock.graph.values import INTEGER_RANGES, GraphItem

__all__ = ["NUMBERS", "constant_for", "is_number", "list_for", "plain_constant"]

NUMBERS = frozenset({*INTEGER_RANGES, Base.F32, Base.F64})
_EXAMPLES = {
    "date": 'a day, such as date("2026-01-31")',
    "datetime": 'a time, such as datetime("2026-01-31T09:00:00Z")',
}


def is_number(value_type: object) -> bool:
    """Whether values of the type are numbers."""
    return isinstance(value_type, Scalar) and value_type.base in NUMBERS


def plain_constant(constant: Constant) -> ConstantValue | str:
    """Return a literal with the type that it has by itself; a text says what is wrong with it."""
    match constant.kind:
        case "string":
            return ConstantValue(constant.value, Scalar(Base.STRING))
        case "bool":
            return ConstantValue(constant.value, Scalar(Base.BOOL))
        case "float":
            return ConstantValue(constant.value, Scalar(Base.F64))
        case "integer":
            number = int(constant.value)
            base = Base.I64 if number <= INTEGER_RANGES[Base.I64][1] else Base.U64
            if number > INTEGER_RANGES[Base.U64][1]:
                return f"{number} is larger than every integer type"
            return ConstantValue(number, Scalar(base))
        case "date":
            day = parse_date(str(constant.value))
            return f"`{constant.value}` is not {_EXAMPLES['date']}" if day is None else _typed(day, Base.DATE)
        case "datetime":
            time = parse_date_time(str(constant.value))
            wrong = f"`{constant.value}` is not {_EXAMPLES['datetime']}"
            return wrong if time is None else _typed(time, Base.DATE_TIME)


def _typed(value: GraphItem, base: Base) -> ConstantValue:
    return ConstantValue(value, Scalar(base))


def constant_for(constant: Constant, wanted: ValueType, *, exact: bool) -> ConstantValue | str:
    """Return a literal as a value of a type; a text says why it does not fit.

    With `exact` the value is to be stored, and has to be one of the type. Otherwise it is compared, and any number
    will do where a number is wanted.
    """
    plain = plain_constant(constant)
    if isinstance(plain, str):
        return plain
    match wanted:
        case Enum(values):
            if plain.type != Scalar(Base.STRING):
                return f"it is {plain.type.base}, not a text" if isinstance(plain.type, Scalar) else "it is not a text"
            if plain.value not in values:
                return f'"{constant.value}" is not one of {", ".join(values)}'
            return ConstantValue(plain.value, wanted)
        case Scalar(base) if base in NUMBERS and is_number(plain.type):
            return _number(plain, base, exact=exact)
        case Scalar(base):
            if plain.type == wanted:
                return plain
            return f"it is {written_type(plain.type)}, not {base}"
        case _:
            return f"it is {written_type(plain.type)}, not {written_type(wanted)}"


def _number(plain: ConstantValue, base: Base, *, exact: bool) -> ConstantValue | str:
    value = plain.value
    if not isinstance(value, int | float):
        return f"it is not of type {base}"
    if base in INTEGER_RANGES:
        smallest, largest = INTEGER_RANGES[base]
        if isinstance(value, int) and smallest <= value <= largest:
            return _typed(value, base)
        return f"{value} is not of type {base}" if exact else plain
    number = float(value)
    if base is Base.F32:
        try:
            rounded = float(unpack("<f", pack("<f", number))[0])
        except (OverflowError, struct_error):
            return f"{value} is too large for F32" if exact else plain
        if exact or rounded == value:
            return _typed(rounded, base)
        return plain
    return _typed(number, base) if exact or number == value else plain


def list_for(literal: ListLiteral, wanted: ListOf | Vector | Enum | Scalar, *, exact: bool) -> ConstantList | str:
    """Return a list literal for a list property, a Vector, or (a `Scalar` or `Enum`) as the list behind `in`."""
    if isinstance(wanted, Vector):
        if len(literal.items) != wanted.dimension:
            return f"it has {len(literal.items)} numbers, not {wanted.dimension}"
        item_type: Scalar | Enum = Scalar(Base.F32)
    else:
        item_type = Scalar(wanted.base) if isinstance(wanted, ListOf) else wanted
    items: list[GraphItem] = []
    for each in literal.items:
        value = constant_for(each, item_type, exact=exact or isinstance(wanted, Vector))
        if isinstance(value, str):
            return value
        items.append(value.value)
    if isinstance(wanted, Vector):
        return ConstantList(tuple(items), wanted)
    return ConstantList(tuple(items), ListOf(item_type.base if isinstance(item_type, Scalar) else Base.STRING))
