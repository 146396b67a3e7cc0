"""The store port: what a store must keep for hosts, schedules and operations, and the rows that it keeps.

A **store** keeps histories, the index of runs, definitions, schedules and workers. A decision is written in one piece:
its records, the new index row and nothing else, if the run is still at the sequence number that the decision was made
for. What reads and what changes are protocols of their own, so that whoever only looks can say so; `RunStore` is all of
them. What a host promises stands in `ports.host`.

Above it: hosts, the driver, operations. Below it: adapters in `runtime.stores`; the conformance suites in
``tests/conformance`` say what they must do. Nothing of a database shows through here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from enum import Enum
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from penstock.base.ids import DEFAULT_TENANT, chain_of
from penstock.base.json import JsonObject
from penstock.engine.pages import Move
from penstock.engine.records import Record
from penstock.runtime.ports.platform import CallRecord

__all__ = [
    "ANY",
    "DEFAULT_TENANT",
    "AnyHash",
    "AppendOutcome",
    "Appended",
    "ChangeMark",
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
    "in_run_tree",
]


_DIGITS = frozenset("123456789")


def in_run_tree(run_id: str, root_run_id: str | None) -> bool:
    """Whether a run is the one named, of its chain, or a child run of these; all are without a name.

    The ids of child runs begin with that of their parent, the ids of a chain with that of its first run.
    """
    if root_run_id is None:
        return True
    first = chain_of(root_run_id)
    if not run_id.startswith(first):
        return False
    rest = run_id[len(first) :]
    return rest[:1] in ("", ":") or (rest[0] == "~" and rest[1:2] in _DIGITS)


# `gc=False`: it holds plain JSON and cannot be part of a circle, so the garbage collector need not look at it.
class RunRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run in the index. `wake_at` is its next timer, `has_work` says that effects are due, `owner` who does them.

    `epoch` counts how often somebody became its owner, and never goes down: whoever acts for the run with a lower one
    has lost it. A run belongs to one tenant for good; its id is unique among the runs of all tenants.
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


class RunPosition(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run is."""

    seq: int
    terminal: bool


