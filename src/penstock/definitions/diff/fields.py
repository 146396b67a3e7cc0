"""What the fields of nodes mean in a comparison, and whether a run in flight tolerates a change of them.

One field may have several names, and one value several spellings; this module separates those from real changes.

Above it: `nodes`. Below it: the node types, which declare what is special about their fields. `nodes` compares routes
and bodies itself, `error_routes` compares error routes, and `contract` input and output schemas.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.base.json import JsonObject, JsonValue, list_or_empty, object_or_empty
from penstock.definitions.diff.schemas import compare_schemas
from penstock.definitions.diff.values import alike
from penstock.definitions.durations import parse_native_duration_ms
from penstock.definitions.node_parts.changes import SEEN_LATER, Comparison, Effect, FieldEffect, InFlight
from penstock.definitions.nodes import kind_named
from penstock.definitions.outline.document import OutlineNode

__all__ = ["ComparableField", "comparable_fields", "comparison_of", "effect_of", "template_meaning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparableField:
    """A field as written in the document, and in the form in which it is compared."""

    name: str  # the name the document used
    written: JsonValue
    meaning: JsonValue


# Routes, bodies and the schemas of the contract are compared elsewhere.
_ELSEWHERE = frozenset({"next", "on_error", "on_timeout", "cases", "nodes", "branches"})
_DURATIONS = frozenset({"timeout", "duration"})
_RETRY_DURATIONS = frozenset({"initial_interval", "max_interval", "max_elapsed"})
# Fields in which the published format evaluates expressions; elsewhere it treats `${` as text.
_PUBLISHED_TEMPLATES = frozenset({"assignments", "input_mapping", "output_mapping"})
_PLAIN = frozenset({"output_schema", "answer", "compensate", "approvers", "answered_by", "decline", "metadata"})
_WHOLE = re.compile(r"\s*\$\{(?!secret:)((?:(?!\$\{).)*)\}\s*", re.DOTALL)


_NO_RULES = Comparison()


def comparison_of(node_type: str) -> Comparison:
    """How nodes of a type are compared; an unknown type has no rules."""
    kind = kind_named(node_type)
    return _NO_RULES if kind is None else kind.comparison


def comparable_fields(node: OutlineNode, *, native: bool) -> dict[str, ComparableField]:
    """The fields of a node by the name they are compared under; fields that only state the default are left out."""
    rules = comparison_of(node.type)
    found: dict[str, ComparableField] = {}
    for name, written in node.fields.items():
        common = rules.aliases.get(name, name)
        if name in _ELSEWHERE or name in rules.elsewhere or common in found:
            continue
        meaning = _meaning(rules, name, written, native=native)
        default = rules.defaults.get(common)
        if meaning is None or (default is not None and alike(meaning, default)):
            continue
        found[common] = ComparableField(name=name, written=written, meaning=meaning)
    return found


def _meaning(rules: Comparison, name: str, value: JsonValue, *, native: bool) -> JsonValue:
    if name in _DURATIONS or name == "duration_ms":
        return _duration(value)
    if name == "retry":
        return _retry(value)
    if name == "effects":
        return None if value == "at_least_once" else value
    if name in rules.expressions:
        return _expression(value)
    if name in _PLAIN or (not native and name not in _PUBLISHED_TEMPLATES):
        return value
    if name == "set" and isinstance(value, dict):
        return {key: template_meaning(member) for key, member in value.items()}
    return template_meaning(value)


def _duration(value: JsonValue) -> JsonValue:
    parsed = parse_native_duration_ms(value) if isinstance(value, str | int) else None
    return value if parsed is None else parsed


def _retry(value: JsonValue) -> JsonValue:
    if not isinstance(value, dict):
        return value
    known: JsonObject = {"max_attempts": 1, "initial_interval": 0, "backoff_coefficient": 1, "jitter": False}
    written = {name: _duration(part) if name in _RETRY_DURATIONS else part for name, part in value.items()}
    codes = written.get("non_retryable_errors")
    if isinstance(codes, list):
        written["non_retryable_errors"] = sorted(codes, key=str)
    return {name: part for name, part in {**known, **written}.items() if part != []}


def _expression(value: JsonValue) -> JsonValue:
    """A field that is jq as a whole, or a template that gives the value."""
    if isinstance(value, str) and "${" not in value:
        return {"jq": value.strip()}
    return template_meaning(value)


def template_meaning(value: JsonValue) -> JsonValue:
    """A template in one normal form: `${ jq }` as {"jq": …}, and literals unwrapped where that is unambiguous."""
    if isinstance(value, str):
        whole = _WHOLE.fullmatch(value)
        return {"jq": whole[1].strip()} if whole else value
    if isinstance(value, list):
        return [template_meaning(item) for item in value]
    if not isinstance(value, dict):
        return value
    jq = value.get("jq")
    if len(value) == 1 and isinstance(jq, str):
        return {"jq": jq.strip()}
    if value.keys() == {"literal"} and _is_literal(value["literal"]):
        return value["literal"]
    return {key: template_meaning(member) for key, member in value.items()}


def _is_literal(value: JsonValue) -> bool:
    """Whether a value means the same inside and outside a `literal`."""
    if isinstance(value, str):
        return "${" not in value
    if isinstance(value, list):
        return all(map(_is_literal, value))
    if isinstance(value, dict):
        return value.keys() not in ({"jq"}, {"literal"}) and all(map(_is_literal, value.values()))
    return True


# Runs in flight

_DESCRIBES = Effect(reason="it is only a description")


def effect_of(node_type: str, name: str, values: tuple[JsonValue, JsonValue]) -> Effect:
    """The effect of a change of one field on runs in flight."""
    effect = comparison_of(node_type).effects.get(name) or _COMMON_EFFECTS.get(name, SEEN_LATER)
    return effect if isinstance(effect, Effect) else effect(*values)


def _retry_changed(before: JsonValue, after: JsonValue) -> Effect:
    """A replay decides again, for every failed attempt on record, whether another attempt follows."""
    was, now = object_or_empty(_retry(before or {})), object_or_empty(_retry(after or {}))
    codes = [
        code
        for code in list_or_empty(now.get("non_retryable_errors"))
        if code not in list_or_empty(was.get("non_retryable_errors"))
    ]
    fewer = _less(now.get("max_attempts"), was.get("max_attempts"))
    shorter = "max_elapsed" in now and ("max_elapsed" not in was or _less(now["max_elapsed"], was["max_elapsed"]))
    if fewer or shorter or codes:
        return Effect(in_flight=InFlight.UNKNOWN, reason="unsafe for a run with more attempts than are now allowed")
    return SEEN_LATER


def _less(first: JsonValue, second: JsonValue) -> bool:
    return isinstance(first, int | float) and isinstance(second, int | float) and first < second


def _output_schema_changed(before: JsonValue, after: JsonValue) -> Effect:
    changes = compare_schemas({} if before is None else before, {} if after is None else after, "output")
    if any(change.narrows for change in changes):
        return Effect(in_flight=InFlight.UNKNOWN, reason="recorded results may no longer fit")
    return Effect(reason="recorded results still fit")


# By the name of the field, where the node type has no rule of its own.
_COMMON_EFFECTS: Mapping[str, FieldEffect] = {
    "title": _DESCRIBES,
    "description": _DESCRIBES,
    "metadata": _DESCRIBES,
    "compensate": Effect(in_flight=InFlight.UNKNOWN, reason="unsafe for a run that is already compensating"),
    "idempotency_key": Effect(
        in_flight=InFlight.UNKNOWN, reason="an attempt in progress may be repeated with another key"
    ),
    "retry": _retry_changed,
    "output_schema": _output_schema_changed,
}
