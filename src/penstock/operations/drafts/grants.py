"""Grants: that an agent may change things by itself for a while, under the preset `strict`.

A grant names one principal and the capabilities that it covers, and always ends. An empty list covers nothing. What
could do harm is covered only if the grant says so, and needs a preflight, an idempotency key and a justification as
well.

Above it: the catalogue; the gate reads grants through `desk`. Below it: `stored_resources`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import LimitExceeded, Rejected
from penstock.base.json import JsonObject
from penstock.definitions.durations import parse_native_duration_ms
from penstock.governance.holds import Grant
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Cursor, Deleted, Limit, instant
from penstock.operations.gate.context import Context
from penstock.operations.stored_resources import ResourceTable
from penstock.runtime.ports.platform import ResourceRow

__all__ = ["OPERATIONS", "grants_of"]

_TABLE = ResourceTable(kind="auto_execute_grant", noun="grant")
_EXAMPLE = "g_01KA4T8R9B6S3VQ2XHJ7M5N0PE"


class GrantView(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent may do by itself, and until when."""

    id: str
    principal: str
    capabilities: list[str]
    high_risk: bool
    expires_at: str | None
    note: str | None
    created_at: str | None
    created_by: str | None
    status: str
    """active or expired."""


class GrantPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of grants."""

    items: list[GrantView]
    next_cursor: str | None


class CreateGrant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who may do what by themselves, and for how long."""

    principal: Annotated[
        str, Meta(description="The principal, by id.", min_length=1, max_length=200, examples=["key:k7qm2xw4htnb"])
    ]
    capabilities: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=300)]],
        Meta(
            description="What it may change without approval: names of operations, `workflow:NAME` for a workflow; an "
            "empty list allows nothing.",
            max_length=200,
        ),
    ]
    expires_in: Annotated[str, Meta(description="For how long, e.g. `2h`; every grant ends.", max_length=20)]
    high_risk: Annotated[bool, Meta(description="Whether it covers what could do harm, too.")] = False
    note: Annotated[Annotated[str, Meta(max_length=1_000)] | None, Meta(description="Why, for the record.")] = None


class ListGrants(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page."""

    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


class OneGrant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which grant."""

    grant_id: Annotated[str, Meta(description="The id of the grant.", max_length=100, examples=[_EXAMPLE])]


def _view(row: ResourceRow, now: int) -> GrantView:
    body = row.body
    expires, names, note = body.get("expires_at"), body.get("capabilities"), body.get("note")
    until = expires if isinstance(expires, int) else 0
    return GrantView(
        id=row.resource_id,
        principal=str(body.get("principal")),
        capabilities=[str(name) for name in names] if isinstance(names, list) else [],
        high_risk=body.get("high_risk") is True,
        expires_at=instant(until),
        note=note if isinstance(note, str) else None,
        created_at=instant(row.created_at),
        created_by=row.updated_by,
        status="active" if until > now else "expired",
    )


@operation(
    "grant.create",
    route=Route(method="POST", path="/grants", status=201),
    scopes=("grant:write",),
    risk="high",
    bucket="admin",
    subject="principal",
    errors=("DURATION_INVALID", "TOO_MANY_GRANTS"),
    examples=(
        Example(arguments={"principal": "key:k7qm2xw4htnb", "capabilities": ["workflow:refund"], "expires_in": "2h"}),
    ),
)
async def grant_create(context: Context, given: CreateGrant) -> Reply[GrantView]:
    """Let an agent act by itself for a while.

    Under the preset `strict`, every change by an agent waits for approval. A change that a grant covers does not, until
    the grant ends. A change that could do harm also needs a preflight, an idempotency key and a justification.
    """
    lasts = parse_native_duration_ms(given.expires_in)
    if not lasts or lasts > limits.GRANT_MS_MAX:
        message = f"expires_in: {given.expires_in[:50]!r} is not a duration up to {limits.GRANT_MS_MAX // 86_400_000}d"
        raise Rejected("DURATION_INVALID", message, "write 30m, 2h or 7d")
    page = await _TABLE.page(context, limit=limits.GRANTS_PER_TENANT_MAX, cursor=None)
    if len(page.rows) >= limits.GRANTS_PER_TENANT_MAX:
        message = f"the tenant already has {limits.GRANTS_PER_TENANT_MAX} grants"
        raise LimitExceeded("TOO_MANY_GRANTS", message, "delete expired grants with grant.delete")
    body: JsonObject = {
        "principal": given.principal,
        "capabilities": [*dict.fromkeys(given.capabilities)],
        "high_risk": given.high_risk,
        "expires_at": context.now_ms() + lasts,
        "note": given.note,
    }
    row = _TABLE.row(context, f"g_{context.services.new_id().removeprefix('r_')}", body)
    reply = Reply(value=_view(row, context.now_ms()), location=f"/grants/{row.resource_id}")
    await _TABLE.store(context, row, None, reply)
    return reply


@operation(
    "grant.list",
    route=Route(method="GET", path="/grants", query=("limit", "cursor")),
    scopes=("grant:read",),
    reads=True,
)
async def grant_list(context: Context, given: ListGrants) -> GrantPage:
    """List what agents may do by themselves.

    Expired grants are listed too, until somebody deletes them.
    """
    page = await _TABLE.page(context, limit=given.limit, cursor=given.cursor)
    now = context.now_ms()
    return GrantPage(items=[_view(row, now) for row in page.rows], next_cursor=page.next_cursor)


@operation(
    "grant.delete",
    route=Route(method="DELETE", path="/grants/{grant_id}"),
    scopes=("grant:write",),
    bucket="admin",
    subject="grant_id",
    find=_TABLE.finder("grant_id"),
    errors=("GRANT_NOT_FOUND",),
)
async def grant_delete(context: Context, given: OneGrant) -> Deleted:
    """End a grant now.

    From then on, the changes that it covered wait for approval again.
    """
    return await _TABLE.delete(context, given.grant_id, None)


async def grants_of(context: Context) -> tuple[Grant, ...]:
    """Return the grants of the caller, those that have ended included."""
    page = await _TABLE.page(context, limit=limits.GRANTS_PER_TENANT_MAX, cursor=None)
    now, found = context.now_ms(), []
    for row in page.rows:
        view = _view(row, now)
        until = row.body.get("expires_at")
        if view.principal == context.principal.id and isinstance(until, int):
            grant = Grant(capabilities=frozenset(view.capabilities), expires_at=until, high_risk=view.high_risk)
            found.append(grant)
    return tuple(found)


OPERATIONS: tuple[Capability, ...] = (grant_create, grant_list, grant_delete)
