"""Types that the inputs and answers of many operations share: pages, ETags, instants, what was deleted.

Above it: the operations. Below it: nothing but data.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.json import JsonValue
from penstock.definitions.durations import format_instant

__all__ = ["Cursor", "Deleted", "IfMatch", "Limit", "WorkflowId", "document_name", "instant", "milliseconds"]


WorkflowId = Annotated[
    str,
    Meta(
        description="The workflow's name.",
        min_length=1,
        max_length=limits.WORKFLOW_NAME_CHARACTERS_MAX,
        examples=["refund_order"],
    ),
]
Limit = Annotated[int, Meta(description="How many to list at most.", ge=1, le=limits.PAGE_LIMIT_MAX)]
Cursor = Annotated[str, Meta(description="Where to continue: `next_cursor` of the previous page.")] | None
IfMatch = (
    Annotated[
        str,
        Meta(description="The ETag of the version that you saw; the call is refused if there is a newer one."),
    ]
    | None
)


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """Something is gone."""

    id: str
    deleted: bool = True


def instant(epoch_ms: int | None) -> str | None:
    """Format an instant as RFC 3339 in UTC with milliseconds."""
    return None if epoch_ms is None else format_instant(epoch_ms)


def milliseconds(text: str | None, name: str) -> int | None:
    """Parse an instant that a caller sent; `name` is the argument that holds it."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        message = f"{name}: {text[:50]!r} is not a time"
        raise Rejected("INVALID_ARGUMENTS", message, "write it as RFC 3339 with an offset, e.g. 2026-01-31T09:00:00Z")
    return int(moment.timestamp() * 1000)


def document_name(document: JsonValue) -> str | None:
    """Return the name in a document of either format, if it can be read."""
    if not isinstance(document, dict):
        return None
    about = document.get("document")
    name = about.get("name") if isinstance(about, dict) else document.get("name")
    return name if isinstance(name, str) and name else None
