"""In whose name schedules start executions, and what these people may do now.

A schedule acts for whoever made it, changed it last, or stored the workflow whose document asks for it. Their rights
are looked up each time: a key that was revoked, has expired or lost a scope starts nothing any more, wherever it left a
schedule. The key that replaced another one stands for the same person.

Above it: `schedules`, `scheduled`. Below it: the ports.
"""

from __future__ import annotations

from penstock.base import limits
from penstock.base.errors import Denied
from penstock.engine import starters
from penstock.operations.authentication import principal_of
from penstock.operations.context import Principal, Services
from penstock.runtime.platform import KeyRow
from penstock.runtime.ports import ScheduleRow
from penstock.runtime.schedules import made_by, origin_of

__all__ = ["PROGRAM", "maker_id", "rights_of_maker"]

# The program that has this library in it, and whoever owns the process or the file: users of the operating system too.
PROGRAM = starters.PROGRAM.principal
_OWNERS = ("local:", "os:", "system:")
_KEY = "key:"
_EVERYTHING, _RUN = frozenset({"*"}), frozenset({"workflow:run"})
_HINT = "somebody who may start the workflow changes the schedule, or stores the workflow, and it goes on in their name"


async def maker_id(services: Services, row: ScheduleRow) -> str | None:
    """The principal in whose name a schedule acts; None for one of an older file that says nothing."""
    match origin_of(row):
        case "operation":
            return made_by(row)
        case "document":
            newest = await services.store.definition_named(row.workflow_name, tenant=row.tenant)
            return PROGRAM if newest is None or newest.created_by is None else newest.created_by
        case _:
            return PROGRAM


async def rights_of_maker(services: Services, maker: str | None, tenant: str) -> Principal:
    """Somebody who made a schedule, with the scopes that they have now; `Denied` if they have none any more.

    An older file does not say who made a schedule: then it may start what needs no scope of its own.
    """
    if maker is None:
        return Principal(id="unknown", tenant=tenant, scopes=_RUN)
    if maker == PROGRAM or maker.startswith(_OWNERS):
        return Principal(id=maker, tenant=tenant, scopes=_EVERYTHING)
    key = await services.platform.key(maker.removeprefix(_KEY)) if maker.startswith(_KEY) else None
    if key is None or key.tenant != tenant:
        raise Denied("SCHEDULE_MAKER_UNKNOWN", f"the schedule was made by {maker}, who is not known any more", _HINT)
    return principal_of(await _valid(services, key))


async def _valid(services: Services, key: KeyRow) -> KeyRow:
    now = services.clock.now_ms()
    while key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= now):
        successor = await _successor(services, key)
        if successor is None:
            code, told = (
                ("KEY_REVOKED", "was revoked") if key.revoked_at is not None else ("KEY_EXPIRED", "has expired")
            )
            raise Denied(code, f"the key {key.name}, with which the schedule was made, {told}", _HINT)
        key = successor
    return key


async def _successor(services: Services, key: KeyRow) -> KeyRow | None:
    """The key that replaced another one."""
    cursor: str | None = None
    while True:
        page = await services.platform.keys(tenant=key.tenant, limit=limits.PAGE_LIMIT_MAX, cursor=cursor)
        found = next((row for row in page.rows if row.replaces == key.key_id), None)
        cursor = page.next_cursor
        if found is not None or cursor is None:
            return found
