"""In whose name schedules and webhooks act, and what these people may do now.

A schedule acts for whoever made it, changed it last, or stored the workflow whose document has it; a webhook for
whoever stored the workflow. Their rights are looked up each time: a key that was revoked, has expired or lost a scope
starts nothing any more, whatever it left behind. A key that replaced another one stands for the same person.

Above it: the operations on schedules and webhooks. Below it: `starting`, the ports.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.base import limits
from penstock.base.errors import Denied
from penstock.engine import inputs
from penstock.operations.gate.authentication import principal_of
from penstock.operations.gate.context import Principal, Services
from penstock.operations.permissions.starting import first_missing, needs_of, scopes_to_start
from penstock.runtime.ports.platform import KeyRow
from penstock.runtime.ports.runs import DefinitionRow, ScheduleRow
from penstock.runtime.schedules.scheduler import made_by, origin_of

__all__ = [
    "PROGRAM",
    "SCHEDULE",
    "TriggerKind",
    "check_maker",
    "maker_id",
    "maker_of_trigger",
    "rights_of_maker",
    "trigger_scopes",
]

# The program that has this library in it, and whoever owns the process or the file: users of the operating system too.
PROGRAM = inputs.PROGRAM.principal
_OWNERS = ("local:", "os:", "system:")
_KEY = "key:"
_EVERYTHING, _RUN = frozenset({"*"}), frozenset({"workflow:run"})


class TriggerKind(NamedTuple):
    """What somebody made that acts in their name: what it is called, and how it comes to act for somebody else."""

    label: str
    unknown_code: str
    """The code of one whose maker is nobody that is known."""
    hint: str


SCHEDULE = TriggerKind(
    "the schedule",
    "SCHEDULE_MAKER_UNKNOWN",
    "somebody who may start the workflow changes the schedule, or stores a new version of the workflow that asks for "
    "it, and it goes on in their name",
)
WEBHOOK = TriggerKind(
    "the webhook",
    "WEBHOOK_MAKER_UNKNOWN",
    "somebody who may start the workflow stores a new version of it, and the webhook goes on in their name",
)
# What a trigger needs that signals the runs of its own workflow.
_SIGNAL = frozenset({"execution:write"})


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


def maker_of_trigger(row: DefinitionRow) -> str:
    """The principal in whose name the triggers of a stored workflow act."""
    return PROGRAM if row.created_by is None else row.created_by


async def rights_of_maker(
    services: Services, maker: str | None, tenant: str, kind: TriggerKind = SCHEDULE
) -> Principal:
    """Somebody who made something, with the scopes that they have now; `Denied` if they have none any more.

    An older file does not say who made a schedule: then it may start what needs no scope of its own.
    """
    if maker is None:
        return Principal(id="unknown", tenant=tenant, scopes=_RUN)
    if maker == PROGRAM or maker.startswith(_OWNERS):
        return Principal(id=maker, tenant=tenant, scopes=_EVERYTHING)
    key = await services.platform.key(maker.removeprefix(_KEY)) if maker.startswith(_KEY) else None
    if key is None or key.tenant != tenant:
        raise Denied(kind.unknown_code, f"{kind.label} was made by {maker}, who is not known any more", kind.hint)
    return principal_of(await _valid(services, key, kind))


async def check_maker(
    services: Services, maker: Principal, newest: DefinitionRow | None, kind: TriggerKind
) -> tuple[str, ...]:
    """The scopes that starting a workflow needs; `Denied` if whoever made something that starts it lacks one."""
    versions = [] if newest is None else [needs_of(services, newest)]
    needed = await scopes_to_start(services, maker.tenant, versions)
    missing = first_missing(maker, needed)
    if missing is not None:
        message = f"{maker.id}, who made {kind.label}, does not have the scope {missing}"
        raise Denied("SCOPE_REQUIRED", message, "ask the owner for it", {"scope": missing})
    return needed


async def trigger_scopes(services: Services, row: DefinitionRow, *, starts: bool) -> frozenset[str]:
    """The scopes with which a webhook of a stored workflow acts; `Denied` if its maker may not start it any more.

    Whoever stores a document with triggers must be able to start it, also if they only signal its runs: so it stays.
    """
    maker = await rights_of_maker(services, maker_of_trigger(row), row.tenant, WEBHOOK)
    needed = await check_maker(services, maker, row, WEBHOOK)
    return frozenset(needed) if starts else _SIGNAL


async def _valid(services: Services, key: KeyRow, kind: TriggerKind) -> KeyRow:
    now = services.clock.now_ms()
    while key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= now):
        successor = await _successor(services, key)
        if successor is None:
            code, told = (
                ("KEY_REVOKED", "was revoked") if key.revoked_at is not None else ("KEY_EXPIRED", "has expired")
            )
            raise Denied(code, f"the key {key.name}, with which {kind.label} was made, {told}", kind.hint)
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
