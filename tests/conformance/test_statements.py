"""Every statement of the tables is standard: a real PostgreSQL can prepare it.

The tables there are those of the SQLite file, with the types that PostgreSQL has for them.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Awaitable, Callable, Iterable
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.base import limits
from penstock.governance.quotas import TENANT_SUBJECT, QuotaLimits, day_of
from penstock.runtime.ports.audit import AuditHold, AuditQuery
from penstock.runtime.ports.memory import MemoryEntry, MemoryRoom, MemorySpace
from penstock.runtime.ports.platform import ANY_ETAG, CallRecord
from penstock.runtime.ports.transactions import Row, Values
from penstock.runtime.ports.usage import BucketUse, PolicyTotal, PolicyUse, RunUsage, StartQuota, SubjectQuota
from penstock.runtime.stores.sqlite import schema
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.transaction import SqliteTransaction
from penstock.runtime.stores.sqlite.word_index import MATCHES
from penstock.runtime.tables import api_keys, call_records, checks, deliveries, memory, policy_uses, resources, usage
from penstock.runtime.tables.audit import heads, records, removal
from penstock.runtime.tables.checksums import CHECKED
from penstock.runtime.tables.listings import id_cursor, key_cursor, number_cursor
from tests.conformance.platform_stores import AT, SEAL, claim, delivery, entry, key_row, open_sqlite, resource, told
from tests.postgres import running_postgres
from tests.tidy.doors import CHANGING, READING

Use = Callable[[SqliteDatabase], Awaitable[object]]
HOLD = AuditHold(hold_id="h", reason="court", subject="s", principal="p", since=1, until=2)
USE = PolicyUse(tenant="acme", action="pay", field="", principal="p", resource="r", run="", amount=1, at=AT)
ASKED = PolicyTotal(tenant="acme", action="pay", field="", since=0, principal="p", resource="r", run="r")

SPACE = MemorySpace(tenant="acme", scope="tenant")
ROOM = MemoryRoom(entries_max=9, bytes_max=999, tenant_bytes_max=999)
# What a driver has of its own: the index of words, the overwriting of what was deleted, and savepoints.
OF_DRIVER = ("memory_text", "memory_staging", "PRAGMA", "undo_on_error")
POSTGRES_MATCHES = "to_tsvector('simple', place || ' ' || words) @@ to_tsquery('simple', :words)"

BUCKET, OTHER_BUCKET = (BucketUse(bucket=name, amount=1, per_minute=60, burst=10) for name in "ba")


def queries() -> Iterable[AuditQuery]:
    """Queries with every condition, and in both directions."""
    every: dict[str, Any] = {"after_seq": 1, "before_seq": 9, "operation": "a", "not_operation": "b", "principal": "p"}
    every |= {"since": 1, "until": 9, "not_held_by": (HOLD,)}
    for oldest_first in (True, False):
        for more in ({}, {"subject": "s"}, {"outcome": "refused"}, {"outcome": "allowed"}, every):
            yield AuditQuery(tenant="acme", oldest_first=oldest_first, **more)


async def damaged(database: SqliteDatabase) -> None:
    """Let every kind of retention pass over rows that it could not delete."""
    for kind, name in (("deliveries", "d_7"), ("audit", "acme/7"), ("rates", '["b"]'), ("usage", '["acme", "s", 1]')):
        database.set_aside.add(kind, name, ValueError("damaged"))
    database.set_aside.add("counted calls", "[1]", ValueError("damaged"))
    database.set_aside.add("memory", "7", ValueError("damaged"))
    database.set_aside.add("answers", '["acme", "p", "o", "k"]', ValueError("damaged"))


async def counted(database: SqliteDatabase) -> None:
    """Count the start of a run and what its results report, as the store of runs does."""
    quota = StartQuota(
        tenant="acme", at=AT, subjects=(SubjectQuota(TENANT_SUBJECT, QuotaLimits()), SubjectQuota("p", QuotaLimits()))
    )
    await database.write(lambda transaction: usage.count_start(transaction, quota, "r_1"))
    used = RunUsage(tenant="acme", subjects=("p",), at=AT, tokens=1, cost=1)
    await database.write(lambda transaction: usage.add_usage(transaction, used))


async def revoked(database: SqliteDatabase) -> None:
    """Revoke what somebody made, and delete resources, as operations do with other changes."""
    maker = "key:aaaaaaaaaaaa"
    await api_keys.put_key(database, key_row("b", created_by=maker))
    await database.write(lambda transaction: api_keys.write_revocations(transaction, "acme", maker, AT))
    await database.write(lambda transaction: resources.write_deletions(transaction, "acme", "schema", ["third"]))
    await database.read(lambda reader: resources.stored_resource(reader, "acme", "schema", "refund"))


async def audited(database: SqliteDatabase) -> None:
    for query in queries():
        await records.list_audit(database, query)


async def twice(database: SqliteDatabase) -> None:
    """Store an answer for a call whose record is stored."""
    call = CallRecord(entry=entry(7), seal=SEAL, claim=claim("k-2"))
    await call_records.record_call(database, call)
    await call_records.record_call(database, told(claim("k-2"), {"status": 200}))


async def remembered(database: SqliteDatabase) -> None:
    """Store an entry, and another in its place."""
    new = MemoryEntry(key="tone", value="formal", created_at=AT, updated_at=AT, expires_at=AT + 1)
    for _ in range(2):
        await memory.put_memory(database, SPACE, new, room=ROOM)


async def listed(database: SqliteDatabase) -> None:
    for cursor in (None, id_cursor("a")):
        await memory.list_memory(database, SPACE, now=AT, limit=1, cursor=cursor, prefix="t")


async def deleted(database: SqliteDatabase) -> None:
    """Delete what is overwritten at once, and what is more than that."""
    for most in (limits.MEMORY_ERASED_AT_ONCE_BYTES_MAX, -1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(limits, "MEMORY_ERASED_AT_ONCE_BYTES_MAX", most)
            await remembered(database)
            await memory.delete_memory(database, SPACE, "tone", now=AT)


async def cleared(database: SqliteDatabase) -> None:
    await remembered(database)
    await memory.clear_memory(database, SPACE, now=AT)


async def forgotten(database: SqliteDatabase) -> None:
    await remembered(database)
    await memory.forget_memory(database, now=AT + 1, limit=5)


async def put_and_delete(database: SqliteDatabase) -> None:
    await resources.put_resource(database, resource("second"), expected_etag=None)
    await resources.delete_resource(database, "acme", "schema", "second", expected_etag=ANY_ETAG)


USES: dict[str, Use] = {
    "put_memory": remembered,
    "read_memory": lambda database: memory.read_memory(database, SPACE, "tone", now=AT),
    "list_memory": listed,
    "search_memory": lambda database: memory.search_memory(database, SPACE, "formal to", now=AT, limit=5),
    "delete_memory": deleted,
    "clear_memory": cleared,
    "forget_memory": forgotten,
    "put_key": lambda database: api_keys.put_key(database, key_row()),
    "replace_key": lambda database: api_keys.replace_key(database, key_row(revoked_at=AT), key_row("b", replaces="a")),
    "touch_keys": lambda database: api_keys.touch_keys(database, {"aaaaaaaaaaaa": AT}),
    "read_key": lambda database: api_keys.read_key(database, "aaaaaaaaaaaa"),
    "list_keys": lambda database: api_keys.list_keys(
        database, tenant="acme", limit=1, cursor=key_cursor(AT, "a"), ids=["a", "b"]
    ),
    "record_call": twice,
    "find_call": lambda database: call_records.find_call(database, claim()),
    "release_call": lambda database: call_records.release_call(database, claim()),
    "append_audit": lambda database: call_records.append_audit(database, [entry(0), entry(1), entry(2)], seal=SEAL),
    "forget_calls": lambda database: call_records.forget_calls(database, now=AT + 10**12, limit=5),
    "list_audit": audited,
    "list_audit_tenants": records.list_audit_tenants,
    "find_audit_head": lambda database: heads.find_audit_head(database, "acme"),
    "count_audit_chains": heads.count_audit_chains,
    "redact_audit": lambda database: removal.redact_audit(
        database, tenant="acme", seqs=[1, 2], names=["principal"], holds=[HOLD]
    ),
    "forget_audit": lambda database: removal.forget_audit(
        database, tenant="acme", before_seq=3, seal=SEAL, holds=[HOLD]
    ),
    "list_removed_audit": lambda database: removal.list_removed_audit(database, "acme", limit=5),
    "put_resource": put_and_delete,
    "put_resources": lambda database: resources.put_resources(database, [resource(), resource("third")]),
    "delete_resource": put_and_delete,
    "read_resource": lambda database: resources.read_resource(database, "acme", "schema", "refund"),
    "list_resources": lambda database: resources.list_resources(
        database, "acme", "schema", limit=1, cursor=id_cursor("a"), prefix="r"
    ),
    "list_all_resources": lambda database: resources.list_all_resources(database, "schema"),
    "set_mark": lambda database: resources.set_mark(database, "place", 7),
    "read_mark": lambda database: resources.read_mark(database, "place"),
    "drop_mark": lambda database: resources.drop_mark(database, "place"),
    "add_deliveries": lambda database: deliveries.add_deliveries(database, [delivery(0), delivery(1, state="dead")]),
    "list_due_deliveries": lambda database: deliveries.list_due_deliveries(database, now=AT, limit=5),
    "read_next_delivery_at": deliveries.read_next_delivery_at,
    "claim_delivery": lambda database: deliveries.claim_delivery(database, delivery(0), now=AT, until=AT),
    "change_delivery": lambda database: deliveries.change_delivery(database, delivery(0), delivery(0, attempts=1)),
    "save_delivery": lambda database: deliveries.save_delivery(database, delivery(0, attempts=1)),
    "read_delivery": lambda database: deliveries.read_delivery(database, "acme", "d_0"),
    "list_deliveries": lambda database: deliveries.list_deliveries(
        database, "acme", endpoint_id="crm", state="dead", limit=5, cursor=number_cursor(9)
    ),
    "forget_deliveries": lambda database: deliveries.forget_deliveries(database, before=AT + 9, limit=5),
    "read_usage": lambda database: usage.read_usage(database, "acme", "p", at=AT),
    "measure_storage_bytes": lambda database: usage.measure_storage_bytes(database, "acme"),
    "exchange_buckets": lambda database: usage.exchange_buckets(
        database, [BucketUse(bucket="b", amount=1, per_minute=60, burst=10)], at=AT
    ),
    "forget_usage": lambda database: usage.forget_usage(
        database, before_day=day_of(AT) + 1, now=AT + limits.POLICY_HISTORY_WINDOW_MS_MAX * 2
    ),
    "take_uses": lambda database: policy_uses.take_uses(database, [USE], [ASKED]),
    "release_uses": lambda database: policy_uses.release_uses(database, [1]),
}


def recorded(path: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Every statement that the uses run."""
    statements: set[str] = set()

    def recording(name: str) -> Callable[..., Any]:
        method = getattr(SqliteTransaction, name)

        def call(transaction: SqliteTransaction, statement: str, values: Values = ()) -> Any:
            statements.add(statement)
            return method(transaction, statement, values)

        return call

    async def scenario() -> None:
        async with open_sqlite(path) as database:
            for again in (False, True):
                if again:
                    await damaged(database)
                for use in USES.values():
                    await use(database)
                await counted(database)
                await revoked(database)

    for name in ("rows", "execute", "many"):
        monkeypatch.setattr(SqliteTransaction, name, recording(name))
    asyncio.run(scenario())
    return statements


