"""Signing in to other MCP servers: a person begins, is sent to the authorization server, and comes back with a code.

Above it: `operations.upstreams.sign_ins`; `app` gives the MCP executor the bearer of each server. Below it: `bearers`,
`grants`, the port `OAuthProtocol`.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_urlsafe
from typing import Literal

import msgspec

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, NotFound
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.system import SystemClock
from penstock.runtime.upstreams.oauth.bearers import (
    ClientCredentialsBearer,
    SignedInBearer,
    granted_until,
    usable_grant,
)
from penstock.runtime.upstreams.oauth.grants import GrantStore, KeptGrant
from penstock.runtime.upstreams.oauth.model import (
    Challenge,
    Discovery,
    Grant,
    GrantRefused,
    OAuthClient,
    OAuthProtocol,
    OAuthServer,
    PendingSignIn,
    authorization_failed,
    union_of,
)

__all__ = ["Begun", "SignInAnswer", "SignInStatus", "UpstreamSignIns"]

_STATE_BYTES = 32
_VERIFIER_BYTES = 64
_OFFLINE = "offline_access"


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in that has begun: where the person goes, and until when."""

    authorization_url: str
    expires_at: int
    scopes: tuple[str, ...]
    issuer: str


class SignInAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the authorization server sent the person back with."""

    state: str
    code: str | None = None
    iss: str | None = None
    error: str | None = None


class SignInStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of the sign-in to a server."""

    status: Literal["signed_in", "required", "not_needed"]
    """`not_needed` with client credentials."""
    issuer: str | None = None
    scopes: tuple[str, ...] = ()
    expires_at: int | None = None
    """When the token expires; it is renewed by itself if `renews`."""
    renews: bool = False
    signed_in_at: int | None = None
    signed_in_by: str | None = None


