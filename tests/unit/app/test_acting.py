"""What the process changes by itself passes the gate: each change has a principal and exactly one audit record."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from penstock.app.gateway import create_owner_key, open_gate
from penstock.app.penstock import Penstock
from penstock.operations.pipeline import Gate
from penstock.runtime.platform import AuditQuery


async def audited(gate: Gate, operation: str, *, tenant: str = "default") -> list[tuple[Any, ...]]:
    """Who did something, to what, and how it ended; the newest first."""
    await gate.flush()
    page = await gate.services.platform.audit(AuditQuery(tenant=tenant, operation=operation, limit=50))
    return [(item.entry.principal, item.entry.surface, item.entry.outcome, item.entry.code) for item in page.records]


def test_the_first_key_of_a_store_is_made_by_a_call_with_a_record(tmp_path: Path) -> None:
    async def body() -> None:
        async with Penstock.open(tmp_path / "penstock.db", perform=False) as penstock, open_gate(penstock) as gate:
            assert await create_owner_key(gate) is not None
            (made,) = await audited(gate, "key.create")
            assert made == ("local:owner", "system", "allowed", None)
            assert await create_owner_key(gate) is None
            assert len(await audited(gate, "key.create")) == 1

    asyncio.run(body())
