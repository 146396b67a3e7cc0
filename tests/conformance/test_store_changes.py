"""What was stored, in the order in which it was stored: found by everybody, and after everything."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from penstock.runtime.ports.runs import ChangePage
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.stores import AT, on_every_store, run_bounded, start, step

NOW = AT + 10_000_000


def told(page: ChangePage) -> list[tuple[str, int, int]]:
    return [(change.row.run_id, change.first_seq, change.last_seq) for change in page.changes]


async def everything(store: RunStore, after: str | None, since: int = 0, limit: int = 1_000) -> ChangePage:
    return await store.changes(after=after, since=since, limit=limit)


@on_every_store
async def test_decisions_come_in_the_order_in_which_they_were_stored(store: RunStore) -> None:
    one, two = start("r_1"), start("r_2", tenant="acme")
    await store.append(one)
    await store.append(two)
    await store.append(step(one, records=3, status="completed", terminal=True))
    page = await everything(store, None)
    assert told(page) == [("r_1", 1, 2), ("r_2", 1, 2), ("r_1", 3, 5)]
    assert page.changes[0].row == await store.row("r_1")
    assert page.changes[1].row.tenant == "acme"
    assert not page.has_more


@on_every_store
async def test_a_position_goes_on_where_it_was(store: RunStore) -> None:
    await store.append(start("r_1"))
    position = (await everything(store, None)).position
    assert told(await everything(store, position)) == []
    assert (await everything(store, position)).position == position
    await store.append(start("r_2"))
    page = await everything(store, position)
    assert told(page) == [("r_2", 1, 2)]
    assert told(await everything(store, page.position)) == []


@on_every_store
async def test_pages_leave_nothing_out(store: RunStore) -> None:
    for number in range(7):
        await store.append(start(f"r_{number}"))
    position: str | None = None
    found: list[str] = []
    for _ in range(10):
        page = await store.changes(after=position, since=0, limit=3)
        found += [change.row.run_id for change in page.changes]
        position = page.position
        if not page.has_more:
            break
    assert found == [f"r_{number}" for number in range(7)]


@on_every_store
async def test_without_a_position_only_what_moved_lately_comes(store: RunStore) -> None:
    await store.append(start("r_old"))
    await store.append(start("r_new", created_at=NOW, updated_at=NOW))
    page = await everything(store, None, since=NOW)
    assert told(page) == [("r_new", 1, 2)]
    late = await everything(store, None, since=NOW + 10_000_000)
    assert told(late) == []
    await store.append(start("r_newer"))
    assert told(await everything(store, late.position)) == [("r_newer", 1, 2)]


@on_every_store
async def test_an_empty_store_gives_a_position_too(store: RunStore) -> None:
    page = await everything(store, None, since=NOW)
    assert told(page) == []
    await store.append(start("r_1"))
    assert told(await everything(store, page.position, since=NOW)) == [("r_1", 1, 2)]


@on_every_store
async def test_of_deleted_runs_nothing_comes(store: RunStore) -> None:
    await store.append(start("r_1", status="completed", terminal=True))
    await store.append(start("r_2"))
    await store.delete_runs(["r_1"])
    assert told(await everything(store, None)) == [("r_2", 1, 2)]


@on_every_store
async def test_what_was_stored_after_the_last_run_was_deleted_is_not_missed(store: RunStore) -> None:
    await store.append(start("r_1"))
    await store.append(start("r_2", status="completed", terminal=True))
    position = (await everything(store, None)).position
    await store.delete_runs(["r_2"])
    # These take the place of what was deleted, and more.
    for number in range(3, 6):
        await store.append(start(f"r_{number}", created_at=NOW, updated_at=NOW))
    found = [name for name, _, _ in told(await everything(store, position, since=NOW))]
    assert found[-3:] == ["r_3", "r_4", "r_5"]


@on_every_store
async def test_a_position_from_elsewhere_is_like_none(store: RunStore) -> None:
    await store.append(start("r_1", created_at=NOW, updated_at=NOW))
    for strange in ("", "x", "999999", "7.7.7", "1.2.3", "-1", "²"):
        assert told(await everything(store, strange, since=NOW)) == [("r_1", 1, 2)], strange


def test_what_another_process_stored_is_found(tmp_path: Path) -> None:
    async def scenario() -> None:
        here, there = RunStore(SqliteDatabase(tmp_path / "store.db")), RunStore(SqliteDatabase(tmp_path / "store.db"))
        await here.open()
        await there.open()
        try:
            position = (await everything(here, None)).position
            await there.append(start("r_1"))
            assert told(await everything(here, position)) == [("r_1", 1, 2)]
        finally:
            await there.close()
            await here.close()

    run_bounded(scenario())


@pytest.mark.parametrize("runs", [0, 1, 120])
def test_a_packed_file_loses_nothing_that_is_new(tmp_path: Path, runs: int) -> None:
    async def scenario() -> None:
        store = RunStore(SqliteDatabase(tmp_path / "store.db"))
        await store.open()
        for number in range(runs):
            await store.append(start(f"r_old{number}", status="completed", terminal=True))
        await store.append(start("r_last", created_at=NOW - 300_000, updated_at=NOW - 300_000))
        position = (await everything(store, None)).position
        await store.delete_runs([f"r_old{number}" for number in range(0, runs, 2)])
        await store.close()
        with sqlite3.connect(tmp_path / "store.db") as connection:
            connection.execute("VACUUM")
        connection.close()
        await store.open()
        await store.append(start("r_new", created_at=NOW, updated_at=NOW))
        found = [name for name, _, _ in told(await everything(store, position, since=NOW))]
        assert found[-1] == "r_new"
        assert len(found) <= 2
        await store.close()

    run_bounded(scenario())


def test_looking_back_stops_at_old_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = RunStore(SqliteDatabase(tmp_path / "store.db"))
        await store.open()
        await asyncio.gather(*(store.append(start(f"r_{number}")) for number in range(300)))
        late = start("r_0")
        await store.append(step(late, updated_at=NOW))
        found = told(await everything(store, None, since=NOW))
        assert ("r_0", 3, 3) in found
        assert len(found) < 60
        await store.close()

    run_bounded(scenario())
