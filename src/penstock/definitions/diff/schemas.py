"""What changed between two JSON Schemas, and in which direction.

A change *narrows* when a value that was accepted may now be refused, and *widens* when a value that was refused may now
be accepted. Narrowing breaks senders of values, widening breaks readers; the caller decides which of the two matters.
Two conventions follow practice rather than logic: a new optional property of an open object narrows nothing, and a
removed property widens, because a reader who looks for it finds nothing.

Above it: `contract`. It knows nothing about workflows. A rule that it cannot judge counts as both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from penstock.base.json import JsonObject, JsonValue, json_pointer
from penstock.base.limits import DOCUMENT_DEPTH_MAX
from penstock.definitions.diff.model import ChangeKind
from penstock.definitions.diff.schema_values import value_differences
from penstock.definitions.diff.values import alike, brief

__all__ = ["SchemaChange", "compare_schemas"]

_REF_HOPS_MAX = 32
# Keywords that describe a value without refusing any.
_NOTES = ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly")
_OPAQUE = (
    "not",
    "if",
    "then",
    "else",
    "$ref",
    "$dynamicRef",
    "patternProperties",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
    "additionalItems",
    "contains",
    "minContains",
    "maxContains",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """One difference between two schemas. `message` is a sentence; `path` points into the schema."""

    kind: ChangeKind
    keyword: str
    path: str
    message: str
    before: JsonValue = None
    after: JsonValue = None
    narrows: bool = False
    widens: bool = False


def compare_schemas(
    before: JsonValue, after: JsonValue, what: str, *, defaults_are_filled: bool = False
) -> tuple[SchemaChange, ...]:
    """Compare two schemas of the thing called `what`.

    With `defaults_are_filled`, a required property that has a default may still be left out.
    """
    comparison = _Comparison(before_root=before, after_root=after, what=what, defaults_are_filled=defaults_are_filled)
    comparison.compare(before, after, _Place())
    return tuple(comparison.changes)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a comparison is: as a JSON pointer, and as a name for people."""

    pointer: tuple[str | int, ...] = ()
    names: str = ""

    def property(self, name: str) -> _Place:
        return _Place((*self.pointer, "properties", name), f"{self.names}.{name}" if self.names else name)

    def items(self, *pointer: str | int) -> _Place:
        return _Place((*self.pointer, *pointer), f"{self.names}[]")

    def inside(self, *pointer: str | int) -> _Place:
        return _Place((*self.pointer, *pointer), self.names)


@dataclass(slots=True, kw_only=True)
class _Comparison:
    before_root: JsonValue
    after_root: JsonValue
    what: str
    defaults_are_filled: bool
    changes: list[SchemaChange] = field(default_factory=list)
    _seen: set[tuple[str, str]] = field(default_factory=set)

    def compare(self, before: JsonValue, after: JsonValue, place: _Place) -> None:
        before, before_ref = _resolved(before, self.before_root)
        after, after_ref = _resolved(after, self.after_root)
        if (before_ref, after_ref) in self._seen:
            return
        if before_ref and after_ref:
            self._seen.add((before_ref, after_ref))
        if len(place.pointer) > DOCUMENT_DEPTH_MAX:
            self.opaque("$ref", before, after, place)
        elif before is False or after is False:
            self._with_nothing(before, after, place)
        else:
            first, second = _object(before), _object(after)
            for compare in _KEYWORDS:
                compare(self, first, second, place)

    def called(self, place: _Place) -> str:
        """The name of the thing at a place, for the middle of a sentence."""
        return f"{brief(place.names)} of the {self.what}" if place.names else f"the {self.what}"

    def changed(
        self, keyword: str, place: _Place, values: tuple[JsonValue, JsonValue], effects: tuple[bool, bool], text: str
    ) -> None:
        """Record a change; `effects` says whether it narrows and whether it widens."""
        self.add(ChangeKind.CHANGED, keyword, place, text, values, effects)

    def add(
        self,
        kind: ChangeKind,
        keyword: str,
        place: _Place,
        text: str,
        values: tuple[JsonValue, JsonValue],
        effects: tuple[bool, bool],
    ) -> None:
        """Record that something was added, removed or changed."""
        self.changes.append(
            SchemaChange(
                kind=kind,
                keyword=keyword,
                path=json_pointer(place.pointer),
                message=text[:1].upper() + text[1:],
                before=values[0],
                after=values[1],
                narrows=effects[0],
                widens=effects[1],
            )
        )

    def opaque(self, keyword: str, before: JsonValue, after: JsonValue, place: _Place) -> None:
        """Record a change of a rule whose meaning is not understood here."""
        if not alike(before, after):
            text = f"the rule `{keyword}` of {self.called(place)} changed; its effect is unknown."
            self.changed(keyword, place, (before, after), (True, True), text)

    def _with_nothing(self, before: JsonValue, after: JsonValue, place: _Place) -> None:
        if before is not after:
            text = f"{self.called(place)} {'accepts nothing any more' if after is False else 'accepts values now'}"
            self.changed("", place, (before, after), (after is False, before is False), f"{text}.")


