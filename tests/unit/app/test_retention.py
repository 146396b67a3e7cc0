"""What is forgotten in time, and what stays."""

from __future__ import annotations

import asyncio
from pathlib import Path

from penstock.app.gate import open_gate
from penstock.app.penstock import Penstock
from penstock.app.retention import Retention, apply_retention
from penstock.base.clock import ManualClock
from penstock.base.json import JsonObject
from penstock.operations.gate.audit_log import seal_with
from penstock.operations.gate.pipeline import Gate
from penstock.runtime.ports.platform import AuditEntry, AuditQuery, DeliveryRow
from penstock.runtime.tables.audit.records import list_audit
from penstock.runtime.tables.call_records import append_audit
from penstock.runtime.tables.deliveries import add_deliveries, list_deliveries

NOW = 1_767_225_600_000
DAY = 24 * 60 * 60 * 1000


async def fill(gate: Gate) -> None:
    platform = gate.services.platform
    for age in range(10):
        at = NOW - age * DAY
        row = DeliveryRow(
            delivery_id=f"dlv_{age}",
            tenant="default",
            endpoint_id="wh_1",
            run_id="r_1",
            event={},
            state="pending" if age == 9 else "delivered",
            created_at=at,
            updated_at=at,
        )
        await add_deliveries(platform, [row])
    for tenant in ("default", "acme"):
        for age in reversed(range(10)):
            entry = AuditEntry(
                at=NOW - age * DAY, tenant=tenant, principal="p", surface="sdk", operation="x.y", outcome="allowed"
            )
            await append_audit(platform, [entry], seal=seal_with(gate.services.pepper))


def test_old_deliveries_and_audit_records_go_and_the_rest_stays(tmp_path: Path) -> None:
    async def body() -> None:
        clock = ManualClock(NOW)
        async with (
            Penstock.open(tmp_path / "penstock.db", clock=clock, perform=False) as penstock,
            open_gate(penstock) as gate,
        ):
            await fill(gate)
            platform = gate.services.platform
            await apply_retention(gate, Retention(audit_ms=None, deliveries_ms=None))
            assert len((await list_deliveries(platform, "default", limit=50)).rows) == 10
            await apply_retention(gate, Retention(audit_ms=4 * DAY, deliveries_ms=2 * DAY))
            kept = {row.delivery_id for row in (await list_deliveries(platform, "default", limit=50)).rows}
            assert kept == {"dlv_0", "dlv_1", "dlv_2", "dlv_9"}
            for tenant in ("default", "acme"):
                page = await list_audit(platform, AuditQuery(tenant=tenant, limit=50))
                assert [(NOW - record.entry.at) // DAY for record in page.records] == [0, 0, 1, 2, 3, 4]

    asyncio.run(body())


def test_runs_go_when_they_ended_long_ago_and_open_ones_stay(tmp_path: Path) -> None:
    ends: JsonObject = {"penstock": "v1", "name": "ends", "nodes": [{"id": "done", "type": "end"}]}
    waits: JsonObject = {
        "penstock": "v1",
        "name": "waits",
        "nodes": [{"id": "go", "type": "wait", "signal": "go"}, {"id": "done", "type": "end"}],
    }

    async def body() -> None:
        clock = ManualClock(NOW)
        async with (
            Penstock.open(tmp_path / "penstock.db", clock=clock, workflows=[ends, waits], perform=False) as penstock,
            open_gate(penstock) as gate,
        ):
            await penstock.start("ends", run_id="old")
            await penstock.start("waits", run_id="open")
            clock.advance(3 * DAY)
            await penstock.start("ends", run_id="new")
            await apply_retention(gate, Retention())
            assert {row.run_id for row in (await penstock.runs()).rows} == {"old", "open", "new"}
            await apply_retention(gate, Retention(runs_ms=2 * DAY))
            assert {row.run_id for row in (await penstock.runs()).rows} == {"open", "new"}

    asyncio.run(body())
