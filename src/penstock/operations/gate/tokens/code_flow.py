"""Signing in with a browser: the authorization code flow of OpenID Connect with PKCE (RFC 7636).

`begin` returns where the browser goes, and what it has to bring back; `finish` exchanges the code for tokens. The ID
token proves that this very sign-in has ended; its access token is returned, and authenticated like any other. `refresh`
gets another one, `revoke` takes a refresh token back, and `sign_out_address` says where the browser signs out. `ended`
reads the token by which the issuer says that somebody has signed out there. Nothing is kept here: what belongs to a
sign-in that has begun is carried by the browser, signed by the console.

Above it: `authenticator` makes one for each issuer with a client for the console. Below it: the port to issuers,
`governance.tokens`.
"""

from __future__ import annotations

import hmac
import json
import logging
from base64 import urlsafe_b64encode
from collections.abc import Set
from dataclasses import dataclass
from hashlib import sha256
from secrets import token_urlsafe
from typing import Any, NamedTuple, assert_never
from urllib.parse import urlencode, urlsplit

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.errors import Denied, PenstockError, Unavailable
from penstock.governance.tokens.id_tokens import ID_TOKEN_TYPES, check_id_token
from penstock.governance.tokens.logout_tokens import LOGOUT_TYPES, check_logout_token
from penstock.governance.tokens.parsing import ParsedToken, check_header, parse_token
from penstock.governance.tokens.rules import IssuerRules, TokenRefusal
from penstock.governance.tokens.signing_keys import signature_is_valid
from penstock.operations.gate.tokens.browser_sign_ins import (
    EndedSignIn,
    FinishedSignIn,
    IssuedTokens,
    Leaving,
    ReturnedQuery,
)
from penstock.operations.gate.tokens.choices import BrowserClient
from penstock.operations.gate.tokens.issuer_keys import IssuerKeys, metadata_addresses
from penstock.runtime.ports.issuers import Fetched, GrantRefused, IssuerClient, NotFetched, TokenRequest

__all__ = ["CodeFlow"]

_LOGGER = logging.getLogger("penstock.gate")
_HINT = "sign in again; if that does not help, ask the owner of the server"


class _Metadata(NamedTuple):
    authorize: str
    token: str
    revoke: str | None
    """Where to revoke tokens (RFC 7009); None if the issuer does not offer that."""
    sign_out: str | None
    """Where a browser signs out (OpenID Connect RP-Initiated Logout); None if that is not offered."""
    names_itself: bool
    """Whether it says in every answer who it is (RFC 9207)."""
    takes_basic: bool


