"""What one open SQLite file owes to other processes that use it, and how large its log is."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from penstock.base.errors import PenstockError
from penstock.runtime.ports.topics import Topic
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.graphs.store import SqliteGraphStore
from penstock.runtime.stores.sqlite.maintenance.probe import StoreProbe
from penstock.runtime.tables.api_keys import put_key, touch_keys
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.graphs.worlds import World
from tests.conformance.platform_stores import key_row
from tests.conformance.stores import definition, run_bounded, start
from tests.opened_database import sqlite_of
from tests.waiting import SECONDS_MAX

# Where the index of the log has the number of its last page.
_PAGES = slice(16, 20)
# Whether any process has locked the byte of the index by which SQLite sees that the index is in use; F_GETLK of Linux.
_IS_LOCKED = """
import fcntl, struct, sys
with open(sys.argv[1] + "-shm", "r+b") as index:
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 128, 1, 0)
    print(struct.unpack("hhqqi4x", fcntl.fcntl(index, fcntl.F_GETLK, lock))[0] != fcntl.F_UNLCK)
"""
_DAMAGE = """
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(int(sys.argv[2]))
    file.write(b"\\xff" * int(sys.argv[3]))
"""
_READS = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('SELECT 1 FROM runs').fetchall()"
_INDEX = "import sys; print(open(sys.argv[1] + '-shm', 'rb').read(20).hex())"


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[SqliteDatabase]:
    database = SqliteDatabase(folder / "penstock.db", synchronous="FULL", busy_timeout_ms=5_000)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


def elsewhere(program: str, path: str) -> str:
    """What a program that another process runs prints."""
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=True, timeout=SECONDS_MAX
    )
    return done.stdout.strip()


async def write(database: SqliteDatabase, rows: int) -> None:
    def insert(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE IF NOT EXISTS filler (bytes)")
        connection.executemany("INSERT INTO filler VALUES (?)", [(os.urandom(3_000),) for _ in range(rows)])

    await database.write_raw(insert)


def test_the_locks_of_the_file_survive_a_look_at_its_log(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as database:
            await write(database, 10)
            assert elsewhere(_IS_LOCKED, database.path) == "True"
            assert database.log_pages() > 0
            assert elsewhere(_IS_LOCKED, database.path) == "True"
            # Without these locks this would clear the index that is mapped here, and end this process with SIGBUS.
            elsewhere(_READS, database.path)
            await write(database, 10)

    asyncio.run(scenario())


def test_the_pages_of_the_log_are_counted_as_its_index_counts_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        counted = []
        async with opened(tmp_path) as database:
            for rows in (1, 40, 7, 300, 2):
                await write(database, rows)
                counted.append(database.log_pages())
                index = bytes.fromhex(elsewhere(_INDEX, database.path))
                assert counted[-1] == int.from_bytes(index[_PAGES], sys.byteorder)
                if rows == 300:
                    await database.checkpoint()  # the log begins anew, with old contents behind the new ones
        assert 0 < counted[-1] < counted[-2]

    asyncio.run(scenario())


def test_a_file_without_a_log_has_no_pages_in_it(tmp_path: Path) -> None:
    assert SqliteDatabase(tmp_path / "absent.db", synchronous="FULL", busy_timeout_ms=0).log_pages() == 0


def test_a_store_that_knows_of_its_damage_starts_no_runs_and_is_not_ready(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def scenario() -> None:
        store = RunStore(SqliteDatabase(path))
        await store.open()
        await store.append(start("first"))
        await sqlite_of(store).cut_log()
        with closing(sqlite3.connect(path)) as connection:
            ((page,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'definitions'")
            ((size,),) = connection.execute("PRAGMA page_size")
        # In another process: closing the file here would drop the locks.
        command = [sys.executable, "-c", _DAMAGE, str(path), str((page - 1) * size), str(size)]
        await asyncio.to_thread(subprocess.run, command, check=True)
        with pytest.raises(PenstockError) as found:
            await sqlite_of(store).read_raw(
                lambda connection: connection.execute("SELECT * FROM definitions").fetchall()
            )
        assert found.value.code == "STORE_CORRUPT"
        with pytest.raises(PenstockError, match="no run is started"):
            await store.append(start("second"))
        with pytest.raises(PenstockError) as unready:
            await StoreProbe(sqlite_of(store)).check()
        assert unready.value.code == "STORE_CORRUPT"
        await store.close()

    run_bounded(scenario())


def test_runs_and_uses_of_keys_change_no_other_topic(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = RunStore(SqliteDatabase(tmp_path / "penstock.db"))
        await store.open()
        try:
            keys = store.database
            await put_key(keys, key_row())
            before, anything = store.changed(*Topic), store.changed(Topic.ANYTHING)
            await store.append(start())
            await touch_keys(keys, {key_row().key_id: 7})
            after = store.changed(*Topic)
            assert store.changed(Topic.ANYTHING) != anything
            assert after[1:] == before[1:], "the first is any change at all"
            await put_key(keys, key_row(revoked_at=1))
            changed = [name for name, was, now in zip(Topic, after, store.changed(*Topic), strict=True) if was != now]
            assert changed == [Topic.ANYTHING, Topic.KEYS]
        finally:
            await store.close()

    run_bounded(scenario())


def test_definitions_and_graphs_change_their_topics(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = RunStore(SqliteDatabase(tmp_path / "penstock.db"))
        await store.open()
        marks = [store.changed(*Topic)]

        def changed() -> list[Topic]:
            marks.append(store.changed(*Topic))
            return [name for name, was, now in zip(Topic, *marks[-2:], strict=True) if was != now]

        try:
            await store.definitions.put(definition(1))
            assert changed() == [Topic.ANYTHING, Topic.DEFINITIONS]
            await store.definitions.put(definition(2))
            assert changed() == [Topic.ANYTHING, Topic.DEFINITIONS]
            await store.definitions.delete(definition(2).name)
            assert changed() == [Topic.ANYTHING, Topic.DEFINITIONS]
            world = await World(SqliteGraphStore(sqlite_of(store))).create()
            assert changed() == [Topic.ANYTHING, Topic.GRAPHS]
            await world.store.create_branch(world.ref, "draft", stamp=world.stamp())
            assert changed() == [Topic.ANYTHING], "what is in a graph has no topic"
            await world.store.delete_graph(world.ref)
            assert changed() == [Topic.ANYTHING, Topic.GRAPHS]
        finally:
            await store.close()

    run_bounded(scenario())


def test_a_topic_that_cannot_be_read_counts_as_changed_every_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as database:
            seen = {database.changed(Topic.KEYS)}
            await database.writer.submit(lambda connection: connection.execute("ALTER TABLE topics RENAME TO lost"))
            for _ in range(3):
                seen.add(database.changed(Topic.KEYS))
                await asyncio.sleep(0)
            assert len(seen) == 4

    run_bounded(scenario())
