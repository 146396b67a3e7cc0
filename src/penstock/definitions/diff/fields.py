"""What the fields of nodes mean to a comparison, and whether a run in flight can live with a change of them.

One field has several names, and one value can be written in several ways; both are told apart here from real changes.

Above it: `nodes`. Below it: `durations`. Routes and bodies are compared by `nodes` itself, error routes by
`error_routes`, input and output schemas by `contract`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.diff.model import InFlight
from penstock.definitions.diff.schemas import compare_schemas
from penstock.definitions.diff.values import Effect, alike
from penstock.definitions.durations import parse_native_duration_ms
from penstock.definitions.outline.document import OutlineNode

__all__ = ["ComparableField", "comparable_fields", "effect_of", "template_meaning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparableField:
    """A field as the document wrote it, and in the form in which it is compared."""

    name: str  # the name the document used
    written: JsonValue
    meaning: JsonValue


# Routes, bodies and the schemas of the contract are compared elsewhere.
_ELSEWHERE = frozenset({"next", "on_error", "on_timeout", "cases", "nodes", "branches"})
_ALIASES: Mapping[tuple[str, str], str] = {
    ("llm_call", "user_prompt"): "prompt",
    ("interrupt", "prompt"): "message",
    ("interrupt", "resume_schema"): "answer",
    ("set_state", "assignments"): "set",
    ("subworkflow", "workflow_ref"): "workflow",
    ("subworkflow", "input_mapping"): "input",
    ("agent_delegate", "input_mapping"): "input",
    ("end", "output_mapping"): "output",
    ("wait", "duration_ms"): "duration",
}
_DEFAULTS: Mapping[tuple[str, str], JsonValue] = {
    ("parallel", "join"): "all",
    ("for_each", "as"): "item",
    ("for_each", "concurrency"): 1,
    ("for_each", "on_item_error"): "fail",
    ("loop", "on_exhausted"): "fail",
    ("http", "method"): "GET",
    ("agent_delegate", "protocol"): "a2a",
    ("continue_as_new", "version"): "pinned",
    ("interrupt", "answer"): {"type": "object"},
}
_DURATIONS = frozenset({"timeout", "duration"})
_RETRY_DURATIONS = frozenset({"initial_interval", "max_interval", "max_elapsed"})
_EXPRESSIONS = frozenset({("loop", "while"), ("loop", "until"), ("for_each", "items"), ("end", "output_mapping")})
# Fields of the published format in which it evaluates expressions; elsewhere it takes `${` as text.
_PUBLISHED_TEMPLATES = frozenset({"assignments", "input_mapping", "output_mapping"})
_PLAIN = frozenset({"output_schema", "answer", "compensate", "approvers", "answered_by", "decline", "metadata"})
_WHOLE = re.compile(r"\s*\$\{(?!secret:)((?:(?!\$\{).)*)\}\s*", re.DOTALL)


def comparable_fields(node: OutlineNode, *, native: bool) -> dict[str, ComparableField]:
    """The fields of a node by the name they are compared under; what says only the default is left out."""
    found: dict[str, ComparableField] = {}
    for name, written in node.fields.items():
        common = _ALIASES.get((node.type, name), name)
        if name in _ELSEWHERE or (node.type, name) in _CONTRACT or common in found:
            continue
        meaning = _meaning(node.type, name, written, native=native)
        default = _DEFAULTS.get((node.type, common))
        if meaning is None or (default is not None and alike(meaning, default)):
            continue
        found[common] = ComparableField(name=name, written=written, meaning=meaning)
    return found


_CONTRACT = frozenset(
    {("start", "input_schema"), ("end", "output_schema"), ("switch", "default"), ("wait", "kind"), ("end", "next")}
)


def _meaning(node_type: str, name: str, value: JsonValue, *, native: bool) -> JsonValue:
    if name in _DURATIONS or name == "duration_ms":
        return _duration(value)
    if name == "retry":
        return _retry(value)
    if name == "effects":
        return None if value == "at_least_once" else value
    if (node_type, name) in _EXPRESSIONS:
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
    """A field that is jq as it stands, or a template that gives the value."""
    if isinstance(value, str) and "${" not in value:
        return {"jq": value.strip()}
    return template_meaning(value)


def template_meaning(value: JsonValue) -> JsonValue:
    """A template in one spelling: `${ jq }` as {"jq": …}, and literals without their wrapping where that is clear."""
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
    """Whether a value means itself also outside of a `literal`."""
    if isinstance(value, str):
        return "${" not in value
    if isinstance(value, list):
        return all(map(_is_literal, value))
    if isinstance(value, dict):
        return value.keys() not in ({"jq"}, {"literal"}) and all(map(_is_literal, value.values()))
    return True


# Runs in flight

_LATER = Effect(reason="only what begins later sees it")
_DESCRIBES = Effect(reason="it only describes")
_COMPUTED_AGAIN = Effect(in_flight=InFlight.UNSAFE, reason="a replay computes it again, and comes to something else")
_STARTED = Effect(in_flight=InFlight.UNSAFE, reason="which of them start, and when, is in the history")
_EFFECTS: Mapping[tuple[str, str], Effect] = {
    ("interrupt", "answer"): Effect(
        in_flight=InFlight.UNSAFE, reason="a question in a run in flight was asked, or answered, in the old form"
    ),
    ("parallel", "join"): _STARTED,
    ("parallel", "n"): _STARTED,
    ("parallel", "concurrency"): _STARTED,
    ("wait", "duration"): Effect(reason="a timer that runs already keeps its deadline"),
    ("wait", "until"): Effect(reason="a timer that runs already keeps its deadline"),
    ("wait", "signal"): Effect(in_flight=InFlight.UNSAFE, reason="a run in flight may wait for the old signal"),
    ("set_state", "set"): _COMPUTED_AGAIN,
    ("subworkflow", "workflow"): Effect(
        in_flight=InFlight.UNSAFE, reason="a child run that is under way belongs to another workflow"
    ),
    ("subworkflow", "version_pin"): Effect(
        in_flight=InFlight.UNSAFE, reason="a child run that is under way belongs to another version"
    ),
    ("for_each", "items"): _COMPUTED_AGAIN,
    ("for_each", "as"): _COMPUTED_AGAIN,
    ("for_each", "concurrency"): _STARTED,
    ("for_each", "on_item_error"): _COMPUTED_AGAIN,
    ("for_each", "result"): _COMPUTED_AGAIN,
    ("loop", "while"): _COMPUTED_AGAIN,
    ("loop", "until"): _COMPUTED_AGAIN,
    ("loop", "on_exhausted"): _COMPUTED_AGAIN,
    ("fail", "code"): Effect(in_flight=InFlight.UNSAFE, reason="a route may have been chosen by the old code"),
}
_COMMON_EFFECTS: Mapping[str, Effect] = {
    "title": _DESCRIBES,
    "description": _DESCRIBES,
    "metadata": _DESCRIBES,
    "compensate": Effect(in_flight=InFlight.UNKNOWN, reason="unsafe for a run that is already undoing its work"),
    "idempotency_key": Effect(
        in_flight=InFlight.UNKNOWN, reason="an attempt that is under way may be repeated under another key"
    ),
}


def effect_of(node_type: str, name: str, values: tuple[JsonValue, JsonValue]) -> Effect:
    """What a change of one field means for runs in flight."""
    if (node_type, name) in _EFFECTS:
        return _EFFECTS[node_type, name]
    if name in _COMMON_EFFECTS:
        return _COMMON_EFFECTS[name]
    judge = _JUDGES.get(name)
    if judge is not None:
        return judge(*values)
    return _LATER


def _of_rounds(before: JsonValue, after: JsonValue) -> Effect:
    if isinstance(before, int) and isinstance(after, int) and after > before:
        return Effect(reason="a loop that is under way has fewer rounds behind it")
    return Effect(in_flight=InFlight.UNSAFE, reason="a loop that is under way may have more rounds behind it")


def _of_retry(before: JsonValue, after: JsonValue) -> Effect:
    """A replay decides again, for every failed attempt on record, whether another one follows."""
    was, now = _object(_retry(before or {})), _object(_retry(after or {}))
    codes = [
        code for code in _list(now.get("non_retryable_errors")) if code not in _list(was.get("non_retryable_errors"))
    ]
    fewer = _less(now.get("max_attempts"), was.get("max_attempts"))
    shorter = "max_elapsed" in now and ("max_elapsed" not in was or _less(now["max_elapsed"], was["max_elapsed"]))
    if fewer or shorter or codes:
        return Effect(
            in_flight=InFlight.UNKNOWN, reason="unsafe for a run that has tried more often than is allowed now"
        )
    return _LATER


def _less(first: JsonValue, second: JsonValue) -> bool:
    return isinstance(first, int | float) and isinstance(second, int | float) and first < second


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _of_output_schema(before: JsonValue, after: JsonValue) -> Effect:
    changes = compare_schemas({} if before is None else before, {} if after is None else after, "output")
    if any(change.narrows for change in changes):
        return Effect(in_flight=InFlight.UNKNOWN, reason="a result that is already recorded may not fit any more")
    return Effect(reason="results that are already recorded still fit")


_JUDGES: Mapping[str, Callable[[JsonValue, JsonValue], Effect]] = {
    "max_iterations": _of_rounds,
    "retry": _of_retry,
    "output_schema": _of_output_schema,
}
