"""Calls that the process itself makes. They pass the gate like all others.

The clock starts runs on behalf of the owner of a schedule. Retention, the loading of files and the settings
change things without a request at that moment. Each of them is a principal with exactly the scopes that it needs. None
has a credential, so no outside caller can act as one of them.

Above it: `app`, the internal operations. Below it: the gate.
"""

from __future__ import annotations

from typing import Any

from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate.context import Principal, Request, Surface
from penstock.operations.gate.pipeline import Gate, RefusedCall

__all__ = ["internal_call", "system_principal"]


def system_principal(name: str, *scopes: str, tenant: str = DEFAULT_TENANT) -> Principal:
    """Return the principal for a part of Penstock that changes things of a tenant by itself."""
    return Principal(id=f"system:{name}", tenant=tenant, kind="system", scopes=frozenset(scopes), name=name)


async def internal_call(
    gate: Gate, principal: Principal, operation: str, arguments: JsonObject, *, surface: Surface = "system"
) -> Any:
    """Make a call from inside the process and return its answer; raise the error if it is refused."""
    outcome = await gate.call(
        Request(
            operation=operation,
            arguments=arguments,
            principal=principal,
            surface=surface,
            request_id=gate.services.new_id(),
        )
    )
    if isinstance(outcome, RefusedCall):
        raise outcome.error
    if not isinstance(outcome.reply, Reply):
        raise TypeError(f"{operation} answers with a stream")
    return outcome.reply.value
