"""The authority of principals without a key, as it is kept for what acts for them later.

The rights of a key are looked up whenever it acts. Of a token, or of the principal of a pipe, there is nothing to look
up later. So a schedule, a stored workflow and the first record of a run keep what such a principal might do when it
made them. That can never become more, and ends after some time.

Above it: `operations.permissions.standing_authority`, the gate's context. Below it: `principals`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.base.json import JsonObject
from penstock.governance.principals import Principal, PrincipalKind

__all__ = ["PIPE", "TOKEN", "KeptAuthority", "has_kept_authority", "kept_authority"]

PIPE = "pipe:"
"""How the ids of principals of a pipe begin."""
TOKEN = "token:"
"""How the ids of principals of access tokens begin."""


class KeptAuthority(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a principal might do at some moment."""

    principal: str
    kind: PrincipalKind
    scopes: list[str]
    until: int
    """When it ends, in milliseconds."""
    groups: list[str] = []
    name: str = ""
    attributes: dict[str, Any] = {}
    subject: str | None = None


def has_kept_authority(principal_id: str) -> bool:
    """Whether the rights of a principal cannot be looked up, and are kept with what it makes."""
    return principal_id.startswith((TOKEN, PIPE))


def kept_authority(principal: Principal, until: int) -> JsonObject:
    """Return the authority of a principal as it is kept until some moment."""
    kept = KeptAuthority(
        principal=principal.id,
        kind=principal.kind,
        scopes=sorted(principal.scopes),
        until=until,
        groups=sorted(principal.groups),
        name=principal.name,
        attributes=dict(principal.attributes),
        subject=principal.subject,
    )
    found: JsonObject = msgspec.to_builtins(kept)
    return found
