"""The location of a value in the settings, and the findings about it.

Above it: `types` parses values at a location, `sources` creates locations. Below it: findings. Nothing is printed and
nothing raised: a problem with a value is a finding. A finding about a secret shows nothing of the given value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from penstock.base.json import JsonValue, json_pointer
from penstock.definitions.source.findings import Finding, Position

__all__ = ["INVALID", "SECRET_CODE", "Invalid", "Location", "Source", "describe_value"]

# A finding with this code is about a line that must not be shown again.
SECRET_CODE: Final = "SECRET_IN_SETTINGS"
_TEXT_CHARACTERS_SHOWN = 60
_PASSWORD_IN_ADDRESS = re.compile(r"://[^/]*@")


class Invalid:
    """The result of parsing an invalid value. The findings say why."""


INVALID: Final = Invalid()


class Source(Struct, frozen=True, kw_only=True):
    """The source of values: a file with the positions of its parts, or a variable or flag, which has only a name.

    Relative paths start at `folder`, or else at the current folder.
    """

    label: str
    positions: Mapping[str, Position] = {}
    folder: str | None = None


class Location(Struct, frozen=True):
    """A place in a source. `name` is the value's name in messages, `findings` collects the problems."""

    source: Source
    findings: list[Finding]
    pointer: str = ""
    name: str = ""

    def member(self, key: str) -> Location:
        """The location of a member of this value."""
        return Location(self.source, self.findings, self.pointer + json_pointer((key,)), f"{self.name}.{key}")

    def item(self, index: int) -> Location:
        """The location of an item of this list."""
        return Location(self.source, self.findings, f"{self.pointer}/{index}", f"{self.name}[{index}]")

    def report(self, message: str, hint: str | None = None, *, code: str = "SETTING_INVALID") -> Invalid:
        """Add a finding about this location."""
        position = self.source.positions.get(self.pointer)
        self.findings.append(
            Finding(code=code, message=message, path=self.pointer, hint=hint, position=position, file=self.source.label)
        )
        return INVALID


def describe_value(value: JsonValue) -> str:
    """The given value, as it follows "not" in a message."""
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
