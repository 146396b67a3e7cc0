"""The audit log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.runtime.ports.audit import AuditHold, AuditQuery
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.tables.audit import heads, records, removal
from penstock.runtime.tables.call_records import append_audit
from tests.conformance.families.family import Family
from tests.conformance.platform_stores import SEAL, entry

__all__ = ["AUDIT"]

HOLD = AuditHold(hold_id="h", reason="court", subject="s", principal="p", since=1, until=2)
SALT = "5a" * 16


def queries() -> Iterable[AuditQuery]:
    """Queries with every condition, and in both directions."""
    every: dict[str, Any] = {"after_seq": 1, "before_seq": 9, "operation": "a", "not_operation": "b", "principal": "p"}
    every |= {"since": 1, "until": 9, "not_held_by": (HOLD,)}
    for oldest_first in (True, False):
        for more in ({}, {"subject": "s"}, {"outcome": "refused"}, {"outcome": "allowed"}, every):
            yield AuditQuery(tenant="acme", oldest_first=oldest_first, **more)


async def list_by_everything(database: Database) -> None:
    """List with every query."""
    for query in queries():
        await records.list_audit(database, query)


async def append(database: Database, *tenants: str, first: int = 0) -> None:
    """Append an entry for each tenant, in one call."""
    entries = [entry(first + number, tenant=tenant, salt=SALT) for number, tenant in enumerate(tenants)]
    await append_audit(database, entries, seal=SEAL)


def told_to(tenant: str) -> CallRecord:
    """The record of a call that another tenant's trail has."""
    return CallRecord(entry=entry(90, tenant=tenant), seal=SEAL)


AUDIT = Family(
    given=[lambda database: append(database, "acme", "acme", "acme", "acme", "other", "other")],
    changes={
        "append_audit": lambda database: append(database, "acme", first=10),
        "append_audit: both": lambda database: append(database, "other", "acme", first=20),
        "append_audit: both again": lambda database: append(database, "acme", "other", first=30),
        "append_audit: a new tenant": lambda database: append(database, "new", "acme", first=40),
        "append_audit: another new one": lambda database: append(database, "newer", first=50),
        "forget_audit": lambda database: removal.forget_audit(
            database, tenant="acme", before_seq=3, seal=SEAL, holds=[HOLD]
        ),
        "forget_audit: told to the other": lambda database: removal.forget_audit(
            database, tenant="acme", before_seq=2, seal=SEAL, call=told_to("other")
        ),
        "forget_audit: of the other": lambda database: removal.forget_audit(
            database, tenant="other", before_seq=2, seal=SEAL, call=told_to("acme")
        ),
        "redact_audit": lambda database: removal.redact_audit(
            database, tenant="acme", seqs=[1, 2], names=["principal"], holds=[HOLD]
        ),
        "redact_audit: told to the other": lambda database: removal.redact_audit(
            database, tenant="acme", seqs=[2, 4], names=["subject"], call=told_to("other")
        ),
    },
    reads={
        "list_audit": list_by_everything,
        "list_audit_tenants": records.list_audit_tenants,
        "find_audit_head": lambda database: heads.find_audit_head(database, "acme"),
        "count_audit_chains": heads.count_audit_chains,
        "list_removed_audit": lambda database: removal.list_removed_audit(database, "acme", limit=5),
    },
)
