"""The run store port: what a store must keep for hosts, schedules and operations, and the rows that it keeps.

A **store** keeps histories, the index of runs, definitions, schedules and workers. A decision is written in one piece:
its records, the new index row and nothing else, and only if the run is still at the sequence number that the decision
was made for. Reading and changing are separate protocols, so that code that only reads can say so; `RunStore` is all of
them. `ports.host` defines what a host promises.

Above it: hosts, the driver, operations. Below it: adapters in `runtime.stores`; the conformance suites in
``tests/conformance`` define what they must do. Nothing here is specific to a database.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from enum import Enum
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject
from penstock.engine.pages import Move
from penstock.engine.records import Record
from penstock.governance.authorship import Author
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.topics import ChangeReader
from penstock.runtime.ports.usage import RunUsage, StartQuota
from penstock.runtime.spending import SpendingStore

__all__ = [
    "ANY",
    "DEFAULT_TENANT",
    "AnyHash",
    "AppendOutcome",
    "Appended",
    "ChangePage",
    "DefinitionChanged",
    "DefinitionChanges",
    "DefinitionNameTaken",
    "DefinitionOutcome",
    "DefinitionPage",
    "DefinitionPut",
    "DefinitionReader",
    "DefinitionRefused",
    "DefinitionRow",
    "RunChange",
    "RunPage",
    "RunPosition",
    "RunQuery",
    "RunRow",
    "RunStore",
    "RunWrite",
    "ScheduleChanges",
    "ScheduleReader",
    "ScheduleRow",
    "SequenceConflict",
    "StoreReader",
    "StoredRun",
    "StoredRunChanges",
    "StoredRunReader",
    "WorkStore",
    "WorkerRow",
]


# `gc=False`: it holds plain JSON and cannot be part of a reference cycle, so the garbage collector can skip it.
class RunRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run in the index. `wake_at` is its next timer, `has_work` says that effects are due, `owner` performs them.

    `epoch` counts how often the run got a new owner, and never decreases: a process that acts with a lower epoch has
    lost the run. A run belongs to one tenant for good; its id is unique across all tenants.
    """

    run_id: str
    workflow_name: str
    workflow_version: str
    definition_hash: str
    status: str
    seq: int
    created_at: int
    updated_at: int
    parent_run_id: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    wake_at: int | None = None
    has_work: bool = False
    owner: str | None = None
    terminal: bool = False
    tenant: str = DEFAULT_TENANT
    epoch: int = 0
    started_by: str | None = None
    """The principal who started it; runs that it starts have the same."""


class RunPosition(msgspec.Struct, frozen=True, kw_only=True):
    """The position of a run."""

    seq: int
    terminal: bool


