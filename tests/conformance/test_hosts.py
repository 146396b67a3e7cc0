"""Every host passes the one suite of `hosts`, with nothing known of it but the port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from penstock.runtime.host.driver import Driver
from penstock.runtime.host.effect_host import EffectHost
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.ports.host import RunHost
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.system import SystemClock, new_worker_id
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.chains import CHAIN_CASES
from tests.conformance.hosts import CASES, Bench, Case, ScriptedPerformer
from tests.conformance.mailbox_host import MailboxHost
from tests.conformance.tenants import TENANT_CASES
from tests.conformance.wired_host import PORT, wired
from tests.opened_database import opened_store
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


@pytest.mark.parametrize("kind", HOSTS)
@pytest.mark.parametrize("case", [*CASES, *CHAIN_CASES, *TENANT_CASES], ids=lambda case: case.__name__)
def test_the_host_passes(case: Case, kind: str, tmp_path: Path) -> None:
    faults: list[str] = []

    def report(where: str, error: BaseException) -> None:
        faults.append(f"{where}: {error!r}")

    async def run() -> None:
        performer = ScriptedPerformer()
        async with opened_store(RunStore(SqliteDatabase(tmp_path / "penstock.db"))) as store, AsyncExitStack() as stack:

            async def begin() -> RunHost:
                await stack.aclose()  # the one before, if there is one
                return await stack.enter_async_context(HOSTS[kind](store, performer, report))

            async with asyncio.timeout(SECONDS_MAX):
                await case(Bench(await begin(), performer, store.definitions, begin))

    asyncio.run(run())
    assert faults == []


def test_a_host_behind_a_wire_has_the_port_and_nothing_else(tmp_path: Path) -> None:
    host = EmbeddedHost(store=RunStore(SqliteDatabase(tmp_path / "penstock.db")), clock=SystemClock(), worker_id="w")
    beyond = wired(host)
    assert {"read", "send", "subscribe", "worker_id", "store"} <= PORT
    assert all(hasattr(beyond, name) for name in PORT)
    assert not any(hasattr(beyond, name) for name in ("folding", "on_commit", "performs", "_live"))
