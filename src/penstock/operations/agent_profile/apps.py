"""Operations on apps: make, list, revoke, restore, delete; change the policy of one.

Keys of an app are made and revoked by the operations on keys, grants by those on grants; the surface calls them with
the app's group. These operations have no route of their own: the agent profile on HTTP is the only way to them.

Above it: the agent profile on HTTP. Below it: `records`, the platform port.
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Conflict, Denied, NotFound, Rejected
from penstock.base.scopes import EVERYTHING, SCOPE_HINT, is_scope
from penstock.operations.agent_profile.records import (
    APP_KIND,
    AppPolicy,
    AppRecord,
    AutoExecute,
    Name,
    NetworkPolicy,
    app_record,
    app_row,
    new_app_id,
)
from penstock.operations.catalogue.capability import Capability, Reply
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Cursor, Deleted, Limit, instant, milliseconds
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.runtime.ports.platform import ResourceChanged, ResourceRow, body_etag

__all__ = ["APP_OPERATIONS"]

_TENANT = r"^[a-z0-9][a-z0-9_-]{0,62}$"
AppId = Annotated[str, Meta(description="The app's id, as listed.", min_length=1, max_length=200)]


class CreateApp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the app is called, and what its keys may do."""

    name: Name
    scope: Literal["personal", "workspace"] = "personal"
    description: Annotated[str, Meta(max_length=1_000)] | None = None
    org_id: Annotated[str, Meta(description="The tenant of its keys; yours without.", pattern=_TENANT)] | None = None
    user_id: Name | None = None
    service_user_id: Name | None = None
    scopes: Annotated[list[str], Meta(max_length=limits.APP_SCOPES_MAX)] = []


