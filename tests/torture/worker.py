"""The victim of the torture: starts the planned runs, performs them, answers them, and is killed again and again.

Everything it was told is acknowledged goes to an acknowledgement file, synchronised to disk, before it goes on: what
stands there must never be lost. Every effect it performs goes to a ledger in the same way.

Its callers hang up: of many calls the caller is cancelled at a random moment, and calls again. Somebody sets the clock
of its machine, three months ahead, an hour ahead or back, for up to some seconds. And it looks for runs that nobody
carries on: with work that is its own and that it neither performs nor waits for.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.definitions.build.workflow import build_workflow
from penstock.engine import inputs
from penstock.engine.outcomes import Accepted, Refused
from penstock.engine.state import RunState
from penstock.engine.status import run_status
from penstock.engine.transitions import Phase
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityError, ActivityOutcome
from penstock.runtime.host.driver import Driver
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.ports.host import Committed
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.system import SystemClock, gone_workers, new_worker_id
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.tables.workers import list_workers
from tests.torture.workflows import WORKFLOWS

T = TypeVar("T")
_FAILURE_SHARE = 0.15
_HANG_UP_SHARE = 0.3
_PATIENCE_SECONDS_MAX = 0.012  # of callers that hang up; a commit takes a few milliseconds
# For how long a run may have work that nobody does: recovery goes through what it has claimed run by run.
_UNATTENDED_SECONDS_MAX = 2.0
_HOUR_MS = 3_600_000
_JUMPS_MS = (90 * 24 * _HOUR_MS, _HOUR_MS, -_HOUR_MS)


class DurableLines:
    """A file to which lines are appended and synchronised; a torn last line is cut off when it is opened again."""

    def __init__(self, path: Path) -> None:
        kept = path.read_bytes() if path.exists() else b""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)
        os.ftruncate(self._file, kept.rfind(b"\n") + 1)
        os.lseek(self._file, 0, os.SEEK_END)

    def append(self, line: JsonObject) -> None:
        """Write a line and wait for the disk."""
        os.write(self._file, json.dumps(line).encode() + b"\n")
        os.fdatasync(self._file)


def read_lines(path: Path) -> list[JsonObject]:
    """The whole lines of such a file."""
    if not path.exists():
        return []
    kept = path.read_bytes()
    return [json.loads(line) for line in kept[: kept.rfind(b"\n") + 1].splitlines()]


@dataclass(slots=True)
class LedgerPerformer:
    """Performs steps by writing what was done into the ledger."""

    ledger: DurableLines
    random: Random

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Do the step: sometimes slowly, sometimes failing before it did anything."""
        activity = call.activity
        handler = str(activity.config.get("handler"))
        await asyncio.sleep(self.random.random() * 0.01)
        if handler == "always_fails":
            return ActivityError("there is no money", "NO_MONEY", retryable=False)
        if activity.attempt <= 2 and not activity.at_most_once and self.random.random() < _FAILURE_SHARE:
            return ActivityError("not this time", "FLAKY")
        self.ledger.append({"key": activity.idempotency_key, "attempt": activity.attempt, "handler": handler})
        await asyncio.sleep(self.random.random() * 0.01)
        arguments = activity.arguments
        line = arguments.get("line") if isinstance(arguments, dict) else None
        return ActivityDone({"ok": True, "picked": line})


