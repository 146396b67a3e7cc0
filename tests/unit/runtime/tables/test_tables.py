"""What holds for platform rows in an SQLite file beyond the contract: processes, formats, indexes, copies, checks."""

import asyncio
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import PenstockError
from penstock.governance.audit.chain import ChainVerified
from penstock.runtime.ports.platform import AuditQuery, InFlight
from penstock.runtime.ports.runs import Appended
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.maintenance.backups import backup, check_integrity, restore
from penstock.runtime.stores.sqlite.schema import files, migrations
from penstock.runtime.tables.api_keys import put_key, read_key
from penstock.runtime.tables.audit.records import audit_statement
from penstock.runtime.tables.audit.removal import forget_audit
from penstock.runtime.tables.call_records import append_audit
from penstock.runtime.tables.deliveries import add_deliveries, deliveries_statement
from penstock.runtime.tables.resources import put_resource, read_mark, set_mark
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.tables.workers import list_workers
from tests.conformance.platform_stores import (
    AT,
    SEAL,
    chain_of,
    claim,
    claimed,
    delivery,
    entry,
    key_row,
    open_sqlite,
    platform_contents,
    resource,
    run_bounded,
    verified,
)
from tests.conformance.stores import start
from tests.opened_database import sqlite_of
from tests.waiting import SECONDS_MAX

ROOT = Path(__file__).parents[4]
BEFORE_PLATFORM_TABLES = 2


async def fill(path: Path) -> None:
    """Something in every table."""
    async with open_sqlite(path) as store:
        await put_key(store, key_row())
        await claimed(store, claim())
        await append_audit(store, [entry(number) for number in range(5)], seal=SEAL)
        await append_audit(store, [entry(number, tenant="other") for number in range(3)], seal=SEAL)
        await put_resource(store, resource(), expected_etag=None)
        await add_deliveries(store, [delivery(0), delivery(1)])
        await set_mark(store, "place", 17)


async def contents_of(path: Path) -> dict[str, Any]:
    async with open_sqlite(path) as store:
        return await platform_contents(store)


def execute(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


# --- several processes ---------------------------------------------------------------------------


def test_two_processes_append_to_one_chain_and_share_out_the_keys_of_calls(tmp_path: Path) -> None:
    path, count = tmp_path / "store.db", 150
    names = ["one", "two"]
    processes = []
    for name in names:
        command = [sys.executable, "-m", "tests.conformance.platform_appender", str(path), name, str(count)]
        pipe = subprocess.PIPE
        processes.append(subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True))
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    won = {}
    for name, process in zip(names, processes, strict=True):
        told, _ = process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == 0
        won[name] = told.splitlines()
    assert sorted(won["one"] + won["two"]) == sorted(f"key-{number}" for number in range(count))

    async def look() -> None:
        async with open_sqlite(path) as store:
            outcome = await verified(store)
            assert isinstance(outcome, ChainVerified)
            assert (outcome.count, outcome.last_seq) == (2 * count, 2 * count)
            by = [record.entry.principal for record in await chain_of(store)]
            assert [by.count(name) for name in names] == [count, count]
            for name in names:
                for key in won[name]:
                    assert await claimed(store, claim(key, now=AT + 1)) == InFlight(name, AT + 60_000)

    run_bounded(look())


def test_a_key_that_another_process_changed_is_changed_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "store.db"
        async with open_sqlite(path) as store:
            assert await read_key(store, "aaaaaaaaaaaa") is None
            async with open_sqlite(path) as other:
                await put_key(other, key_row())
                assert await read_key(store, "aaaaaaaaaaaa") == key_row()
                for number in range(50):
                    await put_key(other, key_row(name=f"name {number}"))
                    assert await read_key(store, "aaaaaaaaaaaa") == key_row(name=f"name {number}")
                await put_key(other, key_row(revoked_at=AT))
                assert await read_key(store, "aaaaaaaaaaaa") == key_row(revoked_at=AT)

    run_bounded(scenario())


