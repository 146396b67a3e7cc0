"""A server says how its store and its runs are; a run that does not move keeps nobody away."""

from __future__ import annotations

import asyncio
from pathlib import Path

from penstock.app.drivers import temporary_storage
from penstock.app.penstock import Penstock
from penstock.app.serving.health import health_checks
from penstock.operations.system.health import is_ready


def test_a_server_without_trouble_is_well(tmp_path: Path) -> None:
    async def body() -> None:
        async with Penstock.open(tmp_path / "penstock.db") as penstock:
            assert await health_checks(penstock)() == {"store": "ok", "runs": "ok"}
        async with Penstock.open(storage=temporary_storage(), perform=False) as penstock:
            assert await health_checks(penstock)() == {"store": "ok", "runs": "ok"}

    asyncio.run(body())


def test_runs_that_do_not_move_are_counted_and_the_server_takes_work(tmp_path: Path) -> None:
    async def body() -> None:
        async with Penstock.open(tmp_path / "penstock.db") as penstock:
            assert penstock.driver is not None
            penstock.driver.abandoned._tried = {"a": (1, 3), "b": (1, 3), "tried once": (1, 1)}
            checks = await health_checks(penstock)()
            assert checks == {"store": "ok", "runs": "2 stuck"}
            assert is_ready(checks)

    asyncio.run(body())


def test_a_store_that_cannot_be_used_is_named_and_the_server_takes_no_work(tmp_path: Path) -> None:
    async def body() -> None:
        async with Penstock.open(tmp_path / "penstock.db") as penstock:
            look = health_checks(penstock)
            await penstock.store.close()
            checks = await look()
            assert checks["store"] == "STORE_CLOSED"
            assert not is_ready(checks)
            await penstock.store.open()
            assert is_ready(await look())

    asyncio.run(body())
