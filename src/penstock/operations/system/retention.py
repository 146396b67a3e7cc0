"""The internal call of retention that deletes runs past their time, one batch per call.

The principal is `system:retention` in the tenant concerned, so that the tenant's audit log says how much was deleted
and when.

Above it: `app.retention` decides what is past its time. Below it: the ports.
"""

from __future__ import annotations

import msgspec

from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context

__all__ = ["FORGET_RUNS", "OPERATIONS", "Forgotten"]

FORGET_RUNS = "retention.forget_runs"


class ForgetRuns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Runs of the tenant that ended long ago, by their stored ids."""

    run_ids: list[str]


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """How many were deleted."""

    count: int


@operation(FORGET_RUNS, route=None, scopes=("execution:delete",), destructive=True, risk="high")
async def forget_runs(context: Context, given: ForgetRuns) -> Forgotten:
    """Delete runs that ended long ago."""
    context.call.about(None, runs=len(given.run_ids))
    return Forgotten(count=await context.services.store.forget_runs(given.run_ids, call=context.call))


OPERATIONS: tuple[Capability, ...] = (forget_runs,)
