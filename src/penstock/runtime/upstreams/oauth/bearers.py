"""The tokens of the requests to one server: given, renewed when they expire, and renewed once when they are refused.

Two kinds. With client credentials we get a token in our own name whenever we need one; it is kept in memory only. With
a person's sign-in we have a grant in the store, which is renewed with its refresh token. Parallel requests, in this
process or another one with the same store, renew it once: the first takes a lease and the others wait for what it
stores.

A server that wants to be asked with more scopes gets them from client credentials by itself. A person has to agree to
them, so a sign-in is required then.

Above it: the MCP session asks for tokens, `sign_ins` shares the grants. Below it: `grants`, the port `OAuthProtocol`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from penstock.base import limits
from penstock.runtime.upstreams.oauth.grants import GrantStore, KeptGrant
from penstock.runtime.upstreams.oauth.model import (
    Challenge,
    Discovery,
    Grant,
    GrantRefused,
    OAuthProtocol,
    OAuthServer,
    Tokens,
    authorization_failed,
    authorization_unavailable,
    sign_in_required,
    union_of,
)

__all__ = ["ClientCredentialsBearer", "SignedInBearer", "granted_until", "usable_grant"]

_LOGGER = logging.getLogger("penstock.upstream")
# Tokens of the last few renewals may still be in answers that come late.
_SECRETS_KEPT = 6
# Longer than a lease lasts.
_POLLS_MAX = int(2 * limits.OAUTH_REFRESH_LEASE_MS / 1000 / limits.OAUTH_REFRESH_POLL_SECONDS)


def granted_until(tokens: Tokens, now_ms: int) -> int | None:
    """When a token expires, as far as its server says."""
    return None if tokens.expires_in_seconds is None else now_ms + tokens.expires_in_seconds * 1000


def _is_stale(expires_at: int | None, now_ms: int) -> bool:
    return expires_at is not None and expires_at - now_ms < limits.OAUTH_TOKEN_EARLY_MS


@dataclass(slots=True, kw_only=True)
class ClientCredentialsBearer:
    """Tokens in our own name."""

    server: OAuthServer
    protocol: OAuthProtocol
    clock: Callable[[], int]
    """The current time in milliseconds."""
    _found: Discovery | None = None
    _scopes: tuple[str, ...] = ()
    _tokens: Tokens | None = None
    _expires_at: int | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _secrets: deque[str] = field(default_factory=lambda: deque(maxlen=_SECRETS_KEPT))

    async def token(self) -> str | None:
        """The token, renewed if it is about to expire; None before the server has said what it demands."""
        if self._tokens is None:
            return None
        tokens = self._fresh()
        if tokens is None:
            async with self._lock:
                tokens = self._fresh() or await self._get(self._scopes)
        return tokens.access_token

    async def renewed(self, challenge: Challenge, used: str | None, *, again: bool) -> str:
        """Get another token: a new one, or one with more scopes."""
        async with self._lock:
            if self._tokens is not None and self._tokens.access_token != used:
                return self._tokens.access_token
            wanted = self._wanted(challenge, again=again)
            if self._found is None or not challenge.wants_scopes:
                self._found = await self.protocol.discover(self.server, challenge)
            return (await self._get(wanted)).access_token

    def secrets(self) -> tuple[str, ...]:
        """The tokens that were in use lately."""
        return tuple(self._secrets)

    def _fresh(self) -> Tokens | None:
        return None if _is_stale(self._expires_at, self.clock()) else self._tokens

    def _wanted(self, challenge: Challenge, *, again: bool) -> tuple[str, ...]:
        demanded = challenge.scopes or ()
        if challenge.wants_scopes:
            if not set(demanded) - set(self._scopes):
                raise authorization_failed(
                    self.server.name, "it wants scopes that were already requested for the token"
                )
            return union_of(self._scopes, demanded)
        if again:
            raise authorization_failed(
                self.server.name, "it does not accept the token that its authorization server gave"
            )
        return self.server.scopes or demanded

    async def _get(self, scopes: tuple[str, ...]) -> Tokens:
        found = self._found
        if found is None:
            raise authorization_failed(self.server.name, "its authorization server is not known yet")
        client = self.protocol.configured_client(self.server, found)
        if client is None:
            raise authorization_failed(self.server.name, "its settings name no client")
        if not scopes and found.scopes:
            scopes = found.scopes
        try:
            tokens = await self.protocol.client_credentials(self.server, found, client, scopes)
        except GrantRefused as error:
            self._tokens = None
            raise authorization_failed(
                self.server.name, f"its authorization server gives no token ({error.code})"
            ) from None
        self._tokens, self._scopes = tokens, union_of(scopes, tokens.scopes or ())
        self._expires_at = granted_until(tokens, self.clock())
        self._secrets.append(tokens.access_token)
        return tokens


@dataclass(slots=True, kw_only=True)
class SignedInBearer:
    """Tokens of the person who signed in."""

    server: OAuthServer
    protocol: OAuthProtocol
    store: Callable[[], GrantStore | None]
    clock: Callable[[], int]
    challenge: Challenge | None = None
    """What the server last demanded: the next sign-in asks for it."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the grant is renewed or a sign-in completes."""
    _secrets: deque[str] = field(default_factory=lambda: deque(maxlen=_SECRETS_KEPT))

    async def token(self) -> str | None:
        """The token of the sign-in, renewed if it is about to expire; None if nobody is signed in."""
        grant = await self._grant()
        if grant is None:
            return None
        if not _is_stale(grant.expires_at, self.clock()):
            return self._shown(grant)
        async with self.lock:
            grant = await self._grant()
            if grant is not None and _is_stale(grant.expires_at, self.clock()):
                grant = await self._refreshed(grant)
        return None if grant is None else self._shown(grant)

    async def renewed(self, challenge: Challenge, used: str | None, *, again: bool) -> str:
        """Renew the grant. Raises UPSTREAM_SIGN_IN_REQUIRED if that cannot be done without a person."""
        self.challenge = challenge
        async with self.lock:
            grant = await self._grant()
            if grant is None:
                raise sign_in_required(self.server.name, "nobody has signed in to it")
            if challenge.wants_scopes:
                raise self._lacks_scopes(grant, challenge)
            if grant.access_token != used:
                return self._shown(grant)
            refreshed = None if again else await self._refreshed(grant)
        if refreshed is None:
            raise sign_in_required(self.server.name, "it does not accept the token of the last sign-in any more")
        return self._shown(refreshed)

    def secrets(self) -> tuple[str, ...]:
        """The tokens that were in use lately."""
        return tuple(self._secrets)

    def _shown(self, grant: Grant) -> str:
        """The token of a grant. From now on it is masked in everything that the server says."""
        if grant.access_token not in self._secrets:
            self._secrets.append(grant.access_token)
        return grant.access_token

    def _lacks_scopes(self, grant: Grant, challenge: Challenge) -> Exception:
        missing = [scope for scope in challenge.scopes or () if scope not in grant.scopes]
        if challenge.scopes and not missing:
            return authorization_failed(self.server.name, "it wants scopes that the sign-in has already")
        said = f"it wants the scopes {' '.join(missing)}" if missing else "it wants more scopes than the sign-in has"
        return sign_in_required(self.server.name, said, missing)

    async def _grant(self) -> Grant | None:
        store = self.store()
        return None if store is None else usable_grant(self.server, await store.read(self.server.name))

    async def _refreshed(self, grant: Grant) -> Grant | None:
        """Renew a grant; None if there is no way without a person. Called with the lock."""
        store = self.store()
        if store is None or grant.refresh_token is None:
            return None
        for _ in range(_POLLS_MAX):
            kept = await store.read(self.server.name)
            found = usable_grant(self.server, kept)
            if found is None or found.access_token != grant.access_token:
                return found  # another process was faster, or somebody signed out
            now = self.clock()
            if kept.refreshing_until is None or kept.refreshing_until <= now:
                lease = msgspec.structs.replace(kept, refreshing_until=now + limits.OAUTH_REFRESH_LEASE_MS)
                if await store.put_through_gate(self.server.name, lease, instead_of=kept, change="refreshing"):
                    return await self._refresh(store, lease, found)
            await asyncio.sleep(limits.OAUTH_REFRESH_POLL_SECONDS)
        raise authorization_unavailable(self.server.name, "another process is renewing the token")

    async def _refresh(self, store: GrantStore, lease: KeptGrant, grant: Grant) -> Grant | None:
        try:
            tokens = await self.protocol.refresh(self.server, grant)
        except GrantRefused as error:
            _LOGGER.warning("%s: the sign-in has ended (%s); sign in again", self.server.name, error.code)
            ended = msgspec.structs.replace(grant, refresh_token=None, ended=True)
            await self._release(store, lease, ended, "ended")
            return None
        except BaseException:
            await self._release(store, lease, grant, "not refreshed")
            raise
        now = self.clock()
        renewed = msgspec.structs.replace(
            grant,
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token or grant.refresh_token,
            scopes=grant.scopes if tokens.scopes is None else tokens.scopes,
            expires_at=granted_until(tokens, now),
            obtained_at=now,
        )
        await self._release(store, lease, renewed, "refreshed")
        return renewed

    async def _release(self, store: GrantStore, lease: KeptGrant, grant: Grant, change: str) -> None:
        kept = msgspec.structs.replace(lease, grant=grant, refreshing_until=None)
        await store.put_through_gate(self.server.name, kept, instead_of=lease, change=change)


def usable_grant(server: OAuthServer, kept: KeptGrant) -> Grant | None:
    """The grant of a server, unless it ended, or was made for other settings of that name."""
    grant = kept.grant
    if grant is None or grant.ended or grant.url != server.url:
        return None
    if server.issuer is not None and grant.authorization.issuer.rstrip("/") != server.issuer.rstrip("/"):
        return None
    if server.client_id is not None and grant.client.client_id != server.client_id:
        return None
    return grant
