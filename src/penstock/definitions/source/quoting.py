"""Corrections of YAML lines in which a value needs quotes: brackets of an expression that YAML takes for its own.

    with: {amount: ${ .input.amount }}       ->  with: {amount: "${ .input.amount }"}
    {when: .items[0] == 1, next: done}       ->  {when: ".items[0] == 1", next: done}
    amount: {{ input.amount }}               ->  amount: "${ .input.amount }"

A correction is a suggestion for a finding; nothing is read from it.

Above it: `yaml_reader`. Below it: nothing but text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Correction", "find_value", "quote_braces", "quote_value"]

_OPENING = "{[("
_CLOSING = "}])"
_LINE_CHARACTERS_MAX = 120
_BRACES = re.compile(r"\{\{\s*(.*?)\s*\}\}")
_MARKS = re.compile(r"\$\{\s*(.*?)\s*\}")
# Fields that take plain jq, in which `${ }` is a mistake of its own.
_PLAIN_JQ = re.compile(r"\b(?:when|while|until):\s*$")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Correction:
    """Where a value begins, counted from 0, and the line with the value in quotes."""

    start: int
    line: str


def quote_value(line: str, at: int) -> Correction | None:
    """Put the plain value in quotes that a bracket at this place interrupts; None if there is no such value."""
    if at >= len(line) or line[at] not in "{[":
        return None
    start = _value_start(line, at)
    end = _value_end(line, start)
    if start == at or end is None:
        return None  # the bracket begins a list or object of YAML, or is never closed
    value = line[start:end]
    return _corrected(line, start, end, _MARKS.sub(r"\1", value) if _PLAIN_JQ.search(line[:start]) else value)


def find_value(line: str, until: int) -> Correction | None:
    """Return the correction of the first value that a bracket interrupts before a place, or None."""
    places = (at for at in range(min(until, len(line))) if line[at] in "{[" and not line.count('"', 0, at) % 2)
    return next((found for at in places if (found := quote_value(line, at)) is not None), None)


def quote_braces(line: str, at: int) -> Correction | None:
    """Put the `{{ … }}` whose second brace is at this place in quotes; jq in it becomes `${ … }`."""
    found = _BRACES.match(line, at - 1) if at > 0 else None
    if found is None:
        return None
    end = _value_end(line, found.end()) or found.end()
    inner = found[1] if found[1].startswith(".") else f".{found[1]}"
    value = found[0] if _NAME.fullmatch(found[1]) else f"${{ {inner} }}"
    return _corrected(line, found.start(), end, value + line[found.end() : end])


def _value_start(line: str, at: int) -> int:
    start = at
    while start > 0 and line[start - 1] not in "{[,":
        if line[start - 1] == " " and line[: start - 1].rstrip().endswith((":", "-")):
            break
        start -= 1
    return start + len(line[start:at]) - len(line[start:at].lstrip())


def _value_end(line: str, start: int) -> int | None:
    """The end of the value: before the comma or bracket that follows it. None if a bracket or text is not closed."""
    depth, place = 0, start
    while place < len(line):
        character = line[place]
        if character == '"':
            closing = re.compile(r'(?:[^"\\]|\\.)*"').match(line, place + 1)
            if closing is None:
                return None
            place = closing.end()
            continue
        if depth == 0 and (character == "," or character in _CLOSING):
            break
        depth += (character in _OPENING) - (character in _CLOSING)
        place += 1
    return None if depth else start + len(line[start:place].rstrip())


def _corrected(line: str, start: int, end: int, value: str) -> Correction:
    needs_single = '"' in value or "\\" in value
    quoted = "'" + value.replace("'", "''") + "'" if needs_single else f'"{value}"'
    whole = f"{line[:start]}{quoted}{line[end:]}".strip()
    if len(whole) > _LINE_CHARACTERS_MAX:
        key = re.search(r"([\w-]+:\s*)$", line[:start])
        whole = f"{key[1] if key else ''}{quoted}"
    return Correction(start, whole)
