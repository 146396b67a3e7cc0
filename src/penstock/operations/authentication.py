"""Who is calling: API keys, looked up and compared in constant time.

A key that does not exist, has a wrong secret or a wrong form gets one and the same answer. A key that was revoked or
has expired says so only to somebody who has its secret. Nothing is cached: a key revoked by any process fails on the
very next request.

Above it: `pipeline`. Below it: the platform port, `governance.keys`.
"""

from __future__ import annotations

from penstock.base import limits
from penstock.base.errors import Denied
from penstock.governance.keys import parse_key, secret_matches
from penstock.operations.context import Credentials, Principal, Services
from penstock.runtime.platform import KeyRow

__all__ = ["Authenticator", "principal_of"]

_HINT = "send a key as `Authorization: Bearer pen_…`; an owner makes one with `penstock key create`"
# Compared with when there is no such key, so that the answer takes as long.
_NO_HASH = "0" * 64


def principal_of(key: KeyRow) -> Principal:
    """The principal that a key stands for."""
    return Principal(
        id=f"key:{key.key_id}", tenant=key.tenant, scopes=frozenset(key.scopes), key_id=key.key_id, name=key.name
    )


class Authenticator:
    """Resolves credentials, and remembers which keys were used until that is written down."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._used_at: dict[str, int] = {}
        self._written_at = 0

    async def authenticate(self, credentials: Credentials) -> Principal:
        """The principal of valid credentials; `Denied` with code UNAUTHENTICATED, KEY_REVOKED or KEY_EXPIRED."""
        if credentials.vouched is not None:
            return credentials.vouched
        parsed = parse_key(credentials.bearer or "")
        key = await self._services.platform.key(parsed.key_id) if parsed else None
        matches = parsed is not None and secret_matches(
            self._services.pepper, parsed.key_id, parsed.secret, key.secret_hash if key else _NO_HASH
        )
        if key is None or not matches:
            told = "no key was sent" if not credentials.bearer else "the key is not valid"
            raise Denied("UNAUTHENTICATED", told, _HINT)
        now = self._services.clock.now_ms()
        _check_alive(key, now)
        await self._note_use(key.key_id, now)
        return principal_of(key)

    async def still_valid(self, principal: Principal) -> bool:
        """Whether a principal that was authenticated before may go on; for streams that stay open."""
        if principal.key_id is None:
            return True
        key = await self._services.platform.key(principal.key_id)
        now = self._services.clock.now_ms()
        return key is not None and key.revoked_at is None and (key.expires_at is None or key.expires_at > now)

    async def flush(self) -> None:
        """Write down which keys were used."""
        used, self._used_at = self._used_at, {}
        if used:
            await self._services.platform.touch_keys(used)

    async def _note_use(self, key_id: str, now: int) -> None:
        self._used_at[key_id] = now
        if now - self._written_at >= limits.KEY_USE_GATHER_MS:
            self._written_at = now
            await self.flush()


def _check_alive(key: KeyRow, now: int) -> None:
    if key.revoked_at is not None:
        raise Denied("KEY_REVOKED", f"the key {key.name} was revoked", "ask the owner for a new one")
    if key.expires_at is not None and key.expires_at <= now:
        raise Denied("KEY_EXPIRED", f"the key {key.name} has expired", "ask the owner for a new one")
