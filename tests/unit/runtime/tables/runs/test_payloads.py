"""Large values are kept once by their hash, come back in their places, and go with the last run that holds them."""

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.app.penstock import Penstock
from penstock.base import limits
from penstock.base.errors import CorruptHistory, PenstockError
from penstock.base.json import JsonValue
from penstock.engine.records import Record
from penstock.runtime.ports.runs import Appended, RunWrite
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.maintenance.backups import backup, check_integrity, restore
from penstock.runtime.stores.sqlite.schema import files, migrations
from penstock.runtime.stores.sqlite.transaction import SqliteTransaction
from penstock.runtime.tables.codec import encode_json
from penstock.runtime.tables.runs.payloads import PageSplitter, PayloadReader, keep_payloads
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.stores import record, run_bounded, start, step
from tests.unit.runtime.stores.real_runs import WORKFLOWS

LARGE = "x" * (limits.PAYLOAD_INLINE_BYTES_MAX + 1)


def rows(path: Path, statement: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def execute(path: Path, statement: str, *parameters: object) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement, parameters)
    connection.commit()
    connection.close()


def counts(path: Path) -> tuple[int, int]:
    """How many payloads there are, and how many uses of them."""
    [(payloads,)] = rows(path, "SELECT count(*) FROM payloads")
    [(uses,)] = rows(path, "SELECT count(*) FROM payload_uses")
    return payloads, uses


def split_page(records: Sequence[Record]) -> tuple[bytes, dict[str, bytes]]:
    """A page as it is stored, and what was taken out of it."""
    splitter = PageSplitter()
    return splitter.page(records), splitter.payloads


# --- pages ---------------------------------------------------------------------------------------

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=4), inner, max_size=5),
    max_leaves=30,
)


@given(payloads=st.lists(st.dictionaries(st.text(max_size=4), values, max_size=4), min_size=1, max_size=4))
def test_whatever_is_taken_out_of_a_page_comes_back(payloads: list[dict[str, JsonValue]]) -> None:
    records = tuple(Record(number + 1, "event", "X", payload, 7) for number, payload in enumerate(payloads))
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for statement in migrations.MIGRATIONS[2].split(";"):
        connection.execute(statement)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "PAYLOAD_INLINE_BYTES_MAX", 24)
        page, contents = split_page(records)
    keep_payloads(SqliteTransaction(connection), {1: contents})
    reader = PayloadReader(SqliteTransaction(connection))
    assert encode_json(reader.records(page)) == encode_json(records)
    assert reader.hashes == set(contents)
    connection.close()


@given(
    payloads=st.lists(st.dictionaries(st.text(max_size=4), values, max_size=4), min_size=1, max_size=8),
    bounds=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    inline_max=st.sampled_from((24, 10_000)),
)
def test_a_part_of_a_page_is_what_stands_there_in_the_whole(
    payloads: list[dict[str, JsonValue]], bounds: tuple[int, int], inline_max: int
) -> None:
    records = tuple(Record(number + 1, "event", "X", payload, 7) for number, payload in enumerate(payloads))
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for statement in migrations.MIGRATIONS[2].split(";"):
        connection.execute(statement)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "PAYLOAD_INLINE_BYTES_MAX", inline_max)
        page, contents = split_page(records)
    keep_payloads(SqliteTransaction(connection), {1: contents})
    part = slice(*bounds)
    assert encode_json(PayloadReader(SqliteTransaction(connection)).records(page, part)) == encode_json(records[part])
    connection.close()


@pytest.mark.parametrize("value", ["small", LARGE])
def test_a_part_of_a_page_may_hold_half_of_a_surrogate_pair(value: str) -> None:
    records = tuple(record(number, {"text": "\ud800", "value": value}) for number in range(1, 6))
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for statement in migrations.MIGRATIONS[2].split(";"):
        connection.execute(statement)
    page, contents = split_page(records)
    keep_payloads(SqliteTransaction(connection), {1: contents})
    assert PayloadReader(SqliteTransaction(connection)).records(page, slice(1, 3)) == list(records[1:3])
    connection.close()


