"""Recognises access tokens: verified once, then known by a digest until they expire or are revoked.

Which issuer signed a token is decided by what the token says and proven with that issuer's keys; which algorithms count
is decided by the operator. A verified token is verified again after some time, because its issuer may have withdrawn
the key. Tokens are never kept, only digests of them.

Above it: `gate.authentication`. Below it: `governance.tokens`, the other modules of this package.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.errors import Denied
from penstock.base.lru_cache import LruCache
from penstock.governance.principals import Principal, TokenReference
from penstock.governance.tokens.claims import check_claims, expiry_ms
from penstock.governance.tokens.mapping import principal_from_claims
from penstock.governance.tokens.parsing import ParsedToken, check_header, looks_like_jwt, parse_token
from penstock.governance.tokens.rules import TokenRefusal
from penstock.governance.tokens.signing_keys import signature_is_valid
from penstock.operations.gate.tokens.choices import TrustedIssuer
from penstock.operations.gate.tokens.code_flow import CodeFlow
from penstock.operations.gate.tokens.introspection import Introspector
from penstock.operations.gate.tokens.issuer_keys import IssuerKeys
from penstock.operations.gate.tokens.revocations import Revocations
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.issuers import IssuerClient

__all__ = ["TokenAuthenticator"]

_HINT = "sign in again at the issuer, and ask it for a token for this server"
_Verified: TypeAlias = Principal | TokenRefusal


class _Proven(NamedTuple):
    """What a token turned out to be, and when to find out again."""

    outcome: _Verified
    verify_again_at: int


class TokenAuthenticator:
    """Resolves access tokens."""

    def __init__(
        self, issuers: Sequence[TrustedIssuer], client: IssuerClient, platform: Database, clock: Clock
    ) -> None:
        self._issuers = {issuer.rules.issuer: issuer for issuer in issuers}
        self._keys = {
            issuer.rules.issuer: IssuerKeys(issuer.rules.issuer, issuer.jwks_url, client, clock) for issuer in issuers
        }
        self.code_flows = {
            issuer.rules.name: CodeFlow(issuer.rules, issuer.browser, client, self._keys[issuer.rules.issuer], clock)
            for issuer in issuers
            if issuer.browser is not None
        }
        """How people sign in with a browser, by the name of the issuer."""
        self._client = client
        self._introspector = Introspector(client, clock)
        self._clock = clock
        self.revocations = Revocations(platform)
        self._proven: LruCache[bytes, _Proven] = LruCache(limits.TOKENS_PROVEN_KEPT)
        """By the digest of the token."""

    def recognised(self, digest: bytes, now: int) -> Principal | None:
        """Return the principal if its token is known, valid and not revoked, without any I/O; else None."""
        known = self._known(digest)
        if known is None or isinstance(known, TokenRefusal) or known.token is None:
            return None
        is_valid = known.token.expires_at > now and self.revocations.is_known_valid(known.token)
        return known if is_valid else None

    def _known(self, digest: bytes) -> _Verified | None:
        proven = self._proven.get(digest)
        is_current = proven is not None and proven.verify_again_at > self._clock.elapsed_ms()
        return proven.outcome if proven is not None and is_current else None

    async def authenticate(self, bearer: str, digest: bytes) -> Principal:
        """Return the principal of a token; raise `Denied` (TOKEN_INVALID, TOKEN_EXPIRED, TOKEN_REVOKED)."""
        known = self._known(digest)
        if known is None:
            known = await self._verified(bearer, digest)
        if isinstance(known, TokenRefusal):
            raise Denied(known.code, known.message, _HINT)
        token = known.token
        if token is None or token.expires_at <= self._clock.now_ms():
            raise Denied("TOKEN_EXPIRED", "the token has expired", _HINT)
        if await self.revocations.is_revoked(token):
            raise Denied(
                "TOKEN_REVOKED",
                "an operator of this server revoked the token or its subject",
                "ask the owner of the server",
            )
        return known

    async def holds(self, token: TokenReference) -> bool:
        """Whether a token is neither expired nor revoked."""
        return token.expires_at > self._clock.now_ms() and not await self.revocations.is_revoked(token)

    async def is_revoked(self, token: TokenReference) -> bool:
        """Whether a token, or its subject, is revoked, or its issuer is not trusted any more."""
        return not self.trusts(token.issuer) or await self.revocations.is_revoked(token)

    async def close(self) -> None:
        """Close the connections to issuers."""
        await self._client.close()

    def trusts(self, name: str) -> bool:
        """Whether there is an issuer of this name."""
        return any(issuer.rules.name == name for issuer in self._issuers.values())

    async def _verified(self, bearer: str, digest: bytes) -> _Verified:
        if not looks_like_jwt(bearer):
            found = await self._introspected(bearer)
            kept_ms = limits.TOKEN_INTROSPECTION_KEPT_MS
        else:
            found = await self._verify(bearer)
            kept_ms = limits.ISSUER_KEYS_KEPT_MS
        # A refusal may turn out differently in a moment (a new key, a clock), and anybody can cause any number of them.
        if isinstance(found, Principal):
            self._proven.put(digest, _Proven(found, self._clock.elapsed_ms() + kept_ms))
        return found

    async def _verify(self, bearer: str) -> _Verified:
        """Verify a signed token. Nothing of it is believed before its signature is."""
        token = parse_token(bearer)
        if isinstance(token, TokenRefusal):
            return token
        issuer = self._issuers.get(token.issuer or "")
        if issuer is None:
            return TokenRefusal("the token comes from an issuer that this server does not trust")
        refused = check_header(token.header, issuer.rules.algorithms) or await self._check_signature(issuer, token)
        if refused is None:
            now = self._clock.now_ms() / 1000
            refused = check_claims(issuer.rules, token.claims, now, is_typed=token.is_typed)
        return refused or principal_from_claims(issuer.rules, token.claims, expiry_ms(token.claims) or 0)

    async def _check_signature(self, issuer: TrustedIssuer, token: ParsedToken) -> TokenRefusal | None:
        key = await self._keys[issuer.rules.issuer].find(token)
        if key is None:
            return TokenRefusal("the token names a key that its issuer does not have")
        return None if signature_is_valid(token, key) else TokenRefusal("the signature of the token is not valid")

    async def _introspected(self, bearer: str) -> _Verified:
        """Ask the issuers that can be asked, until one of them knows the token."""
        refused = TokenRefusal("this is neither a key of this server nor a token that it can read")
        if len(bearer) > limits.TOKEN_CHARACTERS_MAX or not bearer.isascii() or not bearer.isprintable():
            return refused
        for issuer in self._issuers.values():
            if issuer.introspection is None:
                continue
            claims = await self._introspector.claims(issuer.introspection, bearer, issuer.rules.issuer)
            if isinstance(claims, TokenRefusal):
                refused = claims
                continue
            now_ms = self._clock.now_ms()
            wrong = check_claims(issuer.rules, claims, now_ms / 1000, is_typed=True, needs_expiry=False)
            # Without an expiry, the token is good until the issuer is asked again.
            ends = expiry_ms(claims) or now_ms + limits.TOKEN_INTROSPECTION_KEPT_MS
            return wrong or principal_from_claims(issuer.rules, claims, ends)
        return refused
