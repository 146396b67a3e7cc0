"""Operations on API keys: create, list, revoke, rotate.

A key is shown only when it is made. Callers can neither grant nor revoke more than they have: the scopes, tools and
expiry of a new key are within those of its maker's key, and a key with further scopes can be neither revoked nor
replaced. A new key belongs to its maker's tenant, unless the maker is the operator: a principal with every scope in the
default tenant. A principal with every scope in another tenant owns that tenant, and does not see any other.

Above it: the catalogue. Below it: the platform port, `governance.keys`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Conflict, Denied, NotFound, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.base.scopes import EVERYTHING, SCOPE_HINT, is_scope, likely_scope, scope_allows
from penstock.definitions.durations import parse_native_duration_ms
from penstock.governance.keys import ParsedKey, derived_key, hash_secret
from penstock.governance.principals import may_create_kind
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Cursor, Limit, instant
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context, Principal, Services
from penstock.operations.permissions.starting import needed_scopes
from penstock.runtime.ports.platform import KeyNotReplaced, KeyRow

__all__ = ["OPERATIONS", "NewKey"]

# The toolset that leaves nothing out, as `/mcp?toolset=all` does. A key without a toolset has it, too.
_ALL_TOOLS = "all"
_TENANT = r"^[a-z0-9][a-z0-9_-]{0,62}$"
GroupName = Annotated[
    str, Meta(pattern=r"^(?![\s\S]*\n)[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=limits.GROUP_NAME_CHARACTERS_MAX)
]
KEY_ID_PATTERN = r"^[A-Za-z0-9_-]+$"
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
            description="What its holder is: calls of an agent may have to wait for a person, and only people approve."
        ),
    ] = "service"
    groups: Annotated[
        list[GroupName],
        Meta(description="The groups that its holder belongs to, for policies and approvals.", max_length=50),
    ] = []


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


async def _own_key(context: Context, key_id: str) -> KeyRow:
    row = await context.services.platform.key(key_id)
    if row is None or (row.tenant != context.tenant and not context.is_operator):
        raise NotFound("KEY_NOT_FOUND", f"there is no key {key_id}", "list the keys to see which there are")
    return row


async def _find_key(context: Context, given: OneKey | RotateKey) -> KeyRow:
    """Find the key that the input of a call names."""
    return await _own_key(context, given.key_id)


def _check_scopes(context: Context, scopes: list[str]) -> None:
    for scope in scopes:
        if not is_scope(scope):
            raise Rejected("SCOPE_INVALID", f"{scope[:100]!r} is not a scope", SCOPE_HINT)
        if not scope_allows(context.principal.scopes, scope):
            message = f"your key does not have the scope {scope}, so it cannot give it"
            raise Denied("SCOPE_REQUIRED", message, "ask somebody who has it", {"scope": scope})


def _check_holder(maker: Principal, given: CreateKey) -> None:
    """Refuse a key whose holder would count as more than its maker: another kind, or a member of further groups."""
    if not may_create_kind(maker.kind, given.kind):
        message = f"your key belongs to a principal of kind {maker.kind}, and cannot make one of kind {given.kind}"
        raise Denied("KEY_BEYOND_YOURS", message, "ask a person to make it")
    for group in given.groups:
        if group not in maker.groups and not scope_allows(maker.scopes, f"approve:{group}"):
            message = f"you do not belong to the group {group}, so you cannot make a key that does"
            raise Denied("KEY_BEYOND_YOURS", message, "leave the group out, or ask one of its members")


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


async def _own_row(context: Context) -> KeyRow | None:
    """Return the key of the caller; None for a principal that the process itself vouches for."""
    key_id = context.principal.key_id
    return None if key_id is None else await context.services.platform.key(key_id)


def _within_own(own: KeyRow | None, row: KeyRow) -> KeyRow:
    """Return a new key within the bounds of its maker's: members left out are inherited, wider ones are refused."""
    if own is None:
        return row
    row = msgspec.structs.replace(
        row,
        expires_at=own.expires_at if row.expires_at is None else row.expires_at,
        toolset=own.toolset if row.toolset is None else row.toolset,
    )
    _refuse_beyond(own, row)
    return row


def _refuse_beyond(own: KeyRow | None, row: KeyRow) -> None:
    """Refuse a key with more tools, or a later expiry, than its maker's."""
    if own is None:
        return
    if own.expires_at is not None and (row.expires_at is None or row.expires_at > own.expires_at):
        message = f"your key expires at {instant(own.expires_at)}, and a key that you make cannot be valid for longer"
        raise Denied(
            "KEY_BEYOND_YOURS", message, "leave `expires_in` out, or ask somebody whose key is valid for longer"
        )
    if not _names(own.toolset) & {_ALL_TOOLS} and not _names(row.toolset) <= _names(own.toolset):
        message = f"your key offers the tools {own.toolset}, and a key that you make cannot offer others"
        raise Denied("KEY_BEYOND_YOURS", message, "leave `toolset` out, or name some of these")


