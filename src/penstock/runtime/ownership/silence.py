"""Which other workers have fallen silent, by the clock of whoever listens.

The time of day at another process is never looked at: a listener sees that the number of signs of life has changed, and
counts for how long it has not. Time in which the listener itself was suspended counts little, because the other one may
have been suspended with it.

Above it: the driver. It reads nothing and strikes nobody off itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.runtime.ports.runs import WorkerRow

__all__ = ["SilenceWatch"]


@dataclass(slots=True)
class _Heard:
    beats: int
    silent_ms: int = 0


@dataclass(slots=True)
class SilenceWatch:
    """What was heard of each worker so far."""

    clock: Clock
    _heard: dict[str, _Heard] = field(default_factory=dict)
    _looked_at: int | None = None

    def look(self, workers: Iterable[WorkerRow]) -> list[WorkerRow]:
        """The workers of whom nothing was heard for the length of a lease; to be called a few times within one."""
        now = self.clock.elapsed_ms()
        passed = 0 if self._looked_at is None else min(now - self._looked_at, limits.WORKER_LEASE_MS // 2)
        self._looked_at = now
        before, self._heard, silent = self._heard, {}, []
        for worker in workers:
            heard = before.get(worker.worker_id)
            if heard is None or heard.beats != worker.beats:
                heard = _Heard(worker.beats)
            else:
                heard.silent_ms += passed
            self._heard[worker.worker_id] = heard
            if heard.silent_ms >= limits.WORKER_LEASE_MS:
                silent.append(worker)
        return silent
