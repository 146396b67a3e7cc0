"""Where a value of the settings stands, and what is reported about it there.

Above it: `types` parses values at a location, `sources` makes locations. Below it: findings.
Nothing is printed and nothing raised: what is wrong with a value is a finding. A finding about a secret shows nothing
of what was given.
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
    """The result of parsing a value that is wrong; the findings say why."""


INVALID: Final = Invalid()


class Source(Struct, frozen=True, kw_only=True):
    """Where values come from: a file with the positions of its parts, or a variable or flag, which has only a name.

    `folder` is where relative paths start, if not at the current folder.
    """

    label: str
    positions: Mapping[str, Position] = {}
    folder: str | None = None


class Location(Struct, frozen=True):
    """A place in a source; `name` is how messages call the value there, `findings` collects what is wrong."""

    source: Source
    findings: list[Finding]
    pointer: str = ""
    name: str = ""

    def member(self, key: str) -> Location:
        """The place of a member of the value here."""
        return Location(self.source, self.findings, self.pointer + json_pointer((key,)), f"{self.name}.{key}")

    def item(self, index: int) -> Location:
        """The place of an item of the list here."""
        return Location(self.source, self.findings, f"{self.pointer}/{index}", f"{self.name}[{index}]")

    def report(self, message: str, hint: str | None = None, *, code: str = "SETTING_INVALID") -> Invalid:
        """Note that something is wrong here."""
        position = self.source.positions.get(self.pointer)
        self.findings.append(
            Finding(code=code, message=message, path=self.pointer, hint=hint, position=position, file=self.source.label)
        )
        return INVALID


def describe_value(value: JsonValue) -> str:
    """What was given, as it follows "not" in a message."""
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
