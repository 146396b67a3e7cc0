"""Signed texts that a client, a page or a browser carries for us, so that the server stores nothing.

A text is signed, not secret: one that was changed, that is for another purpose or that has expired is refused. Each
purpose has its own key, so a text for one is invalid for the other.
"""

from __future__ import annotations

import base64
import hmac
from typing import Generic, Protocol, TypeVar

import msgspec

from penstock.base.encoding import encode_bytes

__all__ = ["Signer"]

_CHARACTERS_MAX = 8_192


class _Expiring(Protocol):
    @property
    def until_ms(self) -> int: ...


Sealed = TypeVar("Sealed", bound=_Expiring)


class Signer(Generic[Sealed]):
    """Signs and verifies texts; servers with the same pepper accept each other's texts."""

    def __init__(self, pepper: bytes, purpose: bytes, kind: type[Sealed]) -> None:
        self._key = hmac.digest(pepper, purpose, "sha256")
        self._kind: type[Sealed] = kind

    def sign(self, state: Sealed) -> str:
        """Sign a state and return it as text."""
        body = encode_bytes(state)
        return base64.urlsafe_b64encode(hmac.digest(self._key, body, "sha256") + body).decode()

    def verify(self, text: str, *, now_ms: int) -> Sealed | None:
        """Return the state in a text; None if it is not ours, was changed, or has expired."""
        if len(text) > _CHARACTERS_MAX:
            return None
        try:
            raw = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
        except (ValueError, UnicodeEncodeError):
            return None
        signature, body = raw[:32], raw[32:]
        if not hmac.compare_digest(signature, hmac.digest(self._key, body, "sha256")):
            return None
        try:
            state = msgspec.json.decode(body, type=self._kind)
        except msgspec.DecodeError:
            return None
        return state if state.until_ms > now_ms else None
