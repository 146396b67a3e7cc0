"""Stamps of a time-stamping authority on checkpoints: stored beside them, and given with them.

A stamp says that the checkpoint existed at a time, in the word of somebody else than this server. The server asks for
stamps and keeps them with an internal call; people who verify a trail verify them too, with the authority's
certificate. Nothing here verifies them.

Above it: `app.serving.stamping`, the views and exports of checkpoints. Below it: the resources of the platform store.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.base.json import JsonObject
from penstock.operations.audit.trail_parts import checkpoint_id
from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import ResourceChanged, ResourceRow, body_etag
from penstock.runtime.stored_bodies import decode_body
from penstock.runtime.tables.resources import list_resources, put_resource, read_resource

__all__ = ["KEEP_STAMP", "OPERATIONS", "STAMP_KIND", "StoredStamp", "has_stamps", "stamp_of"]

KEEP_STAMP = "audit.keep_stamp"
STAMP_KIND = "audit_stamp"


class StoredStamp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stamp on the checkpoint of a size, as the authority encoded it (a TimeStampResp of RFC 3161)."""

    size: Annotated[int, Meta(ge=1)]
    at: int
    """When it was made, as the authority says, in milliseconds."""
    token: str
    """Base64."""


class KeptStamp(msgspec.Struct, frozen=True, kw_only=True):
    """Whether it was stored: not if another process was faster."""

    stored: bool


async def stamp_of(platform: Database, tenant: str, size: int) -> StoredStamp | None:
    """Return the stamp on a checkpoint of a tenant."""
    row = await read_resource(platform, tenant, STAMP_KIND, checkpoint_id(size))
    return None if row is None else decode_body(row, StoredStamp)


async def has_stamps(platform: Database, tenant: str) -> bool:
    """Whether any checkpoint of a tenant is stamped; nearly no server has an authority."""
    return bool((await list_resources(platform, tenant, STAMP_KIND, limit=1)).rows)


@operation(KEEP_STAMP, route=None, scopes=("audit:sign",))
async def keep_stamp(context: Context, given: StoredStamp) -> KeptStamp:
    """Keep the stamp of a time-stamping authority on a checkpoint."""
    body: JsonObject = msgspec.to_builtins(given)
    now = context.now_ms()
    row = ResourceRow(
        tenant=context.tenant,
        kind=STAMP_KIND,
        resource_id=checkpoint_id(given.size),
        body=body,
        etag=body_etag(body),
        created_at=now,
        updated_at=now,
        updated_by=context.principal.id,
    )
    context.call.about(None, size=given.size)
    stored = await put_resource(context.services.platform, row, expected_etag=None, call=context.call)
    return KeptStamp(stored=not isinstance(stored, ResourceChanged))


OPERATIONS: tuple[Capability, ...] = (keep_stamp,)
