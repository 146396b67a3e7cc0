"""Rules that every platform store keeps in the same way: how pages are cut, and what a cursor stands for.

A cursor names the row after which a listing goes on, not how many rows came before it: rows that are added or removed
meanwhile neither repeat nor hide others.

Above it: the platform stores. It keeps nothing and reads nothing.
"""

from __future__ import annotations

import base64
from typing import Annotated, TypeVar

import msgspec

from penstock.base import limits
from penstock.base.errors import Conflict, Rejected, Unavailable
from penstock.runtime.ports.platform import DeliveryRow

__all__ = [
    "audit_unavailable",
    "claim_lost",
    "due_at",
    "id_cursor",
    "id_position",
    "key_cursor",
    "key_position",
    "rows_wanted",
]

T = TypeVar("T")
_Moment = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_KEY_POSITION = msgspec.json.Decoder(tuple[_Moment, str])
_ID_POSITION = msgspec.json.Decoder(str)


def rows_wanted(limit: int) -> int:
    """How many rows a page has at most."""
    if limit < 1:
        raise Rejected("INVALID_LIST_LIMIT", f"a page cannot have {limit} rows", "ask for at least one")
    return min(limit, limits.PLATFORM_PAGE_MAX)


def claim_lost() -> Conflict:
    """What a call hears whose idempotency key another one took over, because it took too long."""
    message = "another call with this idempotency key was faster"
    return Conflict("IDEMPOTENCY_IN_FLIGHT", message, "ask again in a second", {"retry_after_seconds": 1})


def audit_unavailable(error: Exception | None = None) -> Unavailable:
    """What a call hears whose audit record cannot be written: nothing of it happened."""
    message = "the audit record of the call cannot be written, so nothing was done"
    hint = "look at /readyz and at the server's log; the same call can be made again once the record can be written"
    return Unavailable("AUDIT_UNAVAILABLE", message, hint, None if error is None else {"reason": type(error).__name__})


def key_cursor(created_at: int, key_id: str) -> str:
    """The cursor that continues after a key."""
    return _cursor((created_at, key_id))


def key_position(cursor: str | None) -> tuple[int, str] | None:
    """When the key was made after which a listing continues, and its id."""
    return None if cursor is None else _position(_KEY_POSITION, cursor)


def id_cursor(resource_id: str) -> str:
    """The cursor that continues after an id."""
    return _cursor(resource_id)


def id_position(cursor: str | None) -> str | None:
    """The id after which a listing continues."""
    return None if cursor is None else _position(_ID_POSITION, cursor)


def _cursor(position: object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode("ascii").rstrip("=")


def _position(decoder: msgspec.json.Decoder[T], cursor: str) -> T:
    try:
        return decoder.decode(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (ValueError, msgspec.DecodeError):
        message = "the cursor is not one that this listing returned"
        raise Rejected("INVALID_LIST_CURSOR", message, "begin again without a cursor") from None


def due_at(delivery: DeliveryRow) -> int:
    """When a pending delivery is due."""
    return delivery.created_at if delivery.next_at is None else delivery.next_at
