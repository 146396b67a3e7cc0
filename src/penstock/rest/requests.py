"""Incoming requests: headers, query and body, each within its limits.

Ambiguous input is refused rather than guessed: a repeated header that may occur only once, text that is not UTF-8.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import parse_qsl, unquote_to_bytes

from starlette.types import Receive, Scope

from penstock.base import limits
from penstock.base.errors import LimitExceeded, Rejected, Unavailable
from penstock.rest.responses import CLIENT_LEFT

__all__ = ["bearer_of", "headers_of", "note_arrival", "query_of", "read_body", "refuse_strange_path"]

# Headers with a single value: if one came twice, it would be unclear which value counts.
_ONCE = frozenset(
    {
        "content-length",
        "content-type",
        "host",
        "idempotency-key",
        "if-match",
        "last-event-id",
        "x-request-id",
    }
)
# No real Content-Length has more digits.
_LENGTH_DIGITS_MAX = 19
# Request state key: the server has received the whole request.
_ARRIVED = "arrived"


def headers_of(scope: Scope) -> dict[str, str]:
    """Return the headers by lower-case name; repeated headers are joined by commas, where that is allowed."""
    found: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name in found:
            if name == "authorization":
                message = "the header authorization is given twice: a request has one key or one token"
                raise Rejected("CREDENTIALS_AMBIGUOUS", message, "send only one of them")
            if name in _ONCE:
                raise Rejected("MALFORMED_REQUEST", f"the header {name} is given twice", "send it once")
            value = f"{found[name]}, {value}"
        found[name] = value
    return found


def bearer_of(headers: Mapping[str, str]) -> str | None:
    """Return the token of a bearer Authorization header, or None."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def query_of(scope: Scope) -> list[tuple[str, str]]:
    """Return the names and values of the query, in order."""
    raw: bytes = scope["query_string"]
    if not raw:
        return []
    try:
        return parse_qsl(
            raw.decode("utf-8"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=limits.QUERY_PARAMETERS_MAX,
        )
    except UnicodeDecodeError:
        raise Rejected("MALFORMED_REQUEST", "the query is not UTF-8", "encode it as UTF-8") from None
    except ValueError:
        message = f"the query has more than {limits.QUERY_PARAMETERS_MAX} parameters"
        raise Rejected("MALFORMED_REQUEST", message, "send fewer") from None


def refuse_strange_path(scope: Scope) -> None:
    """Refuse a path whose bytes are not UTF-8: servers interpret such paths differently."""
    raw: bytes | None = scope.get("raw_path")
    if raw is None or b"%" not in raw:
        return
    try:
        unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise Rejected("MALFORMED_REQUEST", "the path is not UTF-8", "encode it as UTF-8") from None


def note_arrival(scope: Scope) -> None:
    """Note that the whole request has arrived, so that reading its body needs no timeout."""
    scope.setdefault("state", {})[_ARRIVED] = True


async def read_body(receive: Receive, scope: Scope, headers: Mapping[str, str], maximum: int) -> bytes:
    """Read the body, unless it is larger than allowed or takes too long."""
    declared = headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > _LENGTH_DIGITS_MAX or int(declared) > maximum):
        # A client that sent `Expect: 100-continue` waits; reading here would ask it to send the body.
        if "expect" not in headers:
            await _discard(receive)
        raise _too_large(maximum)
    if _ARRIVED in scope.get("state", ()):
        return await _receive_body(receive, maximum)
    try:
        async with asyncio.timeout(limits.REQUEST_BODY_SECONDS_MAX):
            return await _receive_body(receive, maximum)
    except TimeoutError:
        message = f"the body did not arrive within {limits.REQUEST_BODY_SECONDS_MAX:g} s"
        raise LimitExceeded("REQUEST_TIMEOUT", message, "send it faster, or split it into several calls") from None


async def _receive_body(receive: Receive, maximum: int) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Unavailable(CLIENT_LEFT, "the client disconnected before the request was complete")
        part = message.get("body", b"")
        size += len(part)
        more = message.get("more_body", False)
        if size > maximum:
            parts.clear()
            if more:
                await _discard(receive)
            raise _too_large(maximum)
        parts.append(part)
    return b"".join(parts) if len(parts) > 1 else parts[0]


async def _discard(receive: Receive) -> None:
    """Read and discard some of the remaining body: most clients read the response only after sending everything."""
    size, more = 0, True
    with suppress(TimeoutError):
        async with asyncio.timeout(limits.REQUEST_HEAD_SECONDS_MAX):
            while more and size <= limits.REQUEST_DISCARD_BYTES_MAX:
                message = await receive()
                size += len(message.get("body", b""))
                more = message.get("more_body", False)


def _too_large(maximum: int) -> LimitExceeded:
    return LimitExceeded(
        "BODY_TOO_LARGE", f"the body is larger than {maximum} bytes", "send less, or split it into several calls"
    )
