"""The run store in memory: the reference for what a run store does, and the one that tests use.

Above it: `app` and the conformance suite. Nothing survives the process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from penstock.base import limits
from penstock.base.ids import chain_of, in_run_tree
from penstock.definitions.model import AgentLimits
from penstock.engine.records import Record
from penstock.runtime.ports.commits import settled
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.runs import (
    ANY,
    DEFAULT_TENANT,
    AnyHash,
    Appended,
    AppendOutcome,
    ChangePage,
    DefinitionOutcome,
    DefinitionPage,
    DefinitionPut,
    DefinitionRefused,
    DefinitionRow,
    RunChange,
    RunPage,
    RunPosition,
    RunQuery,
    RunRow,
    RunWrite,
    ScheduleRow,
    SequenceConflict,
    StoredRun,
    WorkerRow,
)
from penstock.runtime.ports.topics import Mark, Topic
from penstock.runtime.spending import RunSpending, Spent, SpentLimit
from penstock.runtime.stores.memory.call_records import MemoryCallRecords
from penstock.runtime.stores.memory.definitions import MemoryDefinitions
from penstock.runtime.stores.memory.spending import MemorySpending
from penstock.runtime.tables.listings import (
    cut_page,
    number_cursor,
    number_position,
    runs_page_size,
    update_cursor,
    update_position,
)
from penstock.runtime.tables.outcomes import check_write
from penstock.runtime.tables.search_rules import run_words, search_words, text_matches

__all__ = ["MemoryRunStore"]


# A position combines a time and a number. This is more than the runs that can ever share one timestamp.
_NUMBERS = 1 << 40


@dataclass(slots=True)
class _Kept:
    position: int
    row: RunRow
    records: list[Record]


@dataclass(slots=True)
class MemoryRunStore:
    """Runs in dictionaries. A test can make any write fail with `before_write`."""

    before_write: Callable[[str], None] = lambda operation: None
    calls: MemoryCallRecords = field(default_factory=MemoryCallRecords)
    """Shared with the platform store, so that changes are stored together with the records of calls."""
    _runs: dict[str, _Kept] = field(default_factory=dict)
    _stored: list[tuple[_Kept, int, int]] = field(default_factory=list)  # the run, first and last sequence number
    _definitions: MemoryDefinitions = field(default_factory=MemoryDefinitions)
    _schedules: dict[str, ScheduleRow] = field(default_factory=dict)
    _workers: dict[str, WorkerRow] = field(default_factory=dict)
    _numbered: int = 0
    _mark: int = 0
    _spending: MemorySpending = field(init=False)

    def __post_init__(self) -> None:
        self._spending = MemorySpending(lambda run_id: kept.row if (kept := self._runs.get(run_id)) else None)
        self.calls.usage.open_runs = lambda tenant: {
            run_id for run_id, kept in self._runs.items() if kept.row.tenant == tenant and not kept.row.terminal
        }

    async def open(self) -> None:
        """Nothing to prepare."""

    async def close(self) -> None:
        """Nothing to release."""

    def append(self, write: RunWrite) -> Awaitable[AppendOutcome]:
        """Store a decision."""
        check_write(write)
        return settled(self._append(write))

    def _append(self, write: RunWrite) -> AppendOutcome:
        self.before_write("append")
        kept = self._runs.get(write.row.run_id)
        if (kept.row.seq if kept else 0) != write.expected_seq:
            return SequenceConflict()
        if kept is not None and kept.row.epoch != write.expected_epoch:
            return SequenceConflict()
        if write.quota is not None:
            self.calls.usage.check(write.quota)
        self.calls.check(write.call)
        if kept is None:
            self._numbered += 1
            position = max(write.row.created_at, 0) * _NUMBERS + self._numbered
            kept = self._runs[write.row.run_id] = _Kept(position, write.row, [])
        kept.records.extend(write.history)
        self._stored.append((kept, write.expected_seq + 1, write.row.seq))
        if write.same_index:
            kept.row = replace(kept.row, seq=write.row.seq, updated_at=write.row.updated_at)
        else:
            kept.row = _moved(kept.row, write.row)
        if write.quota is not None:
            self.calls.usage.start(write.quota, write.row.run_id)
        if write.usage is not None:
            self.calls.usage.add(write.usage)
        self.calls.keep(write.call)
        return Appended()

    async def load(self, run_id: str) -> StoredRun | None:
        """A run with its whole history."""
        kept = self._runs.get(run_id)
        return None if kept is None else StoredRun(kept.row, tuple(kept.records))

    async def history(self, run_id: str, *, after_seq: int = 0, limit: int = 1_000) -> tuple[Record, ...]:
        """Records of a run after a sequence number."""
        kept = self._runs.get(run_id)
        after = max(after_seq, 0)
        return () if kept is None else tuple(kept.records[after : after + limit])

    async def row(self, run_id: str) -> RunRow | None:
        """The index row of a run."""
        kept = self._runs.get(run_id)
        return None if kept is None else kept.row

    async def positions(self, run_ids: Sequence[str]) -> dict[str, RunPosition]:
        """The positions of some runs."""
        rows = [self._runs[run_id].row for run_id in run_ids if run_id in self._runs]
        return {row.run_id: RunPosition(seq=row.seq, terminal=row.terminal) for row in rows}

    def changed(self, *topics: Topic) -> Mark:
        """Return new numbers on every call: a lookup here costs as little as a check for changes."""
        self._mark += 1
        return (self._mark,) * len(topics)

    async def changes(self, *, after: str | None, since: int, limit: int) -> ChangePage:
        """The records stored after a position, in order."""
        known = after is not None and after.isascii() and after.isdecimal() and int(after) <= len(self._stored)
        first = int(after) if known and after is not None else 0
        found = [
            (number, RunChange(row=kept.row, first_seq=first_seq, last_seq=last_seq))
            for number, (kept, first_seq, last_seq) in enumerate(self._stored[first:], first + 1)
            if self._runs.get(kept.row.run_id) is kept
            and (known or max(kept.row.created_at, kept.row.updated_at) >= since)
        ]
        page = found[:limit]
        position = page[-1][0] if len(found) > limit else len(self._stored)
        return ChangePage(tuple(change for _, change in page), str(position), has_more=len(found) > limit)

    async def list_runs(self, query: RunQuery) -> RunPage:
        """Runs by filter, newest first."""
        size, words = runs_page_size(query.limit), search_words(query.text or "")
        found = [kept for kept in self._runs.values() if _matches(kept.row, query, words)]
        total = min(len(found), limits.RUNS_COUNTED_MAX) if query.counted else None
        if query.by_update:
            before = update_position(query.cursor)
            found = [kept for kept in found if before is None or (kept.row.updated_at, kept.position) < before]
            found.sort(key=lambda kept: (-kept.row.updated_at, -kept.position))
            page, next_cursor = cut_page(found, size, lambda kept: update_cursor(kept.row.updated_at, kept.position))
        else:
            position = number_position(query.cursor)
            found = [kept for kept in found if position is None or kept.position < position]
            found.sort(key=lambda kept: -kept.position)
            page, next_cursor = cut_page(found, size, lambda kept: number_cursor(kept.position))
        return RunPage(tuple(kept.row for kept in page), next_cursor, total)

    async def due(self, *, owner: str, now: int, limit: int, root_run_id: str | None = None) -> tuple[str, ...]:
        """Runs with a due timer that no other live worker owns."""
        due = [
            kept.row
            for kept in self._runs.values()
            if kept.row.wake_at is not None
            and kept.row.wake_at <= now
            and in_run_tree(kept.row.run_id, root_run_id)
            and (kept.row.owner in (None, owner) or kept.row.owner not in self._workers)
        ]
        due.sort(key=lambda row: row.wake_at or 0)
        return tuple(row.run_id for row in due[:limit])

    async def next_wake_at(self, *, after: int) -> int | None:
        """The soonest timer of any run."""
        later = [row.wake_at for row in self._rows() if row.wake_at is not None and row.wake_at > after]
        return min(later, default=None)

    async def timers_ahead(self, *, after: int, limit: int) -> tuple[RunRow, ...]:
        """Runs whose last record and next timer are both later than a given time."""
        ahead = [row for row in self._rows() if row.updated_at > after and (row.wake_at or 0) > after]
        return tuple(sorted(ahead, key=lambda row: row.wake_at or 0)[:limit])

    def _rows(self) -> list[RunRow]:
        return [kept.row for kept in self._runs.values()]

    async def claim(
        self, *, owner: str, limit: int, begun: bool | None = None, root_run_id: str | None = None
    ) -> tuple[str, ...]:
        """Take over runs with pending work whose owner is gone."""
        self.before_write("claim")
        claimed: list[str] = []
        for kept in self._runs.values():
            free = kept.row.owner != owner and kept.row.owner not in self._workers
            wanted = begun in (None, kept.row.owner is not None) and in_run_tree(kept.row.run_id, root_run_id)
            if len(claimed) < limit and kept.row.has_work and free and wanted:
                kept.row = replace(kept.row, owner=owner, epoch=kept.row.epoch + 1)
                claimed.append(kept.row.run_id)
        return tuple(claimed)

    async def has_unclaimed(self, *, root_run_id: str | None = None) -> bool:
        """True if a run has pending work and no owner."""
        return any(row.has_work and row.owner is None and in_run_tree(row.run_id, root_run_id) for row in self._rows())

    async def owned(self, *, owner: str, after: int, limit: int) -> tuple[tuple[int, str, int], ...]:
        """Runs with pending work that an owner holds."""
        found = [
            (kept.position, kept.row.run_id, kept.row.seq)
            for kept in self._runs.values()
            if kept.row.has_work and kept.row.owner == owner and kept.position > after
        ]
        return tuple(sorted(found)[:limit])

    async def set_work(self, run_id: str, *, has_work: bool, owner: str | None, expected_epoch: int) -> bool:
        """Set or clear the mark that a run has effects to perform."""
        self.before_write("set_work")
        kept = self._runs.get(run_id)
        if kept is None or kept.row.epoch != expected_epoch:
            return False
        kept.row = replace(kept.row, has_work=has_work, owner=owner)
        return True

    async def spend(
        self, run_id: str, amount: Spent, *, at: int, limits: AgentLimits | None = None, checked: bool = False
    ) -> SpentLimit | None:
        """Count what a run uses, for it and for every run above it."""
        self.before_write("spend")
        return self._spending.spend(run_id, amount, at=at, limits=limits, checked=checked)

    async def spending(self, run_id: str) -> RunSpending | None:
        """What was counted for a run."""
        return self._spending.of(run_id)

    async def register_worker(self, worker_id: str, *, at: int) -> None:
        """Register a worker."""
        self.before_write("register_worker")
        if not self._beat(worker_id, at):
            self._workers[worker_id] = WorkerRow(worker_id=worker_id, beats=1, seen_at=at)

    async def heartbeat(self, worker_id: str, *, at: int) -> bool:
        """Renew the heartbeat of a registered worker."""
        self.before_write("heartbeat")
        return self._beat(worker_id, at)

    def _beat(self, worker_id: str, at: int) -> bool:
        known = self._workers.get(worker_id)
        if known is None:
            return False
        self._workers[worker_id] = replace(known, beats=known.beats + 1, seen_at=at)
        return True

    async def remove_worker(self, worker_id: str, *, beats: int | None = None) -> bool:
        """Remove a worker from the list."""
        self.before_write("remove_worker")
        known = self._workers.get(worker_id)
        if known is None or beats not in (None, known.beats):
            return False
        del self._workers[worker_id]
        return True

    async def workers(self) -> tuple[WorkerRow, ...]:
        """Every registered worker."""
        return tuple(row for _, row in sorted(self._workers.items()))

    async def put_definition(
        self,
        definition: DefinitionRow,
        *,
        expected_hash: str | AnyHash | None = ANY,
        call: CallRecord | None = None,
    ) -> DefinitionOutcome:
        """Store a definition."""
        self.before_write("put_definition")
        self.calls.check(call)
        return self.calls.keep_if_changed(self._definitions.put(definition, expected_hash), call)

    async def put_definitions(
        self, definitions: Sequence[tuple[DefinitionRow, str | None]], *, call: CallRecord | None = None
    ) -> DefinitionPut | DefinitionRefused:
        """Store definitions, all of them or none."""
        self.before_write("put_definitions")
        self.calls.check(call)
        return self.calls.keep_if_changed(self._definitions.put_all(definitions), call)

    async def definition(self, definition_hash: str, *, tenant: str | None = None) -> DefinitionRow | None:
        """A definition by hash."""
        return self._definitions.by_hash(definition_hash, tenant)

    async def definition_named(self, name: str, *, tenant: str = DEFAULT_TENANT) -> DefinitionRow | None:
        """The newest definition of a name."""
        return self._definitions.named(name, tenant)

    async def definition_versions(
        self, name: str, *, tenant: str = DEFAULT_TENANT, limit: int, cursor: str | None = None
    ) -> DefinitionPage:
        """The versions of a name, newest first."""
        return self._definitions.versions(name, tenant, limit=limit, cursor=cursor)

    async def definitions(self, *, tenant: str | None = DEFAULT_TENANT) -> tuple[DefinitionRow, ...]:
        """The newest definition of every name."""
        return tuple(self._definitions.newest(tenant))

    async def list_definitions(
        self, *, tenant: str | None = DEFAULT_TENANT, prefix: str | None = None, limit: int, cursor: str | None = None
    ) -> DefinitionPage:
        """The newest definition of each name, in pages ordered by name."""
        return self._definitions.page(tenant, prefix or "", limit=limit, cursor=cursor)

    async def delete_definition(
        self,
        name: str,
        *,
        tenant: str = DEFAULT_TENANT,
        expected_hash: str | AnyHash = ANY,
        call: CallRecord | None = None,
    ) -> bool:
        """Hide a name."""
        self.before_write("delete_definition")
        self.calls.check(call)
        return self.calls.keep_if_changed(self._definitions.delete(name, tenant, expected_hash), call)

    async def put_schedule(
        self,
        schedule: ScheduleRow,
        *,
        expected: ScheduleRow | AnyHash | None = ANY,
        call: CallRecord | None = None,
    ) -> bool:
        """Store a schedule if the current one is as expected."""
        self.before_write("put_schedule")
        self.calls.check(call)
        if expected is not ANY and self._schedules.get(schedule.schedule_id) != expected:
            return False
        self._schedules[schedule.schedule_id] = schedule
        return self.calls.keep_if_changed(True, call)

    async def schedules(self, *, tenant: str | None = None) -> tuple[ScheduleRow, ...]:
        """Every schedule."""
        return tuple(row for _, row in sorted(self._schedules.items()) if tenant in (None, row.tenant))

    async def delete_schedule(self, schedule_id: str, *, call: CallRecord | None = None) -> bool:
        """Delete a schedule."""
        self.before_write("delete_schedule")
        self.calls.check(call)
        return self.calls.keep_if_changed(self._schedules.pop(schedule_id, None) is not None, call)

    async def delete_runs(self, run_ids: Sequence[str], *, call: CallRecord | None = None) -> int:
        """Delete ended runs that no other run needs any more."""
        self.before_write("delete_runs")
        self.calls.check(call)
        # In order, because a child can be deleted once its parent is gone.
        deleted = [self._delete(name, self._chains()) for name in run_ids]
        self.calls.keep_if_changed(deleted[:1] == [1], call)
        return sum(deleted)

    async def forget_runs(self, run_ids: Sequence[str], *, call: CallRecord | None = None) -> int:
        """Delete runs that are past their time."""
        self.before_write("forget_runs")
        self.calls.check(call)
        deleted = [self._delete(name, self._chains()) for name in run_ids]
        self.calls.keep_if_changed(any(deleted), call)
        return sum(deleted)

    async def ended_runs(self, *, before: int, limit: int) -> tuple[RunRow, ...]:
        """The runs that ended longest ago and can be deleted."""
        chains = self._chains()
        ended = [row for row in self._rows() if row.updated_at < before and self._is_deletable(row, chains)]
        ended.sort(key=lambda row: row.updated_at)
        return tuple(ended[:limit])

    async def delete_ended(self, *, before: int, limit: int) -> int:
        """Delete the runs that ended longest ago."""
        self.before_write("delete_ended")
        ended = await self.ended_runs(before=before, limit=limit)
        chains = self._chains()
        return sum(self._delete(row.run_id, chains) for row in ended)

    def _chains(self) -> set[str]:
        """The ids of the first runs of those continue-as-new chains that still have later runs."""
        return {chain for row in self._rows() if (chain := chain_of(row.run_id)) != row.run_id}

    def _delete(self, run_id: str, chains: set[str]) -> bool:
        kept = self._runs.get(run_id)
        if kept is None or not self._is_deletable(kept.row, chains):
            return False
        del self._runs[run_id]
        self._spending.drop(run_id)
        return True

    def _is_deletable(self, row: RunRow, chains: set[str]) -> bool:
        parent = self._runs.get(row.parent_run_id) if row.parent_run_id is not None else None
        wanted = row.run_id in chains or (parent is not None and not parent.row.terminal)
        return row.terminal and not row.has_work and not wanted


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
    return (
        query.tenant in (None, row.tenant)
        and (not query.statuses or row.status in query.statuses)
        and query.workflow_name in (None, row.workflow_name)
        and query.started_by in (None, row.started_by)
        and query.parent_run_id in (None, row.parent_run_id)
        and (query.label is None or row.labels.get(query.label[0]) == query.label[1])
        and (query.created_after is None or row.created_at > query.created_after)
        and (query.created_before is None or row.created_at < query.created_before)
        and (query.updated_after is None or row.updated_at > query.updated_after)
        and (not words or text_matches(_words(row), words))
    )


def _words(row: RunRow) -> list[str]:
    return run_words(row.tenant, row.run_id, row.workflow_name, row.labels.values())
