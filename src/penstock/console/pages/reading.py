"""Reads for a part of a page: what the visitor may not read is said to be closed, and the rest of the page is shown.

Above it: the pages. Below it: `visits`.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple
from urllib.parse import quote

from penstock.base.errors import Denied, Rejected, Unavailable
from penstock.console.forms import Fields
from penstock.console.visits import Visit

__all__ = ["Part", "address", "chosen", "json_text", "part"]


class Part(NamedTuple):
    """A part of a page: a value, or why there is none."""

    value: Any = None
    closed: str | None = None
    """Why the visitor may not see it."""
    failed: str | None = None
    """Why it cannot be shown."""


async def part(visit: Visit, operation: str, /, **arguments: Any) -> Part:
    """Call an operation for a part of a page. What does not exist, and what is sent wrongly, is raised as ever."""
    try:
        return Part(value=await visit.call(operation, **arguments))
    except Denied as error:
        return Part(closed=error.message)
    except Unavailable as error:
        return Part(failed=error.message)


def address(*segments: str) -> str:
    """Return the address of a page of the console; each segment is quoted."""
    return "/".join(("/console", *(quote(segment, safe="") for segment in segments)))


def chosen(form: Fields, actions: dict[str, str]) -> str:
    """Return the operation of the button that was pressed."""
    operation = actions.get(form.text("action"))
    if operation is None:
        raise Rejected("ACTION_UNKNOWN", "the page has no such button", "open the page again")
    return operation


def json_text(text: str, name: str) -> Any:
    """Return what a field with JSON says; an empty field is an empty object."""
    try:
        return json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        raise Rejected("VALUE_NOT_JSON", f"{name} is not JSON", 'write it like {"amount": 5}') from None
