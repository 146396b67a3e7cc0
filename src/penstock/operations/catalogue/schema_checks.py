"""Whether a value fits a JSON Schema, for surfaces: they may not import `definitions`, which has the validator."""

from __future__ import annotations

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.schemas.compiled import CompiledSchema, Violation, compile_schema, violations

__all__ = ["Violation", "first_violation"]


def first_violation(schema: JsonObject, value: JsonValue) -> Violation | None:
    """Return the first violation of a schema; None if the value fits."""
    compiled = compile_schema(schema)
    found = violations(compiled, value) if isinstance(compiled, CompiledSchema) else ()
    return found[0] if found else None
