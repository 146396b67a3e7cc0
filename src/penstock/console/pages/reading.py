"""Reads a part of a page. A part that the visitor may not read says so, and the rest of the page is shown.

Above it: the pages. Below it: `visits`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import quote

from penstock.asgi.forms import Fields
from penstock.base import limits
from penstock.base.errors import Denied, NotFound, PenstockError, Rejected
from penstock.base.scopes import scope_allows
from penstock.console.visits import Redirect, Visit

__all__ = [
    "NodeWindow",
    "Part",
    "address",
    "chosen",
    "held",
    "json_object",
    "key_names",
    "no_such_button",
    "node_window",
    "nodes_from",
    "part",
]

_DIGITS_MAX = 16
_KEY = re.compile(r"key:([A-Za-z0-9_-]{1,40})", re.ASCII)


class Part(NamedTuple):
    """A part of a page: a value, or why it has no value."""

    value: Any = None
    closed: str | None = None
    """Why the visitor may not see it."""
    failed: str | None = None
    """Why it cannot be shown."""

    @property
    def items(self) -> list[Any]:
        """The items, if it is a page of a list; none if it cannot be shown."""
        found: list[Any] = [] if self.value is None else self.value["items"]
        return found


async def part(visit: Visit, operation: str, /, **arguments: Any) -> Part:
    """Call an operation for a part of a page. What does not exist, and what is sent wrongly, is raised as ever."""
    try:
        return Part(value=await visit.call(operation, **arguments))
    except (NotFound, Rejected):
        raise
    except Denied as error:
        return Part(closed=error.message)
    except PenstockError as error:
        return Part(failed=error.message)


async def key_names(visit: Visit, principals: Iterable[str | None]) -> dict[str, str]:
    """Return the names of the principals that are keys, with one call; none if the visitor may not read keys."""
    matches = (_KEY.fullmatch(principal or "") for principal in principals)
    ids = sorted({found[1] for found in matches if found is not None})[: limits.KEYS_NAMED_MAX]
    # Check the permission first, so that no refused read is recorded in the audit log.
    if not ids or not scope_allows(visit.principal.scopes, "key:read"):
        return {}
    found = await part(visit, "key.list", id=ids, limit=len(ids))
    return {f"key:{item['id']}": item["name"] for item in found.items}


class NodeWindow(NamedTuple):
    """Where a window of the nodes begins, and where those beside it do."""

    first: int
    total: int
    earlier: int | None
    later: int | None


def nodes_from(visit: Visit) -> int:
    """Return where the window of the nodes begins that a visitor asks for; at the first, unless a number is given."""
    begin = visit.query.text("nodes_from")
    return int(begin) if begin.isascii() and begin.isdecimal() and len(begin) < _DIGITS_MAX else 0


def node_window(first: int, total: int) -> NodeWindow:
    """Return the window that begins at a node: workflows may have thousands."""
    first = min(first, total)
    end = first + limits.CONSOLE_NODE_ROWS
    earlier = max(first - limits.CONSOLE_NODE_ROWS, 0) if first else None
    return NodeWindow(first, total, earlier, end if end < total else None)


def address(*segments: str) -> str:
    """Return the address of a page of the console; each segment is quoted."""
    return "/".join(("/console", *(quote(segment, safe="") for segment in segments)))


def held(answer: dict[str, Any]) -> Redirect | None:
    """Return the way to the call that waits for approval, if the call was held."""
    found = answer.get("held")
    return Redirect(address("approvals", found["draft_id"])) if found else None


def chosen(form: Fields, actions: dict[str, str], name: str = "action") -> str:
    """Return the operation of the button that was pressed; `name` is what the buttons are called."""
    operation = actions.get(form.text(name))
    if operation is None:
        raise no_such_button()
    return operation


def no_such_button() -> Rejected:
    """Return the refusal of a form that no button of the page sends."""
    return Rejected("ACTION_UNKNOWN", "this page has no such button", "open the page again")


def json_object(text: str, name: str) -> dict[str, Any]:
    """Return the JSON object that was written into a field; an empty field is an empty object."""
    try:
        found = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Rejected("VALUE_NOT_JSON", f"{name} must be a JSON object", 'write it like {"amount": 5}')
    return found