@pytest.mark.parametrize("value", [{}, {"document": LARGE}])
def test_a_decision_of_many_records_is_stored_in_rows_that_are_quick_to_look_over(
    tmp_path: Path, value: dict[str, JsonValue]
) -> None:
    path, count, beside = tmp_path / "store.db", 2_345, 10
    first = start(records=count, payload=value)
    then = step(first, records=count, payload=value)

    async def body() -> None:
        store = RunStore(SqliteDatabase(path))
        await store.open()
        # Alone, and together with others: both ways of storing write the same rows.
        other = start("r_2", records=beside)
        assert list(await asyncio.gather(store.append(first), store.append(other))) == [Appended(), Appended()]
        assert await store.append(then) == Appended()
        stored = (*first.records, *then.records)
        loaded = await store.load("r_1")
        assert loaded is not None
        assert loaded.records == stored
        for after in (0, 499, 500, 501, count - 1, count, count + 500, 2 * count - 1):
            assert await store.history("r_1", after_seq=after, limit=60) == stored[after : after + 60]
        await store.close()

    run_bounded(body())
    sizes = rows(path, "SELECT last_seq - first_seq + 1 FROM history ORDER BY rowid")
    assert max(sizes) == (limits.STORED_PAGE_RECORDS_MAX,)
    assert sum(size for (size,) in sizes) == 2 * count + beside
    assert counts(path) == ((1, 1) if value else (0, 0))


def test_a_small_value_stays_where_it_is() -> None:
    records = tuple(record(number, {"text": "x" * 1_000}) for number in range(1, 200))
    page = encode_json(records)
    assert len(page) > limits.PAYLOAD_INLINE_BYTES_MAX
    assert split_page(records) == (page, {})


def test_the_part_that_is_large_is_taken_out_not_what_is_around_it() -> None:
    contents = [
        set(split_page(made)[1])
        for made in ((record(1, {"state": {"round": number, "document": LARGE}}),) for number in range(3))
    ]
    assert contents[0] == contents[1] == contents[2]
    assert len(contents[0]) == 1


def test_a_value_with_large_parts_that_is_large_without_them_is_taken_out_too() -> None:
    wide: JsonValue = {"document": LARGE, **{f"n{number}": "y" * 1_000 for number in range(100)}}
    made = (record(1, {"state": wide}),)
    page, contents = split_page(made)
    assert len(contents) == 2
    assert len(page) < 1_000


# --- in the file -----------------------------------------------------------------------------------


