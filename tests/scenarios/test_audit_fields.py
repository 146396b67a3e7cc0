"""What an audit record says about a call beside its outcome: who, for whom, with which program, from where, and why."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.base import limits
from penstock.governance.principals import Principal
from penstock.operations.gate.context import Request
from penstock.operations.gate.pipeline import AnsweredCall, Gate, RefusedCall
from penstock.runtime.ports.platform import AuditEntry, AuditQuery, CallRecord, KeyRow
from penstock.runtime.tables.api_keys import put_key
from penstock.runtime.tables.audit.records import list_audit
from tests.waiting import SECONDS_MAX

GREET = {"penstock": "v1", "name": "greet", "nodes": [{"id": "done", "type": "end"}]}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@dataclass(frozen=True)
class Studio:
    client: str | None = "studio/1.2"
    trace_id: str | None = TRACE
    traceparent: str | None = None


ADA = Principal(
    id="key:ada",
    tenant="shop",
    kind="agent",
    scopes=frozenset({"workflow:*", "execution:*"}),
    name="Ada's assistant",
    key_id="ada",
    acting_for=("person:ada", "person:boss"),
)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Gate]:
    """A gate that knows Ada's key: a call that takes longer than a moment asks whether its key is still valid."""
    async with (
        Penstock.open(folder / "penstock.db") as penstock,
        open_gate(penstock) as gate,
    ):
        scopes = tuple(sorted(ADA.scopes))
        key = KeyRow(key_id="ada", tenant="shop", name=ADA.name, secret_hash="", scopes=scopes, created_at=1)
        await put_key(gate.services.platform, key)
        yield gate


async def called(gate: Gate, operation: str, **more: object) -> AnsweredCall | RefusedCall:
    request = Request(
        operation=operation,
        arguments=dict(more),  # type: ignore[arg-type]
        principal=ADA,
        surface="mcp",
        request_id="r1",
        remote="192.0.2.7",
        origin=Studio(),
    )
    return await gate.call(request)


async def newest(gate: Gate) -> AuditEntry:
    (record,) = (await list_audit(gate.services.platform, AuditQuery(tenant="shop", limit=1))).records
    return record.entry


def test_a_record_says_who_called_for_whom_with_what_and_from_where(tmp_path: Path) -> None:
    async def test() -> None:
        async with opened(tmp_path) as gate:
            assert isinstance(await called(gate, "workflow.create", document=GREET), AnsweredCall)
            entry = await newest(gate)
            assert (entry.principal, entry.principal_kind, entry.principal_name) == (
                "key:ada",
                "agent",
                "Ada's assistant",
            )
            assert entry.acting_for == ("person:ada", "person:boss")
            assert (entry.credential, entry.client, entry.remote) == ("ada", "studio/1.2", "192.0.2.7")
            assert (entry.trace_id, entry.request_id) == (TRACE, "r1")
            assert isinstance(await called(gate, "key.list"), RefusedCall)
            refused = await newest(gate)
            assert (refused.outcome, refused.code, refused.client) == ("refused", "SCOPE_REQUIRED", "studio/1.2")

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_the_record_of_a_start_and_of_every_change_names_the_run(tmp_path: Path) -> None:
    async def test() -> None:
        async with opened(tmp_path) as gate:
            stored = Request(
                operation="workflow.create",
                arguments={"document": GREET},  # type: ignore[dict-item]  # a document is JSON
                principal=local_owner("shop"),
                surface="cli",
                request_id="r0",
            )
            assert isinstance(await gate.call(stored), AnsweredCall)
            begun = await called(gate, "workflow.execute", workflow_id="greet", execution_id="first")
            assert isinstance(begun, AnsweredCall)
            started = await newest(gate)
            assert (started.operation, started.subject, started.run_id) == ("workflow.execute", "greet", "first")
            await called(gate, "execution.delete", execution_id="first")  # what an agent deletes waits for a person
            held = await newest(gate)
            assert (held.operation, held.outcome) == ("execution.delete", "held")
            person = replace(ADA, kind="person")
            deletion = Request(
                operation="execution.delete",
                arguments={"execution_id": "first"},
                principal=person,
                surface="rest",
                request_id="r2",
            )
            assert isinstance(await gate.call(deletion), AnsweredCall)
            deleted = await newest(gate)
            assert (deleted.operation, deleted.run_id) == ("execution.delete", "first")

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_what_is_noted_during_a_call_is_in_its_entry_whenever_that_is_made() -> None:
    entry = AuditEntry(at=1, tenant="shop", principal="key:ada", surface="mcp", operation="pay", outcome="allowed")
    call = CallRecord()
    call.note(reasons=["no-refunds"] * 50, policy_version="7")
    assert call.entry is None
    begun = CallRecord(entry=entry, noted=call.noted)
    begun.note(outcome="held", draft_id="d1", approval_id="a1")
    assert begun.entry is not None
    assert begun.entry.reasons == ("no-refunds",) * limits.AUDIT_REASONS_MAX
    assert (begun.entry.policy_version, begun.entry.outcome) == ("7", "held")
    assert (begun.entry.draft_id, begun.entry.approval_id) == ("d1", "a1")
