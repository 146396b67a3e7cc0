"""The embedded host: runs in this process, on any store, with no separate engine.

Every transition takes one path: load the run, `decide`, store the records with the index row in one transaction, and
only then notify waiters and dispatch what `pending` says is due. A restart does the same: it claims runs with work,
loads them, and dispatches what is due. Several processes may share a store: a decision made on an outdated state is not
stored but made again, and work is done by the process that owns the run. A waiting run costs neither a task nor a
thread.

It is one implementation of `ports.host`, which only `app` names and chooses.

Above it: `app`; the driver, through the port. Below it: a `RunStore`, the pure engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock.base.errors import CorruptHistory, Rejected
from penstock.base.ids import in_run_tree
from penstock.base.json import JsonValue
from penstock.base.lazy_import import lazy_import
from penstock.definitions.jq.expressions import Evaluated, EvaluationFailed, Evaluator, Expression, InProcessEvaluator
from penstock.definitions.schemas.compiled import CompiledSchema, Violation
from penstock.engine.approved import with_authors
from penstock.engine.effects import Effect
from penstock.engine.inputs import FORWARDED_TO_SUCCESSOR, ContinueRun, Input, StartRun
from penstock.engine.outcomes import Accepted, Decision, Refused
from penstock.engine.pages import Page
from penstock.engine.pending import effects_of, pending
from penstock.engine.records import Record
from penstock.engine.state import RunState
from penstock.runtime.activities.progress import ProgressBroadcast
from penstock.runtime.chains import latest_in_chain, start_successor
from penstock.runtime.host.deciding import Decider, SlicedFold
from penstock.runtime.host.definitions import StoredWorkflows
from penstock.runtime.host.live_runs import EndedRuns, LiveRuns
from penstock.runtime.host.waiters import RunWatch, Transcripts
from penstock.runtime.host.writes import FastPath, first_row, first_write, next_write, usage_of
from penstock.runtime.ports.commits import Commit, commit_of, in_this_context
from penstock.runtime.ports.host import Committed, LiveRun, Moved, Wanted
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.run_memory import Transcript
from penstock.runtime.ports.runs import (
    Appended,
    AppendOutcome,
    RunPage,
    RunPosition,
    RunQuery,
    RunRow,
    RunWrite,
)
from penstock.runtime.sandbox.threads import FairThreadPool
from penstock.runtime.secrets import AnswerSeals, Sealer
from penstock.runtime.shared_timeouts import moved_within
from penstock.runtime.tables.runs.store import RunStore

if TYPE_CHECKING:
    from penstock.definitions.build import workflow as build
else:
    build = lazy_import("penstock.definitions.build.workflow")

__all__ = ["EmbeddedHost"]

_NOTHING = RunState()  # the state of a run before it starts


def _no_listener(committed: Committed) -> None:
    """Ignore a commit: the default when there is no listener."""


@dataclass(slots=True, kw_only=True)
class EmbeddedHost(StoredWorkflows):
    """Transitions on a store. `worker_id` names this process among those that share the store."""

    store: RunStore
    worker_id: str
    evaluator: Evaluator = field(default_factory=InProcessEvaluator)
    query_evaluator: Evaluator | None = None  # for queries about runs, separate from the one that runs use
    query_threads: FairThreadPool = field(default_factory=lambda: FairThreadPool.for_workers("penstock-queries"))
    folding: SlicedFold = field(default_factory=SlicedFold)
    performs: bool = True
    root_run_id: str | None = None  # if set, only this run, its child runs and what these call are performed here
    seals: Sealer = field(default_factory=AnswerSeals)  # for the secret parts of answers
    on_commit: Callable[[Committed], None] = _no_listener
    _called: set[str] = field(default_factory=set)  # runs outside the tree of that run, which it waits for
    _live: LiveRuns = field(default_factory=LiveRuns)
    _ended: EndedRuns = field(default_factory=EndedRuns)
    _loading: dict[str, asyncio.Task[LiveRun | None]] = field(default_factory=dict)
    _outdated: set[str] = field(default_factory=set)  # runs that moved while they were being loaded
    _transcripts: Transcripts = field(default_factory=Transcripts)
    _watch: RunWatch = field(init=False)
    _decider: Decider = field(init=False)
    try_move: Callable[[LiveRun, Input], Commit[AppendOutcome] | None] = field(init=False)  # see `writes.FastPath`
    progress: ProgressBroadcast = field(init=False)  # live progress of activities

    def __post_init__(self) -> None:
        self.progress = ProgressBroadcast(self.clock)
        self._watch = RunWatch(store=self.store)
        self._decider = Decider(self.evaluator, self.seals)
        self.try_move = FastPath(self._decider, self.store, self._moved).try_move

    # --- evaluation ------------------------------------------------------------------------------

    async def violations(self, schema: CompiledSchema, value: JsonValue, *, tenant: str) -> tuple[Violation, ...]:
        """Return every violation of a tenant's schema by a value."""
        return await self._decider.violations(schema, value, tenant=tenant)

    async def evaluate_for(self, caller: str, expression: Expression, root: JsonValue) -> Evaluated | EvaluationFailed:
        """Evaluate a caller's query. It may take long; runs in progress do not wait for it."""
        evaluator = self.query_evaluator or self.evaluator
        return await self.query_threads.run(caller, evaluator.evaluate, expression, root)

    async def fold(self, records: Sequence[Record]) -> RunState:
        """Fold a history without blocking the event loop."""
        return await self.folding.fold(records)

    # --- transitions -----------------------------------------------------------------------------

    async def start(
        self,
        given: StartRun,
        *,
        workflow_hash: str,
        labels: dict[str, str] | None = None,
        tenant: str | None = None,
        call: CallRecord | None = None,
    ) -> Decision:
        """Start a run; accepted only after it is durable. Without a tenant, `given` names the tenant."""
        if tenant is not None:
            given = replace(given, tenant=tenant)
        workflow = await self.workflow(workflow_hash)
        if workflow is None:
            return Refused("WORKFLOW_NOT_FOUND", f"there is no definition {workflow_hash[:12]}")
        if (refused := await self.start_refusal(workflow, given.tenant, labels)) is not None:
            return refused
        if behind := self.agents_behind(workflow, given.tenant):
            given = replace(given, starter=with_authors(given.starter, behind))
        decision = self._decider.try_decide(workflow, _NOTHING, given)
        decision = decision or await self._decider.decide(workflow, _NOTHING, given)
        if isinstance(decision, Refused):
            return decision
        effects = effects_of(workflow, decision, given.at)
        owner = self._owner_of(given.run_id)
        labels = self.with_author(labels, workflow, given.tenant)
        row = first_row(decision.state, effects, created_at=given.at, labels=labels, owner=owner)
        begun = LiveRun(workflow, decision.state, row)
        write = first_write(row, decision, call)
        if not await self._append(write, partial(self._begun, begun, decision.page, effects)):
            return Refused("DUPLICATE_EXECUTION_ID", f"run {given.run_id} already exists")
        return decision

    async def send(
        self, run_id: str, given: Input, *, tenant: str | None = None, call: CallRecord | None = None
    ) -> Decision:
        """Give a run an input; accepted only after it is durable. A run of another tenant counts as unknown.

        Inputs for a run as a whole go to the last run of its chain.
        """
        live = self._live.used(run_id) or await self.live(run_id)
        if live is None or tenant not in (None, live.state.tenant):
            return Refused("EXECUTION_NOT_FOUND", f"there is no run {run_id}")
        live.users += 1
        try:
            if not live.lock.try_acquire():
                await live.lock.acquire()
            try:
                decision = await self._transition(live, given, call)
            finally:
                live.lock.release()
        finally:
            live.users -= 1
        if (
            isinstance(decision, Refused)
            and live.state.continued_as is not None
            and isinstance(given, FORWARDED_TO_SUCCESSOR)
        ):
            return await self.send(await self.newest(run_id), given, tenant=tenant, call=call)
        return decision

    async def newest(self, run_id: str) -> str:
        """Return the id of the last run of a chain. A successor that is due and not yet started is started here."""
        run_id = await latest_in_chain(self.store, run_id) or run_id
        live = await self.live(run_id)
        if live is None or live.state.continued_as is None:
            return run_id
        await start_successor(self, live)
        return live.state.continued_as

    async def _transition(self, live: LiveRun, given: Input, call: CallRecord | None) -> Decision:
        while True:
            decision = self._decider.try_decide(live.workflow, live.state, given)
            decision = decision or await self._decider.decide(live.workflow, live.state, given)
            if isinstance(decision, Refused) and await self._is_outdated(live):
                await self._reload(live)
                continue
            if isinstance(decision, Refused) or not decision.page:
                return decision
            effects = effects_of(live.workflow, decision, given.at) if decision.effects is None else decision.effects
            row = live.row
            owner = row.owner if row.has_work and row.owner is not None else self._owner_of(row.run_id)
            write = next_write(row, live.state.seq, decision, effects, owner=owner, call=call)
            used = usage_of(row, live.state, given)
            if used is not None:
                write = replace(write, usage=used)
            commit = commit_of(self.store.append(write))
            settled = partial(self._settled, live, replace(decision, effects=effects), write, given)
            commit.and_then(in_this_context(settled))
            if isinstance(await commit, Appended):
                return decision
            await self._reload(live)

    async def _append(self, write: RunWrite, follow: Callable[[], None]) -> bool:
        """Store a decision and call `follow`; return False if the decision was made on an outdated state.

        Both happen together: a caller that is cancelled meanwhile notices only when both are done.
        """

        def settled(outcome: AppendOutcome | None) -> None:
            if isinstance(outcome, Appended):
                write.committed()
                follow()

        commit = commit_of(self.store.append(write))
        commit.and_then(in_this_context(settled))
        return isinstance(await commit, Appended)

    def _settled(
        self, live: LiveRun, decision: Accepted, write: RunWrite, given: Input, outcome: AppendOutcome | None
    ) -> None:
        if isinstance(outcome, Appended):
            self._moved(live, decision, write, given)

    def _moved(self, live: LiveRun, decision: Accepted, write: RunWrite, given: Input) -> None:
        """Apply a decision that was stored with its effects."""
        if write.call is not None:
            write.committed()
        live.state, live.row = decision.state, write.row
        self._committed(Committed(live, decision.page, decision.effects or (), given))

    def subscribe(self, listener: Callable[[Committed], None] | None) -> None:
        """Call a listener with each commit of this process, before its waiters continue; it must not block.

        None removes it.
        """
        self.on_commit = listener or _no_listener

    def due(self, live: LiveRun, *, at: int | None = None) -> list[Effect]:
        """Return the effects of a run that are due now, or at a given time.

        The history of an ended run takes no more records, so no record can say that a child was cancelled. The index
        says it, and then nothing is due any more.
        """
        if live.state.terminal and not live.row.has_work:
            return []
        return pending(live.workflow, live.state, self.clock.now_ms() if at is None else at)

    async def release(self, live: LiveRun) -> None:
        """Note that an ended run has no work left."""
        await self.store.set_work(live.state.run_id, has_work=False, owner=None, expected_epoch=live.row.epoch)
        live.row = replace(live.row, has_work=False, owner=None)
        live.deferred.clear()
        if not live.tasks and not live.users:
            self._live.drop(live.state.run_id)

    async def _is_outdated(self, live: LiveRun) -> bool:
        """Whether another process moved the run, so that an input refused here may be valid by now."""
        row = await self.store.row(live.state.run_id)
        return row is not None and row.seq != live.state.seq

    def may_perform(self, run_id: str) -> bool:
        """Whether the work of a run may be performed here."""
        return self.performs and (self.root_run_id is None or any(in_run_tree(run_id, root) for root in self.roots))

    @property
    def roots(self) -> tuple[str | None, ...]:
        """The runs that are performed here, with their child runs; None stands for every run."""
        return (self.root_run_id, *self._called)

    def perform_also(self, run_id: str) -> None:
        """Perform a run that another run here waits for, even if this process performs only some runs."""
        if self.root_run_id is not None:
            self._called.add(run_id)

    def _owner_of(self, run_id: str) -> str | None:
        """Return who performs the work of a run without an owner: this process, if it may."""
        return self.worker_id if self.may_perform(run_id) else None

    def _committed(self, committed: Committed) -> None:
        live = committed.live
        if self._loading and live.state.run_id in self._loading:
            self._outdated.add(live.state.run_id)
        if self._transcripts.taken:
            self._transcripts.committed(committed)
        self._watch.committed(live.state)
        self.on_commit(committed)
        if live.row.terminal and not live.tasks:
            self._live.drop(live.row.run_id)
            self._ended.keep(live.state)
        else:
            self._live.note(live)

    async def adopt(
        self,
        state: RunState,
        records: tuple[Record, ...],
        *,
        labels: dict[str, str] | None = None,
        call: CallRecord | None = None,
    ) -> Refused | None:
        """Store a history from elsewhere (a fork, an import) as a new run, and continue it."""
        workflow = await self.workflow(state.definition_hash)
        if workflow is None:
            return Refused("WORKFLOW_NOT_FOUND", f"there is no definition {state.definition_hash[:12]}")
        if (refused := await self.start_refusal(workflow, state.tenant, labels)) is not None:
            return refused
        at = self.clock.now_ms()
        # Stored in the same transaction: a crash in between would leave a run that no process continues.
        decision = await self._decider.decide(workflow, state, ContinueRun(at=at))
        if isinstance(decision, Refused):
            return decision
        effects = effects_of(workflow, decision, at)
        owner = self._owner_of(state.run_id)
        labels = self.with_author(labels, workflow, state.tenant)
        row = first_row(decision.state, effects, created_at=at, labels=labels, owner=owner)
        whole = Accepted((*records, *decision.records), decision.state)
        write = first_write(row, whole, call)
        begun = LiveRun(workflow, decision.state, row)
        if not await self._append(write, partial(self._begun, begun, write.records, effects)):
            return Refused("DUPLICATE_EXECUTION_ID", f"run {state.run_id} exists already")
        return None

    # --- runs in memory --------------------------------------------------------------------------

    async def live(self, run_id: str) -> LiveRun | None:
        """Return a run in memory, loading it if needed; concurrent callers share one load."""
        if (live := self._live.used(run_id)) is not None:
            return live
        loading = self._loading.get(run_id)
        if loading is None:
            loading = self._loading[run_id] = asyncio.ensure_future(self._load(run_id))
            loading.add_done_callback(lambda _: self._loaded(run_id))
        return await asyncio.shield(loading)

    def _loaded(self, run_id: str) -> None:
        self._loading.pop(run_id, None)
        self._outdated.discard(run_id)

    async def _load(self, run_id: str) -> LiveRun | None:
        while True:
            stored = await self.store.load(run_id)
            state = None if stored is None else await self.folding.fold(stored.records)
            if run_id not in self._outdated:
                break
            self._outdated.discard(run_id)  # it moved while it was read, and may have been evicted since
        if stored is None or state is None:
            return None
        try:
            workflow = await self.workflow(stored.row.definition_hash)
        except Rejected as error:
            raise CorruptHistory("DEFINITION_CHANGED", error.message, "restore a backup that has it") from error
        if workflow is None:
            message = f"the definition {stored.row.definition_hash[:12]} of run {run_id} is not in the store"
            raise CorruptHistory("DEFINITION_MISSING", message, "restore a backup that has it")
        return self._live.keep(LiveRun(workflow, state, stored.row))

    async def reloaded(self, run_id: str) -> LiveRun | None:
        """Return a run as stored now, ignoring the state in memory."""
        live = self._live.get(run_id)
        if live is None:
            return await self.live(run_id)
        async with live.lock:
            await self._reload(live)
        return live

    async def _reload(self, live: LiveRun) -> None:
        """Load the stored state after another process moved the run."""
        stored = await self.store.load(live.state.run_id)
        if stored is None:
            raise CorruptHistory("RUN_VANISHED", f"run {live.state.run_id} is no longer in the store")
        live.state, live.row = await self.folding.fold(stored.records), stored.row

    def live_runs(self) -> list[LiveRun]:
        """Return the runs in memory."""
        return list(self._live.values())

    def _begun(self, begun: LiveRun, page: Page, effects: tuple[Effect, ...]) -> None:
        """Register a run that was stored for the first time."""
        live = self._live.keep(begun)
        if live.state.seq != begun.state.seq:
            effects = tuple(self.due(live))
        self._committed(Committed(live, page, effects))

    # --- reading and waiting ---------------------------------------------------------------------

    async def read(self, run_id: str) -> RunState | None:
        """Return the state of a run as stored."""
        live = self._live.get(run_id)
        # During a transition, its records may already be stored while its state is not yet known here.
        if live is not None and self._owns(live) and not live.lock.locked():
            return live.state
        if run_id in self._ended and (ended := self._ended.still(run_id, await self.store.row(run_id))) is not None:
            return ended
        stored = await self.store.load(run_id)
        return None if stored is None else await self.folding.fold(stored.records)

    def _owns(self, live: LiveRun) -> bool:
        return self.performs and live.row.owner == self.worker_id

    def known_state(self, row: RunRow) -> RunState | None:
        """Return the state of a run if it is in memory as an index row of now says."""
        return self._live.state_at(row) or self._ended.still(row.run_id, row)

    async def watched_state(self, run_id: str) -> RunState | None:
        """Return the state of a run for watchers: the last commit of this process, without reading the store.

        A commit in progress may be missing from it. A watcher of the run is notified of that commit shortly.
        """
        live = self._live.get(run_id)
        return live.state if live is not None and self._owns(live) else await self.read(run_id)

    async def history(self, run_id: str, *, after_seq: int = 0, limit: int = 1_000) -> tuple[Record, ...]:
        """Return records of a run."""
        return await self.store.history(run_id, after_seq=after_seq, limit=limit)

    async def row(self, run_id: str) -> RunRow | None:
        """Return the index row of a run."""
        return await self.store.row(run_id)

    async def positions(self, run_ids: Sequence[str]) -> Mapping[str, RunPosition]:
        """Return the positions of some runs, in one read; runs that do not exist are omitted."""
        return await self.store.positions(run_ids)

    async def list_runs(self, query: RunQuery) -> RunPage:
        """Return runs by filter, from an index."""
        return await self.store.list_runs(query)

    async def wait(self, run_id: str, *, after_seq: int, timeout_seconds: float) -> RunState | None:
        """Wait until a run has moved past a sequence number, or until the timeout; return its state if it exists."""
        with self._watch.entered(run_id, after_seq=after_seq) as moved:
            live = self._live.get(run_id)
            if live is not None and self._owns(live) and live.state.seq > after_seq:
                return live.state
            row = await self.store.row(run_id)
            if row is None:
                return None
            state = await self.read(run_id) if row.seq > after_seq or row.terminal else None
            if state is not None and (state.seq > after_seq or state.terminal):
                return state
            # A commit made just now may not have reached the state in memory; its transition finishes shortly.
            await moved_within(moved, timeout_seconds)
        state = moved.result() if moved.done() else None
        return state or await self.read(run_id)

    def watched(self, run_id: str, *, after_seq: int, wanted: Wanted | None = None) -> AbstractContextManager[Moved]:
        """Like `wait`, for callers that read and wait themselves: enter, check whether the run has moved, else wait.

        A state that is stored here and is not `wanted` does not wake them.
        """
        if wanted is None:
            return self._watch.entered(run_id, after_seq=after_seq)
        return self._watch.entered(run_id, after_seq=after_seq, wanted=wanted)

    def transcribed(self, run_id: str) -> AbstractContextManager[Transcript]:
        """Collect what this process stores of a run: for callers about to start it and wait for its end."""
        return self._transcripts.of(run_id)

    async def wait_for_end(self, run_id: str, *, timeout_seconds: float) -> RunState | None:
        """Wait until the last run of a chain has ended, or until the timeout; return its state, or None if unknown."""
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        state = await self._wait_for_one(run_id, deadline)
        while state is not None and state.continued_as is not None and asyncio.get_running_loop().time() < deadline:
            later = await latest_in_chain(self.store, state.run_id) or state.continued_as
            # A successor that does not exist yet is about to be started by the owner of its predecessor.
            state = await self._wait_for_one(later, deadline) or await self._soon(state, later, deadline)
        return state

    async def _soon(self, ended: RunState, successor: str, deadline: float) -> RunState:
        with self._watch.entered(successor, after_seq=0) as begun:
            await asyncio.wait((begun,), timeout=deadline - asyncio.get_running_loop().time())
        return ended

    async def _wait_for_one(self, run_id: str, deadline: float) -> RunState | None:
        with self._watch.entered(run_id, after_seq=None) as ended:
            live = self._live.get(run_id)
            state = live.state if live is not None and self._owns(live) else await self.read(run_id)
            if state is None or state.terminal:
                return state
            await moved_within(ended, deadline - asyncio.get_running_loop().time())
        found = ended.result() if ended.done() else None
        return found or await self.read(run_id)

    def stop_waiting(self) -> None:
        """End all waits for the end of a run: for a server that stops."""
        self._watch.stop_waiting()

    async def next_commit(self, *, timeout_seconds: float) -> None:
        """Wait for any commit of this process, or until the timeout."""
        await self._watch.next_commit(timeout_seconds=timeout_seconds)
