"""The internal call of retention that removes audit records past their time, one batch per call.

The principal is `system:retention` in the tenant concerned, so that the tenant's audit log says what was removed and
when; a verifier of the log accepts missing records only with such a record.

Above it: `app.retention` decides what is past its time. Below it: the ports.
"""

from __future__ import annotations

import msgspec

from penstock.governance.audit.trails import FORGET_AUDIT
from penstock.operations.audit.holds import audit_holds
from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.audit_log import seal_with
from penstock.operations.gate.context import Context
from penstock.runtime.tables.audit.removal import forget_audit

__all__ = ["OPERATIONS", "RemovedCount"]


class ForgetAudit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The number before which all records of the tenant's audit log are removed, up to one transaction's worth."""

    before_seq: int


class RemovedCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many were removed."""

    count: int


@operation(FORGET_AUDIT, route=None, scopes=("audit:delete",), destructive=True, risk="high")
async def remove_audit(context: Context, given: ForgetAudit) -> RemovedCount:
    """Remove a batch of audit records that are past their retention and not held, and record that."""
    context.call.about(None, before_seq=given.before_seq)
    count = await forget_audit(
        context.services.platform,
        tenant=context.tenant,
        before_seq=given.before_seq,
        seal=seal_with(context.services.pepper),
        holds=await audit_holds(context.services.platform, context.tenant),
        call=context.call,
    )
    return RemovedCount(count=count)


OPERATIONS: tuple[Capability, ...] = (remove_audit,)
