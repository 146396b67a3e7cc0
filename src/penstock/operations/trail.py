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

__all__ = ["AuditTrail", "Place", "seal_with"]


class Place(NamedTuple):
    """What makes reads equal."""

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
        self._gathered: dict[Place, AuditEntry] = {}
        self._again: dict[Place, int] = {}
        """How often what is gathered came again."""
        self._gathered_since = 0

    async def write(self, entry: AuditEntry, *, gather: bool) -> None:
        """Note what happened; durable on return, unless it is gathered."""
        if not self._services.audited:
            return
        if not gather:
            await self._services.platform.append_audit([entry], seal=self._seal)
            return
        place = Place(entry.tenant, entry.principal, entry.surface, entry.operation, entry.subject, entry.code)
        if await self.counted(place, entry.at):
            return
        self._gathered[place] = entry
        if len(self._gathered) == 1:
            self._gathered_since = entry.at
        if self._is_over(entry.at) or len(self._gathered) >= limits.AUDIT_READS_GATHERED_MAX:
            await self.flush()

    async def counted(self, place: Place, now_ms: int) -> bool:
        """Count what is gathered already and came again; False for what is not, which has to be written."""
        if place not in self._gathered:
            return False
        self._again[place] = self._again.get(place, 0) + 1
        if self._is_over(now_ms):
            await self.flush()
        return True

    def _is_over(self, now_ms: int) -> bool:
        return now_ms - self._gathered_since >= limits.AUDIT_READS_GATHER_MS

    async def flush(self) -> None:
        """Write what was gathered."""
        gathered, self._gathered = self._gathered, {}
        again, self._again = self._again, {}
        if gathered:
            entries = [
                msgspec.structs.replace(entry, count=entry.count + again.get(place, 0))
                for place, entry in gathered.items()
            ]
            await self._services.platform.append_audit(entries, seal=self._seal)
