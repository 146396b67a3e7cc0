"""Whose memory a call is about.

The space of a tenant is shared by its principals. That of a principal, and those of its sessions, are seen by nobody
else: a space is found by who calls, never by who a caller says to be. A key that replaced another one counts as the
same principal. Who acts for somebody else has a space for each of those.

A call that a run makes belongs to the session of the run: the one that its label names, else the chain of the run.

Above it: `operations`. Below it: the ports.
"""

from __future__ import annotations

from typing import Final

from penstock.base.errors import Rejected
from penstock.base.ids import chain_of, id_for_callers
from penstock.operations.gate.context import Context
from penstock.runtime.ports.memory import MemoryScope, MemorySpace
from penstock.runtime.tables.api_keys import read_key

__all__ = ["SESSION_LABEL", "space_of"]

SESSION_LABEL: Final = "penstock.session"
"""The label of runs that belong to a session: its id."""
_REPLACED_MAX: Final = 100


async def space_of(context: Context, scope: MemoryScope, session_id: str | None) -> MemorySpace:
    """Return the space that a call names; raise `Rejected` if it cannot be one."""
    if scope != "session":
        if session_id is not None:
            raise Rejected("SESSION_UNEXPECTED", f"the memory of a {scope} has no sessions", "leave `session_id` out")
        owner = await _owner(context) if scope == "principal" else ""
        return MemorySpace(tenant=context.tenant, scope=scope, owner=owner)
    session = session_id or await _session_of_run(context)
    if session is None:
        message = "the memory of a session needs a session id"
        raise Rejected("SESSION_REQUIRED", message, "send `session_id`; calls of a run have their own")
    return MemorySpace(tenant=context.tenant, scope=scope, owner=await _owner(context), session=session)


async def _owner(context: Context) -> str:
    """Return the principal whose memory it is, by a name that it keeps when its key is replaced."""
    principal = context.principal
    name, key_id = principal.id, principal.key_id
    for _ in range(_REPLACED_MAX):
        row = None if key_id is None else await read_key(context.services.platform, key_id)
        if row is None or row.replaces is None or row.tenant != context.tenant:
            break
        key_id = row.replaces
        name = f"key:{key_id}"
    return " for ".join((name, *principal.acting_for))


async def _session_of_run(context: Context) -> str | None:
    """Return the session of the run that makes a call; None if no run does."""
    visit = context.request.visit
    if visit is None:
        return None
    row = await context.services.store.row(visit.run_id)
    named = None if row is None else row.labels.get(SESSION_LABEL)
    return named or id_for_callers(context.tenant, chain_of(visit.run_id))