def statements_of_checks() -> set[str]:
    """Every statement with which any database checks its rows."""
    statements: set[str] = set()

    def scan(statement: str) -> list[Row]:
        statements.add(statement)
        return []

    rows = chain.from_iterable(checks.changed_rows(scan, table, ()) for table in CHECKED)
    assert list(chain(rows, checks.other_versions(scan), checks.changed_names(scan))) == []
    return statements


_NUMBER = "BIGINT GENERATED BY DEFAULT AS IDENTITY"
_TYPES = {"INTEGER": "BIGINT", "REAL": "DOUBLE PRECISION", "BLOB": "BYTEA"}


def tables_of_postgres() -> Iterable[str]:
    """The tables of the file, with the types of PostgreSQL and without what only SQLite has."""
    text = files(schema).joinpath("current.sql").read_text(encoding="utf-8")
    for table in re.findall(r"^CREATE TABLE .*?;$", text, re.MULTILINE | re.DOTALL):
        number = re.sub(
            r"INTEGER PRIMARY KEY( AUTOINCREMENT)?", "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY", table
        )
        typed = re.sub(r"\b(INTEGER|REAL|BLOB)\b", lambda found: _TYPES[found[0]], number)
        yield typed.replace("WITHOUT ROWID", "")


def as_postgres(statement: str) -> str:
    """The statement with numbered values."""
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found[0] == "?":
            names.append("?")
            return f"${len(names)}"
        if found[0] not in names:
            names.append(found[0])
        return f"${names.index(found[0]) + 1}"

    return re.sub(r"\?|(?<![:\w]):[a-z_]+", number, statement)


