"""Operations on quotas: read, list, set, reset.

A quota belongs to a tenant, or to a principal or subject of it. The quotas of a whole tenant are set by the operator
alone: a tenant that could raise its own would have none. Those of a principal are set by authorized callers of its
tenant; they never lift what holds for the tenant.

Above it: the catalogue. Below it: `gate.quotas`, the resources of the platform store.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Denied, NotFound
from penstock.base.json import JsonObject, JsonValue
from penstock.governance.quotas import DAY_MS, TENANT_SUBJECT, QuotaLimits, day_of
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Cursor, Deleted, Limit, instant
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.gate.quotas import QUOTA_KIND, TENANT_QUOTA, Quotas, subject_named
from penstock.runtime.ports.platform import ANY_ETAG, ResourceChanged, ResourceRow, body_etag
from penstock.runtime.tables.api_keys import read_key
from penstock.runtime.tables.resources import delete_resource, list_resources, put_resource, read_resource
from penstock.runtime.tables.usage import read_usage

__all__ = ["OPERATIONS"]

_KEY = "key:"
_MICROS = 1_000_000
_COUNT_MAX = 10**15
Subject = Annotated[
    str,
    Meta(
        description="`tenant` for all of a tenant, or a principal or a subject as `key.get` names it. A key that "
        "replaced another has the quotas of that.",
        pattern=r"^[A-Za-z][A-Za-z0-9_.:@|/-]*$",
        max_length=200,
        examples=["tenant", "key:k7qm2xw4htnb"],
    ),
]
Tenant = Annotated[str, Meta(description="Another tenant than yours; only for the operator.", max_length=63)] | None
Count = Annotated[int, Meta(ge=1, le=_COUNT_MAX)] | None
Money = Annotated[float, Meta(gt=0, le=1_000_000_000)] | None


class QuotaAmounts(msgspec.Struct, frozen=True, kw_only=True):
    """What may be used; null means any amount. Days begin at midnight UTC, cost is in US dollars."""

    runs_at_once: int | None
    runs_per_day: int | None
    tokens_per_day: int | None
    cost_per_day: float | None
    storage_bytes: int | None


class QuotaUse(msgspec.Struct, frozen=True, kw_only=True):
    """What is used: runs that have not ended, and what was used since midnight UTC.

    Starts are counted while there is a quota that they are compared with: without one, `runs_today` is null, and for a
    principal `runs_now` too. Bytes are measured once a minute, and only if they are bounded.
    """

    runs_now: int | None
    runs_today: int | None
    tokens_today: int
    cost_today: float
    storage_bytes: int | None


class QuotaView(msgspec.Struct, frozen=True, kw_only=True):
    """The quotas of a tenant or of a principal. `changed` says that they are not those of the settings."""

    tenant: str
    subject: str
    limits: QuotaAmounts
    used: QuotaUse
    resets_at: str | None
    changed: bool


class QuotaEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Quotas that were changed."""

    subject: str
    limits: QuotaAmounts
    updated_at: str | None
    updated_by: str | None


class QuotaPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of changed quotas."""

    items: list[QuotaEntry]
    next_cursor: str | None


class OneQuota(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose quotas."""

    subject: Subject
    tenant: Tenant = None


