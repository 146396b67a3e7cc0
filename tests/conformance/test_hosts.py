"""Every host passes the one suite of `hosts`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.runtime.driver import Driver
from penstock.runtime.embedded_host import EmbeddedHost
from penstock.runtime.ports import Store
from penstock.runtime.stores.memory import MemoryStore
from penstock.runtime.stores.sqlite import SqliteStore
from penstock.runtime.system import SystemClock, new_worker_id
from tests.conformance.chains import CHAIN_CASES
from tests.conformance.hosts import CASES, Bench, Case, ScriptedPerformer
from tests.conformance.tenants import TENANT_CASES


def store_of(kind: str, folder: Path) -> Store:
    return MemoryStore() if kind == "memory" else SqliteStore(folder / "penstock.db")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("case", [*CASES, *CHAIN_CASES, *TENANT_CASES], ids=lambda case: case.__name__)
def test_the_host_passes(case: Case, kind: str, tmp_path: Path) -> None:
    faults: list[str] = []

    async def run() -> None:
        store = store_of(kind, tmp_path)
        await store.open()
        host = EmbeddedHost(store=store, clock=SystemClock(), worker_id=new_worker_id())
        performer = ScriptedPerformer()
        driver = Driver(
            host=host, performer=performer, report=lambda where, error: faults.append(f"{where}: {error!r}")
        )
        await driver.start()
        try:
            async with asyncio.timeout(30):
                await case(Bench(host, performer))
        finally:
            await driver.stop()
            await store.close()

    asyncio.run(run())
    assert faults == []
