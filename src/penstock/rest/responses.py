"""Outgoing responses: whole responses, problem documents, and the few responses without a body."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.types import Scope, Send

from penstock.asgi import CODE, Headers, request_id_of, send_body
from penstock.base.errors import PenstockError, Rejected
from penstock.rest.problems import PROBLEM_MEDIA_TYPE, problem_body, problem_headers, problem_status

__all__ = [
    "CLIENT_LEFT",
    "etag_matches",
    "joined_header",
    "method_not_allowed",
    "send_options",
    "send_problem",
    "send_response",
]

CLIENT_LEFT = "CLIENT_DISCONNECTED"
# After these the rest of the request is not read, so the connection cannot carry another one.
_HANGS_UP = frozenset({"BODY_TOO_LARGE", "REQUEST_TIMEOUT"})


async def send_response(send: Send, status: int, body: bytes, headers: Headers) -> None:
    """Send a whole response."""
    headers.append((b"content-length", str(len(body)).encode()))
    await send_body(send, status, headers, body)


async def send_options(send: Send, allowed: str) -> None:
    """Answer OPTIONS with the allowed methods."""
    await send_body(send, 204, [(b"allow", allowed.encode())])


async def send_problem(send: Send, scope: Scope, error: PenstockError) -> None:
    """Send an error as a problem document, unless the client has already disconnected."""
    scope.setdefault("state", {})[CODE] = error.code
    if error.code == CLIENT_LEFT:
        return
    path: str = scope["path"]
    body = problem_body(error, request_id=request_id_of(scope), instance=path[:200])
    headers = [(b"content-type", PROBLEM_MEDIA_TYPE.encode()), *problem_headers(error)]
    if error.code in _HANGS_UP:
        headers.append((b"connection", b"close"))
    await send_response(send, problem_status(error), body, headers)


def method_not_allowed(method: str, allowed: str) -> Rejected:
    """Build the refusal of a method; `allowed` lists the possible ones."""
    message = f"{method[:20]} is not allowed here"
    return Rejected("METHOD_NOT_ALLOWED", message, f"use {allowed}", {"allow": allowed})


def joined_header(scope: Scope, name: bytes) -> str:
    """Return the values of a header, joined by commas; empty if it does not exist."""
    values: Iterable[bytes] = (value for key, value in scope["headers"] if key == name)
    return b", ".join(values).decode("latin-1")


def etag_matches(if_none_match: str, etag: str) -> bool:
    """Return whether If-None-Match names this version; the comparison is weak, as RFC 9110 requires for this header."""
    if not if_none_match:
        return False
    named = {part.strip().removeprefix("W/") for part in if_none_match.split(",")}
    return "*" in named or f'"{etag}"' in named