def _object(schema: JsonValue) -> JsonObject:
    return schema if isinstance(schema, dict) else {}


def _resolved(schema: JsonValue, root: JsonValue) -> tuple[JsonValue, str]:
    """Follow references inside the document, and return the last one followed, which identifies recursive schemas."""
    followed = ""
    for _ in range(_REF_HOPS_MAX):
        ref = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(schema, dict) or not isinstance(ref, str) or not ref.startswith("#"):
            break
        target = _look_up(root, ref[1:])
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        if target is None or (beside and not (isinstance(target, dict) and beside.keys().isdisjoint(target))):
            break
        followed = ref
        schema = {**target, **beside} if isinstance(target, dict) and beside else target
    return schema, followed


def _look_up(root: JsonValue, pointer: str) -> JsonValue:
    current = root
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(current, dict):
            current = current.get(name)
        elif isinstance(current, list) and name.isdigit() and int(name) < len(current):
            current = current[int(name)]
        else:
            return None
    return current


# What a schema consists of


def _compare_value(comparison: _Comparison, before: JsonObject, after: JsonObject, place: _Place) -> None:
    for difference in value_differences(before, after, comparison.called(place)):
        comparison.changed(difference.keyword, place, difference.values, difference.effects, difference.text)


def _required(schema: JsonObject) -> list[str]:
    names = schema.get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _is_closed(schema: JsonObject) -> bool:
    return schema.get("additionalProperties") is False


def _compare_properties(comparison: _Comparison, before: JsonObject, after: JsonObject, place: _Place) -> None:
    old, new = _object(before.get("properties")), _object(after.get("properties"))
    for name, schema in new.items():
        if name in old:
            comparison.compare(old[name], schema, place.property(name))
        else:
            _report_new(comparison, before, after, place.property(name), name)
    for name, schema in old.items():
        if name not in new:
            inner = place.property(name)
            refused = ", and is refused" if _is_closed(after) else ""
            text = f"{comparison.called(inner)} was removed{refused}."
            comparison.add(ChangeKind.REMOVED, "properties", inner, text, (schema, None), (_is_closed(after), True))
    _compare_required(comparison, before, after, place)
    _compare_openness(comparison, before, after, place)


def _report_new(comparison: _Comparison, before: JsonObject, after: JsonObject, place: _Place, name: str) -> None:
    schema = _object(after.get("properties")).get(name)
    needed = name in _required(after) and name not in _required(before)
    filled = needed and _is_filled(comparison, after, name)
    word = "required" if needed and not filled else "optional, with a default" if filled else "optional"
    text = f"{comparison.called(place)} is new and {word}."
    effects = needed and not filled, _is_closed(before)
    comparison.add(ChangeKind.ADDED, "properties", place, text, (None, schema), effects)


def _is_filled(comparison: _Comparison, schema: JsonObject, name: str) -> bool:
    described = _object(_object(schema.get("properties")).get(name))
    return comparison.defaults_are_filled and "default" in _object(_resolved(described, comparison.after_root)[0])


def _compare_required(comparison: _Comparison, before: JsonObject, after: JsonObject, place: _Place) -> None:
    old, new = _required(before), _required(after)
    known_before, known_after = _object(before.get("properties")), _object(after.get("properties"))
    for name in dict.fromkeys(new):
        # A property that was added or removed is already reported.
        if name not in old and (name in known_before or name not in known_after):
            filled = _is_filled(comparison, after, name)
            text = f"{comparison.called(place.property(name))} is now required{', with a default' if filled else ''}."
            comparison.changed("required", place.property(name), (False, True), (not filled, False), text)
    for name in dict.fromkeys(old):
        if name not in new and (name in known_after or name not in known_before):
            text = f"{comparison.called(place.property(name))} is no longer required."
            comparison.changed("required", place.property(name), (True, False), (False, True), text)


def _compare_openness(comparison: _Comparison, before: JsonObject, after: JsonObject, place: _Place) -> None:
    old, new = before.get("additionalProperties", True), after.get("additionalProperties", True)
    if isinstance(old, dict) and isinstance(new, dict) and old and new:
        comparison.compare(old, new, _Place((*place.pointer, "additionalProperties"), f"{place.names}.*".lstrip(".")))
        return
    # An empty schema allows everything, as do `true` and a missing keyword.
    strictness = {True: 0, False: 2}
    was = strictness[old] if isinstance(old, bool) else 1 if old else 0
    now = strictness[new] if isinstance(new, bool) else 1 if new else 0
    if was != now:
        words = ("are now allowed", "are now checked", "are now refused")
        text = f"members of {comparison.called(place)} that are not listed {words[now]}."
        comparison.changed("additionalProperties", place, (old, new), (now > was, now < was), text)


