"""JSON Schema: compiled once, cached, never fetched from elsewhere; violations in AJV's words.

Draft 2020-12 unless the schema names another. `format` is an annotation, as the draft says. References lead only to
places inside the schema: nothing is ever read from a network or a file. Values must not be nested deeper than
`limits.JSON_DEPTH_MAX`; the edges check that, because the validator recurses in native code.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import jsonschema_rs
import msgspec

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue, json_pointer
from penstock.definitions.schema_violations import Violation, violations_of

__all__ = [
    "CompiledSchema",
    "SchemaProblem",
    "Violation",
    "apply_defaults",
    "compile_schema",
    "is_valid",
    "violations",
]

encode_sorted: Final = msgspec.json.Encoder(order="sorted").encode


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """A schema ready to check values."""

    schema: JsonObject
    check: Callable[[Any], bool] = field(compare=False, repr=False)
    errors: Callable[[Any], Iterator[jsonschema_rs.ValidationError]] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """Why a schema cannot be used, and where in it (JSON pointer)."""

    message: str
    path: str


def compile_schema(schema: JsonObject) -> CompiledSchema | SchemaProblem:
    """Compile a schema; equal schemas share one compiled form while it is in the cache."""
    try:
        return _compile(encode_sorted(schema))
    except (RecursionError, UnicodeEncodeError):
        return SchemaProblem("the schema is nested too deeply or contains text that is not Unicode", "")


def is_valid(compiled: CompiledSchema, value: JsonValue) -> bool:
    """Say whether a value fits a schema; much faster than asking for the violations."""
    return compiled.check(value)


def violations(compiled: CompiledSchema, value: JsonValue) -> tuple[Violation, ...]:
    """Every way in which a value does not fit, at most `limits.SCHEMA_VIOLATIONS_MAX` of them."""
    found = _all_violations(compiled, value)
    return tuple(dict.fromkeys(islice(found, limits.SCHEMA_VIOLATIONS_MAX)))


def apply_defaults(schema: JsonObject, value: JsonValue) -> JsonValue:
    """The value with the defaults of missing properties filled in; the value itself is not changed.

    Looks into `properties`, `items`, `prefixItems`, `allOf` and references inside the schema, not into alternatives.
    """
    return _with_defaults(schema, schema, value, 0)


@lru_cache(maxsize=limits.SCHEMA_CACHE_ENTRIES_MAX)
def _compile(text: bytes) -> CompiledSchema | SchemaProblem:
    schema = msgspec.json.decode(text, type=dict[str, Any])
    try:
        validator = jsonschema_rs.validator_for(schema, offline=True)
    except jsonschema_rs.ValidationError as error:
        return _problem(error, schema)
    except ValueError as error:
        return SchemaProblem(str(error), "")
    return CompiledSchema(schema, validator.is_valid, validator.iter_errors)


def _all_violations(compiled: CompiledSchema, value: JsonValue) -> Iterator[Violation]:
    try:
        for error in compiled.errors(value):
            yield from violations_of(error, compiled.schema, value)
    except UnicodeEncodeError:
        yield Violation("", "type", "must be text that is valid Unicode")
    except ValueError:
        yield Violation("", "type", f"must not be nested deeper than {limits.JSON_DEPTH_MAX} levels")


def _problem(error: jsonschema_rs.ValidationError, schema: JsonObject) -> SchemaProblem:
    if error.schema_path or error.instance_path:
        # The first of the flattened violations is the most specific one.
        first = next(violations_of(error, {}, schema))
        return SchemaProblem(f"{first.message} (keyword `{first.keyword}`)", first.instance_path)
    for path, reference in _references(schema, ()):
        if not reference.startswith("#"):
            message = f"`{reference}` is not part of this schema; references to other documents are not followed"
            return SchemaProblem(message, path)
        if _target(schema, reference) is None:
            return SchemaProblem(f"`{reference}` leads nowhere in this schema", path)
    return SchemaProblem(error.message, "")


def _references(value: JsonValue, path: tuple[str | int, ...]) -> Iterator[tuple[str, str]]:
    members: Iterator[tuple[str | int, JsonValue]] = iter(())
    if isinstance(value, dict):
        members = iter(value.items())
    elif isinstance(value, list):
        members = iter(enumerate(value))
    for name, member in members:
        if name in ("$ref", "$dynamicRef") and isinstance(member, str):
            yield json_pointer((*path, name)), member
        else:
            yield from _references(member, (*path, name))


def _target(schema: JsonObject, reference: str) -> JsonObject | None:
    """The schema a local reference leads to, or None."""
    if reference == "#":
        return schema
    if not reference.startswith("#/"):
        return None
    place: JsonValue = schema
    for escaped in reference[2:].split("/"):
        name = escaped.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict):
            place = place.get(name)
        elif isinstance(place, list) and name.isdecimal() and int(name) < len(place):
            place = place[int(name)]
        else:
            return None
    return place if isinstance(place, dict) else None


def _with_defaults(root: JsonObject, schema: JsonValue, value: JsonValue, depth: int) -> JsonValue:
    # A schema that refers to itself in a default would fill in without end.
    if not isinstance(schema, dict) or depth > limits.JSON_DEPTH_MAX:
        return value
    reference = schema.get("$ref")
    if isinstance(reference, str):
        value = _with_defaults(root, _target(root, reference), value, depth + 1)
    parts = schema.get("allOf")
    for part in parts if isinstance(parts, list) else ():
        value = _with_defaults(root, part, value, depth + 1)
    if isinstance(value, dict):
        return _object_with_defaults(root, schema, value, depth)
    if isinstance(value, list):
        return _list_with_defaults(root, schema, value, depth)
    return value


def _object_with_defaults(root: JsonObject, schema: JsonObject, value: JsonObject, depth: int) -> JsonObject:
    properties = schema.get("properties")
    filled = dict(value)
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        if name not in filled:
            found = _default(root, inner, depth)
            if found is None:
                continue
            filled[name] = _copied(found[0])
        filled[name] = _with_defaults(root, inner, filled[name], depth + 1)
    return filled


def _list_with_defaults(root: JsonObject, schema: JsonObject, value: list[JsonValue], depth: int) -> list[JsonValue]:
    first = schema.get("prefixItems")
    prefix = first if isinstance(first, list) else []
    rest = schema.get("items")
    return [
        _with_defaults(root, prefix[index] if index < len(prefix) else rest, item, depth + 1)
        for index, item in enumerate(value)
    ]


def _default(root: JsonObject, schema: JsonValue, depth: int) -> tuple[JsonValue] | None:
    """The default of a schema or of what it refers to, in a tuple because null is a default too."""
    if not isinstance(schema, dict) or depth > limits.JSON_DEPTH_MAX:
        return None
    if "default" in schema:
        return (schema["default"],)
    reference = schema.get("$ref")
    return _default(root, _target(root, reference), depth + 1) if isinstance(reference, str) else None


def _copied(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _copied(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value
