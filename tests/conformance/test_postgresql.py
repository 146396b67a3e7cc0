"""What the PostgreSQL driver does beyond the contract of the port: batches, other processes, lost connections."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from penstock.base.errors import Rejected, Unavailable
from penstock.governance.audit.chain import ChainVerified
from penstock.runtime.ports.memory import MemoryRoom
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.topics import Topic
from penstock.runtime.ports.transactions import Reader, Row, RowError, StatementError, Transaction
from penstock.runtime.tables.api_keys import put_key, read_key
from penstock.runtime.tables.call_records import append_audit
from penstock.runtime.tables.memory import delete_memory, forget_memory, put_memory, search_memory
from penstock.runtime.tables.resources import put_resource, read_mark, read_resource, set_mark
from penstock.runtime.tables.runs.appending import Appender, small_append
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.platform_stores import (
    AT,
    SEAL,
    SPACE,
    chain_of,
    entry,
    key_row,
    note,
    open_postgres,
    resource,
    run_bounded,
    verified,
)
from tests.conformance.postgresql.database import PostgresDatabase
from tests.conformance.postgresql.statements import arguments, numbered
from tests.conformance.stores import start

_LOST = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname IS NOT NULL"


def test_values_are_numbered_and_texts_stay_as_they_are() -> None:
    assert numbered("a = ? AND b = '?:x''?' AND c = ?") == (b"a = $1 AND b = '?:x''?' AND c = $2", ())
    assert numbered("a = :b AND c = :d OR :b < e::text") == (b"a = $1 AND c = $2 OR $1 < e::text", ("b", "d"))
    assert arguments(("b", "d"), {"d": 2, "b": 1, "more": 3}) == [1, 2]
    assert arguments((), (1, 2)) == [1, 2]


def test_changes_that_wait_are_one_commit_and_a_bad_one_fails_alone(postgres_address: str) -> None:
    async def scenario() -> None:
        async with open_postgres(postgres_address) as store:
            begun, may_end = threading.Event(), threading.Event()

            def slow(transaction: Transaction) -> None:
                begun.set()
                may_end.wait()

            def bad(transaction: Transaction) -> None:
                transaction.execute("INSERT INTO marks (name) VALUES (?)", ("bad",))

            first = asyncio.ensure_future(store.write(slow))
            await asyncio.to_thread(begun.wait)
            good = [asyncio.ensure_future(set_mark(store, f"m{number}", number)) for number in range(20)]
            await asyncio.sleep(0)
            may_end.set()
            await asyncio.gather(first, *good)
            assert store.commits == 2
            outcomes = await asyncio.gather(
                set_mark(store, "a", 1), store.write(bad), set_mark(store, "b", 2), return_exceptions=True
            )
            assert [type(outcome) for outcome in outcomes] == [type(None), Unavailable, type(None)]
            assert [await read_mark(store, name) for name in ("a", "b", "bad")] == [1, 2, None]

    run_bounded(scenario())


def test_records_of_calls_are_stored_with_their_changes(postgres_address: str) -> None:
    async def scenario() -> None:
        async with open_postgres(postgres_address) as store:
            calls = [CallRecord(entry=entry(number), seal=SEAL) for number in range(9)]
            await asyncio.gather(
                *(
                    put_resource(store, resource(f"r{number}"), expected_etag=None, call=call)
                    for number, call in enumerate(calls)
                )
            )
            assert all(call.stored for call in calls)
            refused = CallRecord(entry=entry(9), seal=SEAL)
            await put_resource(store, resource("r1"), expected_etag=None, call=refused)
            assert not refused.stored
            assert isinstance(await verified(store), ChainVerified)
            assert len(await chain_of(store)) == 9

    run_bounded(scenario())


def test_two_processes_that_append_to_one_trail_never_fork_it(postgres_address: str) -> None:
    async def scenario() -> None:
        async with open_postgres(postgres_address) as store:
            other = PostgresDatabase(postgres_address)
            await other.open()
            await asyncio.gather(
                *(append_audit((store, other)[number % 2], [entry(number)], seal=SEAL) for number in range(100))
            )
            await other.close()
            found = await verified(store)
            assert isinstance(found, ChainVerified)
            assert found.count == 100

    run_bounded(scenario())


def test_two_changes_that_wait_for_each_other_are_both_made(postgres_address: str) -> None:
    async def scenario() -> None:
        async with open_postgres(postgres_address) as store:
            other = PostgresDatabase(postgres_address)
            await other.open()
            met = threading.Barrier(2)

            def crossing(*names: str) -> Callable[[Transaction], None]:
                is_first = True

                def change(transaction: Transaction) -> None:
                    nonlocal is_first
                    transaction.lock(names[0])
                    if is_first:
                        met.wait()
                    is_first = False
                    transaction.lock(names[1])

                return change

            await asyncio.gather(store.write(crossing("a", "b")), other.write(crossing("b", "a")))
            assert store.commits + other.commits == 2
            await other.close()

    run_bounded(scenario())


def test_a_lost_connection_is_replaced_and_no_change_is_lost_or_made_twice(postgres_address: str) -> None:
    async def scenario() -> None:
        async with open_postgres(postgres_address) as store:
            await append_audit(store, [entry(0)], seal=SEAL)
            await read_mark(store, "place")
            for number in range(1, 4):
                with psycopg.connect(postgres_address, autocommit=True) as connection:
                    connection.execute(_LOST.encode())
                assert await read_mark(store, "place") is None
                await append_audit(store, [entry(number)], seal=SEAL)
            assert len(await chain_of(store)) == 4
            mark = store.changed(Topic.KEYS)
            await put_key(store, key_row())
            assert store.changed(Topic.KEYS) != mark

    run_bounded(scenario())


def test_a_query_sees_one_snapshot_and_reads_on_after_damage(postgres_address: str) -> None:
    begun, may_continue = threading.Event(), threading.Event()
    counted = "SELECT count(*) FROM marks"

    def query(reader: Reader) -> tuple[list[Row], list[Row], list[Row]]:
        before = reader.rows(counted)
        begun.set()
        may_continue.wait()
        same = reader.rows(counted)
        with pytest.raises(RowError):
            reader.rows("SELECT 'a'::bigint")
        return before, same, reader.rows(counted)

    async def scenario() -> None:
        async with open_postgres(postgres_address) as store:
            reading = asyncio.ensure_future(store.read(query))
            await asyncio.to_thread(begun.wait)
            await set_mark(store, "place", 1)
            may_continue.set()
            assert await reading == ([(0,)], [(0,)], [(1,)])

    run_bounded(scenario())


def test_errors_have_the_meaning_of_the_port(postgres_address: str) -> None:
    caught: list[Exception] = []

    def change(transaction: Transaction) -> None:
        for statement in (
            "INSERT INTO marks (name) VALUES ('a')",
            "SELECT 'a'::bigint",
            "SELECT 1 FROM nothing",
            "SELECT nothing FROM marks",
        ):
            try:
                with transaction.undo_on_error():
                    transaction.rows(statement)
            except (RowError, StatementError) as error:
                caught.append(error)
        transaction.execute("INSERT INTO marks (name, value) VALUES (?, ?)", ("after", b"1"))

    async def scenario() -> None:
        async with open_postgres(postgres_address) as store:
            await store.write(change)
            assert await read_mark(store, "after") == 1
            with pytest.raises(Rejected, match="TEXT_NOT_UNICODE"):
                await read_resource(store, "acme", "schema", "nul\0")
            with pytest.raises(Unavailable, match="STORE_FAILED"):
                await store.rows("SELECT 1 FROM nothing")
        with pytest.raises(Unavailable, match="STORE_CLOSED"):
            await read_key(store, "aaaaaaaaaaaa")
        nobody = PostgresDatabase(f"{postgres_address} port=1")
        await nobody.open()
        with pytest.raises(Unavailable, match="STORE_UNREACHABLE"):
            await nobody.rows("SELECT 1")
        with pytest.raises(Unavailable, match="STORE_UNREACHABLE"):
            await set_mark(nobody, "place", 1)
        await nobody.close()

    run_bounded(scenario())
    assert [type(error) for error in caught] == [RowError, RowError, StatementError, StatementError]
    assert [error.is_refusal for error in caught if isinstance(error, RowError)] == [True, False]


def test_a_decision_that_is_committed_late_is_listed_and_none_before_it(postgres_address: str) -> None:
    """The first transaction has the smaller number, and ends last."""

    async def scenario() -> None:
        async with open_postgres(postgres_address) as first:
            second = PostgresDatabase(postgres_address)
            await second.open()
            here, there = RunStore(first), RunStore(second)
            position = (await there.changes(after=None, since=0, limit=9)).position
            has_begun, may_end = threading.Event(), threading.Event()

            def slow(transaction: Transaction) -> None:
                transaction.execute("INSERT INTO marks (name, value) VALUES (?, ?)", ("slow", b"1"))
                has_begun.set()
                may_end.wait()

            writing = asyncio.ensure_future(first.write(slow))
            await asyncio.to_thread(has_begun.wait)
            await there.append(start("r_quick"))
            assert (await there.changes(after=position, since=0, limit=9)).changes == ()
            late = asyncio.ensure_future(here.append(start("r_late")))
            may_end.set()
            await asyncio.gather(writing, late)
            page = await there.changes(after=position, since=0, limit=9)
            assert [change.row.run_id for change in page.changes] == ["r_quick", "r_late"]
            assert (await there.changes(after=page.position, since=0, limit=9)).changes == ()
            await second.close()

    run_bounded(scenario())


def test_a_decision_of_a_transaction_that_began_first_and_ends_last_is_not_skipped(postgres_address: str) -> None:
    async def scenario() -> None:
        async with open_postgres(postgres_address) as first:
            second = PostgresDatabase(postgres_address)
            await second.open()
            store = RunStore(second)
            has_begun, may_end = threading.Event(), threading.Event()
            appender = Appender(first.run_index)
            decision = small_append(start("r_slow"))
            assert decision is not None

            def slow(transaction: Transaction) -> None:
                appender.append(transaction, [decision])
                has_begun.set()
                may_end.wait()

            writing = asyncio.ensure_future(first.write(slow))
            await asyncio.to_thread(has_begun.wait)
            await store.append(start("r_quick", created_at=AT + 1))  # with a key of its own
            position = (await store.changes(after=None, since=0, limit=9)).position
            may_end.set()
            await writing
            page = await store.changes(after=position, since=0, limit=9)
            assert [change.row.run_id for change in page.changes] == ["r_slow", "r_quick"]
            await second.close()

    run_bounded(scenario())


def test_a_read_sees_one_snapshot_and_writes_nothing(postgres_address: str) -> None:
    async def scenario() -> None:
        async with open_postgres(postgres_address) as store:
            has_read, may_continue = threading.Event(), threading.Event()

            def twice(reader: Reader) -> list[list[Row]]:
                before = reader.rows("SELECT name FROM marks")
                has_read.set()
                may_continue.wait()
                return [before, reader.rows("SELECT name FROM marks")]

            reading = asyncio.ensure_future(store.read(twice))
            await asyncio.to_thread(has_read.wait)
            await set_mark(store, "new", 1)
            may_continue.set()
            assert await reading == [[], []]
            with pytest.raises(Unavailable, match="STORE_READ_ONLY"):
                await store.read(lambda reader: reader.rows("DELETE FROM marks RETURNING name"))
            assert await read_mark(store, "new") == 1

    run_bounded(scenario())


ROOM = MemoryRoom(entries_max=9, bytes_max=999, tenant_bytes_max=999)
_BYTES_OF = (
    "SELECT pg_read_binary_file(pg_relation_filepath(name))"
    " FROM unnest(ARRAY['memory_entries', 'memory_words']) AS listed (name)"
)


def leaves_bytes(store: PostgresDatabase) -> bool:
    return store.erasure.is_unfinished


def test_the_bytes_of_deleted_memory_are_removed_once_nobody_can_see_them(postgres_address: str) -> None:
    def traces(connection: psycopg.Connection[Any]) -> int:
        connection.execute("CHECKPOINT")
        data = b"".join(found for (found,) in connection.execute(_BYTES_OF.encode()).fetchall())
        return data.count(b"xylophone") + data.count(b"xylophone".hex().encode())

    async def scenario() -> None:
        async with open_postgres(postgres_address) as store:
            with psycopg.connect(postgres_address, autocommit=True) as connection:
                await put_memory(store, SPACE, note("kept"), room=ROOM)
                await put_memory(store, SPACE, note(value="xylophone"), room=ROOM)
                assert traces(connection)
                with psycopg.connect(postgres_address) as reader:
                    reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                    reader.execute("SELECT 1 FROM marks").fetchall()
                    assert await delete_memory(store, SPACE, "colour", now=AT)
                    assert leaves_bytes(store)
                    assert traces(connection)
                assert await forget_memory(store, now=AT, limit=9) == 0
                assert not leaves_bytes(store)
                assert traces(connection) == 0
            assert [entry.key for entry in await search_memory(store, SPACE, "green", now=AT, limit=9)] == ["kept"]

    run_bounded(scenario())


def test_a_vacuum_does_not_wait_for_those_who_use_memory(postgres_address: str) -> None:
    async def scenario() -> None:
        async with open_postgres(postgres_address) as store:
            await put_memory(store, SPACE, note(), room=ROOM)
            with psycopg.connect(postgres_address) as user:
                user.execute("SELECT 1 FROM memory_words").fetchall()
                assert await delete_memory(store, SPACE, "colour", now=AT)
                assert leaves_bytes(store)
            assert await forget_memory(store, now=AT, limit=9) == 0
            assert not leaves_bytes(store)

    run_bounded(scenario())
