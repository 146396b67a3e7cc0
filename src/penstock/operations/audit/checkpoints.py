"""Signed checkpoints of a tenant's audit trail, and the keys that sign them.

A checkpoint continues the Merkle tree of the one before it, so it costs only the records that came since. These are
verified first: nothing is signed that the server itself cannot verify. Checkpoints are stored with the frontier of
their tree under ids that sort the newest first.

Above it: the catalogue, `app`, which calls `audit.checkpoint` regularly. Below it: `trail_parts`, the platform port.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.base.errors import Conflict, Denied, Rejected, Unavailable
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject
from penstock.governance.audit.checkpoints import (
    Checkpoint,
    SigningKey,
    key_statement,
    origin_of,
    parse_notes,
    sign_checkpoint,
    stated_keys,
)
from penstock.governance.audit.trails import SIGN_AUDIT
from penstock.governance.audit.tree import Frontier, grown
from penstock.operations.audit.stamps import StoredStamp, has_stamps, stamp_of
from penstock.operations.audit.trail_parts import TrailGap, TrailPart, checkpoint_id, part_pages, verified_leaves
from penstock.operations.catalogue.capability import Capability, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Cursor, Limit, instant
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import AuditKeys, Context
from penstock.runtime.ports.audit import AuditRecordUnreadable
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import ResourceChanged, ResourceRow, body_etag
from penstock.runtime.stored_bodies import decode_body
from penstock.runtime.tables.audit.records import list_audit_tenants
from penstock.runtime.tables.resources import list_resources, put_resource

__all__ = [
    "CHECKPOINT_KIND",
    "OPERATIONS",
    "STATEMENT_KIND",
    "StoredCheckpoint",
    "checkpoint_rows",
    "key_statements",
    "newest_checkpoint",
]

CHECKPOINT_KIND, STATEMENT_KIND = "audit_checkpoint", "audit_key_statement"


class StoredCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint as it is stored."""

    size: int
    at: int
    note: str
    frontier: list[str]
    """The complete subtrees of its tree, in hexadecimal."""

    @property
    def tree(self) -> Frontier:
        """Its tree."""
        return Frontier(self.size, tuple(bytes.fromhex(node) for node in self.frontier))


async def checkpoint_rows(
    platform: Database, tenant: str, *, limit: int, cursor: str | None = None
) -> tuple[list[StoredCheckpoint], str | None]:
    """Return checkpoints of a tenant, newest first, and the cursor of the next page."""
    page = await list_resources(platform, tenant, CHECKPOINT_KIND, limit=limit, cursor=cursor)
    return [decode_body(row, StoredCheckpoint) for row in page.rows], page.next_cursor


async def newest_checkpoint(platform: Database, tenant: str) -> StoredCheckpoint | None:
    """Return the newest checkpoint of a tenant."""
    found, _ = await checkpoint_rows(platform, tenant, limit=1)
    return found[0] if found else None


async def key_statements(platform: Database) -> list[str]:
    """Return the statements about the keys of this server, oldest first."""
    rows = (await list_resources(platform, DEFAULT_TENANT, STATEMENT_KIND, limit=_STATEMENTS_MAX)).rows
    return [str(row.body["note"]) for row in rows]


_STATEMENTS_MAX = 1_000


class CheckpointView(msgspec.Struct, frozen=True, kw_only=True):
    """A signed checkpoint. `note` is the text to keep elsewhere: it proves all records up to `size`."""

    size: int
    at: str | None
    note: str
    stamped_at: str | None = None
    """When a time-stamping authority saw it, if one did."""
    stamp: str | None = None
    """The stamp of the authority (RFC 3161), in Base64."""


class CheckpointPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of checkpoints, newest first."""

    items: list[CheckpointView]
    next_cursor: str | None


class ListCheckpoints(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page."""

    limit: Limit = 50
    cursor: Cursor = None


class MakeCheckpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing to choose: everything up to now is signed."""


def _shown(checkpoint: StoredCheckpoint, stamp: StoredStamp | None = None) -> CheckpointView:
    view = CheckpointView(size=checkpoint.size, at=instant(checkpoint.at), note=checkpoint.note)
    if stamp is None:
        return view
    return msgspec.structs.replace(view, stamped_at=instant(stamp.at), stamp=stamp.token)


def _keys(context: Context) -> AuditKeys:
    if context.services.audit_keys is None:
        message = "this process has no key to sign checkpoints with"
        raise Unavailable(
            "AUDIT_KEY_UNAVAILABLE", message, "send the call to a server, or open the file together with its secret"
        )
    return context.services.audit_keys


async def _signing_key(platform: Database, keys: AuditKeys) -> SigningKey:
    """Return the key to sign with. Finish a rotation whose process died after it had stored its statement."""
    if not keys.exists():
        await _refuse_second_key(platform)
    key = await keys.signing_key()
    for prepared in await keys.prepared():
        stated = [stated_keys(note) for text in await key_statements(platform) for note in parse_notes(text)]
        if (key.verifier, prepared.verifier) in stated:
            await keys.replace(key, prepared)
            return prepared
    return key


async def _refuse_second_key(platform: Database) -> None:
    """Refuse to make a key beside one that signed already: people who trust the first would not trust the second."""
    tenants = {DEFAULT_TENANT, *await list_audit_tenants(platform)}
    signed = [tenant for tenant in tenants if await newest_checkpoint(platform, tenant) is not None]
    if signed or await key_statements(platform):
        message = "the key that signed the checkpoints of this store is gone, and no new one is made in its place"
        hint = "restore the file of the key from a backup, or name its source in server.audit_key"
        raise Unavailable("AUDIT_KEY_UNAVAILABLE", message, hint)


@operation(
    SIGN_AUDIT,
    route=Route(method="POST", path="/audit/checkpoints"),
    scopes=("audit:sign",),
    idempotent=True,
    bucket="admin",
    errors=("AUDIT_KEY_UNAVAILABLE", "AUDIT_TRAIL_BROKEN", "AUDIT_TRAIL_EMPTY", "PRECONDITION_FAILED"),
)
async def audit_checkpoint(context: Context, given: MakeCheckpoint) -> Reply[CheckpointView]:
    """Sign the audit trail as it is now.

    Keep the checkpoint where nobody who can change the server's file can change it. Later, it shows whether any record
    that it covers was altered, removed or inserted.
    """
    platform, keys = context.services.platform, _keys(context)
    key = await _signing_key(platform, keys)
    before = await newest_checkpoint(platform, context.tenant)
    tree = await _grown_tree(context, Frontier() if before is None else before.tree)
    if before is not None and tree.size == before.size:
        return Reply(value=_shown(before))
    if tree.size == 0:
        raise Rejected(
            "AUDIT_TRAIL_EMPTY", "there are no audit records yet", "make a call first, and sign the trail then"
        )
    now = context.now_ms()
    origin = origin_of(key.name, context.tenant)
    checkpoint = Checkpoint(origin=origin, size=tree.size, root=tree.root, at=instant(now))
    made = StoredCheckpoint(
        size=tree.size, at=now, note=sign_checkpoint(key, checkpoint), frontier=[node.hex() for node in tree.nodes]
    )
    body: JsonObject = msgspec.to_builtins(made)
    context.call.about(None, size=made.size)
    reply = Reply(value=_shown(made))
    row = _row(context, context.tenant, CHECKPOINT_KIND, checkpoint_id(made.size), body)
    stored = await put_resource(platform, row, expected_etag=None, call=idempotency.answered(context, reply))
    if isinstance(stored, ResourceChanged):
        message = f"the checkpoint of {made.size} records was made by another call"
        raise Conflict("PRECONDITION_FAILED", message, "read it with audit.checkpoints")
    return reply


def _row(context: Context, tenant: str, kind: str, resource_id: str, body: JsonObject) -> ResourceRow:
    now = context.now_ms()
    return ResourceRow(
        tenant=tenant,
        kind=kind,
        resource_id=resource_id,
        body=body,
        etag=body_etag(body),
        created_at=now,
        updated_at=now,
        updated_by=context.principal.id,
    )


def _with_parts(pepper: bytes, tree: Frontier, parts: list[TrailPart]) -> Frontier:
    return grown(tree, verified_leaves(pepper, parts))


async def _grown_tree(context: Context, tree: Frontier) -> Frontier:
    """Return the tree with the records that came since, if they are as they were sealed."""
    services = context.services
    try:
        async for parts in part_pages(services.platform, context.tenant, after=tree.size):
            tree = await asyncio.to_thread(_with_parts, services.pepper, tree, parts)
    except (TrailGap, AuditRecordUnreadable) as gap:
        message = f"the audit trail is broken at record {gap.seq}, so nothing beyond it is signed"
        raise Conflict("AUDIT_TRAIL_BROKEN", message, "find the damage with audit.verify") from gap
    return tree


@operation(
    "audit.checkpoints",
    route=Route(method="GET", path="/audit/checkpoints", query=("limit", "cursor")),
    scopes=("audit:read",),
    reads=True,
    bucket="admin",
    errors=("INVALID_LIST_CURSOR",),
)
async def audit_checkpoints(context: Context, given: ListCheckpoints) -> CheckpointPage:
    """List signed checkpoints of the audit trail.

    Newest first. Each checkpoint proves the records that it covers to anyone who has the public key.
    """
    platform, tenant = context.services.platform, context.tenant
    found, cursor = await checkpoint_rows(platform, tenant, limit=given.limit, cursor=given.cursor)
    if not await has_stamps(platform, tenant):
        return CheckpointPage(items=[_shown(checkpoint) for checkpoint in found], next_cursor=cursor)
    items = [_shown(checkpoint, await stamp_of(platform, tenant, checkpoint.size)) for checkpoint in found]
    return CheckpointPage(items=items, next_cursor=cursor)


class GetAuditKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing to choose."""


