"""Names of tools on the wire of providers: up to 64 letters, digits, `_` and `-`, one for each name and back.

    names = ToolNames.of(["workflow:refund_order", "upstream:shop.find"])
    names.wire["workflow:refund_order"]       refund_order
    names.canonical("refund_order")           workflow:refund_order

The part before the last `:` is left out if what remains is unique. The same list gives the same names, so a
conversation keeps its names after a restart.

Above it: `turns`. Below it: the comparison of names.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.definitions.source.findings import nearest

__all__ = ["ANSWER_TOOL", "ToolNames"]

ANSWER_TOOL = "answer"
"""The name under which providers are given the schema of an answer. No tool has it on the wire."""
_NOT_ON_THE_WIRE = re.compile(r"[^A-Za-z0-9_-]+")
_CHARACTERS_MAX = 64
_DIGEST_CHARACTERS = 8


@dataclass(frozen=True, slots=True)
class ToolNames:
    """The names of the tools of one request."""

    wire: Mapping[str, str]

    @classmethod
    def of(cls, names: Iterable[str]) -> ToolNames:
        """Choose a name on the wire for each tool."""
        listed = tuple(dict.fromkeys(names))
        short = {name: _NOT_ON_THE_WIRE.sub("_", name.rpartition(":")[2]) for name in listed}
        # Providers tell names apart by their letter case, but models do not do so reliably.
        uses = Counter(text.casefold() for text in short.values())
        taken: set[str] = {ANSWER_TOOL}
        wire: dict[str, str] = {}
        for name, text in short.items():
            plain = uses[text.casefold()] == 1 and 0 < len(text) <= _CHARACTERS_MAX and text.casefold() not in taken
            wire[name] = text if plain else _digested(name, text, taken)
            taken.add(wire[name].casefold())
        return cls(wire)

    def nearest(self, name: str) -> str | None:
        """Return the name on the wire that is most similar to an unknown one."""
        short = name.rpartition(":")[2][:_CHARACTERS_MAX]
        return nearest(short, self.wire.values())

    def canonical(self, name: str) -> str:
        """Return the tool that a model means; an unknown name is returned unchanged."""
        return next((known for known, wire in self.wire.items() if wire == name), name)


def _digested(name: str, text: str, taken: set[str]) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    for length in range(_DIGEST_CHARACTERS, _CHARACTERS_MAX):
        found = f"{text[: _CHARACTERS_MAX - length - 1]}_{digest[:length]}"
        if found.casefold() not in taken:
            return found
    raise ValueError(f"no name is left for the tool {name}")  # 63 digits of two different digests are equal
