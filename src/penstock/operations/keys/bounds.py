"""What a key may be at most: nobody gets a credential from us that gives more than they have.

The caller who makes a key, or replaces one, gets its secret. So both pass the same check: scopes, tenant, kind, groups,
tools and expiry are within those of the caller, and the key stands for the caller's own subject, unless the caller has
the scope `key:subject`. A key that was made or replaced by somebody keeps them in its lineage, because they know its
secret.

Above it: `operations`. Below it: the request, `governance.principals`, the platform port.
"""

from __future__ import annotations

from typing import Final

import msgspec

from penstock.base import limits
from penstock.base.errors import Denied, NotFound, Rejected
from penstock.base.scopes import EVERYTHING, SCOPE_HINT, is_scope, scope_allows
from penstock.governance.principals import may_create_kind
from penstock.operations.catalogue.fields import instant
from penstock.operations.gate.context import Context, Principal
from penstock.runtime.ports.platform import KeyRow
from penstock.runtime.tables.api_keys import read_key

__all__ = ["SUBJECT_SCOPE", "bounded_key", "check_scopes", "for_subject", "key_in_reach"]

SUBJECT_SCOPE: Final = "key:subject"
"""Lets its holder make keys for other subjects. Its holder can make keys that count as any number of people."""
# The toolset that leaves nothing out, as `/mcp?toolset=all` does. A key without a toolset has it, too.
_ALL_TOOLS = "all"
_KEY = "key:"
# Principals that own the file, or are part of the process: what they make starts a lineage of its own.
_OWNERS = frozenset({"local", "system"})


async def key_in_reach(context: Context, key_id: str) -> KeyRow:
    """Return a key of the caller's tenant; of any tenant for the operator. Raise NotFound if it does not exist."""
    row = await read_key(context.services.platform, key_id)
    if row is None or (row.tenant != context.tenant and not context.is_operator):
        raise NotFound("KEY_NOT_FOUND", f"there is no key {key_id}", "list the keys with key.list")
    return row


async def for_subject(context: Context, row: KeyRow, wanted: str | None) -> KeyRow:
    """Return a new key with the subject that it stands for, and with its maker in its lineage.

    `row` is what the key is made like: of a key that replaces another, it has the subject and lineage of that. Without
    `wanted`, it keeps these; a key that is quite new inherits the subject of its maker.
    """
    maker, subject = context.principal, row.subject
    if wanted is not None:
        subject = await _subject_named(context, wanted)
    elif subject is None and maker.kind not in _OWNERS:
        subject = maker.subject_id
    lineage = dict.fromkeys((*row.lineage, maker.subject_id, *maker.lineage))
    if subject is not None:
        lineage.pop(subject, None)
    if len(lineage) > limits.KEY_LINEAGE_MAX:
        message = f"{len(lineage)} subjects made this key and the keys before it, which is too many"
        raise Denied("KEY_BEYOND_YOURS", message, "ask an owner to create the key")
    return msgspec.structs.replace(row, subject=subject, lineage=tuple(lineage))


async def _subject_named(context: Context, wanted: str) -> str:
    if not wanted.startswith(_KEY):
        return wanted
    row = await key_in_reach(context, wanted.removeprefix(_KEY))
    return row.subject_id


async def bounded_key(context: Context, row: KeyRow, *, inherits: bool) -> KeyRow:
    """Return a key that the caller may have; raise `Denied` if it is beyond theirs.

    With `inherits`, tools and expiry that are left open are those of the caller's key.
    """
    principal = context.principal
    check_scopes(context, row.scopes)
    if row.tenant != context.tenant and not context.is_operator:
        message = "only an owner in the default tenant may make keys of other tenants"
        raise Denied("SCOPE_REQUIRED", message, "leave `tenant` out", {"scope": EVERYTHING})
    _check_holder(principal, row)
    own = None if principal.key_id is None else await read_key(context.services.platform, principal.key_id)
    if own is not None and inherits:
        row = msgspec.structs.replace(
            row,
            expires_at=own.expires_at if row.expires_at is None else row.expires_at,
            toolset=own.toolset if row.toolset is None else row.toolset,
        )
    if own is not None:
        _refuse_beyond(own, row)
    if principal.token is not None:
        # Its issuer does not tell us when it takes rights away, so a key must not last for ever either.
        latest = context.now_ms() + context.services.limits.standing_authority_ms
        row = msgspec.structs.replace(row, expires_at=min(row.expires_at or latest, latest))
    return row


def check_scopes(context: Context, scopes: tuple[str, ...]) -> None:
    """Refuse scopes that the caller does not have."""
    for scope in scopes:
        if not is_scope(scope):
            raise Rejected("SCOPE_INVALID", f"{scope[:100]!r} is not a scope", SCOPE_HINT)
        if not scope_allows(context.principal.scopes, scope):
            message = f"your key does not have the scope {scope}, so it cannot grant it"
            raise Denied("SCOPE_REQUIRED", message, "ask somebody whose key has this scope", {"scope": scope})


def _check_holder(maker: Principal, row: KeyRow) -> None:
    """Refuse a key whose holder would count as more than its maker: another kind, further groups, somebody else."""
    if not may_create_kind(maker.kind, row.kind):
        message = (
            f"you call as a principal of kind {maker.kind}, and cannot have the secret of a key of kind {row.kind}"
        )
        raise Denied("KEY_BEYOND_YOURS", message, "ask a person to make the key")
    for group in row.groups:
        if group not in maker.groups and not scope_allows(maker.scopes, f"approve:{group}"):
            message = f"you do not belong to the group {group}, so you cannot have the secret of a key that does"
            raise Denied("KEY_BEYOND_YOURS", message, "leave the group out, or ask a member to make the key")
    is_own = row.subject == maker.subject_id or (row.subject is None and maker.kind in _OWNERS)
    if not is_own and not scope_allows(maker.scopes, SUBJECT_SCOPE):
        message = f"the key stands for {row.subject_id}, and you call as {maker.subject_id}"
        hint = f"ask {row.subject_id}, or somebody whose key has the scope {SUBJECT_SCOPE}"
        raise Denied("KEY_BEYOND_YOURS", message, hint, {"scope": SUBJECT_SCOPE, "scopes": [SUBJECT_SCOPE]})


def _refuse_beyond(own: KeyRow, row: KeyRow) -> None:
    """Refuse a key with more tools, or a later expiry, than its maker's."""
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