@dataclass(slots=True)
class CodeFlow:
    """The sign-in at one issuer."""

    rules: IssuerRules
    browser: BrowserClient
    client: IssuerClient
    keys: IssuerKeys
    clock: Clock
    _metadata: _Metadata | None = None
    _read_at: int = 0

    @property
    def label(self) -> str:
        """What people call the issuer."""
        return self.browser.label or self.rules.name

    async def begin(self) -> Leaving:
        """Return where the browser signs in. Every attempt has a state, a nonce and a verifier of its own."""
        metadata = await self._discovered()
        state, nonce, verifier = token_urlsafe(24), token_urlsafe(24), token_urlsafe(48)
        challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self.browser.client_id,
            "redirect_uri": self.browser.redirect_uri,
            "scope": " ".join(dict.fromkeys(("openid", *self.browser.scopes))),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "resource": self.browser.resource,
        }
        joint = "&" if urlsplit(metadata.authorize).query else "?"
        return Leaving(f"{metadata.authorize}{joint}{urlencode(query)}", state, nonce, verifier)

    async def finish(self, returned: ReturnedQuery, left: Leaving) -> FinishedSignIn:
        """Exchange the code; raise `Denied` if what came back does not belong to the browser's own sign-in."""
        if not hmac.compare_digest(returned.state.encode(), left.state.encode()):
            raise _refused("the answer of the issuer belongs to another sign-in (`state`)")
        metadata = await self._discovered()
        if returned.issuer != self.rules.issuer and (returned.issuer or metadata.names_itself):
            raise _refused("the answer comes from another issuer than the one that was asked (`iss`)")
        if returned.error:
            raise _refused(f"the issuer refused: {_plain(returned.error)}")
        if not returned.code:
            raise _refused("the issuer sent no code")
        grant = {
            "grant_type": "authorization_code",
            "code": returned.code,
            "redirect_uri": self.browser.redirect_uri,
            "code_verifier": left.verifier,
        }
        given = await self._exchanged(metadata, grant)
        tokens, id_token = _issued(given), given.get("id_token")
        if not isinstance(id_token, str):
            raise _refused("the issuer gave no ID token")
        claims = await self._verified(id_token, left.nonce)
        if not isinstance(claims.get("sub"), str):
            raise _refused("the ID token does not say who signed in (`sub`)")
        subject = claims.get(self.rules.subject_claim)
        session = claims.get("sid")
        return FinishedSignIn(
            tokens=tokens,
            id_token=id_token,
            subject=subject if isinstance(subject, str) else None,
            id_subject=claims["sub"],
            session=session if isinstance(session, str) else None,
        )

    async def refresh(self, refresh_token: str) -> IssuedTokens:
        """Get another access token; raise `Denied` if the issuer refuses, `Unavailable` if it cannot be asked now.

        An ID token that comes with it says nothing that is used: who it is, the access token says.
        """
        grant = {"grant_type": "refresh_token", "refresh_token": refresh_token}
        return _issued(await self._exchanged(await self._discovered(), grant))

    async def sign_out_address(self, id_token: str) -> str | None:
        """Return where somebody signs out at the issuer, and comes back from; None if it offers no such place."""
        address = (await self._discovered()).sign_out
        if address is None:
            return None
        query = {
            "id_token_hint": id_token,
            "client_id": self.browser.client_id,
            "post_logout_redirect_uri": self.browser.signed_out_uri,
        }
        return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(query)}"

    async def ended(self, logout_token: str) -> EndedSignIn:
        """Return which sign-ins have ended, as a logout token of the issuer says; raise `Denied` if it is not one."""
        token = await self._signed(logout_token, LOGOUT_TYPES)
        if not isinstance(token, TokenRefusal):
            now = self.clock.now_ms() / 1000
            said = check_logout_token(self.rules, token.claims, now, client_id=self.browser.client_id)
            if not isinstance(said, TokenRefusal):
                return EndedSignIn(said.subject, said.session, said.token_id)
            token = said
        raise Denied("LOGOUT_TOKEN_INVALID", token.message)

    async def revoke(self, refresh_token: str) -> str | None:
        """Take a refresh token back at the issuer (RFC 7009), if it offers that; return why it could not be done."""
        metadata = await self._discovered()
        if metadata.revoke is None:
            return None
        answer = await self.client.revoke(self._request(metadata, metadata.revoke, {"token": refresh_token}))
        return None if isinstance(answer, Fetched) else answer.reason

    def _request(self, metadata: _Metadata, url: str, grant: dict[str, str]) -> TokenRequest:
        secret = None if self.browser.client_secret is None else self.browser.client_secret()
        return TokenRequest(
            url=url,
            grant=grant,
            client_id=self.browser.client_id,
            client_secret=secret,
            resource=self.browser.resource,
            secret_in_header=metadata.takes_basic,
        )

    async def _exchanged(self, metadata: _Metadata, grant: dict[str, str]) -> dict[str, Any]:
        answer = await self.client.exchange(self._request(metadata, metadata.token, grant))
        match answer:
            case Fetched(body):
                found = _object(body)
            case GrantRefused(error):
                _LOGGER.warning("the issuer %s gave no tokens: %s", self.rules.issuer, _plain(error))
                raise _refused(f"the issuer gave no tokens for the sign-in ({_plain(error)})")
            case NotFetched(reason):
                _LOGGER.warning("the issuer %s gave no tokens: %s", self.rules.issuer, reason)
                message = "the issuer does not respond, so there are no tokens"
                raise Unavailable("ISSUER_UNAVAILABLE", message, "try again in a minute")
            case _:
                assert_never(answer)
        if found is None:
            raise _refused("the tokens of the issuer cannot be read")
        return found

    async def _verified(self, id_token: str, nonce: str) -> dict[str, Any]:
        token = await self._signed(id_token, ID_TOKEN_TYPES)
        if isinstance(token, TokenRefusal):
            raise _refused(token.message)
        now, client_id = self.clock.now_ms() / 1000, self.browser.client_id
        refused = check_id_token(self.rules, token.claims, now, client_id=client_id, nonce=nonce)
        if refused is not None:
            raise _refused(refused.message)
        return token.claims

    async def _signed(self, text: str, types: Set[str]) -> ParsedToken | TokenRefusal:
        """Return a token of one of these types that the issuer has signed. Its claims are not looked at."""
        token = parse_token(text)
        if isinstance(token, TokenRefusal):
            return token
        refused = check_header(token.header, self.rules.algorithms, types)
        if refused is not None:
            return refused
        if token.issuer != self.rules.issuer:
            return TokenRefusal("the token is not signed by the issuer that was asked")
        key = await self.keys.find(token)
        if key is None or not signature_is_valid(token, key):
            return TokenRefusal("the token is not signed by the issuer that was asked")
        return token

    async def _discovered(self) -> _Metadata:
        """Return the addresses that the issuer's metadata names; they are read again from time to time."""
        now = self.clock.elapsed_ms()
        if self._metadata is not None and now - self._read_at < limits.ISSUER_KEYS_KEPT_MS:
            return self._metadata
        reason = "it has no metadata"
        for address in metadata_addresses(self.rules.issuer):
            answer = await self.client.fetch(address)
            if not isinstance(answer, Fetched):
                reason = answer.reason
                continue
            found = _read_metadata(_object(answer.body), self.rules.issuer)
            if found is not None:
                self._metadata, self._read_at = found, now
                return found
            reason = "its metadata names another issuer, or not where to sign in"
        if self._metadata is not None:
            return self._metadata  # an issuer that is away for a moment locks nobody out
        _LOGGER.warning("nobody can sign in at the issuer %s: %s", self.rules.issuer, reason)
        raise Unavailable(
            "ISSUER_UNAVAILABLE", "the issuer does not respond, so you cannot sign in", "try again in a minute"
        )


