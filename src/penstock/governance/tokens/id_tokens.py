"""What an ID token must say after somebody signed in with a browser (OpenID Connect Core, section 3.1.3.7).

An ID token only proves that a sign-in which this server began has completed, and for whom. What somebody may do here is
decided by the access token that came with it, as on every other surface.

Above it: the gate, which has verified the signature. Below it: `claims`, `rules`. The time is an argument.
"""

from __future__ import annotations

import hmac
from dataclasses import replace

from penstock.base.json import JsonObject
from penstock.governance.tokens.claims import check_claims
from penstock.governance.tokens.rules import IssuerRules, TokenRefusal

__all__ = ["ID_TOKEN_TYPES", "check_id_token"]

ID_TOKEN_TYPES = frozenset({"jwt"})
"""What the header of an ID token may call it."""


def check_id_token(
    rules: IssuerRules, claims: JsonObject, now_seconds: float, *, client_id: str, nonce: str
) -> TokenRefusal | None:
    """Return why the claims of an ID token are refused; None if it ends the sign-in with this nonce."""
    given = claims.get("nonce")
    if not isinstance(given, str) or not hmac.compare_digest(given.encode(), nonce.encode()):
        return TokenRefusal("the ID token belongs to another sign-in (`nonce`)")
    audience = claims.get("aud")
    if isinstance(audience, list) and len(audience) > 1 and claims.get("azp") != client_id:
        return TokenRefusal("the ID token is for several clients, and was given to another one (`azp`)")
    if "azp" in claims and claims["azp"] != client_id:
        return TokenRefusal("the ID token was given to another client (`azp`)")
    # Times, issuer and audience are those of every token; whether it is an access token was not asked.
    ours = replace(rules, audiences=frozenset({client_id.rstrip("/")}))
    return check_claims(ours, {**claims, "typ": None}, now_seconds, is_typed=True)
