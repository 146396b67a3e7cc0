"""Penstock as a contestant of `benchmarks.durable`: native documents with steps that do nothing, on a real file.

Three ways in. `engine_load` is the runtime itself (host, driver, SQLite store, a performer that returns at once); a
client hears of the end of its run from the commit that holds it. `product_load` is what a user of the package gets:
`Penstock.open`, `start`, `result`, with a decorated async function as the step. `store_load` is the store alone: it is
given what the runtime gave it for one run, again and again, with nothing decided in between.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from benchmarks.durable.load import Load, closed_loop
from penstock.app.penstock import Penstock
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.outcomes import Refused
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityOutcome
from penstock.runtime.host.driver import Driver
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.ports.host import Committed
from penstock.runtime.ports.runs import Appended, AppendOutcome, RunWrite
from penstock.runtime.steps.registry import step
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.system import SystemClock, new_run_id, new_worker_id
from penstock.runtime.tables.runs.store import RunStore

__all__ = [
    "Engine",
    "engine_load",
    "linear",
    "opened",
    "product_load",
    "rows_of_a_run",
    "store_load",
    "writes_of_a_run",
]

_WARM_UP_RUNS = 20
_HANDLER = "work"


def linear(steps: int) -> JsonObject:
    """A native document: a number of steps, then the end, which returns what the last step said."""
    nodes: list[JsonValue] = [
        {"id": f"step_{number}", "type": "step", "handler": _HANDLER} for number in range(1, steps + 1)
    ]
    nodes.append({"id": "finish", "type": "end", "output": f"${{ .step_{steps}.out }}"})
    return {"penstock": "v1", "name": f"linear-{steps}", "nodes": nodes}


class Immediate:
    """A performer whose every step is done at once."""

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Answer like a step that does nothing."""
        return ActivityDone({"out": "done"})


@dataclass(slots=True, kw_only=True)
class Engine:
    """An open runtime, and who waits for which of its runs to end."""

    store: RunStore
    host: EmbeddedHost
    workflow: Workflow
    faults: list[str] = field(default_factory=list)
    _ending: dict[str, asyncio.Future[str]] = field(default_factory=dict)

    @property
    def file(self) -> SqliteDatabase:
        """The file of the store."""
        if not isinstance(self.store.database, SqliteDatabase):
            raise TypeError("the benchmark measures SQLite")
        return self.store.database

    async def start(self, run_id: str) -> int:
        """Start a run; where its history stands once it is durable."""
        given = inputs.StartRun(at=self.host.clock.now_ms(), run_id=run_id, input={})
        decision = await self.host.start(given, workflow_hash=self.workflow.hash)
        if isinstance(decision, Refused):
            raise SystemExit(f"a run was refused: {decision.message}")
        return decision.state.seq

    def ending(self, run_id: str) -> asyncio.Future[str]:
        """The status a run will end with; to be asked for before it can end."""
        future = self._ending[run_id] = asyncio.get_running_loop().create_future()
        return future

    async def run_to_its_end(self) -> None:
        """One run from start to end, as a client sees it."""
        run_id = new_run_id()
        future = self.ending(run_id)
        await self.start(run_id)
        status = await future
        if status != "completed":
            raise SystemExit(f"run {run_id} ended {status}; {self.faults[:3]}")

    def heard(self, committed: Committed) -> None:
        """Tell whoever waits that a run has ended."""
        state = committed.live.state
        if state.terminal:
            future = self._ending.pop(state.run_id, None)
            if future is not None and not future.done():
                future.set_result(str(state.status))


