"""Types of settings that hold other values or refer to secrets, and `Setting`, a key with its type.

Above it: `declarations`. Below it: `types`, `secrets`.
"""

from __future__ import annotations

import json
import os
import re
from keyword import iskeyword
from typing import Any

from msgspec import NODEFAULT, Struct

from penstock.app.settings.formats import Format, carries_credentials
from penstock.app.settings.locations import INVALID, SECRET_CODE, Location
from penstock.app.settings.secrets import (
    REFERENCE_HINT,
    FileReference,
    ReferenceProblem,
    anchored_reference,
    describe_reference,
    read_reference,
    reference_document,
)
from penstock.app.settings.types import String, TextProblem, ValueType
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.source.findings import suggestion

__all__ = [
    "ENVIRONMENT_PREFIX",
    "Field",
    "ListOrTable",
    "Record",
    "SecretString",
    "SecretValue",
    "Setting",
    "StringList",
    "Table",
]

ENVIRONMENT_PREFIX = "PENSTOCK_"
_SECRET_MARK = "${secret:"
_NOTHING = "null"
_REFERENCE_SCHEMA: JsonObject = {"$ref": "#/$defs/secret"}


class StringList(ValueType, frozen=True):
    """A list of texts."""

    format: Format | None = None

    def expected(self) -> str:
        return f"a list; each item {String(self.format).expected()}"

    def schema(self) -> JsonObject:
        return {"type": "array", "items": String(self.format).schema()}

    def parse(self, value: JsonValue, at: Location) -> Any:
        if not isinstance(value, list):
            return self.refuse(value, at)
        items = [String(self.format).parse(item, at.item(index)) for index, item in enumerate(value)]
        return INVALID if INVALID in items else tuple(items)

    def decode(self, text: str) -> JsonValue | TextProblem:
        if text.lstrip().startswith("["):
            return ValueType.decode(self, text)
        return [part.strip() for part in text.split(",") if part.strip()]

    def to_json(self, value: Any) -> JsonValue:
        return list(value)


class SecretValue(ValueType, frozen=True):
    """A reference to a secret."""

    def expected(self) -> str:
        return "a reference to a secret: {env: NAME}, {file: PATH} or {command: [PROGRAM, …]}"

    def schema(self) -> JsonObject:
        return _REFERENCE_SCHEMA

    def parse(self, value: JsonValue, at: Location) -> Any:
        reference = read_reference(value)
        if isinstance(reference, ReferenceProblem):
            code = "SETTING_INVALID" if isinstance(value, dict) else SECRET_CODE
            return at.report(f"`{at.name}` {reference.message}", reference.hint, code=code)
        if isinstance(reference, FileReference) and reference.path.startswith("~"):
            reference = FileReference(os.path.expanduser(reference.path))
        return anchored_reference(reference, at.source.folder)

    def to_json(self, value: Any) -> JsonValue:
        return reference_document(value)

    def shown(self, value: Any) -> JsonValue:
        return f"(secret from {describe_reference(value)})"


class SecretString(SecretValue, frozen=True):
    """A text that may contain `${secret:NAME}`, or a reference to a secret that is the whole text."""

    def expected(self) -> str:
        return "a text or a reference to a secret"

    def schema(self) -> JsonObject:
        return {"anyOf": [{"type": "string"}, _REFERENCE_SCHEMA]}

    def parse(self, value: JsonValue, at: Location) -> Any:
        if isinstance(value, dict):
            return SecretValue.parse(self, value, at)
        if not isinstance(value, str):
            # The given value may be a secret, even as a number.
            return at.report(f"`{at.name}` must be {self.expected()}", REFERENCE_HINT)
        if carries_credentials(at.name.rpartition(".")[2]) and _SECRET_MARK not in value:
            message = f"`{at.name}` is a secret: settings must not contain its value"
            return at.report(message, f"{REFERENCE_HINT}; or a text with ${{secret:NAME}} in it", code=SECRET_CODE)
        return value

    def to_json(self, value: Any) -> JsonValue:
        return value if isinstance(value, str) else SecretValue.to_json(self, value)

    def shown(self, value: Any) -> JsonValue:
        return value if isinstance(value, str) else SecretValue.shown(self, value)


class Table(ValueType, frozen=True):
    """Named values of one type. `names` is the format of the names."""

    items: Record | SecretValue | String | StringList
    names: Format | None = None

    def expected(self) -> str:
        return "an object with one entry per name"

    def schema(self) -> JsonObject:
        table: JsonObject = {"type": "object", "additionalProperties": self.items.schema()}
        return table if self.names is None else {**table, "propertyNames": String(self.names).schema()}

    def parse(self, value: JsonValue, at: Location) -> Any:
        if not isinstance(value, dict):
            return self.refuse(value, at)
        items: dict[str, Any] = {}
        for key, item in value.items():
            if self.names is not None and re.fullmatch(self.names.pattern or ".*", key) is None:
                items[key] = at.member(key).report(f"`{key}` in `{at.name}` must be {self.names.expected}")
            else:
                items[key] = self.items.parse(item, at.member(key))
        return INVALID if INVALID in items.values() else items

    def to_json(self, value: Any) -> JsonValue:
        return {name: self.items.to_json(item) for name, item in value.items()}

    def shown(self, value: Any) -> JsonValue:
        return {name: self.items.shown(item) for name, item in value.items()}


