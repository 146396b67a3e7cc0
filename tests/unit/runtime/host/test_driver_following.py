"""What one process does to a run soon reaches the process that works on it, and an idle process only asks cheaply."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock import Penstock
from penstock.runtime.host.driver import Driver
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.ports.runs import RunPosition
from penstock.runtime.ports.topics import Mark, Topic
from penstock.runtime.stores.sqlite.temporary import TemporaryDatabase
from penstock.runtime.system import SystemClock
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.hosts import ScriptedPerformer
from tests.opened_database import run_on
from tests.waiting import SECONDS_MAX

WORKER = Path(__file__).with_name("long_worker.py")


@asynccontextmanager
async def worker(path: Path) -> AsyncIterator[asyncio.StreamReader]:
    """What another process says that performs the runs of a file."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(WORKER), str(path), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        assert await line(process.stdout) == ["ready"]
        yield process.stdout
    finally:
        process.kill()
        await process.wait()


async def line(said: asyncio.StreamReader) -> list[str]:
    return (await said.readline()).decode().split()


def test_a_cancel_from_another_process_reaches_a_running_attempt_soon(tmp_path: Path) -> None:
    path = tmp_path / "penstock.db"

    async def body() -> None:
        async with asyncio.timeout(SECONDS_MAX), worker(path) as said, Penstock.open(path, perform=False) as penstock:
            for _ in range(3):
                run = await penstock.start("long")
                assert await line(said) == ["begun"]
                await run.cancel("no longer wanted")
                async with asyncio.timeout(SECONDS_MAX):
                    assert await line(said) == ["cancelled"]
                assert await run.status() == "cancelled"

    asyncio.run(body())


class Counting(RunStore):
    """Counts how often it is asked, and looked at."""

    def __init__(self) -> None:
        super().__init__(TemporaryDatabase())
        self.looks = self.asked = 0
        self.asked_enough = asyncio.Event()

    def changed(self, *topics: Topic) -> Mark:
        self.asked += 1
        if self.asked == 200:
            self.asked_enough.set()
        return super().changed(*topics)

    async def has_unclaimed(self, *, root_run_id: str | None = None) -> bool:
        self.looks += 1
        return await super().has_unclaimed(root_run_id=root_run_id)

    async def positions(self, run_ids: Sequence[str]) -> dict[str, RunPosition]:
        self.looks += 1
        return await super().positions(run_ids)


def test_a_process_where_nothing_happens_does_not_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.base.limits.FOREIGN_CHANGE_POLL_SECONDS", 0.001)

    async def body(store: Counting) -> None:
        host = EmbeddedHost(store=store, clock=SystemClock(), worker_id="w")
        driver = Driver(host=host, performer=ScriptedPerformer())
        await driver.start()
        await store.asked_enough.wait()
        # Once at first, and after its own sign of life, which is a change like any other.
        assert 1 <= store.looks < 10
        await driver.stop()

    run_on(Counting(), body)
