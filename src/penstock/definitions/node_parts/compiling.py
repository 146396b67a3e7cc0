"""Compiles the values that nodes consist of: durations, retries, expressions, templates, schemas and error routes.

Above it: `nodes` and `build`. Below it: the compilers of expressions, templates and schemas, which defer costly work
until first use. A value that does not compile is `Rejected` with its place; the checks have given a better report by
then.
"""

from __future__ import annotations

from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.durations import parse_native_duration_ms
from penstock.definitions.jq.expressions import Expression, ExpressionProblem, load_expression
from penstock.definitions.jq.templates import Template, TemplateProblem, load_mapping, load_template
from penstock.definitions.model import ErrorRoute, Retry
from penstock.definitions.node_parts.outline import EXIT
from penstock.definitions.schemas.compiled import CompiledSchema, SchemaProblem, load_schema

__all__ = [
    "build_error_routes",
    "build_retry",
    "duration_of",
    "expression_of",
    "mapping_of",
    "optional_schema",
    "refuse",
    "schema_of",
    "template_of",
]


def refuse(message: str, path: str) -> Rejected:
    """Return the error for a document that was not validated first."""
    return Rejected("INVALID_DOCUMENT", f"{path}: {message}", hint="run `penstock validate` to see every mistake")


def duration_of(value: JsonValue) -> int | None:
    """A duration in milliseconds; None if the value is missing."""
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, float):
        return int(value)
    return parse_native_duration_ms(value) if isinstance(value, str | int) else None


def expression_of(value: JsonValue, path: str) -> Expression:
    """A compiled jq expression."""
    compiled = load_expression(str(value))
    if isinstance(compiled, ExpressionProblem):
        raise refuse(compiled.message, path)
    return compiled


def template_of(value: JsonValue, path: str) -> Template:
    """A compiled template."""
    compiled = load_template(value)
    if isinstance(compiled, TemplateProblem):
        raise refuse(compiled.message, path + compiled.path)
    return compiled


def mapping_of(value: JsonValue, path: str) -> Template:
    """A compiled published ``input_mapping``."""
    compiled = load_mapping(value)
    if isinstance(compiled, TemplateProblem):
        raise refuse(compiled.message, path + compiled.path)
    return compiled


def schema_of(value: JsonValue, path: str) -> CompiledSchema:
    """A compiled JSON Schema."""
    compiled = load_schema(value if isinstance(value, dict) else {})
    if isinstance(compiled, SchemaProblem):
        raise refuse(compiled.message, path)
    return compiled


def optional_schema(value: JsonValue, path: str) -> CompiledSchema | None:
    """A compiled JSON Schema, or None if the document has none there."""
    return schema_of(value, path) if isinstance(value, dict) else None


def build_retry(value: JsonValue) -> Retry:
    """A retry policy; without one, there is one attempt."""
    if not isinstance(value, dict):
        return Retry()
    attempts, coefficient = value.get("max_attempts"), value.get("backoff_coefficient")
    codes = value.get("non_retryable_errors")
    return Retry(
        max_attempts=attempts if isinstance(attempts, int) else 1,
        initial_interval_ms=duration_of(value.get("initial_interval")) or 0,
        backoff_coefficient=float(coefficient) if isinstance(coefficient, int | float) else 1.0,
        max_interval_ms=duration_of(value.get("max_interval")),
        max_elapsed_ms=duration_of(value.get("max_elapsed")),
        jitter=value.get("jitter") is True,
        non_retryable_errors=frozenset(str(code) for code in codes) if isinstance(codes, list) else frozenset(),
    )


def build_error_routes(value: JsonValue, path: str) -> tuple[ErrorRoute, ...]:
    """Error routes in order; a single object stands for a list of one."""
    if value is None:
        return ()
    routes = value if isinstance(value, list) else [value]
    return tuple(
        _error_route(route, f"{path}/{index}") for index, route in enumerate(routes) if isinstance(route, dict)
    )


def _error_route(route: JsonObject, path: str) -> ErrorRoute:
    codes = route.get("codes")
    named = {str(code) for code in codes} if isinstance(codes, list) else set()
    if isinstance(route.get("code"), str):
        named.add(str(route["code"]))
    target = route.get("next")
    if isinstance(target, str):
        leaves = target == EXIT
        return ErrorRoute(codes=frozenset(named), target=None if leaves else target, leaves_body=leaves)
    return ErrorRoute(codes=frozenset(named), fallback=template_of(route.get("fallback"), f"{path}/fallback"))
