"""The keys of one issuer: fetched when first needed, again from time to time, and when a token names an unknown one.

An issuer that cannot be reached does not lock out its users: the last set that could be read stays in use. Strangers
cannot make us fetch often: an unknown key id leads to a new attempt only after some time.

Above it: `authenticator`. Below it: the port to issuers, `governance.tokens`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from urllib.parse import urlsplit

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.errors import Unavailable
from penstock.governance.tokens.parsing import ParsedToken
from penstock.governance.tokens.signing_keys import SigningKeys, UnreadableKeys, VerificationKey, read_signing_keys
from penstock.runtime.ports.issuers import Fetched, IssuerClient

__all__ = ["IssuerKeys", "metadata_addresses"]

_LOGGER = logging.getLogger("penstock.gate")


def metadata_addresses(issuer: str) -> tuple[str, ...]:
    """Return where the metadata of an issuer may be: as OpenID Connect has it, then as RFC 8414 has it."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    return (
        f"{origin}{path}/.well-known/openid-configuration",
        f"{origin}/.well-known/oauth-authorization-server{path}",
    )


class IssuerKeys:
    """The signing keys of an issuer, as they were last read."""

    def __init__(self, issuer: str, jwks_url: str | None, client: IssuerClient, clock: Clock) -> None:
        self._issuer = issuer
        self._jwks_url = jwks_url
        self._client = client
        self._clock = clock
        self._keys: SigningKeys | None = None
        self._read_at = 0
        self._tried_at: int | None = None
        self._reading: asyncio.Task[None] | None = None

    async def find(self, token: ParsedToken) -> VerificationKey | None:
        """Return the key that a token names; raise `Unavailable` if the issuer's keys could never be read."""
        is_old = self._clock.elapsed_ms() - self._read_at >= limits.ISSUER_KEYS_KEPT_MS
        if self._keys is None or is_old:
            await self._refresh()
        found = None if self._keys is None else self._keys.find(token)
        if found is None and self._keys is not None:
            await self._refresh()
            found = self._keys.find(token)
        if self._keys is None:
            message = "the issuer of the token cannot be reached, so the token cannot be verified"
            raise Unavailable("ISSUER_UNAVAILABLE", message, "try again in a minute; `penstock mcp doctor` says more")
        return found

    async def _refresh(self) -> None:
        """Read the keys again, unless that was tried a moment ago; concurrent calls share an attempt."""
        if self._reading is None:
            now = self._clock.elapsed_ms()
            if self._tried_at is not None and now - self._tried_at < limits.ISSUER_REFETCH_MS:
                return
            self._tried_at = now
            self._reading = asyncio.create_task(self._read())
            self._reading.add_done_callback(self._done)
        # Shielded: whoever leaves must not take the attempt of the others along.
        await asyncio.shield(self._reading)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._reading = None

    async def _read(self) -> None:
        address = self._jwks_url or await self._discovered()
        if address is None:
            return
        answer = await self._client.fetch(address)
        keys = read_signing_keys(answer.body) if isinstance(answer, Fetched) else UnreadableKeys(answer.reason)
        if isinstance(keys, UnreadableKeys):
            _LOGGER.warning("the keys of the issuer %s cannot be read: %s", self._issuer, keys.reason)
            return
        self._keys, self._read_at = keys, self._clock.elapsed_ms()

    async def _discovered(self) -> str | None:
        """Return the address of the key set that the issuer's metadata names."""
        reason = "it has no metadata"
        for address in metadata_addresses(self._issuer):
            answer = await self._client.fetch(address)
            if not isinstance(answer, Fetched):
                reason = answer.reason
                continue
            try:
                metadata = json.loads(answer.body)
            except (ValueError, RecursionError):
                reason = "its metadata is not JSON"
                continue
            found = metadata.get("jwks_uri") if isinstance(metadata, dict) else None
            if isinstance(found, str) and metadata.get("issuer") == self._issuer:
                return found
            reason = "its metadata names another issuer, or no `jwks_uri`"
        _LOGGER.warning("the keys of the issuer %s cannot be found: %s", self._issuer, reason)
        return None