class AuditKeyView(msgspec.Struct, frozen=True, kw_only=True):
    """The public key that verifies checkpoints, and how it follows earlier ones."""

    public_key: Annotated[str, Meta(description="A C2SP verifier key: name, id and key.")]
    statements: Annotated[list[str], Meta(description="For each change of the key a note that both keys signed.")]


@operation(
    "audit.key",
    route=Route(method="GET", path="/audit/key"),
    scopes=("audit:read",),
    reads=True,
    bucket="admin",
    errors=("AUDIT_KEY_UNAVAILABLE",),
)
async def audit_key(context: Context, given: GetAuditKey) -> AuditKeyView:
    """Show the public key that verifies checkpoints.

    Give it to the people who verify the trail, over a channel that they trust.
    """
    platform = context.services.platform
    key = await _signing_key(platform, _keys(context))
    return AuditKeyView(public_key=str(key.verifier), statements=await key_statements(platform))


class RotateAuditKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing to choose."""


@operation(
    "audit.rotate_key",
    route=Route(method="POST", path="/audit/key/rotate"),
    scopes=("audit:sign",),
    destructive=True,
    risk="high",
    bucket="admin",
    errors=("AUDIT_KEY_UNAVAILABLE", "PRECONDITION_FAILED", "SCOPE_REQUIRED"),
)
async def audit_rotate_key(context: Context, given: RotateAuditKey) -> Reply[AuditKeyView]:
    """Sign with a new key from now on.

    The old and the new key sign a statement about each other, so that people who trust the old key can trust the new
    one. The old private key is deleted.
    """
    if not context.is_operator:
        message = "the key signs the trails of all tenants, so only an owner in the default tenant may change it"
        raise Denied("SCOPE_REQUIRED", message, "ask the owner of the server", {"scope": "*"})
    platform, keys = context.services.platform, _keys(context)
    old = await _signing_key(platform, keys)
    new = SigningKey(old.name, keys.new_seed())
    note = key_statement(old, new, instant(context.now_ms()) or "")
    context.call.about(new.verifier.key_id.hex())
    statements = [*await key_statements(platform), note]
    row = _row(context, DEFAULT_TENANT, STATEMENT_KIND, f"{len(statements):06}", {"note": note})
    reply = Reply(value=AuditKeyView(public_key=str(new.verifier), statements=statements))
    # The statement decides: with it, every process that finds the prepared key uses it. A key that nobody can follow
    # would be worse than one that is never used.
    await keys.prepare(new)
    stored = await put_resource(platform, row, expected_etag=None, call=idempotency.answered(context, reply))
    if isinstance(stored, ResourceChanged):
        await keys.discard(new)
        message = "another call changed the key"
        raise Conflict("PRECONDITION_FAILED", message, "read the current key with audit.key")
    await keys.replace(old, new)
    for left in await keys.prepared():  # by processes that died before they stored a statement
        await keys.discard(left)
    return reply


OPERATIONS: tuple[Capability, ...] = (audit_checkpoint, audit_checkpoints, audit_key, audit_rotate_key)
