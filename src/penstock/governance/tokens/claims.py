"""What a token must say to count here: issuer, audience, times, and that it is an access token at all.

Above it: the gate, which has verified the signature. Below it: `rules`. The time is an argument.
"""

from __future__ import annotations

from math import isfinite

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.governance.tokens.rules import IssuerRules, TokenRefusal, without_slash

__all__ = ["check_claims", "expiry_ms", "issued_at_ms"]

# Claims that only ID tokens and logout tokens have.
_NOT_OF_ACCESS_TOKENS = ("nonce", "at_hash", "c_hash", "s_hash", "events")
# Some servers say in a claim what a token is for.
_TYPE_CLAIM = "typ"
_OTHER_USES = frozenset({"id", "refresh", "offline", "logout"})


def check_claims(
    rules: IssuerRules, claims: JsonObject, now_seconds: float, *, is_typed: bool = False, needs_expiry: bool = True
) -> TokenRefusal | None:
    """Return why the claims of a token are refused; None if it is an access token for this server, valid now.

    `is_typed` means that the header already says that it is an access token. What an issuer tells about an opaque token
    may leave the expiry out.
    """
    if claims.get("iss") != rules.issuer:
        return TokenRefusal("the token's issuer does not match its key")
    return (
        _check_times(claims, now_seconds, needs_expiry=needs_expiry)
        or _check_audience(rules, claims)
        or _check_use(claims, is_typed=is_typed)
    )


def _check_times(claims: JsonObject, now_seconds: float, *, needs_expiry: bool) -> TokenRefusal | None:
    leeway = limits.TOKEN_LEEWAY_SECONDS
    for name in ("exp", "nbf", "iat"):
        if name in claims and _seconds(claims[name]) is None:
            return TokenRefusal(f"`{name}` in the token is not a time")
    expires, begins, issued = (_seconds(claims.get(name)) for name in ("exp", "nbf", "iat"))
    if expires is None and needs_expiry:
        return TokenRefusal("the token does not say when it expires")
    if expires is not None and expires + leeway <= now_seconds:
        return TokenRefusal("the token has expired", "TOKEN_EXPIRED")
    if begins is not None and begins - leeway > now_seconds:
        return TokenRefusal("the token is not valid yet")
    if issued is not None and issued - leeway > now_seconds:
        return TokenRefusal("the token was issued in the future; compare the clocks")
    return None


def _check_audience(rules: IssuerRules, claims: JsonObject) -> TokenRefusal | None:
    given = claims.get("aud")
    named = [given] if isinstance(given, str) else given
    if not isinstance(named, list) or not all(isinstance(item, str) for item in named):
        return TokenRefusal("the token does not name an audience (`aud`)")
    if not any(isinstance(item, str) and without_slash(item) in rules.audiences for item in named):
        return TokenRefusal("the token is for another server: its audience is not this one")
    return None


def _check_use(claims: JsonObject, *, is_typed: bool) -> TokenRefusal | None:
    use = claims.get(_TYPE_CLAIM)
    if isinstance(use, str) and use.lower() in _OTHER_USES:
        return TokenRefusal("this is not an access token; send the access token that the issuer gave")
    if not is_typed and any(name in claims for name in _NOT_OF_ACCESS_TOKENS):
        return TokenRefusal("this is an ID token or a logout token; send the access token that the issuer gave")
    if "cnf" in claims:
        # Accepting it without the proof would make it a plain bearer token again.
        return TokenRefusal("the token is bound to a key of its holder, and this server cannot check that proof")
    return None


def _seconds(value: JsonValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if isfinite(found) else None


def expiry_ms(claims: JsonObject) -> int | None:
    """Return when a token stops being accepted, in milliseconds; None if it does not say."""
    found = _seconds(claims.get("exp"))
    return None if found is None else int((found + limits.TOKEN_LEEWAY_SECONDS) * 1000)


def issued_at_ms(claims: JsonObject) -> int | None:
    """Return when a token was issued, in milliseconds; None if it does not say."""
    found = _seconds(claims.get("iat"))
    return None if found is None else int(found * 1000)