def _read_metadata(found: dict[str, Any] | None, issuer: str) -> _Metadata | None:
    if found is None or found.get("issuer") != issuer:
        return None
    authorize, token = found.get("authorization_endpoint"), found.get("token_endpoint")
    if not isinstance(authorize, str) or not isinstance(token, str):
        return None
    if not _is_page(authorize):
        return None
    methods = found.get("token_endpoint_auth_methods_supported")
    takes_basic = not isinstance(methods, list) or "client_secret_basic" in methods
    names_itself = found.get("authorization_response_iss_parameter_supported") is True
    sign_out = found.get("end_session_endpoint")
    if not isinstance(sign_out, str) or not _is_page(sign_out):
        sign_out = None
    revoke = found.get("revocation_endpoint")
    return _Metadata(authorize, token, revoke if isinstance(revoke, str) else None, sign_out, names_itself, takes_basic)


def _is_page(address: str) -> bool:
    """Whether a browser may be sent to an address that an issuer names."""
    return urlsplit(address).scheme in ("https", "http") and address.isprintable()


def _issued(given: dict[str, Any]) -> IssuedTokens:
    access_token, refresh_token = given.get("access_token"), given.get("refresh_token")
    if not isinstance(access_token, str):
        raise _refused("the issuer gave no access token")
    return IssuedTokens(
        access_token=access_token, refresh_token=refresh_token if isinstance(refresh_token, str) else None
    )


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _plain(text: str) -> str:
    """Return what an issuer calls its refusal, if that is a word as RFC 6749 has it."""
    return (
        text if text.replace("_", "").isalnum() and text.isascii() and len(text) <= limits.SCOPE_CHARACTERS_MAX else "?"
    )


def _refused(message: str) -> PenstockError:
    return Denied("SIGN_IN_REFUSED", message, _HINT)
