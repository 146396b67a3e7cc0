"""Whether a principal has the scopes of a call, and the refusal if not.

A built-in operation says which scopes it needs. Callers with an access token also learn how to get them, if their
issuer has words for them.

Above it: `pipeline`, and the surfaces that answer before a call is made. Below it: `base.scopes`, `tokens`.
"""

from __future__ import annotations

from penstock.base.errors import Denied
from penstock.base.json import JsonObject
from penstock.base.scopes import missing_scope
from penstock.operations.catalogue.capability import Capability
from penstock.operations.gate.context import Principal, Services

__all__ = ["authorize", "credential_ended", "has_scopes", "scope_refusal", "without_scopes"]


def has_scopes(principal: Principal, capability: Capability) -> bool:
    """Whether a principal has every scope that a call needs."""
    return missing_scope(principal.scopes, capability.governance.scopes) is None


def authorize(services: Services, capability: Capability, principal: Principal) -> None:
    """Refuse a call whose caller lacks a scope."""
    refusal = scope_refusal(services, capability, principal)
    if refusal is not None:
        raise refusal


def scope_refusal(services: Services, capability: Capability, principal: Principal) -> Denied | None:
    """Return why a principal may not make a call, if a scope is missing; None if it has them all."""
    scope = missing_scope(principal.scopes, capability.governance.scopes)
    if scope is None:
        return None
    message = f"{capability.name} needs the scope {scope}, which {principal.credential_noun} does not have"
    details: JsonObject = {"scope": scope, "scopes": list(capability.governance.scopes)}
    error = Denied("SCOPE_REQUIRED", message, principal.scope_hint, details)
    if services.protected is not None:
        error.challenge = services.protected.insufficient_scope(error, principal)
    return error


def without_scopes(services: Services, principal: Principal) -> Denied:
    """Return the refusal of a principal whose token has no scope that counts here."""
    error = Denied("SCOPE_REQUIRED", "the token has no scope that this server knows", principal.scope_hint)
    if services.protected is not None:
        error.challenge = services.protected.no_scope()
    return error


def credential_ended(principal: Principal) -> Denied:
    """Return the refusal of a principal whose key or token expired, or was revoked, during a call."""
    if principal.token is not None:
        message = "the token was revoked or expired during the call"
        return Denied("TOKEN_REVOKED", message, "sign in again")
    message = "the key was revoked or expired during the call"
    return Denied("KEY_REVOKED", message, "ask an owner for a new key, who runs `key.create`")
