"""A model of runs, schedules and workers in dictionaries, which a store is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from penstock.base.ids import chain_of
from penstock.engine.records import Record
from penstock.runtime.ports.runs import (
    ANY,
    AnyHash,
    Appended,
    AppendOutcome,
    RunPage,
    RunQuery,
    RunRow,
    RunWrite,
    ScheduleRow,
    SequenceConflict,
    StoredRun,
    WorkerRow,
)
from penstock.runtime.tables.listings import cut_page, number_cursor, number_position, runs_page_size
from penstock.runtime.tables.search_rules import run_words, search_words, text_matches
from tests.conformance.definition_model import ModelOfDefinitions

__all__ = ["ModelOfRuns"]

# A position combines a time and a number. This is more than the runs that can ever share one timestamp.
_NUMBERS = 1 << 40


@dataclass(slots=True)
class _Kept:
    position: int
    row: RunRow
    records: list[Record]


@dataclass(slots=True)
class ModelOfRuns:
    """Runs in dictionaries."""

    definitions: ModelOfDefinitions = field(default_factory=ModelOfDefinitions)
    _runs: dict[str, _Kept] = field(default_factory=dict)
    _schedules: dict[str, ScheduleRow] = field(default_factory=dict)
    _workers: dict[str, WorkerRow] = field(default_factory=dict)
    _numbered: int = 0

    # --- runs ------------------------------------------------------------------------------------

    async def append(self, write: RunWrite) -> AppendOutcome:
        """Store a decision."""
        kept = self._runs.get(write.row.run_id)
        if (kept.row.seq if kept else 0) != write.expected_seq:
            return SequenceConflict()
        if kept is not None and kept.row.epoch != write.expected_epoch:
            return SequenceConflict()
        if kept is None:
            self._numbered += 1
            position = max(write.row.created_at, 0) * _NUMBERS + self._numbered
            kept = self._runs[write.row.run_id] = _Kept(position, write.row, [])
        kept.records.extend(write.history)
        if write.same_index:
            kept.row = replace(kept.row, seq=write.row.seq, updated_at=write.row.updated_at)
        else:
            kept.row = _moved(kept.row, write.row)
        return Appended()

    async def load(self, run_id: str) -> StoredRun | None:
        """A run with its whole history."""
        kept = self._runs.get(run_id)
        return None if kept is None else StoredRun(kept.row, tuple(kept.records))

    async def history(self, run_id: str, *, after_seq: int, limit: int) -> tuple[Record, ...]:
        """Records of a run after a sequence number."""
        kept = self._runs.get(run_id)
        return () if kept is None else tuple(kept.records[after_seq : after_seq + limit])

    async def row(self, run_id: str) -> RunRow | None:
        """The index row of a run."""
        kept = self._runs.get(run_id)
        return None if kept is None else kept.row

    async def list_runs(self, query: RunQuery) -> RunPage:
        """Runs by filter, newest first."""
        size, words, position = (
            runs_page_size(query.limit),
            search_words(query.text or ""),
            number_position(query.cursor),
        )
        found = [
            kept
            for kept in self._runs.values()
            if _matches(kept.row, query, words) and (position is None or kept.position < position)
        ]
        found.sort(key=lambda kept: -kept.position)
        page, next_cursor = cut_page(found, size, lambda kept: number_cursor(kept.position))
        return RunPage(tuple(kept.row for kept in page), next_cursor)

    async def delete_runs(self, run_ids: Sequence[str]) -> int:
        """Delete ended runs that no other run needs any more."""
        # In order, because a child can be deleted once its parent is gone.
        return sum(self._delete(run_id, self._chains()) for run_id in run_ids)

    async def delete_ended(self, *, before: int, limit: int) -> int:
        """Delete the runs that ended longest ago."""
        chains = self._chains()
        ended = [row for row in self._rows() if row.updated_at < before and self._is_deletable(row, chains)]
        ended.sort(key=lambda row: row.updated_at)
        return sum(self._delete(row.run_id, chains) for row in ended[:limit])

    def _rows(self) -> list[RunRow]:
        return [kept.row for kept in self._runs.values()]

    def _chains(self) -> set[str]:
        """The ids of the first runs of those continue-as-new chains that still have later runs."""
        return {chain for row in self._rows() if (chain := chain_of(row.run_id)) != row.run_id}

    def _delete(self, run_id: str, chains: set[str]) -> bool:
        kept = self._runs.get(run_id)
        if kept is None or not self._is_deletable(kept.row, chains):
            return False
        del self._runs[run_id]
        return True

    def _is_deletable(self, row: RunRow, chains: set[str]) -> bool:
        parent = self._runs.get(row.parent_run_id) if row.parent_run_id is not None else None
        wanted = row.run_id in chains or (parent is not None and not parent.row.terminal)
        return row.terminal and not row.has_work and not wanted

    # --- work ------------------------------------------------------------------------------------

    async def due(self, *, owner: str, now: int, limit: int) -> tuple[str, ...]:
        """Runs with a due timer that no other registered worker owns."""
        due = [
            row
            for row in self._rows()
            if row.wake_at is not None
            and row.wake_at <= now
            and (row.owner in (None, owner) or row.owner not in self._workers)
        ]
        due.sort(key=lambda row: row.wake_at or 0)
        return tuple(row.run_id for row in due[:limit])

    async def next_wake_at(self, *, after: int) -> int | None:
        """The soonest timer of any run."""
        later = [row.wake_at for row in self._rows() if row.wake_at is not None and row.wake_at > after]
        return min(later, default=None)

    async def claim(self, *, owner: str, limit: int) -> tuple[str, ...]:
        """Take over runs with work whose owner is gone."""
        claimed: list[str] = []
        for kept in self._runs.values():
            is_free = kept.row.owner != owner and kept.row.owner not in self._workers
            if len(claimed) < limit and kept.row.has_work and is_free:
                kept.row = replace(kept.row, owner=owner, epoch=kept.row.epoch + 1)
                claimed.append(kept.row.run_id)
        return tuple(claimed)

    async def set_work(self, run_id: str, *, has_work: bool, owner: str | None, expected_epoch: int) -> bool:
        """Set or clear the mark that a run has effects to perform."""
        kept = self._runs.get(run_id)
        if kept is None or kept.row.epoch != expected_epoch:
            return False
        kept.row = replace(kept.row, has_work=has_work, owner=owner)
        return True

    # --- workers and schedules -------------------------------------------------------------------

    async def register_worker(self, worker_id: str, *, at: int) -> None:
        """Register a worker."""
        if not await self.record_heartbeat(worker_id, at=at):
            self._workers[worker_id] = WorkerRow(worker_id=worker_id, beats=1, seen_at=at)

    async def record_heartbeat(self, worker_id: str, *, at: int) -> bool:
        """Record a heartbeat of a registered worker."""
        known = self._workers.get(worker_id)
        if known is None:
            return False
        self._workers[worker_id] = replace(known, beats=known.beats + 1, seen_at=at)
        return True

    async def remove_worker(self, worker_id: str, *, beats: int | None = None) -> bool:
        """Remove a worker."""
        known = self._workers.get(worker_id)
        if known is None or beats not in (None, known.beats):
            return False
        del self._workers[worker_id]
        return True

    async def list_workers(self) -> tuple[WorkerRow, ...]:
        """Every registered worker."""
        return tuple(row for _, row in sorted(self._workers.items()))

    async def put_schedule(self, schedule: ScheduleRow, *, expected: ScheduleRow | AnyHash | None = ANY) -> bool:
        """Store a schedule if the current one is as expected."""
        if expected is not ANY and self._schedules.get(schedule.schedule_id) != expected:
            return False
        self._schedules[schedule.schedule_id] = schedule
        return True

    async def delete_schedule(self, schedule_id: str) -> bool:
        """Delete a schedule."""
        return self._schedules.pop(schedule_id, None) is not None

    async def list_schedules(self) -> tuple[ScheduleRow, ...]:
        """Every schedule."""
        return tuple(row for _, row in sorted(self._schedules.items()))


def _moved(kept: RunRow, row: RunRow) -> RunRow:
    """The row after one more decision. Only the state of the run changes, never its identity."""
    return replace(
        kept,
        status=row.status,
        seq=row.seq,
        updated_at=row.updated_at,
        wake_at=row.wake_at,
        has_work=row.has_work,
        owner=row.owner,
        terminal=row.terminal,
        epoch=row.epoch,
    )


def _matches(row: RunRow, query: RunQuery, words: tuple[str, ...]) -> bool:
    searched = run_words(row.tenant, row.run_id, row.workflow_name, row.labels.values())
    return (
        query.tenant in (None, row.tenant)
        and (not query.statuses or row.status in query.statuses)
        and query.workflow_name in (None, row.workflow_name)
        and query.parent_run_id in (None, row.parent_run_id)
        and (query.label is None or row.labels.get(query.label[0]) == query.label[1])
        and (query.created_after is None or row.created_at > query.created_after)
        and (query.created_before is None or row.created_at < query.created_before)
        and (not words or text_matches(searched, words))
    )