class ListOrTable(ValueType, frozen=True):
    """A list of texts (or one text), or named values."""

    short: StringList
    table: Table

    def expected(self) -> str:
        return f"{self.short.expected()}; or {self.table.expected()}"

    def schema(self) -> JsonObject:
        return {"anyOf": [String(self.short.format).schema(), self.short.schema(), self.table.schema()]}

    def parse(self, value: JsonValue, at: Location) -> Any:
        if isinstance(value, dict):
            return self.table.parse(value, at)
        return self.short.parse([value] if isinstance(value, str) else value, at)

    def decode(self, text: str) -> JsonValue | TextProblem:
        return ValueType.decode(self, text) if text.lstrip().startswith("{") else self.short.decode(text)

    def to_json(self, value: Any) -> JsonValue:
        return self.table.to_json(value) if isinstance(value, dict) else self.short.to_json(value)

    def shown(self, value: Any) -> JsonValue:
        return self.table.shown(value) if isinstance(value, dict) else self.short.shown(value)


class Record(ValueType, frozen=True):
    """An object with members of its own. `made` is its class."""

    made: type[Struct]
    members: tuple[Setting, ...]

    def expected(self) -> str:
        return f"an object with {', '.join(member.name for member in self.members)}"

    def schema(self) -> JsonObject:
        members: JsonObject = {member.name: member.schema() for member in self.members}
        required: list[JsonValue] = [member.name for member in self.members if member.required]
        return {"type": "object", "properties": members, "required": required, "additionalProperties": False}

    def parse(self, value: JsonValue, at: Location) -> Any:
        if not isinstance(value, dict):
            return self.refuse(value, at)
        known = {member.name: member for member in self.members}
        found: dict[str, Any] = {}
        before = len(at.findings)
        for key, given in value.items():
            member = known.get(key)
            if member is None:
                hint = suggestion(key, known) or f"it may have {', '.join(known)}"
                at.member(key).report(f"`{at.name}` has no `{key}`", hint, code="UNKNOWN_SETTING")
            else:
                found[member.attribute] = member.parse(given, at.member(key))
        for member in self.members:
            if member.required and member.name not in value:
                at.report(f"`{at.name}` needs `{member.name}`: {member.field.description}")
        if len(at.findings) > before:
            return INVALID
        made: Any = self.made(**found)
        for problem in getattr(made, "problems", tuple)():
            place = at.member(problem.member) if problem.member else at
            place.report(f"`{place.name}` {problem.message}", problem.hint)
        return INVALID if len(at.findings) > before else made

    def to_json(self, value: Any) -> JsonValue:
        return self._given(value)

    def shown(self, value: Any) -> JsonValue:
        given = self._given(value)
        return {
            member.name: member.type.shown(getattr(value, member.attribute))
            for member in self.members
            if given.get(member.name) is not None
        }

    def _given(self, value: Any) -> JsonObject:
        """The members that differ from their defaults."""
        return {
            member.name: member.to_json(found)
            for member in self.members
            if (found := getattr(value, member.attribute)) != member.default
        }


class Field(Struct, frozen=True):
    """The details of a declaration beside its type and default. `aliases` are other variables that set the key."""

    description: str
    flag: str | None = None
    aliases: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    format: Format | None = None


class Setting(Struct, frozen=True, kw_only=True):
    """One key. A key without a default is required; an optional one may be null."""

    path: str
    type: ValueType
    field: Field
    default: Any
    optional: bool

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]

    @property
    def attribute(self) -> str:
        """The Python name: `import` is a keyword."""
        return f"{self.name}_" if iskeyword(self.name) else self.name

    @property
    def required(self) -> bool:
        """True if it has no default."""
        return self.default is NODEFAULT

    @property
    def variable(self) -> str:
        """The variable that sets it."""
        return ENVIRONMENT_PREFIX + self.path.replace(".", "_").upper()

    @property
    def variables(self) -> tuple[str, ...]:
        """Every variable that sets it; the first one that is set wins."""
        return (self.variable, *self.field.aliases)

    def expected(self) -> str:
        """The expected value, for people."""
        return f"{self.type.expected()}; or null" if self.optional else self.type.expected()

    def schema(self) -> JsonObject:
        """The JSON Schema of its value in a file."""
        schema = self.type.schema()
        if self.optional:
            schema = {"anyOf": [schema, {"type": "null"}]}
        schema = {**schema, "description": self.field.description}
        if not self.required:
            schema["default"] = self.to_json(self.default)
        return schema

    def parse(self, value: JsonValue, at: Location) -> Any:
        """The Python value; INVALID if something is wrong, which is reported."""
        return None if value is None and self.optional else self.type.parse(value, at)

    def decode(self, text: str) -> JsonValue | TextProblem:
        """The text of a variable as the JSON value that a file would have."""
        return None if self.optional and text.strip() == _NOTHING else self.type.decode(text)

    def encode(self, value: Any) -> str:
        """A value as the text of a variable."""
        given = self.to_json(value)
        return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)

    def to_json(self, value: Any) -> JsonValue:
        """A value as it is written in a file."""
        return None if value is None else self.type.to_json(value)

    def shown(self, value: Any) -> JsonValue:
        """A value as it is shown to people."""
        return None if value is None else self.type.shown(value)
