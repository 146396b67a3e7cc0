"""What a JSON Schema says about types, read with caution: whatever is not certain counts as possible.

Above it: `checks.types`. It is not a validator: `compiled` is, with jsonschema-rs. It answers which kinds of value a
schema can accept, and what it says about a member, before any value exists. A validator cannot answer that. Only
references inside the same schema are followed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from penstock.base.json import JsonObject, JsonValue

__all__ = ["ANY_TYPE", "Member", "Presence", "SchemaView", "TypeSet", "describe_types", "type_of", "value_types"]

TypeSet: TypeAlias = frozenset[str]
# Numbers come in two kinds, so that "integer" is a subset of "number".
ANY_TYPE: TypeSet = frozenset({"null", "boolean", "integer", "fraction", "string", "array", "object"})
_TYPE_NAMES: dict[str, TypeSet] = {
    **{name: frozenset({name}) for name in ("null", "boolean", "integer", "string", "array", "object")},
    "number": frozenset({"integer", "fraction"}),
}
_WORDS = {
    "null": "null",
    "boolean": "true or false",
    "integer": "a whole number",
    "fraction": "a fraction",
    "string": "a text",
    "array": "a list",
    "object": "an object",
}
# Schemas visited per question. A longer walk is a cycle or a puzzle; the answer is then "anything".
_FOLLOWED_MAX = 64
# Keywords that may declare members elsewhere, so that the list of names is incomplete.
_OTHER_DECLARATIONS = frozenset(
    {"anyOf", "oneOf", "if", "not", "patternProperties", "dependentSchemas", "unevaluatedProperties", "propertyNames"}
)


class Presence(StrEnum):
    """What a schema says about a member of an object."""

    DECLARED = "declared"
    UNDECLARED = "undeclared"  # allowed, as far as we can tell
    FORBIDDEN = "forbidden"


@dataclass(frozen=True, slots=True)
class SchemaView:
    """A schema or a part of one, together with the whole schema, which its references need."""

    schema: JsonValue
    root: JsonValue

    def types(self) -> TypeSet:
        """The types that the schema can accept; in doubt too many, never too few."""
        return _types(self.schema, self.root, [_FOLLOWED_MAX])

    def member(self, name: str) -> Member:
        """What the schema says about a member of an object."""
        open_seen, declaring = False, list[JsonObject]()
        for part in self._parts():
            properties = part.get("properties")
            declared = properties if isinstance(properties, dict) else {}
            if name in declared:
                return Member(Presence.DECLARED, SchemaView(declared[name], self.root), ())
            declaring.append(declared)
            additional = part.get("additionalProperties", True)
            if additional is False and not part.get("patternProperties"):
                return Member(Presence.FORBIDDEN, None, declared)
            open_seen = open_seen or isinstance(additional, dict) or not _OTHER_DECLARATIONS.isdisjoint(part)
        if open_seen:
            return Member(Presence.UNDECLARED, None, ())
        # Nearly always one schema declares all names: it is not copied for each of thousands of questions.
        names = declaring[0] if len(declaring) == 1 else {name: None for part in declaring for name in part}
        return Member(Presence.UNDECLARED, None, names)

    def item(self, index: int) -> SchemaView | None:
        """The schema of a list item, if one schema applies to it."""
        for part in self._parts():
            if "prefixItems" not in part and isinstance(part.get("items"), dict) and index >= 0:
                return SchemaView(part["items"], self.root)
        return None

    def required(self) -> Iterator[str]:
        """The members that an object must have."""
        for part in self._parts():
            names = part.get("required")
            yield from (name for name in (names if isinstance(names, list) else []) if isinstance(name, str))

    def _parts(self) -> Iterator[JsonObject]:
        """The schemas that all apply to a value: this one, its reference target, and all of `allOf`."""
        pending, followed = [self.schema], 0
        while pending and followed <= _FOLLOWED_MAX:
            schema = pending.pop(0)
            followed += 1
            if not isinstance(schema, dict):
                continue
            yield schema
            if "$ref" in schema:
                pending.append(_referred(schema["$ref"], self.root))
            all_of = schema.get("allOf")
            pending.extend(all_of if isinstance(all_of, list) else [])


@dataclass(frozen=True, slots=True)
class Member:
    """A member as described by a schema; `names` are the declared members, when the list is useful for a suggestion."""

    presence: Presence
    view: SchemaView | None
    names: Collection[str]


def type_of(value: JsonValue) -> str:
    """The type of a value, by the names that these sets use."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "fraction"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def value_types(value: JsonValue) -> TypeSet:
    """The type of one value, as a set."""
    return frozenset({type_of(value)})


def describe_types(types: TypeSet) -> str:
    """A set of types in words."""
    names = [name for name in _WORDS if name in types]
    if "integer" in types and "fraction" in types:
        names.remove("fraction")
    return " or ".join("a number" if name == "integer" and "fraction" in types else _WORDS[name] for name in names)


def _referred(reference: JsonValue, root: JsonValue) -> JsonValue:
    """The target of a local reference; True, which accepts anything, when the target is unknown."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return True
    found: JsonValue = root
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or name not in found:
            return True
        found = found[name]
    # "#name" is an anchor, not a pointer.
    return found if reference == "#" or reference.startswith("#/") else True


def _types(schema: JsonValue, root: JsonValue, budget: list[int]) -> TypeSet:
    budget[0] -= 1
    if not isinstance(schema, dict) or budget[0] < 0:
        return ANY_TYPE
    found = _declared_types(schema)
    if "$ref" in schema:
        found &= _types(_referred(schema["$ref"], root), root, budget)
    all_of = schema.get("allOf")
    for part in all_of if isinstance(all_of, list) else []:
        found &= _types(part, root, budget)
    for keyword in ("anyOf", "oneOf"):
        choices = schema.get(keyword)
        if isinstance(choices, list) and choices:
            found &= frozenset().union(*(_types(choice, root, budget) for choice in choices))
    return found


def _declared_types(schema: JsonObject) -> TypeSet:
    found = ANY_TYPE
    declared = schema.get("type")
    names = declared if isinstance(declared, list) else [declared]
    if declared is not None and names:
        found &= frozenset().union(*(_TYPE_NAMES.get(str(name), ANY_TYPE) for name in names))
    if "const" in schema:
        found &= value_types(schema["const"])
    allowed = schema.get("enum")
    if isinstance(allowed, list) and allowed:
        found &= frozenset(type_of(value) for value in allowed)
    return found
