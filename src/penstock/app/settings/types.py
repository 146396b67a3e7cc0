"""Types of settings. Each type parses and checks a value, describes what it expects, and writes it back.

A value has four forms: JSON as in a file (`parse`, `to_json`), the text of a variable or flag (`decode`), the Python
value that the program uses, and the form that people may see (`shown`). `schema` describes the first for editors.

Above it: `declarations` finds the type of each setting, `sources` parses with it. Below it: `locations`, `formats`.
Types that contain other values, and those of secrets, are in `composite_types`.
"""

from __future__ import annotations

import json
import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Any, Never

from msgspec import Struct

from penstock.app.settings.formats import Format
from penstock.app.settings.locations import Invalid, Location, describe_value
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.durations import format_duration, parse_native_duration_ms
from penstock.definitions.source.findings import suggestion

__all__ = [
    "AnyJson",
    "Boolean",
    "Choice",
    "Duration",
    "Integer",
    "Number",
    "String",
    "TextProblem",
    "ValueType",
]

_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_INTEGER = re.compile(r"[-+]?[0-9]{1,19}")
_NUMBER = re.compile(r"[-+]?([0-9]{1,19}(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")
# A duration without a unit.
_BARE_NUMBER = re.compile(r"\s*[0-9.]+\s*")
_MILLISECOND = timedelta(milliseconds=1)
_AMOUNT = r"[0-9]+(\.[0-9]+)?\s*(ms|s|m|h|d|w)"
_DURATION_SCHEMA: JsonObject = {
    "type": "string",
    "pattern": rf"^\s*(P[0-9.WDTHMS]+|{_AMOUNT}(\s*{_AMOUNT})*)\s*$",
    "examples": ["30s", "10m", "7d"],
}


class TextProblem(Struct, frozen=True):
    """Why a text cannot be decoded. It contains nothing of the text, which may hold secrets."""

    message: str


class ValueType(Struct, frozen=True):
    """The type of a setting's value. Most types override only some of these methods."""

    def expected(self) -> str:
        """The expected value, as it follows "must be" in a message."""
        raise NotImplementedError

    def schema(self) -> JsonObject:
        """The JSON Schema of the value in a file."""
        raise NotImplementedError

    def parse(self, value: JsonValue, at: Location) -> Any:
        """The Python value. For a wrong JSON value it reports a finding and returns INVALID."""
        raise NotImplementedError

    def decode(self, text: str) -> JsonValue | TextProblem:
        """The text of a variable as the JSON value that a file would have.

        It checks nothing: a text that cannot be decoded stays a text, and `parse` reports what was expected.
        """
        try:
            value: JsonValue = json.loads(text, parse_constant=_refuse_constant)
        except json.JSONDecodeError as error:
            return TextProblem(f"must be JSON; {error.msg} at character {error.pos + 1}")
        except (ValueError, RecursionError):
            return TextProblem("must be JSON")
        return value

    def to_json(self, value: Any) -> JsonValue:
        """A value as it is written in a file."""
        plain: JsonValue = value
        return plain

    def shown(self, value: Any) -> JsonValue:
        """A value as it is shown to people: as in a file, with a description in place of each secret."""
        return self.to_json(value)

    def refuse(self, value: JsonValue, at: Location, hint: str | None = None) -> Invalid:
        """Report a value of another type."""
        if isinstance(value, str) and value.startswith("tcp://"):
            hint = "Kubernetes sets such variables for its services; `enableServiceLinks: false` keeps them away"
        return at.report(f"`{at.name}` must be {self.expected()}, not {describe_value(value)}", hint)


class Boolean(ValueType, frozen=True):
    """True or false."""

    def expected(self) -> str:
        return "true or false"

    def schema(self) -> JsonObject:
        return {"type": "boolean"}

    def parse(self, value: JsonValue, at: Location) -> Any:
        return value if isinstance(value, bool) else self.refuse(value, at)

    def decode(self, text: str) -> JsonValue | TextProblem:
        return _WORDS.get(text.strip().lower(), text)


class _Bounded(ValueType, frozen=True):
    """A number or a duration. The bounds of a duration are in seconds."""

    minimum: float | None = None
    maximum: float | None = None

    def _checked(self, value: Any, at: Location) -> Any:
        number = value.total_seconds() if isinstance(value, timedelta) else value
        too_low = self.minimum is not None and number < self.minimum
        too_high = self.maximum is not None and number > self.maximum
        return self.refuse(self.to_json(value), at) if too_low or too_high else value

    def _range(self) -> str:
        low, high = (None if bound is None else self._bound_text(bound) for bound in (self.minimum, self.maximum))
        if low is not None and high is not None:
            return f" from {low} to {high}"
        if low is not None:
            return f", at least {low}"
        return "" if high is None else f", at most {high}"

    def _bound_text(self, bound: float) -> str:
        return f"{bound:.15g}"

    def _bounds_schema(self) -> JsonObject:
        bounds = {"minimum": self.minimum, "maximum": self.maximum}
        return {name: bound for name, bound in bounds.items() if bound is not None}


