"""A process that is stopped in the middle of its work, another that takes over, and an operator who retries.

Two processes share a file. The first starts runs whose one step must happen at most once, and is stopped (SIGSTOP)
while most of them wait for their turn in its memory. The second finds it silent, takes its runs over and leaves their
outcome in doubt. An operator looks into the ledger: what happened is reported, what did not is tried again. Then the
first process goes on (SIGCONT). Nothing that it still had in its memory may happen a second time. The clock of the
second is an hour ahead all the time.

The ledger is what a careful receiver is: it knows the highest epoch of each key and refuses a lower one. Those refusals
are the effects that were begun in the instant between the check and the effect, and are counted apart.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.definitions.build.workflow import build_workflow
from penstock.engine import inputs
from penstock.engine.transitions import Phase
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityOutcome
from penstock.runtime.host.driver import Driver
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.ports.runs import RunQuery
from penstock.runtime.semaphores import FairSemaphore
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.schema.log_notes import NotedConnection
from penstock.runtime.system import SystemClock, new_worker_id
from penstock.runtime.tables.runs.store import RunStore
from tests.torture.worker import read_lines

__all__ = ["Suspension", "suspend"]

_ROOT = Path(__file__).resolve().parents[2]
_PATIENCE_SECONDS = 240
_PAUSE_SECONDS_MAX = 0.1
_UNENDED = ("running", "waiting_activity", "waiting_decision")
DOCUMENT: JsonObject = {
    "penstock": "v1",
    "name": "charges",
    "nodes": [
        {"id": "charge", "type": "step", "handler": "charge", "effects": "at_most_once"},
        {"id": "done", "type": "end", "output": "ok"},
    ],
}


@dataclass(frozen=True, slots=True)
class Suspension:
    """What came of one suspension."""

    runs: int
    performed: int
    doubled: int
    refused_by_epoch: int
    unfinished: int


class Receiver:
    """The far side of the effects, one for both processes: refuses an epoch below the highest that it has seen."""

    def __init__(self, folder: Path) -> None:
        self.ledger = folder / "ledger.jsonl"
        self._file = os.open(self.ledger, os.O_RDWR | os.O_CREAT | os.O_APPEND)

    def take(self, key: str, epoch: int) -> None:
        """Let an effect happen, or refuse it."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            highest = max(
                (int(str(line["epoch"])) for line in read_lines(self.ledger) if line["key"] == key), default=0
            )
            line = {"key": key, "epoch": epoch, "process": os.getpid(), "taken": epoch >= highest}
            os.write(self._file, json.dumps(line).encode() + b"\n")
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)


class HourAhead(SystemClock):
    """The clock of a machine that is wrong, and goes on being wrong."""

    def now_ms(self) -> int:
        """An hour from now."""
        return super().now_ms() + 3_600_000


