"""On whose authority a run acts: that of the principal who started it, as far as it is known now.

What policies see of a principal is looked up again: the kind, groups and scopes of a key are those that it has now. A
schedule or a webhook acts for its maker. Of a token, or of the principal of a pipe, there is nothing to look up: the
first record of the run keeps what it might do then.

A run continues after the key that started it was revoked, and so do its children and tool calls (`principal_of_run`).
What reads or changes data in the name of the starter needs rights that hold at that moment (`rights_of_run`).

Above it: what runs start by themselves, `query` nodes. Below it: `makers`, the ports.
"""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from penstock.base.errors import Denied
from penstock.base.ids import id_in_tenant
from penstock.base.json import JsonObject, JsonValue
from penstock.engine.folding.trust import UNTRUSTED
from penstock.engine.state import RunState
from penstock.governance.principals import Principal, PrincipalKind
from penstock.operations.gate.authentication import principal_of
from penstock.operations.gate.context import Services
from penstock.operations.gate.policies.history import run_tree_of
from penstock.operations.permissions.makers import (
    PROGRAM,
    SCHEDULE,
    WEBHOOK,
    TriggerKind,
    authority_of_schedule,
    rights_of_maker,
)
from penstock.operations.permissions.standing_authority import AUTHORITY, stored_by_model, workflow_authority
from penstock.runtime.schedules.scheduler import origin_of
from penstock.runtime.tables.api_keys import read_key

__all__ = ["principal_of_run", "recorded_principal", "rights_of_run", "run_caller"]

_SCHEDULE, _KEY = "schedule:", "key:"
_TRIGGERS = (_SCHEDULE, "webhook:")
_STARTER = TriggerKind(
    "the run",
    "RUN_STARTER_UNKNOWN",
    "start the run again: a run acts with the rights of its starter",
)
_OWNERS = ("local:", "os:", "system:")


def run_caller(tenant: str, acts_for: str | None, *scopes: str) -> Principal:
    """Return the principal of the internal calls that a run makes, for the principal that it acts for."""
    return Principal(
        id="system:runs",
        tenant=tenant,
        kind="system",
        scopes=frozenset(scopes),
        name="runs",
        acting_for=() if acts_for is None else (acts_for,),
    )


async def principal_of_run(services: Services, state: RunState, root_workflow: str) -> Principal:
    """Return the principal whose authority a run has. `root_workflow` is the workflow of the first run of its tree."""
    started_by, starter = state.started_by or PROGRAM, state.starter or {}
    maker = _maker_of(started_by, starter)
    if maker is None:
        return await recorded_principal(services, started_by, state.tenant, starter)
    try:
        return await _maker(services, started_by, maker, state.tenant, root_workflow)
    except Denied:  # its key is gone, or what it left behind has ended: the run goes on with what was recorded
        return await recorded_principal(services, maker, state.tenant, {})


async def rights_of_run(services: Services, state: RunState) -> Principal:
    """Return the principal that a run acts for, with the rights that they have now; raise `Denied` if they have none
    any more.

    Their key may have been revoked or expired, their token or all tokens of their subject revoked, or what was kept of
    a token may be too old.
    """
    started_by, starter = state.started_by or PROGRAM, state.starter or {}
    maker = _maker_of(started_by, starter)
    if maker is not None:
        root = await services.store.row(await run_tree_of(services.store, state.run_id))
        workflow = state.workflow_name if root is None else root.workflow_name
        return await _maker(services, started_by, maker, state.tenant, workflow)
    credential = starter.get("credential")
    found = await rights_of_maker(
        services,
        started_by,
        state.tenant,
        _STARTER,
        starter.get(AUTHORITY),
        credential if isinstance(credential, str) else None,
    )
    return replace(found, acting_for=_chain(starter))


def _maker_of(started_by: str, starter: JsonObject) -> str | None:
    """Return the maker of the schedule or webhook that started a run; None if somebody started it themselves."""
    maker = starter.get("onBehalfOf")
    return maker if isinstance(maker, str) and started_by.startswith(_TRIGGERS) else None


def _chain(starter: JsonObject) -> tuple[str, ...]:
    """Return whom the starter acts for, the nearest first."""
    nearest = starter.get("onBehalfOf")
    return tuple(_texts(starter.get("actingFor"))) or ((nearest,) if isinstance(nearest, str) else ())


async def _maker(services: Services, started_by: str, maker: str, tenant: str, workflow: str) -> Principal:
    """Return the maker of a trigger; as an agent if a model made it."""
    by_model, authority = False, None
    row = None
    if started_by.startswith(_SCHEDULE):
        row = await services.scheduler.find(id_in_tenant(tenant, started_by.removeprefix(_SCHEDULE)))
        authority = None if row is None else await authority_of_schedule(services, row)
        by_model = row is not None and row.spec.get(UNTRUSTED) is True
    if row is None or origin_of(row) == "document":
        newest = await services.store.definitions.find_named(workflow, tenant=tenant)
        authority = await workflow_authority(services, newest) if row is None else authority
        by_model = by_model or await stored_by_model(services, newest)
    kind = SCHEDULE if started_by.startswith(_SCHEDULE) else WEBHOOK
    found = await rights_of_maker(services, maker, tenant, kind, authority)
    return replace(found, kind="agent") if by_model else found


async def recorded_principal(services: Services, principal_id: str, tenant: str, starter: JsonObject) -> Principal:
    """Return a principal by its id, as far as it can be looked up; otherwise as it was recorded (`starter`)."""
    if principal_id.startswith(_KEY):
        key = await read_key(services.platform, principal_id.removeprefix(_KEY))
        if key is not None and key.tenant == tenant:
            return principal_of(key)
    is_owner = principal_id == PROGRAM or principal_id.startswith(_OWNERS)
    kept = starter.get(AUTHORITY)
    authority: JsonObject = kept if isinstance(kept, dict) else {}
    attributes, subject = authority.get("attributes"), starter.get("subject")
    return Principal(
        id=principal_id,
        tenant=tenant,
        kind=_kind(starter.get("principalKind"), "local" if is_owner else "service"),
        scopes=frozenset({"*"}) if is_owner else frozenset(_texts(authority.get("scopes"))),
        groups=frozenset(_texts(starter.get("groups"))),
        name=str(authority.get("name", "")),
        attributes=attributes if isinstance(attributes, dict) else {},
        acting_for=_chain(starter),
        subject=subject if isinstance(subject, str) else None,
        lineage=tuple(_texts(starter.get("lineage"))),
        accounts=tuple(_texts(starter.get("accounts"))),
    )


def _kind(recorded: JsonValue, otherwise: PrincipalKind) -> PrincipalKind:
    found: PrincipalKind = next((kind for kind in get_args(PrincipalKind) if kind == recorded), otherwise)
    return found


def _texts(value: JsonValue) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
