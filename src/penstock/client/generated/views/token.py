"""What operations on token answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

import msgspec

__all__ = ["Revocation", "RevocationPage"]


class Revocation(msgspec.Struct, frozen=True, kw_only=True):
    """A token, or all tokens of a subject, that this server does not accept any more."""

    id: str
    issuer: str
    token_id: str | None
    subject: str | None
    reason: str | None
    tenant: str
    revoked_at: str | None
    revoked_by: str | None
    revoked_keys: list[str] = msgspec.field(default_factory=list)


class RevocationPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of revocations."""

    items: list[Revocation]
    next_cursor: str | None
