"""Reducers: how a node's output is merged into the state, key by key.

``overwrite`` (the default) replaces; ``append`` extends a list (a value that is not a list counts as one item, a
previous value that is not a list is discarded); ``merge`` merges objects deeply. Nothing is changed in place.

Above it: `completion`. It does not validate the merged state.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.base.json import JsonObject, JsonValue

__all__ = ["merge_state"]


def merge_state(values: JsonValue, output: JsonObject, reducers: Mapping[str, str]) -> JsonObject:
    """Return the state with an output merged into it."""
    merged = dict(values) if isinstance(values, dict) else {}
    for key, value in output.items():
        match reducers.get(key, "overwrite"):
            case "append":
                merged[key] = _append(merged.get(key), value)
            case "merge":
                merged[key] = _deep_merge(merged.get(key), value)
            case _:
                merged[key] = value
    return merged


def _append(previous: JsonValue, value: JsonValue) -> JsonValue:
    kept = previous if isinstance(previous, list) else []
    return [*kept, *value] if isinstance(value, list) else [*kept, value]


def _deep_merge(previous: JsonValue, value: JsonValue) -> JsonValue:
    if not isinstance(previous, dict) or not isinstance(value, dict):
        return value
    merged = dict(previous)
    for key, inner in value.items():
        merged[key] = _deep_merge(merged[key], inner) if key in merged else inner
    return merged
