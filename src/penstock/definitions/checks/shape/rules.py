"""The rules of a schema, computed once per schema, because a document of 10,000 nodes needs them 10,000 times.

Most schemas use few keywords, most values are right, and of the rules for each node type only one applies to a node. So
the walk of `validator` asks here first, and words a defect only where there may be one. Above it: `validator`. Below
it: the keywords. It finds no defects itself.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.checks.shape.keywords import choice_names, has_type, list_at, object_at

__all__ = ["Rules", "rules_of"]

_CONSTANTS = frozenset({"const", "enum", "not"})
_TEXTS = frozenset({"minLength", "pattern"})
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum"})
_PRESENCE = frozenset({"minProperties", "dependentRequired", "oneOf", "anyOf", "not"})
_PARTS = frozenset({"$ref", "allOf", "anyOf", "if"})
# The Python types of values that surely have a JSON type. A float may be an integer too, which its value tells.
_SURE_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "number": (int, float),
    "integer": (int,),
    "null": (type(None),),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The keywords of one schema, prepared for look-ups."""

    schema: JsonObject
    sure_types: frozenset[type]
    has_constants: bool
    has_texts: bool
    has_numbers: bool
    has_presence: bool
    """Whether more is said about which members are present than `required`."""
    required: frozenset[JsonValue]
    has_parts: bool
    properties: JsonObject
    additional: JsonValue
    reference: str | None
    """The name of the piece that the schema refers to."""
    union: list[JsonValue]
    """The schemas of `anyOf`, unless they only choose between members."""
    chosen_by: str | None
    """The member whose value says which parts of `allOf` apply, as `type` does for nodes."""
    chosen: Mapping[str, tuple[JsonValue, ...]]
    """The parts of `allOf` that apply for each value of that member."""
    unchosen: tuple[JsonValue, ...]
    """The parts of `allOf` that apply for every other value."""

    def has_type(self, value: JsonValue) -> bool:
        """Whether a value has the type, or one of the types, of the schema."""
        return type(value) in self.sure_types or has_type(self.schema, value)

    def has_members(self, value: JsonObject) -> bool:
        """Whether the members that a schema asks for are surely present."""
        return not self.has_presence and self.required <= value.keys()

    def parts_for(self, value: JsonValue) -> tuple[JsonValue, ...] | list[JsonValue]:
        """The parts of `allOf` that may find something in a value."""
        if self.chosen_by is None or not isinstance(value, dict):
            return list_at(self.schema, "allOf")
        word = value.get(self.chosen_by)
        return self.chosen.get(word, self.unchosen) if isinstance(word, str) else self.unchosen

    def is_right(self, value: str | int | float | bool | None) -> bool:
        """Whether nothing of the schema itself is wrong with a scalar; references are not followed."""
        schema = self.schema
        if not self.has_type(value) or self.union or "if" in schema or "allOf" in schema or self.has_numbers:
            return False
        if self.has_constants and ("const" in schema or not _is_allowed(schema, value)):
            return False
        if not self.has_texts or not isinstance(value, str):
            return True
        pattern, length_min = schema.get("pattern"), schema.get("minLength", 0)
        if not isinstance(length_min, int) or len(value) < length_min:
            return False
        return not isinstance(pattern, str) or re.fullmatch(pattern, value) is not None


def rules_of(schema: JsonObject) -> Rules:
    """Work out the rules of a schema."""
    reference, alternatives = schema.get("$ref"), list_at(schema, "anyOf")
    wanted = schema.get("type")
    names = wanted if isinstance(wanted, list) else [wanted]
    chosen_by = _chosen_by(list_at(schema, "allOf"))
    words = {} if chosen_by is None else {_word(part, chosen_by): None for part in list_at(schema, "allOf")}
    return Rules(
        schema=schema,
        sure_types=frozenset(sure for name in names for sure in _SURE_TYPES.get(str(name), ())),
        has_constants=not _CONSTANTS.isdisjoint(schema),
        has_texts=not _TEXTS.isdisjoint(schema),
        has_numbers=not _NUMBERS.isdisjoint(schema),
        required=frozenset(name for name in list_at(schema, "required") if isinstance(name, str)),
        has_presence=not _PRESENCE.isdisjoint(schema),
        has_parts=not _PARTS.isdisjoint(schema),
        properties=object_at(schema, "properties"),
        additional=schema.get("additionalProperties", True),
        reference=reference.removeprefix("#/$defs/") if isinstance(reference, str) else None,
        union=[] if choice_names(alternatives) else alternatives,
        chosen_by=chosen_by,
        chosen={} if chosen_by is None else {word: _parts(schema, chosen_by, word) for word in words if word},
        unchosen=() if chosen_by is None else _parts(schema, chosen_by, None),
    )


def _is_allowed(schema: JsonObject, value: JsonValue) -> bool:
    """Whether `enum` allows a value and `not` does not refuse it."""
    refused = object_at(schema, "not").get("enum")
    words = schema.get("enum")
    return (not isinstance(words, list) or value in words) and (not isinstance(refused, list) or value not in refused)


def _chosen_by(parts: list[JsonValue]) -> str | None:
    """The member that most parts of an `allOf` look at; None if there is no such choice."""
    for part in parts:
        if isinstance(part, dict) and "else" not in part:
            properties = object_at(object_at(part, "if"), "properties")
            if len(properties) == 1 and _word(part, name := next(iter(properties))) is not None:
                return name
    return None


def _word(part: JsonValue, member: str) -> str | None:
    """The value of a member for which a part applies; None if it may apply for any."""
    if not isinstance(part, dict) or set(part) != {"if", "then"}:
        return None
    condition = object_at(part, "if")
    word = object_at(object_at(condition, "properties"), member).get("const")
    is_choice = set(condition) == {"properties", "required"} and condition["required"] == [member]
    return word if is_choice and isinstance(word, str) else None


def _parts(schema: JsonObject, member: str, word: str | None) -> tuple[JsonValue, ...]:
    """The parts of `allOf` that apply if a member has a value, or has one that no part asks for."""
    return tuple(part for part in list_at(schema, "allOf") if _word(part, member) in (None, word))
