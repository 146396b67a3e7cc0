"""Audit records as the gate makes them."""

from __future__ import annotations

import asyncio

from penstock.governance.audit.leaves import SALT_BYTES
from penstock.runtime.ports.platform import AuditQuery
from penstock.runtime.tables.audit.records import list_audit
from tests.unit.operations.conftest import OpenGate


def test_every_record_has_a_salt_of_its_own(open_caller: OpenGate) -> None:
    async def body() -> None:
        async with open_caller() as caller:
            for number in range(150):
                await caller.call("schema.create", id=f"schema-{number}", schema={"type": "object"})
            found = await list_audit(caller.gate.services.platform, AuditQuery(tenant="default", limit=1_000))
        salts = [record.entry.salt or "" for record in found.records]
        assert len(salts) >= 150
        assert len(set(salts)) == len(salts)
        assert {len(bytes.fromhex(salt)) for salt in salts} == {SALT_BYTES}

    asyncio.run(body())
