"""What the conformance suite of platform stores needs: stores on every database, rows for them, and all that one holds.

A new database takes part by an entry in `DATABASES`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.base.json import JsonObject
from penstock.governance.audit.chain import GENESIS_HASH, ChainOutcome, ChainSeal, verify_chain
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.memory import MemoryEntry, MemorySpace
from penstock.runtime.ports.platform import (
    AuditEntry,
    AuditQuery,
    AuditRecord,
    CallRecord,
    ClaimOutcome,
    DeliveryRow,
    IdempotencyClaim,
    KeyRow,
    ResourceRow,
    Seal,
)
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.tables.api_keys import list_keys, read_key
from penstock.runtime.tables.audit.records import list_audit, list_audit_tenants
from penstock.runtime.tables.call_records import record_call
from penstock.runtime.tables.deliveries import list_deliveries, list_due_deliveries, read_next_delivery_at
from penstock.runtime.tables.memory import list_memory, search_memory
from penstock.runtime.tables.resources import list_all_resources, read_mark
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.databases import DATABASES, emptied_postgres
from tests.conformance.postgresql.database import PostgresDatabase
from tests.conformance.stores import AT, run_bounded
from tests.opened_database import opened_store, sqlite_of

__all__ = [
    "AT",
    "KEY",
    "SEAL",
    "SPACE",
    "chain_of",
    "claim",
    "claimed",
    "completed",
    "delivery",
    "entry",
    "key_row",
    "note",
    "on_every_platform_store",
    "open_postgres",
    "open_sqlite",
    "platform_contents",
    "resource",
    "run_bounded",
    "told",
    "verified",
]

KEY = b"a key that only tests know"
SEAL: Seal = ChainSeal(KEY)
SPACE = MemorySpace(tenant="acme", scope="tenant")

Scenario = Callable[[Any], Coroutine[Any, Any, None]]


def told(claim: IdempotencyClaim, answer: JsonObject) -> CallRecord:
    """What a call leaves whose key is its own, with its answer."""
    return CallRecord(claim=claim, answer=answer, stored=True)


async def claimed(store: Database, claim: IdempotencyClaim) -> ClaimOutcome:
    """Be the one call with a key."""
    return await record_call(store, CallRecord(claim=claim))


async def completed(store: Database, claim: IdempotencyClaim, answer: JsonObject) -> ClaimOutcome:
    """Keep the answer of a call that has its key."""
    return await record_call(store, told(claim, answer))


@asynccontextmanager
async def open_sqlite(path: Path) -> AsyncIterator[SqliteDatabase]:
    """A platform store in an SQLite file."""
    store = RunStore(SqliteDatabase(path))
    await store.open()
    try:
        yield sqlite_of(store)
    finally:
        await store.close()


@asynccontextmanager
async def open_postgres(address: str, **options: Any) -> AsyncIterator[PostgresDatabase]:
    """An empty platform store in PostgreSQL."""
    store = emptied_postgres(address, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def on_every_platform_store(scenario: Scenario) -> Callable[..., None]:
    """Make a test of an async function that takes a platform store: it runs once on each."""

    @pytest.mark.parametrize("kind", DATABASES)
    def test(kind: str, request: pytest.FixtureRequest) -> None:
        store = RunStore(DATABASES[kind](request))

        async def with_store() -> None:
            async with opened_store(store):
                await scenario(store.database)

        run_bounded(with_store())

    test.__name__ = scenario.__name__
    test.__doc__ = scenario.__doc__
    return test


def key_row(key_id: str = "aaaaaaaaaaaa", **changes: Any) -> KeyRow:
    """A key as any other."""
    new = KeyRow(
        key_id=key_id, tenant="acme", name="build server", secret_hash="ab" * 32, scopes=("workflow:*",), created_at=AT
    )
    return replace(new, **changes)


def claim(key: str = "order-17", *, now: int = AT, **changes: Any) -> IdempotencyClaim:
    """A call that may be in flight for a minute, and whose answer is kept for a day."""
    new = IdempotencyClaim(
        tenant="acme",
        principal="key:aaaaaaaaaaaa",
        operation="workflow.execute",
        key=key,
        digest="digest-1",
        now=now,
        in_flight_until=now + 60_000,
        keep_until=now + 86_400_000,
    )
    return replace(new, **changes)


def entry(number: int = 0, **changes: Any) -> AuditEntry:
    """An entry as any other."""
    new = AuditEntry(
        at=AT + number,
        tenant="acme",
        principal="key:aaaaaaaaaaaa",
        surface="rest",
        operation="workflow.execute",
        outcome="allowed",
        subject=f"r_{number}",
        details={"number": number},
    )
    return replace(new, **changes)


def resource(resource_id: str = "refund", **changes: Any) -> ResourceRow:
    """A registered thing as any other."""
    new = ResourceRow(
        tenant="acme",
        kind="schema",
        resource_id=resource_id,
        body={"type": "object", "title": resource_id},
        etag="etag-1",
        created_at=AT,
        updated_at=AT,
        updated_by="key:aaaaaaaaaaaa",
    )
    return replace(new, **changes)


def delivery(number: int = 0, **changes: Any) -> DeliveryRow:
    """A delivery as any other."""
    new = DeliveryRow(
        delivery_id=f"d_{number}",
        tenant="acme",
        endpoint_id="crm",
        run_id=f"r_{number}",
        event={"type": "run.completed", "number": number},
        next_at=AT + number,
        created_at=AT,
        updated_at=AT,
    )
    return replace(new, **changes)


def note(key: str = "colour", value: Any = "green", at: int = AT, **more: Any) -> MemoryEntry:
    """An entry of memory as any other."""
    return MemoryEntry(key=key, value=value, created_at=at, updated_at=at, **more)


async def chain_of(store: Database, tenant: str = "acme") -> tuple[AuditRecord, ...]:
    """All records of a tenant, oldest first, over all pages."""
    found: list[AuditRecord] = []
    while True:
        after = found[-1].seq if found else None
        page = await list_audit(store, AuditQuery(tenant=tenant, after_seq=after, oldest_first=True, limit=1_000))
        found += page.records
        if not page.has_more:
            return tuple(found)


async def verified(store: Database, tenant: str = "acme") -> ChainOutcome:
    """What a look at a whole chain gives."""
    return verify_chain(KEY, await chain_of(store, tenant), expected_previous=GENESIS_HASH)


async def platform_contents(store: Database) -> dict[str, Any]:
    """Everything that a platform store holds, as far as anybody can see without changing it."""
    keys = await list_keys(store, tenant=None, limit=1_000)
    return {
        "keys": keys.rows,
        "by_id": [await read_key(store, key.key_id) for key in keys.rows],
        "chains": {tenant: await chain_of(store, tenant) for tenant in await list_audit_tenants(store)},
        "resources": await list_all_resources(store, "schema"),
        "deliveries": (await list_deliveries(store, "acme", limit=1_000)).rows,
        "due": await list_due_deliveries(store, now=AT + 1_000_000, limit=1_000),
        "next": await read_next_delivery_at(store),
        "mark": await read_mark(store, "place"),
        "memory": (await list_memory(store, SPACE, now=AT, limit=1_000)).entries,
        "found": await search_memory(store, SPACE, "green", now=AT, limit=100),
    }
