"""Errors on every wire: maps a code to an HTTP status, a title, an exit code and a JSON-RPC code, in one table.

The class of an error says whose fault it is and gives the usual mapping; a few codes have their own.

Above it: the surfaces. Below it: `base.errors`. Texts for people stay with the error; nothing internal is added.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from penstock.base.errors import (
    Conflict,
    CorruptHistory,
    Denied,
    LimitExceeded,
    NotFound,
    PenstockError,
    Rejected,
    Unavailable,
)

__all__ = ["INTERNAL_ERROR", "OUT_OF_MEMORY", "ErrorMapping", "internal_error", "mapping_of", "report_failure"]

INTERNAL_ERROR = "INTERNAL_ERROR"
OUT_OF_MEMORY = "OUT_OF_MEMORY"


class ErrorMapping(NamedTuple):
    """How an error appears on the wires."""

    status: int
    title: str
    exit_code: int
    json_rpc: int


_BY_CLASS: tuple[tuple[type[PenstockError], ErrorMapping], ...] = (
    (Rejected, ErrorMapping(422, "The request cannot be accepted", 5, -32602)),
    (NotFound, ErrorMapping(404, "There is no such thing", 4, -32602)),
    (Denied, ErrorMapping(403, "Not allowed", 9, -32001)),
    (Conflict, ErrorMapping(409, "The thing has moved on", 6, -32003)),
    (LimitExceeded, ErrorMapping(429, "A limit was reached", 7, -32002)),
    (Unavailable, ErrorMapping(503, "Not available now", 8, -32003)),
    (CorruptHistory, ErrorMapping(500, "Stored data is damaged", 1, -32603)),
)

_UNAUTHENTICATED = ErrorMapping(401, "Authentication is needed", 9, -32000)
_BY_CODE: dict[str, ErrorMapping] = {
    "UNAUTHENTICATED": _UNAUTHENTICATED,
    "KEY_EXPIRED": _UNAUTHENTICATED,
    "KEY_REVOKED": _UNAUTHENTICATED,
    "TOKEN_INVALID": _UNAUTHENTICATED,
    "TOKEN_EXPIRED": _UNAUTHENTICATED,
    "TOKEN_REVOKED": _UNAUTHENTICATED,
    "CREDENTIALS_AMBIGUOUS": ErrorMapping(400, "More than one credential was sent", 9, -32600),
    "WEBHOOK_SIGNATURE_MISSING": _UNAUTHENTICATED,
    "WEBHOOK_SIGNATURE_INVALID": _UNAUTHENTICATED,
    "WEBHOOK_SIGNATURE_EXPIRED": _UNAUTHENTICATED,
    "MALFORMED_JSON": ErrorMapping(400, "The body is not JSON", 5, -32700),
    "MALFORMED_REQUEST": ErrorMapping(400, "The request cannot be read", 5, -32600),
    "ARGUMENTS_TOO_DEEP": ErrorMapping(400, "The body is nested too deeply", 5, -32602),
    "METHOD_NOT_ALLOWED": ErrorMapping(405, "The method is not allowed here", 5, -32601),
    "NOT_ACCEPTABLE": ErrorMapping(406, "No such representation", 5, -32600),
    "REQUEST_TIMEOUT": ErrorMapping(408, "The request took too long to arrive", 7, -32002),
    "PRECONDITION_FAILED": ErrorMapping(412, "It was changed by another call", 6, -32003),
    "PRECONDITION_REQUIRED": ErrorMapping(428, "Say which version you mean", 5, -32602),
    "BODY_TOO_LARGE": ErrorMapping(413, "The body is too large", 7, -32002),
    "TARGET_TOO_LONG": ErrorMapping(414, "The path and query are too long", 7, -32002),
    "HEADERS_TOO_LARGE": ErrorMapping(431, "The headers are too large", 7, -32002),
    "UNSUPPORTED_MEDIA_TYPE": ErrorMapping(415, "The media type is not supported", 5, -32600),
    # Not a 5xx: clients retry those, and retrying does not help here.
    "NOT_CONFIGURED": ErrorMapping(409, "Not configured on this server", 8, -32003),
    "TOO_MANY_REQUESTS_IN_FLIGHT": ErrorMapping(503, "Too busy now", 7, -32002),
    INTERNAL_ERROR: ErrorMapping(500, "Something went wrong here", 1, -32603),
}
_INTERNAL = _BY_CODE[INTERNAL_ERROR]


def mapping_of(error: PenstockError) -> ErrorMapping:
    """Return how an error appears on the wires."""
    named = _BY_CODE.get(error.code)
    if named is not None:
        return named
    return next((mapping for kind, mapping in _BY_CLASS if isinstance(error, kind)), _INTERNAL)


def report_failure(logger: logging.Logger, what: str, request_id: str, error: Exception) -> PenstockError:
    """Log an error that nobody expected, and return what its caller gets.

    Running out of memory gets no traceback: it would only show the code that happened to ask for memory next.
    """
    if isinstance(error, MemoryError):
        logger.error("%s: there is no memory left", what)
        hint = "send less at once, or try again later; an operator can give the server more memory"
        return Unavailable(OUT_OF_MEMORY, "the server has no memory left for this call", hint)
    logger.error("%s", what, exc_info=error)
    return internal_error(request_id)


def internal_error(request_id: str) -> PenstockError:
    """Return the error for a bug. It reveals nothing but the request id to ask about."""
    hint = f"report this with the request id {request_id}"
    return PenstockError(INTERNAL_ERROR, "the server failed because of a bug", hint)
