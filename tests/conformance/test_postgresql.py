"""What the PostgreSQL driver does beyond the contract of the port: batches, other processes, lost connections."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import psycopg
import pytest

from penstock.base.errors import Rejected, Unavailable
from penstock.governance.audit.chain import ChainVerified
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.topics import Topic
from penstock.runtime.ports.transactions import Reader, Row, RowError, StatementError, Transaction
from penstock.runtime.tables.api_keys import put_key, read_key
from penstock.runtime.tables.call_records import append_audit
from penstock.runtime.tables.resources import put_resource, read_mark, read_resource, set_mark
from tests.conformance.platform_stores import (
    SEAL,
    chain_of,
    entry,
    key_row,
    open_postgres,
    resource,
    run_bounded,
    verified,
)
from tests.conformance.postgresql.database import PostgresDatabase
from tests.conformance.postgresql.statements import arguments, numbered

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
