"""The arguments of a call as policies see them: one shape for each JSON Schema, for Cedar's schema and for its values.

Policies see the declared fields only. Text, whole numbers, true and false are what they are; any other number becomes
a `decimal`; an object with declared properties a record; an array a set. Fields that Cedar has no type for are left
out: objects without declared properties, alternatives of several types, and names that begin with two underscores,
which Cedar's JSON reserves for entities.

A value is never rounded and never guessed: what does not fit its shape is `Unfit`, and the call is refused. Defaults
are filled in, because the call is made with them. A null counts as absent.

Above it: `schema`, `requests`, `amounts`. Below it: JSON, and which members a schema marks as secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, TypeAlias, assert_never

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.secret_answers import is_secret

__all__ = [
    "ArrayShape",
    "Field",
    "RecordShape",
    "ScalarShape",
    "Shape",
    "Unfit",
    "allows_null",
    "cedar_type",
    "decimal_text",
    "exact_decimal",
    "project",
    "record_of",
    "resolved",
]

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_DECIMAL_MIN, _DECIMAL_MAX = Decimal("-922337203685477.5808"), Decimal("922337203685477.5807")
_DECIMAL_PLACES = 4
# Names that Cedar's JSON reads as something else than a record begin like this.
_RESERVED = "__"
_KINDS: dict[str, Literal["text", "long", "bool", "decimal"]] = {
    "string": "text",
    "integer": "long",
    "boolean": "bool",
    "number": "decimal",
}


@dataclass(frozen=True, slots=True)
class ScalarShape:
    """A text, a whole number of 64 bits, true or false, or a decimal with up to four places."""

    kind: Literal["text", "long", "bool", "decimal"]


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """A set: order and repetition are not seen by policies."""

    items: Shape


@dataclass(frozen=True, slots=True)
class Field:
    """A property of a record. `always` says that it is there in every call that fits the schema."""

    shape: Shape
    always: bool = False
    default: JsonValue = None
    """What the call is made with if the property is left out; None if nothing is filled in."""
    secret: bool = False
    """Whether the schema marks it as a secret: it is compared in a call, and never kept."""


@dataclass(frozen=True, slots=True)
class RecordShape:
    """An object with declared properties."""

    fields: Mapping[str, Field]


Shape: TypeAlias = ScalarShape | ArrayShape | RecordShape


class Unfit(ValueError):
    """A value does not fit its shape; the message says which."""


def record_of(schema: JsonObject) -> RecordShape:
    """Return the shape of arguments that a JSON Schema describes."""
    return _record(schema, schema, 0) or RecordShape({})


def _shape(schema: JsonValue, root: JsonObject, depth: int) -> Shape | None:
    """Return the shape of a schema, None if policies cannot see such values."""
    schema = resolved(schema, root)
    if schema is None or depth > limits.POLICY_INPUT_DEPTH_MAX:
        return None
    kind = _kind(schema)
    if kind in _KINDS:
        return ScalarShape(_KINDS[kind])
    if kind == "array":
        items = _shape(schema.get("items"), root, depth + 1)
        # Elements that are described one by one may have different types, which no set can hold.
        return None if items is None or "prefixItems" in schema else ArrayShape(items)
    return _record(schema, root, depth + 1) if kind == "object" or "properties" in schema else None


def _record(schema: JsonObject, root: JsonObject, depth: int) -> RecordShape | None:
    declared = schema.get("properties")
    if not isinstance(declared, dict):
        return None
    required = schema.get("required")
    names = set(required) if isinstance(required, list) else set()
    fields = {}
    for name, member in declared.items():
        shape = None if name.startswith(_RESERVED) else _shape(member, root, depth)
        if shape is not None:
            default = _default(member, root)
            always = (name in names or default is not None) and not allows_null(member, root)
            fields[name] = Field(shape, always, default, _is_secret(member, root))
    return RecordShape(fields) if fields else None


def resolved(schema: JsonValue, root: JsonObject) -> JsonObject | None:
    """Follow references, and alternatives of which only one is not null."""
    for _ in range(limits.POLICY_INPUT_DEPTH_MAX):
        if not isinstance(schema, dict):
            return None
        if "$ref" in schema:
            schema = _referred(schema["$ref"], root)
            continue
        alternatives = schema.get("anyOf", schema.get("oneOf"))
        if not isinstance(alternatives, list):
            return None if _is_combined(schema) else schema
        others = [item for item in alternatives if not _is_null(item)]
        if len(others) != 1:
            return None
        schema = others[0]
    return None


def _referred(reference: JsonValue, root: JsonObject) -> JsonValue:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found: JsonValue = root
    for part in reference[2:].split("/"):
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found


def _is_combined(schema: JsonObject) -> bool:
    return any(name in schema for name in ("allOf", "not", "if", "$dynamicRef")) and "type" not in schema


def _is_null(schema: JsonValue) -> bool:
    return isinstance(schema, dict) and (schema.get("type") == "null" or schema.get("const", ...) is None)


def _kind(schema: JsonObject) -> str:
    """Return the one type of a schema besides null; an empty text if there are several or none."""
    kind = schema.get("type")
    if isinstance(kind, list):
        others = [item for item in kind if item != "null"]
        # Every whole number is a number, too.
        kind = "number" if set(others) == {"integer", "number"} else others[0] if len(others) == 1 else None
    if kind is None:
        listed = schema.get("enum", [schema["const"]] if "const" in schema else [])
        if isinstance(listed, list) and listed and all(isinstance(item, str) for item in listed):
            return "string"
    return kind if isinstance(kind, str) else ""


def _default(schema: JsonValue, root: JsonObject) -> JsonValue:
    if isinstance(schema, dict) and "default" in schema:
        return schema["default"]
    found = resolved(schema, root)
    return found.get("default") if found is not None else None


def _is_secret(schema: JsonValue, root: JsonObject) -> bool:
    return is_secret(schema) or is_secret(resolved(schema, root))


def allows_null(schema: JsonValue, root: JsonObject) -> bool:
    """Whether a value may be null, as far as that can be seen."""
    if not isinstance(schema, dict):
        return True
    if "$ref" in schema:
        found = _referred(schema["$ref"], root)
        return allows_null(found, {}) if isinstance(found, dict) and "$ref" not in found else True
    kind = schema.get("type")
    alternatives = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(alternatives, list):
        return any(map(_is_null, alternatives))
    return "null" in kind if isinstance(kind, list) else kind == "null"


def cedar_type(shape: Shape) -> dict[str, Any]:
    """Return a shape as a type of Cedar's JSON schema."""
    match shape:
        case ScalarShape(kind="text"):
            return {"type": "String"}
        case ScalarShape(kind="long"):
            return {"type": "Long"}
        case ScalarShape(kind="bool"):
            return {"type": "Boolean"}
        case ScalarShape():
            return {"type": "Extension", "name": "decimal"}
        case ArrayShape(items=items):
            return {"type": "Set", "element": cedar_type(items)}
        case RecordShape(fields=fields):
            attributes = {
                name: {**cedar_type(item.shape), "required": item.always} for name, item in sorted(fields.items())
            }
            return {"type": "Record", "attributes": attributes}
        case _:
            assert_never(shape)


