"""Requests as they come in: headers, query and body, each within its bounds.

What can be read in two ways is refused rather than guessed: a header that may occur once and occurs twice, text that is
not UTF-8.
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

# Headers that say one thing: two of them would leave open which one counts.
_ONCE = frozenset(
    {
        "authorization",
        "content-length",
        "content-type",
        "host",
        "idempotency-key",
        "if-match",
        "last-event-id",
        "x-request-id",
    }
)
# More digits are no length that anybody means.
_LENGTH_DIGITS_MAX = 19
# Where the server notes that nothing of a request is still to come.
_ARRIVED = "arrived"


def headers_of(scope: Scope) -> dict[str, str]:
    """The headers by name in small letters; several of one name are joined by commas, where that is allowed."""
    found: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name in found:
            if name in _ONCE:
                raise Rejected("MALFORMED_REQUEST", f"the header {name} stands there twice", "send it once")
            value = f"{found[name]}, {value}"
        found[name] = value
    return found


def bearer_of(headers: Mapping[str, str]) -> str | None:
    """The token of an Authorization header."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def query_of(scope: Scope) -> list[tuple[str, str]]:
    """The names and values of a query, in their order."""
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
    """Refuse a path whose bytes are not UTF-8: servers would make something else of it."""
    raw: bytes | None = scope.get("raw_path")
    if raw is None or b"%" not in raw:
        return
    try:
        unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise Rejected("MALFORMED_REQUEST", "the path is not UTF-8", "encode it as UTF-8") from None


def note_arrival(scope: Scope) -> None:
    """Note that a request is here as a whole: whoever reads its body waits for nobody."""
    scope.setdefault("state", {})[_ARRIVED] = True


async def read_body(receive: Receive, scope: Scope, headers: Mapping[str, str], maximum: int) -> bytes:
    """The body, unless it is larger than allowed or takes too long."""
    declared = headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > _LENGTH_DIGITS_MAX or int(declared) > maximum):
        # Whoever expects to be asked first has sent nothing yet, and must not be told to.
        if "expect" not in headers:
            await _discard(receive)
        raise _too_large(maximum)
    if _ARRIVED in scope.get("state", ()):
        return await _received(receive, maximum)
    try:
        async with asyncio.timeout(limits.REQUEST_BODY_SECONDS_MAX):
            return await _received(receive, maximum)
    except TimeoutError:
        message = f"the body did not arrive within {limits.REQUEST_BODY_SECONDS_MAX:g} s"
        raise LimitExceeded("REQUEST_TIMEOUT", message, "send it faster, or in several calls") from None


async def _received(receive: Receive, maximum: int) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Unavailable(CLIENT_LEFT, "the client left before the request was complete")
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
    """Throw away some of what is still to come: most clients read the answer only when they have sent everything."""
    size, more = 0, True
    with suppress(TimeoutError):
        async with asyncio.timeout(limits.REQUEST_HEAD_SECONDS_MAX):
            while more and size <= limits.REQUEST_DISCARD_BYTES_MAX:
                message = await receive()
                size += len(message.get("body", b""))
                more = message.get("more_body", False)


def _too_large(maximum: int) -> LimitExceeded:
    return LimitExceeded("BODY_TOO_LARGE", f"the body is larger than {maximum} bytes", "send less, or in several calls")
