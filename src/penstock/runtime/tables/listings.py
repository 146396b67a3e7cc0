"""How listings are cut into pages, and what a cursor stands for.

A cursor names the row after which a listing continues, not the number of rows before it. Rows that are added or removed
in the meantime therefore neither repeat nor hide others.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import msgspec

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.errors import Rejected

__all__ = [
    "cut_page",
    "definitions_page_size",
    "id_cursor",
    "id_position",
    "key_cursor",
    "key_position",
    "name_cursor",
    "name_position",
    "number_cursor",
    "number_position",
    "place_cursor",
    "place_position",
    "platform_page_size",
    "runs_page_size",
    "update_cursor",
    "update_position",
]

T = TypeVar("T")
_Moment = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_KEY_POSITION = msgspec.json.Decoder(tuple[_Moment, str])
_Place = Annotated[int, msgspec.Meta(ge=0)]
_PLACE_POSITION = msgspec.json.Decoder(tuple[_Place, str])
_ID_POSITION = msgspec.json.Decoder(str)
_NUMBER_CURSOR = re.compile(r"k[0-9a-f]{1,40}")


# --- pages ---------------------------------------------------------------------------------------


def runs_page_size(limit: int) -> int:
    """The maximum number of runs on a page."""
    return _page_size(limit, limits.RUNS_PAGE_MAX, "runs")


def definitions_page_size(limit: int) -> int:
    """The maximum number of definitions on a page."""
    return _page_size(limit, limits.DEFINITIONS_PAGE_MAX, "definitions")


def platform_page_size(limit: int) -> int:
    """The maximum number of rows on a page of the platform store."""
    return _page_size(limit, limits.PLATFORM_PAGE_MAX, "rows")


def _page_size(limit: int, most: int, what: str) -> int:
    if limit < 1:
        raise Rejected("INVALID_LIST_LIMIT", f"a page cannot have {limit} {what}", "ask for at least one")
    return min(limit, most)


def cut_page(found: Sequence[T], size: int, cursor_of: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """A page of the rows found and the cursor that continues after it.

    Callers fetch one row more than the page size, so that an extra row means there is another page.
    """
    page = found[:size]
    return page, cursor_of(page[-1]) if len(found) > size else None


# --- cursors -------------------------------------------------------------------------------------


def number_cursor(position: int) -> str:
    """The cursor that continues after a numbered row."""
    return f"k{position:x}"


def number_position(cursor: str | None) -> int | None:
    """The number that a cursor stands for."""
    if cursor is None:
        return None
    if _NUMBER_CURSOR.fullmatch(cursor) is None:
        raise _unknown_cursor("a")
    return int(cursor[1:], 16)


def name_cursor(name: str, tenant: str) -> str:
    """The cursor that continues after a name of a tenant."""
    return "n" + base64.urlsafe_b64encode(json.dumps([name, tenant]).encode()).decode().rstrip("=")


def name_position(cursor: str | None) -> tuple[str, str] | None:
    """The name and the tenant that a cursor stands for."""
    if cursor is None:
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(cursor[1:] + "=" * (-len(cursor[1:]) % 4)))
    except ValueError:
        raise _unknown_cursor("a") from None
    match found:
        case [str(name), str(tenant)] if cursor.startswith("n"):
            return name, tenant
        case _:
            raise _unknown_cursor("a")


def key_cursor(created_at: int, key_id: str) -> str:
    """The cursor that continues after an API key."""
    return _encoded((created_at, key_id))


def key_position(cursor: str | None) -> tuple[int, str] | None:
    """The creation time and the id of the API key after which a listing continues."""
    return None if cursor is None else _decoded(_KEY_POSITION, cursor)


def update_cursor(updated_at: int, position: int) -> str:
    """The cursor that continues after a numbered row that was updated at a time."""
    return _encoded((updated_at, f"{position:x}"))


def update_position(cursor: str | None) -> tuple[int, int] | None:
    """The time and the number that a cursor stands for."""
    if cursor is None:
        return None
    updated_at, position = _decoded(_KEY_POSITION, cursor)
    if _NUMBER_CURSOR.fullmatch(f"k{position}") is None:
        raise _unknown_cursor("this")
    return updated_at, int(position, 16)


def id_cursor(resource_id: str) -> str:
    """The cursor that continues after an id."""
    return _encoded(resource_id)


def id_position(cursor: str | None) -> str | None:
    """The id after which a listing continues."""
    return None if cursor is None else _decoded(_ID_POSITION, cursor)


def place_cursor(place: int, resource_id: str) -> str:
    """The cursor that continues after an id in one of several lists, by the place of the list."""
    return _encoded((place, resource_id))


def place_position(cursor: str | None) -> tuple[int, str] | None:
    """The place of the list, and the id in it, after which a listing continues."""
    return None if cursor is None else _decoded(_PLACE_POSITION, cursor)


def _encoded(position: object) -> str:
    return base64.urlsafe_b64encode(encode_bytes(position)).decode("ascii").rstrip("=")


def _decoded(decoder: msgspec.json.Decoder[T], cursor: str) -> T:
    try:
        return decoder.decode(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (ValueError, msgspec.DecodeError):
        raise _unknown_cursor("this") from None


def _unknown_cursor(which: str) -> Rejected:
    message = f"the cursor is not one that {which} listing returned"
    return Rejected("INVALID_LIST_CURSOR", message, "leave `cursor` out to start from the first page")
