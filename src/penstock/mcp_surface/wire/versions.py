"""Pinning the server to a single revision of the protocol, if the operator wants that.

Clients of another era are refused and told which revision is served. A client of the handshake era proposes a revision,
and the server answers with the one that it offers. So the proposal of such a client is replaced before it is read.
"""

from __future__ import annotations

from typing import Any

from starlette.types import Message, Scope

from penstock.asgi import header
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject
from penstock.mcp_surface.wire.messages import decoded

__all__ = [
    "id_in",
    "is_modern",
    "only_message",
    "pinned_body",
    "pinned_initialize",
    "refused_version",
    "unsupported",
    "with_header",
]

_MODERN = "2026-07-28"
_VERSION = b"mcp-protocol-version"
_SESSION = b"mcp-session-id"


def is_modern(version: str) -> bool:
    """Return whether a revision has no handshake."""
    return version >= _MODERN


def unsupported(only: str, requested: str | None) -> JsonObject:
    """Build the error data for a client of another revision."""
    return {"supported": [only], "requested": requested or ""}


def only_message(only: str) -> str:
    """Build the error message for a client of another revision."""
    return f"This server speaks revision {only} of the protocol and no other"


def refused_version(only: str, scope: Scope) -> str | None:
    """Return the revision for which a request is refused; None if the request is accepted.

    A client that opens a session may propose any revision of the handshake era, and then uses the negotiated one.
    """
    named, opens = header(scope, _VERSION), header(scope, _SESSION) is None
    if named == only:
        return None
    if is_modern(only):
        return named or "a handshake"
    if named is None or (opens and not is_modern(named)):
        return None
    return named


def with_header(only: str, scope: Scope) -> Scope:
    """Return a request of the handshake era with the pinned revision in its header."""
    if header(scope, _VERSION) in (None, only):
        return scope
    headers = [(name, only.encode() if name == _VERSION else value) for name, value in scope["headers"]]
    return {**scope, "headers": headers}


def pinned_initialize(only: str, params: Any) -> Any:
    """Return the parameters of `initialize` with the pinned revision."""
    return {**params, "protocolVersion": only} if isinstance(params, dict) else params


def pinned_body(only: str, body: bytes) -> Message | None:
    """Return an `initialize` with the pinned revision; None for any other body."""
    _, sent = decoded(body)
    if not isinstance(sent, dict) or sent.get("method") != "initialize":
        return None
    changed = {**sent, "params": pinned_initialize(only, sent.get("params"))}
    return {"type": "http.request", "body": encode_bytes(changed), "more_body": False}


def id_in(body: bytes | None) -> int | str | None:
    """Return the id of a request, for its refusal."""
    _, sent = decoded(body or b"")
    found = sent.get("id") if isinstance(sent, dict) else None
    return found if isinstance(found, int | str) and not isinstance(found, bool) else None
