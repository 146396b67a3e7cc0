"""Calls that the process itself makes: they pass the gate like everybody else's.

The clock starts executions for whoever made a schedule; retention, the loading of files and the settings change things
without anybody asking at that moment. Each of them is a principal of its own with exactly the scopes it needs. None has
a credential, so nobody outside can be one of them.

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
    """A part of Penstock that changes things of a tenant by itself."""
    return Principal(id=f"system:{name}", tenant=tenant, scopes=frozenset(scopes), name=name)


async def internal_call(
    gate: Gate, principal: Principal, operation: str, arguments: JsonObject, *, surface: Surface = "system"
) -> Any:
    """The answer to a call that the process itself makes; raises the error of one that is refused."""
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
