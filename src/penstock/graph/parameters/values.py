"""JSON values to typed values and back: what is accepted for which type, and why.

| Type | Accepted | Refused |
| --- | --- | --- |
| `String` | texts up to `GRAPH_STRING_BYTES_MAX` | U+0000, which PostgreSQL cannot store; half of a surrogate pair |
| `Bool` | `true`, `false` | 0, 1, "true" |
| `I32` `U32` | numbers without a fraction in range: `5`, `5.0` | texts, `true`, `5.5` |
| `I64` `U64` | the same, and texts of digits: programs that know only doubles cannot write 2^53 + 1 as a number |
`"5.0"` |
| `F32` `F64` | numbers; `F32` rounds to 32 bits | texts, `true`, NaN, infinity, what is too large for the type |
| `Date` | `"2026-01-31"`, a day of the calendar | times of day, February 30 |
| `DateTime` | RFC 3339 (see `calendar`); without an offset it is UTC; cut to milliseconds | numbers, a day without a
time |
| `Blob` | `"base64:…"`, in the standard alphabet, padded | URIs: the server fetches nothing for a caller |
| `Vector(n)` | exactly n numbers, each as for `F32` | other lengths |
| `[T]` | up to `GRAPH_LIST_ITEMS_MAX` items, each as for `T` | null items, nested lists |
| enum | one of its values, exactly | other texts |

`5.0` is an integer because it is one in JSON Schema, and because some programs print every number like that. Null is
accepted for a nullable type only.

Back to JSON, `I64` and `U64` are texts if asked for, `F32` is the shortest number that rounds to the same 32 bits, and
`DateTime` is `2026-01-31T09:00:00.000Z`.

Above it: `calls`, `records`, the stores. Below it: `calendar`, `values`. The JSON Schemas of `schemas` accept the same
values, apart from what a schema cannot say.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from struct import pack, unpack

from penstock.base import limits
from penstock.base.json import JsonValue
from penstock.graph.calendar import parse_date, parse_date_time, written_date_time
from penstock.graph.schema.model import Base, Enum, ListOf, Scalar, ValueType, Vector
from penstock.graph.values import F32_MAX, INTEGER_RANGES, GraphItem, GraphValue

__all__ = ["BLOB_PREFIX", "Unfit", "from_json", "to_json"]

BLOB_PREFIX = "base64:"
_SIGNED = re.compile("-?[0-9]{1,19}", re.ASCII)
_UNSIGNED = re.compile("[0-9]{1,20}", re.ASCII)
_F32_DIGITS = (6, 7, 8, 9)


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why a value does not have the type. `path` has the place inside a list."""

    message: str
    path: tuple[int, ...] = ()


