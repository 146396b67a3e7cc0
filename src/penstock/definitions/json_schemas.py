"""JSON Schema: compiled once, cached, never fetched from elsewhere; violations in AJV's words.

Skeleton: the final version adds the cache, the AJV vocabulary and the flattening.
"""

from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from penstock.base.json import JsonObject, JsonValue, json_pointer

__all__ = [
    "CompiledSchema",
    "SchemaProblem",
    "Violation",
    "apply_defaults",
    "compile_schema",
    "is_valid",
    "violations",
]


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """A schema ready to check values."""

    validator: Any


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """Why a schema cannot be used."""

    message: str
    path: str


@dataclass(frozen=True, slots=True)
class Violation:
    """One way in which a value does not fit."""

    instance_path: str
    keyword: str
    message: str


def compile_schema(schema: JsonObject) -> CompiledSchema | SchemaProblem:
    """Compile a schema."""
    try:
        return CompiledSchema(jsonschema_rs.Draft202012Validator(schema))
    except jsonschema_rs.ValidationError as error:
        return SchemaProblem(error.message, json_pointer(error.instance_path))


def is_valid(compiled: CompiledSchema, value: JsonValue) -> bool:
    """Say whether a value fits."""
    return bool(compiled.validator.is_valid(value))


def violations(compiled: CompiledSchema, value: JsonValue) -> tuple[Violation, ...]:
    """Every way in which a value does not fit."""
    return tuple(
        Violation(json_pointer(error.instance_path), error.kind.name, error.message)
        for error in compiled.validator.iter_errors(value)
    )


def apply_defaults(schema: JsonObject, value: JsonValue) -> JsonValue:
    """Fill in defaults."""
    del schema
    return value