class RunWrite(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One decision to be stored: all of it or nothing, and only if the run is as it was when it was decided.

    `expected_epoch` is checked as `expected_seq` is: a run that somebody took over in between has another one.
    `same_index` promises that of the row only `seq` and `updated_at` differ from what is stored, which most steps of
    most runs can promise, and which spares the indexes. What was decided is a plain `move`, or else `records`.
    """

    expected_seq: int
    row: RunRow
    records: tuple[Record, ...] = ()
    move: Move | None = None
    same_index: bool = False
    expected_epoch: int = 0
    call: CallRecord | None = None
    """What the call that led to the decision leaves behind, stored with it."""

    def committed(self) -> None:
        """Note that the decision is stored, with everything that belongs to it."""
        if self.call is not None:
            self.call.committed()

    @property
    def history(self) -> tuple[Record, ...]:
        """The records that are to be stored, whatever form they have."""
        return self.records if self.move is None else self.move.records


class Appended(msgspec.Struct, frozen=True):
    """The decision is stored and will survive a crash."""


class SequenceConflict(msgspec.Struct, frozen=True):
    """Somebody else moved the run, started it or took it over in between; nothing was written."""


AppendOutcome: TypeAlias = Appended | SequenceConflict


class StoredRun(msgspec.Struct, frozen=True):
    """A run as stored."""

    row: RunRow
    records: tuple[Record, ...]


class RunQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs to list, newest first by creation.

    Everything given must hold; one of `statuses` is enough. Each word of `text` must be part of a word of the id, the
    workflow's name or a label's value, in large or small letters (a word of one or two letters: its beginning);
    `label` is a name and its exact value. Times are exclusive. Without a `tenant` the runs of every tenant are listed,
    which is for operators and for whoever owns the file.
    """

    statuses: tuple[str, ...] = ()
    workflow_name: str | None = None
    parent_run_id: str | None = None
    label: tuple[str, str] | None = None
    created_after: int | None = None
    created_before: int | None = None
    text: str | None = None
    limit: int = 50
    cursor: str | None = None
    tenant: str | None = None


class RunPage(msgspec.Struct, frozen=True):
    """A page of runs; `next_cursor` continues it."""

    rows: tuple[RunRow, ...]
    next_cursor: str | None


class RunChange(msgspec.Struct, frozen=True, kw_only=True):
    """One decision that was stored: which records of which run. `row` is how the run is now, not how it was then."""

    row: RunRow
    first_seq: int
    last_seq: int


class ChangePage(msgspec.Struct, frozen=True):
    """Decisions in the order in which they were stored; `position` continues them, now or after a restart."""

    changes: tuple[RunChange, ...]
    position: str
    has_more: bool = False


class DefinitionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A definition as a tenant put it; `name` and `version` are what people call it.

    The document is known by its hash, which is the same in every tenant; when and by whom it was put is not.
    """

    hash: str
    name: str
    version: str
    document: JsonObject
    created_at: int
    tenant: str = DEFAULT_TENANT
    created_by: str | None = None


class DefinitionPage(msgspec.Struct, frozen=True):
    """A page of definitions; `next_cursor` continues it."""

    rows: tuple[DefinitionRow, ...]
    next_cursor: str | None


class AnyHash(Enum):
    """The type of `ANY`."""

    ANY = "any"


# Whatever the newest definition of a name is, or whether there is one.
ANY: Final[Literal[AnyHash.ANY]] = AnyHash.ANY


class DefinitionPut(msgspec.Struct, frozen=True):
    """The definition is the newest of its name."""


class DefinitionChanged(msgspec.Struct, frozen=True):
    """Nothing was put: the newest definition is not the expected one; None when there is none."""

    current_hash: str | None


class DefinitionNameTaken(msgspec.Struct, frozen=True):
    """Nothing was put: a name that the document asks for belongs to another workflow of the tenant."""

    kind: str
    name: str
    owner: str


class DefinitionRefused(msgspec.Struct, frozen=True):
    """Nothing was put: of several definitions, the one of this name was refused."""

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
    """A process that does work; it is taken for alive for as long as it is listed.

    `beats` grows with every sign of life. Whoever wants to know whether a worker is silent watches that number by a
    clock of its own; `seen_at` is the time of day at the worker, for people.
    """

    worker_id: str
    beats: int
    seen_at: int


class ChangeMark(Protocol):
    """Whether anything was stored since."""

    def change_mark(self) -> int:
        """Another number than before once anybody has stored anything, here or in another process.

        Never waits, and costs next to nothing: whoever shares the store asks several times a second and only looks
        further when the number is another one. It may be another one without reason. A store may look once in each turn
        of the event loop: what others commit within one shows in the next.
        """


class StoredRunReader(ChangeMark, Protocol):
    """Histories and the index of runs, as they are stored."""

    async def load(self, run_id: str) -> StoredRun | None:
        """A run with its whole history."""

    async def history(self, run_id: str, *, after_seq: int = 0, limit: int = 1_000) -> tuple[Record, ...]:
        """Records of a run after a sequence number."""

    async def row(self, run_id: str) -> RunRow | None:
        """The index row of a run."""

    async def positions(self, run_ids: Sequence[str]) -> Mapping[str, RunPosition]:
        """How far some runs are, in one read; those that do not exist are left out."""

    async def changes(self, *, after: str | None, since: int, limit: int) -> ChangePage:
        """What anybody stored after a position, in that order; of deleted runs nothing.

        Without a position, or with one that cannot be gone on from (the store was restored, or what stood there was
        deleted): everything of the last while before and after `since`, an instant. Then some of it may come again.
        """

    async def list_runs(self, query: RunQuery) -> RunPage:
        """Runs by filter, from an index."""

    async def ended_runs(self, *, before: int, limit: int) -> tuple[RunRow, ...]:
        """Runs that ended before a moment and that `delete_runs` would forget, longest ago first, at most `limit`.

        Fewer, if their histories are long: what is forgotten at once must not take long.
        """


class StoredRunChanges(Protocol):
    """What is stored of runs and forgotten of them; only hosts and housekeeping do that."""

    def append(self, write: RunWrite) -> Awaitable[AppendOutcome]:
        """Store a decision. Returns at once; the answer comes when it is durable.

        It is stored whether anybody waits for the answer or not. A store that gives back a `commits.Commit` spares the
        host a task.
        """

    async def delete_runs(self, run_ids: Sequence[str], *, call: CallRecord | None = None) -> int:
        """Forget runs; how many were forgotten. `call` tells of the first one.

        Only runs that have ended are, owe nothing (`has_work`), and whose parent has ended too or is forgotten: a
        parent that goes on would start a child that it cannot find again. The first run of a chain is kept until the
        others are forgotten: the chain is called by its id, and a second one of that name would run into the first.
        """

    async def delete_ended(self, *, before: int, limit: int) -> int:
        """Forget runs that ended before a moment, as `delete_runs` would; longest ago first, at most `limit`.

        May stop sooner to keep one piece of work short; 0 means that there is nothing left to forget.
        """


class WorkStore(ChangeMark, Protocol):
    """Who does the work of which run, which processes are alive, and when the next timer is due."""

    async def due(self, *, owner: str, now: int, limit: int, root_run_id: str | None = None) -> tuple[str, ...]:
        """Runs with a timer that is due and that no other listed worker has; `root_run_id` as for `claim`."""

    async def next_wake_at(self, *, after: int) -> int | None:
        """The soonest timer of any run."""

    async def timers_ahead(self, *, after: int, limit: int) -> tuple[RunRow, ...]:
        """Runs whose last record and next timer both lie after a moment: what a clock that was ahead leaves."""

    async def claim(
        self, *, owner: str, limit: int, begun: bool | None = None, root_run_id: str | None = None
    ) -> tuple[str, ...]:
        """Take over runs with work whose owner is not a listed worker; their ids. Each begins a new epoch.

        `begun` chooses: True for runs that somebody had, who may have begun what is to be done; False for runs that
        nobody had since their work came up. `root_run_id` is the id of a run: then only it and its child runs.
        """

    async def has_unclaimed(self, *, root_run_id: str | None = None) -> bool:
        """True when a run has work and no owner, because a process that does not perform moved it. See `claim`."""

    async def owned(self, *, owner: str, after: int, limit: int) -> tuple[tuple[int, str, int], ...]:
        """Runs with work of an owner, in the order of positions after one: position, id, sequence number."""

    async def set_work(self, run_id: str, *, has_work: bool, owner: str | None, expected_epoch: int) -> bool:
        """Note that a run has, or no longer has, effects to perform; False when somebody took it over since."""

    async def register_worker(self, worker_id: str, *, at: int) -> None:
        """List a worker: what it owns is its own until it is struck off."""

    async def heartbeat(self, worker_id: str, *, at: int) -> bool:
        """A sign of life of a listed worker; False when it was struck off, and others may have what it owned."""

    async def remove_worker(self, worker_id: str, *, beats: int | None = None) -> bool:
        """Take a worker off the list; with `beats` only if it has given no sign of life since. Whether it was there."""

    async def workers(self) -> tuple[WorkerRow, ...]:
        """Every listed worker."""


class DefinitionReader(Protocol):
    """Definitions, as tenants put them."""

    async def definition(self, definition_hash: str, *, tenant: str | None = None) -> DefinitionRow | None:
        """A definition by hash, as a tenant put it last; as anybody did without a tenant."""

    async def definition_named(self, name: str, *, tenant: str = DEFAULT_TENANT) -> DefinitionRow | None:
        """The newest definition of a name, if it is not deleted."""

    async def definition_versions(
        self, name: str, *, tenant: str = DEFAULT_TENANT, limit: int, cursor: str | None = None
    ) -> DefinitionPage:
        """What was put under a name, newest first, also while the name is deleted.

        Each time that a definition became the newest is one version.
        """

    async def definitions(self, *, tenant: str | None = DEFAULT_TENANT) -> tuple[DefinitionRow, ...]:
        """The newest definition of every name that is not deleted; None for those of every tenant."""

    async def list_definitions(
        self, *, tenant: str | None = DEFAULT_TENANT, prefix: str | None = None, limit: int, cursor: str | None = None
    ) -> DefinitionPage:
        """As `definitions`, by name and in pages; with `prefix` only the names that begin so."""


class DefinitionChanges(Protocol):
    """Putting definitions and taking them away."""

    async def put_definition(
        self,
        definition: DefinitionRow,
        *,
        expected_hash: str | AnyHash | None = ANY,
        call: CallRecord | None = None,
    ) -> DefinitionOutcome:
        """Keep a definition; the newest of a tenant's name is the one that new runs get.

        Putting one again that is not the newest makes it the newest: that is how to roll back, and how a deleted name
        comes back. With `expected_hash` only if that is the newest now; None: only if there is none. The names of its
        tool, prompt, resource and webhooks belong to it from then on, until a newest version does without them or the
        workflow is deleted; one that another workflow has is refused.
        """

    async def put_definitions(
        self, definitions: Sequence[tuple[DefinitionRow, str | None]], *, call: CallRecord | None = None
    ) -> DefinitionPut | DefinitionRefused:
        """Keep definitions one after the other, each with the hash that is expected: all of them, or none."""

    async def delete_definition(
        self,
        name: str,
        *,
        tenant: str = DEFAULT_TENANT,
        expected_hash: str | AnyHash = ANY,
        call: CallRecord | None = None,
    ) -> bool:
        """Hide a name, so that no run starts by it; whether there was one. By its hash it is found as before.

        With `expected_hash` only if that is the newest of the name.
        """


class ScheduleReader(Protocol):
    """Schedules."""

    async def schedules(self, *, tenant: str | None = None) -> tuple[ScheduleRow, ...]:
        """Every schedule, or those of a tenant."""


class ScheduleChanges(Protocol):
    """Putting schedules and taking them away."""

    async def put_schedule(
        self,
        schedule: ScheduleRow,
        *,
        expected: ScheduleRow | AnyHash | None = ANY,
        call: CallRecord | None = None,
    ) -> bool:
        """Keep a schedule; whether it was kept.

        With `expected` only if it stands so now; None: only if there is none of its id.
        """

    async def delete_schedule(self, schedule_id: str, *, call: CallRecord | None = None) -> bool:
        """Forget a schedule; whether there was one."""


class StoreReader(StoredRunReader, DefinitionReader, ScheduleReader, Protocol):
    """The reading half of a store: what views, streams and reports may use."""


class RunStore(StoreReader, StoredRunChanges, WorkStore, DefinitionChanges, ScheduleChanges, Protocol):
    """Keeps everything a host needs. Every method either happened when it returns, or raises and did not."""

    async def open(self) -> None:
        """Prepare the store; refuses a file that a newer release wrote."""

    async def close(self) -> None:
        """Finish what is under way and let go."""
