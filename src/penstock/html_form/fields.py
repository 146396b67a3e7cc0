"""The fields of a form, made from a schema.

Simple members become fields, objects groups of fields, lists repeated fields, and a choice between schemas one group of
fields each. Secrets are masked while they are typed. Whatever is too deep, too large or not understood is written as
JSON.

Above it: `markup`, `values`, `form`. Below it: nothing but schemas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject, JsonValue
from penstock.operations.executions.answers import is_secret

__all__ = [
    "FIELD_PREFIXES",
    "PREFIX",
    "Choice",
    "Field",
    "Given",
    "Wrong",
    "fields_of",
    "item_at",
    "item_count",
    "items_key",
    "pointer_part",
    "variant_key",
    "whole_field",
]

Control: TypeAlias = Literal[
    "text",
    "secret",
    "number",
    "integer",
    "wide",
    "boolean",
    "choice",
    "several",
    "numbers",
    "constant",
    "json",
    "group",
    "list",
    "variant",
]
Given: TypeAlias = Mapping[str, Sequence[str]]
"""The form data that a browser sent, by field name."""
Wrong: TypeAlias = Mapping[str, Sequence[str]]
"""Error messages, by place in the value."""
PREFIX = "field."
_ITEMS, _VARIANT = "items.", "variant."
FIELD_PREFIXES = (PREFIX, _ITEMS, _VARIANT)
"""How the names of all fields of a form begin."""
_WHOLE = "answer"
_CONTROLS: dict[str, Control] = {"string": "text", "number": "number", "integer": "integer", "boolean": "boolean"}
# Deeper than this, a form is more confusing than JSON.
_DEPTH_MAX = 4
_VARIANTS_MAX = 8
_REFERENCES_MAX = 8


@dataclass(frozen=True, slots=True)
class Choice:
    """A value to choose: its text in the form, its label, and itself."""

    text: str
    label: str
    value: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a form, or a group or list of them."""

    name: str
    path: str
    """Its place in the value."""
    key: str
    """Its name in the form, which differs from its place inside of a choice between schemas."""
    control: Control
    schema: JsonObject
    required: bool
    """Whether the form is incomplete without it."""
    optional: bool = False
    """Whether its parent may lack it. The parent itself may still be left out as a whole."""
    nullable: bool = False
    choices: tuple[Choice, ...] = ()
    fields: tuple[Field, ...] = ()
    """The fields of a group; the one that a list repeats; one for each schema of a choice."""

    @property
    def label(self) -> str:
        """What it is called."""
        title = self.schema.get("title")
        return title if isinstance(title, str) and title.strip() else self.name

    @property
    def is_composite(self) -> bool:
        """Whether it has fields of its own; its value may still be written as JSON."""
        return self.control in ("group", "list", "variant")


def items_key(key: str) -> str:
    """Return the name of the hidden field that says how many items a list has."""
    return _ITEMS + key


def variant_key(key: str) -> str:
    """Return the name of the field that says which schema was chosen."""
    return _VARIANT + key


def item_count(field: Field, given: Given) -> int:
    """Return how many items of a list are shown."""
    text = (given.get(items_key(field.key)) or [""])[0]
    if text.isascii() and text.isdecimal() and len(text) < 6:  # noqa: PLR2004 - no larger number is read
        return min(int(text), limits.FORM_ITEMS_MAX)
    least = field.schema.get("minItems")
    return min(least, limits.FORM_ITEMS_MAX) if isinstance(least, int) and least > 0 and field.required else 0


def item_at(field: Field, index: int) -> Field:
    """Return the field of one item of a list."""
    (item,) = field.fields
    moved = _moved(item, (item.path, f"{field.path}/{index}"), (item.key, f"{field.key}/{index}"))
    # Labels of items differ by their number.
    untitled: JsonObject = {name: value for name, value in item.schema.items() if name != "title"}
    return replace(moved, name=f"{item.label} {index + 1}", schema=untitled)


