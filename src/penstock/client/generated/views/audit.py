"""What operations on audit answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["AuditPageView", "AuditRecordView", "Export", "Verified"]


class AuditRecordView(msgspec.Struct, frozen=True, kw_only=True):
    """One record. `count` is above one when equal reads were gathered."""

    seq: int
    at: str | None
    principal: str
    surface: str
    operation: str
    outcome: str
    code: str | None
    subject: str | None
    request_id: str | None
    arguments_digest: str | None
    count: int
    details: dict[str, Any]
    previous_hash: str
    hash: str


class AuditPageView(msgspec.Struct, frozen=True, kw_only=True):
    """A page of records."""

    items: list[AuditRecordView]
    next_cursor: str | None


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """Records oldest first, with everything that is needed to verify them elsewhere."""

    tenant: str
    items: list[AuditRecordView]
    has_more: bool


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the chain holds; if not, the first record at which it does not, or which end is missing.      Keep
    `last_seq` and `last_hash` elsewhere: with them a later call finds that the whole trail was put back.
    """

    intact: bool
    records: int
    last_seq: int | None
    last_hash: str | None
    first_seq: int | None = None
    broken_at: int | None = None
    reason: str | None = None
