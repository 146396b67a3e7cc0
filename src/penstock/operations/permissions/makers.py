"""On whose behalf schedules and webhooks act, and what these principals may do now.

A schedule acts for its maker: the principal that created it, changed it last, or stored the workflow whose document
declares it. A webhook acts for the principal that stored the workflow. The rights of makers are looked up each time: a
key that was revoked, has expired or lost a scope starts nothing any more. A key that replaced another one counts as the
same maker. Principals without a key act with what was kept when they made it (`standing_authority`).

Above it: the operations on schedules and webhooks. Below it: `starting`, the ports.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from penstock.base import limits
from penstock.base.errors import Denied
from penstock.base.json import JsonValue
from penstock.engine import inputs
from penstock.governance.authorship import Author, acts_as_agent
from penstock.governance.kept_authority import has_kept_authority
from penstock.operations.gate.authentication import principal_of
from penstock.operations.gate.context import Principal, Services
from penstock.operations.permissions.authorship import refuse_proposed_version
from penstock.operations.permissions.standing_authority import (
    AUTHOR,
    AUTHORITY,
    TriggerKind,
    principal_with,
    workflow_authority,
)
from penstock.operations.permissions.starting import first_missing, needs_of, scopes_to_start
from penstock.operations.permissions.weaker import refuse_by_author, refuse_unattended
from penstock.runtime.ports.platform import KeyRow
from penstock.runtime.ports.runs import DefinitionRow, ScheduleRow
from penstock.runtime.schedules.scheduler import made_by, origin_of
from penstock.runtime.tables.api_keys import list_keys, read_key

__all__ = [
    "PROGRAM",
    "SCHEDULE",
    "WEBHOOK",
    "TriggerKind",
    "as_trigger",
    "author_of_schedule",
    "authority_of_schedule",
    "check_maker",
    "maker_id",
    "maker_of_trigger",
    "rights_of_maker",
    "trigger_scopes",
]

# A program that embeds this library, and owners of the process or the file, including users of the operating system.
PROGRAM = inputs.PROGRAM.principal
_OWNERS = ("local:", "os:", "system:")
_KEY = "key:"
_EVERYTHING, _RUN = frozenset({"*"}), frozenset({"workflow:run"})


SCHEDULE = TriggerKind(
    "the schedule",
    "SCHEDULE_MAKER_UNKNOWN",
    "ask a person who may start the workflow to store the schedule or its workflow again; it then acts in their name",
)
WEBHOOK = TriggerKind(
    "the webhook",
    "WEBHOOK_MAKER_UNKNOWN",
    "ask a person who may start the workflow to store it again; the webhook then acts in their name",
)
# The scopes of a trigger that only signals the runs of its own workflow.
_SIGNAL = frozenset({"execution:write"})


async def maker_id(services: Services, row: ScheduleRow) -> str | None:
    """Return the principal that a schedule acts for; None if an older file does not record it."""
    match origin_of(row):
        case "operation":
            return made_by(row)
        case "document":
            newest = await services.store.definitions.find_named(row.workflow_name, tenant=row.tenant)
            return PROGRAM if newest is None or newest.created_by is None else newest.created_by
        case _:
            return PROGRAM


def maker_of_trigger(row: DefinitionRow) -> str:
    """Return the principal that the triggers of a stored workflow act for."""
    return PROGRAM if row.created_by is None else row.created_by


def author_of_schedule(row: ScheduleRow) -> Author | None:
    """Return who wrote a schedule, if an operation made it; an unreadable author counts as an agent."""
    kept = row.spec.get(AUTHOR)
    if kept is None:
        return None
    try:
        return msgspec.convert(kept, Author)
    except msgspec.ValidationError:
        return Author(principal="unknown", kind="agent")


async def authority_of_schedule(services: Services, row: ScheduleRow) -> JsonValue:
    """Return what is kept of the maker of a schedule, if its rights cannot be looked up."""
    if origin_of(row) == "operation":
        return row.spec.get(AUTHORITY)
    newest = await services.store.definitions.find_named(row.workflow_name, tenant=row.tenant)
    return await workflow_authority(services, newest)


async def rights_of_maker(
    services: Services,
    maker: str | None,
    tenant: str,
    kind: TriggerKind = SCHEDULE,
    authority: JsonValue = None,
    credential: str | None = None,
) -> Principal:
    """Return a maker with the scopes that it has now; raise `Denied` if its key is unknown, revoked or expired.

    An older file does not record who made a schedule. Such a schedule may start workflows that need no extra scope.
    `authority` is what was kept of a maker without a key, `credential` the token that it ends with.
    """
    if maker is None:
        return Principal(id="unknown", tenant=tenant, kind="service", scopes=_RUN)
    if maker == PROGRAM or maker.startswith(_OWNERS):
        return Principal(id=maker, tenant=tenant, kind="local", scopes=_EVERYTHING)
    if has_kept_authority(maker):
        found = await principal_with(services, (tenant, maker), authority, kind, credential)
        if found is not None:
            return found
    key = await read_key(services.platform, maker.removeprefix(_KEY)) if maker.startswith(_KEY) else None
    if key is None or key.tenant != tenant:
        raise Denied(kind.unknown_code, f"{kind.label} was made by {maker}, whose key no longer exists", kind.hint)
    return principal_of(await _valid(services, key, kind))


async def as_trigger(services: Services, trigger: Principal, maker: str | None) -> Principal:
    """Return the principal of a trigger as acting for its maker: with the subject, lineage and quotas of that."""
    if maker is None:
        return trigger
    key = await read_key(services.platform, maker.removeprefix(_KEY)) if maker.startswith(_KEY) else None
    if key is None or key.tenant != trigger.tenant:
        return replace(trigger, acting_for=(maker,), subject=maker, accounts=(maker,))
    known = principal_of(key)
    return replace(
        trigger,
        acting_for=(maker,),
        subject=known.subject_id,
        lineage=known.lineage,
        accounts=known.accounts or (maker,),
    )


async def check_maker(
    services: Services,
    maker: Principal,
    newest: DefinitionRow | None,
    kind: TriggerKind,
    author: Author | None = None,
) -> tuple[str, ...]:
    """Return the scopes that starting a workflow needs; raise `Denied` if the trigger's maker lacks one.

    `author` wrote the trigger, if it is stored apart from the workflow.
    """
    if newest is not None:
        refuse_proposed_version(services, newest)
        by_agent = maker.kind == "agent" or acts_as_agent(author)
        await refuse_unattended(services, newest, kind.label, by_agent=by_agent)
        await refuse_by_author(services, newest)
    versions = [] if newest is None else [needs_of(services, newest)]
    needed = await scopes_to_start(services, maker.tenant, versions)
    missing = first_missing(maker, needed)
    if missing is not None:
        message = f"{maker.id}, who made {kind.label}, does not have the scope {missing}"
        raise Denied("SCOPE_REQUIRED", message, "ask an owner to give them the scope", {"scope": missing})
    return needed


async def trigger_scopes(services: Services, row: DefinitionRow, *, starts: bool) -> frozenset[str]:
    """Return the scopes with which a webhook of a stored workflow acts; raise `Denied` if its maker may not start it.

    Storing a document with triggers requires the right to start it, even if the triggers only signal its runs. So the
    maker must keep that right.
    """
    authority = await workflow_authority(services, row)
    maker = await rights_of_maker(services, maker_of_trigger(row), row.tenant, WEBHOOK, authority)
    needed = await check_maker(services, maker, row, WEBHOOK)
    return frozenset(needed) if starts else _SIGNAL


async def _valid(services: Services, key: KeyRow, kind: TriggerKind) -> KeyRow:
    now = services.clock.now_ms()
    while key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= now):
        successor = await _successor(services, key)
        if successor is None:
            code, reason = (
                ("KEY_REVOKED", "was revoked") if key.revoked_at is not None else ("KEY_EXPIRED", "has expired")
            )
            raise Denied(code, f"the key {key.name}, with which {kind.label} was made, {reason}", kind.hint)
        key = successor
    return key


async def _successor(services: Services, key: KeyRow) -> KeyRow | None:
    """Return the key that replaced this one."""
    cursor: str | None = None
    while True:
        page = await list_keys(services.platform, tenant=key.tenant, limit=limits.PAGE_LIMIT_MAX, cursor=cursor)
        found = next((row for row in page.rows if row.replaces == key.key_id), None)
        cursor = page.next_cursor
        if found is not None or cursor is None:
            return found
