"""Apps as they are stored: who they are, what they may touch, and what they may execute without a person.

A key belongs to an app by a group. The id of an app of another tenant than the default one ends with the tenant, so
that the operator finds it.

Above it: `apps`, the demo ledger. Below it: the resources of the platform store.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import CorruptHistory, NotFound
from penstock.base.ids import DEFAULT_TENANT
from penstock.operations.gate.context import Context, Principal, Services
from penstock.operations.permissions.apps import app_id_of
from penstock.runtime.ports.platform import ResourceRow
from penstock.runtime.tables.resources import read_resource

__all__ = [
    "APP_KIND",
    "AppPolicy",
    "AppRecord",
    "AutoExecute",
    "DataPolicy",
    "HighRiskGrant",
    "NetworkPolicy",
    "WriteGrant",
    "app_of_caller",
    "app_record",
    "app_row",
    "new_app_id",
    "readable_app",
    "tenant_of",
]

APP_KIND = "agent_app"
_PREFIX = "app_"
_DECIDING = frozenset({"status", "policy"})
"""What every stored app has. Without it, the defaults of a new app would apply, and those allow everything."""
Name = Annotated[str, Meta(min_length=1, max_length=100)]
Instant = Annotated[str, Meta(max_length=40)]
Words = Annotated[list[Name], Meta(max_length=limits.APP_LIST_MAX)]


class NetworkPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where an app may call from. None: from anywhere; an empty list: from nowhere."""

    allowed_ips: Words | None = None


class DataPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What an app may touch. None: everything in its tenant; an empty list: nothing."""

    allowed_ledger_ids: Words | None = None
    allowed_org_ids: Words | None = None
    max_days: Annotated[int, Meta(ge=1, le=limits.APP_DAYS_MAX)] | None = None
    allow_sensitive_fields: bool = True


class AppPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The policy of an app."""

    network: NetworkPolicy = NetworkPolicy()
    data: DataPolicy = DataPolicy()


class WriteGrant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Writes of low and medium risk that need no person. None: every action; an empty list: no action."""

    enabled: bool = False
    expires_at: Instant | None = None
    allowed_actions: Words | None = None


class HighRiskGrant(WriteGrant, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Actions of high risk that need no person, and what they need instead."""

    require_preflight: bool = True
    require_idempotency: bool = True
    max_export_rows: Annotated[int, Meta(ge=1, le=limits.APP_EXPORT_ROWS_MAX)] = limits.APP_EXPORT_ROWS_DEFAULT


class AutoExecute(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an app may execute without a person."""

    writes: WriteGrant = WriteGrant()
    high_risk: HighRiskGrant = HighRiskGrant()


class AppRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An app, as it is stored and shown."""

    id: str
    name: str
    description: str | None = None
    scope: Literal["personal", "workspace"] = "personal"
    status: Literal["active", "revoked"] = "active"
    user_id: str | None = None
    org_id: str | None = None
    service_user_id: str | None = None
    scopes: list[str] = []
    policy: AppPolicy = AppPolicy()
    auto_execute: AutoExecute = AutoExecute()
    created_by: str | None = None
    created_at: str | None = None
    updated_at: str | None = None


def new_app_id(token: str, tenant: str) -> str:
    """Return the id of a new app."""
    return f"{_PREFIX}{token}" if tenant == DEFAULT_TENANT else f"{_PREFIX}{token}.{tenant}"


def tenant_of(app_id: str) -> str:
    """Return the tenant whose app an id names."""
    return app_id.partition(".")[2] or DEFAULT_TENANT


def readable_app(row: ResourceRow) -> AppRecord | None:
    """Return the app in a row; None if what decides about it is missing or malformed."""
    if not row.body.keys() >= _DECIDING:
        return None
    try:
        return msgspec.convert(row.body, AppRecord)
    except msgspec.ValidationError:
        return None


def app_record(row: ResourceRow) -> AppRecord:
    """Return the app in a row; raise `CorruptHistory` if it cannot be read."""
    found = readable_app(row)
    if found is None:
        message = f"the stored app {row.resource_id} cannot be read, so the app may not make any call"
        raise CorruptHistory("STORE_CORRUPT", message, "restore the file from a backup")
    return found


async def app_row(context: Context, app_id: str) -> tuple[ResourceRow, AppRecord]:
    """Return an app that the caller may administer; raise NotFound for any other."""
    tenant = tenant_of(app_id)
    row = None
    if tenant == context.tenant or context.is_operator:
        row = await read_resource(context.services.platform, tenant, APP_KIND, app_id)
    if row is None:
        raise NotFound("APP_NOT_FOUND", f"there is no app {app_id[:100]}", "list the apps, and use an id from the list")
    return row, app_record(row)


async def app_of_caller(services: Services, principal: Principal) -> AppRecord | None:
    """Return the app whose key calls; None for a caller who belongs to none.

    A key of an app that is not there any more, or that cannot be read, gets a policy that allows nothing.
    """
    app_id = app_id_of(principal.groups)
    if app_id is None:
        return None
    row = await read_resource(services.platform, principal.tenant, APP_KIND, app_id)
    found = None if row is None else readable_app(row)
    if found is None:
        nothing = AppPolicy(network=NetworkPolicy(allowed_ips=[]), data=DataPolicy(allowed_ledger_ids=[]))
        return AppRecord(id=app_id, name=app_id, status="revoked", policy=nothing)
    return found