def _moved(field: Field, path: tuple[str, str], key: tuple[str, str]) -> Field:
    """Return a field, with those inside of it, below another place."""
    return replace(
        field,
        path=path[1] + field.path[len(path[0]) :],
        key=key[1] + field.key[len(key[0]) :],
        fields=tuple(_moved(inner, path, key) for inner in field.fields),
    )


def pointer_part(name: str) -> str:
    """Escape a name for a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def fields_of(schema: JsonObject) -> tuple[Field, ...]:
    """Return the fields of an object; none if it has no members that are named."""
    builder = _Builder(schema)
    shape = builder.resolved(schema)
    return builder.members(shape, ("", ""), 0, required=True)


def whole_field(schema: JsonObject) -> Field:
    """Return the field of a value that is not an object with named members."""
    return _Builder(schema).field(_WHOLE, schema, (_WHOLE, _WHOLE), 1, required=True)


@dataclass(slots=True)
class _Builder:
    root: JsonObject
    left: int = field(default=limits.FORM_SCHEMA_FIELDS_MAX)
    """How many more fields a form may have: schemas that refer to themselves grow fast."""

    def resolved(self, schema: JsonObject) -> JsonObject:
        """Follow references within the document; one that leads nowhere leaves a schema that anything fits."""
        for _ in range(_REFERENCES_MAX):
            reference = schema.get("$ref")
            if not isinstance(reference, str) or not reference.startswith("#/"):
                return schema
            found: Any = self.root
            for part in reference.removeprefix("#/").split("/"):
                found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
            beside = {name: value for name, value in schema.items() if name != "$ref"}
            schema = {**found, **beside} if isinstance(found, dict) else beside
        return {}

    def members(self, shape: JsonObject, above: tuple[str, str], depth: int, *, required: bool) -> tuple[Field, ...]:
        """Build the fields of an object; a required member is required only if the object itself is."""
        members, needed = shape.get("properties"), shape.get("required")
        if not isinstance(members, dict):
            return ()
        listed = needed if isinstance(needed, list) else []
        found = (
            self.field(
                name,
                member if isinstance(member, dict) else {},
                (above[0] + pointer_part(name), above[1] + pointer_part(name)),
                depth,
                required=required and name in listed,
            )
            for name, member in members.items()
        )
        return tuple(replace(item, optional=item.name not in listed) for item in found)

    def field(self, name: str, member: JsonObject, place: tuple[str, str], depth: int, *, required: bool) -> Field:
        """Build one field, with those inside of it."""
        self.left -= 1
        schema, nullable = _without_null(self.resolved(member))
        schema = self.resolved(schema)
        made = Field(
            name=name, path=place[0], key=place[1], control="json", schema=schema, required=required, nullable=nullable
        )
        if self.left < 0:
            return made
        return self._simple(made) or self._composite(made, depth) or made

    def _simple(self, made: Field) -> Field | None:
        schema, items = made.schema, made.schema.get("items")
        kinds = _kinds(schema)
        if "const" in schema:
            return replace(made, control="constant")
        if choices := _choices(schema):
            return replace(made, control="choice", choices=choices)
        if kinds == ["boolean"] and made.nullable:
            both = tuple(Choice(text, text, text == "true") for text in ("true", "false"))
            return replace(made, control="choice", choices=both)
        if sorted(kinds) == ["integer", "string"]:
            return replace(made, control="wide")
        if kinds == ["array"] and isinstance(items, dict):
            resolved = self.resolved(items)
            if choices := _choices(resolved):
                return replace(made, control="several", choices=choices)
            if _kinds(resolved) == ["number"] and schema.get("minItems", 0) == schema.get("maxItems"):
                return replace(made, control="numbers")
        control = _CONTROLS.get(kinds[0]) if len(kinds) == 1 else None
        if control is None:
            return None
        return replace(made, control="secret" if control == "text" and is_secret(schema) else control)

    def _composite(self, made: Field, depth: int) -> Field | None:
        schema, items = made.schema, made.schema.get("items")
        if depth >= _DEPTH_MAX:
            return None
        if _is_object(schema):
            inner = self.members(schema, (f"{made.path}/", f"{made.key}/"), depth + 1, required=made.required)
            return replace(made, control="group", fields=inner)
        if _kinds(schema) == ["array"] and isinstance(items, dict) and items:
            item = self.field(made.label, items, (f"{made.path}/0", f"{made.key}/0"), depth + 1, required=True)
            # A list of what has to be written as JSON anyway is easier to write as JSON as a whole.
            return None if item.control in ("json", "constant") else replace(made, control="list", fields=(item,))
        return self._variants(made, depth)

    def _variants(self, made: Field, depth: int) -> Field | None:
        listed = made.schema.get("oneOf") or made.schema.get("anyOf")
        if not isinstance(listed, list) or not 1 < len(listed) <= _VARIANTS_MAX:
            return None
        fields = []
        for number, item in enumerate(listed):
            if not isinstance(item, dict):
                return None
            place = (made.path, f"{made.key}({number})")
            found = self.field(made.name, item, place, depth + 1, required=False)
            if found.control == "json" or found.nullable:
                return None
            fields.append(replace(found, name=_variant_name(found, number)))
        return replace(made, control="variant", fields=tuple(fields))


def _kinds(schema: JsonObject) -> list[str]:
    listed = schema.get("type")
    return [str(kind) for kind in (listed if isinstance(listed, list) else [listed]) if kind is not None]


def _is_object(schema: JsonObject) -> bool:
    return bool(schema.get("properties")) and _kinds(schema) in ([], ["object"])


def _without_null(schema: JsonObject) -> tuple[JsonObject, bool]:
    """Return a schema without null as one of its types, and whether null was one."""
    kinds = _kinds(schema)
    if "null" in kinds and len(kinds) > 1:
        rest: list[JsonValue] = [kind for kind in kinds if kind != "null"]
        values = schema.get("enum")
        less: JsonObject = {**schema, "type": rest[0] if len(rest) == 1 else rest}
        if isinstance(values, list):
            less["enum"] = [value for value in values if value is not None]
        return less, True
    for name in ("anyOf", "oneOf"):
        listed = schema.get(name)
        if isinstance(listed, list) and {"type": "null"} in listed:
            others = [item for item in listed if item != {"type": "null"}]
            beside = {key: value for key, value in schema.items() if key != name}
            if len(others) == 1 and isinstance(others[0], dict):
                return {**others[0], **beside}, True
            return {**beside, name: others}, True
    return schema, False


def _choices(schema: JsonObject) -> tuple[Choice, ...]:
    """Return the values to choose from, with their labels."""
    listed = schema.get("enum")
    if isinstance(listed, list) and listed and not any(isinstance(item, dict | list) for item in listed):
        return tuple(_choice(item, None) for item in listed)
    for name in ("oneOf", "anyOf"):
        titled = schema.get(name)
        if isinstance(titled, list) and titled and all(_is_choice(item) for item in titled):
            return tuple(_choice(item["const"], item.get("title")) for item in titled if isinstance(item, dict))
    return ()


def _choice(value: JsonValue, title: JsonValue) -> Choice:
    text = value if isinstance(value, str) else encode_bytes(value).decode()
    return Choice(text, title if isinstance(title, str) else text, value)


def _is_choice(item: JsonValue) -> bool:
    return isinstance(item, dict) and "const" in item and not isinstance(item["const"], dict | list)


def _variant_name(field: Field, number: int) -> str:
    """Return what one schema of a choice is called: by the member that distinguishes it, or by its type."""
    for inner in field.fields:
        if inner.control == "constant":
            return str(inner.schema["const"])
    kinds = _kinds(field.schema)
    return kinds[0] if len(kinds) == 1 and kinds[0] != "object" else f"choice {number + 1}"