class Integer(_Bounded, frozen=True):
    """A whole number."""

    def expected(self) -> str:
        return f"a whole number{self._range()}"

    def schema(self) -> JsonObject:
        return {"type": "integer", **self._bounds_schema()}

    def parse(self, value: JsonValue, at: Location) -> Any:
        if isinstance(value, bool) or not isinstance(value, int):
            return self.refuse(value, at)
        return self._checked(value, at)

    def decode(self, text: str) -> JsonValue | TextProblem:
        return int(text) if _INTEGER.fullmatch(text.strip()) else text


class Number(_Bounded, frozen=True):
    """A number. One that counts seconds may also be written as a duration."""

    counts_seconds: bool = False

    def expected(self) -> str:
        if not self.counts_seconds:
            return f"a number{self._range()}"
        return f"a number of seconds{self._range()}, or a length of time such as 30s"

    def schema(self) -> JsonObject:
        number: JsonObject = {"type": "number", **self._bounds_schema()}
        return {"anyOf": [number, _DURATION_SCHEMA]} if self.counts_seconds else number

    def parse(self, value: JsonValue, at: Location) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self._checked(float(value), at)
        length = _duration(value) if self.counts_seconds else None
        return self.refuse(value, at) if length is None else self._checked(length.total_seconds(), at)

    def decode(self, text: str) -> JsonValue | TextProblem:
        return float(text) if _NUMBER.fullmatch(text.strip()) else text

    def to_json(self, value: Any) -> JsonValue:
        return int(value) if float(value).is_integer() else float(value)


class Duration(_Bounded, frozen=True):
    """A duration with its unit."""

    def expected(self) -> str:
        return f"a length of time with its unit, such as 30s, 10m or 7d{self._range()}"

    def schema(self) -> JsonObject:
        return _DURATION_SCHEMA

    def parse(self, value: JsonValue, at: Location) -> Any:
        length = _duration(value)
        if length is None:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return self.refuse(value, at, f"write the unit: {value}s or {value}ms" if is_number else None)
        return self._checked(length, at)

    def decode(self, text: str) -> JsonValue | TextProblem:
        return text

    def to_json(self, value: Any) -> JsonValue:
        return format_duration(value // _MILLISECOND)

    def _bound_text(self, bound: float) -> str:
        return format_duration(round(bound * 1000))


class String(ValueType, frozen=True):
    """A text that is not empty."""

    format: Format | None = None

    def expected(self) -> str:
        return "a text that is not empty" if self.format is None else self.format.expected

    def schema(self) -> JsonObject:
        schema: JsonObject = {"type": "string", "minLength": 1}
        pattern = None if self.format is None else self.format.pattern
        return schema if pattern is None else {**schema, "pattern": f"^(?:{pattern})$"}

    def parse(self, value: JsonValue, at: Location) -> Any:
        if not isinstance(value, str) or not value or "\0" in value:
            return self.refuse(value, at)
        if self.format is None:
            return value
        if not self.format.fits(value):
            return self.refuse(value, at)
        return _from_folder(value, at.source.folder) if self.format.is_path(value) else value

    def decode(self, text: str) -> JsonValue | TextProblem:
        return text


class Choice(ValueType, frozen=True):
    """One of a few words."""

    words: tuple[str, ...]

    def expected(self) -> str:
        return f"one of {', '.join(self.words)}"

    def schema(self) -> JsonObject:
        return {"type": "string", "enum": list(self.words)}

    def parse(self, value: JsonValue, at: Location) -> Any:
        found = next((word for word in self.words if isinstance(value, str) and word.lower() == value.lower()), None)
        if found is not None:
            return found
        hint = suggestion(value, self.words) if isinstance(value, str) else None
        return at.report(f"`{at.name}` must be {self.expected()}, not {describe_value(value)}", hint)

    def decode(self, text: str) -> JsonValue | TextProblem:
        return text.strip()


class AnyJson(ValueType, frozen=True):
    """Any JSON value."""

    def expected(self) -> str:
        return "any value"

    def schema(self) -> JsonObject:
        return {}

    def parse(self, value: JsonValue, at: Location) -> Any:
        return value


def _duration(value: JsonValue) -> timedelta | None:
    # In documents a bare number is milliseconds, in settings with seconds it is seconds. Here it must have a unit.
    if not isinstance(value, str) or _BARE_NUMBER.fullmatch(value) is not None:
        return None
    duration_ms = parse_native_duration_ms(value)
    return None if duration_ms is None else timedelta(milliseconds=duration_ms)


def _from_folder(value: str, folder: str | None) -> str:
    path = os.path.expanduser(value) if value.startswith("~") else value
    return path if folder is None else str(Path(folder) / path)


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")