def _shown(value: JsonValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return "a text"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case dict():
            return "an object"


def _text(value: JsonValue) -> GraphItem | Unfit:
    if not isinstance(value, str):
        return Unfit(f"needs a text, not {_shown(value)}")
    if "\0" in value:
        return Unfit("has the character U+0000, which is not allowed")
    try:
        size = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError:
        return Unfit("has half of a surrogate pair")
    if size > limits.GRAPH_STRING_BYTES_MAX:
        return Unfit(f"has {size} bytes; {limits.GRAPH_STRING_BYTES_MAX} are allowed")
    return value


def _bool(value: JsonValue) -> GraphItem | Unfit:
    return value if isinstance(value, bool) else Unfit(f"needs true or false, not {_shown(value)}")


def _integer(value: JsonValue, base: Base) -> GraphItem | Unfit:
    smallest, largest = INTEGER_RANGES[base]
    wide = base in (Base.I64, Base.U64)
    if isinstance(value, str) and wide:
        digits = (_SIGNED if smallest else _UNSIGNED).fullmatch(value)
        if digits is None:
            return Unfit("needs a whole number, or a text of its digits")
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        kind = "a number with a fraction" if isinstance(value, float) else _shown(value)
        return Unfit(f"needs a whole number, not {kind}")
    if not smallest <= value <= largest:
        return Unfit(f"is not between {smallest} and {largest}")
    return value


def _float(value: JsonValue, base: Base) -> GraphItem | Unfit:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Unfit(f"needs a number, not {_shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or (base is Base.F32 and abs(number) > F32_MAX):
        return Unfit(f"is not a finite number of type {base}")
    return float(unpack("<f", pack("<f", number))[0]) if base is Base.F32 else number


def _date(value: JsonValue) -> GraphItem | Unfit:
    day = parse_date(value) if isinstance(value, str) else None
    return Unfit('needs a day of the calendar, such as "2026-01-31"') if day is None else day


def _date_time(value: JsonValue) -> GraphItem | Unfit:
    time = parse_date_time(value) if isinstance(value, str) else None
    return Unfit('needs a time, such as "2026-01-31T09:00:00Z"') if time is None else time


def _blob(value: JsonValue) -> GraphItem | Unfit:
    if not isinstance(value, str) or not value.startswith(BLOB_PREFIX):
        return Unfit(f'needs a text that begins with "{BLOB_PREFIX}"')
    try:
        return base64.b64decode(value[len(BLOB_PREFIX) :].encode("ascii", "replace"), validate=True)
    except (binascii.Error, ValueError):
        return Unfit("is not valid base64")


_READERS: dict[Base, Callable[[JsonValue], GraphItem | Unfit]] = {
    Base.STRING: _text,
    Base.BOOL: _bool,
    Base.DATE: _date,
    Base.DATE_TIME: _date_time,
    Base.BLOB: _blob,
}


def _scalar(value: JsonValue, base: Base) -> GraphItem | Unfit:
    if base in INTEGER_RANGES:
        return _integer(value, base)
    if base in (Base.F32, Base.F64):
        return _float(value, base)
    return _READERS[base](value)


def _items(value: JsonValue, base: Base, length: int | None) -> GraphValue | Unfit:
    if not isinstance(value, list):
        return Unfit(f"needs a list, not {_shown(value)}")
    if length is not None and len(value) != length:
        return Unfit(f"needs exactly {length} numbers, not {len(value)}")
    if len(value) > max(limits.GRAPH_LIST_ITEMS_MAX, length or 0):
        return Unfit(f"has {len(value)} items; {limits.GRAPH_LIST_ITEMS_MAX} are allowed")
    found: list[GraphItem] = []
    for index, each in enumerate(value):
        item = _scalar(each, base)
        if isinstance(item, Unfit):
            return Unfit(item.message, (index,))
        found.append(item)
    return tuple(found)


def from_json(value: JsonValue, value_type: ValueType, *, nullable: bool = False) -> GraphValue | Unfit | None:
    """Turn a JSON value into a value of a type, or say why it does not fit."""
    if value is None:
        return None if nullable else Unfit("must not be null")
    match value_type:
        case Scalar(base):
            return _scalar(value, base)
        case ListOf(base):
            return _items(value, base, None)
        case Vector(dimension):
            return _items(value, Base.F32, dimension)
        case Enum(values):
            if isinstance(value, str) and value in values:
                return value
            return Unfit(f"needs one of {', '.join(values)}")


def _written(value: GraphItem, base: Base, *, wide_as_text: bool) -> JsonValue:
    if isinstance(value, bytes):
        return BLOB_PREFIX + base64.b64encode(value).decode("ascii")
    if base is Base.DATE_TIME and isinstance(value, int):
        return written_date_time(value)
    if base is Base.F32 and isinstance(value, float):
        return _shortest(value)
    if base in (Base.I64, Base.U64) and wide_as_text:
        return str(value)
    return value


def _shortest(value: float) -> float:
    exact = pack("<f", value)
    for digits in _F32_DIGITS:
        short = float(f"{value:.{digits}g}")
        if abs(short) <= F32_MAX and pack("<f", short) == exact:
            return short
    return value


def to_json(value: GraphValue | None, value_type: ValueType, *, wide_as_text: bool = False) -> JsonValue:
    """Turn a value of a type into JSON; with `wide_as_text`, integers of 64 bits become texts."""
    if value is None:
        return None
    match value_type:
        case Scalar(base) if not isinstance(value, tuple):
            return _written(value, base, wide_as_text=wide_as_text)
        case ListOf(base) if isinstance(value, tuple):
            return [_written(each, base, wide_as_text=wide_as_text) for each in value]
        case Vector() if isinstance(value, tuple):
            return [_written(each, Base.F32, wide_as_text=wide_as_text) for each in value]
        case _:
            return str(value)
