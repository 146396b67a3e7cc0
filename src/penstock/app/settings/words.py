"""What may stand in a setting and what stood there instead, in words for people.

Above it: messages about settings and the reference. Below it: the declarations.
"""

from __future__ import annotations

import re
from typing import assert_never

from penstock.app.settings.keys import (
    Anything,
    Choice,
    Form,
    Kind,
    Number,
    PlainKind,
    PrivateText,
    Record,
    Secret,
    Span,
    Switch,
    Table,
    Text,
    Texts,
    Whole,
)
from penstock.base.json import JsonValue
from penstock.definitions.durations import format_duration

__all__ = ["described", "expected"]

_TEXT_CHARACTERS_SHOWN = 60
_PASSWORD_IN_ADDRESS = re.compile(r"://[^/]*@")


def expected(kind: Kind) -> str:
    """What a key takes, as it follows "must be"."""
    match kind:
        case Texts():
            return f"a list; each item {_form(kind.form)}"
        case Secret():
            return "a reference to a secret: {env: NAME}, {file: PATH} or {command: [PROGRAM, …]}"
        case PrivateText():
            return "a text or a reference to a secret"
        case Table():
            return "an object with one entry per name"
        case Record():
            return f"an object with {', '.join(member.name for member in kind.members)}"
        case _:
            return _expected_plain(kind)


def _expected_plain(kind: PlainKind) -> str:
    match kind:
        case Switch():
            return "true or false"
        case Whole():
            return f"a whole number{_range(_plain(kind.minimum), _plain(kind.maximum))}"
        case Number():
            bounds = _range(_plain(kind.minimum), _plain(kind.maximum))
            if not kind.counts_seconds:
                return f"a number{bounds}"
            return f"a number of seconds{bounds}, or a length of time such as 30s"
        case Span():
            bounds = _range(_length(kind.minimum), _length(kind.maximum))
            return f"a length of time with its unit, such as 30s, 10m or 7d{bounds}"
        case Text():
            return _form(kind.form)
        case Choice():
            return f"one of {', '.join(kind.words)}"
        case Anything():
            return "any value"
        case _:
            assert_never(kind)


def described(value: JsonValue) -> str:
    """What was given, as it follows "not"."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            if _PASSWORD_IN_ADDRESS.search(value):
                return "an address with a user or a password in it"
            shown = value if len(value) <= _TEXT_CHARACTERS_SHOWN else value[:_TEXT_CHARACTERS_SHOWN] + "…"
            return f"the text {shown!r}" if value else "an empty text"
        case list():
            return "a list"
        case dict():
            return "an object"


def _form(form: Form | None) -> str:
    return "a text that is not empty" if form is None else form.expected


def _range(minimum: str | None, maximum: str | None) -> str:
    if minimum is not None and maximum is not None:
        return f" from {minimum} to {maximum}"
    if minimum is not None:
        return f", at least {minimum}"
    return "" if maximum is None else f", at most {maximum}"


def _plain(bound: float | None) -> str | None:
    return None if bound is None else f"{bound:.15g}"


def _length(bound: float | None) -> str | None:
    return None if bound is None else format_duration(round(bound * 1000))
