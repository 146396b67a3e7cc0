"""Sealed states: what a client carries from a question to the call that answers it, so that no server must remember.

A state names the caller, the request, the execution and the questions, and when it ends. It is signed, not secret: what
was changed, belongs to somebody else, to another request or to another time is refused. It works once because a
question can be answered once.

Above it: `calls`. Below it: nothing; nothing here knows the SDK.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

import msgspec

from penstock.base.json import JsonObject

__all__ = ["Seal", "SealedState", "request_digest"]

_PURPOSE = b"penstock mcp request state 1"
_CHARACTERS_MAX = 8_192
_encode = msgspec.json.Encoder(order="sorted").encode


class SealedState(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What a client carries."""

    principal: str
    tenant: str
    digest: str
    """Of the tool and its arguments."""
    execution_id: str
    interrupt_ids: tuple[str, ...]
    until_ms: int


def request_digest(tool: str, arguments: JsonObject) -> str:
    """The same for the same call, however its arguments are ordered."""
    return hashlib.sha256(_encode([tool, arguments])).hexdigest()


class Seal:
    """Signs states and knows its own again; every server with the same pepper has the same seal."""

    def __init__(self, pepper: bytes) -> None:
        self._key = hmac.digest(pepper, _PURPOSE, "sha256")

    def close(self, state: SealedState) -> str:
        """The text that a client is given."""
        body = msgspec.json.encode(state)
        return base64.urlsafe_b64encode(hmac.digest(self._key, body, "sha256") + body).decode()

    def open(self, text: str, *, now_ms: int) -> SealedState | None:
        """What a text says; None if it is not ours, was changed, or has ended."""
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
            state = msgspec.json.decode(body, type=SealedState)
        except msgspec.DecodeError:
            return None
        return state if state.until_ms > now_ms else None
