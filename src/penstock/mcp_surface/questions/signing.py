"""Signed texts that a client or a page carries from a question to its answer, so that the server stores nothing.

A signed text names who was asked, the run, the questions and when it expires. It is signed, not secret: a text
that was changed, or that belongs to another caller, request or time, is refused. It works once because a question can
be answered once. Each purpose has its own key, so a text for one is invalid for the other.
"""

from __future__ import annotations

import hashlib

import msgspec

from penstock.base.encoding import SafeEncoder
from penstock.base.json import JsonObject
from penstock.operations.signed_texts import Signer

__all__ = ["AnswerLink", "RequestState", "link_signer", "request_digest", "state_signer"]

_STATES = b"penstock mcp request state 1"
_LINKS = b"penstock answer link 1"
_encode = SafeEncoder(order="sorted").encode


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
    """The sequence number of the run when it asked."""


class AnswerLink(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What the address of an answer page carries: the key, and the question of a run that it answers."""

    key_id: str
    tenant: str
    execution_id: str
    interrupt_id: str
    until_ms: int


def request_digest(tool: str, arguments: JsonObject) -> str:
    """Return a digest of a call that does not depend on the order of its arguments."""
    return hashlib.sha256(_encode([tool, arguments])).hexdigest()


def state_signer(pepper: bytes) -> Signer[RequestState]:
    """Return the signer for the states that clients carry."""
    return Signer(pepper, _STATES, RequestState)


def link_signer(pepper: bytes) -> Signer[AnswerLink]:
    """Return the signer for the addresses of answer pages."""
    return Signer(pepper, _LINKS, AnswerLink)
