"""Violations of a JSON Schema in words for the caller who sent the value: unknown members and values, with a guess.

    tell_violations(schema, violations(compiled, {"sinc": True}))
        [{"pointer": "", "keyword": "additionalProperties", "message": "unknown member `sinc`; did you mean `sync`?"}]
    tell_violations(schema, violations(compiled, {"mode": "sinc"}))
        [{"pointer": "/mode", "keyword": "enum", "message": "unknown value `sinc`; did you mean `sync`?"}]

`violations` has the published wording, which does not name them; runs keep that. This is for answers to callers.

Above it: operations, the executor for models. Below it: `violations`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from penstock.base.choices import list_choices, nearest, refuse_choice
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.schemas.violations import CHOICES, Violation

__all__ = ["tell_violation", "tell_violations", "unfit_message"]

_UNKNOWN = frozenset({"additionalProperties", "unevaluatedProperties"})
_BRANCHES = ("allOf", "anyOf", "oneOf")
_NESTED = ("then", "else", "if", "not")
_NAME_CHARACTERS_MAX = 64
# Comparing names takes time, and a caller may send as many as they like.
_GUESSES_MAX = 5
# Nobody reads a sentence with more values than this.
_LISTED_MAX = 12
_CANDIDATES_MAX = 200
_SCHEMAS_MAX = 200


def tell_violations(schema: JsonObject, found: Iterable[Violation], prefix: str = "") -> list[JsonValue]:
    """Return violations as entries of `errors`; `prefix` is the pointer of the value that the schema is for."""
    told: list[JsonValue] = []
    guesses = 0
    for item in found:
        is_unknown = item.keyword in _UNKNOWN | CHOICES and item.subject is not None
        message = tell_violation(item, schema if guesses < _GUESSES_MAX else {})
        guesses += is_unknown
        told.append({"pointer": f"{prefix}{item.instance_path}", "keyword": item.keyword, "message": message})
    return told


def tell_violation(violation: Violation, schema: JsonObject) -> str:
    """Return what is wrong; of an unknown member or value also the declared one that is most like it."""
    name = violation.subject
    if violation.keyword in CHOICES:
        return _tell_choice(violation, schema)
    if violation.keyword not in _UNKNOWN or name is None:
        return violation.message
    shown = name if len(name) <= _NAME_CHARACTERS_MAX else f"{name[:_NAME_CHARACTERS_MAX]}…"
    known = tuple(islice(_names_at(schema, violation.instance_path), _CANDIDATES_MAX))
    meant = nearest(name[:_NAME_CHARACTERS_MAX], known)
    return f"unknown member `{shown}`" + (f"; did you mean `{meant}`?" if meant else "")


def _tell_choice(violation: Violation, schema: JsonObject) -> str:
    choices = tuple(dict.fromkeys(islice(_choices_at(schema, violation.instance_path), _CANDIDATES_MAX)))
    if violation.subject is not None:
        return refuse_choice(violation.subject, choices)
    return f"must be {list_choices(choices)}" if 0 < len(choices) <= _LISTED_MAX else violation.message


def unfit_message(what: str, errors: list[JsonValue]) -> str:
    """Return a sentence with the first of some errors: `what` does not fit."""
    first = errors[0] if errors else None
    place = f"{first['pointer'] or '/'} {first['message']}" if isinstance(first, dict) else ""
    return f"{what} {place}" + (f" (and {len(errors) - 1} more)" if len(errors) > 1 else "")


def _names_at(schema: JsonObject, pointer: str) -> Iterator[str]:
    """Yield the members that a schema declares for the object at a place, as far as that can be read from it."""
    for one in _schemas_at(schema, pointer):
        declared = one.get("properties")
        yield from declared if isinstance(declared, dict) else ()


def _choices_at(schema: JsonObject, pointer: str) -> Iterator[str]:
    """Yield the texts that a schema lists for the value at a place, or for the names of its members."""
    for one in _schemas_at(schema, pointer):
        names = one.get("propertyNames")
        for holder in (one, names if isinstance(names, dict) else {}):
            listed = holder.get("enum")
            values = [*(listed if isinstance(listed, list) else ()), holder.get("const")]
            yield from (value for value in values if isinstance(value, str))


def _schemas_at(schema: JsonObject, pointer: str) -> list[JsonObject]:
    here = [schema]
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        here = [inner for one in _alternatives(here, schema) for inner in _members(one, name)]
    return _alternatives(here, schema)


def _members(schema: JsonObject, name: str) -> Iterator[JsonObject]:
    declared = schema.get("properties")
    candidates = [declared.get(name) if isinstance(declared, dict) else None]
    if name.isdecimal():
        listed = schema.get("prefixItems")
        candidates += [schema.get("items"), *(listed if isinstance(listed, list) else [])]
    yield from (item for item in (*candidates, schema.get("additionalProperties")) if isinstance(item, dict))


def _alternatives(schemas: list[JsonObject], root: JsonObject) -> list[JsonObject]:
    """Return schemas with those that they refer to and consist of."""
    found: list[JsonObject] = []
    waiting = list(schemas)
    while waiting and len(found) < _SCHEMAS_MAX:
        one = waiting.pop()
        if any(one is known for known in found):
            continue
        found.append(one)
        parts: list[JsonValue] = [one.get(name) for name in _NESTED]
        for name in _BRANCHES:
            listed = one.get(name)
            parts += listed if isinstance(listed, list) else []
        reference = one.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            parts.append(_resolve(root, reference))
        waiting += [part for part in parts if isinstance(part, dict)]
    return found


def _resolve(root: JsonObject, reference: str) -> JsonValue:
    place: JsonValue = root
    for part in reference.split("/")[1:]:
        place = place.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(place, dict) else None
    return place
