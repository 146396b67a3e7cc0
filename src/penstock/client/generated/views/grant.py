"""What operations on grant answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

import msgspec

__all__ = ["GrantPage", "GrantView"]


class GrantView(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent may do by itself, and until when."""

    id: str
    principal: str
    capabilities: list[str]
    high_risk: bool
    expires_at: str | None
    note: str | None
    created_at: str | None
    created_by: str | None
    status: str


class GrantPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of grants."""

    items: list[GrantView]
    next_cursor: str | None
