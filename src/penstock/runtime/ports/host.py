"""The host port: what everybody may ask of whatever hosts the runs.

The pure engine is hosted, it does not host. A host makes four promises, and everything else is built on these:

1. **One transition of a run at a time.** An input is decided on the run as it is stored, and the records, the index row
   and the effects that follow from them are stored in one piece or not at all (`RunInputs`).
2. **Effects are performed at least once**, and their outcomes come back as inputs. An outcome that comes twice counts
   once, because it names its node, visit and attempt.
3. **Timers are durable**: what a history waits for is fired after a restart too, if late.
4. **Read and wait** (`RunReader`): what was acknowledged is read from then on, and waiting costs no polling.

`RunHost` is what operations, schedules, the control plane, the delivery of events and `Run` are written against.
`EffectHost` is what the driver is written against. Only hosts that leave promises 2 and 3 to our driver have it: those
whose runs lie in a `RunStore` that several processes share by leases. A host on top of another engine performs effects
by `effects` and an `AsyncPerformer` instead, and fires timers as that engine does.

**How to add a host.** One on PostgreSQL: implement `ports.RunStore` with `claim`, `set_work` and `heartbeat` as single
statements, and hand it to the embedded host; `tests/conformance/test_stores.py` says what is missing. One on a
distributed engine: implement `RunHost`, with one keyed object per run that takes inputs in turn (load, `decide`,
append; no other I/O), a service without a key for effects, delayed messages for timers, and a projector that keeps the
rows and records where `row`, `list_runs` and `history` find them. `tests/conformance/mailbox_host.py` is such a host in
small. Either is done when `tests/conformance/test_hosts.py` passes with it.

Above it: all who use runs. Below it: `ports` for the rows, the engine for inputs and state. `app` chooses the host, and
nobody else knows which it is; no notion of an engine below a host shows through here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import msgspec

from penstock.base import limits
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
from penstock.runtime.activities.progress import ProgressBroadcast
from penstock.runtime.ports.commits import Commit
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.runs import (
    ANY,
    AnyHash,
    AppendOutcome,
    DefinitionOutcome,
    DefinitionRow,
    RunPage,
    RunPosition,
    RunQuery,
    RunRow,
    StoredRun,
    WorkStore,
)
from penstock.runtime.semaphores import FairSemaphore

__all__ = [
    "Committed",
    "EffectHost",
    "LiveRun",
    "Moved",
    "RunHost",
    "RunInputs",
    "RunReader",
    "RunSnapshot",
    "Transcript",
    "Wanted",
    "WorkflowReader",
    "WorkflowRegistry",
]


class RunSnapshot(Protocol):
    """A run as it is stored: what may be known of it by whoever performs an effect of it, on any host."""

    @property
    def workflow(self) -> Workflow:
        """The definition that the run is pinned to."""

    @property
    def state(self) -> RunState:
        """What its history amounts to."""

    @property
    def row(self) -> RunRow:
        """How it stands in the index."""


@dataclass(slots=True, eq=False)
class LiveRun:
    """A run in memory: its state as stored, which the host keeps current, and who is busy with it."""

    workflow: Workflow
    state: RunState
    row: RunRow
    lock: FairSemaphore = field(default_factory=FairSemaphore)  # one transition at a time
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    deferred: set[str] = field(default_factory=set)  # effects done here whose outcome comes from elsewhere
    finished: set[str] = field(default_factory=set)  # effects of an ended run that need not be done again
    users: int = 0


class Committed(msgspec.Struct, frozen=True):
    """What was just stored, for whoever dispatches, watches or counts."""

    live: LiveRun
    page: Page
    effects: tuple[Effect, ...]
    given: Input | None = None
    """What led to it. Where it is the very object that was sent, the driver spares a task; a copy does as well."""

    @property
    def records(self) -> tuple[Record, ...]:
        """The records that were stored."""
        return records_of(self.page)

    def record(self, number: int) -> Record:
        """One of them, counted from 0; the others of a move are not made for that."""
        return self.page.record(number) if isinstance(self.page, Move) else self.page[number]

    def seq(self, number: int) -> int:
        """The sequence number of one of them, which is not made for that."""
        return self.page.first_seq + number if isinstance(self.page, Move) else self.page[number].seq

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the records, which are not made for that."""
        return names_of(self.page)


