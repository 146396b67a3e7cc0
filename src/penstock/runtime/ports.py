"""The ports of the runtime: what a store must keep, and what a host promises.

A **store** keeps histories, the index of runs, definitions, schedules and workers. A decision is written in one piece:
its records, the new index row and nothing else, if the run is still at the sequence number that the decision was made
for. A **host** makes four promises: one transition of a run at a time, stored atomically; effects performed at least
once and their outcomes fed back; durable timers; reading and waiting. Everything else is built on these.

Above it: `app`, the control plane, operations. Below it: adapters in `runtime.stores`; the conformance suites in
``tests/conformance`` say what they must do. Nothing of a database shows through here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from penstock.base.json import JsonObject
from penstock.engine.inputs import Input, StartRun
from penstock.engine.outcomes import Decision
from penstock.engine.records import Record
from penstock.engine.state import RunState

__all__ = [
    "AppendOutcome",
    "Appended",
    "DefinitionRow",
    "Host",
    "RunPage",
    "RunQuery",
    "RunRow",
    "RunWrite",
    "ScheduleRow",
    "SequenceConflict",
    "Store",
    "StoredRun",
    "WorkerRow",
    "in_family",
]


def in_family(run_id: str, family: str | None) -> bool:
    """Whether a run is the one named or one of its child runs, whose ids begin with its own; all are without a name."""
    return family is None or run_id == family or run_id.startswith(f"{family}:")


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run in the index. `wake_at` is its next timer, `has_work` says that effects are due, `owner` who does them."""

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


class RunWrite(msgspec.Struct, frozen=True, kw_only=True):
    """One decision to be stored: all of it or nothing.

    `same_index` promises that of the row only `seq` and `updated_at` differ from what is stored, which most steps of
    most runs can promise, and which spares the indexes.
    """

    expected_seq: int
    row: RunRow
    records: tuple[Record, ...]
    same_index: bool = False


class Appended(msgspec.Struct, frozen=True):
    """The decision is stored and will survive a crash."""


class SequenceConflict(msgspec.Struct, frozen=True):
    """Somebody else moved the run (or started it) in between; nothing was written."""


AppendOutcome: TypeAlias = Appended | SequenceConflict


class StoredRun(msgspec.Struct, frozen=True):
    """A run as stored."""

    row: RunRow
    records: tuple[Record, ...]


class RunQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs to list, newest first by creation.

    Everything given must hold; one of `statuses` is enough. `text` is looked for at the beginning of ids and label
    values, in large or small letters; `label` is a name and its exact value. Times are exclusive.
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


class RunPage(msgspec.Struct, frozen=True):
    """A page of runs; `next_cursor` continues it."""

    rows: tuple[RunRow, ...]
    next_cursor: str | None


class DefinitionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A definition by hash; `name` and `version` are what people call it."""

    hash: str
    name: str
    version: str
    document: JsonObject
    created_at: int


class ScheduleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that starts runs."""

    schedule_id: str
    workflow_name: str
    spec: JsonObject
    next_at: int | None
    paused: bool = False
    last_run_id: str | None = None


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A process that does work, alive until its lease runs out."""

    worker_id: str
    expires_at: int


class Store(Protocol):
    """Keeps everything a host needs. Every method either happened when it returns, or raises and did not."""

    async def open(self) -> None:
        """Prepare the store; refuses a file that a newer release wrote."""

    async def close(self) -> None:
        """Finish what is under way and let go."""

    def append(self, write: RunWrite) -> Awaitable[AppendOutcome]:
        """Store a decision. Returns at once; the answer comes when it is durable."""

    async def load(self, run_id: str) -> StoredRun | None:
        """A run with its whole history."""

    async def history(self, run_id: str, *, after_seq: int = 0, limit: int = 1_000) -> tuple[Record, ...]:
        """Records of a run after a sequence number."""

    async def row(self, run_id: str) -> RunRow | None:
        """The index row of a run."""

    async def list_runs(self, query: RunQuery) -> RunPage:
        """Runs by filter, from an index."""

    async def due(self, *, owner: str, now: int, limit: int, family: str | None = None) -> tuple[str, ...]:
        """Runs with a timer that is due and that nobody else alive is working on; `family` as for `claim`."""

    async def next_wake_at(self, *, after: int) -> int | None:
        """The soonest timer of any run."""

    async def claim(
        self, *, owner: str, now: int, limit: int, begun: bool | None = None, family: str | None = None
    ) -> tuple[str, ...]:
        """Take over runs with work whose owner is gone; their ids.

        `begun` chooses: True for runs that somebody had, who may have begun what is to be done; False for runs that
        nobody had since their work came up. `family` is the id of a run: then only it and its child runs.
        """

    async def has_unclaimed(self, *, family: str | None = None) -> bool:
        """True when a run has work and no owner: a process that does not perform moved it; `family` as for `claim`."""

    async def set_work(self, run_id: str, *, has_work: bool, owner: str | None) -> None:
        """Note that a run has, or no longer has, effects to perform."""

    async def beat(self, worker: WorkerRow) -> None:
        """Say that a worker is alive until a moment."""

    async def workers(self) -> tuple[WorkerRow, ...]:
        """Every worker that was ever alive and is not forgotten."""

    async def put_definition(self, definition: DefinitionRow) -> None:
        """Keep a definition; the newest by name is the one that new runs get."""

    async def definition(self, definition_hash: str) -> DefinitionRow | None:
        """A definition by hash."""

    async def definition_named(self, name: str) -> DefinitionRow | None:
        """The newest definition of a name."""

    async def definitions(self) -> tuple[DefinitionRow, ...]:
        """The newest definition of every name."""

    async def put_schedule(self, schedule: ScheduleRow) -> None:
        """Keep a schedule."""

    async def schedules(self) -> tuple[ScheduleRow, ...]:
        """Every schedule."""

    async def delete_schedule(self, schedule_id: str) -> bool:
        """Forget a schedule."""

    async def delete_runs(self, run_ids: Sequence[str]) -> int:
        """Forget runs; how many were forgotten.

        Only runs that have ended are, owe nothing (`has_work`), and whose parent has ended too or is forgotten: a
        parent that goes on would start a child that it cannot find again.
        """

    async def delete_ended(self, *, before: int, limit: int) -> int:
        """Forget runs that ended before a moment, as `delete_runs` would; longest ago first, at most `limit`.

        May stop sooner to keep one piece of work short; 0 means that there is nothing left to forget.
        """


class Host(Protocol):
    """Runs on some engine. The four promises of the design, nothing more."""

    async def start(self, given: StartRun, *, workflow_hash: str, labels: dict[str, str] | None = None) -> Decision:
        """Start a run; accepted only after it is durable."""

    async def send(self, run_id: str, given: Input) -> Decision:
        """Give a run an input; accepted only after it is durable."""

    async def read(self, run_id: str) -> RunState | None:
        """The state of a run."""

    async def history(self, run_id: str, *, after_seq: int = 0, limit: int = 1_000) -> tuple[Record, ...]:
        """Records of a run."""

    async def wait(self, run_id: str, *, after_seq: int, timeout_seconds: float) -> RunState | None:
        """The state of a run once it has moved past a sequence number, or when time is up."""
