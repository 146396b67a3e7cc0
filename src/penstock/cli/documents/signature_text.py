"""Puts a signature into the text of a workflow file, and leaves the rest of the text as it is.

JSON is written out again, indented. In YAML the block is put at its place: at the end of a native document, under
`document` of a published one. An earlier signature is taken out. It knows block style only; the caller reads the result
again.

Above it: `sign`. Below it: nothing. It does no I/O.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from penstock.base.json import JsonObject

__all__ = ["with_signature"]

_INDENT = "  "


def with_signature(text: str, document: JsonObject, signature: Mapping[str, str]) -> str | None:
    """The text of a document with a signature in it; None if there is no place for it."""
    published = isinstance(document.get("document"), dict)
    if text.lstrip().startswith("{"):
        return _json(document, dict(signature), published=published)
    lines = text.splitlines()
    if not published:
        kept = _without_block(lines, "", 0, len(lines))
        while kept and not kept[-1].strip():
            kept.pop()
        return "\n".join([*kept, "", *_block("", signature)]) + "\n"
    start = next((number for number, line in enumerate(lines) if re.match(r"document:\s*(#.*)?$", line)), None)
    if start is None:
        return None
    end = _end_of_block(lines, start, "")
    inside = next((line for line in lines[start + 1 : end] if line.strip() and not line.lstrip().startswith("#")), "")
    indent = inside[: len(inside) - len(inside.lstrip())]
    if not indent:
        return None
    kept = _without_block(lines, indent, start + 1, end)
    return "\n".join([*kept[: start + 1], *_block(indent, signature), *kept[start + 1 :]]) + "\n"


def _json(document: JsonObject, signature: dict[str, str], *, published: bool) -> str:
    found: JsonObject = {name: value for name, value in document.items() if published or name != "signature"}
    block = found.get("document")
    if published and isinstance(block, dict):
        found["document"] = {**block, "signature": dict(signature)}
    else:
        found["signature"] = dict(signature)
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def _block(indent: str, signature: Mapping[str, str]) -> list[str]:
    return [
        f"{indent}signature:",
        *(f"{indent}{_INDENT}{name}: {json.dumps(value)}" for name, value in signature.items()),
    ]


def _without_block(lines: list[str], indent: str, start: int, end: int) -> list[str]:
    """The lines without the member `signature` of a mapping that is indented so, between two lines."""
    for number in range(start, end):
        if re.match(rf"{indent}signature\s*:", lines[number]):
            return [*lines[:number], *lines[_end_of_block(lines, number, indent) :]]
    return lines


def _end_of_block(lines: list[str], start: int, indent: str) -> int:
    """The first line after a member that is not further in than it."""
    for number in range(start + 1, len(lines)):
        line = lines[number]
        if line.strip() and not line.startswith(f"{indent} "):
            return number
    return len(lines)
