"""What changed between two JSON Schemas about a value itself: its type, the values allowed, bounds and forms.

Above it: `schemas`, which handles places, objects, lists and combinations. Below it: `values`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.diff.values import alike, brief

__all__ = ["Difference", "value_differences"]

_TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_MINIMA = {"minLength": "characters", "minItems": "items", "minProperties": "members"}
_MAXIMA = {"maxLength": "characters", "maxItems": "items", "maxProperties": "members"}
# A sentence with more values than this is unreadable.
_VALUES_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class Difference:
    """One keyword that changed, with its old and new value; `effects` says whether it narrows and whether it widens."""

    keyword: str
    text: str
    values: tuple[JsonValue, JsonValue]
    effects: tuple[bool, bool]


def value_differences(before: JsonObject, after: JsonObject, what: str) -> Iterator[Difference]:
    """Compare what two schemas say about the value itself; `what` names the value in sentences."""
    yield from _compare_types(before, after, what)
    yield from _compare_values(before, after, what)
    yield from _compare_limits(before, after, what)
    yield from _compare_sizes(before, after, what)
    yield from _compare_multiples(before, after, what)
    yield from _compare_forms(before, after, what)


# Types and values


def _types_of(schema: JsonObject) -> frozenset[str]:
    """The types that a schema accepts; without a `type`, those of its enum values."""
    declared = schema.get("type")
    names = declared if isinstance(declared, list) else [declared]
    types = {name for name in names if isinstance(name, str)}
    if not types:
        allowed = _allowed(schema)
        types = set(_TYPES) if allowed is None else {_type_of(value) for value in allowed}
    return frozenset(types | ({"integer"} if "number" in types else set()))


def _type_of(value: JsonValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"


def _allowed(schema: JsonObject) -> list[JsonValue] | None:
    values = schema.get("enum")
    allowed = values if isinstance(values, list) else None
    if "const" in schema:
        constant = schema["const"]
        return [constant] if allowed is None or any(alike(constant, value) for value in allowed) else []
    return allowed


def _compare_types(before: JsonObject, after: JsonObject, what: str) -> Iterator[Difference]:
    old, new = _types_of(before), _types_of(after)
    if old != new:
        text = f"{what} is now {_type_words(new)} (before: {_type_words(old)})."
        effects = bool(old - new), bool(new - old)
        yield Difference("type", text, (before.get("type"), after.get("type")), effects)


def _type_words(types: frozenset[str]) -> str:
    if types == _TYPES:
        return "anything"
    shown = types - {"integer"} if "number" in types else types
    return " or ".join(sorted(shown)) or "nothing"


def _compare_values(before: JsonObject, after: JsonObject, what: str) -> Iterator[Difference]:
    old, new = _allowed(before), _allowed(after)
    keyword = "const" if "const" in after or "const" in before else "enum"
    values: tuple[JsonValue, JsonValue] = (old, new)
    if old is None and new is not None:
        text = f"{what} is now limited to {_listed(new)}."
        yield Difference(keyword, text, values, (True, False))
    elif old is not None and new is None:
        text = f"{what} is no longer limited to {_listed(old)}."
        yield Difference(keyword, text, values, (False, True))
    elif old is not None and new is not None:
        gone = [value for value in old if not any(alike(value, other) for other in new)]
        extra = [value for value in new if not any(alike(value, other) for other in old)]
        if gone:
            text = f"{what} no longer allows {_listed(gone)}."
            yield Difference(keyword, text, values, (True, False))
        if extra:
            text = f"{what} now also allows {_listed(extra)}."
            yield Difference(keyword, text, values, (False, True))


def _listed(values: list[JsonValue]) -> str:
    shown = ", ".join(brief(value) for value in values[:_VALUES_SHOWN_MAX])
    more = len(values) - _VALUES_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown or "nothing"


# Bounds


def _number(value: JsonValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, int) or isfinite(value) else None


def _limit(schema: JsonObject, word: str) -> tuple[float, bool] | None:
    """The tighter of an inclusive and an exclusive bound as (value, exclusive); older drafts mark it with a flag."""
    inclusive, exclusive = _number(schema.get(word)), schema.get(f"exclusive{word.capitalize()}")
    bounds = [] if inclusive is None else [(inclusive, exclusive is True)]
    strict = _number(exclusive)
    if strict is not None:
        bounds.append((strict, True))
    if word == "minimum":
        return max(bounds, default=None)
    return min(bounds, default=None, key=lambda bound: (bound[0], not bound[1]))


def _compare_limits(before: JsonObject, after: JsonObject, what: str) -> Iterator[Difference]:
    for word, direction in (("minimum", 1), ("maximum", -1)):
        old, new = _limit(before, word), _limit(after, word)
        if old == new:
            continue
        tighter = old is None or (new is not None and _tightness(new, direction) > _tightness(old, direction))
        text = f"{what} must now be {_limit_words(new, word)} (before: {_limit_words(old, word)})."
        values = (before.get(word), after.get(word))
        yield Difference(word, text, values, (tighter, not tighter))


def _tightness(bound: tuple[float, bool], direction: int) -> tuple[float, bool]:
    return direction * bound[0], bound[1]


def _limit_words(bound: tuple[float, bool] | None, word: str) -> str:
    if bound is None:
        return "any number"
    words = {("minimum", False): "at least", ("minimum", True): "more than"}
    words |= {("maximum", False): "at most", ("maximum", True): "less than"}
    return f"{words[word, bound[1]]} {bound[0]}"


def _compare_sizes(before: JsonObject, after: JsonObject, what: str) -> Iterator[Difference]:
    for keyword, unit in (*_MINIMA.items(), *_MAXIMA.items()):
        is_minimum = keyword in _MINIMA
        unlimited = 0.0 if is_minimum else float("inf")
        old, new = _number(before.get(keyword)), _number(after.get(keyword))
        was = unlimited if old is None else old
        now = unlimited if new is None else new
        if was == now:
            continue
        tighter = now > was if is_minimum else now < was
        side = "at least" if is_minimum else "at most"
        earlier = "no limit" if old is None else str(old)
        limit = f"must now have {side} {new} {unit}" if new is not None else f"has no `{keyword}` any more"
        text = f"{what} {limit} (before: {earlier})."
        yield Difference(keyword, text, (old, new), (tighter, not tighter))


def _compare_multiples(before: JsonObject, after: JsonObject, what: str) -> Iterator[Difference]:
    old, new = _number(before.get("multipleOf")), _number(after.get("multipleOf"))
    if old == new:
        return
    finer = old is not None and (new is None or _is_multiple(old, new))
    coarser = new is not None and (old is None or _is_multiple(new, old))
    limit = "need not be a multiple of anything now" if new is None else f"must now be a multiple of {new}"
    text = f"{what} {limit}."
    yield Difference("multipleOf", text, (old, new), (not finer, not coarser))


def _is_multiple(value: float, of: float) -> bool:
    # Compared as decimals, as they are written: 0.3 is a multiple of 0.1.
    return of > 0 and Fraction(str(value)) % Fraction(str(of)) == 0


def _compare_forms(before: JsonObject, after: JsonObject, what: str) -> Iterator[Difference]:
    for keyword, words in (("pattern", "match the pattern"), ("format", "have the format")):
        old, new = before.get(keyword), after.get(keyword)
        if alike(old, new):
            continue
        limit = f"need not {words} {brief(old)} any more" if new is None else f"must now {words} {brief(new)}"
        text = f"{what} {limit}."
        yield Difference(keyword, text, (old, new), (new is not None, old is not None))
    if (before.get("uniqueItems") is True) != (after.get("uniqueItems") is True):
        tighter = after.get("uniqueItems") is True
        text = f"the items of {what} {'must now all differ' if tighter else 'may now be equal'}."
        yield Difference("uniqueItems", text, (not tighter, tighter), (tighter, not tighter))
