"""Operations on apps: make, list, revoke, restore, delete; change the policy of one.

Keys of an app are made and revoked by the operations on keys, grants by those on grants; the surface calls them with
the app's group. These operations have no route of their own: the agent profile on HTTP is the only way to them.

Above it: the agent profile on HTTP. Below it: `records`, the platform port.
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Conflict, Denied, NotFound, Rejected
from penstock.base.json import JsonObject, JsonValue
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
from penstock.runtime.tables.resources import delete_resource, list_resources, put_resource

__all__ = ["APP_OPERATIONS"]

T = TypeVar("T")

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


Whole = Annotated[bool, Meta(description="Whether it replaces what is stored; otherwise it is merged (RFC 7396).")]


class ChangePolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which app, and what changes of what it may touch."""

    app_id: AppId
    policy: dict[str, Any]
    whole: Whole = False


class ChangeAutoExecute(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which app, and what changes of what it may execute without a person."""

    app_id: AppId
    auto_execute: dict[str, Any]
    whole: Whole = False


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
    stored = await put_resource(
        context.services.platform,
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
        raise Conflict("PRECONDITION_FAILED", f"the app {app.id} was changed by another call", "try again")
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
        message = "only an owner in the default tenant may make apps of other tenants"
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
    page = await list_resources(context.services.platform, tenant, APP_KIND, limit=given.limit, cursor=given.cursor)
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
    """Change what an app may touch, from the next request on. Members that are left out stay as they are."""
    row, app = await app_row(context, given.app_id)
    changed = _changed(app.policy, given.policy, AppPolicy, "policy", whole=given.whole)
    network = NetworkPolicy(allowed_ips=_networks(changed.network.allowed_ips))
    policy = msgspec.structs.replace(changed, network=network)
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
    """Change what an app may execute without a person. A grant that is switched on needs an end that is not far off."""
    row, app = await app_row(context, given.app_id)
    changed = _changed(app.auto_execute, given.auto_execute, AutoExecute, "auto_execute", whole=given.whole)
    for grant in (changed.writes, changed.high_risk):
        ends = milliseconds(grant.expires_at, "expires_at") if grant.enabled else None
        if grant.enabled and ends is None:
            message = "an enabled grant needs `expires_at`, the time when it ends"
            raise Rejected("INVALID_ARGUMENTS", message, "send `expires_at`, such as 2026-12-31T09:00:00Z")
        if ends is not None and ends > context.now_ms() + limits.GRANT_MS_MAX:
            days = limits.GRANT_MS_MAX // 86_400_000
            message = f"expires_at: a grant ends within {days} days"
            raise Rejected("INVALID_ARGUMENTS", message, "send an earlier time, and renew the grant before it ends")
    return await _stored(context, row, msgspec.structs.replace(app, auto_execute=changed), row.tenant)


def _changed(before: T, given: JsonObject, kind: type[T], member: str, *, whole: bool) -> T:
    """Return what is stored after a change; raise `Rejected` if that is nothing that can be enforced."""
    merged = given if whole else _merged(msgspec.to_builtins(before), given)
    try:
        return msgspec.convert(merged, kind)
    except msgspec.ValidationError as error:
        raise Rejected(
            "INVALID_ARGUMENTS",
            f"{member}: {error}",
            "correct the field; the guide to the agent profile lists all fields",
        ) from None


def _merged(before: JsonValue, patch: JsonValue) -> JsonValue:
    """Apply a merge patch (RFC 7396): null removes a member, objects are merged, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    kept = dict(before) if isinstance(before, dict) else {}
    for name, value in patch.items():
        if value is None:
            kept.pop(name, None)
        else:
            kept[name] = _merged(kept.get(name), value)
    return kept


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
    outcome = await delete_resource(
        context.services.platform,
        row.tenant,
        APP_KIND,
        app.id,
        expected_etag=row.etag,
        call=idempotency.answered(context, Reply(value=answer)),
    )
    if isinstance(outcome, ResourceChanged):
        if outcome.current_etag is None:
            raise NotFound("APP_NOT_FOUND", f"there is no app {app.id}", "it was deleted by another call")
        raise Conflict("PRECONDITION_FAILED", f"the app {app.id} was changed by another call", "try again")
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