class ListApps(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page."""

    limit: Limit = limits.PAGE_LIMIT_MAX
    cursor: Cursor = None
    org_id: Annotated[str, Meta(pattern=_TENANT)] | None = None


class OneApp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which app."""

    app_id: AppId


class ChangePolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which app, and what it may touch from now on."""

    app_id: AppId
    policy: AppPolicy


class ChangeAutoExecute(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which app, and what it may execute without a person from now on."""

    app_id: AppId
    auto_execute: AutoExecute


class AppPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of apps."""

    items: list[AppRecord]
    next_cursor: str | None


async def _stored(context: Context, row: ResourceRow | None, app: AppRecord, tenant: str) -> Reply[AppRecord]:
    """Store an app, in place of the version that was read."""
    now = context.now_ms()
    made = msgspec.structs.replace(app, updated_at=instant(now), created_at=app.created_at or instant(now))
    body = msgspec.to_builtins(made)
    reply = Reply(value=made)
    context.call.about(app.id)
    stored = await context.services.platform.put_resource(
        ResourceRow(
            tenant=tenant,
            kind=APP_KIND,
            resource_id=app.id,
            body=body,
            etag=body_etag(body),
            created_at=now if row is None else row.created_at,
            updated_at=now,
            updated_by=context.principal.id,
        ),
        expected_etag=None if row is None else row.etag,
        call=idempotency.answered(context, reply),
    )
    if isinstance(stored, ResourceChanged):
        raise Conflict("PRECONDITION_FAILED", f"the app {app.id} was changed in between", "try again")
    return reply


async def _find_app(context: Context, given: Any) -> ResourceRow:
    """Find the app that the input of a call names."""
    return (await app_row(context, given.app_id))[0]


def _checked_scopes(scopes: list[str]) -> list[str]:
    for scope in scopes:
        if not is_scope(scope):
            raise Rejected("SCOPE_INVALID", f"{scope[:100]!r} is not a scope", SCOPE_HINT)
    return list(dict.fromkeys(scopes))


@operation(
    "app.create",
    route=None,
    scopes=("key:write",),
    risk="high",
    bucket="admin",
    errors=("SCOPE_INVALID", "SCOPE_REQUIRED"),
)
async def app_create(context: Context, given: CreateApp) -> Reply[AppRecord]:
    """Create an app.

    Its keys are made with `key.create`, in the group of the app.
    """
    tenant = given.org_id or context.tenant
    if tenant != context.tenant and not context.is_operator:
        message = "only who owns everything in the default tenant may make apps of other tenants"
        raise Denied("SCOPE_REQUIRED", message, "leave `org_id` out", {"scope": EVERYTHING})
    app = AppRecord(
        id=new_app_id(context.services.new_id().lower(), tenant),
        name=given.name,
        description=given.description,
        scope=given.scope,
        user_id=given.user_id,
        org_id=tenant,
        service_user_id=given.service_user_id,
        scopes=_checked_scopes(given.scopes),
        created_by=context.principal.id,
    )
    return await _stored(context, None, app, tenant)


@operation("app.list", route=None, scopes=("key:read",), reads=True, bucket="admin", errors=("INVALID_LIST_CURSOR",))
async def app_list(context: Context, given: ListApps) -> AppPage:
    """List apps."""
    tenant = given.org_id or context.tenant
    if tenant != context.tenant and not context.is_operator:
        return AppPage(items=[], next_cursor=None)
    page = await context.services.platform.resources(tenant, APP_KIND, limit=given.limit, cursor=given.cursor)
    return AppPage(items=[app_record(row) for row in page.rows], next_cursor=page.next_cursor)


@operation(
    "app.get", route=None, scopes=("key:read",), reads=True, bucket="admin", subject="app_id", errors=("APP_NOT_FOUND",)
)
async def app_get(context: Context, given: OneApp) -> AppRecord:
    """Get an app."""
    return (await app_row(context, given.app_id))[1]


@operation(
    "app.policy_update",
    route=None,
    scopes=("key:write",),
    risk="high",
    bucket="admin",
    subject="app_id",
    find=_find_app,
    errors=("APP_NOT_FOUND", "PRECONDITION_FAILED"),
)
async def app_policy_update(context: Context, given: ChangePolicy) -> Reply[AppRecord]:
    """Change what an app may touch; the whole policy is replaced, from the next request on."""
    network = NetworkPolicy(allowed_ips=_networks(given.policy.network.allowed_ips))
    policy = msgspec.structs.replace(given.policy, network=network)
    row, app = await app_row(context, given.app_id)
    reply = await _stored(context, row, msgspec.structs.replace(app, policy=policy), row.tenant)
    stage = context.services.policies
    if stage is not None:
        stage.changed(row.tenant)
    return reply


def _networks(texts: list[str] | None) -> list[str] | None:
    """Return addresses and networks as policies write them; refuse a text that is neither."""
    found = []
    for text in texts or ():
        try:
            found.append(str(ip_network(text, strict=False)))
        except ValueError:
            message = f"{text[:60]!r} is neither an address nor a network"
            raise Rejected("INVALID_ARGUMENTS", message, "write it like 192.0.2.7 or 192.0.2.0/24") from None
    return None if texts is None else found


@operation(
    "app.auto_execute_update",
    route=None,
    scopes=("key:write",),
    risk="high",
    bucket="admin",
    subject="app_id",
    find=_find_app,
    errors=("APP_NOT_FOUND", "PRECONDITION_FAILED"),
)
async def app_auto_execute_update(context: Context, given: ChangeAutoExecute) -> Reply[AppRecord]:
    """Change what an app may execute without a person. A grant that is switched on needs an end."""
    for grant in (given.auto_execute.writes, given.auto_execute.high_risk):
        if grant.enabled and milliseconds(grant.expires_at, "expires_at") is None:
            message = "a grant that is switched on needs `expires_at`, the instant at which it ends"
            raise Rejected("INVALID_ARGUMENTS", message, "grants without an end are forgotten; give one")
    row, app = await app_row(context, given.app_id)
    return await _stored(context, row, msgspec.structs.replace(app, auto_execute=given.auto_execute), row.tenant)


async def _with_status(context: Context, app_id: str, status: Literal["active", "revoked"]) -> Reply[AppRecord]:
    row, app = await app_row(context, app_id)
    return await _stored(context, row, msgspec.structs.replace(app, status=status), row.tenant)


@operation(
    "app.revoke",
    route=None,
    scopes=("key:write",),
    destructive=True,
    risk="high",
    bucket="admin",
    subject="app_id",
    find=_find_app,
    errors=("APP_NOT_FOUND", "PRECONDITION_FAILED"),
)
async def app_revoke(context: Context, given: OneApp) -> Reply[AppRecord]:
    """Revoke an app: it gets no new key. Its keys are revoked with `key.revoke`."""
    return await _with_status(context, given.app_id, "revoked")


@operation(
    "app.restore",
    route=None,
    scopes=("key:write",),
    risk="high",
    bucket="admin",
    subject="app_id",
    find=_find_app,
    errors=("APP_NOT_FOUND", "PRECONDITION_FAILED"),
)
async def app_restore(context: Context, given: OneApp) -> Reply[AppRecord]:
    """Restore an app that was revoked. Its keys stay revoked; it can get new ones."""
    return await _with_status(context, given.app_id, "active")


@operation(
    "app.delete",
    route=None,
    scopes=("key:write",),
    destructive=True,
    risk="high",
    bucket="admin",
    subject="app_id",
    find=_find_app,
    errors=("APP_NOT_FOUND", "APP_ACTIVE", "PRECONDITION_FAILED"),
)
async def app_delete(context: Context, given: OneApp) -> Deleted:
    """Delete an app that was revoked. Its audit records and its revoked keys stay."""
    row, app = await app_row(context, given.app_id)
    if app.status != "revoked":
        raise Conflict("APP_ACTIVE", f"the app {app.id} is active", "revoke it first")
    answer = Deleted(id=app.id)
    outcome = await context.services.platform.delete_resource(
        row.tenant,
        APP_KIND,
        app.id,
        expected_etag=row.etag,
        call=idempotency.answered(context, Reply(value=answer)),
    )
    if isinstance(outcome, ResourceChanged):
        if outcome.current_etag is None:
            raise NotFound("APP_NOT_FOUND", f"there is no app {app.id}", "it was deleted in between")
        raise Conflict("PRECONDITION_FAILED", f"the app {app.id} was changed in between", "try again")
    return answer


APP_OPERATIONS: tuple[Capability, ...] = (
    app_create,
    app_list,
    app_get,
    app_policy_update,
    app_auto_execute_update,
    app_revoke,
    app_restore,
    app_delete,
)
