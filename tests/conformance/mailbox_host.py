"""A host in small, built otherwise than the embedded one: what a host on a distributed engine would look like.

Each run is an object with a mailbox. Inputs come as bytes, are taken one by one, and are answered in bytes; whoever
sends one sees nothing of the run but its records. The object remembers nothing between two letters: it reads the
history, decides, and stores records, index row and what is due in one piece. Effects are performed beside it, by
whoever is free, and their outcomes come back as letters. Timers are letters that are delivered later.

Above it: the suites of `test_hosts` and `test_operations_on_hosts`. Below it: a store as the place of records, rows and
definitions; the engine; what any host may use (`Decider`, `RunWatch`, `writes`, `RunEffects`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from penstock.base.clock import Clock
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.jq.expressions import Evaluated, EvaluationFailed, Evaluator, Expression, InProcessEvaluator
from penstock.definitions.model import Workflow
from penstock.definitions.schemas.compiled import CompiledSchema, Violation
from penstock.engine import fold, inputs
from penstock.engine.effects import CancelChild, Effect, PerformActivity, StartSuccessor, WakeUp, WithdrawTask
from penstock.engine.outcomes import Accepted, Decision, Refused
from penstock.engine.pending import pending
from penstock.engine.records import Record
from penstock.engine.state import RunState
from penstock.governance.authorship import Author, AuthorshipRules
from penstock.runtime.activities.performing import (
    ActivityDeferred,
    ActivityError,
    AsyncPerformer,
    input_of,
    unfit_outcome,
)
from penstock.runtime.activities.progress import ProgressBroadcast
from penstock.runtime.chains import latest_in_chain, start_successor
from penstock.runtime.host.deciding import Decider
from penstock.runtime.host.definitions import proposed_refusal
from penstock.runtime.host.effects import RunEffects, activity_call
from penstock.runtime.host.waiters import RunWatch
from penstock.runtime.host.writes import first_row, first_write, next_write
from penstock.runtime.ports.host import Moved, Wanted
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.runs import (
    ANY,
    AnyHash,
    Appended,
    DefinitionOutcome,
    DefinitionRow,
    RunPage,
    RunPosition,
    RunQuery,
    RunRow,
    StoredRun,
)
from penstock.runtime.secrets import AnswerSeals, Sealer
from penstock.runtime.shared_timeouts import moved_within
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.tables.workers import register_worker, remove_worker

__all__ = ["MailboxHost", "input_from_bytes", "input_to_bytes"]

_BATCH = 100
_OWNER = "mailboxes"


def input_to_bytes(given: inputs.Input) -> bytes:
    """An input as it goes over a wire."""
    return msgspec.json.encode([type(given).__name__, given])


def input_from_bytes(raw: bytes) -> inputs.Input:
    """The input again: another object, and nothing in it that is not JSON."""
    name, body = msgspec.json.decode(raw)
    given: inputs.Input = _made(getattr(inputs, name), body)
    return given


def _made(kind: type[Any], body: dict[str, Any]) -> Any:
    """A struct of the engine from JSON: arrays are tuples there."""
    members = {name: _member(kind.__annotations__[name], value) for name, value in body.items()}
    return kind(**members)


def _member(annotation: str, value: Any) -> Any:
    if value is None:
        return None
    if annotation.startswith("Predecessor"):
        return _made(inputs.Predecessor, value)
    return tuple(value) if annotation.startswith("tuple") else value


class _Answer(msgspec.Struct, frozen=True):
    """What came of a letter, without anything of the engine: how many records were stored, or why none was."""

    refused: dict[str, Any] | None = None
    last_seq: int = 0
    stored: int = 0


@dataclass(frozen=True, slots=True)
class _Run:
    """A run as it was read for one letter."""

    workflow: Workflow
    state: RunState
    row: RunRow


@dataclass(slots=True)
class _Mailbox:
    """The letters of one run, and who is reading them."""

    letters: list[tuple[bytes, CallRecord | None, asyncio.Future[bytes]]] = field(default_factory=list)
    reader: asyncio.Task[None] | None = None


@dataclass(slots=True, kw_only=True)
class MailboxHost:
    """Runs as objects with mailboxes, over a store that knows nothing of them."""

    store: RunStore
    clock: Clock
    performer: AsyncPerformer
    report: Callable[[str, BaseException], None]
    evaluator: Evaluator = field(default_factory=InProcessEvaluator)
    seals: Sealer = field(default_factory=AnswerSeals)
    authorship: AuthorshipRules = field(default_factory=AuthorshipRules)
    progress: ProgressBroadcast = field(init=False)
    _decider: Decider = field(init=False)
    _watch: RunWatch = field(init=False)
    _boxes: dict[str, _Mailbox] = field(default_factory=dict)
    _under_way: dict[str, dict[str, asyncio.Task[None]]] = field(default_factory=dict)
    _done: dict[str, set[str]] = field(default_factory=dict)  # effects whose outcome is stored, or comes from elsewhere
    _timers: dict[str, asyncio.TimerHandle] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.progress = ProgressBroadcast(self.clock)
        self._decider = Decider(self.evaluator, self.seals)
        self._watch = RunWatch(store=self.store)

    async def open(self) -> None:
        """Go on with what is stored: all that is owed and every timer is found there."""
        await register_worker(self.store.database, _OWNER, at=self.clock.now_ms())
        await remove_worker(self.store.database, _OWNER)
        while claimed := await self.store.claim(owner=_OWNER, limit=_BATCH):
            for run_id in claimed:
                self._follow_up(run_id, await self._stored(run_id))
        cursor: str | None = None
        while True:
            page = await self.store.list_runs(RunQuery(limit=_BATCH, cursor=cursor))
            for row in page.rows:
                self._set_timer(row)
            cursor = page.next_cursor
            if cursor is None:
                return

    async def close(self) -> None:
        """Stop, as a process does that is ended."""
        for timer in self._timers.values():
            timer.cancel()
        for task in (tasks := tuple(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- definitions -----------------------------------------------------------------------------

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
        row = DefinitionRow(
            hash=workflow.hash,
            name=workflow.name,
            version=workflow.version,
            document=workflow.document,
            created_at=self.clock.now_ms(),
            tenant=tenant,
            created_by=created_by,
            author=author,
        )
        return await self.store.definitions.put(row, expected_hash=expected_hash, call=call(row))

    def follow_authors(self, rules: AuthorshipRules) -> None:
        self.authorship = rules

    async def workflow(self, definition_hash: str, *, tenant: str | None = None) -> Workflow | None:
        stored = await self.store.definitions.find(definition_hash, tenant=tenant)
        return None if stored is None else build_workflow(stored.document)

    async def workflow_named(self, name: str, *, tenant: str = DEFAULT_TENANT) -> Workflow | None:
        stored = await self.store.definitions.find_named(name, tenant=tenant)
        return None if stored is None else build_workflow(stored.document)

    # --- transitions -----------------------------------------------------------------------------

    async def start(
        self,
        given: inputs.StartRun,
        *,
        workflow_hash: str,
        labels: dict[str, str] | None = None,
        tenant: str | None = None,
        call: CallRecord | None = None,
    ) -> Decision:
        given = given if tenant is None else replace(given, tenant=tenant)
        workflow = await self.workflow(workflow_hash)
        if workflow is None:
            return Refused("WORKFLOW_NOT_FOUND", f"there is no definition {workflow_hash[:12]}")
        if (
            refused := await proposed_refusal(self.store.definitions, workflow, given.tenant, self.authorship)
        ) is not None:
            return refused
        decision = await self._decider.decide(workflow, RunState(), input_from_bytes(input_to_bytes(given)))
        if isinstance(decision, Refused):
            return decision
        return await self._begin(workflow, decision.state, decision.records, labels, call) or decision

    async def adopt(
        self,
        state: RunState,
        records: tuple[Record, ...],
        *,
        labels: dict[str, str] | None = None,
        call: CallRecord | None = None,
    ) -> Refused | None:
        workflow = await self.workflow(state.definition_hash)
        if workflow is None:
            return Refused("WORKFLOW_NOT_FOUND", f"there is no definition {state.definition_hash[:12]}")
        if (
            refused := await proposed_refusal(self.store.definitions, workflow, state.tenant, self.authorship)
        ) is not None:
            return refused
        decision = await self._decider.decide(workflow, state, inputs.ContinueRun(at=self.clock.now_ms()))
        if isinstance(decision, Refused):
            return decision
        return await self._begin(workflow, decision.state, (*records, *decision.records), labels, call)

    async def _begin(
        self,
        workflow: Workflow,
        state: RunState,
        records: tuple[Record, ...],
        labels: dict[str, str] | None,
        call: CallRecord | None,
    ) -> Refused | None:
        now = self.clock.now_ms()
        effects = tuple(pending(workflow, state, now))
        row = first_row(state, effects, created_at=now, labels=labels or {}, owner=None)
        write = first_write(row, Accepted(records, state), call)
        if not isinstance(await self.store.append(write), Appended):
            return Refused("DUPLICATE_EXECUTION_ID", f"run {state.run_id} already exists")
        write.committed()
        self._follow_up(state.run_id, _Run(workflow, state, row))
        return None

    async def send(
        self, run_id: str, given: inputs.Input, *, tenant: str | None = None, call: CallRecord | None = None
    ) -> Decision:
        row = await self.store.row(run_id)
        if row is None or tenant not in (None, row.tenant):
            return Refused("EXECUTION_NOT_FOUND", f"there is no run {run_id}")
        answer = msgspec.json.decode(await self._posted(run_id, input_to_bytes(given), call), type=_Answer)
        records = await self._whole_history(run_id)
        state = fold(records)
        if answer.refused is None:
            first = answer.last_seq - answer.stored
            return Accepted(tuple(item for item in records if first < item.seq <= answer.last_seq), state)
        if state.continued_as is not None and isinstance(given, inputs.FORWARDED_TO_SUCCESSOR):
            return await self.send(await self.newest(run_id), given, tenant=tenant, call=call)
        return Refused(**answer.refused)

    async def _posted(self, run_id: str, letter: bytes, call: CallRecord | None) -> bytes:
        """The answer to a letter; it is read whether anybody waits for the answer or not."""
        box = self._boxes.setdefault(run_id, _Mailbox())
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        box.letters.append((letter, call, answer))
        if box.reader is None:
            box.reader = self._spawn(run_id, partial(self._read_letters, run_id, box))
        return await answer

    async def _read_letters(self, run_id: str, box: _Mailbox) -> None:
        """One letter after another, until there is none."""
        while box.letters:
            letter, call, answer = box.letters.pop(0)
            try:
                told = msgspec.json.encode(await self._transition(run_id, input_from_bytes(letter), call))
            except Exception as error:  # whoever sent the letter hears of it
                if not answer.cancelled():
                    answer.set_exception(error)
                continue
            if not answer.cancelled():
                answer.set_result(told)
        del self._boxes[run_id]

    async def _transition(self, run_id: str, given: inputs.Input, call: CallRecord | None) -> _Answer:
        while True:
            run = await self._stored(run_id)
            decision = await self._decider.decide(run.workflow, run.state, given)
            if isinstance(decision, Refused):
                return _Answer(asdict(decision))
            if not decision.records:
                return _Answer(last_seq=run.state.seq)
            effects = tuple(pending(run.workflow, decision.state, given.at))
            write = next_write(run.row, run.state.seq, decision, effects, owner=None, call=call)
            if isinstance(await self.store.append(write), Appended):
                write.committed()
                self._follow_up(run_id, _Run(run.workflow, decision.state, write.row))
                return _Answer(last_seq=decision.state.seq, stored=len(decision.records))

    async def _stored(self, run_id: str) -> _Run:
        stored = await self.store.load(run_id)
        assert isinstance(stored, StoredRun)
        workflow = await self.workflow(stored.row.definition_hash)
        assert workflow is not None
        return _Run(workflow, fold(stored.records), stored.row)

    # --- effects and timers ----------------------------------------------------------------------

    def _follow_up(self, run_id: str, run: _Run) -> None:
        """Begin what a stored decision made due, leave what it made pointless, and set the clock for the next timer."""
        self._watch.committed(run.state)
        self._set_timer(run.row)
        effects = [item for item in pending(run.workflow, run.state, self.clock.now_ms()) if _is_work(run.state, item)]
        wanted = {item.effect_id for item in effects}
        under_way, done = self._under_way.setdefault(run_id, {}), self._done.setdefault(run_id, set())
        for effect_id in [name for name in under_way if name not in wanted]:
            under_way.pop(effect_id).cancel()
        done &= wanted
        for effect in effects:
            if effect.effect_id not in under_way and effect.effect_id not in done:
                under_way[effect.effect_id] = self._spawn(effect.effect_id, partial(self._perform, run, effect))
        if run.state.terminal and run.state.continuation is None:
            self._spawn(run_id, partial(RunEffects(self).ended, run.state))

    async def _perform(self, run: _Run, effect: Effect) -> None:
        if isinstance(effect, PerformActivity):
            await self._perform_activity(run, effect)
        else:
            await self._perform_between(run, effect)

    async def _perform_activity(self, run: _Run, effect: PerformActivity) -> None:
        try:
            outcome = await self.performer.perform(activity_call(run, effect))
        except Exception as error:  # an executor that raises is a failed attempt
            self.report(effect.effect_id, error)
            outcome = ActivityError(f"the executor raised {type(error).__name__}", "EXECUTOR_ERROR")
        run_id = run.state.run_id
        self._finished(run_id, effect)
        if isinstance(outcome, ActivityDeferred):
            return
        given: inputs.Input | None = input_of(self.clock.now_ms(), effect, outcome)
        while given is not None:
            given = unfit_outcome(given, await self.send(run_id, given))

    async def _perform_between(self, run: _Run, effect: Effect) -> None:
        run_id = run.state.run_id
        self._finished(run_id, effect)  # what it comes to must not cancel it
        await RunEffects(self, performer=self.performer).perform(run, effect)
        if run.state.terminal and isinstance(effect, StartSuccessor | CancelChild | WithdrawTask):
            left = [item for item in pending(run.workflow, run.state, self.clock.now_ms())]
            if all(item.effect_id in self._done[run_id] for item in left):
                await self.store.set_work(run_id, has_work=False, owner=None, expected_epoch=run.row.epoch)

    def _finished(self, run_id: str, effect: Effect) -> None:
        self._under_way[run_id].pop(effect.effect_id, None)
        self._done[run_id].add(effect.effect_id)

    def _set_timer(self, row: RunRow) -> None:
        if (known := self._timers.pop(row.run_id, None)) is not None:
            known.cancel()
        if row.wake_at is not None and not row.terminal:
            delay = max(row.wake_at - self.clock.now_ms(), 0) / 1000
            loop = asyncio.get_running_loop()
            self._timers[row.run_id] = loop.call_later(delay, self._ring, row.run_id, row.wake_at)

    def _ring(self, run_id: str, at: int) -> None:
        self._spawn(run_id, partial(self._fire, run_id, at))

    async def _fire(self, run_id: str, at: int) -> None:
        run = await self._stored(run_id)
        for effect in pending(run.workflow, run.state, max(at, self.clock.now_ms())):
            if isinstance(effect, WakeUp):
                fired = inputs.FireTimer(
                    at=max(at, self.clock.now_ms()), kind=effect.kind, node_id=effect.node_id, visit=effect.visit
                )
                await self.send(run_id, fired)

    def _spawn(self, where: str, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(self._guarded(where, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guarded(self, where: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:
            self.report(where, error)

    # --- reading and waiting ---------------------------------------------------------------------

    async def read(self, run_id: str) -> RunState | None:
        stored = await self.store.load(run_id)
        return None if stored is None else fold(stored.records)

    async def history(self, run_id: str, *, after_seq: int = 0, limit: int = 1_000) -> tuple[Record, ...]:
        return await self.store.history(run_id, after_seq=after_seq, limit=limit)

    async def _whole_history(self, run_id: str) -> tuple[Record, ...]:
        stored = await self.store.load(run_id)
        return () if stored is None else stored.records

    async def row(self, run_id: str) -> RunRow | None:
        return await self.store.row(run_id)

    async def positions(self, run_ids: Sequence[str]) -> Mapping[str, RunPosition]:
        return await self.store.positions(run_ids)

    async def list_runs(self, query: RunQuery) -> RunPage:
        return await self.store.list_runs(query)

    async def newest(self, run_id: str) -> str:
        run_id = await latest_in_chain(self.store, run_id) or run_id
        if await self.store.row(run_id) is None:
            return run_id
        run = await self._stored(run_id)
        if run.state.continued_as is None:
            return run_id
        await start_successor(self, run)
        return run.state.continued_as

    async def wait(self, run_id: str, *, after_seq: int, timeout_seconds: float) -> RunState | None:
        with self._watch.entered(run_id, after_seq=after_seq) as moved:
            state = await self.read(run_id)
            if state is None or state.seq > after_seq or state.terminal:
                return state
            await moved_within(moved, timeout_seconds)
        return await self.read(run_id)

    def watched(self, run_id: str, *, after_seq: int, wanted: Wanted | None = None) -> AbstractContextManager[Moved]:
        return self._watch.entered(run_id, after_seq=after_seq)

    async def wait_for_end(self, run_id: str, *, timeout_seconds: float) -> RunState | None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        while True:
            newest = await self.newest(run_id)
            with self._watch.entered(newest, after_seq=None) as ended:
                state = await self.read(newest)
                if state is None or loop.time() >= deadline or (state.terminal and state.continuation is None):
                    return state
                if not state.terminal:
                    await moved_within(ended, deadline - loop.time())

    def stop_waiting(self) -> None:
        self._watch.stop_waiting()

    # --- what the process lends ------------------------------------------------------------------

    async def violations(self, schema: CompiledSchema, value: JsonValue, *, tenant: str) -> tuple[Violation, ...]:
        return await self._decider.violations(schema, value, tenant=tenant)

    async def evaluate_for(self, caller: str, expression: Expression, root: JsonValue) -> Evaluated | EvaluationFailed:
        return await asyncio.to_thread(self.evaluator.evaluate, expression, root)

    async def fold(self, records: Sequence[Record]) -> RunState:
        return fold(records)


def _is_work(state: RunState, effect: Effect) -> bool:
    """Whether an effect is performed here: not timers, and not what the caller said it would do."""
    if isinstance(effect, PerformActivity):
        return state.mode != "host_mediated"
    return not isinstance(effect, WakeUp)
