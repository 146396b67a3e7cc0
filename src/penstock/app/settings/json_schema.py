"""The JSON Schema of `penstock.yaml`, for editors and other tools, made from the declarations.

Above it: `penstock config schema`. Below it: the declarations. It checks nothing itself; what a schema cannot say
(networks, rules between keys) is said by `loading`.
"""

from __future__ import annotations

from typing import assert_never

from penstock.app.settings.keys import (
    FOREIGN_SPELLINGS,
    Anything,
    Choice,
    Form,
    Kind,
    Number,
    PlainKind,
    PrivateText,
    Record,
    Secret,
    Section,
    Setting,
    Span,
    Switch,
    Table,
    Text,
    Texts,
    Whole,
)
from penstock.app.settings.model import settings_outline
from penstock.app.settings.text import written
from penstock.base.json import JsonObject, JsonValue

__all__ = ["settings_schema"]

_AMOUNT = r"[0-9]+(\.[0-9]+)?\s*(ms|s|m|h|d|w)"
_LENGTH: JsonObject = {
    "type": "string",
    "pattern": rf"^\s*(P[0-9.WDTHMS]+|{_AMOUNT}(\s*{_AMOUNT})*)\s*$",
    "examples": ["30s", "10m", "7d"],
}
_REFERENCE: JsonObject = {"$ref": "#/$defs/secret"}
_DEFINITIONS: JsonObject = {
    "secret": {
        "title": "Where a secret is to be found",
        "description": "A variable of the environment, a file, or a program that prints it; never the value itself.",
        "type": "object",
        "properties": {
            "env": {
                "type": "string",
                "pattern": "^[A-Za-z_][A-Za-z0-9_]*$",
                "description": "The variable that holds it.",
            },
            "file": {"type": "string", "minLength": 1, "description": "The file that holds it."},
            "command": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "description": "The program that prints it, and its arguments; no shell is involved.",
            },
        },
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
}


def settings_schema() -> JsonObject:
    """What `penstock.yaml` may contain."""
    whole = _section(settings_outline())
    members = whole["properties"]
    assert isinstance(members, dict)
    spelt = {theirs: members[ours] for theirs, ours in FOREIGN_SPELLINGS.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of Penstock (penstock.yaml)",
        **whole,
        "properties": {**members, **spelt},
        "$defs": _DEFINITIONS,
    }


def _section(section: Section) -> JsonObject:
    members: JsonObject = {
        name: _section(member) if isinstance(member, Section) else _setting(member)
        for name, member in section.members.items()
    }
    # A section with all its lines commented out is null.
    return {
        "type": ["object", "null"],
        "description": section.description,
        "properties": members,
        "additionalProperties": False,
    }


def _setting(setting: Setting) -> JsonObject:
    schema = _kind(setting.kind)
    if setting.optional:
        schema = {"anyOf": [schema, {"type": "null"}]}
    schema = {**schema, "description": setting.key.description}
    if not setting.required:
        schema["default"] = None if setting.default is None else written(setting.kind, setting.default)
    return schema


def _kind(kind: Kind) -> JsonObject:
    match kind:
        case Texts():
            return {"type": "array", "items": _text(kind.form)}
        case Secret():
            return _REFERENCE
        case PrivateText():
            return {"anyOf": [{"type": "string"}, _REFERENCE]}
        case Table():
            table: JsonObject = {"type": "object", "additionalProperties": _kind(kind.items)}
            return table if kind.names is None else {**table, "propertyNames": _text(kind.names)}
        case Record():
            members: JsonObject = {member.name: _setting(member) for member in kind.members}
            required: list[JsonValue] = [member.name for member in kind.members if member.required]
            return {"type": "object", "properties": members, "required": required, "additionalProperties": False}
        case _:
            return _plain(kind)


def _plain(kind: PlainKind) -> JsonObject:
    match kind:
        case Switch():
            return {"type": "boolean"}
        case Whole():
            return {"type": "integer", **_bounds(kind)}
        case Number():
            number: JsonObject = {"type": "number", **_bounds(kind)}
            return {"anyOf": [number, _LENGTH]} if kind.counts_seconds else number
        case Span():
            return _LENGTH
        case Text():
            return _text(kind.form)
        case Choice():
            return {"type": "string", "enum": list(kind.words)}
        case Anything():
            return {}
        case _:
            assert_never(kind)


def _bounds(kind: Whole | Number) -> JsonObject:
    bounds = {"minimum": kind.minimum, "maximum": kind.maximum}
    return {name: bound for name, bound in bounds.items() if bound is not None}


def _text(form: Form | None) -> JsonObject:
    schema: JsonObject = {"type": "string", "minLength": 1}
    return schema if form is None or form.pattern is None else {**schema, "pattern": f"^(?:{form.pattern})$"}
