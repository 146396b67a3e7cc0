"""`Penstock` for several tenants in one file."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from penstock import Penstock
from penstock.base.errors import Conflict, NotFound
from penstock.engine.folding.evolve import fold
from penstock.engine.fork import fork
from penstock.runtime.control_plane.functions import ListQuery
from penstock.runtime.control_plane.hosts import HostControl
from penstock.runtime.ports.runs import RunQuery
from penstock.runtime.stores.sqlite.maintenance.backups import check_integrity
from tests.waiting import SECONDS_MAX

HELLO = """\
penstock: v1
name: hello
nodes:
  - {id: done, type: end, output: WORD}
"""
WAITS = """\
penstock: v1
name: waits
nodes:
  - {id: wait, type: wait, signal: go}
  - {id: done, type: end, output: "${ .wait }"}
"""


def opened(folder: Path, body: Callable[[Penstock], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(SECONDS_MAX), Penstock.open(folder / "penstock.db") as penstock:
            await body(penstock)

    asyncio.run(run())


def test_a_workflow_of_a_tenant_is_registered_started_and_listed_there(tmp_path: Path) -> None:
    async def body(penstock: Penstock) -> None:
        await penstock.register(HELLO.replace("WORD", "ours"))
        await penstock.register(HELLO.replace("WORD", "theirs"), tenant="acme", created_by="ada")
        ours = await penstock.start("hello")
        theirs = await penstock.start("hello", tenant="acme")
        assert await ours.result() == "ours"
        assert await theirs.result() == "theirs"
        assert [row.run_id for row in (await penstock.runs(RunQuery(tenant="acme"))).rows] == [theirs.id]
        assert len((await penstock.runs()).rows) == 2
        [kept] = (await penstock.store.definitions.list_versions("hello", tenant="acme", limit=5)).rows
        assert kept.created_by == "ada"
        with pytest.raises(NotFound, match=r"WORKFLOW_NOT_FOUND.*known workflows: none"):
            await penstock.start("hello", tenant="nobody")

    opened(tmp_path, body)
    assert check_integrity(tmp_path / "penstock.db").ok


def test_what_two_tenants_call_alike_are_two_runs(tmp_path: Path) -> None:
    async def body(penstock: Penstock) -> None:
        for tenant in ("default", "acme"):
            await penstock.register(WAITS, tenant=tenant)
        ours = await penstock.start("waits", run_id="order-7")
        theirs = await penstock.start("waits", run_id="order-7", tenant="acme")
        again = await penstock.signal_with_start("waits", "order-7", "go", {"n": 1}, tenant="acme")
        assert (ours.id, theirs.id, again.id) == ("order-7", "acme~.order-7", "acme~.order-7")
        assert await theirs.result() == {"n": 1}
        assert await ours.status() == "waiting_signal"

    opened(tmp_path, body)


def test_an_id_that_another_tenant_has_is_taken(tmp_path: Path) -> None:
    async def body(penstock: Penstock) -> None:
        for tenant in ("default", "acme"):
            await penstock.register(WAITS, tenant=tenant)
        await penstock.start("waits", run_id="order-7", tenant="acme")
        with pytest.raises(Conflict, match="DUPLICATE_EXECUTION_ID"):
            await penstock.start("waits", run_id="acme~.order-7")

    opened(tmp_path, body)


def test_a_fork_stays_in_its_tenant(tmp_path: Path) -> None:
    async def body(penstock: Penstock) -> None:
        await penstock.register(WAITS, tenant="acme")
        run = await penstock.start("waits", tenant="acme")
        forked = await run.fork(at_seq=2)
        row = await penstock.store.row(forked.id)
        assert row is not None
        assert row.tenant == "acme"

    opened(tmp_path, body)
    assert check_integrity(tmp_path / "penstock.db").ok


def test_the_control_plane_of_a_tenant_sees_its_runs_only(tmp_path: Path) -> None:
    async def body(penstock: Penstock) -> None:
        for tenant in ("default", "acme"):
            await penstock.register(WAITS, tenant=tenant)
            await penstock.start("waits", run_id="order-7", tenant=tenant)
        ours, theirs = HostControl(penstock.host), HostControl(penstock.host, tenant="acme")
        assert await ours.find("acme~.order-7") is None
        assert await ours.history("acme~.order-7") == ()
        found = await theirs.find("acme~.order-7")
        assert found is not None
        query = ListQuery(
            phase=None, workflow_name=None, updated_after=None, updated_before=None, limit=10, cursor=None
        )
        listing = await theirs.list_runs(query)
        assert [item["execution_id"] for item in listing.executions] == ["acme~.order-7"]

    opened(tmp_path, body)


def test_a_history_from_elsewhere_is_whose_control_plane_takes_it(tmp_path: Path) -> None:
    async def body(penstock: Penstock) -> None:
        await penstock.register(WAITS, tenant="acme")
        run = await penstock.start("waits", tenant="acme")
        state = await run.state()
        workflow = await penstock.host.workflow(state.definition_hash)
        assert workflow is not None
        for tenant in ("default", "other"):
            records = fork(await run.history(), at_seq=2, run_id=f"copy in {tenant}")
            await HostControl(penstock.host, tenant=tenant).adopt(workflow, fold(records), records)
            loaded = await penstock.store.load(f"copy in {tenant}")
            assert loaded is not None
            assert (loaded.row.tenant, fold(loaded.records).tenant) == (tenant, tenant)

    opened(tmp_path, body)
    assert check_integrity(tmp_path / "penstock.db").ok