def _names(toolset: str | None) -> set[str]:
    return {name.strip() for name in (toolset or _ALL_TOOLS).split(",")}


@operation(
    "key.create",
    route=Route(method="POST", path="/keys", status=201),
    scopes=("key:write",),
    risk="high",
    bucket="admin",
    subject="name",
    errors=("SCOPE_INVALID", "SCOPE_REQUIRED", "KEY_BEYOND_YOURS"),
    repeat=_repeat,
    examples=(Example(arguments={"name": "reporting", "scopes": ["workflow:read", "execution:read"]}),),
)
async def key_create(context: Context, given: CreateKey) -> Reply[NewKey]:
    """Create an API key.

    The answer holds the secret, which is stored nowhere; a repeated call with the same idempotency key gets it again.
    A key can do no more than its maker's: it has no further scopes and tools, and does not outlive it.
    """
    _check_scopes(context, given.scopes)
    _check_holder(context.principal, given)
    tenant = given.tenant or context.tenant
    if tenant != context.tenant and not context.is_operator:
        message = "only who owns everything in the default tenant may make keys of other tenants"
        raise Denied("SCOPE_REQUIRED", message, "leave `tenant` out", {"scope": EVERYTHING})
    now = context.now_ms()
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
    row = _within_own(await _own_row(context), row)
    if context.principal.token is not None:
        # Its issuer does not tell us when it takes rights away, so a key must not last for ever either.
        latest = now + context.services.limits.standing_authority_ms
        row = msgspec.structs.replace(row, expires_at=min(row.expires_at or latest, latest))
    usual = context.services.limits.key_expiry_ms
    if given.expires_in is None and usual is not None:
        ends = (now + usual, row.expires_at)
        row = msgspec.structs.replace(row, expires_at=min(end for end in ends if end is not None))
    warnings = await _unneeded(context.services, tenant, given.scopes)
    made, reply = _new_key(context, row, warnings)
    context.call.about(made.key_id)
    await context.services.platform.put_key(made, call=idempotency.answered(context, reply))
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

    Ids, names, scopes, when they were used last; never secrets. Whoever owns everything in the default tenant sees the
    keys of all tenants.
    """
    page = await context.services.platform.keys(
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

    Its name, scopes and when it was used last; never its secret.
    """
    return _view(await _own_key(context, given.key_id), context.now_ms())


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

    It fails from the very next request on, and what it has under way ends. This cannot be taken back. A key that may do
    more than yours can only be revoked by somebody who may do as much.
    """
    row = await _own_key(context, given.key_id)
    _check_scopes(context, list(row.scopes))
    now = context.now_ms()
    if row.revoked_at is not None:
        return _view(row, now)
    row = msgspec.structs.replace(row, revoked_at=now)
    view = _view(row, now)
    await context.services.platform.put_key(row, call=idempotency.answered(context, Reply(value=view)))
    context.services.keys_changed()
    return view


@operation(
    "key.rotate",
    route=Route(method="POST", path="/keys/{key_id}/rotate", status=201),
    scopes=("key:write",),
    risk="high",
    bucket="admin",
    subject="key_id",
    find=_find_key,
    errors=("KEY_NOT_FOUND", "KEY_NOT_ACTIVE", "SCOPE_REQUIRED", "KEY_BEYOND_YOURS"),
    repeat=_repeat,
)
async def key_rotate(context: Context, given: RotateKey) -> Reply[NewKey]:
    """Replace an API key.

    Makes a key with the same name, scopes, tools and expiry, and ends the old one, at once or after `overlap`. A key is
    replaced once: of several calls at once one makes the new key.
    """
    old = await _own_key(context, given.key_id)
    now = context.now_ms()
    if _view(old, now).status != "active":
        raise Conflict("KEY_NOT_ACTIVE", f"the key {old.name} is not active any more", "create a new one")
    _check_scopes(context, list(old.scopes))
    overlap_ms = _duration_ms(given.overlap, "overlap")
    like_old = msgspec.structs.replace(
        old, created_at=now, created_by=context.principal.id, last_used_at=None, replaces=old.key_id
    )
    own = await _own_row(context)
    _refuse_beyond(own if own is not None and own.key_id != old.key_id else None, like_old)
    made, reply = _new_key(context, like_old)
    ends_at = now + overlap_ms if old.expires_at is None else min(old.expires_at, now + overlap_ms)
    ended = (
        msgspec.structs.replace(old, expires_at=ends_at) if overlap_ms else msgspec.structs.replace(old, revoked_at=now)
    )
    outcome = await context.services.platform.replace_key(ended, made, call=idempotency.answered(context, reply))
    if isinstance(outcome, KeyNotReplaced):
        hint = f"rotate its successor {outcome.successor}" if outcome.successor else "create a new one"
        raise Conflict("KEY_NOT_ACTIVE", f"the key {old.name} was replaced or revoked already", hint)
    context.services.keys_changed()
    return reply


OPERATIONS: tuple[Capability, ...] = (key_create, key_list, key_get, key_revoke, key_rotate)
