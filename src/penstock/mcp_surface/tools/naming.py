"""Replace names of operations in texts for models by names of tools.

For example, `execution.status` becomes `penstock_execution_status`. Operations are described once for every surface,
under their canonical names, but a model looks for a name only in its list of tools. Only texts are rewritten:
descriptions, refusals and hints, never data, examples or choices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject, JsonValue

__all__ = ["UNCHANGED", "ToolNaming"]

_TOLD = "description"


@dataclass(frozen=True, slots=True)
class ToolNaming:
    """Replaces the names of operations in texts by the names of tools."""

    names: Mapping[str, str] = field(default_factory=dict)
    _pattern: re.Pattern[str] | None = field(init=False, default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.names:
            longest_first = sorted(self.names, key=lambda name: (-len(name), name))
            alternatives = "|".join(re.escape(name) for name in longest_first)
            # A name at the end of a sentence counts; a part of an address, a path or a longer name does not.
            object.__setattr__(self, "_pattern", re.compile(rf"(?<![\w.:/-])(?:{alternatives})(?![\w-]|\.\w)"))

    def of(self, text: str) -> str:
        """Return the text with the names of tools."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self.names[match.group()], text)

    def of_schema(self, schema: JsonObject) -> JsonObject:
        """Return the schema with the names of tools in its descriptions; the same object if nothing changes."""
        if self._pattern is None or not self._pattern.search(encode_bytes(schema).decode()):
            return schema
        return self._of_object(schema)

    def _of_object(self, schema: JsonObject) -> JsonObject:
        return {name: self._of_member(name, value) for name, value in schema.items()}

    def _of_member(self, name: str, value: JsonValue) -> JsonValue:
        if name == _TOLD and isinstance(value, str):
            return self.of(value)
        if name in ("examples", "enum", "const", "default"):
            return value
        if isinstance(value, dict):
            return self._of_object(value)
        return [self._of_member("", item) for item in value] if isinstance(value, list) else value


UNCHANGED = ToolNaming()
"""Leaves every text unchanged."""
