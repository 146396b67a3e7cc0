"""The host port: what any caller may ask of a host of runs.

The pure engine is hosted, it does not host. A host makes four promises, and everything else is built on these:

1. **One transition of a run at a time.** An input is decided on the run as it is stored. The records, the index row and
  the effects that follow from them are stored in one piece or not at all (`RunInputs`).
2. **Effects are performed at least once**, and their outcomes come back as inputs. A duplicate outcome counts once,
   because it names its node, visit and attempt.
3. **Timers are durable**: a timer that a history waits for fires after a restart too, if late.
4. **Read and wait** (`RunReader`): an acknowledged write can be read from then on, and waiting costs no polling.

A host does not promise what a process happens to have in memory of its runs: `run_memory` has these shortcuts.

Operations, schedules, the control plane, the delivery of events and `Run` are written against `RunHost`. The driver is
written against `EffectHost`. Only hosts that leave promises 2 and 3 to our driver implement it. Their runs are in a
`RunStore` that several processes share by leases. A host on top of another engine performs effects with `effects` and
an `AsyncPerformer` instead, and fires timers with that engine.

**How to add a host.** On another database, the embedded host needs a driver of `ports.database`; `tests/conformance`
shows what is missing. On a distributed engine: implement `RunHost`, with one keyed object per run that handles inputs
one at a time (load, `decide`, append; no other I/O), a service without a key for effects, delayed messages for timers,
and a projector that writes the rows and records for `row`, `list_runs` and `history`.
`tests/conformance/mailbox_host.py` is a small host of this kind. Either is done when `tests/conformance/test_hosts.py`
passes with it.

Above it: all code that uses runs. Below it: `ports` for the rows, the engine for inputs and state. `app` chooses the
host, and only `app` knows which one it is; nothing here is specific to an engine below a host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import msgspec

from penstock.base.clock import Clock
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonValue
from penstock.definitions.jq.expressions import Evaluated, EvaluationFailed, Evaluator, Expression
from penstock.definitions.model import Workflow
from penstock.definitions.schemas.compiled import CompiledSchema, Violation
from penstock.engine.effects import Effect
from penstock.engine.inputs import Input, StartRun
from penstock.engine.outcomes import Decision, Refused
from penstock.engine.pages import Move, Page, names_of, records_of
from penstock.engine.records import Record
from penstock.engine.state import RunState
from penstock.governance.authorship import Author, AuthorshipRules
from penstock.runtime.activities.progress import ProgressBroadcast
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.runs import (
    ANY,
    AnyHash,
    DefinitionOutcome,
    DefinitionRow,
    RunPage,
    RunPosition,
    RunQuery,
    RunRow,
)
from penstock.runtime.semaphores import FairSemaphore

__all__ = [
    "Committed",
    "LiveRun",
    "Moved",
    "RunHost",
    "RunInputs",
    "RunReader",
    "RunSnapshot",
    "Wanted",
    "WorkflowReader",
    "WorkflowRegistry",
]


class RunSnapshot(Protocol):
    """A run as it is stored: what the performer of an effect may know about it, on any host."""

    @property
    def workflow(self) -> Workflow:
        """The definition that the run is pinned to."""

    @property
    def state(self) -> RunState:
        """The state that its history leads to."""

    @property
    def row(self) -> RunRow:
        """Its row in the index."""


@dataclass(slots=True, eq=False)
class LiveRun:
    """A run in memory: its stored state, which the host keeps current, and the tasks that use it."""

    workflow: Workflow
    state: RunState
    row: RunRow
    lock: FairSemaphore = field(default_factory=FairSemaphore)  # one transition at a time
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    deferred: set[str] = field(default_factory=set)  # effects performed here whose outcome comes from elsewhere
    finished: set[str] = field(default_factory=set)  # effects of an ended run that need not be performed again
    users: int = 0


class Committed(msgspec.Struct, frozen=True):
    """What was just stored, for dispatching, watching and counting."""

    live: LiveRun
    page: Page
    effects: tuple[Effect, ...]
    given: Input | None = None
    """The input that led to it. If it is the very object that was sent, the driver saves a task; a copy works too."""

    @property
    def records(self) -> tuple[Record, ...]:
        """The records that were stored."""
        return records_of(self.page)

    def record(self, number: int) -> Record:
        """Return one of the records, counted from 0, without building the others of a move."""
        return self.page.record(number) if isinstance(self.page, Move) else self.page[number]

    def seq(self, number: int) -> int:
        """Return the sequence number of one of the records, without building it."""
        return self.page.first_seq + number if isinstance(self.page, Move) else self.page[number].seq

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the records, without building them."""
        return names_of(self.page)


Moved: TypeAlias = "asyncio.Future[RunState | None]"
"""Done when a run has moved: with its state if this process moved it, with None if another did or the run is gone."""

Wanted: TypeAlias = "Callable[[RunState], bool]"