@asynccontextmanager
async def opened(path: Path, document: JsonObject, *, store: RunStore | None = None) -> AsyncIterator[Engine]:
    """The runtime on a file, performing; `synchronous` is FULL as it is by default."""
    store = store or RunStore(SqliteDatabase(path, synchronous="FULL"))
    await store.open()
    host = EmbeddedHost(store=store, clock=SystemClock(), worker_id=new_worker_id())
    workflow = build_workflow(document)
    await host.register(workflow)
    engine = Engine(store=store, host=host, workflow=workflow)

    def report(where: str, error: BaseException) -> None:
        engine.faults.append(f"{where}: {error!r}")

    driver = Driver(host=host, performer=Immediate(), report=report)
    await driver.start()
    dispatch = host.on_commit

    def on_commit(committed: Committed) -> None:
        dispatch(committed)
        engine.heard(committed)

    host.on_commit = on_commit
    try:
        yield engine
    finally:
        await driver.stop()
        await store.close()
    if engine.faults:
        raise SystemExit(f"{len(engine.faults)} faults in the runtime; the first: {engine.faults[0]}")


async def engine_load(path: Path, steps: int, *, clients: int, seconds: float, keep_log: bool = False) -> Load:
    """The throughput of the runtime."""
    async with opened(path, linear(steps)) as engine:
        await asyncio.gather(*(engine.run_to_its_end() for _ in range(_WARM_UP_RUNS)))
        log_of = path if keep_log else None
        return await closed_loop(engine.run_to_its_end, clients=clients, seconds=seconds, keep_log_of=log_of)


@step(name=_HANDLER)
async def work() -> dict[str, str]:
    """A step that does nothing."""
    return {"out": "done"}


async def product_load(path: Path, steps: int, *, clients: int, seconds: float) -> Load:
    """The throughput that a program sees which embeds the package: start a run, wait for its result."""
    async with Penstock.open(path, steps=[work]) as penstock:
        workflow = await penstock.register(linear(steps))

        async def one_run() -> None:
            run = await penstock.start(workflow, {})
            result = await run.result()
            if result != "done":
                raise SystemExit(f"run {run.id} returned {result!r}")

        await asyncio.gather(*(one_run() for _ in range(_WARM_UP_RUNS)))
        return await closed_loop(one_run, clients=clients, seconds=seconds)


class _Recording(RunStore):
    """A store that remembers what it was given."""

    def __init__(self, path: Path) -> None:
        super().__init__(SqliteDatabase(path))
        self.writes: list[RunWrite] = []

    def append(self, write: RunWrite) -> Awaitable[AppendOutcome]:
        """Store a decision, and remember it."""
        self.writes.append(write)
        return super().append(write)


async def writes_of_a_run(path: Path, steps: int) -> list[RunWrite]:
    """What the store is given for one run."""
    store = _Recording(path)
    async with opened(path, linear(steps), store=store) as engine:
        await engine.run_to_its_end()
    return store.writes


async def rows_of_a_run(path: Path, writes: list[RunWrite]) -> list[tuple[dict[str, object], dict[str, object]]]:
    """The row of the index after each of these writes, and the row of history that it added, with all their columns."""
    store = RunStore(SqliteDatabase(path, synchronous="FULL"))
    await store.open()
    reader = sqlite3.connect(path)
    reader.row_factory = sqlite3.Row
    found = []
    try:
        for write in writes:
            await store.append(write)
            index = reader.execute("SELECT * FROM runs WHERE run_id = ?", (write.row.run_id,)).fetchone()
            history = reader.execute("SELECT * FROM history ORDER BY rowid DESC LIMIT 1").fetchone()
            found.append((dict(index), dict(history)))
    finally:
        reader.close()
        await store.close()
    return found


async def store_load(path: Path, writes: list[RunWrite], *, clients: int, seconds: float) -> Load:
    """The throughput of the store without an engine; one "run" is what `writes_of_a_run` found."""
    store = RunStore(SqliteDatabase(path, synchronous="FULL"))
    await store.open()

    async def one_run() -> None:
        run_id = new_run_id()
        for write in writes:
            row = msgspec.structs.replace(write.row, run_id=run_id)
            outcome = await store.append(msgspec.structs.replace(write, row=row))
            if not isinstance(outcome, Appended):
                raise SystemExit(f"the store refused a write of run {run_id}")

    try:
        return await closed_loop(one_run, clients=clients, seconds=seconds)
    finally:
        await store.close()
