"""JSON Schemas of values and parameters (2020-12), in the subset that the tools of language models understand.

Only `type`, `properties`, `required`, `items`, `minItems`, `maxItems`, `pattern`, `minimum`, `maximum`, `enum`,
`additionalProperties`, `format` and `description` are used. A type that is nullable, or an integer that may be a
text, is a list of types: some clients refuse `anyOf`.

A schema accepts what `values` accepts, and refuses the rest, apart from what a schema cannot say. It is wider there:

- `String`: the length in bytes, U+0000, half of a surrogate pair
- `I64` and `U64`: the range of numbers that are written as texts
- `Date` and `DateTime`: days and times that are not in the calendar
- `Blob`: base64 that has the right characters, but not the right length

`format` is an annotation for people and clients; the pattern next to it is what counts, and accepts a time without an
offset, which `format` does not.

Above it: `tools`, `answers`. Below it: `values` for the bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.graph.calendar import DATE_PATTERN, DATE_TIME_PATTERN
from penstock.graph.schema.model import Base, Enum, ListOf, Scalar, ValueType, Vector
from penstock.graph.typing.model import CheckedParameter
from penstock.graph.values import F32_MAX, INTEGER_RANGES

__all__ = ["input_schema", "parameters_schema", "type_schema"]

_F64_MAX: Final = 1.7976931348623157e308
_WIDE_NOTE = "Write numbers beyond 2^53 as texts."
_NULL_NOTE = "May be null or left out; a comparison with null matches nothing."
_VECTOR_NOTE = "An embedding, computed before the call; a language model cannot write it."


def _scalar(base: Base) -> JsonObject:
    match base:
        case Base.STRING:
            return {"type": "string"}
        case Base.BOOL:
            return {"type": "boolean"}
        case Base.I32 | Base.U32:
            smallest, largest = INTEGER_RANGES[base]
            return {"type": "integer", "minimum": smallest, "maximum": largest}
        case Base.I64 | Base.U64:
            smallest, largest = INTEGER_RANGES[base]
            pattern = "^-?[0-9]{1,19}$" if smallest else "^[0-9]{1,20}$"
            return {"type": ["integer", "string"], "minimum": smallest, "maximum": largest, "pattern": pattern}
        case Base.F32:
            return {"type": "number", "minimum": -F32_MAX, "maximum": F32_MAX}
        case Base.F64:
            return {"type": "number", "minimum": -_F64_MAX, "maximum": _F64_MAX}
        case Base.DATE:
            return {"type": "string", "format": "date", "pattern": DATE_PATTERN}
        case Base.DATE_TIME:
            return {"type": "string", "format": "date-time", "pattern": DATE_TIME_PATTERN}
        case Base.BLOB:
            return {"type": "string", "pattern": "^base64:[A-Za-z0-9+/]*={0,2}$"}


def type_schema(value_type: ValueType, *, nullable: bool = False, values: Sequence[str] | None = None) -> JsonObject:
    """Return the schema of a type; `values` are the only ones of a text, or of the items of a list of texts."""
    schema: JsonObject
    match value_type:
        case Scalar(base):
            schema = _scalar(base)
        case Enum():
            schema = {"type": "string", "enum": list(value_type.values)}
        case ListOf(base):
            items = type_schema(Scalar(base), values=values)
            schema = {"type": "array", "items": items, "maxItems": limits.GRAPH_LIST_ITEMS_MAX}
        case Vector(dimension):
            schema = {"type": "array", "items": _scalar(Base.F32), "minItems": dimension, "maxItems": dimension}
    if values is not None and not isinstance(value_type, ListOf):
        schema["enum"] = list(values)
    return _nullable(schema) if nullable else schema


def _nullable(schema: JsonObject) -> JsonObject:
    types = schema["type"]
    kinds: list[JsonValue] = [*types, "null"] if isinstance(types, list) else [types, "null"]
    nullable: JsonObject = {**schema, "type": kinds}
    enum = nullable.get("enum")
    if isinstance(enum, list):
        nullable["enum"] = [*enum, None]
    return nullable


def _described(parameter: CheckedParameter) -> str | None:
    base = parameter.type.base if isinstance(parameter.type, Scalar | ListOf) else None
    notes = [
        parameter.description or "",
        _WIDE_NOTE if base in (Base.I64, Base.U64) else "",
        _VECTOR_NOTE if isinstance(parameter.type, Vector) else "",
        _NULL_NOTE if parameter.nullable else "",
    ]
    return " ".join(note for note in notes if note) or None


def parameters_schema(parameters: Sequence[CheckedParameter]) -> JsonObject:
    """Return the schema of the parameters of a query."""
    properties: JsonObject = {}
    for each in parameters:
        schema = type_schema(each.type, nullable=each.nullable, values=each.values)
        description = _described(each)
        properties[each.name] = schema if description is None else {**schema, "description": description}
    required: list[JsonValue] = [each.name for each in parameters if not each.nullable]
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def input_schema(parameters: Sequence[CheckedParameter], *, mutation: bool) -> JsonObject:
    """Return the schema of a call: parameters nested, so that none of them can be mistaken for `branch`."""
    inner = parameters_schema(parameters)
    properties: JsonObject = {
        "params": {**inner, "description": "The parameters of the query."},
        "branch": {"type": "string", "description": "The branch of the graph; the main branch if it is left out."},
    }
    if not mutation:
        text = "The identifier of a commit, to read the graph as it was. Not together with `branch`."
        properties["snapshot"] = {"type": "string", "description": text}
    schema: JsonObject = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": ["params"]} if "required" in inner else schema
