r"""Regular expressions of `@check`, with the engine of the project's JSON Schema validator.

Its syntax is that of ECMAScript as JSON Schema has it, and it cannot be made to backtrack for hours by a value. A
value has to match as a whole: `[a-z]+` refuses `a1`.

Above it: the checks of a schema, and the stores, which check values. Below it: `definitions.schemas`.
"""

from __future__ import annotations

from penstock.definitions.schemas.compiled import CompiledSchema, SchemaProblem, compile_schema, is_valid

__all__ = ["compile_pattern", "matches"]


def compile_pattern(pattern: str) -> CompiledSchema | str:
    """Compile a regular expression; a text says what is wrong with it."""
    compiled = compile_schema({"type": "string", "pattern": f"^(?:{pattern})$"})
    return compiled.message if isinstance(compiled, SchemaProblem) else compiled


def matches(compiled: CompiledSchema, value: str) -> bool:
    """Say whether a value matches as a whole."""
    return is_valid(compiled, value)