@dataclass(slots=True)
class Charges:
    """Performs the step: the effect first, and then as long as it takes."""

    receiver: Receiver
    seconds: float

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Charge, and take a while to say so."""
        self.receiver.take(call.activity.idempotency_key, call.epoch)
        await asyncio.sleep(self.seconds)
        return ActivityDone({})


async def live(folder: Path, name: str, runs: int) -> None:
    """One of the two processes; `first` starts the runs, `second` has the operator."""
    store = RunStore(SqliteDatabase(folder / "penstock.db"))
    await store.open()
    clock = SystemClock() if name == "first" else HourAhead()
    host = EmbeddedHost(store=store, clock=clock, worker_id=new_worker_id())
    driver = Driver(host=host, performer=Charges(Receiver(folder), 0.02), report=_complain, _slots=FairSemaphore(4))
    workflow = build_workflow(DOCUMENT)
    await host.register(workflow)
    await driver.start()
    if name == "first":
        starts = (inputs.StartRun(at=host.clock.now_ms(), run_id=f"c{number:05}", input={}) for number in range(runs))
        await asyncio.gather(*(host.start(given, workflow_hash=workflow.hash) for given in starts))
    (folder / f"{name}.ready").touch()
    while not (folder / f"{name}.finish").exists() or driver.busy:
        if name == "second":
            await _decide_doubts(host, folder)
        await asyncio.sleep(0.05)
    await driver.stop()
    await store.close()


async def _decide_doubts(host: EmbeddedHost, folder: Path) -> None:
    page = await host.store.list_runs(RunQuery(statuses=("waiting_decision",), limit=1_000))
    happened = {line["key"] for line in read_lines(folder / "ledger.jsonl") if line["taken"]} if page.rows else set()
    for row in page.rows:
        state = await host.read(row.run_id)
        for activation in state.activations() if state is not None else ():
            if activation.phase is not Phase.OUTCOME_UNKNOWN:
                continue
            given: inputs.Input = inputs.RetryActivity(at=host.clock.now_ms(), node_id="charge")
            if f"{row.run_id}/charge/{activation.visit}" in happened:
                given = inputs.CompleteActivity(at=host.clock.now_ms(), node_id="charge", result={})
            await host.send(row.run_id, given)


async def _count_unended(folder: Path) -> int:
    store = RunStore(SqliteDatabase(folder / "penstock.db"))
    await store.open()
    try:
        return len((await store.list_runs(RunQuery(statuses=_UNENDED, limit=1_000))).rows)
    finally:
        await store.close()


def suspend(folder: Path, *, runs: int, lease_ms: int = limits.WORKER_LEASE_MS) -> Suspension:
    """Stop the first process in the middle, let the second and the operator finish, and let the first go on."""
    command = [sys.executable, "-m", "tests.torture.suspended", str(folder), str(runs), str(lease_ms)]
    second = subprocess.Popen([*command, "second"], cwd=_ROOT)
    first: subprocess.Popen[bytes] | None = None
    try:
        _until((folder / "second.ready").exists, "the second process is ready")
        first = subprocess.Popen([*command, "first"], cwd=_ROOT)
        _until(lambda: len(read_lines(folder / "ledger.jsonl")) >= runs // 10, "the first has begun")
        _stop_between_locks(first, folder)
        _until(lambda: asyncio.run(_count_unended(folder)) == 0, "the second has finished the work of the first")
        before = len(read_lines(folder / "ledger.jsonl"))
        first.send_signal(signal.SIGCONT)
        for name, process in (("first", first), ("second", second)):
            (folder / f"{name}.finish").touch()
            process.wait(timeout=_PATIENCE_SECONDS)
    finally:
        for left in filter(None, (first, second)):
            if left.poll() is None:
                left.kill()
                left.wait()
    lines = read_lines(folder / "ledger.jsonl")
    taken = Counter(str(line["key"]) for line in lines if line["taken"])
    return Suspension(
        runs=runs,
        performed=sum(taken.values()),
        doubled=sum(number > 1 for number in taken.values()),
        refused_by_epoch=sum(not line["taken"] for line in lines[before:]),
        unfinished=asyncio.run(_count_unended(folder)) + runs - len(taken),
    )


def _stop_between_locks(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Stop a process; one that holds the file or the ledger then goes on a little: nobody could take over from it.

    It goes on for longer each time: where others have the processors, it would otherwise be stopped before it got one.
    """
    deadline, pause_seconds, pause = time.monotonic() + _PATIENCE_SECONDS, 0.001, threading.Event()
    while time.monotonic() < deadline:
        process.send_signal(signal.SIGSTOP)
        if _is_free(folder / "penstock.db") and _is_unlocked(folder / "ledger.jsonl"):
            return
        process.send_signal(signal.SIGCONT)
        pause.wait(pause_seconds)
        pause_seconds = min(2 * pause_seconds, _PAUSE_SECONDS_MAX)
    raise TimeoutError(f"waited {_PATIENCE_SECONDS} s in vain until the first process holds no lock")


def _is_free(database: Path) -> bool:
    """Whether nobody has a transaction open that writes."""
    with closing(sqlite3.connect(database, timeout=0.5, isolation_level=None, factory=NotedConnection)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        connection.execute("ROLLBACK")
        return True


def _is_unlocked(ledger: Path) -> bool:
    """Whether no process is in the middle of an effect; another that runs lets go of the lock within moments."""
    deadline, pause = time.monotonic() + 0.5, threading.Event()
    with ledger.open("rb") as file:
        while time.monotonic() < deadline:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pause.wait(0.01)
            else:
                return True  # closing the file unlocks it
    return False


def _until(holds: Callable[[], bool], what: str) -> None:
    """Wait for something that only files tell."""
    deadline, pause = time.monotonic() + _PATIENCE_SECONDS, threading.Event()
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {_PATIENCE_SECONDS} s in vain until {what}")
        pause.wait(0.02)


def _complain(where: str, error: BaseException) -> None:
    print(f"fault at {where}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)


def main() -> None:
    """One process of the two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("runs", type=int)
    parser.add_argument("lease_ms", type=int)
    parser.add_argument("name", choices=("first", "second"))
    given = parser.parse_args()
    limits.WORKER_LEASE_MS, limits.WORKER_LEASE_MARGIN_MS = given.lease_ms, given.lease_ms // 5
    asyncio.run(live(given.folder, given.name, given.runs))


if __name__ == "__main__":
    main()
