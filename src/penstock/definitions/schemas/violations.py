"""Violations of a JSON Schema in AJV's wording, flattened the way AJV lists them.

The published format's diagnostics are AJV's: its keyword names, its messages, and the errors of `oneOf` and `anyOf`
branches listed beside the error of the keyword itself. jsonschema-rs has its own; this module translates them. Only
`compiled` uses it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from penstock.base.json import JsonObject, JsonValue, json_pointer

__all__ = ["CHOICES", "Violation", "violations_of"]

# Keywords that hold schemas by name: the next part of a path is a name, not a keyword.
NAMED = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
# Keywords that apply to values one level deeper.
DESCENDING = frozenset(
    {
        *("additionalProperties", "contains", "items", "patternProperties", "prefixItems", "properties"),
        *("unevaluatedItems", "unevaluatedProperties"),
    }
)
# Keywords that hold a list of schemas: the next part of a path is a number.
NUMBERED = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
FALSE_SCHEMA = "false schema"
CHOICES = frozenset({"const", "enum"})
"""Keywords that list the values there are."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One way in which a value does not fit: where (JSON pointer), which keyword, and AJV's message.

    `subject` is the property that a violation of `required`, `additionalProperties` or a similar keyword is about; of
    `enum` and `const` it is the given text.
    """

    instance_path: str
    keyword: str
    message: str
    subject: str | None = None


def violations_of(error: jsonschema_rs.ValidationError, schema: JsonObject, value: JsonValue) -> Iterator[Violation]:
    """The violations that one error of the validator stands for; nested ones come first, as AJV reports them."""
    kind = error.kind
    path = json_pointer(error.instance_path)
    match kind:
        case jsonschema_rs.ValidationErrorKind.OneOfNotValid() | jsonschema_rs.ValidationErrorKind.AnyOf():
            for branch in kind.context:
                for nested in branch:
                    yield from violations_of(nested, schema, value)
        case jsonschema_rs.ValidationErrorKind.PropertyNames():
            yield from violations_of(kind.error, schema, value)
        case (
            jsonschema_rs.ValidationErrorKind.AdditionalProperties()
            | jsonschema_rs.ValidationErrorKind.UnevaluatedProperties()
        ):
            word = "additional" if kind.name == "additionalProperties" else "unevaluated"
            for name in kind.unexpected:
                yield Violation(path, kind.name, f"must NOT have {word} properties", name)
            yield from _conditionals(error)
            return
        case jsonschema_rs.ValidationErrorKind.Required():
            yield _required(error, path, schema)
            yield from _conditionals(error)
            return
        case _:
            pass
    if kind.name == "falseSchema" and error.schema_path[-1:] == ["additionalProperties"]:
        yield from _closed(error, path, value)
        return
    keyword = FALSE_SCHEMA if kind.name == "falseSchema" else kind.name
    words = MESSAGES.get(keyword)
    given = error.instance if keyword in CHOICES and isinstance(error.instance, str) else None
    yield Violation(path, keyword, error.message if words is None else words(error, schema), given)
    yield from _conditionals(error)


def _closed(error: jsonschema_rs.ValidationError, path: str, value: JsonValue) -> Iterator[Violation]:
    """Violations for a closed object without declared properties; the validator does not name the extra properties."""
    closed = _resolve(value, error.instance_path)
    for name in closed if isinstance(closed, dict) else ():
        yield Violation(path, "additionalProperties", "must NOT have additional properties", name)
    yield from _conditionals(error)


def _required(error: jsonschema_rs.ValidationError, path: str, schema: JsonObject) -> Violation:
    missing = str(error.kind.as_dict()["property"])
    if error.schema_path[-1:] != ["dependentRequired"]:
        return Violation(path, "required", f"must have required property '{missing}'", missing)
    table = _resolve(schema, error.schema_path)
    present = error.instance if isinstance(error.instance, dict) else {}
    causes = table.items() if isinstance(table, dict) else ()
    cause = next(
        (name for name, needed in causes if name in present and isinstance(needed, list) and missing in needed)
    )
    message = f"must have property {missing} when property {cause} is present"
    return Violation(path, "dependentRequired", message, missing)


def _conditionals(error: jsonschema_rs.ValidationError) -> Iterator[Violation]:
    """AJV adds an `if` error for each `then` or `else` that contains an error, innermost first."""
    found: list[Violation] = []
    depth = 0
    parts = list(error.evaluation_path)
    index = 0
    while index < len(parts):
        keyword = parts[index]
        if keyword in ("then", "else"):
            path = json_pointer(error.instance_path[:depth])
            found.append(Violation(path, "if", f'must match "{keyword}" schema'))
        depth += keyword in DESCENDING
        index += 2 if keyword in NAMED or keyword in NUMBERED else 1
    yield from reversed(found)


def _resolve(value: JsonValue, path: list[str | int]) -> JsonValue:
    """The part of a value at a path of the validator, or None."""
    place = value
    for part in path:
        if isinstance(place, dict) and isinstance(part, str):
            place = place.get(part)
        elif isinstance(place, list) and isinstance(part, int) and part < len(place):
            place = place[part]
        else:
            return None
    return place


def _type(error: jsonschema_rs.ValidationError, schema: JsonObject) -> str:
    # AJV lists the types in the order of the schema; the validator sorts them.
    declared = _resolve(schema, error.schema_path)
    types = declared if isinstance(declared, list) else error.kind.as_dict()["types"]
    return f"must be {','.join(str(name) for name in types)}"


def _contains(error: jsonschema_rs.ValidationError, schema: JsonObject) -> str:
    holder = _resolve(schema, error.schema_path[:-1])
    limits: Mapping[str, JsonValue] = holder if isinstance(holder, dict) else {}
    at_least = f"must contain at least {limits.get('minContains', 1)}"
    if "maxContains" in limits:
        return f"{at_least} and no more than {limits['maxContains']} valid item(s)"
    return f"{at_least} valid item(s)"


def _fixed(message: str) -> Callable[[jsonschema_rs.ValidationError, JsonObject], str]:
    return lambda _error, _schema: message


def _with(parameter: str, message: str) -> Callable[[jsonschema_rs.ValidationError, JsonObject], str]:
    def words(error: jsonschema_rs.ValidationError, _schema: JsonObject) -> str:
        value: Any = error.kind.as_dict()[parameter]
        return message.format(value)

    return words


MESSAGES: Mapping[str, Callable[[jsonschema_rs.ValidationError, JsonObject], str]] = {
    "anyOf": _fixed("must match a schema in anyOf"),
    "const": _fixed("must be equal to constant"),
    "contains": _contains,
    "enum": _fixed("must be equal to one of the allowed values"),
    "exclusiveMaximum": _with("limit", "must be < {}"),
    "exclusiveMinimum": _with("limit", "must be > {}"),
    FALSE_SCHEMA: _fixed("boolean schema is false"),
    "format": _with("format", 'must match format "{}"'),
    "maxItems": _with("limit", "must NOT have more than {} items"),
    "maxLength": _with("limit", "must NOT have more than {} characters"),
    "maxProperties": _with("limit", "must NOT have more than {} properties"),
    "maximum": _with("limit", "must be <= {}"),
    "minItems": _with("limit", "must NOT have fewer than {} items"),
    "minLength": _with("limit", "must NOT have fewer than {} characters"),
    "minProperties": _with("limit", "must NOT have fewer than {} properties"),
    "minimum": _with("limit", "must be >= {}"),
    "multipleOf": _with("multiple_of", "must be multiple of {}"),
    "not": _fixed("must NOT be valid"),
    "oneOf": _fixed("must match exactly one schema in oneOf"),
    "pattern": _with("pattern", 'must match pattern "{}"'),
    "propertyNames": _fixed("property name must be valid"),
    "type": _type,
    "unevaluatedItems": _fixed("must NOT have unevaluated items"),
    "uniqueItems": _fixed("must NOT have duplicate items"),
}