def _compare_items(comparison: _Comparison, before: JsonObject, after: JsonObject, place: _Place) -> None:
    old_first, new_first = _first_items(before), _first_items(after)
    if len(old_first) == len(new_first):
        for index, (old, new) in enumerate(zip(old_first, new_first, strict=True)):
            comparison.compare(old, new, place.items("prefixItems", index))
    else:
        comparison.opaque("prefixItems", old_first, new_first, place)
    old_rest, new_rest = _rest_items(before), _rest_items(after)
    if old_rest in (True, {}) or new_rest in (True, {}):
        narrows, widens = old_rest in (True, {}), new_rest in (True, {})
        if narrows != widens:
            text = f"the items of {comparison.called(place)} are {'now' if narrows else 'no longer'} checked."
            comparison.changed("items", place, (old_rest, new_rest), (narrows, widens), text)
    else:
        comparison.compare(old_rest, new_rest, place.items("items"))


def _first_items(schema: JsonObject) -> list[JsonValue]:
    """The schemas of the first items; older drafts write them as a list under `items`."""
    for keyword in ("prefixItems", "items"):
        value = schema.get(keyword)
        if isinstance(value, list):
            return value
    return []


def _rest_items(schema: JsonObject) -> JsonValue:
    value = schema.get("items", True)
    return True if isinstance(value, list) else value


def _compare_combinations(comparison: _Comparison, before: JsonObject, after: JsonObject, place: _Place) -> None:
    for keyword in ("anyOf", "oneOf", "allOf"):
        old, new = before.get(keyword), after.get(keyword)
        if not isinstance(old, list) or not isinstance(new, list):
            _compare_presence(comparison, keyword, (old, new), place)
            continue
        gone = [schema for schema in old if not any(alike(schema, other) for other in new)]
        extra = [schema for schema in new if not any(alike(schema, other) for other in old)]
        if len(gone) == len(extra) == 1:
            start = len(comparison.changes)
            comparison.compare(gone[0], extra[0], place.inside(keyword, new.index(extra[0])))
            if keyword == "oneOf":
                # A wider alternative can overlap with another one, and then `oneOf` fails.
                comparison.changes[start:] = [_in_both_directions(change) for change in comparison.changes[start:]]
        elif gone or extra:
            effects = (bool(gone), bool(extra)) if keyword == "anyOf" else (bool(extra), bool(gone))
            effects = (True, True) if keyword == "oneOf" else effects
            text = f"the alternatives (`{keyword}`) of {comparison.called(place)} changed."
            comparison.changed(keyword, place, (old, new), effects, text)


def _compare_presence(
    comparison: _Comparison, keyword: str, values: tuple[JsonValue, JsonValue], place: _Place
) -> None:
    if not alike(*values):
        appeared = values[1] is not None
        text = f"{comparison.called(place)} {'now has' if appeared else 'no longer has'} the rule `{keyword}`."
        comparison.changed(keyword, place, values, (appeared, values[0] is not None), text)


def _in_both_directions(change: SchemaChange) -> SchemaChange:
    moves = change.narrows or change.widens
    return replace(change, narrows=moves, widens=moves)


def _compare_opaque(comparison: _Comparison, before: JsonObject, after: JsonObject, place: _Place) -> None:
    for keyword in _OPAQUE:
        comparison.opaque(keyword, before.get(keyword), after.get(keyword), place)


def _compare_notes(comparison: _Comparison, before: JsonObject, after: JsonObject, place: _Place) -> None:
    for keyword in _NOTES:
        old, new = before.get(keyword), after.get(keyword)
        if not alike(old, new) or (keyword in before) != (keyword in after):
            text = f"the {keyword} of {comparison.called(place)} changed."
            comparison.changed(keyword, place, (old, new), (False, False), text)
    old_reducer, new_reducer = before.get("reducer", "overwrite"), after.get("reducer", "overwrite")
    if not alike(old_reducer, new_reducer):
        text = f"the reducer of {comparison.called(place)} is now {brief(new_reducer)} (before: {brief(old_reducer)})."
        comparison.changed("reducer", place, (old_reducer, new_reducer), (False, False), text)


_KEYWORDS: tuple[Callable[[_Comparison, JsonObject, JsonObject, _Place], None], ...] = (
    _compare_value,
    _compare_properties,
    _compare_items,
    _compare_combinations,
    _compare_opaque,
    _compare_notes,
)
