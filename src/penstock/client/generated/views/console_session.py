"""What operations on console_session answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

import msgspec

__all__ = ["ConsoleSession", "ConsoleSessionPage"]


class ConsoleSession(msgspec.Struct, frozen=True, kw_only=True):
    """A browser that is signed in."""

    id: str
    principal: str
    name: str
    signed_in_with: str
    issuer: str | None
    key_id: str | None
    browser: str | None
    remote: str | None
    began_at: str | None
    last_used_at: str | None
    ends_at: str | None


class ConsoleSessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of sessions. More pages may follow a page with fewer sessions than requested."""

    items: list[ConsoleSession]
    next_cursor: str | None
