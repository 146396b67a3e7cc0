"""Operations on API keys: create, list, revoke, rotate.

A key is shown only when it is made. Callers can neither grant nor revoke more than they have (`bounds`), and a key with
further scopes cannot be revoked either. A new key belongs to its maker's tenant, unless the maker is the operator: a
principal with every scope in the default tenant. A principal with every scope in another tenant owns that tenant, and
does not see any other.

Above it: the catalogue. Below it: `bounds`, the platform port, `governance.keys`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Conflict, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.base.scopes import likely_scope, scope_allows
from penstock.definitions.durations import parse_native_duration_ms
from penstock.governance.keys import ParsedKey, derived_key, hash_secret
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Cursor, Limit, instant
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context, Services
from penstock.operations.keys.bounds import SUBJECT_SCOPE, bounded_key, check_scopes, for_subject, key_in_reach
from penstock.operations.permissions.starting import needed_scopes
from penstock.runtime.ports.platform import KeyNotReplaced, KeyRow
from penstock.runtime.tables.api_keys import list_keys, put_key, replace_key

__all__ = ["OPERATIONS", "NewKey"]

_TENANT = r"^[a-z0-9][a-z0-9_-]{0,62}$"
GroupName = Annotated[
    str, Meta(pattern=r"^(?![\s\S]*\n)[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=limits.GROUP_NAME_CHARACTERS_MAX)
]
KEY_ID_PATTERN = r"^[A-Za-z0-9_-]+$"
Subject = (
    Annotated[
        str,
        Meta(
            description="Who it stands for: `person:NAME`, `machine:NAME`, `token:ISSUER:SUBJECT`, or `key:ID` for the "
            f"subject of that key; you, unless set. Another subject needs `{SUBJECT_SCOPE}`.",
            pattern=r"^(person|machine|token|key):[^\x00-\x20\x7f]+$",
            max_length=limits.TOKEN_PRINCIPAL_CHARACTERS_MAX,
            examples=["person:ada"],
        ),
    ]
    | None
)
KeyId = Annotated[str, Meta(description="The key's id, as listed.", max_length=40, examples=["k7qm2xw4htnb"])]


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its secret."""

    id: str
    prefix: str
    name: str
    tenant: str
    scopes: list[str]
    status: str
    created_at: str | None
    created_by: str | None
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None
    replaces: str | None
    toolset: str | None = None
    kind: str = "service"
    groups: list[str] = []
    subject: str = ""
    """The person or machine behind it: all keys with the same subject count as one in approvals and quotas."""
    lineage: list[str] = []
    """The subjects that made it, or a key before it: they count as the same as its own when somebody else is needed."""


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key that was just made: the only time that `secret` is shown."""

    secret: str
    key: KeyView
    warnings: list[str] = []
    """Warnings about scopes that nothing here needs, with suggestions."""


class KeyPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of keys."""

    items: list[KeyView]
    next_cursor: str | None


class CreateKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the key is for, and what it may do."""

    name: Annotated[str, Meta(description="Whose key it is, for people.", min_length=1, max_length=100)]
    scopes: Annotated[
        list[str],
        Meta(description="What it may do, e.g. `workflow:read`, `execution:*`, `*`.", min_length=1, max_length=100),
    ]
    expires_in: (
        Annotated[str, Meta(description="How long it is valid, e.g. `90d`; without, as is set.", max_length=20)] | None
    ) = None
    tenant: (
        Annotated[str, Meta(description="The tenant it belongs to; yours unless you own all of them.", pattern=_TENANT)]
        | None
    ) = None
    toolset: (
        Annotated[
            str,
            Meta(
                description="The MCP tools it offers and can call: `workflows`, `management`, or names, with commas.",
                min_length=1,
                max_length=limits.MCP_TOOLSET_CHARACTERS_MAX,
            ),
        ]
        | None
    ) = None
    kind: Annotated[
        Literal["person", "agent", "service"],
        Meta(
            description="The kind of its holder: calls of an agent may wait for approval, and only people approve "
            "(`person`)."
        ),
    ] = "service"
    groups: Annotated[
        list[GroupName],
        Meta(description="The groups that its holder belongs to, for policies and approvals.", max_length=50),
    ] = []
    subject: Subject = None


class ListKeys(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which keys, and which page of them."""

    id: Annotated[
        list[Annotated[str, Meta(pattern=KEY_ID_PATTERN, max_length=40)]],
        Meta(description="Only keys with one of these ids.", max_length=limits.KEYS_NAMED_MAX),
    ] = []
    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


class OneKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which key."""

    key_id: KeyId


class RotateKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which key, and how long the old one still works."""

    key_id: KeyId
    overlap: Annotated[str, Meta(description="How long the old key still works, e.g. `1h`.", max_length=20)] = "0s"
    subject: Subject = None


def _row_with(services: Services, row: KeyRow, material: ParsedKey) -> tuple[KeyRow, str]:
    hashed = hash_secret(services.pepper, material.key_id, material.secret)
    return msgspec.structs.replace(row, key_id=material.key_id, secret_hash=hashed), material.text


def _view(row: KeyRow, now: int) -> KeyView:
    status = "revoked" if row.revoked_at is not None else "active"
    if status == "active" and row.expires_at is not None and row.expires_at <= now:
        status = "expired"
    return KeyView(
        id=row.key_id,
        prefix=f"pen_{row.key_id}",
        name=row.name,
        tenant=row.tenant,
        scopes=list(row.scopes),
        status=status,
        created_at=instant(row.created_at),
        created_by=row.created_by,
        expires_at=instant(row.expires_at),
        revoked_at=instant(row.revoked_at),
        last_used_at=instant(row.last_used_at),
        replaces=row.replaces,
        toolset=row.toolset,
        kind=row.kind,
        groups=list(row.groups),
        subject=row.subject_id,
        lineage=list(row.lineage),
    )


def _new_key(context: Context, row: KeyRow, warnings: Sequence[str] = ()) -> tuple[KeyRow, Reply[NewKey]]:
    """Return a new key, and the reply with its secret, which is never stored.

    With an idempotency key the secret is derived from a seed that is stored with the answer, for as long as the answer
    is. So a repeated call gets the same secret, but the file alone does not reveal it, and nobody can derive it later.
    """
    services, material = context.services, context.services.new_key_material()
    seed = material.secret
    if context.call.claim is not None:
        material = derived_key(services.pepper, material.key_id, seed)
    made, text = _row_with(services, row, material)
    view = _view(made, row.created_at)
    kept: JsonObject = {"seed": seed, "key": msgspec.to_builtins(view), "warnings": list(warnings)}
    value = NewKey(secret=text, key=view, warnings=list(warnings))
    return made, Reply(value=value, kept=kept, location=f"/keys/{view.id}")


def _repeat(services: Services, kept: JsonObject) -> JsonValue:
    """Rebuild the answer with the secret."""
    seed, key = kept.get("seed"), kept.get("key")
    if not isinstance(seed, str) or not isinstance(key, dict):
        return kept  # from an older release, which stored the answer without the secret
    secret = derived_key(services.pepper, str(key["id"]), seed).text
    return {"secret": secret, "key": key, "warnings": kept.get("warnings", [])}


def _duration_ms(text: str, name: str) -> int:
    found = parse_native_duration_ms(text)
    if found is None:
        raise Rejected("INVALID_ARGUMENTS", f"{name}: {text!r} is not a duration", "write it like 30s, 10m, 12h or 90d")
    return found


async def _find_key(context: Context, given: OneKey) -> KeyRow:
    """Find the key that the input of a call names."""
    return await key_in_reach(context, given.key_id)