def test_a_key_can_be_read_while_another_process_writes(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "store.db"
        async with open_sqlite(path) as store:
            await put_key(store, key_row())
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN EXCLUSIVE")
            other.execute("UPDATE api_keys SET revoked_at = 1")
            assert await read_key(store, "aaaaaaaaaaaa") == key_row()
            other.execute("COMMIT")
            assert await read_key(store, "aaaaaaaaaaaa") == key_row(revoked_at=1)
            other.close()

    run_bounded(scenario())


# --- one file ------------------------------------------------------------------------------------


def test_everything_is_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "store.db"
        await fill(path)
        before = await contents_of(path)
        assert len(before["chains"]["acme"]) == 5
        assert await contents_of(path) == before
        async with open_sqlite(path) as store:
            await append_audit(store, [entry(5)], seal=SEAL)
            assert isinstance(await verified(store), ChainVerified)

    run_bounded(scenario())


def test_a_closed_store_says_so_and_can_be_opened_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = RunStore(SqliteDatabase(tmp_path / "store.db"))
        platform = store.database
        for _ in range(2):
            with pytest.raises(PenstockError, match="STORE_CLOSED"):
                await read_key(platform, "aaaaaaaaaaaa")
            with pytest.raises(PenstockError, match="STORE_CLOSED"):
                await append_audit(platform, [entry()], seal=SEAL)
            await store.open()
            await put_key(platform, key_row())
            assert await read_key(platform, "aaaaaaaaaaaa") == key_row()
            await store.close()

    run_bounded(scenario())
    assert [file.name for file in tmp_path.iterdir()] == ["store.db"]


def test_an_audit_entry_shares_the_commit_of_the_decision_that_it_tells_of(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = RunStore(SqliteDatabase(tmp_path / "store.db"))
        await store.open()
        platform = store.database
        commits = sqlite_of(store).writer.commits
        decision = store.append(start("r_1"))
        audit = append_audit(platform, [entry(1, subject="r_1")], seal=SEAL)
        assert await decision == Appended()
        await audit
        assert sqlite_of(store).writer.commits == commits + 1
        await store.close()

    run_bounded(scenario())


def test_a_key_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "store.db"
        async with open_sqlite(path) as store:
            await put_key(store, key_row())
            assert await read_key(store, "aaaaaaaaaaaa") == key_row()
            execute(path, "DROP TABLE api_keys")
            with pytest.raises(PenstockError, match="STORE_FAILED"):
                await read_key(store, "aaaaaaaaaaaa")

    run_bounded(scenario())


def test_a_file_from_before_gets_the_tables_and_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    with monkeypatch.context() as older:
        older.setattr(migrations, "SCHEMA_VERSION", BEFORE_PLATFORM_TABLES)
        connection = files.open_for_writing(str(path))
        connection.execute("INSERT INTO workers VALUES ('w1', 17)")
        assert connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'api_keys'").fetchone() is None
        connection.close()
    assert check_integrity(path).ok
    run_bounded(fill(path))

    async def look() -> None:
        store = RunStore(SqliteDatabase(path))
        await store.open()
        assert [worker.worker_id for worker in await list_workers(store.database)] == ["w1"]
        assert await read_mark(store.database, "place") == 17
        await store.close()

    run_bounded(look())
    assert check_integrity(path).ok


# --- indexes -------------------------------------------------------------------------------------


def plan_of(statement: str, parameters: tuple[object, ...], folder: Path) -> str:
    connection = files.open_for_writing(str(folder / "store.db"))
    found = connection.execute(f"EXPLAIN QUERY PLAN {statement}", (*parameters, 50)).fetchall()
    connection.close()
    return "; ".join(str(row[-1]) for row in found)


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ({}, "PRIMARY KEY (tenant=?)"),
        ({"before_seq": 9}, "PRIMARY KEY (tenant=? AND seq<?)"),
        ({"subject": "r_1"}, "audit_by_subject (tenant=? AND subject=? AND seq<?)"),
        (
            {"subject": "r_1", "outcome": "failed", "after_seq": 5},
            "audit_by_subject (tenant=? AND subject=? AND seq<?)",
        ),
        ({"outcome": "refused", "oldest_first": True}, "audit_not_allowed (tenant=? AND outcome=? AND seq>?)"),
        ({"outcome": "allowed"}, "PRIMARY KEY (tenant=?)"),
    ],
    ids=["all", "page", "subject", "subject_and_outcome", "refused", "allowed"],
)
def test_records_are_walked_in_the_order_of_an_index(query: dict[str, Any], index: str, tmp_path: Path) -> None:
    plan = plan_of(*audit_statement(AuditQuery(tenant="acme", **query)), tmp_path)
    assert index in plan
    assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize(
    ("endpoint_id", "state", "index"),
    [
        (None, None, "deliveries_by_tenant (tenant=? AND rowid<?)"),
        ("crm", None, "deliveries_by_endpoint (tenant=? AND endpoint_id=? AND rowid<?)"),
        (None, "dead", "deliveries_by_state (tenant=? AND state=? AND rowid<?)"),
    ],
    ids=["all", "endpoint", "state"],
)
def test_deliveries_are_walked_in_the_order_of_an_index(
    endpoint_id: str | None, state: str | None, index: str, tmp_path: Path
) -> None:
    plan = plan_of(*deliveries_statement("acme", endpoint_id, state, "k9"), tmp_path)
    assert index in plan
    assert "TEMP B-TREE" not in plan


