"""What a logout token must say (OpenID Connect Back-Channel Logout 1.0, section 2.6).

With such a token an issuer says that somebody has signed out there. It ends sessions and does nothing else: no other
token counts as one, and it counts as no other token.

Above it: the gate, which has verified the signature. Below it: `claims`, `rules`. The time is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.governance.tokens.claims import check_claims, issued_at_ms
from penstock.governance.tokens.rules import IssuerRules, TokenRefusal

__all__ = ["LOGOUT_TYPES", "LogoutClaims", "check_logout_token"]

_EVENT = "http://schemas.openid.net/event/backchannel-logout"
LOGOUT_TYPES = frozenset({"jwt", "logout+jwt", "application/logout+jwt"})
"""What the header of a logout token may call it: older issuers say nothing, or `JWT`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogoutClaims:
    """Whose sessions end, in the words of the issuer. At least one of the first two is there."""

    subject: str | None
    session: str | None
    """One session at the issuer (`sid`)."""
    token_id: str
    issued_at_ms: int


def check_logout_token(
    rules: IssuerRules, claims: JsonObject, now_seconds: float, *, client_id: str
) -> LogoutClaims | TokenRefusal:
    """Return what a logout token says, or why it is refused."""
    ours = replace(rules, audiences=frozenset({client_id.rstrip("/")}))
    # Times, issuer and audience are those of every token; whether it is an access token was not asked.
    refused = check_claims(ours, {**claims, "typ": None}, now_seconds, is_typed=True)
    if refused is not None:
        return refused
    events = claims.get("events")
    if not isinstance(events, dict) or not isinstance(events.get(_EVENT), dict):
        return TokenRefusal("the token is not a logout token (`events`)")
    if "nonce" in claims:
        return TokenRefusal("a logout token has no `nonce`: this may be an ID token")
    issued = issued_at_ms(claims)
    if issued is None:
        return TokenRefusal("the logout token does not say when it was issued (`iat`)")
    if now_seconds - issued / 1000 > limits.LOGOUT_TOKEN_AGE_SECONDS_MAX + limits.TOKEN_LEEWAY_SECONDS:
        return TokenRefusal("the logout token was issued too long ago (`iat`)", "TOKEN_EXPIRED")
    named = {name: claims.get(name) for name in ("sub", "sid", "jti")}
    for name, value in named.items():
        if name in claims and not _is_name(value):
            return TokenRefusal(f"`{name}` of the logout token is not a short text")
    subject, session, token_id = (value if isinstance(value, str) else None for value in named.values())
    if subject is None and session is None:
        return TokenRefusal("the logout token names neither a user nor a session (`sub`, `sid`)")
    if token_id is None:
        return TokenRefusal("the logout token has no id (`jti`)")
    return LogoutClaims(subject=subject, session=session, token_id=token_id, issued_at_ms=issued)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= limits.TOKEN_ID_CHARACTERS_MAX
