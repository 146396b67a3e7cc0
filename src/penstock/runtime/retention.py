"""Retention: delete runs that ended long ago, a few at a time.

Each batch is one short transaction, with a pause after it, so that live runs hardly notice. A run is kept while its
parent is live or while it still has effects to perform, whatever its age; see `RunStore.delete_runs`. The store reuses
the space, or gives it back.

This is for programs that embed Penstock; a server deletes through calls of the gate.

Above it: `app`. Below it: a `RunStore`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.errors import Rejected
from penstock.runtime.tables.runs.store import RunStore

__all__ = ["Retention"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Keeps ended runs for a while: `keep_ms` after their end."""

    store: RunStore
    clock: Clock
    keep_ms: int
    pause_seconds: float = limits.RETENTION_PAUSE_SECONDS

    def __post_init__(self) -> None:
        if self.keep_ms < 0:
            message = f"runs cannot be kept for {self.keep_ms} ms"
            raise Rejected("INVALID_RETENTION", message, "give a time of zero or more")

    async def sweep(self) -> int:
        """Delete every run whose retention period is over and return how many there were.

        Can be cancelled at any time: deleted runs stay deleted, the rest waits for the next sweep.
        """
        before = self.clock.now_ms() - self.keep_ms
        forgotten = 0
        while True:
            found = await self.store.delete_ended(before=before, limit=limits.RETENTION_BATCH_RUNS_MAX)
            if found == 0:
                return forgotten
            forgotten += found
            await asyncio.sleep(self.pause_seconds)
