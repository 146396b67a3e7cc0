"""Short texts about the fields of a node, for drawings.

Above it: `nodes` declares what the figure of a node type shows, and `drawing` draws it. A field of the wrong type is
left out.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.base.json import JsonObject, JsonValue
from penstock.base.text import clean

__all__ = ["duration_text", "first_text", "text_or_empty"]


def text_or_empty(value: JsonValue) -> str:
    """The value as one clean line, or an empty string if it is not text."""
    return clean(value) if isinstance(value, str) else ""


def duration_text(value: JsonValue) -> str:
    """A duration as written in the document; plain numbers are milliseconds."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return clean(value) if isinstance(value, str) else f"{value:g} ms"


def first_text(*names: str) -> Callable[[JsonObject], str]:
    """Return a caption function that gives the first of these fields that holds a text."""
    return lambda fields: next((value for name in names if isinstance(value := fields.get(name), str)), "")