class ListQuotas(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page."""

    tenant: Tenant = None
    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


class SetQuota(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose quotas, and what they are. What is left out stays as the settings have it; null lifts a quota."""

    subject: Subject
    tenant: Tenant = None
    runs_at_once: Count | msgspec.UnsetType = msgspec.UNSET
    runs_per_day: Count | msgspec.UnsetType = msgspec.UNSET
    tokens_per_day: Count | msgspec.UnsetType = msgspec.UNSET
    cost_per_day: Money | msgspec.UnsetType = msgspec.UNSET
    storage_bytes: Count | msgspec.UnsetType = msgspec.UNSET


@operation(
    "quota.get",
    route=Route(method="GET", path="/quotas/{subject}", query=("tenant",)),
    scopes=("quota:read",),
    reads=True,
    subject="subject",
    errors=("TENANT_DIFFERS",),
    examples=(Example(arguments={"subject": "tenant"}), Example(arguments={"subject": "key:k7qm2xw4htnb"})),
)
async def quota_get(context: Context, given: OneQuota) -> QuotaView:
    """Get the quotas and today's usage of a tenant or a key."""
    return await _view(context, _tenant(context, given.tenant), given.subject)


@operation(
    "quota.list",
    route=Route(method="GET", path="/quotas", query=("tenant", "limit", "cursor")),
    scopes=("quota:read",),
    reads=True,
    errors=("TENANT_DIFFERS",),
)
async def quota_list(context: Context, given: ListQuotas) -> QuotaPage:
    """List quotas that were changed.

    Every other tenant and key has the quotas of the settings.
    """
    tenant, quotas = _tenant(context, given.tenant), _quotas(context)
    page = await list_resources(context.services.platform, tenant, QUOTA_KIND, limit=given.limit, cursor=given.cursor)
    items = [
        QuotaEntry(
            subject=row.resource_id,
            limits=_amounts(await quotas.limits_of(tenant, subject_named(row.resource_id))),
            updated_at=instant(row.updated_at),
            updated_by=row.updated_by,
        )
        for row in page.rows
    ]
    return QuotaPage(items=items, next_cursor=page.next_cursor)


@operation(
    "quota.set",
    route=Route(method="PUT", path="/quotas/{subject}", query=("tenant",)),
    scopes=("quota:write",),
    idempotent=True,
    risk="high",
    bucket="admin",
    subject="subject",
    errors=("TENANT_DIFFERS", "OPERATOR_REQUIRED"),
    examples=(
        Example(arguments={"subject": "key:k7qm2xw4htnb", "runs_per_day": 500, "cost_per_day": 20.0}),
        Example(arguments={"subject": "tenant", "tenant": "acme", "runs_at_once": 1000}),
    ),
)
async def quota_set(context: Context, given: SetQuota) -> QuotaView:
    """Set the quotas of a tenant or a key.

    Applies from the next start; runs in progress continue. A quota that you leave out stays as in the settings, and
    null lifts it. Only the operator sets the quotas of a whole tenant.
    """
    tenant = _tenant(context, given.tenant)
    _refuse_raising(context, given.subject)
    now, body = context.now_ms(), _body(given)
    row = ResourceRow(
        tenant=tenant,
        kind=QUOTA_KIND,
        resource_id=await _account(context, tenant, given.subject),
        body=body,
        etag=body_etag(body),
        created_at=now,
        updated_at=now,
        updated_by=context.principal.id,
    )
    view = await _view(context, tenant, given.subject, changed=body)
    call = idempotency.answered(context, Reply(value=view))
    await put_resource(context.services.platform, row, expected_etag=ANY_ETAG, call=call)
    return view


async def _find_quota(context: Context, given: OneQuota) -> None:
    """Find the quotas that the input of a call names."""
    tenant = _tenant(context, given.tenant)
    _refuse_raising(context, given.subject)
    account = await _account(context, tenant, given.subject)
    if await read_resource(context.services.platform, tenant, QUOTA_KIND, account) is None:
        raise _unchanged(given.subject)


def _unchanged(subject: str) -> NotFound:
    message = f"the quotas of {subject} were never changed"
    return NotFound("QUOTA_NOT_FOUND", message, "list the changed quotas with quota.list")


@operation(
    "quota.reset",
    route=Route(method="DELETE", path="/quotas/{subject}", query=("tenant",)),
    scopes=("quota:write",),
    destructive=True,
    risk="high",
    bucket="admin",
    subject="subject",
    find=_find_quota,
    errors=("TENANT_DIFFERS", "OPERATOR_REQUIRED", "QUOTA_NOT_FOUND"),
)
async def quota_reset(context: Context, given: OneQuota) -> Deleted:
    """Reset a tenant or a key to the quotas of the settings."""
    tenant = _tenant(context, given.tenant)
    _refuse_raising(context, given.subject)
    answer = Deleted(id=given.subject)
    outcome = await delete_resource(
        context.services.platform,
        tenant,
        QUOTA_KIND,
        await _account(context, tenant, given.subject),
        expected_etag=ANY_ETAG,
        call=idempotency.answered(context, Reply(value=answer)),
    )
    if isinstance(outcome, ResourceChanged):
        raise _unchanged(given.subject)
    return answer


def _quotas(context: Context) -> Quotas:
    quotas = context.services.quotas
    assert quotas is not None
    return quotas


def _tenant(context: Context, named: str | None) -> str:
    if named in (None, context.tenant):
        return context.tenant
    if not context.is_operator:
        message = f"the quotas of {named} belong to another tenant"
        raise Denied("TENANT_DIFFERS", message, "leave out `tenant`, or ask the operator")
    return str(named)


def _refuse_raising(context: Context, subject: str) -> None:
    """Refuse a tenant that changes what holds for all of it."""
    if subject == TENANT_QUOTA and not context.is_operator:
        message = "only the operator of the server sets the quotas of a whole tenant"
        raise Denied("OPERATOR_REQUIRED", message, "ask the operator, or set the quotas of single keys")


def _body(given: SetQuota) -> JsonObject:
    found: JsonObject = {}
    for name in QuotaLimits.__struct_fields__:
        value: JsonValue = getattr(given, name)
        if value is not msgspec.UNSET:  # type: ignore[comparison-overlap]
            is_cost = name == "cost_per_day" and isinstance(value, int | float)
            found[name] = round(value * _MICROS) if is_cost else value  # type: ignore[operator,arg-type]
    return found


async def _account(context: Context, tenant: str, named: str) -> str:
    """Return the name that quotas are kept under: for a key that replaced others, the first of these."""
    row = await read_key(context.services.platform, named.removeprefix(_KEY)) if named.startswith(_KEY) else None
    return named if row is None or row.first_key is None or row.tenant != tenant else f"{_KEY}{row.first_key}"


async def _view(context: Context, tenant: str, named: str, changed: JsonObject | None = None) -> QuotaView:
    """Return the quotas of a subject; `changed` is what they are about to be."""
    quotas, subject, now = _quotas(context), subject_named(await _account(context, tenant, named)), context.now_ms()
    allowed = await quotas.limits_of(tenant, subject) if changed is None else quotas.limits_with(subject, changed)
    used = await read_usage(context.services.platform, tenant, subject, at=now)
    of_tenant, counted = subject == TENANT_SUBJECT, allowed.bounds_starts
    bounded = of_tenant and allowed.storage_bytes is not None
    return QuotaView(
        tenant=tenant,
        subject=named,
        limits=_amounts(allowed),
        used=QuotaUse(
            runs_now=used.runs_now if of_tenant or counted else None,
            runs_today=used.runs if counted else None,
            tokens_today=used.tokens,
            cost_today=used.cost / _MICROS,
            storage_bytes=await quotas.stored_bytes(tenant) if bounded else None,
        ),
        resets_at=instant((day_of(now) + 1) * DAY_MS),
        changed=changed is not None or quotas.is_changed(tenant, subject),
    )


def _amounts(found: QuotaLimits) -> QuotaAmounts:
    cost = found.cost_per_day
    return QuotaAmounts(
        runs_at_once=found.runs_at_once,
        runs_per_day=found.runs_per_day,
        tokens_per_day=found.tokens_per_day,
        cost_per_day=None if cost is None else cost / _MICROS,
        storage_bytes=found.storage_bytes,
    )


OPERATIONS: tuple[Capability, ...] = (quota_get, quota_list, quota_set, quota_reset)
