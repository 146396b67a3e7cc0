"""What operations on key answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

import msgspec

__all__ = ["KeyPage", "KeyView", "NewKey", "SignedOut"]


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its secret."""

    id: str
    prefix: str
    name: str
    tenant: str
    scopes: list[str]
    status: str
    created_at: str | None
    created_by: str | None
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None
    replaces: str | None
    toolset: str | None = None
    kind: str = "service"
    groups: list[str] = msgspec.field(default_factory=list)
    subject: str = ""
    lineage: list[str] = msgspec.field(default_factory=list)


class KeyPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of keys."""

    items: list[KeyView]
    next_cursor: str | None


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key that was just made: the only time that `secret` is shown."""

    secret: str
    key: KeyView
    warnings: list[str] = msgspec.field(default_factory=list)


class SignedOut(msgspec.Struct, frozen=True, kw_only=True):
    """Whose sessions ended, and when."""

    principal: str
    ended_at: str | None
