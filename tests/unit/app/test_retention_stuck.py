"""A row that cannot be deleted is set aside and named, and everything else is deleted in time."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.retention import Retention, RetentionStatus, Sweeps, apply_retention
from penstock.base.clock import ManualClock
from penstock.base.json import JsonObject, JsonValue
from penstock.operations.gate.audit_log import seal_with
from penstock.operations.gate.context import ServerParts
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.pipeline import Gate
from penstock.operations.permissions.console_sessions import SessionRecord, session_row
from penstock.runtime.ports.memory import MemoryEntry, MemoryRoom, MemorySpace
from penstock.runtime.ports.platform import AuditEntry, AuditQuery, CallRecord, DeliveryRow, IdempotencyClaim
from penstock.runtime.tables.audit.records import list_audit
from penstock.runtime.tables.call_records import append_audit, record_call
from penstock.runtime.tables.deliveries import add_deliveries, list_deliveries
from penstock.runtime.tables.memory import put_memory
from penstock.runtime.tables.resources import put_resource
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.anyio
NOW = 1_767_225_600_000
DAY = 24 * 60 * 60 * 1000
ENDS: JsonObject = {"penstock": "v1", "name": "ends", "nodes": [{"id": "done", "type": "end"}]}
ROOM = MemoryRoom(entries_max=10_000, bytes_max=10**9, tenant_bytes_max=10**9)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[Penstock, Gate, ManualClock]]:
    clock = ManualClock(NOW)
    async with (
        asyncio.timeout(SECONDS_MAX),
        Penstock.open(folder / "penstock.db", clock=clock, workflows=[ENDS], perform=False) as penstock,
        open_gate(penstock, server=ServerParts()) as gate,
    ):
        yield penstock, gate, clock


def keep(folder: Path, table: str, condition: str) -> None:
    """Let a row of a table refuse to be deleted, as a damaged one does."""
    with closing(sqlite3.connect(folder / "penstock.db")) as connection, connection:
        connection.execute(
            f"CREATE TRIGGER keep_{table} BEFORE DELETE ON {table} WHEN {condition}"
            " BEGIN SELECT RAISE(ABORT, 'it is damaged'); END"
        )


async def runs(penstock: Penstock) -> set[str]:
    return {row.run_id for row in (await penstock.runs()).rows}


async def do(gate: Gate, operation: str, **arguments: JsonValue) -> None:
    await internal_call(gate, local_owner(), operation, arguments, surface="cli")


async def told(gate: Gate) -> str:
    return (await gate.services.checks())["retention"]


async def test_a_run_that_cannot_be_deleted_holds_up_no_other(tmp_path: Path) -> None:
    async with opened(tmp_path) as (penstock, gate, clock):
        for number in range(5):
            await penstock.start("ends", run_id=f"r{number}")
        keep(tmp_path, "runs", "OLD.run_id = 'r0'")
        clock.advance(3 * DAY)
        assert await told(gate) == "ok"
        await apply_retention(gate, Retention(runs_ms=DAY))
        assert await runs(penstock) == {"r0"}
        assert "r0" in await told(gate)
        assert "it is damaged" in await told(gate)
        await penstock.start("ends", run_id="later")
        clock.advance(3 * DAY)
        await apply_retention(gate, Retention(runs_ms=DAY))
        assert await runs(penstock) == {"r0"}


async def test_a_run_with_unreadable_labels_is_named_and_holds_up_no_other(tmp_path: Path) -> None:
    async with opened(tmp_path) as (penstock, gate, clock):
        for number in range(3):
            await penstock.start("ends", run_id=f"r{number}", labels={"team": "a"})
        with closing(sqlite3.connect(tmp_path / "penstock.db")) as connection, connection:
            connection.execute("UPDATE runs SET labels = '{broken' WHERE run_id = 'r1'")
        clock.advance(3 * DAY)
        await apply_retention(gate, Retention(runs_ms=DAY))
        with closing(sqlite3.connect(tmp_path / "penstock.db")) as connection:
            assert connection.execute("SELECT run_id FROM runs").fetchall() == [("r1",)]
        assert "r1" in await told(gate)


async def test_a_delivery_that_cannot_be_deleted_holds_up_no_other(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, gate, clock):
        platform = gate.services.platform
        for number in range(5):
            row = DeliveryRow(
                delivery_id=f"d{number}",
                tenant="default",
                endpoint_id="w",
                run_id="r",
                event={},
                state="delivered",
                created_at=NOW,
                updated_at=NOW,
            )
            await add_deliveries(platform, [row])
        keep(tmp_path, "deliveries", "OLD.delivery_id = 'd2'")
        clock.advance(3 * DAY)
        await apply_retention(gate, Retention(deliveries_ms=DAY))
        assert [row.delivery_id for row in (await list_deliveries(platform, "default", limit=9)).rows] == ["d2"]
        assert "deliveries" in await told(gate)


async def test_an_audit_record_that_cannot_be_deleted_holds_up_no_other(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, gate, clock):
        platform = gate.services.platform
        for tenant in ("acme", "default"):
            for _ in range(6):
                entry = AuditEntry(
                    at=NOW, tenant=tenant, principal="p", surface="sdk", operation="x.y", outcome="allowed"
                )
                await append_audit(platform, [entry], seal=seal_with(gate.services.pepper))
        keep(tmp_path, "audit", "OLD.tenant = 'acme' AND OLD.seq = 2")
        clock.advance(3 * DAY)
        await apply_retention(gate, Retention(audit_ms=DAY))
        for tenant, left in (("acme", [2]), ("default", [])):
            query = AuditQuery(tenant=tenant, operation="x.y", oldest_first=True, limit=50)
            assert [record.seq for record in (await list_audit(platform, query)).records] in (left, [*left, 6])
        assert "acme" in await told(gate)


async def test_an_entry_of_memory_that_cannot_be_deleted_holds_up_no_other(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, gate, clock):
        space = MemorySpace(tenant="default", scope="tenant", owner="")
        for number in range(4):
            entry = MemoryEntry(
                key=f"m{number}", value=1, created_at=NOW, updated_at=NOW, updated_by="p", expires_at=NOW + 1
            )
            await put_memory(gate.services.platform, space, entry, room=ROOM)
        keep(tmp_path, "memory_entries", "OLD.name = 'm1'")
        clock.advance(DAY)
        await Sweeps(gate, Retention()).sweep_all()
        with closing(sqlite3.connect(tmp_path / "penstock.db")) as connection:
            assert connection.execute("SELECT name FROM memory_entries").fetchall() == [("m1",)]
        assert "memory" in await told(gate)


async def test_a_table_of_a_deleted_graph_that_cannot_be_emptied_holds_up_no_other(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, gate, _):
        for name in ("one", "two"):
            await do(gate, "graph.create", id=name, schema="node Person { name: String @key }")
            record = json.dumps({"type": "Person", "data": {"name": "Ada"}})
            await do(gate, "graph.load", graph_id=name, data=record)
            await do(gate, "graph.delete", graph_id=name)
        with closing(sqlite3.connect(tmp_path / "penstock.db")) as connection:
            tables = [
                name
                for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                if name.startswith("g1_") and name.count("_") == 1
            ]
        assert tables
        keep(tmp_path, tables[0], "1")
        await Sweeps(gate, Retention()).sweep_all()
        with closing(sqlite3.connect(tmp_path / "penstock.db")) as connection:
            (left,) = connection.execute("SELECT count(*) FROM graphs WHERE deleted = 1").fetchone()
        assert left == 1
        assert "graphs" in await told(gate)


async def test_an_answer_that_cannot_be_deleted_holds_up_no_other(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, gate, clock):
        for number in range(5):
            claim = IdempotencyClaim(
                tenant="default",
                principal="p",
                operation="x.y",
                key=f"k{number}",
                digest="d",
                now=NOW,
                in_flight_until=NOW + 1,
                keep_until=NOW + 1,
            )
            await record_call(gate.services.platform, CallRecord(claim=claim, answer={"value": number}))
        keep(tmp_path, "calls", "OLD.key = 'k2'")
        clock.advance(3 * DAY)
        await Sweeps(gate, Retention()).sweep_all()
        with closing(sqlite3.connect(tmp_path / "penstock.db")) as connection:
            assert connection.execute("SELECT key FROM calls").fetchall() == [("k2",)]
        assert "answers" in await told(gate)


async def test_a_count_of_usage_that_cannot_be_deleted_holds_up_no_other(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, gate, _):
        with closing(sqlite3.connect(tmp_path / "penstock.db")) as connection, connection:
            columns = [row[1] for row in connection.execute("PRAGMA table_info(usage_counts)")]
            for day in (1, 2, 3):
                values = {"tenant": "default", "day": day}
                given = [values.get(name, 0) for name in columns]
                connection.execute(f"INSERT INTO usage_counts VALUES ({','.join('?' * len(columns))})", given)
        keep(tmp_path, "usage_counts", "OLD.day = 2")
        await Sweeps(gate, Retention()).sweep_all()
        with closing(sqlite3.connect(tmp_path / "penstock.db")) as connection:
            assert connection.execute("SELECT day FROM usage_counts WHERE day < 10").fetchall() == [(2,)]
        assert "usage" in await told(gate)


async def test_a_session_of_the_console_that_cannot_be_deleted_holds_up_no_other(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, gate, clock):
        owner = local_owner()
        for number in range(3):
            record = SessionRecord(principal=owner.id, name="owner", began_ms=NOW, used_ms=NOW)
            row = session_row(owner.tenant, f"s{number}", record, owner.id)
            await put_resource(gate.services.platform, row, expected_etag=None)
        keep(tmp_path, "resources", "OLD.resource_id = 's0'")
        clock.advance(90 * DAY)
        status = RetentionStatus()
        await Sweeps(gate, Retention(), status).sweep_all()
        with closing(sqlite3.connect(tmp_path / "penstock.db")) as connection:
            found = connection.execute("SELECT resource_id FROM resources WHERE resource_id LIKE 's_'").fetchall()
        assert found == [("s0",)]
        assert "sessions cannot be deleted" in status.health()


async def test_more_runs_than_end_in_a_minute_are_deleted_in_one_round(tmp_path: Path) -> None:
    many = 12_000
    async with opened(tmp_path) as (penstock, gate, clock):
        for first in range(0, many, 500):
            await asyncio.gather(*(penstock.start("ends", run_id=f"r{first + number}") for number in range(500)))
        clock.advance(3 * DAY)
        await apply_retention(gate, Retention(runs_ms=DAY))
        assert await runs(penstock) == set()
        assert await told(gate) == "ok"
