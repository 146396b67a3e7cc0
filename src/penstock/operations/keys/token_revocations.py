"""Operations on access tokens: revoke a token or all of a subject, list what is revoked, let a subject in again.

A revocation holds from the next request on, for open streams and for calls in flight. A revoked subject also loses
what it left behind: the keys that it made, and the keys that were made with those; schedules and webhooks that act for
it start nothing any more. An issuer that revokes a token itself does not tell us; a token that it signed is valid until
it expires.

Above it: the catalogue. Below it: `gate.tokens.revocations`, the platform port.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Denied, NotFound, Rejected
from penstock.base.json import JsonObject
from penstock.base.scopes import EVERYTHING
from penstock.governance.tokens.mapping import subject_principal
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Cursor, Deleted, Limit, instant
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.gate.tokens.revocations import (
    REVOCATION_KIND,
    subject_revocation_id,
    token_revocation_id,
)
from penstock.runtime.ports.platform import ANY_ETAG, ResourceRow, body_etag
from penstock.runtime.ports.transactions import Transaction
from penstock.runtime.tables.api_keys import write_revocations
from penstock.runtime.tables.resources import delete_resource, list_resources, read_resource, write_resources

__all__ = ["OPERATIONS"]

_TENANT = r"^[a-z0-9][a-z0-9_-]{0,62}$"
Tenant = (
    Annotated[str, Meta(description="The tenant it applies to; yours unless you own all of them.", pattern=_TENANT)]
    | None
)
RevocationId = Annotated[str, Meta(description="The id of the revocation, as listed.", max_length=40)]


class Revocation(msgspec.Struct, frozen=True, kw_only=True):
    """A token, or all tokens of a subject, that this server does not accept any more."""

    id: str
    issuer: str
    token_id: str | None
    subject: str | None
    reason: str | None
    tenant: str
    revoked_at: str | None
    revoked_by: str | None
    revoked_keys: list[str] = []
    """The ids of the keys that ended with it."""


class RevocationPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of revocations."""

    items: list[Revocation]
    next_cursor: str | None


class RevokeToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which token, or whose tokens."""

    issuer: Annotated[str, Meta(description="The name of the issuer in the settings.", min_length=1, max_length=32)]
    token_id: (
        Annotated[
            str,
            Meta(description="One token, by its `jti`.", min_length=1, max_length=limits.TOKEN_ID_CHARACTERS_MAX),
        ]
        | None
    ) = None
    subject: (
        Annotated[
            str,
            Meta(
                description="All tokens of a subject, by its `sub`, also those to come.",
                min_length=1,
                max_length=limits.TOKEN_SUBJECT_CHARACTERS_MAX,
            ),
        ]
        | None
    ) = None
    reason: Annotated[str, Meta(description="Why, for people.", max_length=500)] | None = None
    tenant: Tenant = None


class ListRevocations(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page."""

    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None
    tenant: Tenant = None


