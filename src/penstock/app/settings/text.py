"""Values of settings as text: the text of a variable or a flag as a JSON value, and values written back.

Above it: `values`, `loading`, the views. Below it: the declarations. It checks nothing: a text that
cannot be what it should be stays a text, and whoever checks it says what was expected.
"""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any, Never, assert_never

from msgspec import Struct

from penstock.app.settings.keys import (
    Anything,
    Choice,
    Kind,
    Number,
    PrivateText,
    Record,
    Secret,
    Setting,
    Span,
    Switch,
    Table,
    Text,
    Texts,
    Whole,
)
from penstock.app.settings.secrets import describe_reference, reference_document
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.durations import format_duration

__all__ = ["TextProblem", "decoded_text", "encoded_text", "shown", "written"]

_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_WHOLE = re.compile(r"[-+]?[0-9]{1,19}")
_NUMBER = re.compile(r"[-+]?([0-9]{1,19}(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")
_NOTHING = "null"
_MILLISECOND = timedelta(milliseconds=1)


class TextProblem(Struct, frozen=True):
    """Why a text cannot be read; nothing of the text is in it, because it may hold secrets."""

    message: str


def decoded_text(setting: Setting, text: str) -> JsonValue | TextProblem:
    """The text of a variable as the JSON value that a file would have."""
    if setting.optional and text.strip() == _NOTHING:
        return None
    match setting.kind:
        case Switch():
            return _WORDS.get(text.strip().lower(), text)
        case Whole():
            return int(text) if _WHOLE.fullmatch(text.strip()) else text
        case Number():
            return float(text) if _NUMBER.fullmatch(text.strip()) else text
        case Text() | Span():
            return text
        case Choice():
            return text.strip()
        case Texts():
            if text.lstrip().startswith("["):
                return _json(text)
            return [part.strip() for part in text.split(",") if part.strip()]
        case Secret() | PrivateText() | Table() | Record() | Anything():
            return _json(text)
        case _:
            assert_never(setting.kind)


def encoded_text(setting: Setting, value: Any) -> str:
    """A value as the text of a variable."""
    given = None if value is None and setting.optional else written(setting.kind, value)
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


def written(kind: Kind, value: Any) -> JsonValue:
    """A value as it stands in a file."""
    match kind:
        case Switch() | Whole() | Text() | Choice() | Anything():
            plain: JsonValue = value
            return plain
        case Number():
            return int(value) if float(value).is_integer() else float(value)
        case Span():
            return format_duration(value // _MILLISECOND)
        case Texts():
            return list(value)
        case Secret():
            return reference_document(value)
        case PrivateText():
            return value if isinstance(value, str) else reference_document(value)
        case Table():
            return {name: written(kind.items, item) for name, item in value.items()}
        case Record():
            return _members(kind, value)
        case _:
            assert_never(kind)


def shown(kind: Kind, value: Any) -> JsonValue:
    """A value for people to look at: like `written`, with words in the place of secrets."""
    match kind:
        case Secret():
            return f"(secret from {describe_reference(value)})"
        case PrivateText():
            return value if isinstance(value, str) else shown(Secret(), value)
        case Table():
            return {name: shown(kind.items, item) for name, item in value.items()}
        case Record():
            given = _members(kind, value)
            return {
                member.name: shown(member.kind, getattr(value, member.attribute))
                for member in kind.members
                if given.get(member.name) is not None
            }
        case _:
            return written(kind, value)


def _members(kind: Record, value: Any) -> JsonObject:
    """The members that differ from their defaults."""
    return {
        member.name: None if found is None else written(member.kind, found)
        for member in kind.members
        if (found := getattr(value, member.attribute)) != member.default
    }


def _json(text: str) -> JsonValue | TextProblem:
    try:
        value: JsonValue = json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        return TextProblem(f"must be JSON; {error.msg} at character {error.pos + 1}")
    except (ValueError, RecursionError):
        return TextProblem("must be JSON")
    return value


def _refuse(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")
