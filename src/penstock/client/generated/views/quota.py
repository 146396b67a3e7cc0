"""What operations on quota answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

import msgspec

__all__ = ["QuotaAmounts", "QuotaEntry", "QuotaPage", "QuotaUse", "QuotaView"]


class QuotaAmounts(msgspec.Struct, frozen=True, kw_only=True):
    """What may be used; null means any amount. Days begin at midnight UTC, cost is in US dollars."""

    runs_at_once: int | None
    runs_per_day: int | None
    tokens_per_day: int | None
    cost_per_day: float | None
    storage_bytes: int | None


class QuotaEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Quotas that were changed."""

    subject: str
    limits: QuotaAmounts
    updated_at: str | None
    updated_by: str | None


class QuotaPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of changed quotas."""

    items: list[QuotaEntry]
    next_cursor: str | None


class QuotaUse(msgspec.Struct, frozen=True, kw_only=True):
    """What is used: runs that have not ended, and what was used since midnight UTC.      Starts are counted while
    there is a quota that they are compared with: without one, `runs_today` is null, and for a     principal
    `runs_now` too. Bytes are measured once a minute, and only if they are bounded.
    """

    runs_now: int | None
    runs_today: int | None
    tokens_today: int
    cost_today: float
    storage_bytes: int | None


class QuotaView(msgspec.Struct, frozen=True, kw_only=True):
    """The quotas of a tenant or of a principal. `changed` says that they are not those of the settings."""

    tenant: str
    subject: str
    limits: QuotaAmounts
    used: QuotaUse
    resets_at: str | None
    changed: bool
