"""The embedded host: runs in this process, on any store, with no engine beside it.

Every transition takes one path: load the run, `decide`, store the records with the index row in one piece, and only
then let anybody know and dispatch what `pending` says is due. A restart does the same: it claims runs with work, loads
them, and dispatches what is due. Two processes may share a store: a decision made on an outdated state is not stored
but made again, and work is done by the process that owns the run for as long as it is alive.

Above it: `Penstock`, the control plane, operations. Below it: a `Store`, the pure engine, a performer.
A waiting run costs no task and no thread; its state is forgotten when memory is wanted for others.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.errors import CorruptHistory
from penstock.definitions.build import build_workflow
from penstock.definitions.expressions import Evaluator, InProcessEvaluator
from penstock.definitions.model import Workflow
from penstock.engine.decide import decide
from penstock.engine.effects import Effect, PerformActivity, WakeUp
from penstock.engine.evolve import fold
from penstock.engine.inputs import ContinueRun, Input, StartRun
from penstock.engine.outcomes import Decision, Refused
from penstock.engine.pending import next_wake_up_at, pending
from penstock.engine.records import Record
from penstock.engine.state import RunState
from penstock.engine.status import run_status
from penstock.runtime.ports import Appended, DefinitionRow, RunRow, RunWrite, Store, in_family

__all__ = ["Committed", "EmbeddedHost", "LiveRun"]


# How often a run that is worked on here is looked at all the same: its work may have gone to another process.
_OWN_RUN_LOOK_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class LiveRun:
    """A run in memory: its state as stored, and who is busy with it."""

    workflow: Workflow
    state: RunState
    row: RunRow
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    deferred: set[str] = field(default_factory=set)  # effects done here whose outcome comes from elsewhere
    users: int = 0


@dataclass(frozen=True, slots=True)
class Committed:
    """What was just stored, for whoever dispatches, watches or counts."""

    live: LiveRun
    records: tuple[Record, ...]
    effects: tuple[Effect, ...]


@dataclass(slots=True, kw_only=True)
class EmbeddedHost:
    """Transitions on a store. `worker_id` names this process among those that share the store."""

    store: Store
    clock: Clock
    worker_id: str
    evaluator: Evaluator = field(default_factory=InProcessEvaluator)
    performs: bool = True
    family: str | None = None  # a run id: only it and its child runs are performed here
    on_commit: Callable[[Committed], None] = lambda committed: None
    _live: OrderedDict[str, LiveRun] = field(default_factory=OrderedDict)
    _loading: dict[str, asyncio.Task[LiveRun | None]] = field(default_factory=dict)
    _workflows: dict[str, Workflow] = field(default_factory=dict)
    _waiters: dict[str, list[asyncio.Future[None]]] = field(default_factory=dict)
    _enders: dict[str, list[asyncio.Future[RunState]]] = field(default_factory=dict)

    # --- definitions -----------------------------------------------------------------------------

    async def register(self, workflow: Workflow) -> None:
        """Keep a definition: new runs of its name get it, running ones stay with theirs."""
        known = await self.store.definition_named(workflow.name)
        if known is None or known.hash != workflow.hash:
            await self.store.put_definition(
                DefinitionRow(
                    hash=workflow.hash,
                    name=workflow.name,
                    version=workflow.version,
                    document=workflow.document,
                    created_at=self.clock.now_ms(),
                )
            )
        self._workflows[workflow.hash] = workflow

    async def workflow(self, definition_hash: str) -> Workflow | None:
        """A compiled definition by hash."""
        workflow = self._workflows.get(definition_hash)
        if workflow is None:
            stored = await self.store.definition(definition_hash)
            if stored is None:
                return None
            workflow = self._workflows[definition_hash] = build_workflow(stored.document)
        return workflow

    async def workflow_named(self, name: str) -> Workflow | None:
        """The newest definition of a name."""
        stored = await self.store.definition_named(name)
        return None if stored is None else await self.workflow(stored.hash)

    # --- transitions -----------------------------------------------------------------------------

    async def start(self, given: StartRun, *, workflow_hash: str, labels: dict[str, str] | None = None) -> Decision:
        """Start a run; accepted only after it is durable."""
        workflow = await self.workflow(workflow_hash)
        if workflow is None:
            return Refused("WORKFLOW_NOT_FOUND", f"there is no definition {workflow_hash[:12]}")
        decision = decide(workflow, RunState(), given, evaluator=self.evaluator)
        if isinstance(decision, Refused):
            return decision
        effects = tuple(pending(workflow, decision.state, given.at))
        row = self._row(decision.state, effects, created_at=given.at, labels=labels or {})
        outcome = await self.store.append(RunWrite(expected_seq=0, row=row, records=decision.records))
        if not isinstance(outcome, Appended):
            return Refused("DUPLICATE_EXECUTION_ID", f"run {given.run_id} exists already")
        live = LiveRun(workflow, decision.state, row)
        self._remember(live)
        self._committed(Committed(live, decision.records, effects))
        return decision

    async def send(self, run_id: str, given: Input) -> Decision:
        """Give a run an input; accepted only after it is durable."""
        live = await self.live(run_id)
        if live is None:
            return Refused("EXECUTION_NOT_FOUND", f"there is no run {run_id}")
        live.users += 1
        try:
            async with live.lock:
                return await self._transition(live, given)
        finally:
            live.users -= 1

    async def _transition(self, live: LiveRun, given: Input) -> Decision:
        while True:
            decision = decide(live.workflow, live.state, given, evaluator=self.evaluator)
            if isinstance(decision, Refused) and await self._is_outdated(live):
                await self._reload(live)
                continue
            if isinstance(decision, Refused) or not decision.records:
                return decision
            effects = tuple(pending(live.workflow, decision.state, given.at))
            row = self._row(
                decision.state, effects, created_at=live.row.created_at, labels=live.row.labels, was=live.row
            )
            write = RunWrite(
                expected_seq=live.state.seq,
                row=row,
                records=decision.records,
                same_index=replace(live.row, seq=row.seq, updated_at=row.updated_at) == row,
            )
            if isinstance(await self.store.append(write), Appended):
                live.state, live.row = decision.state, row
                self._committed(Committed(live, decision.records, effects))
                return decision
            await self._reload(live)

    async def _is_outdated(self, live: LiveRun) -> bool:
        """Whether another process moved the run: what it refuses may be what it waits for now."""
        row = await self.store.row(live.state.run_id)
        return row is not None and row.seq != live.state.seq

    def may_perform(self, run_id: str) -> bool:
        """Whether the work of a run may be done here."""
        return self.performs and in_family(run_id, self.family)

    def _row(
        self,
        state: RunState,
        effects: tuple[Effect, ...],
        *,
        created_at: int,
        labels: dict[str, str],
        was: RunRow | None = None,
    ) -> RunRow:
        has_work = any(_is_work(state, effect) for effect in effects)
        owner = self.worker_id if self.may_perform(state.run_id) else None
        if was is not None and was.has_work and was.owner is not None:
            # Whoever has the run may be busy with it. It keeps the run until its lease is over, and finds the change.
            owner = was.owner
        return RunRow(
            run_id=state.run_id,
            workflow_name=state.workflow_name,
            workflow_version=state.workflow_version,
            definition_hash=state.definition_hash,
            status=run_status(state),
            seq=state.seq,
            created_at=created_at,
            updated_at=state.updated_at,
            parent_run_id=state.parent_run_id,
            labels=labels,
            wake_at=next_wake_up_at(state),
            has_work=has_work,
            owner=owner if has_work else None,
            terminal=state.terminal,
        )

    def _committed(self, committed: Committed) -> None:
        live = committed.live
        if live.state.terminal:
            for ended in self._enders.pop(live.state.run_id, ()):
                if not ended.done():
                    ended.set_result(live.state)
        if self._waiters:
            for waiter in (*self._waiters.pop(live.state.run_id, ()), *self._waiters.pop("", ())):
                if not waiter.done():
                    waiter.set_result(None)
        self.on_commit(committed)
        if live.state.terminal and not live.tasks:
            self._live.pop(live.state.run_id, None)

    async def adopt(
        self, state: RunState, records: tuple[Record, ...], *, labels: dict[str, str] | None = None
    ) -> Refused | None:
        """Store a history that was made elsewhere (a fork, an import) as a run of its own, and go on with it."""
        workflow = await self.workflow(state.definition_hash)
        if workflow is None:
            return Refused("WORKFLOW_NOT_FOUND", f"there is no definition {state.definition_hash[:12]}")
        at = self.clock.now_ms()
        # What follows is stored in the same piece: a crash in between would leave a run that nobody goes on with.
        decision = decide(workflow, state, ContinueRun(at=at), evaluator=self.evaluator)
        if isinstance(decision, Refused):
            return decision
        effects = tuple(pending(workflow, decision.state, at))
        row = self._row(decision.state, effects, created_at=at, labels=labels or {})
        write = RunWrite(expected_seq=0, row=row, records=(*records, *decision.records))
        if not isinstance(await self.store.append(write), Appended):
            return Refused("DUPLICATE_EXECUTION_ID", f"run {state.run_id} exists already")
        live = LiveRun(workflow, decision.state, row)
        self._remember(live)
        self._committed(Committed(live, write.records, effects))
        return None

    # --- runs in memory --------------------------------------------------------------------------

    async def live(self, run_id: str) -> LiveRun | None:
        """A run in memory, loaded if need be; two callers share one load."""
        live = self._live.get(run_id)
        if live is not None:
            self._live.move_to_end(run_id)
            return live
        loading = self._loading.get(run_id)
        if loading is None:
            loading = self._loading[run_id] = asyncio.ensure_future(self._load(run_id))
            loading.add_done_callback(lambda _: self._loading.pop(run_id, None))
        return await asyncio.shield(loading)

    async def _load(self, run_id: str) -> LiveRun | None:
        stored = await self.store.load(run_id)
        if stored is None:
            return None
        workflow = await self.workflow(stored.row.definition_hash)
        if workflow is None:
            told = f"the definition {stored.row.definition_hash[:12]} of run {run_id} is not in the store"
            raise CorruptHistory("DEFINITION_MISSING", told, "restore a backup that has it")
        live = LiveRun(workflow, fold(stored.records), stored.row)
        self._remember(live)
        return live

    async def reloaded(self, run_id: str) -> LiveRun | None:
        """A run as it is stored now, whatever was in memory."""
        live = self._live.get(run_id)
        if live is None:
            return await self.live(run_id)
        async with live.lock:
            await self._reload(live)
        return live

    async def _reload(self, live: LiveRun) -> None:
        """Somebody else moved the run: take over what is stored."""
        stored = await self.store.load(live.state.run_id)
        if stored is None:
            raise CorruptHistory("RUN_VANISHED", f"run {live.state.run_id} is no longer in the store")
        live.state, live.row = fold(stored.records), stored.row

    def live_runs(self) -> list[LiveRun]:
        """The runs in memory."""
        return list(self._live.values())

    def _remember(self, live: LiveRun) -> None:
        self._live[live.state.run_id] = live
        if len(self._live) > limits.LIVE_RUNS_MAX:
            self._forget_some()

    def _forget_some(self) -> None:
        """Drop the states that were not used for longest and that nobody is busy with."""
        surplus = len(self._live) - limits.LIVE_RUNS_MAX
        idle = [name for name, live in self._live.items() if not live.tasks and not live.users]
        for name in idle[:surplus]:
            del self._live[name]

    # --- reading and waiting ---------------------------------------------------------------------

    async def read(self, run_id: str) -> RunState | None:
        """The state of a run as stored."""
        live = self._live.get(run_id)
        if live is not None and self.performs and live.row.owner == self.worker_id:
            return live.state
        stored = await self.store.load(run_id)
        return None if stored is None else fold(stored.records)

    async def history(self, run_id: str, *, after_seq: int = 0, limit: int = 1_000) -> tuple[Record, ...]:
        """Records of a run."""
        return await self.store.history(run_id, after_seq=after_seq, limit=limit)

    async def wait(self, run_id: str, *, after_seq: int, timeout_seconds: float) -> RunState | None:
        """The state of a run once it has moved past a sequence number, or when time is up."""
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        while True:
            row = await self.store.row(run_id)
            if row is None:
                return None
            remaining = deadline - asyncio.get_running_loop().time()
            if row.seq > after_seq or row.terminal or remaining <= 0:
                return await self.read(run_id)
            await self._moved(run_id, min(remaining, limits.FOREIGN_CHANGE_POLL_SECONDS))

    async def wait_for_end(self, run_id: str, *, timeout_seconds: float) -> RunState | None:
        """The state of a run once it has ended, or when time is up; None when there is no such run."""
        ended: asyncio.Future[RunState] = asyncio.get_running_loop().create_future()
        self._enders.setdefault(run_id, []).append(ended)
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        try:
            while True:
                state = await self.read(run_id)
                remaining = deadline - asyncio.get_running_loop().time()
                if state is None or state.terminal or remaining <= 0:
                    return state
                live = self._live.get(run_id)
                mine = live is not None and live.row.owner == self.worker_id
                nap = _OWN_RUN_LOOK_SECONDS if mine else limits.FOREIGN_CHANGE_POLL_SECONDS
                done, _ = await asyncio.wait((ended,), timeout=min(nap, remaining))
                if done:
                    return ended.result()
        finally:
            waiting = self._enders.get(run_id)
            if waiting is not None and ended in waiting:
                waiting.remove(ended)
                if not waiting:
                    del self._enders[run_id]

    async def next_commit(self, *, timeout_seconds: float) -> None:
        """Wait for any commit here, or until time is up."""
        await self._moved("", timeout_seconds)

    async def _moved(self, run_id: str, timeout_seconds: float) -> None:
        """Wait for the next commit of a run here; changes by other processes are found by looking again."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(run_id, []).append(waiter)
        try:
            async with asyncio.timeout(timeout_seconds):
                await waiter
        except TimeoutError:
            waiting = self._waiters.get(run_id, [])
            if waiter in waiting:
                waiting.remove(waiter)
                if not waiting:
                    del self._waiters[run_id]


def _is_work(state: RunState, effect: Effect) -> bool:
    """True for what this process must do itself: not timers, and not what the caller said it would do."""
    if isinstance(effect, PerformActivity):
        return state.mode != "host_mediated"
    return not isinstance(effect, WakeUp)
