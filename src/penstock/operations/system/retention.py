"""The internal calls of retention: runs and audit records past their time are deleted, one batch per call.

The principal is `system:retention` in the tenant concerned, so that the tenant's audit log says how much was deleted
and when.

Above it: `app.retention` decides what is past its time. Below it: the ports.
"""

from __future__ import annotations

import msgspec

from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.audit_log import seal_with
from penstock.operations.gate.context import Context

__all__ = ["FORGET_AUDIT", "FORGET_RUNS", "OPERATIONS", "Forgotten"]

FORGET_RUNS, FORGET_AUDIT = "retention.forget_runs", "retention.forget_audit"


class ForgetRuns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Runs of the tenant that ended long ago, by their stored ids."""

    run_ids: list[str]


class ForgetAudit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The number before which all records of the tenant's audit log are deleted, up to one transaction's worth."""

    before_seq: int


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """How many were deleted."""

    count: int


@operation(FORGET_RUNS, route=None, scopes=("execution:delete",), destructive=True, risk="high")
async def forget_runs(context: Context, given: ForgetRuns) -> Forgotten:
    """Delete runs that ended long ago."""
    context.call.about(None, runs=len(given.run_ids))
    return Forgotten(count=await context.services.store.delete_runs(given.run_ids, call=context.call))


@operation(FORGET_AUDIT, route=None, scopes=("audit:delete",), destructive=True, risk="high")
async def forget_audit(context: Context, given: ForgetAudit) -> Forgotten:
    """Delete a batch of audit records that are past their retention, and record that."""
    context.call.about(None, before_seq=given.before_seq)
    count = await context.services.platform.forget_audit(
        tenant=context.tenant,
        before_seq=given.before_seq,
        seal=seal_with(context.services.pepper),
        call=context.call,
    )
    return Forgotten(count=count)


OPERATIONS: tuple[Capability, ...] = (forget_runs, forget_audit)