class OneRevocation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which revocation."""

    revocation_id: RevocationId
    tenant: Tenant = None


def _tenant(context: Context, wanted: str | None) -> str:
    tenant = wanted or context.tenant
    if tenant != context.tenant and not context.is_operator:
        message = "only an owner in the default tenant may revoke tokens of other tenants"
        raise Denied("SCOPE_REQUIRED", message, "leave `tenant` out", {"scope": EVERYTHING})
    return tenant


def _resource_id(context: Context, given: RevokeToken) -> str:
    protected = context.services.protected
    known = () if protected is None else tuple(protected.scope_maps)
    if given.issuer not in known:
        message = f"there is no issuer {given.issuer!r} in `auth.oauth.issuers`"
        raise Rejected(
            "ISSUER_UNKNOWN", message, f"known are {', '.join(known)}" if known else "no issuer is configured"
        )
    match given.token_id, given.subject:
        case str(token_id), None:
            return token_revocation_id(given.issuer, token_id)
        case None, str(subject):
            return subject_revocation_id(given.issuer, subject)
        case _:
            message = "name either `token_id` (one token) or `subject` (all of somebody's tokens)"
            raise Rejected("INVALID_ARGUMENTS", message)


def _view(row: ResourceRow, revoked_keys: list[str] | None = None) -> Revocation:
    body = row.body
    token_id, subject, reason = (body.get(name) for name in ("token_id", "subject", "reason"))
    return Revocation(
        id=row.resource_id,
        issuer=str(body.get("issuer")),
        token_id=token_id if isinstance(token_id, str) else None,
        subject=subject if isinstance(subject, str) else None,
        reason=reason if isinstance(reason, str) else None,
        tenant=row.tenant,
        revoked_at=instant(row.created_at),
        revoked_by=row.updated_by,
        revoked_keys=revoked_keys or [],
    )


@operation(
    "token.revoke",
    route=Route(method="POST", path="/tokens/revocations", status=201),
    scopes=("token:write",),
    destructive=True,
    idempotent=True,
    risk="high",
    bucket="admin",
    subject="issuer",
    errors=("ISSUER_UNKNOWN", "SCOPE_REQUIRED"),
    examples=(Example(arguments={"issuer": "company", "subject": "8f2c…", "reason": "left the company"}),),
)
async def token_revoke(context: Context, given: RevokeToken) -> Reply[Revocation]:
    """Revoke an access token, or all tokens of a subject.

    Applies from the next request on, and ends calls in progress. A subject also loses the keys that it made.
    """
    resource_id, tenant = _resource_id(context, given), _tenant(context, given.tenant)
    body: JsonObject = {"issuer": given.issuer}
    named = {"token_id": given.token_id, "subject": given.subject, "reason": given.reason}
    body.update({name: value for name, value in named.items() if value is not None})
    now = context.now_ms()
    row = ResourceRow(
        tenant=tenant,
        kind=REVOCATION_KIND,
        resource_id=resource_id,
        body=body,
        etag=body_etag(body),
        created_at=now,
        updated_at=now,
        updated_by=context.principal.id,
    )
    maker = None if given.subject is None else subject_principal(given.issuer, given.subject)

    def change(transaction: Transaction) -> list[str]:
        write_resources(transaction, [row])
        return [] if maker is None else write_revocations(transaction, tenant, maker, now)

    def reply(revoked_keys: list[str]) -> Reply[Revocation]:
        return Reply(value=_view(row, revoked_keys), location=f"/tokens/revocations/{resource_id}")

    context.call.about(resource_id)
    call = idempotency.answered_from(context, reply)
    revoked_keys = await context.services.platform.write(change, call=call)
    context.services.keys_changed()
    return reply(revoked_keys)


@operation(
    "token.list_revoked",
    route=Route(method="GET", path="/tokens/revocations", query=("limit", "cursor", "tenant")),
    scopes=("token:read",),
    reads=True,
    bucket="admin",
    errors=("INVALID_LIST_CURSOR", "SCOPE_REQUIRED"),
)
async def token_list_revoked(context: Context, given: ListRevocations) -> RevocationPage:
    """List revoked tokens and subjects."""
    page = await list_resources(
        context.services.platform,
        _tenant(context, given.tenant),
        REVOCATION_KIND,
        limit=given.limit,
        cursor=given.cursor,
    )
    return RevocationPage(items=[_view(row) for row in page.rows], next_cursor=page.next_cursor)


async def _find_revocation(context: Context, given: OneRevocation) -> ResourceRow:
    """Find the revocation that the input of a call names."""
    tenant = _tenant(context, given.tenant)
    row = await read_resource(context.services.platform, tenant, REVOCATION_KIND, given.revocation_id)
    if row is None:
        message = f"there is no revocation {given.revocation_id}"
        raise NotFound("REVOCATION_NOT_FOUND", message, "list them with token.list_revoked")
    return row


@operation(
    "token.restore",
    route=Route(method="DELETE", path="/tokens/revocations/{revocation_id}", query=("tenant",)),
    scopes=("token:write",),
    risk="high",
    bucket="admin",
    subject="revocation_id",
    find=_find_revocation,
    errors=("REVOCATION_NOT_FOUND", "SCOPE_REQUIRED"),
)
async def token_restore(context: Context, given: OneRevocation) -> Deleted:
    """Undo a revocation.

    The subject may use tokens again. Keys that ended with the revocation stay revoked.
    """
    tenant, platform = _tenant(context, given.tenant), context.services.platform
    answer = Deleted(id=given.revocation_id)
    await _find_revocation(context, given)
    await delete_resource(
        platform,
        tenant,
        REVOCATION_KIND,
        given.revocation_id,
        expected_etag=ANY_ETAG,
        call=idempotency.answered(context, Reply(value=answer)),
    )
    context.services.keys_changed()
    return answer


OPERATIONS: tuple[Capability, ...] = (token_revoke, token_list_revoked, token_restore)