# --- copies and checks ---------------------------------------------------------------------------


def test_a_backup_holds_everything(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    run_bounded(fill(path))
    backup(path, tmp_path / "copy.db")
    restore(tmp_path / "copy.db", tmp_path / "new.db")

    async def look() -> None:
        before = await contents_of(path)
        assert await contents_of(tmp_path / "new.db") == before
        async with open_sqlite(tmp_path / "new.db") as store:
            assert await claimed(store, claim(now=AT + 1)) == InFlight("digest-1", AT + 60_000)

    run_bounded(look())


async def forget_first(path: Path) -> None:
    """The beginning may be forgotten."""
    async with open_sqlite(path) as store:
        assert await forget_audit(store, tenant="other", before_seq=2, seal=SEAL) == 1


@pytest.mark.parametrize(
    ("statement", "seq"),
    [
        ("DELETE FROM audit WHERE tenant = 'acme' AND seq = 3", 4),
        ("UPDATE audit SET previous_hash = 'x' WHERE tenant = 'acme' AND seq = 2", 2),
        ("UPDATE audit SET hash = 'x' WHERE tenant = 'acme' AND seq = 4", 5),
    ],
    ids=["deleted", "link", "hash"],
)
def test_a_trail_that_does_not_hang_together_is_found_without_its_key(statement: str, seq: int, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    run_bounded(fill(path))
    run_bounded(forget_first(path))
    assert check_integrity(path).ok
    execute(path, statement)
    found = check_integrity(path).problems
    assert {problem.code for problem in found} <= {"AUDIT_CHAIN_BROKEN", "ROW_CHANGED"}
    [problem] = [problem for problem in found if problem.code == "AUDIT_CHAIN_BROKEN"]
    assert "'acme'" in problem.message
    assert f"record {seq}" in problem.message


def test_many_keys_are_read_in_no_time(tmp_path: Path) -> None:
    """On the loop's own thread: nothing else gets a turn in between."""

    async def scenario() -> None:
        async with open_sqlite(tmp_path / "store.db") as store:
            await put_key(store, key_row())
            turns = 0

            def count_turn() -> None:
                nonlocal turns
                turns += 1

            await read_key(store, "aaaaaaaaaaaa")
            asyncio.get_running_loop().call_soon(count_turn)
            for _ in range(1_000):
                assert await read_key(store, "aaaaaaaaaaaa") is not None
            assert turns == 0

    run_bounded(scenario())
