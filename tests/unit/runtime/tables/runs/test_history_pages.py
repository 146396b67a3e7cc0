"""Moves in the SQLite file: one short page each, and their shapes once."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from penstock.base.errors import CorruptHistory, Rejected, Unavailable
from penstock.engine.pages import Field, RecordShape, Shape, expand
from penstock.engine.records import Record
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.maintenance.backups import backup, check_integrity
from penstock.runtime.stores.sqlite.schema import migrations
from penstock.runtime.stores.sqlite.schema.files import open_for_writing
from penstock.runtime.stores.sqlite.transaction import SqliteTransaction
from penstock.runtime.tables.codec import encode_json
from penstock.runtime.tables.runs.shapes import ShapeNumbers
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.stores import AT, run_bounded, start
from tests.conformance.test_store_moves import SHAPE, moved, records_of
from tests.waiting import SECONDS_MAX


def rows(path: Path, statement: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def change(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        assert connection.execute(statement).rowcount == 1
    connection.close()


async def stored(path: Path, runs: int = 3) -> None:
    store = RunStore(SqliteDatabase(path))
    await store.open()
    try:
        firsts = [start(f"r_{number}") for number in range(runs)]
        await asyncio.gather(*(store.append(first) for first in firsts))
        await asyncio.gather(*(store.append(moved(first, 1, {"ok": True})) for first in firsts))
    finally:
        await store.close()


def load(path: Path, run_id: str) -> list[Record]:
    return asyncio.run(asyncio.wait_for(loaded(path, run_id), SECONDS_MAX))


async def loaded(path: Path, run_id: str) -> list[Record]:
    store = RunStore(SqliteDatabase(path))
    await store.open()
    try:
        found = await store.load(run_id)
        assert found is not None
        return list(found.records)
    finally:
        await store.close()


def test_a_move_is_one_short_page_and_its_shape_is_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    run_bounded(stored(path))
    assert rows(path, "SELECT content FROM shapes") == [(SHAPE.content,)]
    pages = rows(path, "SELECT records FROM history WHERE first_seq = 3")
    assert pages == [(b'[1,%d,1,{"ok":true}]' % (AT + 2),)] * 3
    run_bounded(stored_again(path))
    assert len(rows(path, "SELECT number FROM shapes")) == 1


async def stored_again(path: Path) -> None:
    store = RunStore(SqliteDatabase(path))
    await store.open()
    try:
        first = start("later")
        await store.append(first)
        await store.append(moved(first, 1, None))
    finally:
        await store.close()


def test_a_shape_whose_transaction_was_rolled_back_gets_its_number_again() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute(migrations.MIGRATIONS[8])
    numbers, move = ShapeNumbers(), moved(start("r_1"), 1, None).move
    assert move is not None
    for end in ("ROLLBACK", "COMMIT", "COMMIT", "COMMIT"):
        transaction = SqliteTransaction(connection)
        connection.execute("BEGIN")
        assert numbers.page(transaction, move) == b"[1,%d,1,null]" % move.at
        assert numbers.page(transaction, move) == b"[1,%d,1,null]" % move.at
        assert connection.execute("SELECT number, content FROM shapes").fetchall() == [(1, SHAPE.content)]
        connection.execute(end)


def test_a_shape_that_is_missing_or_changed_is_found_and_nothing_is_made_up(tmp_path: Path) -> None:
    for statement, code in (
        ("DELETE FROM shapes", "SHAPE_MISSING"),
        ("UPDATE shapes SET content = replace(content, 'visit', 'vixit')", "SHAPE_CHANGED"),
    ):
        path = tmp_path / f"{code}.db"
        run_bounded(stored(path, runs=1))
        change(path, statement)
        with pytest.raises(CorruptHistory) as refused:
            load(path, "r_0")
        assert refused.value.code == code
        assert code in {problem.code for problem in check_integrity(path).problems}
    with pytest.raises(Unavailable) as damaged:
        backup(tmp_path / "SHAPE_CHANGED.db", tmp_path / "copy.db")
    assert damaged.value.code == "SHAPE_CHANGED"


@pytest.mark.parametrize("page", ["[1]", "[1,5]", '[1,"x",1,2]', "[1,5,1,", "[12345678,5,1,2]"])
def test_a_damaged_move_is_refused(tmp_path: Path, page: str) -> None:
    path = tmp_path / "store.db"
    run_bounded(stored(path, runs=1))
    change(path, f"UPDATE history SET records = CAST('{page}' AS BLOB) WHERE first_seq = 3")
    with pytest.raises(CorruptHistory):
        load(path, "r_0")
    assert {"STORE_CORRUPT", "SHAPE_MISSING"} & {problem.code for problem in check_integrity(path).problems}


def test_a_shape_that_asks_for_what_a_move_does_not_have_is_refused() -> None:
    for field in (Field("a", "given", 7), Field("a", "members", 0), Field("a", "after", "soon")):
        with pytest.raises(CorruptHistory):
            expand(Shape((RecordShape("event", "X", (field,)),)), "run", 1, 5, [None])


def test_a_file_of_the_format_before_moves_is_read_and_written_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", 7)
    first = start("r_1")
    older = open_for_writing(str(path))
    older.execute(
        "INSERT INTO runs (key, run_id, workflow_name, workflow_version, definition_hash, status, seq, created_at,"
        " updated_at, has_work, terminal, tenant, epoch)"
        " VALUES (1, 'r_1', 'refund', '1.0.0', 'hash-1', 'running', 2, :at, :at, 0, 0, 'default', 0)",
        {"at": first.row.created_at},
    )
    older.execute("INSERT INTO history VALUES (1, 1, 2, ?)", (encode_json(first.records),))
    older.close()
    before = rows(path, "SELECT * FROM history")
    monkeypatch.undo()

    async def newer() -> None:
        store = RunStore(SqliteDatabase(path))
        await store.open()
        await store.append(moved(first, 1, "new"))
        await store.close()

    run_bounded(newer())
    assert rows(path, "SELECT run, first_seq, last_seq, records FROM history WHERE first_seq = 1") == before
    found = load(path, "r_1")
    assert found == [*first.records, *records_of("r_1", 3, first.row.created_at + 2, 1, "new")]
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", 7)
    with pytest.raises(Rejected) as refused:
        load(path, "r_1")
    assert refused.value.code == "STORE_TOO_NEW"