def test_a_value_in_many_records_and_runs_is_stored_once(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def scenario() -> None:
        store = RunStore(SqliteDatabase(path))
        await store.open()
        for run_id in ("r_1", "r_2"):
            write = start(run_id, payload={"state": {"document": LARGE}})
            await store.append(write)
            for number in range(10):
                write = step(write, payload={"state": {"document": LARGE, "round": number}})
                assert await store.append(write) == Appended()
        await store.close()

    run_bounded(scenario())
    assert counts(path) == (1, 2)
    assert path.stat().st_size < 8 * len(LARGE)


def test_a_payload_goes_with_the_last_run_that_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def scenario() -> None:
        store = RunStore(SqliteDatabase(path))
        await store.open()
        for run_id in ("r_1", "r_2"):
            await store.append(start(run_id, payload={"a": LARGE, "own": f"{run_id}{LARGE}"}, terminal=True))
        assert counts(path) == (3, 4)
        assert await store.delete_runs(["r_1"]) == 1
        assert counts(path) == (2, 2)
        kept = await store.load("r_2")
        assert kept is not None
        assert kept.records[0].payload == {"a": LARGE, "own": f"r_2{LARGE}"}
        assert await store.delete_ended(before=2**60, limit=10) == 1
        assert counts(path) == (0, 0)
        await store.close()

    run_bounded(scenario())


def test_a_decision_that_is_refused_leaves_no_payload(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def scenario() -> None:
        store = RunStore(SqliteDatabase(path))
        await store.open()
        await store.append(start())
        await store.append(start(payload={"a": LARGE}))
        await store.close()

    run_bounded(scenario())
    assert counts(path) == (0, 0)


def test_a_file_of_the_first_release_gets_payloads_and_its_large_pages_stay_readable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "store.db"
    records = (record(1, {"a": LARGE}), record(2))
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "SCHEMA_VERSION", 1)
        connection = files.open_for_writing(str(path))
        connection.execute(
            "INSERT INTO runs (key, run_id, workflow_name, workflow_version, definition_hash, status, seq, created_at,"
            " updated_at, has_work, terminal) VALUES (1, 'r_1', 'refund', '1.0.0', 'hash-1', 'running', 2, 5, 5, 0, 0)"
        )
        connection.execute("INSERT INTO history VALUES (1, 1, 2, ?)", (encode_json(records),))
        connection.close()

    async def look() -> None:
        store = RunStore(SqliteDatabase(path))
        await store.open()
        found = await store.load("r_1")
        assert found is not None
        assert found.records == records
        following = RunWrite(expected_seq=2, row=replace(found.row, seq=3), records=(record(3, {"a": LARGE}),))
        assert await store.append(following) == Appended()
        assert await store.history("r_1") == (*records, *following.records)
        await store.close()

    run_bounded(look())
    assert counts(path) == (1, 1)


# --- damage --------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with real runs, one of which was given a large value."""
    path = tmp_path / "store.db"

    async def fill() -> None:
        async with Penstock.open(path, workflows=WORKFLOWS) as penstock:
            run = await penstock.start("ask", run_id="asking")
            await run.signal("note", {"text": LARGE})

    run_bounded(fill())
    assert counts(path) == (1, 1)
    assert check_integrity(path).ok
    return path


def codes(path: Path) -> set[tuple[str, str | None]]:
    return {(problem.code, problem.run_id) for problem in check_integrity(path).problems}


def read_error(path: Path) -> str:
    async def read() -> None:
        store = RunStore(SqliteDatabase(path))
        await store.open()
        try:
            await store.load("asking")
        finally:
            await store.close()

    with pytest.raises(CorruptHistory) as caught:
        run_bounded(read())
    assert caught.value.hint
    return caught.value.code


DAMAGES = {
    "PAYLOAD_CHANGED": "UPDATE payloads SET content = CAST(replace(CAST(content AS TEXT), 'xxx', 'xyx') AS BLOB)",
    "PAYLOAD_MISSING": "DELETE FROM payloads",
}


@pytest.mark.parametrize("code", DAMAGES)
def test_a_payload_that_is_not_what_it_was_is_found(code: str, path: Path, tmp_path: Path) -> None:
    good, copy = tmp_path / "good.db", tmp_path / "copy.db"
    backup(path, good)
    execute(path, DAMAGES[code])
    assert codes(path) == {(code, None), (code, "asking")}
    assert read_error(path) == code
    for work in (lambda: backup(path, copy), lambda: restore(path, copy)):
        with pytest.raises(PenstockError) as caught:
            work()
        assert caught.value.code == code
        assert caught.value.hint
        assert not copy.exists()
    restore(good, path, force=True)
    assert check_integrity(path).ok


def test_payloads_and_uses_that_belong_to_nobody_are_found(path: Path) -> None:
    execute(path, "INSERT INTO payload_uses VALUES (77, x'00')")
    execute(path, "INSERT INTO payloads VALUES (x'01', x'00')")
    told = " ".join(problem.message for problem in check_integrity(path).problems)
    assert "1 large values belong to no run" in told
    assert "1 uses of large values belong to no run" in told


def test_a_payload_that_could_go_too_soon_is_found(path: Path) -> None:
    execute(path, "DELETE FROM payload_uses")
    assert ("INDEX_DIFFERS", "asking") in codes(path)


@pytest.mark.parametrize(
    "page",
    [
        b'{"records": [], "payloads": [[[0, 3, "a"], "00"]]}',
        b'{"records": [], "payloads": [[[], "zz"]]}',
        b'{"records": 1}',
        b"{}",
        b"\x00",
        b"",
    ],
)
def test_a_page_that_makes_no_sense_is_a_corrupt_history(page: bytes, path: Path) -> None:
    execute(path, "UPDATE history SET records = ? WHERE run = (SELECT key FROM runs WHERE run_id = 'asking')", page)
    assert read_error(path) in ("STORE_CORRUPT", "PAYLOAD_MISSING")
    assert not check_integrity(path).ok