Moved: TypeAlias = "asyncio.Future[RunState | None]"
"""Done when a run has moved: with its state if that was here, with None if it was elsewhere or the run is gone."""

Wanted: TypeAlias = "Callable[[RunState], bool]"


class Transcript:
    """The pages of one run from its first record on, as far as they were stored here, and a bounded number of them."""

    __slots__ = ("_pages", "_row", "_seq")

    def __init__(self) -> None:
        self._pages: list[Page] = []
        self._row: RunRow | None = None
        self._seq = 0

    def take(self, page: Page, row: RunRow) -> None:
        """Note what was stored; `row` is how the run stands since."""
        first, last = _range(page)
        if first != self._seq + 1 or last > limits.FOLDED_AT_ONCE:
            self._pages, self._row, self._seq = [], None, limits.FOLDED_AT_ONCE
            return
        self._pages.append(page)
        self._row, self._seq = row, last

    def stored(self, seq: int) -> StoredRun | None:
        """The run with its whole history up to a record; None if not all of that is here."""
        if self._row is None or self._seq != seq:
            return None
        records: list[Record] = []
        for page in self._pages:
            records += records_of(page)
        return StoredRun(self._row, tuple(records))


def _range(page: Page) -> tuple[int, int]:
    if isinstance(page, Move):
        return page.first_seq, page.last_seq
    return (page[0].seq, page[-1].seq) if page else (0, 0)


class RunReader(Protocol):
    """Reading runs and waiting for them. Nothing here gives a run an input."""

    async def read(self, run_id: str) -> RunState | None:
        """The state of a run as stored."""

    async def history(self, run_id: str, *, after_seq: int = 0, limit: int = 1_000) -> tuple[Record, ...]:
        """Records of a run."""

    async def row(self, run_id: str) -> RunRow | None:
        """The index row of a run."""

    async def positions(self, run_ids: Sequence[str]) -> Mapping[str, RunPosition]:
        """How far some runs are, in one read; those that do not exist are left out."""

    async def list_runs(self, query: RunQuery) -> RunPage:
        """Runs by filter, from an index."""

    async def newest(self, run_id: str) -> str:
        """The id of the last run of a chain, often the run itself.

        Where a history says that another run goes on and nobody has started that yet, the host does it now.
        """

    async def wait(self, run_id: str, *, after_seq: int, timeout_seconds: float) -> RunState | None:
        """The state of a run once it has moved past a sequence number, or when time is up; None without such a run."""

    def watched(self, run_id: str, *, after_seq: int, wanted: Wanted | None = None) -> AbstractContextManager[Moved]:
        """As `wait`, for those who read and wait themselves: enter, look whether the run has moved, else wait.

        A state that is stored here and is not `wanted` need not wake them.
        """

    async def watched_state(self, run_id: str) -> RunState | None:
        """The state of a run for those who watch it: what is being stored just now may be missing in it."""

    def transcribed(self, run_id: str) -> AbstractContextManager[Transcript]:
        """What this process stores of a run meanwhile, for those who are about to start it and wait for its end.

        A host that does not see that gives one that stays empty: its callers then read the history.
        """

    async def wait_for_end(self, run_id: str, *, timeout_seconds: float) -> RunState | None:
        """The state of the last run of a chain once it has ended, or when time is up; None without such a run."""

    async def next_commit(self, *, timeout_seconds: float) -> None:
        """Wait for any commit of this process, or until time is up."""

    def stop_waiting(self) -> None:
        """Let nobody wait for the end of a run any more; for a server that stops."""


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
        """Start a run; accepted only after it is durable. Without a tenant it is in the one that `given` names.

        `call` is what the call that starts it leaves behind: stored with the run, both or neither.
        """

    async def send(
        self, run_id: str, given: Input, *, tenant: str | None = None, call: CallRecord | None = None
    ) -> Decision:
        """Give a run an input; accepted only after it is durable. A run of another tenant than given is unknown.

        What is meant for a run as a whole goes to the last run of its chain. `call` is what the call that gives it
        leaves behind, stored with what the run decides; a run that decides nothing stores nothing.
        """

    async def adopt(
        self,
        state: RunState,
        records: tuple[Record, ...],
        *,
        labels: dict[str, str] | None = None,
        call: CallRecord | None = None,
    ) -> Refused | None:
        """Store a history that was made elsewhere (a fork, an import) as a run of its own, and go on with it."""


