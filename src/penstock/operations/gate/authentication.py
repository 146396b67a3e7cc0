"""Authentication: API keys, looked up and compared in constant time, and access tokens, if issuers are configured.

A key that does not exist, has a wrong secret or is malformed gets the same answer in all three cases. Only a caller
with the right secret learns that a key was revoked or has expired. A key that any process revokes fails on the very
next request: cached rows are used only while no key was changed, and every request asks the store for that. Runs that
move meanwhile do not matter. The caches hold digests, never secrets.

Above it: `pipeline`. Below it: the platform port, `governance.keys`, `tokens`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, TypeAlias, assert_never

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.errors import Denied, Unavailable
from penstock.base.lru_cache import LruCache
from penstock.governance.keys import parse_key, secret_matches
from penstock.governance.principals import TokenReference
from penstock.operations.gate.context import Credentials, Principal
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import KeyRow
from penstock.runtime.ports.topics import Mark, Topic
from penstock.runtime.tables.api_keys import read_key, touch_keys

if TYPE_CHECKING:
    # Only `app` makes one, if issuers are configured: it needs libraries that take long to import.
    from penstock.operations.gate.tokens.authenticator import TokenAuthenticator
    from penstock.operations.gate.tokens.code_flow import CodeFlow

__all__ = ["Authenticator", "principal_of"]

_LOGGER = logging.getLogger("penstock.gate")
_HINT = "send a key as `Authorization: Bearer pen_…`; an owner creates one with `penstock key create`"
# Compared against when the key does not exist, so that the answer takes as long.
_NO_HASH = "0" * 64
# How every key begins: whatever does not may be a token.
_OF_KEYS = "pen_"

_Proven: TypeAlias = tuple[KeyRow, Principal]


def principal_of(key: KeyRow) -> Principal:
    """Return the principal that a key stands for."""
    return Principal(
        id=key.principal_id,
        tenant=key.tenant,
        kind=key.kind,
        scopes=frozenset(key.scopes),
        groups=frozenset(key.groups),
        key_id=key.key_id,
        name=key.name,
        toolset=key.toolset,
        owner=key.created_by,
        subject=key.subject,
        lineage=key.lineage,
        accounts=() if key.first_key is None else (f"key:{key.first_key}",),
    )


class Authenticator:
    """Resolves credentials, and collects the times at which keys were used until they are written."""

    def __init__(
        self, platform: Database, clock: Clock, pepper: bytes, tokens: TokenAuthenticator | None = None
    ) -> None:
        self._platform = platform
        self._tokens = tokens
        self._clock = clock
        self._pepper = pepper
        self._used_at: dict[str, int] = {}
        self._written_at = 0
        self._proven: LruCache[bytes, _Proven] = LruCache(limits.KEYS_PROVEN_KEPT)
        """By the digest of the bearer token: the key that it belongs to, as it was when it was read, and its principal.
        """
        self._looked_up: LruCache[str, KeyRow] = LruCache(limits.KEYS_PROVEN_KEPT)
        """By id: keys read since the store last changed. Streams look a key up before each event."""
        self._mark: Mark = ()

    async def authenticate(self, credentials: Credentials) -> Principal:
        """Return the principal of valid credentials; raise `Denied` (401) if they are not valid."""
        recognised = self.recognised(credentials)
        if recognised is not None:
            return recognised
        bearer = credentials.bearer or ""
        looked_up = self._looked_up
        digest = blake2b(bearer.encode("utf-8", "surrogatepass"), digest_size=32).digest()
        if self._tokens is not None and bearer and not bearer.startswith(_OF_KEYS):
            return await self._tokens.authenticate(bearer, digest)
        found = self._proven.get(digest)
        key = None if found is None else looked_up.get(found[0].key_id)
        if found is None or key is None or key.secret_hash != found[0].secret_hash:
            key = await self._key(bearer, found)
            # If the store changed in the meantime, this cache was replaced, and the outdated row is never read.
            looked_up.put(key.key_id, key)
        if found is None or key is not found[0]:
            found = (key, found[1] if found is not None and key == found[0] else principal_of(key))
            self._proven.put(digest, found)
        now = self._clock.now_ms()
        _check_alive(found[0], now)
        self._used_at[found[0].key_id] = now
        if now - self._written_at >= limits.KEY_USE_GATHER_MS:
            self._written_at = now
            try:
                await self.flush()
            except Unavailable:  # nobody is kept out because the time of the last use cannot be stored now
                _LOGGER.exception("could not store when keys were last used; trying again")
        return found[1]

    def recognised(self, credentials: Credentials) -> Principal | None:
        """Return the principal if the cache knows it and nothing has to be read, written or refused; else None."""
        self._forget_outdated()
        bearer = credentials.bearer or ""
        digest = blake2b(bearer.encode("utf-8", "surrogatepass"), digest_size=32).digest()
        found = self._proven.get(digest)
        if found is None:
            return None if self._tokens is None else self._tokens.recognised(digest, self._clock.now_ms())
        # The proof of a secret stays valid, but the row of the key must have been read since the store last changed.
        if self._looked_up.get(found[0].key_id) is not found[0]:
            return None
        key, now = found[0], self._clock.now_ms()
        if now - self._written_at >= limits.KEY_USE_GATHER_MS or not _is_alive(key, now):
            return None
        self._used_at[key.key_id] = now
        return found[1]

    def _forget_outdated(self) -> None:
        """Drop the cached rows if a key has changed since they were read."""
        mark = self._platform.changed(Topic.KEYS)
        if mark != self._mark:
            self._mark = mark
            self._looked_up = LruCache(limits.KEYS_PROVEN_KEPT)

    async def _key(self, bearer: str, proven: _Proven | None) -> KeyRow:
        """Read the key that the bearer token names, and check its secret.

        A secret that was proven before is not checked again while the key still has the same hash.
        """
        if proven is not None:
            key = await read_key(self._platform, proven[0].key_id)
            if key is not None and key.secret_hash == proven[0].secret_hash:
                return key
        parsed = parse_key(bearer)
        key = await read_key(self._platform, parsed.key_id) if parsed else None
        matches = parsed is not None and secret_matches(
            self._pepper, parsed.key_id, parsed.secret, key.secret_hash if key else _NO_HASH
        )
        if key is None or not matches:
            raise Denied("UNAUTHENTICATED", "the key is not valid" if bearer else "no key was sent", _HINT)
        return key

    async def still_valid(self, principal: Principal) -> bool:
        """Whether a principal from an earlier request may continue. Open streams ask this."""
        return principal.proof is None or await self.holds(principal.proof)

    async def holder_of(self, key_id: str) -> Principal | None:
        """Return the principal that a key stands for; None if the key does not exist or is no longer valid."""
        key = await read_key(self._platform, key_id)
        principal = None if key is None else principal_of(key)
        return principal if principal is not None and await self.still_valid(principal) else None

    async def current(self, principal: Principal) -> Principal:
        """Return a principal from an earlier request with the authority that it has now.

        Raise `Denied` if its credential was revoked, or if its key has expired. A call that waited for approval is made
        with this; that its token has expired meanwhile does not matter.
        """
        if principal.key_id is None:
            if principal.token is not None and not await self.may_finish(principal.token):
                raise Denied("TOKEN_REVOKED", f"the token of {principal.id} was revoked", _HINT)
            return principal
        key = await read_key(self._platform, principal.key_id)
        if key is None or key.tenant != principal.tenant:
            raise Denied("UNAUTHENTICATED", f"there is no key {principal.key_id}", _HINT)
        _check_alive(key, self._clock.now_ms())
        return replace(principal_of(key), acting_for=principal.acting_for, credential=principal.credential)

    async def holds(self, proof: str | TokenReference) -> bool:
        """Whether a key, given by its id, or a token is neither revoked nor expired."""
        match proof:
            case str():
                return await self._key_holds(proof)
            case TokenReference():
                return self._tokens is not None and await self._tokens.holds(proof)
            case _:
                assert_never(proof)

    async def may_finish(self, proof: str | TokenReference) -> bool:
        """Whether a call that began with a key or a token may continue.

        A token is often valid for minutes only. A call that was authenticated in time is not cut off when it expires,
        but when it is revoked.
        """
        if isinstance(proof, str):
            return await self._key_holds(proof)
        return not await self.is_token_revoked(proof)

    async def is_token_revoked(self, token: TokenReference) -> bool:
        """Whether a token is no longer valid: its issuer is not trusted any more, or it or its subject is revoked."""
        return self._tokens is None or await self._tokens.is_revoked(token)

    async def _key_holds(self, key_id: str) -> bool:
        self._forget_outdated()
        looked_up = self._looked_up
        key = looked_up.get(key_id)
        if key is None:
            key = await read_key(self._platform, key_id)
            if key is not None:
                looked_up.put(key_id, key)
        now = self._clock.now_ms()
        return key is not None and _is_alive(key, now)

    @property
    def code_flows(self) -> Mapping[str, CodeFlow]:
        """How people sign in with a browser, by the name of the issuer."""
        return {} if self._tokens is None else self._tokens.code_flows

    async def close(self) -> None:
        """Close the connections to issuers."""
        if self._tokens is not None:
            await self._tokens.close()

    async def flush(self) -> None:
        """Store when each key was last used."""
        used, self._used_at = self._used_at, {}
        if not used:
            return
        try:
            await touch_keys(self._platform, used)
        except Unavailable:
            self._used_at = used | self._used_at
            raise


def _is_alive(key: KeyRow, now: int) -> bool:
    return key.revoked_at is None and (key.expires_at is None or key.expires_at > now)


def _check_alive(key: KeyRow, now: int) -> None:
    if key.revoked_at is not None:
        raise Denied(
            "KEY_REVOKED", f"the key {key.name} was revoked", "ask an owner for a new key, who runs `key.create`"
        )
    if key.expires_at is not None and key.expires_at <= now:
        raise Denied(
            "KEY_EXPIRED", f"the key {key.name} has expired", "ask an owner for a new key, who runs `key.create`"
        )
