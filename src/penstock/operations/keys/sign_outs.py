"""Sign out of the console everywhere: every session of a principal ends, in all browsers.

Above it: the catalogue. Below it: `permissions.console_sessions`, the platform port.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Denied
from penstock.base.json import JsonObject
from penstock.base.scopes import scope_allows
from penstock.operations.catalogue.capability import Capability, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import instant
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.permissions.console_sessions import SESSION_KIND, SIGN_OUT_KIND, sessions_of, sign_out_id
from penstock.runtime.ports.platform import ResourceRow, body_etag
from penstock.runtime.ports.transactions import Transaction
from penstock.runtime.tables.resources import write_deletions, write_resources

__all__ = ["OPERATIONS"]

_OTHERS = "key:write"


class SignOut(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose sessions end."""

    principal: (
        Annotated[
            str,
            Meta(
                description="Whose sessions, such as `key:ID` or `token:ISSUER:SUBJECT`; your own unless set.",
                min_length=1,
                max_length=limits.TOKEN_PRINCIPAL_CHARACTERS_MAX,
            ),
        ]
        | None
    ) = None


class SignedOut(msgspec.Struct, frozen=True, kw_only=True):
    """Whose sessions ended, and when."""

    principal: str
    ended_at: str | None


async def _principal_of(context: Context, given: SignOut) -> str:
    """Return whose sessions a call ends, if the caller may."""
    principal = given.principal or context.principal.id
    if principal != context.principal.id and not scope_allows(context.principal.scopes, _OTHERS):
        message = f"signing others out needs the scope {_OTHERS}"
        raise Denied("SCOPE_REQUIRED", message, context.principal.scope_hint, {"scope": _OTHERS, "scopes": [_OTHERS]})
    return principal


@operation(
    "key.sign_out",
    route=Route(method="POST", path="/keys/sign-out"),
    scopes=(),
    destructive=True,
    idempotent=True,
    risk="high",
    bucket="admin",
    subject="principal",
    find=_principal_of,
    errors=("SCOPE_REQUIRED",),
)
async def key_sign_out(context: Context, given: SignOut) -> Reply[SignedOut]:
    """End every console session of a person.

    Ends your own sessions in all browsers, or with `key:write` those of another person. Keys and tokens stay valid;
    revoke them to end them.
    """
    principal, now = await _principal_of(context, given), context.now_ms()
    body: JsonObject = {"principal": principal, "before_ms": now}
    row = ResourceRow(
        tenant=context.tenant,
        kind=SIGN_OUT_KIND,
        resource_id=sign_out_id(principal),
        body=body,
        etag=body_etag(body),
        created_at=now,
        updated_at=now,
        updated_by=context.principal.id,
    )
    reply = Reply(value=SignedOut(principal=principal, ended_at=instant(now)))
    context.call.about(principal)
    # From then on they count for nothing; what is stored of them, such as tokens of the issuer, is not needed any more.
    ended = [session.resource_id for session in await sessions_of(context.services.platform, context.tenant, principal)]

    def change(transaction: Transaction) -> None:
        write_deletions(transaction, context.tenant, SESSION_KIND, ended)
        write_resources(transaction, [row])

    await context.services.platform.write(change, call=idempotency.answered(context, reply))
    context.services.keys_changed()
    return reply


OPERATIONS: tuple[Capability, ...] = (key_sign_out,)