class WorkflowReader(Protocol):
    """Definitions as runs use them: compiled."""

    async def workflow(self, definition_hash: str, *, tenant: str | None = None) -> Workflow | None:
        """A compiled definition by hash; with a tenant only if that one has put it."""

    async def workflow_named(self, name: str, *, tenant: str = DEFAULT_TENANT) -> Workflow | None:
        """The newest definition of a tenant's name."""


class WorkflowRegistry(Protocol):
    """Making definitions known to the host."""

    async def register(
        self,
        workflow: Workflow,
        *,
        tenant: str = DEFAULT_TENANT,
        created_by: str | None = None,
        expected_hash: str | AnyHash | None = ANY,
        call: Callable[[DefinitionRow], CallRecord | None] = lambda row: None,
    ) -> DefinitionOutcome:
        """Keep a definition: new runs of its name get it, running ones stay with theirs.

        With `expected_hash` only if that is the newest of the name now; None: only if the name is free. `call` is what
        the call that keeps it leaves behind.
        """


class RunHost(RunReader, RunInputs, WorkflowReader, WorkflowRegistry, Protocol):
    """A host of runs. Beside its promises it lends what the process around it has: a clock, evaluators, news."""

    @property
    def clock(self) -> Clock:
        """The time that inputs carry."""

    @property
    def evaluator(self) -> Evaluator:
        """Evaluates what documents say."""

    @property
    def progress(self) -> ProgressBroadcast:
        """What activities say while they are under way, as far as it is heard in this process."""

    async def violations(self, schema: CompiledSchema, value: JsonValue, *, tenant: str) -> tuple[Violation, ...]:
        """Every way in which a value does not fit a schema that a tenant wrote."""

    async def evaluate_for(self, caller: str, expression: Expression, root: JsonValue) -> Evaluated | EvaluationFailed:
        """Evaluate what somebody asks: it may take its time, and the runs that go on do not wait for it."""

    async def fold(self, records: Sequence[Record]) -> RunState:
        """The state that a history leads to, without keeping everybody else waiting."""


class EffectHost(RunHost, Protocol):
    """A host that leaves effects and timers to a driver in this process, and tells it of every commit."""

    worker_id: str
    """The name under which this process owns runs; another one after it was struck off."""

    @property
    def root_run_id(self) -> str | None:
        """The id of a run, if only that one and its child runs are performed here."""

    @property
    def store(self) -> WorkStore:
        """Who does the work of which run, and when the next timer is due."""

    def subscribe(self, listener: Callable[[Committed], None] | None) -> None:
        """Tell somebody of each commit here, before whoever waits for it goes on; it must not block. None: nobody."""

    async def live(self, run_id: str) -> LiveRun | None:
        """A run in memory, loaded if need be."""

    def live_runs(self) -> list[LiveRun]:
        """The runs in memory: at least those that have tasks, effects whose outcome is awaited, or users."""

    async def reloaded(self, run_id: str) -> LiveRun | None:
        """A run as it is stored now, whatever was in memory."""

    def due(self, live: LiveRun, *, at: int | None = None) -> list[Effect]:
        """What is to be done for a run now, or at a moment."""

    def try_move(self, live: LiveRun, given: Input, /) -> Commit[AppendOutcome] | None:
        """As `send`, where nothing but the disk has to be waited for; None, and nothing done, where that is not so.

        Another outcome than `Appended`, or an error, changed nothing. `send` takes the input in each of these cases.
        """

    def may_perform(self, run_id: str) -> bool:
        """Whether the work of a run may be done here."""

    async def release(self, live: LiveRun) -> None:
        """Note that an ended run needs nobody any more."""