@dataclass(slots=True, kw_only=True)
class UpstreamSignIns:
    """The servers that we sign in to. `grants` is there while a gate is open."""

    servers: Mapping[str, OAuthServer] = field(default_factory=dict)
    make_protocol: Callable[[], OAuthProtocol] | None = None
    clock: Clock = field(default_factory=SystemClock)
    grants: GrantStore | None = None
    _protocol: OAuthProtocol | None = None
    _bearers: dict[str, ClientCredentialsBearer | SignedInBearer] = field(default_factory=dict)

    @property
    def protocol(self) -> OAuthProtocol:
        """The requests of OAuth, loaded when first needed."""
        if self._protocol is None:
            if self.make_protocol is None:
                raise TypeError("no way to authorization servers was given")
            self._protocol = self.make_protocol()
        return self._protocol

    async def close(self) -> None:
        """Close the connections to authorization servers."""
        if self._protocol is not None:
            await self._protocol.close()

    def bearer(self, server: str) -> ClientCredentialsBearer | SignedInBearer | None:
        """What gives the requests to a server their token; None if its settings have no `auth`."""
        config = self.servers.get(server)
        if config is None:
            return None
        made = self._bearers.get(server)
        if made is None:
            if config.grant == "client_credentials":
                made = ClientCredentialsBearer(server=config, protocol=self.protocol, clock=self.clock.now_ms)
            else:
                made = SignedInBearer(
                    server=config, protocol=self.protocol, clock=self.clock.now_ms, store=lambda: self.grants
                )
            self._bearers[server] = made
        return made

    async def status(self, server: str) -> SignInStatus | None:
        """Return the status of the sign-in to a server; None if its settings have no `auth`."""
        config = self.servers.get(server)
        if config is None:
            return None
        if config.grant == "client_credentials":
            return SignInStatus(status="not_needed", issuer=config.issuer, scopes=config.scopes)
        kept = KeptGrant() if self.grants is None else await self.grants.read(server)
        grant = usable_grant(config, kept)
        if grant is None:
            return SignInStatus(status="required", issuer=config.issuer)
        is_over = grant.expires_at is not None and grant.expires_at <= self.clock.now_ms()
        return SignInStatus(
            status="required" if is_over and grant.refresh_token is None else "signed_in",
            issuer=grant.authorization.issuer,
            scopes=grant.scopes,
            expires_at=grant.expires_at,
            renews=grant.refresh_token is not None,
            signed_in_at=grant.signed_in_at,
            signed_in_by=grant.signed_in_by,
        )

    async def begin(
        self, server: str, redirect_uri: str, scopes: Sequence[str], call: Callable[[Begun], CallRecord]
    ) -> Begun:
        """Begin a sign-in. An earlier one that was not completed is given up."""
        bearer, grants = self._signed_in(server), self._grants()
        config, challenge = bearer.server, bearer.challenge
        if challenge is None:
            challenge = await self.protocol.probe(config)
        found = await self.protocol.discover(config, challenge)
        authorization = found.authorization
        if authorization.authorization_endpoint is None or not authorization.has_pkce:
            raise authorization_failed(server, f"{authorization.issuer} does not offer a sign-in with PKCE (S256)")
        async with bearer.lock:
            kept = await grants.read(server)
            wanted = _wanted_scopes(config, found, challenge, usable_grant(config, kept), scopes)
            pending = PendingSignIn(
                url=config.url,
                state=token_urlsafe(_STATE_BYTES),
                verifier=token_urlsafe(_VERIFIER_BYTES),
                redirect_uri=redirect_uri,
                authorization=authorization,
                resource=found.resource,
                client=await self._client(config, found, kept.grant, redirect_uri, wanted),
                scopes=wanted,
                expires_at=self.clock.now_ms() + limits.OAUTH_SIGN_IN_MS_MAX,
            )
            begun = Begun(
                authorization_url=self.protocol.authorization_url(pending),
                expires_at=pending.expires_at,
                scopes=wanted,
                issuer=authorization.issuer,
            )
            replaced = msgspec.structs.replace(kept, pending=pending)
            if not await grants.put(server, replaced, instead_of=kept, call=call(begun)):
                raise _raced(server)
        return begun

    async def complete(
        self, server: str, answer: SignInAnswer, by: str, call: Callable[[SignInStatus], CallRecord]
    ) -> SignInStatus:
        """Complete a sign-in with what its person came back with."""
        bearer, grants = self._signed_in(server), self._grants()
        async with bearer.lock:
            kept = await grants.read(server)
            pending = self._pending(bearer.server, kept, answer.state)
            code = _checked_code(server, pending, answer)
            try:
                tokens = await self.protocol.exchange_code(bearer.server, pending, code)
            except GrantRefused as error:
                issuer = pending.authorization.issuer
                raise authorization_failed(server, f"{issuer} does not accept the sign-in ({error.code})") from None
            now = self.clock.now_ms()
            grant = Grant(
                url=pending.url,
                authorization=pending.authorization,
                resource=pending.resource,
                client=pending.client,
                access_token=tokens.access_token,
                refresh_token=tokens.refresh_token,
                scopes=pending.scopes if tokens.scopes is None else tokens.scopes,
                expires_at=granted_until(tokens, now),
                obtained_at=now,
                signed_in_at=now,
                signed_in_by=by,
            )
            status = SignInStatus(
                status="signed_in",
                issuer=grant.authorization.issuer,
                scopes=grant.scopes,
                expires_at=grant.expires_at,
                renews=grant.refresh_token is not None,
                signed_in_at=now,
                signed_in_by=by,
            )
            if not await grants.put(server, KeptGrant(grant=grant), instead_of=kept, call=call(status)):
                raise _raced(server)
            bearer.challenge = None
        return status

    async def sign_out(self, server: str, call: CallRecord) -> None:
        """Forget the grant of a server, and tell its authorization server."""
        bearer, grants = self._signed_in(server), self._grants()
        async with bearer.lock:
            kept = await grants.read(server)
            await grants.delete(server, call)
        if kept.grant is not None and not kept.grant.ended:
            await self.protocol.revoke(bearer.server, kept.grant)

    def _signed_in(self, server: str) -> SignedInBearer:
        bearer = self.bearer(server)
        if bearer is None:
            message = f"there is no server {server} with `auth` in the settings"
            raise NotFound("UPSTREAM_NOT_FOUND", message, f"configure mcp_servers.{server}.auth")
        if isinstance(bearer, ClientCredentialsBearer):
            message = f"{server} needs no sign-in: Penstock uses its own credentials (client_credentials)"
            raise Conflict("UPSTREAM_SIGN_IN_NOT_NEEDED", message, "call its tools")
        return bearer

    def _grants(self) -> GrantStore:
        if self.grants is None:
            raise TypeError("signing in needs an open gate")
        return self.grants

    def _pending(self, config: OAuthServer, kept: KeptGrant, state: str) -> PendingSignIn:
        pending = kept.pending
        if (
            pending is None
            or not hmac.compare_digest(pending.state.encode(), state.encode())
            or pending.expires_at <= self.clock.now_ms()
            or pending.url != config.url
        ):
            message = f"this answer belongs to no sign-in to {config.name} in progress, or came too late"
            raise NotFound("SIGN_IN_NOT_FOUND", message, f"run: penstock tool upstream sign-in {config.name}")
        return pending

    async def _client(
        self, config: OAuthServer, found: Discovery, grant: Grant | None, redirect_uri: str, scopes: Sequence[str]
    ) -> OAuthClient:
        """Who we are at an authorization server. What one of them issued is never shown to another."""
        configured = self.protocol.configured_client(config, found)
        if configured is not None:
            return configured
        if (
            grant is not None
            and grant.client.redirect_uri == redirect_uri
            and grant.authorization.issuer == found.authorization.issuer
        ):
            return grant.client
        return await self.protocol.register(config, found, redirect_uri, scopes)


def _wanted_scopes(
    config: OAuthServer, found: Discovery, challenge: Challenge | None, grant: Grant | None, given: Sequence[str]
) -> tuple[str, ...]:
    """What to ask for: what the settings say, else what the server demanded, else what it lists; and what was given.

    When a server wants more scopes than a sign-in has, this requests the existing ones again.
    """
    demanded = None if challenge is None else challenge.scopes
    listed = found.scopes if found.scopes is not None else found.authorization.scopes
    basis = config.scopes or (demanded if demanded is not None else listed) or ()
    before = grant.scopes if grant is not None and (given or (challenge and challenge.wants_scopes)) else ()
    wanted = union_of(before, basis, given)
    can_renew = _OFFLINE in (found.authorization.scopes or ())
    return union_of(wanted, (_OFFLINE,)) if wanted and can_renew and not config.scopes else wanted


def _checked_code(server: str, pending: PendingSignIn, answer: SignInAnswer) -> str:
    """The code of an answer that comes from the authorization server which was asked (RFC 9207)."""
    issuer = pending.authorization.issuer
    if answer.iss != issuer and (answer.iss is not None or pending.authorization.sends_issuer):
        raise authorization_failed(server, f"the answer to the sign-in does not come from {issuer}")
    if answer.error is not None or not answer.code:
        message = f"{server}: the sign-in was refused ({answer.error or 'no code was sent'})"
        raise Conflict("UPSTREAM_SIGN_IN_REFUSED", message, f"run: penstock tool upstream sign-in {server}")
    return answer.code


def _raced(server: str) -> Conflict:
    message = f"somebody else signs in to {server} at the same time"
    return Conflict("UPSTREAM_SIGN_IN_REFUSED", message, f"run: penstock tool upstream sign-in {server}")