async def _successor(context: Context, given: RotateKey) -> tuple[KeyRow, KeyRow]:
    """Return the key that a call replaces, and the one that replaces it, without its secret."""
    old, now = await key_in_reach(context, given.key_id), context.now_ms()
    if _view(old, now).status != "active":
        raise Conflict("KEY_NOT_ACTIVE", f"the key {old.name} is no longer active", "create a new key with key.create")
    like_old = msgspec.structs.replace(
        old,
        created_at=now,
        created_by=context.principal.id,
        last_used_at=None,
        replaces=old.key_id,
        subject=old.subject_id,
        first_key=old.first_key or old.key_id,
    )
    # Both count: whose key it was, because they lose it, and whose it becomes, because the caller gets it.
    await bounded_key(context, like_old, inherits=False)
    return old, await bounded_key(context, await for_subject(context, like_old, given.subject), inherits=False)


async def _made_key(context: Context, given: CreateKey) -> KeyRow:
    """Return the key that a call makes, without its secret."""
    tenant, now = given.tenant or context.tenant, context.now_ms()
    row = KeyRow(
        key_id="",
        tenant=tenant,
        name=given.name,
        secret_hash="",
        scopes=tuple(given.scopes),
        created_at=now,
        created_by=context.principal.id,
        expires_at=None if given.expires_in is None else now + _duration_ms(given.expires_in, "expires_in"),
        toolset=given.toolset,
        kind=given.kind,
        groups=tuple(sorted(set(given.groups))),
    )
    row = await bounded_key(context, await for_subject(context, row, given.subject), inherits=True)
    usual = context.services.limits.key_expiry_ms
    if given.expires_in is None and usual is not None:
        ends = (now + usual, row.expires_at)
        row = msgspec.structs.replace(row, expires_at=min(end for end in ends if end is not None))
    return row


def _shared_subject(context: Context, given: CreateKey) -> list[str]:
    """Return a warning about a key for a person that counts as its maker: it may be meant for somebody else."""
    subject = context.principal.subject_id
    if given.kind != "person" or given.subject is not None or context.principal.kind in ("local", "system"):
        return []
    return [f"the key counts as you ({subject}) in approvals and quotas; for somebody else, name their `subject`"]


async def _unneeded(services: Services, tenant: str, scopes: list[str]) -> list[str]:
    """Return warnings about scopes that nothing in a tenant needs: they may be misspelt, or meant for later."""
    needed = await needed_scopes(services, tenant)
    wildcards = {f"{scope.partition(':')[0]}:*" for scope in needed if ":" in scope}
    found = []
    for scope in scopes:
        if not any(scope_allows([scope], need) for need in needed):
            meant = likely_scope(scope, needed | wildcards)
            found.append(f"nothing here needs the scope {scope}" + (f"; did you mean {meant}?" if meant else ""))
    return found


@operation(
    "key.create",
    route=Route(method="POST", path="/keys", status=201),
    scopes=("key:write",),
    risk="high",
    bucket="admin",
    subject="name",
    find=_made_key,
    errors=("KEY_BEYOND_YOURS", "KEY_NOT_FOUND", "SCOPE_INVALID", "SCOPE_REQUIRED"),
    repeat=_repeat,
    examples=(Example(arguments={"name": "reporting", "scopes": ["workflow:read", "execution:read"]}),),
)
async def key_create(context: Context, given: CreateKey) -> Reply[NewKey]:
    """Create an API key.

    The answer contains the secret, which is not stored; a repeated call with the same idempotency key returns it again.
    A key can do no more than its maker's key: it has no further scopes and tools, and does not outlive it. It stands
    for its maker, unless `subject` names another person.
    """
    row = await _made_key(context, given)
    warnings = [*await _unneeded(context.services, row.tenant, given.scopes), *_shared_subject(context, given)]
    made, reply = _new_key(context, row, warnings)
    context.call.about(made.key_id)
    await put_key(context.services.platform, made, call=idempotency.answered(context, reply))
    return reply


