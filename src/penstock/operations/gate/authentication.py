"""Authentication: API keys, looked up and compared in constant time.

A key that does not exist, has a wrong secret or is malformed gets the same answer in all three cases. Only a caller
with the right secret learns that a key was revoked or has expired. A key that any process revokes fails on the very
next request: cached rows are used only while the store reports no change, and every request asks the store for that.
Secrets are never cached, only digests of them.

Above it: `pipeline`. Below it: the platform port, `governance.keys`.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TypeAlias

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.errors import Denied
from penstock.governance.keys import parse_key, secret_matches
from penstock.operations.gate.context import Credentials, Principal
from penstock.operations.gate.lru_cache import LruCache
from penstock.runtime.ports.platform import KeyRow, PlatformStore

__all__ = ["Authenticator", "principal_of"]

_HINT = "send a key as `Authorization: Bearer pen_…`; an owner makes one with `penstock key create`"
# Compared against when the key does not exist, so that the answer takes as long.
_NO_HASH = "0" * 64

_Proven: TypeAlias = tuple[KeyRow, Principal]


def principal_of(key: KeyRow) -> Principal:
    """Return the principal that a key stands for."""
    return Principal(
        id=f"key:{key.key_id}",
        tenant=key.tenant,
        scopes=frozenset(key.scopes),
        key_id=key.key_id,
        name=key.name,
        toolset=key.toolset,
    )


class Authenticator:
    """Resolves credentials, and collects the times at which keys were used until they are written."""

    def __init__(self, platform: PlatformStore, clock: Clock, pepper: bytes) -> None:
        self._platform = platform
        self._clock = clock
        self._pepper = pepper
        self._used_at: dict[str, int] = {}
        self._written_at = 0
        self._proven: LruCache[bytes, _Proven] = LruCache(limits.KEYS_PROVEN_KEPT)
        """By the digest of the bearer token: the key that it belongs to, as it was when it was read, and its principal.
        """
        self._looked_up: LruCache[str, KeyRow] = LruCache(limits.KEYS_PROVEN_KEPT)
        """By id: keys read since the store last changed. Streams look a key up before each event."""
        self._mark: int | None = None

    async def authenticate(self, credentials: Credentials) -> Principal:
        """Return the principal of valid credentials; raise `Denied` (UNAUTHENTICATED, KEY_REVOKED, KEY_EXPIRED)."""
        recognised = self.recognised(credentials)
        if recognised is not None:
            return recognised
        bearer = credentials.bearer or ""
        looked_up = self._looked_up
        digest = blake2b(bearer.encode("utf-8", "surrogatepass"), digest_size=32).digest()
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
            await self.flush()
        return found[1]

    def recognised(self, credentials: Credentials) -> Principal | None:
        """Return the principal if the cache knows it and nothing has to be read, written or refused; else None."""
        self._forget_outdated()
        bearer = credentials.bearer or ""
        found = self._proven.get(blake2b(bearer.encode("utf-8", "surrogatepass"), digest_size=32).digest())
        # The proof of a secret stays valid, but the row of the key must have been read since the store last changed.
        if found is None or self._looked_up.get(found[0].key_id) is not found[0]:
            return None
        key, now = found[0], self._clock.now_ms()
        if now - self._written_at >= limits.KEY_USE_GATHER_MS or not _is_alive(key, now):
            return None
        self._used_at[key.key_id] = now
        return found[1]

    def _forget_outdated(self) -> None:
        """Drop the cached rows if the store has changed since they were read."""
        mark = self._platform.change_mark()
        if mark is None or mark != self._mark:
            self._mark = mark
            self._looked_up = LruCache(limits.KEYS_PROVEN_KEPT)

    async def _key(self, bearer: str, proven: _Proven | None) -> KeyRow:
        """Read the key that the bearer token names, and check its secret.

        A secret that was proven before is not checked again while the key still has the same hash.
        """
        if proven is not None:
            key = await self._platform.key(proven[0].key_id)
            if key is not None and key.secret_hash == proven[0].secret_hash:
                return key
        parsed = parse_key(bearer)
        key = await self._platform.key(parsed.key_id) if parsed else None
        matches = parsed is not None and secret_matches(
            self._pepper, parsed.key_id, parsed.secret, key.secret_hash if key else _NO_HASH
        )
        if key is None or not matches:
            raise Denied("UNAUTHENTICATED", "the key is not valid" if bearer else "no key was sent", _HINT)
        return key

    async def still_valid(self, principal: Principal) -> bool:
        """Whether a principal that was authenticated earlier may go on. Open streams ask this."""
        return principal.key_id is None or await self.holds(principal.key_id)

    async def holds(self, key_id: str) -> bool:
        """Whether a key is neither revoked nor expired."""
        self._forget_outdated()
        looked_up = self._looked_up
        key = looked_up.get(key_id)
        if key is None:
            key = await self._platform.key(key_id)
            if key is not None:
                looked_up.put(key_id, key)
        now = self._clock.now_ms()
        return key is not None and _is_alive(key, now)

    async def flush(self) -> None:
        """Store when each key was last used."""
        used, self._used_at = self._used_at, {}
        if used:
            await self._platform.touch_keys(used)


def _is_alive(key: KeyRow, now: int) -> bool:
    return key.revoked_at is None and (key.expires_at is None or key.expires_at > now)


def _check_alive(key: KeyRow, now: int) -> None:
    if key.revoked_at is not None:
        raise Denied("KEY_REVOKED", f"the key {key.name} was revoked", "ask the owner for a new one")
    if key.expires_at is not None and key.expires_at <= now:
        raise Denied("KEY_EXPIRED", f"the key {key.name} has expired", "ask the owner for a new one")