class RunReader(Protocol):
    """Reading runs and waiting for them. Nothing here gives a run an input."""

    async def read(self, run_id: str) -> RunState | None:
        """Return the state of a run as stored."""

    async def history(self, run_id: str, *, after_seq: int = 0, limit: int = 1_000) -> tuple[Record, ...]:
        """Return records of a run."""

    async def row(self, run_id: str) -> RunRow | None:
        """Return the index row of a run."""

    async def positions(self, run_ids: Sequence[str]) -> Mapping[str, RunPosition]:
        """Return the positions of some runs, in one read; runs that do not exist are omitted."""

    async def list_runs(self, query: RunQuery) -> RunPage:
        """Return runs by filter, from an index."""

    async def newest(self, run_id: str) -> str:
        """Return the id of the last run of a chain, often the run itself.

        If a history says that another run continues it and that run is not started yet, the host starts it now.
        """

    async def wait(self, run_id: str, *, after_seq: int, timeout_seconds: float) -> RunState | None:
        """Wait until a run has moved past a sequence number, or until the timeout; return its state if it exists."""

    def watched(self, run_id: str, *, after_seq: int, wanted: Wanted | None = None) -> AbstractContextManager[Moved]:
        """Like `wait`, for callers that read and wait themselves: enter, check whether the run has moved, else wait.

        A state that is stored here and is not `wanted` need not wake them.
        """

    async def wait_for_end(self, run_id: str, *, timeout_seconds: float) -> RunState | None:
        """Wait until the last run of a chain has ended, or until the timeout; return its state if it exists."""

    def stop_waiting(self) -> None:
        """End all waits for the end of a run: for a server that stops."""


class RunInputs(Protocol):
    """Everything that moves runs: starts, answers, results, signals, timers and requests are all inputs."""

    async def start(
        self,
        given: StartRun,
        *,
        workflow_hash: str,
        labels: dict[str, str] | None = None,
        tenant: str | None = None,
        call: CallRecord | None = None,
    ) -> Decision:
        """Start a run; accepted only after it is durable. Without a tenant, `given` names the tenant.

        `call` is the record of the call that starts it, stored with the run: both or neither.
        """

    async def send(
        self, run_id: str, given: Input, *, tenant: str | None = None, call: CallRecord | None = None
    ) -> Decision:
        """Give a run an input; accepted only after it is durable. A run of another tenant counts as unknown.

        Inputs for a run as a whole go to the last run of its chain. `call` is the record of the call that sends the
        input, stored with what the run decides; if the run decides nothing, it is not stored.
        """

    async def adopt(
        self,
        state: RunState,
        records: tuple[Record, ...],
        *,
        labels: dict[str, str] | None = None,
        call: CallRecord | None = None,
    ) -> Refused | None:
        """Store a history from elsewhere (a fork, an import) as a new run, and continue it."""


class WorkflowReader(Protocol):
    """Definitions as runs use them: compiled."""

    async def workflow(self, definition_hash: str, *, tenant: str | None = None) -> Workflow | None:
        """Return a compiled definition by hash; with a tenant, only if that tenant has stored it."""

    async def workflow_named(self, name: str, *, tenant: str = DEFAULT_TENANT) -> Workflow | None:
        """Return the newest definition of a tenant's workflow name."""


class WorkflowRegistry(Protocol):
    """Making definitions known to the host."""

    async def register(
        self,
        workflow: Workflow,
        *,
        tenant: str = DEFAULT_TENANT,
        created_by: str | None = None,
        author: Author | None = None,
        expected_hash: str | AnyHash | None = ANY,
        call: Callable[[DefinitionRow], CallRecord | None] = lambda row: None,
    ) -> DefinitionOutcome:
        """Store a definition: new runs of its name use it, existing runs keep theirs.

        With `expected_hash`, only if that is the newest of the name now; None: only if the name is free. `call` returns
        the record of the call that stores it; `author` is who wrote the version, if somebody else than the program did.
        """


class RunHost(RunReader, RunInputs, WorkflowReader, WorkflowRegistry, Protocol):
    """A host of runs. Beside its promises it offers what its process has: a clock, evaluators, progress."""

    @property
    def clock(self) -> Clock:
        """The clock whose time inputs carry."""

    @property
    def evaluator(self) -> Evaluator:
        """Evaluates the expressions of documents."""

    @property
    def progress(self) -> ProgressBroadcast:
        """The live progress of activities, as far as this process receives it."""

    async def violations(self, schema: CompiledSchema, value: JsonValue, *, tenant: str) -> tuple[Violation, ...]:
        """Return every violation of a tenant's schema by a value."""

    async def evaluate_for(self, caller: str, expression: Expression, root: JsonValue) -> Evaluated | EvaluationFailed:
        """Evaluate a caller's query. It may take long; runs in progress do not wait for it."""

    async def fold(self, records: Sequence[Record]) -> RunState:
        """Fold a history without blocking the event loop."""

    def follow_authors(self, rules: AuthorshipRules) -> None:
        """Start no version from now on that has to be accepted by these rules, and is not."""