@operation(
    "key.list",
    route=Route(method="GET", path="/keys", query=("id", "limit", "cursor")),
    scopes=("key:read",),
    reads=True,
    bucket="admin",
    errors=("INVALID_LIST_CURSOR",),
)
async def key_list(context: Context, given: ListKeys) -> KeyPage:
    """List API keys.

    Returns ids, names, scopes and last use; never secrets. An owner in the default tenant sees the keys of all tenants.
    """
    page = await list_keys(
        context.services.platform,
        tenant=None if context.is_operator else context.tenant,
        limit=given.limit,
        cursor=given.cursor,
        ids=given.id or None,
    )
    now = context.now_ms()
    return KeyPage(items=[_view(row, now) for row in page.rows], next_cursor=page.next_cursor)


@operation(
    "key.get",
    route=Route(method="GET", path="/keys/{key_id}"),
    scopes=("key:read",),
    reads=True,
    bucket="admin",
    subject="key_id",
    errors=("KEY_NOT_FOUND",),
)
async def key_get(context: Context, given: OneKey) -> KeyView:
    """Get an API key.

    Returns its name, scopes and last use; never its secret.
    """
    return _view(await key_in_reach(context, given.key_id), context.now_ms())


@operation(
    "key.revoke",
    route=Route(method="POST", path="/keys/{key_id}/revoke"),
    scopes=("key:write",),
    destructive=True,
    idempotent=True,
    risk="high",
    bucket="admin",
    subject="key_id",
    find=_find_key,
    errors=("KEY_NOT_FOUND", "SCOPE_REQUIRED"),
)
async def key_revoke(context: Context, given: OneKey) -> KeyView:
    """Revoke an API key.

    It fails from the next request on, and its calls in progress end. This cannot be undone. A key that may do more than
    yours can only be revoked by somebody who may do as much.
    """
    row = await key_in_reach(context, given.key_id)
    check_scopes(context, row.scopes)
    now = context.now_ms()
    if row.revoked_at is not None:
        return _view(row, now)
    row = msgspec.structs.replace(row, revoked_at=now)
    view = _view(row, now)
    await put_key(context.services.platform, row, call=idempotency.answered(context, Reply(value=view)))
    context.services.keys_changed()
    return view


@operation(
    "key.rotate",
    route=Route(method="POST", path="/keys/{key_id}/rotate", status=201),
    scopes=("key:write",),
    risk="high",
    bucket="admin",
    subject="key_id",
    find=_successor,
    errors=("KEY_NOT_FOUND", "KEY_NOT_ACTIVE", "SCOPE_REQUIRED", "KEY_BEYOND_YOURS"),
    repeat=_repeat,
)
async def key_rotate(context: Context, given: RotateKey) -> Reply[NewKey]:
    """Replace an API key.

    Makes a key with the same name, scopes, tools, expiry and subject, and ends the old one, at once or after `overlap`.
    A key is replaced once: of several calls at the same time, one makes the new key. You get its secret, so you can
    replace only keys that you could make: your own, those that stand for you, and with `key:subject` those of others.
    """
    overlap_ms, now = _duration_ms(given.overlap, "overlap"), context.now_ms()
    old, like_old = await _successor(context, given)
    made, reply = _new_key(context, like_old)
    ends_at = now + overlap_ms if old.expires_at is None else min(old.expires_at, now + overlap_ms)
    ended = (
        msgspec.structs.replace(old, expires_at=ends_at) if overlap_ms else msgspec.structs.replace(old, revoked_at=now)
    )
    outcome = await replace_key(context.services.platform, ended, made, call=idempotency.answered(context, reply))
    if isinstance(outcome, KeyNotReplaced):
        hint = f"rotate its successor {outcome.successor}" if outcome.successor else "create a new key with key.create"
        raise Conflict("KEY_NOT_ACTIVE", f"the key {old.name} was replaced or revoked already", hint)
    context.services.keys_changed()
    return reply


OPERATIONS: tuple[Capability, ...] = (key_create, key_list, key_get, key_revoke, key_rotate)
