"""Quotas: what a tenant and a key may use at most, as the settings say and as operators changed it for some.

The quotas of a start are given to the store, which counts it in the transaction that stores the run, or refuses it: so
any number of processes keep them exactly. A quota that any process changes holds for the next start. Stored bytes are
measured now and then, because measuring reads much; they are compared before a start.

Above it: `permissions.admission`, `operations.quotas`. Below it: the platform port.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.governance.principals import Principal
from penstock.governance.quotas import TENANT_SUBJECT, QuotaLimits, quota_exceeded
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import ResourceRow
from penstock.runtime.ports.topics import Mark, Topic
from penstock.runtime.ports.usage import StartQuota, SubjectQuota
from penstock.runtime.tables.resources import list_all_resources
from penstock.runtime.tables.usage import measure_storage_bytes

__all__ = ["QUOTA_KIND", "TENANT_QUOTA", "QuotaChoices", "Quotas", "merged", "quota_accounts", "subject_named"]

_LOGGER = logging.getLogger("penstock.quotas")
QUOTA_KIND = "quota"
"""The kind of the resources that hold changed quotas, by tenant and subject."""
TENANT_QUOTA = "tenant"
"""The name of the quotas of a whole tenant; other names are principals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaChoices:
    """The quotas of every tenant and of every key, unless they were changed for it."""

    tenant: QuotaLimits = field(default_factory=QuotaLimits)
    key: QuotaLimits = field(default_factory=QuotaLimits)


def subject_named(name: str) -> str:
    """Return the subject with a name, as callers write it."""
    return TENANT_SUBJECT if name == TENANT_QUOTA else name


def quota_accounts(principal: Principal) -> tuple[str, ...]:
    """Return whom a start counts for: a key, and the subject behind it.

    A key that replaced others counts for the first of them, so that rotation begins no new count. Keys with the same
    subject count together, too, so that making keys does not either. A schedule or a webhook counts for the principal
    that it acts for.
    """
    own = principal.accounts or (principal.on_behalf_of or principal.id,)
    return own if principal.subject is None else tuple(dict.fromkeys((*own, principal.subject)))


def merged(default: QuotaLimits, changed: Mapping[str, object]) -> QuotaLimits:
    """Return quotas with what was changed; a null lifts a quota."""
    named = {name: changed[name] for name in QuotaLimits.__struct_fields__ if name in changed}
    return msgspec.structs.replace(default, **named)


class Quotas:
    """Knows the quotas of tenants and keys."""

    def __init__(self, platform: Database, clock: Clock, chosen: QuotaChoices) -> None:
        self._platform = platform
        self._clock = clock
        self._chosen = chosen
        self._changed: dict[tuple[str, str], Mapping[str, object]] = {}
        self._mark: Mark = ()
        self._stored: dict[str, tuple[int, int]] = {}
        """By tenant: the bytes that it stores, and when they were measured."""
        self._is_bounded = any(
            item.bounds_starts or item.storage_bytes is not None for item in (chosen.tenant, chosen.key)
        )
        """Whether the settings bound anything. By default they do not."""

    async def limits_of(self, tenant: str, subject: str) -> QuotaLimits:
        """Return the quotas of a tenant or of one of its principals."""
        await self._read()
        return self.limits_with(subject, self._changed.get((tenant, subject), {}))

    def limits_with(self, subject: str, changed: Mapping[str, object]) -> QuotaLimits:
        """Return the quotas of a subject if these are changed."""
        default = self._chosen.tenant if subject == TENANT_SUBJECT else self._chosen.key
        return merged(default, changed) if changed else default

    def is_changed(self, tenant: str, subject: str) -> bool:
        """Whether the quotas of a subject were changed when they were last read."""
        return (tenant, subject) in self._changed

    async def of_start(self, principal: Principal) -> StartQuota | None:
        """Return the quotas of a start by a principal, or None; raise if the tenant stores too much."""
        now, tenant = self._clock.now_ms(), principal.tenant
        await self._read()
        if not self._is_bounded and not self._changed:
            return None
        of_tenant = await self.limits_of(tenant, TENANT_SUBJECT)
        if of_tenant.storage_bytes is not None:
            stored = await self.stored_bytes(tenant)
            if stored >= of_tenant.storage_bytes:
                raise quota_exceeded("storage_bytes", of_tenant.storage_bytes, stored, TENANT_SUBJECT, now)
        names = (TENANT_SUBJECT, *self._counted(tenant, quota_accounts(principal)))
        named = [SubjectQuota(name, await self.limits_of(tenant, name)) for name in names]
        bound = tuple(item for item in named if item.limits.bounds_starts)
        return StartQuota(tenant=tenant, at=now, subjects=bound) if bound else None

    def _counted(self, tenant: str, accounts: tuple[str, ...]) -> tuple[str, ...]:
        """Return the accounts whose quotas hold: one that was set for a key replaces the usual one of its subject."""
        is_set = any(self.is_changed(tenant, name) for name in accounts[:-1])
        return accounts[:-1] if is_set and not self.is_changed(tenant, accounts[-1]) else accounts

    async def stored_bytes(self, tenant: str) -> int:
        """Return how many bytes a tenant stored when that was last measured."""
        now = self._clock.now_ms()
        known = self._stored.get(tenant)
        if known is None or now - known[1] >= limits.STORAGE_MEASURE_MS:
            # The time first: others who ask meanwhile get the previous figure instead of measuring too.
            self._stored[tenant] = (0 if known is None else known[0], now)
            self._stored[tenant] = (await measure_storage_bytes(self._platform, tenant), now)
        return self._stored[tenant][0]

    async def _read(self) -> None:
        """Read the changed quotas if one was changed since."""
        mark = self._platform.changed(Topic.QUOTAS)
        if mark == self._mark:
            return
        rows = await list_all_resources(self._platform, QUOTA_KIND)
        self._changed = {(row.tenant, subject_named(row.resource_id)): _read_quota(row) for row in rows}
        self._mark = mark


def _read_quota(row: ResourceRow) -> Mapping[str, object]:
    """Return what a stored quota changes. One that cannot be read allows nothing."""
    if all(name in QuotaLimits.__struct_fields__ and _is_amount(value) for name, value in row.body.items()):
        return row.body
    message = "the stored quota of %s in %s cannot be read, so nothing starts there; set it again with quota.set"
    _LOGGER.error(message, row.resource_id, row.tenant)
    return dict.fromkeys(QuotaLimits.__struct_fields__, 0)


def _is_amount(value: object) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)