class RunWrite(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One decision to store: all or nothing, and only if the run is unchanged since it was decided.

    `expected_epoch` is checked like `expected_seq`: a run that was taken over in between has another one. `same_index`
    promises that only `seq` and `updated_at` of the row differ from what is stored, which holds for most steps of most
    runs and avoids index updates. The decision is a plain `move`, or else `records`.
    """

    expected_seq: int
    row: RunRow
    records: tuple[Record, ...] = ()
    move: Move | None = None
    same_index: bool = False
    expected_epoch: int = 0
    call: CallRecord | None = None
    """The record of the call that led to the decision, stored with it."""
    usage: RunUsage | None = None
    """What the result that led to the decision reports, counted with it."""

    @property
    def quota(self) -> StartQuota | None:
        """The quotas that the start of a run counts against."""
        return self.call.quota if self.expected_seq == 0 and self.call is not None else None

    def committed(self) -> None:
        """Note that the decision is stored, with everything that belongs to it."""
        if self.call is not None:
            self.call.committed()

    @property
    def history(self) -> tuple[Record, ...]:
        """The records to store, in either form."""
        return self.records if self.move is None else self.move.records


class Appended(msgspec.Struct, frozen=True):
    """The decision is stored and will survive a crash."""


class SequenceConflict(msgspec.Struct, frozen=True):
    """Another process moved the run, started it or took it over in between; nothing was written."""


AppendOutcome: TypeAlias = Appended | SequenceConflict


class StoredRun(msgspec.Struct, frozen=True):
    """A run as stored."""

    row: RunRow
    records: tuple[Record, ...]


class RunQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs to list, newest first by creation; with `by_update`, those that moved last come first.

    All given conditions must hold; one of `statuses` is enough. Each word of `text` must be part of a word of the id,
    the workflow's name or a label's value, ignoring case (a word of one or two letters: its beginning); `label` is a
    name and its exact value. Times are exclusive. A list by update is sorted when it is read, so it takes the longer
    the more runs fit, and a run that moves meanwhile may be skipped. Without a `tenant` the runs of every tenant are
    listed, which is for operators and for the owner of the file.
    """

    statuses: tuple[str, ...] = ()
    workflow_name: str | None = None
    started_by: str | None = None
    parent_run_id: str | None = None
    label: tuple[str, str] | None = None
    created_after: int | None = None
    created_before: int | None = None
    updated_after: int | None = None
    text: str | None = None
    limit: int = 50
    cursor: str | None = None
    tenant: str | None = None
    by_update: bool = False
    counted: bool = False
    """Whether the page says how many runs fit, on all pages together; counted up to `RUNS_COUNTED_MAX`."""


class RunPage(msgspec.Struct, frozen=True):
    """A page of runs; `next_cursor` continues it. `total` is how many there are, if the query asks."""

    rows: tuple[RunRow, ...]
    next_cursor: str | None
    total: int | None = None


class RunChange(msgspec.Struct, frozen=True, kw_only=True):
    """One stored decision: which records of which run. `row` is the run as it is now, not as it was then."""

    row: RunRow
    first_seq: int
    last_seq: int


class ChangePage(msgspec.Struct, frozen=True):
    """Decisions in the order in which they were stored; `position` continues the list, now or after a restart."""

    changes: tuple[RunChange, ...]
    position: str
    has_more: bool = False


class DefinitionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A definition as a tenant stored it; `name` and `version` are for people.

    The document is identified by its hash, which is the same in every tenant; when and by whom it was stored is not.
    """

    hash: str
    name: str
    version: str
    document: JsonObject
    created_at: int
    tenant: str = DEFAULT_TENANT
    created_by: str | None = None
    author: Author | None = None  # None if nobody noted it


class DefinitionPage(msgspec.Struct, frozen=True):
    """A page of definitions; `next_cursor` continues it."""

    rows: tuple[DefinitionRow, ...]
    next_cursor: str | None


class AnyHash(Enum):
    """The type of `ANY`."""

    ANY = "any"


ANY: Final[Literal[AnyHash.ANY]] = AnyHash.ANY  # matches any newest definition of a name, or none


class DefinitionPut(msgspec.Struct, frozen=True):
    """The definition is now the newest of its name."""


class DefinitionChanged(msgspec.Struct, frozen=True):
    """Nothing was stored: the newest definition is not the expected one; None if the name has no definition."""

    current_hash: str | None


class DefinitionNameTaken(msgspec.Struct, frozen=True):
    """Nothing was stored: a name that the document claims belongs to another workflow of the tenant."""

    kind: str
    name: str
    owner: str


class DefinitionRefused(msgspec.Struct, frozen=True):
    """Nothing was stored: of several definitions, the one of this name was refused."""

    name: str
    outcome: DefinitionChanged | DefinitionNameTaken


DefinitionOutcome: TypeAlias = DefinitionPut | DefinitionChanged | DefinitionNameTaken


class ScheduleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that starts runs."""

    schedule_id: str
    workflow_name: str
    spec: JsonObject
    next_at: int | None
    paused: bool = False
    last_run_id: str | None = None
    tenant: str = DEFAULT_TENANT


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A process that performs work. It counts as alive for as long as it is registered.

    `beats` increases with every heartbeat. To find out whether a worker is silent, watch that number by a clock of your
    own; `seen_at` is the time of day at the worker, for people.
    """

    worker_id: str
    beats: int
    seen_at: int


class StoredRunReader(ChangeReader, Protocol):
    """Histories and the index of runs, as they are stored."""

    async def load(self, run_id: str) -> StoredRun | None:
        """Return a run with its whole history."""

    async def history(self, run_id: str, *, after_seq: int = 0, limit: int = 1_000) -> tuple[Record, ...]:
        """Return records of a run after a sequence number."""

    async def row(self, run_id: str) -> RunRow | None:
        """Return the index row of a run."""

    async def positions(self, run_ids: Sequence[str]) -> Mapping[str, RunPosition]:
        """Return the positions of some runs, in one read; runs that do not exist are omitted."""

    async def changes(self, *, after: str | None, since: int, limit: int) -> ChangePage:
        """Return what any process stored after a position, in that order, without deleted runs.

        Without a position, or with one that cannot be continued (the store was restored, or the row at the position was
        deleted): everything from a short while before the time `since` on. Then some of it may come again.
        """

    async def list_runs(self, query: RunQuery) -> RunPage:
        """Return runs by filter, from an index."""

    async def ended_runs(self, *, before: int, limit: int) -> tuple[RunRow, ...]:
        """Return at most `limit` runs that `forget_runs` would delete, oldest end first; fewer if they are long."""


class StoredRunChanges(Protocol):
    """Storing and deleting runs; only hosts and housekeeping do that."""

    def append(self, write: RunWrite) -> Awaitable[AppendOutcome]:
        """Store a decision. Returns at once; the result arrives when the decision is durable.

        It is stored whether the caller waits for the result or not. A store that returns a `commits.Commit` saves the
        host a task.
        """

    async def delete_runs(self, run_ids: Sequence[str], *, call: CallRecord | None = None) -> int:
        """Delete runs and return how many were deleted. `call` is the record about the first one.

        Only runs that have ended, have no work left (`has_work`), and whose parent has ended or is deleted too: a live
        parent would start a child again that it cannot find. The first run of a chain is kept until the others are
        deleted: its id names the chain, and a second chain of that name would collide with the first.
        """

    async def forget_runs(self, run_ids: Sequence[str], *, call: CallRecord | None = None) -> int:
        """Delete runs like `delete_runs`, but set those aside that are damaged. `call` is about all of them."""

    async def delete_ended(self, *, before: int, limit: int) -> int:
        """Delete runs that ended before a time, like `delete_runs`; oldest end first, at most `limit`.

        May stop early to keep one transaction short; 0 means that nothing is left.
        """


class WorkStore(ChangeReader, SpendingStore, Protocol):
    """Who performs the work of which run, which processes are alive, and when the next timer is due."""

    async def due(self, *, owner: str, now: int, limit: int, root_run_id: str | None = None) -> tuple[str, ...]:
        """Return runs with a due timer that no other registered worker owns; `root_run_id` as for `claim`."""

    async def next_wake_at(self, *, after: int) -> int | None:
        """Return the time of the soonest timer of any run."""

    async def timers_ahead(self, *, after: int, limit: int) -> tuple[RunRow, ...]:
        """Return runs whose last record and next timer both lie after a time: the traces of a clock that was ahead."""

    async def claim(
        self, *, owner: str, limit: int, begun: bool | None = None, root_run_id: str | None = None
    ) -> tuple[str, ...]:
        """Take over runs with work whose owner is not a registered worker, and return their ids.

        Each begins a new epoch. `begun` chooses: True for runs that had an owner, who may have begun the work; False
        for runs that had no owner since their work came up. With `root_run_id`, only that run and its child runs.
        """

    async def has_unclaimed(self, *, root_run_id: str | None = None) -> bool:
        """Whether a run has work and no owner, because a process that performs no work moved it. See `claim`."""

    async def owned(self, *, owner: str, after: int, limit: int) -> tuple[tuple[int, str, int], ...]:
        """Return an owner's runs with work after a position, in order: position, id, sequence number."""

    async def set_work(self, run_id: str, *, has_work: bool, owner: str | None, expected_epoch: int) -> bool:
        """Note whether a run has effects to perform; return False if another process took it over since."""

    async def register_worker(self, worker_id: str, *, at: int) -> None:
        """Register a worker: it owns its runs until it is removed."""

    async def heartbeat(self, worker_id: str, *, at: int) -> bool:
        """Record a heartbeat of a registered worker; return False if it was removed and others may own its runs."""

    async def remove_worker(self, worker_id: str, *, beats: int | None = None) -> bool:
        """Remove a worker and return whether it was there; with `beats`, only if it has sent no heartbeat since."""

    async def workers(self) -> tuple[WorkerRow, ...]:
        """Return every registered worker."""


class DefinitionReader(Protocol):
    """Definitions, as tenants stored them."""

    async def definition(self, definition_hash: str, *, tenant: str | None = None) -> DefinitionRow | None:
        """Return a definition by hash, as the tenant last stored it; without a tenant, as any tenant did."""

    async def definition_named(self, name: str, *, tenant: str = DEFAULT_TENANT) -> DefinitionRow | None:
        """Return the newest definition of a name, unless it is deleted."""

    async def definition_versions(
        self, name: str, *, tenant: str = DEFAULT_TENANT, limit: int, cursor: str | None = None
    ) -> DefinitionPage:
        """Return what was stored under a name, newest first, even while the name is deleted.

        Each time that a definition became the newest is one version.
        """

    async def definitions(self, *, tenant: str | None = DEFAULT_TENANT) -> tuple[DefinitionRow, ...]:
        """Return the newest definition of every name that is not deleted; None for those of every tenant."""

    async def list_definitions(
        self, *, tenant: str | None = DEFAULT_TENANT, prefix: str | None = None, limit: int, cursor: str | None = None
    ) -> DefinitionPage:
        """Like `definitions`, ordered by name and in pages; with `prefix`, only the names that begin with it."""


class DefinitionChanges(Protocol):
    """Storing and deleting definitions."""

    async def put_definition(
        self,
        definition: DefinitionRow,
        *,
        expected_hash: str | AnyHash | None = ANY,
        call: CallRecord | None = None,
    ) -> DefinitionOutcome:
        """Store a definition; new runs use the newest one of a tenant's name.

        Storing one again that is not the newest makes it the newest: that is how to roll back, and how to restore a
        deleted name. With `expected_hash`, only if that is the newest now; None: only if the name has no definition.
        The names of its tool, prompt, resource and webhooks belong to it from then on, until a newer version drops them
        or the workflow is deleted; a name that another workflow has is refused. A new signature makes a new version,
        too.
        """

    async def put_definitions(
        self, definitions: Sequence[tuple[DefinitionRow, str | None]], *, call: CallRecord | None = None
    ) -> DefinitionPut | DefinitionRefused:
        """Store definitions one after the other, each with its expected hash: all of them, or none."""

    async def delete_definition(
        self,
        name: str,
        *,
        tenant: str = DEFAULT_TENANT,
        expected_hash: str | AnyHash = ANY,
        call: CallRecord | None = None,
    ) -> bool:
        """Hide a name, so that no run starts by it; return whether it existed. It can still be read by its hash.

        With `expected_hash`, only if that is the newest of the name.
        """


class ScheduleReader(Protocol):
    """Schedules."""

    async def schedules(self, *, tenant: str | None = None) -> tuple[ScheduleRow, ...]:
        """Return every schedule, or those of a tenant."""


class ScheduleChanges(Protocol):
    """Storing and deleting schedules."""

    async def put_schedule(
        self,
        schedule: ScheduleRow,
        *,
        expected: ScheduleRow | AnyHash | None = ANY,
        call: CallRecord | None = None,
    ) -> bool:
        """Store a schedule and return whether it was stored.

        With `expected`, only if the stored one equals it; None: only if its id is free.
        """

    async def delete_schedule(self, schedule_id: str, *, call: CallRecord | None = None) -> bool:
        """Delete a schedule and return whether it existed."""


class StoreReader(StoredRunReader, DefinitionReader, ScheduleReader, Protocol):
    """The reading half of a store, for views, streams and reports."""


class RunStore(StoreReader, StoredRunChanges, WorkStore, DefinitionChanges, ScheduleChanges, Protocol):
    """Keeps everything a host needs. When a method returns, its effect is stored; when it raises, nothing was."""

    async def open(self) -> None:
        """Prepare the store; refuse a file that a newer release wrote."""

    async def close(self) -> None:
        """Finish the work in progress and release all resources."""
