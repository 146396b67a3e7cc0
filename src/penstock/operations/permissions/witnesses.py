"""Witnesses: the state that a call would change, as an approval remembers it.

An approval is bound to its witness. If the state differs when the call is to be made, somebody changed it in
between, and the call is not made.

Above it: operations that change what is stored. Below it: the ports.
"""

from __future__ import annotations

from typing import Any

from penstock.base.json import JsonObject
from penstock.operations.gate.context import Context

__all__ = ["workflow_witness"]


async def workflow_witness(context: Context, given: Any) -> JsonObject:
    """Return the newest version of the workflow that a call is about."""
    row = await context.services.store.definitions.find_named(given.workflow_id, tenant=context.tenant)
    return {"kind": "workflow", "id": given.workflow_id, "hash": None if row is None else row.hash}
