"""Sessions of the console, as far as they concern who may do what: what a token said, and who signed out everywhere.

A session that was begun with a key has the rights of the key. Of a token there is nothing to look up later: the session
keeps what the token said, and ends with it. Whoever signs out everywhere ends all sessions that were begun before.

Above it: the console, the operation that signs out. Below it: the platform port.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from penstock.governance.principals import KeyKind, Principal, TokenReference
from penstock.operations.gate.context import Services

__all__ = ["SIGN_OUT_KIND", "TokenSession", "ended_before_ms", "sign_out_id", "token_session"]

SIGN_OUT_KIND = "console_sign_out"


class TokenSession(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What an access token said when somebody signed in with it."""

    principal_id: str
    kind: KeyKind
    scopes: list[str]
    groups: list[str]
    name: str
    attributes: dict[str, Any]
    issuer: str
    subject: str
    expires_at: int
    token_id: str | None

    def principal(self, tenant: str) -> Principal:
        """Return the principal that the token stood for."""
        token = TokenReference(
            issuer=self.issuer,
            subject=self.subject,
            tenant=tenant,
            expires_at=self.expires_at,
            token_id=self.token_id,
        )
        return Principal(
            id=self.principal_id,
            tenant=tenant,
            kind=self.kind,
            scopes=frozenset(self.scopes),
            groups=frozenset(self.groups),
            name=self.name,
            attributes=self.attributes,
            credential=token.name,
            token=token,
        )


def token_session(principal: Principal) -> TokenSession | None:
    """Return what the token of a principal said; None if it has none."""
    token, kind = principal.token, principal.kind
    if token is None or kind not in ("person", "agent", "service"):
        return None
    return TokenSession(
        principal_id=principal.id,
        kind=kind,
        scopes=sorted(principal.scopes),
        groups=sorted(principal.groups),
        name=principal.name,
        attributes=dict(principal.attributes),
        issuer=token.issuer,
        subject=token.subject,
        expires_at=token.expires_at,
        token_id=token.token_id,
    )


def sign_out_id(principal_id: str) -> str:
    """Return the id under which it is stored that a principal signed out everywhere."""
    return sha256(principal_id.encode()).hexdigest()[:32]


async def ended_before_ms(services: Services, principal: Principal) -> int | None:
    """Return when a principal last signed out everywhere: sessions that were begun before have ended."""
    row = await services.platform.resource(principal.tenant, SIGN_OUT_KIND, sign_out_id(principal.id))
    found = None if row is None else row.body.get("before_ms")
    return found if isinstance(found, int) else None
