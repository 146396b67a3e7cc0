"""What is stored of runs, definitions, schedules and workers, and the outcomes of storing it.

A decision is written in one piece: its records, the new index row and nothing else, and only if the run is still at the
sequence number that the decision was made for.

Above it: hosts, the driver, operations. Below it: nothing but data. `runtime.tables` reads and writes them.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal, TypeAlias

import msgspec

from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject
from penstock.engine.pages import Move
from penstock.engine.records import Record
from penstock.governance.authorship import Author
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.usage import RunUsage, StartQuota

__all__ = [
    "ANY",
    "DEFAULT_TENANT",
    "AnyHash",
    "AppendOutcome",
    "Appended",
    "ChangePage",
    "DefinitionChanged",
    "DefinitionNameTaken",
    "DefinitionOutcome",
    "DefinitionPage",
    "DefinitionPut",
    "DefinitionRefused",
    "DefinitionRow",
    "RunChange",
    "RunPage",
    "RunPosition",
    "RunQuery",
    "RunRow",
    "RunWrite",
    "ScheduleRow",
    "SequenceConflict",
    "StoredRun",
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