class Notes:
    """Figures of a life that outlast it: lines that are written and not waited for."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def add(self, kind: str, name: str = "") -> None:
        """Write down that something happened."""
        os.write(self._file, json.dumps({"kind": kind, "name": name}).encode() + b"\n")


class MachineClock:
    """The time of day of the machine, which somebody sets now and then, and puts right after a while."""

    def __init__(self, notes: Notes, random: Random) -> None:
        self.notes, self.random = notes, random
        self.ahead_ms = 0
        self._really = time.time_ns

    def __call__(self) -> int:
        return self._really() + self.ahead_ms * 1_000_000

    async def jump(self) -> None:
        """Be wrong again and again."""
        while True:
            await asyncio.sleep(0.1 + self.random.random() * 0.5)
            self.ahead_ms = self.random.choice(_JUMPS_MS)
            self.notes.add("jump")
            await asyncio.sleep(self.random.random() ** 4 * 10)
            self.ahead_ms = 0


class Victim:
    """One life of the worker."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.plan: list[JsonObject] = json.loads((folder / "plan.json").read_text())
        self.acknowledged = DurableLines(folder / "acknowledged.jsonl")
        self.random = Random(seed)
        self.moved = asyncio.Event()
        self.unfinished = {str(entry["run_id"]) for entry in self.plan}
        self.attention: set[str] = set()
        self.notes = Notes(folder / "notes.jsonl")
        self.suspects: dict[str, tuple[int, float]] = {}
        """Runs that nobody does anything for: their sequence number, and since when."""

    async def live(self) -> None:
        """Work until every planned run has ended."""
        clock = MachineClock(self.notes, self.random)
        time.time_ns = clock
        jumping = asyncio.ensure_future(clock.jump())
        store = RunStore(SqliteDatabase(self.folder / "penstock.db"))
        await store.open()
        host = EmbeddedHost(store=store, clock=SystemClock(), worker_id=new_worker_id())
        ledger = DurableLines(self.folder / "ledger.jsonl")
        driver = Driver(host=host, performer=LedgerPerformer(ledger, self.random), report=self._complain)
        for document in WORKFLOWS.values():
            await host.register(build_workflow(document))
        workers = [worker.worker_id for worker in await list_workers(store.database)]
        await driver.start(gone=gone_workers(workers))
        dispatch = host.on_commit

        def committed(what: Committed) -> None:
            dispatch(what)
            self.attention.add(what.live.state.run_id)
            self.moved.set()

        host.on_commit = committed
        await self._start_all(host)
        self.attention |= self.unfinished
        while self.unfinished:
            self.moved.clear()
            looking, self.attention = self.attention, set()
            for run_id in sorted(looking):
                await self._look(host, run_id)
            if self.unfinished and not self.attention:
                await self._pause()
                await self._look_for_abandoned(host)
        jumping.cancel()
        await driver.stop()
        await store.close()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(0.5):
                await self.moved.wait()
        except TimeoutError:
            self.attention |= self.unfinished

    async def _called(self, call: Coroutine[Any, Any, T]) -> T | None:
        """What a call gave; None when the caller hung up before it knew."""
        task = asyncio.ensure_future(call)
        if self.random.random() < _HANG_UP_SHARE:
            await asyncio.wait((task,), timeout=self.random.random() * _PATIENCE_SECONDS_MAX)
            if task.cancel():
                self.notes.add("hang-up")
            await asyncio.wait((task,))
            return None if task.cancelled() else task.result()
        return await task

    async def _look_for_abandoned(self, host: EmbeddedHost) -> None:
        """Runs with work of this process that it has not done anything about for a while."""
        busy = {live.state.run_id for live in host.live_runs() if live.tasks or live.deferred or live.lock.locked()}
        suspects, self.suspects = self.suspects, {}
        for run_id in self.unfinished - busy:
            row = await host.store.row(run_id)
            if row is None or not row.has_work or row.owner != host.worker_id:
                continue
            seq, since = suspects.get(run_id, (row.seq, time.monotonic()))
            self.suspects[run_id] = (row.seq, since if seq == row.seq else time.monotonic())
            if time.monotonic() - self.suspects[run_id][1] > _UNATTENDED_SECONDS_MAX:
                self.notes.add("abandoned", run_id)

    def _complain(self, where: str, error: BaseException) -> None:
        print(f"fault at {where}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        if isinstance(error, PenstockError) and error.code == "RUN_ABANDONED":
            self.notes.add("abandoned", where)

    async def _start_all(self, host: EmbeddedHost) -> None:
        known = {str(line["run_id"]) for line in read_lines(self.folder / "acknowledged.jsonl") if "run_id" in line}
        for entry in self.plan:
            run_id, workflow = str(entry["run_id"]), await host.workflow_named(str(entry["workflow"]))
            if run_id in known or workflow is None:
                continue
            given = inputs.StartRun(at=host.clock.now_ms(), run_id=run_id, input={"n": entry["n"]})
            decision = None
            while decision is None:
                decision = await self._called(host.start(given, workflow_hash=workflow.hash))
            if isinstance(decision, Refused) and decision.code != "DUPLICATE_EXECUTION_ID":
                raise SystemExit(f"start of {run_id} was refused: {decision}")
            self.acknowledged.append({"kind": "start", "run_id": run_id})

    async def _look(self, host: EmbeddedHost, run_id: str) -> None:
        state = await host.read(run_id)
        if state is None:
            return
        if state.terminal:
            if state.continued_as is not None and run_id in self.unfinished:
                self.unfinished.add(state.continued_as)
            self.unfinished.discard(run_id)
            return
        match run_status(state):
            case "waiting_input":
                token = f"{run_id}-{self.random.randrange(10**9)}"
                answer = inputs.AnswerInterrupt(at=host.clock.now_ms(), answer={"go": True, "token": token})
                if isinstance(await self._called(host.send(run_id, answer)), Accepted):
                    self.acknowledged.append({"kind": "answer", "of": run_id, "token": token})
            case "waiting_signal":
                token = f"{run_id}-{self.random.randrange(10**9)}"
                signal = inputs.SendSignal(at=host.clock.now_ms(), name="released", payload={"token": token})
                decision = await self._called(host.send(run_id, signal))
                if isinstance(decision, Accepted):  # a run that was continued meanwhile hands it on
                    self.acknowledged.append({"kind": "signal", "of": decision.state.run_id, "token": token})
            case "waiting_child":
                for child_id in state.children:
                    await self._look(host, await host.newest(child_id))
            case _:
                await self._decide_doubts(host, state)

    async def _decide_doubts(self, host: EmbeddedHost, state: RunState) -> None:
        """What an operator does with an activity of unknown outcome: look whether it happened."""
        for activation in state.activations():
            if activation.phase is not Phase.OUTCOME_UNKNOWN:
                continue
            key = f"{state.run_id}/{activation.node_id}/{activation.visit}"
            happened = any(line["key"] == key for line in read_lines(self.folder / "ledger.jsonl"))
            at = host.clock.now_ms()
            given: inputs.Input = inputs.RetryActivity(at=at, node_id=activation.node_id, visit=activation.visit)
            if happened:
                given = inputs.CompleteActivity(
                    at=at, node_id=activation.node_id, visit=activation.visit, result={"ok": True}
                )
            await self._called(host.send(state.run_id, given))


if __name__ == "__main__":
    asyncio.run(Victim(Path(sys.argv[1]), int(sys.argv[2])).live())
