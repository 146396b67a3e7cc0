"""The lease of this process: whether it still owns its runs, known without asking the store each time.

A worker is registered in the store and owns its runs until another process removes it. The other process does so only
if it has seen no heartbeat for the length of a lease. So after a heartbeat this process knows for how long it cannot
have been removed, by a monotonic clock that also runs while the process is suspended. Within that time, starting an
activity costs one look at the clock. After it (the process was suspended, or could not write) the store is asked before
anything starts. A worker that was removed drops its runs and continues under a new name.

Above it: the driver; executors through `ActivityCall.confirm`. Below it: a `RunStore`, a `Clock`. The moment between
the check and the effect remains; a receiver can close that gap with the epoch of the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.errors import Unavailable
from penstock.runtime.ports.runs import WorkerRow
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.tables.workers import record_heartbeat, register_worker, remove_worker

__all__ = ["DeadWorkerDetector", "HeldLease", "WorkerLease"]

# The first and the longest delay before a store that is unavailable is asked again.
_RETRY_SECONDS = 0.1
_RETRY_SECONDS_MAX = 5.0


@dataclass(slots=True, kw_only=True)
class WorkerLease:
    """Keeps this process registered as a worker. `on_lost` is called first, with the name that was removed."""

    store: RunStore
    clock: Clock
    worker_id: str
    on_lost: Callable[[str], None]
    report: Callable[[str, BaseException], None] = lambda where, error: None
    _first_id: str = field(init=False)
    _names: int = 1
    _is_listed: bool = False
    _valid_until: int = -1
    _renewing: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self._first_id = self.worker_id

    def holds(self, holder: str | None) -> bool:
        """Whether a name belongs to this process and cannot have been removed yet."""
        return holder == self.worker_id and self.clock.elapsed_ms() < self._valid_until

    async def renew(self) -> None:
        """Send a heartbeat, or find out that it is too late; concurrent callers share one."""
        if self._renewing is None:
            self._renewing = asyncio.ensure_future(self._renew())
            self._renewing.add_done_callback(self._renewed)
        await asyncio.shield(self._renewing)

    async def confirm(self, holder: str | None) -> bool:
        """Ask the store whether a name still belongs to this process; wait while the store is unavailable."""
        nap = _RETRY_SECONDS
        while holder == self.worker_id and not self.holds(holder):
            try:
                await self.renew()
            except Unavailable as error:
                self.report("lease", error)
                await asyncio.sleep(nap)
                nap = min(nap * 2, _RETRY_SECONDS_MAX)
        return holder == self.worker_id

    async def give_up(self) -> None:
        """Unregister this process, so that its runs can be taken over at once."""
        if self._renewing is not None:
            await asyncio.wait((self._renewing,))  # or it would register the process again
        self._valid_until = -1
        self._is_listed = False
        await remove_worker(self.store.database, self.worker_id)

    def _renewed(self, task: asyncio.Task[None]) -> None:
        self._renewing = None
        if not task.cancelled():
            # Mark the exception as retrieved. A caller of `renew` gets it; without one, the next heartbeat fails too.
            task.exception()

    async def _renew(self) -> None:
        began = self.clock.elapsed_ms()  # the time before it is stored: others may count from the moment it is stored
        if self._is_listed and not await record_heartbeat(self.store.database, self.worker_id, at=self.clock.now_ms()):
            lost, self._is_listed, self._valid_until = self.worker_id, False, -1
            self._names += 1
            self.worker_id = f"{self._first_id}.{self._names}"
            self.on_lost(lost)
        if not self._is_listed:
            began = self.clock.elapsed_ms()
            await register_worker(self.store.database, self.worker_id, at=self.clock.now_ms())
            self._is_listed = True
        self._valid_until = began + max(limits.WORKER_LEASE_MS - limits.WORKER_LEASE_MARGIN_MS, 0)


@dataclass(frozen=True, slots=True)
class HeldLease:
    """The lease as seen by one attempt: under the name that the worker had when the attempt began."""

    lease: WorkerLease
    holder: str

    def holds(self) -> bool:
        """Whether the attempt certainly belongs to this process, without asking the store."""
        return self.lease.holds(self.holder)

    async def confirm(self) -> None:
        """Ask the store; the attempt is cancelled if its worker was removed."""
        if not await self.lease.confirm(self.holder):
            raise asyncio.CancelledError("another process has taken over")


@dataclass(slots=True)
class _Heartbeats:
    beats: int
    silent_ms: int = 0


@dataclass(slots=True)
class DeadWorkerDetector:
    """Finds workers without a heartbeat for the length of a lease, by the clock of this process.

    It never looks at another process's time of day: it measures for how long a worker's number of heartbeats has not
    changed. Time in which this process was suspended counts little, because the other may have been suspended with it.
    """

    clock: Clock
    _heartbeats: dict[str, _Heartbeats] = field(default_factory=dict)
    _looked_at: int | None = None

    def look(self, workers: Iterable[WorkerRow]) -> list[WorkerRow]:
        """Return the workers that are dead by now. Call it several times within the length of a lease."""
        now = self.clock.elapsed_ms()
        passed = 0 if self._looked_at is None else min(now - self._looked_at, limits.WORKER_LEASE_MS // 2)
        self._looked_at = now
        before, self._heartbeats, silent = self._heartbeats, {}, []
        for worker in workers:
            heartbeats = before.get(worker.worker_id)
            if heartbeats is None or heartbeats.beats != worker.beats:
                heartbeats = _Heartbeats(worker.beats)
            else:
                heartbeats.silent_ms += passed
            self._heartbeats[worker.worker_id] = heartbeats
            if heartbeats.silent_ms >= limits.WORKER_LEASE_MS:
                silent.append(worker)
        return silent
