"""What every memory store does: the contract of the `MemoryStore` port, and that SQLite really erases."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.errors import Conflict
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.memory import (
    MemoryEntry,
    MemoryFull,
    MemoryPut,
    MemoryRoom,
    MemorySpace,
    MemoryStore,
)
from penstock.runtime.ports.platform import AuditQuery, CallRecord
from penstock.runtime.stores.sqlite.memory.store import SqliteMemoryStore
from penstock.runtime.stores.sqlite.runs.store import SqliteRunStore
from penstock.runtime.tables.audit.records import list_audit
from tests.conformance.memory_model import ModelOfMemory
from tests.conformance.platform_stores import SEAL, claim, claimed, entry
from tests.conformance.stores import AT, run_bounded

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


@asynccontextmanager
async def in_sqlite(folder: Path) -> AsyncIterator[tuple[MemoryStore, Database]]:
    store = SqliteRunStore(folder / "store.db")
    await store.open()
    try:
        yield SqliteMemoryStore(store.database), store.database
    finally:
        await store.close()


STORES: dict[str, Callable[[Path], AbstractAsyncContextManager[tuple[MemoryStore, Database]]]] = {
    "sqlite": in_sqlite,
}


def on_every_store(scenario: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @pytest.mark.parametrize("kind", STORES)
    def test(kind: str, tmp_path: Path) -> None:
        async def with_store() -> None:
            async with STORES[kind](tmp_path) as (store, platform):
                await scenario(store, platform)

        run_bounded(with_store())

    test.__name__, test.__doc__ = scenario.__name__, scenario.__doc__
    return test


def note(key: str = "colour", value: Any = "green", at: int = AT, **more: Any) -> MemoryEntry:
    return MemoryEntry(key=key, value=value, created_at=at, updated_at=at, **more)


async def keys(store: MemoryStore, space: MemorySpace = MINE, now: int = AT, **more: Any) -> list[str]:
    page = await store.list_entries(space, now=now, limit=100, **more)
    return [found.key for found in page.entries]


async def found(store: MemoryStore, text: str, space: MemorySpace = MINE, now: int = AT) -> list[str]:
    return [item.key for item in await store.search(space, text, now=now, limit=10)]


@on_every_store
async def test_a_value_is_kept_replaced_and_read_back(store: MemoryStore, platform: Database) -> None:
    value = {"text": 'Müller \u0000 \U0001f600 "x"', "numbers": [0, -1, 2**53 + 1, 0.1], "none": None, "": []}
    first = note(value=value, updated_by="key:a", untrusted=True)
    assert await store.put(MINE, first, room=ROOM) == MemoryPut(created=True)
    assert await store.get(MINE, "colour", now=AT) == first
    second = note(value=[1], at=AT + 5)
    assert await store.put(MINE, second, room=ROOM) == MemoryPut(created=False)
    assert await store.get(MINE, "colour", now=AT + 5) == replace(second, created_at=AT)
    assert await store.get(MINE, "color", now=AT) is None


@on_every_store
async def test_nothing_of_a_space_is_seen_or_deleted_from_another(store: MemoryStore, platform: Database) -> None:
    await store.put(MINE, note(value="my secret word"), room=ROOM)
    for other in OTHERS:
        assert await store.get(other, "colour", now=AT) is None
        assert await keys(store, other) == []
        assert await found(store, "secret", other) == []
        assert not await store.delete(other, "colour", now=AT)
        assert await store.clear(other, now=AT) == 0
        await store.put(other, note(value=f"secret {other}"), room=ROOM)
    assert await found(store, "secret") == ["colour"]
    assert await store.clear(MINE, now=AT) == 1
    for other in OTHERS:
        assert await found(store, "secret", other) == ["colour"]


@on_every_store
async def test_entries_are_listed_by_key_in_pages_and_by_prefix(store: MemoryStore, platform: Database) -> None:
    names = [f"a.{number:02}" for number in range(7)] + ["b", "a%", "A.1", "ä"]
    for name in names:
        await store.put(MINE, note(name), room=ROOM)
    read: list[str] = []
    cursor = None
    while True:
        page = await store.list_entries(MINE, now=AT, limit=3, cursor=cursor)
        read += [item.key for item in page.entries]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert read == sorted(names)
    assert await keys(store, prefix="a.") == [f"a.{number:02}" for number in range(7)]
    assert await keys(store, prefix="a%") == ["a%"]


@on_every_store
async def test_a_search_finds_words_of_keys_and_values_the_best_first(store: MemoryStore, platform: Database) -> None:
    await store.put(MINE, note("order.A-1042", {"status": "sent", "items": ["Ärmelkanal", 17]}), room=ROOM)
    await store.put(MINE, note("order.A-2000", "lost, not sent", at=AT + 1), room=ROOM)
    await store.put(MINE, note("mood", "happy", at=AT + 2), room=ROOM)
    assert await found(store, "SENT") == ["order.A-2000", "order.A-1042"]
    assert await found(store, "sent 1042") == ["order.A-1042", "order.A-2000"]
    assert await found(store, "ärmelkanal") == ["order.A-1042"]
    assert await found(store, "status") == ["order.A-1042"]
    assert await found(store, "17") == ["order.A-1042"]
    assert await found(store, "hap") == ["mood"]
    assert await found(store, "appy") == []
    for odd in ("", " - ", '"', "* OR words:", "a" * 500, "\u0000"):
        assert await found(store, odd) == []
    assert [item.key for item in await store.search(MINE, "sent", now=AT, limit=1)] == ["order.A-2000"]
    await store.put(MINE, note("mood", "sad", at=AT + 3), room=ROOM)
    assert await found(store, "happy") == []
    await store.delete(MINE, "order.A-2000", now=AT)
    assert await found(store, "sent") == ["order.A-1042"]


@on_every_store
async def test_an_entry_that_has_ended_is_not_there_and_is_forgotten(store: MemoryStore, platform: Database) -> None:
    await store.put(MINE, note("short", "word", expires_at=AT + 10), room=ROOM)
    await store.put(MINE, note("long", "word"), room=ROOM)
    assert await keys(store, now=AT + 9) == ["long", "short"]
    assert await keys(store, now=AT + 10) == ["long"]
    assert await store.get(MINE, "short", now=AT + 10) is None
    assert await found(store, "word", now=AT + 10) == ["long"]
    assert not await store.delete(MINE, "short", now=AT + 10)
    tight = replace(ROOM, entries_max=1)
    assert await store.put(MINE, note("short", at=AT + 10), room=tight) == MemoryFull(what="entries", limit=1)
    await store.put(MINE, note("short", "again", at=AT + 20), room=ROOM)
    kept = await store.get(MINE, "short", now=AT + 30)
    assert kept is not None
    assert (kept.created_at, kept.expires_at) == (AT + 20, None)
    await store.put(MINE, note("brief", expires_at=AT + 40, at=AT + 20), room=ROOM)
    assert await store.forget(now=AT + 39, limit=10) == 0
    assert await store.forget(now=AT + 40, limit=10) == 1
    assert await keys(store, now=AT) == ["long", "short"]


@on_every_store
async def test_a_full_space_takes_no_more_and_loses_nothing(store: MemoryStore, platform: Database) -> None:
    room = MemoryRoom(entries_max=2, bytes_max=60, tenant_bytes_max=90)
    await store.put(MINE, note("a", "x" * 10), room=room)
    await store.put(MINE, note("b", "x" * 10), room=room)
    assert await store.put(MINE, note("c"), room=room) == MemoryFull(what="entries", limit=2)
    assert await store.put(MINE, note("b", "x" * 60), room=room) == MemoryFull(what="bytes", limit=60)
    kept = await store.get(MINE, "b", now=AT)
    assert kept is not None
    assert kept.value == "x" * 10
    assert await store.put(MINE, note("b", "x" * 40), room=room) == MemoryPut(created=False)
    second = OTHERS[0]
    assert await store.put(second, note("a", "x" * 40), room=room) == MemoryFull(what="tenant_bytes", limit=90)
    assert await store.put(OTHERS[-1], note("a", "x" * 40), room=room) == MemoryPut(created=True)
    await store.delete(MINE, "b", now=AT)
    assert await store.put(second, note("a", "x" * 40), room=room) == MemoryPut(created=True)


@on_every_store
async def test_a_change_and_the_record_of_its_call_are_stored_together(store: MemoryStore, platform: Database) -> None:
    for change in (
        lambda call: store.put(MINE, note(), room=ROOM, call=call),
        lambda call: store.delete(MINE, "colour", now=AT, call=call),
        lambda call: store.put(MINE, note(), room=ROOM, call=call),
        lambda call: store.clear(MINE, now=AT, call=call),
    ):
        await change(CallRecord(entry=entry(), seal=SEAL))
    assert len((await list_audit(platform, AuditQuery(tenant="acme", limit=10))).records) == 4
    assert not await store.delete(MINE, "colour", now=AT, call=CallRecord(entry=entry(), seal=SEAL))
    tight = replace(ROOM, entries_max=0)
    await store.put(MINE, note(), room=tight, call=CallRecord(entry=entry(), seal=SEAL))
    assert len((await list_audit(platform, AuditQuery(tenant="acme", limit=10))).records) == 4
    taken = claim()
    await claimed(platform, taken)
    for refused in (
        lambda call: store.put(MINE, note("new"), room=ROOM, call=call),
        lambda call: store.delete(MINE, "kept", now=AT, call=call),
        lambda call: store.clear(MINE, now=AT, call=call),
    ):
        await store.put(MINE, note("kept"), room=ROOM)
        with pytest.raises(Conflict):
            await refused(CallRecord(claim=replace(taken, digest="other", in_flight_until=taken.in_flight_until + 1)))
        assert await keys(store) == ["kept"]


def test_a_store_agrees_with_the_model_on_everything_that_is_done_to_it(tmp_path: Path) -> None:
    rng = random.Random(7)
    words = ("apple", "Äpfel", "pear", "plum tree", "17", "app")

    async def compare() -> None:
        one = ModelOfMemory()
        async with in_sqlite(tmp_path) as (other, _):
            for step in range(250):
                now, space = AT + step, rng.choice((MINE, OTHERS[0], OTHERS[4]))
                key, text = f"k{rng.randrange(6)}", rng.choice(words)
                ends = rng.choice((None, now + rng.randrange(1, 30)))
                new = note(key, {"text": f"{text} {rng.choice(words)}"}, at=now, expires_at=ends)
                room = MemoryRoom(entries_max=4, bytes_max=200, tenant_bytes_max=400)
                did = rng.choice(("put", "put", "put", "delete", "clear", "forget", "search", "list"))
                answers: list[object] = []
                for store in (one, other):
                    match did:
                        case "put":
                            answers.append(await store.put(space, new, room=room))
                        case "delete":
                            answers.append(await store.delete(space, key, now=now))
                        case "clear" if step % 5 == 0:
                            answers.append(await store.clear(space, now=now))
                        case "forget":
                            answers.append(await store.forget(now=now, limit=100))
                        case "search":
                            answers.append(await store.search(space, text, now=now, limit=10))
                        case _:
                            answers.append(await store.list_entries(space, now=now, limit=10))
                assert answers[0] == answers[1], (step, did)

    run_bounded(compare())


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


async def _filled(store: MemoryStore, count: int = 300) -> None:
    """Much beside it, written and changed, so that pages were split and merged."""
    rng = random.Random(3)
    for number in range(count):
        await store.put(MINE, note(f"n{rng.randrange(200)}", "x" * rng.randrange(900), at=AT + number), room=BIG)


BIG = MemoryRoom(entries_max=10_000, bytes_max=10**9, tenant_bytes_max=10**9)


@pytest.mark.parametrize("way", ["delete", "clear", "expiry", "replaced"])
def test_the_bytes_of_what_is_deleted_are_in_neither_the_file_nor_its_log(tmp_path: Path, way: str) -> None:
    path = tmp_path / "store.db"

    async def erase() -> None:
        async with in_sqlite(tmp_path) as (store, _):
            await _filled(store)
            ends = AT + 10_000 if way == "expiry" else None
            for number in range(20):
                value = {"note": SECRET, "more": "y" * number * 40}
                await store.put(OTHERS[0], note(f"s{number}", value, expires_at=ends), room=BIG)
            await _filled(store)
            assert traces(path)
            match way:
                case "delete":
                    for number in range(20):
                        assert await store.delete(OTHERS[0], f"s{number}", now=AT)
                case "clear":
                    assert await store.clear(OTHERS[0], now=AT) == 20
                case "expiry":
                    assert await store.forget(now=AT + 10_000, limit=100) == 20
                case _:
                    for number in range(20):
                        await store.put(OTHERS[0], note(f"s{number}", "nothing"), room=BIG)
                    assert await store.forget(now=AT, limit=100) == 0
            assert traces(path) == []
            assert len(await keys(store, now=AT)) > 50
            assert await found(store, "n7", now=AT)
        assert traces(path) == []

    run_bounded(erase())
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.execute("INSERT INTO memory_text (memory_text, rank) VALUES ('integrity-check', 1)")


def test_much_is_erased_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MEMORY_ERASED_AT_ONCE_BYTES_MAX", 100)
    path = tmp_path / "store.db"

    async def erase() -> None:
        async with in_sqlite(tmp_path) as (store, _):
            await _filled(store, 50)
            await store.put(OTHERS[0], note(value=SECRET), room=BIG)
            assert await store.delete(OTHERS[0], "colour", now=AT)
            assert await store.get(OTHERS[0], "colour", now=AT) is None
            assert await store.forget(now=AT, limit=10) == 0
            assert traces(path) == []

    run_bounded(erase())
