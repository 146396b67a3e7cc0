"""Every host passes the one suite of `hosts`, over every store, with nothing known of it but the port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from penstock.runtime.host.driver import Driver
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.ports.host import EffectHost, RunHost
from penstock.runtime.ports.runs import RunStore
from penstock.runtime.stores.memory.run_store import MemoryRunStore
from penstock.runtime.stores.sqlite.runs.store import SqliteRunStore
from penstock.runtime.system import SystemClock, new_worker_id
from tests.conformance.chains import CHAIN_CASES
from tests.conformance.hosts import CASES, Bench, Case, ScriptedPerformer
from tests.conformance.mailbox_host import MailboxHost
from tests.conformance.tenants import TENANT_CASES
from tests.conformance.wired_host import PORT, wired
from tests.waiting import SECONDS_MAX

Report: TypeAlias = Callable[[str, BaseException], None]


@asynccontextmanager
async def embedded(store: RunStore, performer: ScriptedPerformer, report: Report) -> AsyncIterator[RunHost]:
    """Our host in the process, with its driver."""
    host = EmbeddedHost(store=store, clock=SystemClock(), worker_id=new_worker_id())
    async with driven(host, performer, report):
        yield host


@asynccontextmanager
async def behind_a_wire(store: RunStore, performer: ScriptedPerformer, report: Report) -> AsyncIterator[RunHost]:
    """The same, with nothing but the port to be seen of it."""
    host = wired(EmbeddedHost(store=store, clock=SystemClock(), worker_id=new_worker_id()))
    async with driven(host, performer, report):
        yield host


@asynccontextmanager
async def driven(host: EffectHost, performer: ScriptedPerformer, report: Report) -> AsyncIterator[None]:
    driver = Driver(host=host, performer=performer, report=report)
    await driver.start()
    try:
        yield
    finally:
        await driver.stop()


@asynccontextmanager
async def mailboxes(store: RunStore, performer: ScriptedPerformer, report: Report) -> AsyncIterator[RunHost]:
    """A host of another kind, which performs by itself."""
    host = MailboxHost(store=store, clock=SystemClock(), performer=performer, report=report)
    await host.open()
    try:
        yield host
    finally:
        await host.close()


HOSTS = {"embedded": embedded, "wired": behind_a_wire, "mailboxes": mailboxes}
# The wire is the same before every store.
COMBINED = [
    *((kind, stored) for kind in ("embedded", "mailboxes") for stored in ("memory", "sqlite")),
    ("wired", "memory"),
]


def store_of(kind: str, folder: Path) -> RunStore:
    return MemoryRunStore() if kind == "memory" else SqliteRunStore(folder / "penstock.db")


@pytest.mark.parametrize(("kind", "stored"), COMBINED)
@pytest.mark.parametrize("case", [*CASES, *CHAIN_CASES, *TENANT_CASES], ids=lambda case: case.__name__)
def test_the_host_passes(case: Case, kind: str, stored: str, tmp_path: Path) -> None:
    faults: list[str] = []

    def report(where: str, error: BaseException) -> None:
        faults.append(f"{where}: {error!r}")

    async def run() -> None:
        store, performer = store_of(stored, tmp_path), ScriptedPerformer()
        await store.open()
        async with AsyncExitStack() as stack:

            async def begin() -> RunHost:
                await stack.aclose()  # the one before, if there is one
                return await stack.enter_async_context(HOSTS[kind](store, performer, report))

            async with asyncio.timeout(SECONDS_MAX):
                await case(Bench(await begin(), performer, store, begin))
        await store.close()

    asyncio.run(run())
    assert faults == []


def test_a_host_behind_a_wire_has_the_port_and_nothing_else() -> None:
    host = EmbeddedHost(store=MemoryRunStore(), clock=SystemClock(), worker_id="w")
    beyond = wired(host)
    assert {"read", "send", "subscribe", "worker_id", "store"} <= PORT
    assert all(hasattr(beyond, name) for name in PORT)
    assert not any(hasattr(beyond, name) for name in ("folding", "on_commit", "performs", "_live"))
