"""Signed texts that a client or a page carries from a question to its answer, so that the server stores nothing.

A signed text names who was asked, the execution, the questions and when it expires. It is signed, not secret: a text
that was changed, or that belongs to another caller, request or time, is refused. It works once because a question can
be answered once. Each purpose has its own key, so a text for one is invalid for the other.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Generic, TypeVar

import msgspec

from penstock.base.json import JsonObject

__all__ = ["AnswerLink", "RequestState", "Signer", "link_signer", "request_digest", "state_signer"]

_STATES = b"penstock mcp request state 1"
_LINKS = b"penstock answer link 1"
_CHARACTERS_MAX = 8_192
_encode = msgspec.json.Encoder(order="sorted").encode


class RequestState(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What a client carries to the call that answers."""

    principal: str
    tenant: str
    digest: str
    """The digest of the tool and its arguments."""
    execution_id: str
    interrupt_ids: tuple[str, ...]
    until_ms: int
    elsewhere: tuple[str, ...] = ()
    """The questions that a page answers, not the client."""
    sequence: int = 0
    """The sequence number of the execution when it asked."""


class AnswerLink(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What the address of an answer page carries: the key, and the question of an execution that it answers."""

    key_id: str
    tenant: str
    execution_id: str
    interrupt_id: str
    until_ms: int


Sealed = TypeVar("Sealed", RequestState, AnswerLink)


def request_digest(tool: str, arguments: JsonObject) -> str:
    """Return a digest of a call that does not depend on the order of its arguments."""
    return hashlib.sha256(_encode([tool, arguments])).hexdigest()


class Signer(Generic[Sealed]):
    """Signs and verifies texts; servers with the same pepper accept each other's texts."""

    def __init__(self, pepper: bytes, purpose: bytes, kind: type[Sealed]) -> None:
        self._key = hmac.digest(pepper, purpose, "sha256")
        self._kind: type[Sealed] = kind

    def sign(self, state: Sealed) -> str:
        """Sign a state and return it as text."""
        body = msgspec.json.encode(state)
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


def state_signer(pepper: bytes) -> Signer[RequestState]:
    """Return the signer for the states that clients carry."""
    return Signer(pepper, _STATES, RequestState)


def link_signer(pepper: bytes) -> Signer[AnswerLink]:
    """Return the signer for the addresses of answer pages."""
    return Signer(pepper, _LINKS, AnswerLink)
