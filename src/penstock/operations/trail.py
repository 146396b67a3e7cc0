"""The audit trail as the gate writes it: one record for every outcome, refusals included.

Changes and refusals are durable before the caller hears of them. Reads that were allowed, and calls of people who
showed no valid key, are gathered: equal ones within a minute become one record with a count, so that neither polling
nor somebody at the door fills the disk. What is gathered is written when the window ends and when the process stops; a
crash may lose the count of the last minute.

Above it: `pipeline`, `app` (which flushes). Below it: the platform port, `governance.audit_chain`.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import msgspec

from penstock.base import limits
from penstock.governance.audit_chain import seal_entry
from penstock.operations.context import Services
from penstock.runtime.platform import AuditEntry, Seal

__all__ = ["AuditTrail", "seal_with"]


class _Place(NamedTuple):
    tenant: str
    principal: str
    surface: str
    operation: str
    subject: str | None
    code: str | None


def seal_with(key: bytes) -> Seal:
    """The function by which a store links an entry to its chain."""
    return partial(seal_entry, key)


class AuditTrail:
    """Writes entries, gathering those of equal reads."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._seal = seal_with(services.pepper)
        self._gathered: dict[_Place, AuditEntry] = {}
        self._gathered_since = 0

    async def write(self, entry: AuditEntry, *, gather: bool) -> None:
        """Note what happened; durable on return, unless it is gathered."""
        if not gather:
            await self._services.platform.append_audit([entry], seal=self._seal)
            return
        place = _Place(entry.tenant, entry.principal, entry.surface, entry.operation, entry.subject, entry.code)
        seen = self._gathered.get(place)
        self._gathered[place] = entry if seen is None else msgspec.structs.replace(seen, count=seen.count + 1)
        if len(self._gathered) == 1 and seen is None:
            self._gathered_since = entry.at
        if (
            entry.at - self._gathered_since >= limits.AUDIT_READS_GATHER_MS
            or len(self._gathered) >= limits.AUDIT_READS_GATHERED_MAX
        ):
            await self.flush()

    async def flush(self) -> None:
        """Write what was gathered."""
        gathered, self._gathered = self._gathered, {}
        if gathered:
            await self._services.platform.append_audit(list(gathered.values()), seal=self._seal)