def test_every_function_of_the_tables_is_used() -> None:
    assert set(USES) == CHANGING["Tables"] | READING["Tables"]


def test_every_statement_can_be_prepared_on_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every = recorded(tmp_path / "store.db", monkeypatch) | statements_of_checks()
    assert any(MATCHES in text for text in every)
    standard = {text.replace(MATCHES, POSTGRES_MATCHES) for text in every}
    statements = {text for text in standard if not any(name in text for name in OF_DRIVER)}
    assert len(statements) > len(USES)
    with running_postgres() as address, psycopg.connect(address, autocommit=True) as connection:
        for table in tables_of_postgres():
            connection.execute(table.encode())
        refused: dict[str, str] = {}
        for number, statement in enumerate(sorted(statements)):
            try:
                connection.execute(f"PREPARE s{number} AS {as_postgres(statement)}".encode())
            except psycopg.Error as error:
                refused[statement] = str(error).splitlines()[0]
    assert refused == {}


def test_a_statement_that_only_sqlite_has_is_found() -> None:
    statement = "SELECT total(value) FROM json_each('[1]') WHERE 1 IS ?"
    connection = sqlite3.connect(":memory:")
    connection.execute(statement, (1,)).fetchall()
    connection.close()
    with (
        running_postgres() as address,
        psycopg.connect(address, autocommit=True) as connected,
        pytest.raises(psycopg.Error),
    ):
        connected.execute(f"PREPARE s AS {as_postgres(statement)}".encode())