class _Budget:
    """Counts values, so that converting hostile arguments stays cheap."""

    def __init__(self) -> None:
        self._left = limits.POLICY_INPUT_VALUES_MAX

    def take(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Unfit(f"more than {limits.POLICY_INPUT_VALUES_MAX} values")


def project(shape: RecordShape, arguments: Mapping[str, JsonValue], read: frozenset[str] | None = None) -> JsonObject:
    """Return the declared fields of arguments as Cedar's JSON; raise `Unfit` for a value that has no place there.

    `read` names the top-level fields that policies read; None means all of them.
    """
    budget = _Budget()
    wanted = shape.fields if read is None else {name: shape.fields[name] for name in read if name in shape.fields}
    return dict(_members(wanted, arguments, budget, ""))


def _members(
    fields: Mapping[str, Field], given: Mapping[str, JsonValue], budget: _Budget, place: str
) -> Iterator[tuple[str, JsonValue]]:
    for name, item in fields.items():
        value = given.get(name, item.default)
        if value is not None:
            yield name, _projected(item.shape, value, budget, f"{place}/{name}")


def _projected(shape: Shape, value: JsonValue, budget: _Budget, place: str) -> JsonValue:
    budget.take()
    match shape:
        case ScalarShape(kind="text") if isinstance(value, str):
            return _text(value, place)
        case ScalarShape(kind="bool") if isinstance(value, bool):
            return value
        case ScalarShape(kind="long") if isinstance(value, (int, float)) and not isinstance(value, bool):
            return _long(value, place)
        case ScalarShape(kind="decimal") if isinstance(value, (int, float)) and not isinstance(value, bool):
            return {"__extn": {"fn": "decimal", "arg": _decimal_text(value, place)}}
        case ArrayShape(items=items) if isinstance(value, list):
            return [
                _projected(items, item, budget, f"{place}/{index}")
                for index, item in enumerate(value)
                if item is not None
            ]
        case RecordShape(fields=fields) if isinstance(value, dict):
            return dict(_members(fields, value, budget, place))
        case _:
            raise Unfit(f"{place} has not the declared type")


def _text(value: str, place: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unfit(f"{place} is not Unicode text") from None
    return value


def _long(value: int | float, place: str) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise Unfit(f"{place} is not a whole number")
    if not _LONG_MIN <= value <= _LONG_MAX:
        raise Unfit(f"{place} needs more than 64 bits")
    return int(value)


def exact_decimal(value: int | float, place: str) -> Decimal:
    """Return a number as it was written; raise `Unfit` if Cedar's decimals cannot hold it without rounding."""
    try:
        # The shortest text that reads back as this number is what the caller wrote, or equal to it.
        number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        kept = number.quantize(Decimal(1).scaleb(-_DECIMAL_PLACES))
    except InvalidOperation:
        raise Unfit(f"{place} is outside the range of a decimal") from None
    if kept != number:
        raise Unfit(f"{place} has more than {_DECIMAL_PLACES} decimal places")
    if not _DECIMAL_MIN <= kept <= _DECIMAL_MAX:
        raise Unfit(f"{place} is outside the range of a decimal")
    return kept


def _decimal_text(value: int | float, place: str) -> str:
    return decimal_text(exact_decimal(value, place))


def decimal_text(number: Decimal) -> str:
    """Return a number as the text of a Cedar decimal: at least one place, at most four."""
    plain = f"{number:f}".rstrip("0")
    plain = f"{plain}0" if plain.endswith(".") else plain if "." in plain else f"{number:f}.0"
    return "0.0" if plain == "-0.0" else plain
