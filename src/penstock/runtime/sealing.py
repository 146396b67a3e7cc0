"""Secret answers at rest: sealed before they are recorded, opened just before an executor gets them.

A seal is the answer encrypted and authenticated with a key that is derived from the server's secret (AES-256-GCM, a
nonce of its own each time). It is bound to the tenant: that of another tenant does not open. Answers are padded: the
length of a seal says little about the length of a password. A seal stands in the history of its run, so that it is
stored with the answer in one piece, is carried over into forks, and is deleted with the run.

Above it: the embedded host seals, the router opens. Below it: whoever has the server's secret gives the key.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from penstock.base.errors import Unavailable
from penstock.base.json import JsonValue
from penstock.base.later import later

if TYPE_CHECKING:
    from cryptography import exceptions
    from cryptography.hazmat.primitives.ciphers import aead
else:
    exceptions = later("cryptography.exceptions")
    aead = later("cryptography.hazmat.primitives.ciphers.aead")

__all__ = ["AnswerSeals", "Sealer"]

_PURPOSE = b"penstock secret answers"
_NONCE_BYTES = 12
_PADDED_TO_BYTES = 64
_PADDING = b" "  # which JSON allows at its end

KeySource = Callable[[], Awaitable[bytes]]


class Sealer(Protocol):
    """Seals secret answers, and opens them again."""

    async def seal(self, tenant: str, value: JsonValue) -> str:
        """A value that only this server can read, as letters, digits, hyphens and underscores."""

    async def open(self, tenant: str, seal: str) -> JsonValue:
        """The value in a seal; `Unavailable` if it cannot be opened here."""


class AnswerSeals:
    """Seals with the server's secret, which is asked for when the first answer needs it."""

    def __init__(self, secret: KeySource | None = None) -> None:
        self._secret = secret
        self._cipher: aead.AESGCM | None = None

    async def seal(self, tenant: str, value: JsonValue) -> str:
        """A value that only this server can read."""
        text = msgspec.json.encode(value)
        padded = text + _PADDING * (-len(text) % _PADDED_TO_BYTES)
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = (await self._opened()).encrypt(nonce, padded, tenant.encode())
        return base64.urlsafe_b64encode(nonce + sealed).decode("ascii").rstrip("=")

    async def open(self, tenant: str, seal: str) -> JsonValue:
        """The value in a seal."""
        cipher = await self._opened()
        try:
            sealed = base64.urlsafe_b64decode(seal + "=" * (-len(seal) % 4))
            text = cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], tenant.encode())
            value: JsonValue = msgspec.json.decode(text)
        except (exceptions.InvalidTag, ValueError, binascii.Error):
            told = "a secret answer cannot be read: it was not sealed by this server"
            raise Unavailable("SECRET_ANSWER_UNREADABLE", told, "ask again in a new run") from None
        return value

    async def _opened(self) -> aead.AESGCM:
        if self._cipher is None:
            # Without a secret nothing outlives the process, and neither need the key.
            secret = secrets.token_bytes(32) if self._secret is None else await self._secret()
            self._cipher = aead.AESGCM(hmac.digest(secret, _PURPOSE, "sha256"))
        return self._cipher

    def __repr__(self) -> str:
        return "AnswerSeals()"
