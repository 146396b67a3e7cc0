"""What changed in the error routes of a node or of the whole workflow.

Above it: `compare` and `nodes`. Below it: `fields` for templates. The order of routes matters: the first that matches
is taken.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.diff.fields import template_meaning
from penstock.definitions.diff.model import Change, InFlight, Subject
from penstock.definitions.diff.values import alike, brief, change_of
from penstock.definitions.node_parts.changes import Effect

__all__ = ["compare_error_routes"]

_APPENDED = Effect(in_flight=InFlight.UNKNOWN, reason="unsafe for a run in which this has already failed")
_OTHER = Effect(in_flight=InFlight.UNSAFE, reason="a run in flight may already have taken the other route")


def compare_error_routes(before: JsonValue, after: JsonValue, path: str, whose: str) -> Iterator[Change]:
    """Yield what changed between two `on_error` members; `whose` names the node or the workflow in sentences."""
    first, second = _meanings(before), _meanings(after)
    if alike(first, second):
        return
    gone = [route for route in first if not any(alike(route, other) for other in second)]
    extra = [route for route in second if not any(alike(route, other) for other in first)]
    kept = [route for route in second if route not in extra]
    if not gone and alike(second[: len(first)], first):
        for route in second[len(first) :]:
            text = f"Errors of {whose} {_codes(route)} now {_leads(route)}."
            yield change_of(Subject.ERROR_ROUTE, path, text, (None, route), _APPENDED)
    elif not extra and alike(kept, [route for route in first if route not in gone]):
        for route in gone:
            text = f"Errors of {whose} {_codes(route)} no longer {_leads(route)}."
            yield change_of(Subject.ERROR_ROUTE, path, text, (route, None), _OTHER)
    else:
        text = f"The error routes of {whose} changed."
        yield change_of(Subject.ERROR_ROUTE, path, text, (before, after), _OTHER)


def _meanings(value: JsonValue) -> list[JsonValue]:
    """Error routes in one normal form: a list, with sorted codes and comparable fallbacks."""
    routes = value if isinstance(value, list) else [] if value is None else [value]
    meanings: list[JsonValue] = []
    for route in routes:
        if not isinstance(route, dict):
            meanings.append(route)
            continue
        codes = route.get("codes")
        named = [*(codes if isinstance(codes, list) else []), *([route["code"]] if "code" in route else [])]
        meaning: JsonObject = {"codes": sorted(named, key=str)}
        meaning |= {key: part for key, part in route.items() if key not in ("code", "codes", "fallback")}
        if "fallback" in route:
            meaning["fallback"] = template_meaning(route["fallback"])
        meanings.append(meaning)
    return meanings


def _codes(route: JsonValue) -> str:
    codes = route.get("codes") if isinstance(route, dict) else None
    return f"with the code {' or '.join(map(brief, codes))}" if isinstance(codes, list) and codes else "of any kind"


def _leads(route: JsonValue) -> str:
    target = route.get("next") if isinstance(route, dict) else None
    return f"lead to {brief(target)}" if isinstance(target, str) else "give a fallback value"
