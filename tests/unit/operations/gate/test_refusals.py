"""Refusals are gathered: equal ones are counted, and of different ones a tenant has so many records in a minute."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.base import limits
from penstock.base.errors import Denied
from penstock.operations.gate.audit_log import ANONYMOUS_TENANT
from penstock.operations.gate.context import Credentials
from penstock.operations.gate.refusals import VARIOUS, GatheredRefusals, RefusalKey
from penstock.runtime.ports.platform import AuditEntry, AuditQuery
from penstock.runtime.tables.audit.records import list_audit
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.running import run

AT = 1_000_000
OVER = AT + limits.AUDIT_REFUSALS_GATHER_MS


def refusal(remote: str, *, at: int = AT, tenant: str = "-", code: str = "ROUTE_NOT_FOUND") -> AuditEntry:
    return AuditEntry(
        at=at,
        tenant=tenant,
        principal="anonymous",
        surface="rest",
        operation="http.request",
        outcome="refused",
        code=code,
        remote=remote,
    )


def key_of(entry: AuditEntry) -> RefusalKey:
    remote = str(entry.remote)
    return (entry.principal, entry.surface, entry.operation, entry.subject, entry.code, remote)


def came(gathered: GatheredRefusals, entry: AuditEntry, times: int = 1) -> None:
    for _ in range(times):
        if not gathered.counted(entry.tenant, key_of(entry), entry.at):
            gathered.add(key_of(entry), entry)


def counts(entries: list[AuditEntry]) -> list[tuple[object, int]]:
    return [(entry.remote, entry.count) for entry in entries]


def test_what_is_new_is_written_soon_and_what_came_again_at_the_end_of_the_minute() -> None:
    gathered = GatheredRefusals()
    came(gathered, refusal("a"), 3)
    assert counts(gathered.take(AT + 5_000)) == [("a", 3)]
    came(gathered, refusal("a"), 4)
    came(gathered, refusal("b"))
    assert counts(gathered.take(AT + 10_000)) == [("b", 1)]
    assert gathered.take(AT + 15_000) == []
    assert counts(gathered.take(OVER)) == [("a", 4)]
    assert gathered.take(OVER, final=True) == []


def test_a_process_that_stops_writes_everything() -> None:
    gathered = GatheredRefusals()
    came(gathered, refusal("a"), 2)
    gathered.take(AT)
    came(gathered, refusal("a"), 5)
    assert counts(gathered.take(AT + 1, final=True)) == [("a", 5)]


def test_the_counts_of_a_minute_are_not_lost_when_the_next_one_begins_before_they_are_written() -> None:
    gathered = GatheredRefusals()
    came(gathered, refusal("a"), 2)
    came(gathered, refusal("a", at=OVER), 3)
    assert sorted(counts(gathered.take(OVER))) == [("a", 2), ("a", 3)]


def test_beyond_so_many_different_ones_one_record_counts_the_rest() -> None:
    gathered, many = GatheredRefusals(), limits.AUDIT_REFUSALS_KEPT_MAX + 15
    for number in range(many):
        came(gathered, refusal(str(number)), 2)
    came(gathered, refusal("x", code="BODY_TOO_LARGE"))
    came(gathered, refusal("other", tenant="shop"))
    assert len(gathered.take(AT)) == limits.AUDIT_REFUSALS_KEPT_MAX + 1, "one tenant leaves no less room for another"
    (rest,) = gathered.take(OVER)
    assert (rest.operation, rest.outcome, rest.count) == (VARIOUS, "refused", 31)
    assert rest.details["codes"] == {"ROUTE_NOT_FOUND": 30, "BODY_TOO_LARGE": 1}
    named = [str(number) for number in range(limits.AUDIT_REFUSALS_KEPT_MAX, limits.AUDIT_REFUSALS_KEPT_MAX + 10)]
    assert rest.remote == " ".join(named)


def test_what_could_not_be_written_comes_again_and_first() -> None:
    gathered = GatheredRefusals()
    came(gathered, refusal("a"), 2)
    gathered.give_back(gathered.take(AT))
    came(gathered, refusal("b"))
    assert counts(gathered.take(AT + 1)) == [("a", 2), ("b", 1)]


def test_a_key_that_is_revoked_while_its_holder_is_asked_is_on_record_with_the_address(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        gate = caller.gate
        made = await caller.call("key.create", name="gone", scopes=["workflow:read"])
        who = await gate.authenticate(Credentials(bearer=made["secret"]), surface="mcp", request_id="r")
        await caller.call("key.revoke", key_id=made["key"]["id"])
        with pytest.raises(Denied) as refused:
            await gate.recheck(who, surface="mcp", request_id="r", remote="192.0.2.7")
        assert refused.value.on_record
        await gate.flush()
        (record,) = (await list_audit(gate.services.platform, AuditQuery(tenant=ANONYMOUS_TENANT))).records
        entry = record.entry
        assert (entry.outcome, entry.code, entry.remote) == ("refused", "KEY_REVOKED", "192.0.2.7")

    run(open_caller, test)


def test_calls_above_the_rate_are_gathered(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        gate = caller.gate
        gate.rate_limiter = type(gate.rate_limiter)(replace(gate.services.limits, admin_per_minute=6))
        for _ in range(50):
            await caller.outcome("key.list")
        await gate.flush()
        found = await list_audit(gate.services.platform, AuditQuery(tenant="default", operation="key.list"))
        kept = [(record.entry.outcome, record.entry.code, record.entry.count) for record in found.records]
        assert sorted(kept, key=str) == [("allowed", None, 1), ("refused", "RATE_LIMITED", 49)]

    run(open_caller, test)
