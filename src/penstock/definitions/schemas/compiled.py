"""JSON Schema: compiled once, cached, never fetched from elsewhere; violations are worded like AJV's.

The draft is 2020-12 unless the schema names another. `format` is an annotation, as the draft says. References lead only
to places inside the schema: nothing is ever read from a network or a file. Values must not be nested deeper than
`limits.JSON_DEPTH_MAX`; the callers at the edge check that, because the validator recurses in native code.

A schema whose check would take too many visits (`cost`) is rejected. The others finish eventually, but the validator
cannot be interrupted and blocks everything else. A server therefore asks `is_prompt` first, and runs all other checks
in a separate process (`runtime.sandbox`).
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import jsonschema_rs
import msgspec

from penstock.base import limits
from penstock.base.encoding import SafeEncoder
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue, json_pointer
from penstock.definitions.schemas.cost import (
    SchemaCost,
    TooCostly,
    is_prompt_to_check,
    is_prompt_to_compile,
    is_prompt_to_list,
    schema_cost,
)
from penstock.definitions.schemas.violations import Violation, violations_of

__all__ = [
    "CompiledSchema",
    "SchemaProblem",
    "Violation",
    "apply_defaults",
    "compile_schema",
    "is_prompt",
    "is_valid",
    "load_schema",
    "violations",
]

encode_sorted: Final = SafeEncoder(order="sorted").encode


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """A schema ready to check values. Its validator is created on first use."""

    schema: JsonObject
    text: bytes = field(compare=False, repr=False)
    cost: SchemaCost = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """Why a schema cannot be used, and where in it (JSON pointer)."""

    message: str
    path: str
    code: str = "INVALID_SCHEMA"
    hint: str | None = None


def compile_schema(schema: JsonObject) -> CompiledSchema | SchemaProblem:
    """Compile a schema; equal schemas share one compiled form while it is in the cache."""
    prepared = _prepared(schema)
    if isinstance(prepared, SchemaProblem):
        return prepared
    native = _native(prepared.text)
    return native if isinstance(native, SchemaProblem) else prepared


def load_schema(schema: JsonObject) -> CompiledSchema | SchemaProblem:
    """Like `compile_schema`, but a schema that is slow to compile is compiled only where it is used.

    Use it for schemas that were checked before, and for those that others send to a server. A mistake in a costly
    schema then shows when a value is checked.
    """
    prepared = _prepared(schema)
    if isinstance(prepared, SchemaProblem) or not is_prompt_to_compile(prepared.cost, len(prepared.text)):
        return prepared
    native = _native(prepared.text)
    return native if isinstance(native, SchemaProblem) else prepared


def is_valid(compiled: CompiledSchema, value: JsonValue) -> bool:
    """Whether a value fits a schema; much faster than listing the violations."""
    valid: bool = _validator(compiled).is_valid(value)
    return valid


def is_prompt(compiled: CompiledSchema, value: JsonValue, size_bytes: int) -> bool:
    """Whether `violations` is fast enough to run in this process, for a value of this size as JSON."""
    cost = compiled.cost
    depth = 0 if cost.by_depth is None else _depth(value, len(cost.by_depth))
    if not is_prompt_to_compile(cost, len(compiled.text)) or not is_prompt_to_check(cost, size_bytes, depth):
        return False
    return is_prompt_to_list(cost, size_bytes, depth) or is_valid(compiled, value)


def violations(compiled: CompiledSchema, value: JsonValue) -> tuple[Violation, ...]:
    """List the ways in which a value does not fit, within `SCHEMA_VIOLATIONS_MAX` and `SCHEMA_VIOLATION_BYTES_MAX`."""
    with suppress(ValueError):  # values that the validator cannot take are reported below
        if is_valid(compiled, value):
            return ()
    found: dict[Violation, None] = {}
    size_bytes = 0
    for violation in islice(_all_violations(compiled, value), limits.SCHEMA_VIOLATIONS_MAX):
        size_bytes += len(violation.instance_path) + len(violation.message) + len(violation.subject or "")
        if found and size_bytes > limits.SCHEMA_VIOLATION_BYTES_MAX:
            break
        found[violation] = None
    return tuple(found)


def apply_defaults(schema: JsonObject, value: JsonValue) -> JsonValue:
    """Return the value with the defaults of missing properties filled in; the value itself is not changed.

    Follows `properties`, `items`, `prefixItems`, `allOf` and references inside the schema, but not alternatives. Raises
    `Rejected` if that takes too many steps.
    """
    return _Filling(schema).filled(schema, value, 0)


def _prepared(schema: JsonObject) -> CompiledSchema | SchemaProblem:
    try:
        return _counted(encode_sorted(schema))
    except (RecursionError, UnicodeEncodeError):
        return SchemaProblem("the schema is nested too deeply or contains text that is not Unicode", "")


@lru_cache(maxsize=limits.SCHEMA_CACHE_ENTRIES_MAX)
def _counted(text: bytes) -> CompiledSchema | SchemaProblem:
    schema = msgspec.json.decode(text, type=dict[str, Any])
    cost = schema_cost(schema)
    if isinstance(cost, TooCostly):
        return SchemaProblem(cost.message, cost.path, "SCHEMA_TOO_COSTLY", cost.hint)
    return CompiledSchema(schema, text, cost)


@lru_cache(maxsize=limits.SCHEMA_CACHE_ENTRIES_MAX)
def _native(text: bytes) -> jsonschema_rs.Validator | SchemaProblem:
    schema = msgspec.json.decode(text, type=dict[str, Any])
    try:
        return jsonschema_rs.validator_for(schema, offline=True)
    except jsonschema_rs.ValidationError as error:
        return _problem(error, schema)
    except ValueError as error:
        return SchemaProblem(str(error), "")


def _validator(compiled: CompiledSchema) -> jsonschema_rs.Validator:
    native = _native(compiled.text)
    if isinstance(native, SchemaProblem):
        raise Rejected(native.code, f"the schema cannot be used: {native.message}", native.hint)
    return native


def _depth(value: JsonValue, most: int) -> int:
    """The nesting depth of a value, at most `most`."""
    level: list[JsonValue] = [value]
    for depth in range(most):
        inner: list[JsonValue] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        if not inner:
            return depth
        level = inner
    return most


def _all_violations(compiled: CompiledSchema, value: JsonValue) -> Iterator[Violation]:
    try:
        for error in _validator(compiled).iter_errors(value):
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
    """The target of a local reference, or None."""
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


class _Filling:
    """Fills in the defaults of one schema, and counts its steps."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._steps = 0

    def filled(self, schema: JsonValue, value: JsonValue, depth: int) -> JsonValue:
        # A schema that refers to itself in a default would be filled in endlessly.
        if not isinstance(schema, dict) or depth > limits.JSON_DEPTH_MAX:
            return value
        self._steps += 1
        if self._steps > limits.SCHEMA_DEFAULTS_MAX:
            message = f"filling in the defaults takes more than {limits.SCHEMA_DEFAULTS_MAX:,} steps through the schema"
            raise Rejected("SCHEMA_DEFAULTS_EXCEEDED", message, "send a smaller value, or use fewer nested defaults")
        reference = schema.get("$ref")
        if isinstance(reference, str):
            value = self.filled(_target(self._root, reference), value, depth + 1)
        parts = schema.get("allOf")
        for part in parts if isinstance(parts, list) else ():
            value = self.filled(part, value, depth + 1)
        if isinstance(value, dict):
            return self._filled_object(schema, value, depth)
        if isinstance(value, list):
            return self._filled_list(schema, value, depth)
        return value

    def _filled_object(self, schema: JsonObject, value: JsonObject, depth: int) -> JsonObject:
        properties = schema.get("properties")
        filled = dict(value)
        for name, inner in properties.items() if isinstance(properties, dict) else ():
            if name not in filled:
                found = _default(self._root, inner, depth)
                if found is None:
                    continue
                filled[name] = _copied(found[0])
            filled[name] = self.filled(inner, filled[name], depth + 1)
        return filled

    def _filled_list(self, schema: JsonObject, value: list[JsonValue], depth: int) -> list[JsonValue]:
        first = schema.get("prefixItems")
        prefix = first if isinstance(first, list) else []
        rest = schema.get("items")
        if not prefix and not isinstance(rest, dict):
            return value
        return [
            self.filled(prefix[index] if index < len(prefix) else rest, item, depth + 1)
            for index, item in enumerate(value)
        ]


def _default(root: JsonObject, schema: JsonValue, depth: int) -> tuple[JsonValue] | None:
    """The default of a schema or of its reference target, in a tuple because null is a default too."""
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
