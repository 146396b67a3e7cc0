"""Answers as they go out: whole responses, problem documents, and the few that have no body.

Above it: `endpoints`, `pages`, `application`. Below it: `problems`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from starlette.types import Scope, Send

from penstock.base.errors import PenstockError, Rejected
from penstock.rest.problems import PROBLEM_MEDIA_TYPE, problem_body, problem_headers, problem_status

__all__ = [
    "CLIENT_LEFT",
    "Headers",
    "etag_matches",
    "header",
    "method_not_allowed",
    "request_id_of",
    "send_empty",
    "send_options",
    "send_problem",
    "send_response",
]

Headers: TypeAlias = list[tuple[bytes, bytes]]
CLIENT_LEFT = "CLIENT_DISCONNECTED"
# After these the rest of the request is not read, so the connection cannot be used for another one.
_HANGS_UP = frozenset({"BODY_TOO_LARGE", "REQUEST_TIMEOUT"})


async def send_response(send: Send, status: int, body: bytes, headers: Headers) -> None:
    """Send a whole response."""
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_empty(send: Send, status: int, headers: Headers) -> None:
    """Send a response without a body: 204, 304, or the head of a stream."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def send_options(send: Send, allowed: str) -> None:
    """Say which methods are possible."""
    await send_empty(send, 204, [(b"allow", allowed.encode())])


async def send_problem(send: Send, scope: Scope, error: PenstockError) -> None:
    """Send an error as a problem document; whoever has left is sent nothing."""
    scope.setdefault("state", {})["code"] = error.code
    if error.code == CLIENT_LEFT:
        return
    path: str = scope["path"]
    body = problem_body(error, request_id=request_id_of(scope), instance=path[:200])
    headers = [(b"content-type", PROBLEM_MEDIA_TYPE.encode()), *problem_headers(error)]
    if error.code in _HANGS_UP:
        headers.append((b"connection", b"close"))
    await send_response(send, problem_status(error), body, headers)


def method_not_allowed(method: str, allowed: str) -> Rejected:
    """The refusal of a method; `allowed` are those that are possible."""
    told = f"{method[:20]} is not possible here"
    return Rejected("METHOD_NOT_ALLOWED", told, f"use {allowed}", {"allow": allowed})


def request_id_of(scope: Scope) -> str:
    """The id that the outermost layer gave the request."""
    found: str = scope.get("state", {}).get("request_id", "")
    return found


def header(scope: Scope, name: bytes) -> str:
    """The value of a header, several joined by commas; empty without."""
    values: Iterable[bytes] = (value for key, value in scope["headers"] if key == name)
    return b", ".join(values).decode("latin-1")


def etag_matches(if_none_match: str, etag: str) -> bool:
    """Whether an If-None-Match names a version; weakly, as RFC 9110 says for this header."""
    if not if_none_match:
        return False
    named = {part.strip().removeprefix("W/") for part in if_none_match.split(",")}
    return "*" in named or f'"{etag}"' in named
