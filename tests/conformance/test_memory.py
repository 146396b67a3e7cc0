"""Memory on every database, and that it really erases."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.errors import Conflict
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.memory import MemoryFull, MemoryPut, MemoryRoom, MemorySpace
from penstock.runtime.ports.platform import AuditQuery, CallRecord
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.tables.audit.records import list_audit
from penstock.runtime.tables.memory import (
    clear_memory,
    delete_memory,
    forget_memory,
    list_memory,
    put_memory,
    read_memory,
    search_memory,
)
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.memory_model import ModelOfMemory
from tests.conformance.platform_stores import (
    AT,
    SEAL,
    claim,
    claimed,
    entry,
    note,
    on_every_platform_store,
    open_sqlite,
    run_bounded,
)

MINE = MemorySpace(tenant="acme", scope="principal", owner="key:a")
OTHERS = (
    MemorySpace(tenant="acme", scope="principal", owner="key:b"),
    MemorySpace(tenant="acme", scope="session", owner="key:a", session="s-1"),
    MemorySpace(tenant="acme", scope="session", owner="key:a", session="s-2"),
    MemorySpace(tenant="acme", scope="session", owner="key:b", session="s-1"),
    MemorySpace(tenant="acme", scope="tenant"),
    MemorySpace(tenant="other", scope="principal", owner="key:a"),
    MemorySpace(tenant="other", scope="tenant"),
)
ROOM = MemoryRoom(entries_max=100, bytes_max=1_000_000, tenant_bytes_max=10_000_000)
SECRET = "xylophone-7391"


async def keys(database: Database, space: MemorySpace = MINE, now: int = AT, **more: Any) -> list[str]:
    page = await list_memory(database, space, now=now, limit=100, **more)
    return [found.key for found in page.entries]


async def found(database: Database, text: str, space: MemorySpace = MINE, now: int = AT) -> list[str]:
    return [item.key for item in await search_memory(database, space, text, now=now, limit=10)]


@on_every_platform_store
async def test_a_value_is_kept_replaced_and_read_back(database: Database) -> None:
    value = {"text": 'Müller \u0000 \U0001f600 "x"', "numbers": [0, -1, 2**53 + 1, 0.1], "none": None, "": []}
    first = note(value=value, updated_by="key:a", untrusted=True)
    assert await put_memory(database, MINE, first, room=ROOM) == MemoryPut(created=True)
    assert await read_memory(database, MINE, "colour", now=AT) == first
    second = note(value=[1], at=AT + 5)
    assert await put_memory(database, MINE, second, room=ROOM) == MemoryPut(created=False)
    assert await read_memory(database, MINE, "colour", now=AT + 5) == replace(second, created_at=AT)
    assert await read_memory(database, MINE, "color", now=AT) is None


@on_every_platform_store
async def test_nothing_of_a_space_is_seen_or_deleted_from_another(database: Database) -> None:
    await put_memory(database, MINE, note(value="my secret word"), room=ROOM)
    for other in OTHERS:
        assert await read_memory(database, other, "colour", now=AT) is None
        assert await keys(database, other) == []
        assert await found(database, "secret", other) == []
        assert not await delete_memory(database, other, "colour", now=AT)
        assert await clear_memory(database, other, now=AT) == 0
        await put_memory(database, other, note(value=f"secret {other}"), room=ROOM)
    assert await found(database, "secret") == ["colour"]
    assert await clear_memory(database, MINE, now=AT) == 1
    for other in OTHERS:
        assert await found(database, "secret", other) == ["colour"]


@on_every_platform_store
async def test_entries_are_listed_by_key_in_pages_and_by_prefix(database: Database) -> None:
    names = [f"a.{number:02}" for number in range(7)] + ["b", "a%", "A.1", "ä"]
    for name in names:
        await put_memory(database, MINE, note(name), room=ROOM)
    read: list[str] = []
    cursor = None
    while True:
        page = await list_memory(database, MINE, now=AT, limit=3, cursor=cursor)
        read += [item.key for item in page.entries]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert read == sorted(names)
    assert await keys(database, prefix="a.") == [f"a.{number:02}" for number in range(7)]
    assert await keys(database, prefix="a%") == ["a%"]


@on_every_platform_store
async def test_a_search_finds_words_of_keys_and_values_the_best_first(database: Database) -> None:
    await put_memory(database, MINE, note("order.A-1042", {"status": "sent", "items": ["Ärmelkanal", 17]}), room=ROOM)
    await put_memory(database, MINE, note("order.A-2000", "lost, not sent", at=AT + 1), room=ROOM)
    await put_memory(database, MINE, note("mood", "happy", at=AT + 2), room=ROOM)
    assert await found(database, "SENT") == ["order.A-2000", "order.A-1042"]
    assert await found(database, "sent 1042") == ["order.A-1042", "order.A-2000"]
    assert await found(database, "ärmelkanal") == ["order.A-1042"]
    assert await found(database, "status") == ["order.A-1042"]
    assert await found(database, "17") == ["order.A-1042"]
    assert await found(database, "hap") == ["mood"]
    assert await found(database, "appy") == []
    for odd in ("", " - ", '"', "* OR words:", "a" * 500, "\u0000"):
        assert await found(database, odd) == []
    assert [item.key for item in await search_memory(database, MINE, "sent", now=AT, limit=1)] == ["order.A-2000"]
    await put_memory(database, MINE, note("mood", "sad", at=AT + 3), room=ROOM)
    assert await found(database, "happy") == []
    await delete_memory(database, MINE, "order.A-2000", now=AT)
    assert await found(database, "sent") == ["order.A-1042"]


@on_every_platform_store
async def test_an_entry_that_has_ended_is_not_there_and_is_forgotten(database: Database) -> None:
    await put_memory(database, MINE, note("short", "word", expires_at=AT + 10), room=ROOM)
    await put_memory(database, MINE, note("long", "word"), room=ROOM)
    assert await keys(database, now=AT + 9) == ["long", "short"]
    assert await keys(database, now=AT + 10) == ["long"]
    assert await read_memory(database, MINE, "short", now=AT + 10) is None
    assert await found(database, "word", now=AT + 10) == ["long"]
    assert not await delete_memory(database, MINE, "short", now=AT + 10)
    tight = replace(ROOM, entries_max=1)
    again = note("short", at=AT + 10)
    assert await put_memory(database, MINE, again, room=tight) == MemoryFull(what="entries", limit=1)
    await put_memory(database, MINE, note("short", "again", at=AT + 20), room=ROOM)
    kept = await read_memory(database, MINE, "short", now=AT + 30)
    assert kept is not None
    assert (kept.created_at, kept.expires_at) == (AT + 20, None)
    await put_memory(database, MINE, note("brief", expires_at=AT + 40, at=AT + 20), room=ROOM)
    assert await forget_memory(database, now=AT + 39, limit=10) == 0
    assert await forget_memory(database, now=AT + 40, limit=10) == 1
    assert await keys(database, now=AT) == ["long", "short"]


@on_every_platform_store
async def test_a_full_space_takes_no_more_and_loses_nothing(database: Database) -> None:
    room = MemoryRoom(entries_max=2, bytes_max=60, tenant_bytes_max=90)
    await put_memory(database, MINE, note("a", "x" * 10), room=room)
    await put_memory(database, MINE, note("b", "x" * 10), room=room)
    assert await put_memory(database, MINE, note("c"), room=room) == MemoryFull(what="entries", limit=2)
    assert await put_memory(database, MINE, note("b", "x" * 60), room=room) == MemoryFull(what="bytes", limit=60)
    kept = await read_memory(database, MINE, "b", now=AT)
    assert kept is not None
    assert kept.value == "x" * 10
    assert await put_memory(database, MINE, note("b", "x" * 40), room=room) == MemoryPut(created=False)
    second, long = OTHERS[0], note("a", "x" * 40)
    assert await put_memory(database, second, long, room=room) == MemoryFull(what="tenant_bytes", limit=90)
    assert await put_memory(database, OTHERS[-1], long, room=room) == MemoryPut(created=True)
    await delete_memory(database, MINE, "b", now=AT)
    assert await put_memory(database, second, long, room=room) == MemoryPut(created=True)


@on_every_platform_store
async def test_a_change_and_the_record_of_its_call_are_stored_together(database: Database) -> None:
    for change in (
        lambda call: put_memory(database, MINE, note(), room=ROOM, call=call),
        lambda call: delete_memory(database, MINE, "colour", now=AT, call=call),
        lambda call: put_memory(database, MINE, note(), room=ROOM, call=call),
        lambda call: clear_memory(database, MINE, now=AT, call=call),
    ):
        await change(CallRecord(entry=entry(), seal=SEAL))
    assert len((await list_audit(database, AuditQuery(tenant="acme", limit=10))).records) == 4
    assert not await delete_memory(database, MINE, "colour", now=AT, call=CallRecord(entry=entry(), seal=SEAL))
    tight = replace(ROOM, entries_max=0)
    await put_memory(database, MINE, note(), room=tight, call=CallRecord(entry=entry(), seal=SEAL))
    assert len((await list_audit(database, AuditQuery(tenant="acme", limit=10))).records) == 4
    taken = claim()
    await claimed(database, taken)
    for refused in (
        lambda call: put_memory(database, MINE, note("new"), room=ROOM, call=call),
        lambda call: delete_memory(database, MINE, "kept", now=AT, call=call),
        lambda call: clear_memory(database, MINE, now=AT, call=call),
    ):
        await put_memory(database, MINE, note("kept"), room=ROOM)
        with pytest.raises(Conflict):
            await refused(CallRecord(claim=replace(taken, digest="other", in_flight_until=taken.in_flight_until + 1)))
        assert await keys(database) == ["kept"]


@on_every_platform_store
async def test_a_database_agrees_with_the_model_on_everything_that_is_done_to_it(database: Database) -> None:
    rng, model = random.Random(7), ModelOfMemory()
    words = ("apple", "Äpfel", "pear", "plum tree", "17", "app")
    room = MemoryRoom(entries_max=4, bytes_max=200, tenant_bytes_max=400)
    for step in range(250):
        now, space = AT + step, rng.choice((MINE, OTHERS[0], OTHERS[4]))
        key, text = f"k{rng.randrange(6)}", rng.choice(words)
        ends = rng.choice((None, now + rng.randrange(1, 30)))
        new = note(key, {"text": f"{text} {rng.choice(words)}"}, at=now, expires_at=ends)
        did = rng.choice(("put", "put", "put", "delete", "clear", "forget", "search", "list"))
        expected: object
        answer: object
        match did:
            case "put":
                expected, answer = model.put(space, new, room=room), await put_memory(database, space, new, room=room)
            case "delete":
                expected = model.delete(space, key, now=now)
                answer = await delete_memory(database, space, key, now=now)
            case "clear" if step % 5 == 0:
                expected, answer = model.clear(space, now=now), await clear_memory(database, space, now=now)
            case "forget":
                expected, answer = model.forget(now=now), await forget_memory(database, now=now, limit=100)
            case "search":
                expected = model.search(space, text, now=now, limit=10)
                answer = await search_memory(database, space, text, now=now, limit=10)
            case _:
                expected, answer = model.page(space, now=now), await list_memory(database, space, now=now, limit=10)
        assert answer == expected, (step, did)


# --- erasing -----------------------------------------------------------------------------------------


def bytes_on_disk(path: Path) -> bytes:
    """Everything that the file and its log have."""
    logs = [Path(f"{path}-wal"), Path(f"{path}-journal")]
    return b"".join(file.read_bytes() for file in (path, *logs) if file.exists())


def traces(path: Path) -> list[str]:
    """Which forms of the secret are on the disk."""
    data = bytes_on_disk(path).lower()
    forms = (SECRET, "xylophone", "7391", b"xylophone".hex(), b"7391".hex())
    return [form for form in forms if form.encode() in data]


async def _filled(database: Database, count: int = 300) -> None:
    """Much beside it, written and changed, so that pages were split and merged."""
    rng = random.Random(3)
    for number in range(count):
        new = note(f"n{rng.randrange(200)}", "x" * rng.randrange(900), at=AT + number)
        await put_memory(database, MINE, new, room=BIG)


BIG = MemoryRoom(entries_max=10_000, bytes_max=10**9, tenant_bytes_max=10**9)


@pytest.mark.parametrize("way", ["delete", "clear", "expiry", "replaced"])
def test_the_bytes_of_what_is_deleted_are_in_neither_the_file_nor_its_log(tmp_path: Path, way: str) -> None:
    path = tmp_path / "store.db"

    async def erase() -> None:
        async with open_sqlite(path) as database:
            await _filled(database)
            ends = AT + 10_000 if way == "expiry" else None
            for number in range(20):
                value = {"note": SECRET, "more": "y" * number * 40}
                await put_memory(database, OTHERS[0], note(f"s{number}", value, expires_at=ends), room=BIG)
            await _filled(database)
            assert traces(path)
            match way:
                case "delete":
                    for number in range(20):
                        assert await delete_memory(database, OTHERS[0], f"s{number}", now=AT)
                case "clear":
                    assert await clear_memory(database, OTHERS[0], now=AT) == 20
                case "expiry":
                    assert await forget_memory(database, now=AT + 10_000, limit=100) == 20
                case _:
                    for number in range(20):
                        await put_memory(database, OTHERS[0], note(f"s{number}", "nothing"), room=BIG)
                    assert await forget_memory(database, now=AT, limit=100) == 0
            assert traces(path) == []
            assert len(await keys(database, now=AT)) > 50
            assert await found(database, "n7", now=AT)
        assert traces(path) == []

    run_bounded(erase())
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.execute("INSERT INTO memory_text (memory_text, rank) VALUES ('integrity-check', 1)")


def test_much_is_erased_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MEMORY_ERASED_AT_ONCE_BYTES_MAX", 100)
    path = tmp_path / "store.db"

    async def erase() -> None:
        async with open_sqlite(path) as database:
            await _filled(database, 50)
            await put_memory(database, OTHERS[0], note(value=SECRET), room=BIG)
            assert await delete_memory(database, OTHERS[0], "colour", now=AT)
            assert await read_memory(database, OTHERS[0], "colour", now=AT) is None
            assert await forget_memory(database, now=AT, limit=10) == 0
            assert traces(path) == []

    run_bounded(erase())


def test_what_a_reader_keeps_in_the_log_is_removed_after_it_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def erase() -> None:
        store = RunStore(SqliteDatabase(path, busy_timeout_ms=10))
        await store.open()
        await put_memory(store.database, MINE, note(value=SECRET), room=ROOM)
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM memory_entries").fetchall()
            assert await delete_memory(store.database, MINE, "colour", now=AT)
            assert await read_memory(store.database, MINE, "colour", now=AT) is None
            assert traces(path)
        assert await forget_memory(store.database, now=AT, limit=10) == 0
        assert traces(path) == []
        await store.close()

    run_bounded(erase())


def test_what_a_damaged_entry_keeps_from_being_overwritten_is_overwritten_once_that_is_repaired(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    def run(statement: str) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(statement)

    async def expire() -> None:
        async with open_sqlite(path) as database:
            await put_memory(database, MINE, note("kept"), room=ROOM)
            await put_memory(database, MINE, note(value=SECRET, expires_at=AT + 1), room=ROOM)
            run(
                "CREATE TRIGGER keep BEFORE DELETE ON memory_entries WHEN OLD.name = 'kept'"
                " BEGIN SELECT RAISE (ABORT, 'damaged'); END"
            )
            assert await forget_memory(database, now=AT + 1, limit=10) == 1
            assert list(database.set_aside.rows()["memory"].values()) == ["damaged"]
            before = database.writer.commits
            assert await forget_memory(database, now=AT + 1, limit=10) == 0
            assert database.writer.commits == before

    async def complete() -> None:
        async with open_sqlite(path) as database:
            assert await forget_memory(database, now=AT + 1, limit=10) == 0
            assert await keys(database) == ["kept"]

    run_bounded(expire())
    assert traces(path)
    run("DROP TRIGGER keep")
    run_bounded(complete())
    assert traces(path) == []
