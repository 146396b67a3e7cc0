"""What principals without a key leave behind for schedules, webhooks and runs to act with.

The rights of a key are looked up each time that it acts. Of a token there is nothing to look up later: its issuer says
what its subject may do only in the next token. So whatever starts runs later keeps what the principal might do when it
was made. That can never become more; it ends after some time, when the subject is revoked, and when its issuer is not
trusted any more. The same holds for the principal of a pipe, which only the settings of that program know.

It is also kept whether a model stored a workflow with triggers. What these start acts as an agent then: otherwise a
model could let the clock, or a sender of webhooks, do at once what it may only propose.

Above it: `makers`, `run_principals`, the operations that store schedules and workflows. Below it: the resources of the
platform store, `governance.kept_authority`.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

import msgspec

from penstock.base.encoding import encode_bytes
from penstock.base.errors import Denied
from penstock.base.json import JsonObject, JsonValue
from penstock.governance.kept_authority import TOKEN, KeptAuthority, has_kept_authority, kept_authority
from penstock.governance.principals import TokenReference
from penstock.operations.gate.context import Context, Principal, Services
from penstock.runtime.ports.platform import ResourceRow, body_etag
from penstock.runtime.ports.runs import DefinitionRow
from penstock.runtime.tables.resources import put_resources, read_resource

__all__ = [
    "AUTHOR",
    "AUTHORITY",
    "TriggerKind",
    "keep_workflow_authority",
    "principal_with",
    "schedule_authority",
    "stored_by_model",
    "workflow_authority",
]

AUTHORITY = "authority"
"""The member that holds it: of a schedule's specification, and of what the first record of a run says of its starter.
"""
AUTHOR = "author"
"""The member of a schedule's specification that says who wrote it."""
_KIND = "standing_authority"
_BY_MODEL = "stored_by_model"


class TriggerKind(NamedTuple):
    """What acts for a maker later: its name, and how it can get another maker."""

    label: str
    unknown_code: str
    """The error code if its maker is unknown."""
    hint: str


def schedule_authority(context: Context) -> JsonObject:
    """Return what the specification of a schedule keeps of its maker; nothing if the maker can be looked up."""
    return {AUTHORITY: _of(context)} if has_kept_authority(context.principal.id) else {}


def _of(context: Context) -> JsonObject:
    return kept_authority(context.principal, context.now_ms() + context.services.limits.standing_authority_ms)


async def keep_workflow_authority(context: Context, name: str, definition_hash: str) -> None:
    """Keep what the maker of a workflow with triggers may do, before the workflow is stored."""
    resource_id = _workflow_id(context.principal.id, name, definition_hash)
    by_model = context.request.by_model
    platform, kept = context.services.platform, list[ResourceRow]()
    # A person who stores the same version again answers for it.
    if by_model or await read_resource(platform, context.tenant, _BY_MODEL, resource_id) is not None:
        kept.append(_row(context, _BY_MODEL, resource_id, {"by_model": by_model}))
    if has_kept_authority(context.principal.id):
        kept.append(_row(context, _KIND, resource_id, _of(context)))
    if kept:
        await put_resources(platform, kept)


def _row(context: Context, kind: str, resource_id: str, body: JsonObject) -> ResourceRow:
    now = context.now_ms()
    return ResourceRow(
        tenant=context.tenant,
        kind=kind,
        resource_id=resource_id,
        body=body,
        etag=body_etag(body),
        created_at=now,
        updated_at=now,
        updated_by=context.principal.id,
    )


async def stored_by_model(services: Services, row: DefinitionRow | None) -> bool:
    """Whether a model stored a workflow with triggers, as far as that is known."""
    if row is None or row.created_by is None:
        return False
    resource_id = _workflow_id(row.created_by, row.name, row.hash)
    found = await read_resource(services.platform, row.tenant, _BY_MODEL, resource_id)
    return found is not None and found.body.get("by_model") is not False


async def workflow_authority(services: Services, row: DefinitionRow | None) -> JsonValue:
    """Return the kept authority of the maker of a stored workflow, or None."""
    if row is None or row.created_by is None or not has_kept_authority(row.created_by):
        return None
    resource_id = _workflow_id(row.created_by, row.name, row.hash)
    found = await read_resource(services.platform, row.tenant, _KIND, resource_id)
    return None if found is None else found.body


def _workflow_id(principal_id: str, name: str, definition_hash: str) -> str:
    return sha256(encode_bytes([principal_id, name, definition_hash])).hexdigest()[:32]


async def principal_with(
    services: Services, whose: tuple[str, str], kept: JsonValue, kind: TriggerKind, credential: str | None = None
) -> Principal | None:
    """Return a maker (`whose`: its tenant and its id) with the authority that was kept for it.

    None if it does not exist; raise `Denied` if it has ended.

    With a `credential`, the name of the very token that was used, a revocation of that token ends it too.
    """
    (tenant, maker), (label, _, hint) = whose, kind
    try:
        authority = msgspec.convert(kept, KeptAuthority)
    except msgspec.ValidationError:
        return None
    if authority.principal != maker:
        return None
    if authority.until <= services.clock.now_ms():
        message = f"{label} was made by {maker} too long ago, so somebody must confirm it"
        raise Denied("AUTHORITY_EXPIRED", message, hint)
    token: TokenReference | None = None
    if maker.startswith(TOKEN):
        issuer, _, subject = maker.removeprefix(TOKEN).partition(":")
        token = TokenReference(
            issuer=issuer,
            subject=subject,
            tenant=tenant,
            expires_at=authority.until,
            token_id=None if credential is None else credential.removeprefix(f"{TOKEN}{issuer}:"),
        )
        if await services.is_token_revoked(token):
            message = f"{maker} made {label}, and the server no longer accepts their tokens"
            raise Denied("TOKEN_REVOKED", message, hint)
    return Principal(
        id=maker,
        tenant=tenant,
        kind=authority.kind,
        scopes=frozenset(authority.scopes),
        groups=frozenset(authority.groups),
        name=authority.name,
        attributes=authority.attributes,
        subject=authority.subject,
        credential=credential,
        token=token,
    )
