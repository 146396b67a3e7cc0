"""Errors of calls: refusals by the server, and calls that did not reach it, in the classes of `penstock.base.errors`.

    try:
        client.workflows.get("refund")
    except NotFound as error: ...          # by whose fault it is
    except CallFailed as error: ...        # every call that failed: error.status, error.request_id

Above it: the clients. Below it: `base.errors`. No key appears in any of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from penstock.base.errors import (
    Conflict,
    Denied,
    LimitExceeded,
    NotFound,
    PenstockError,
    Reason,
    Rejected,
    Unavailable,
)
from penstock.base.json import JsonObject, JsonValue

__all__ = [
    "CLIENT_REASONS",
    "CallConflict",
    "CallDenied",
    "CallFailed",
    "CallLimited",
    "CallNotFound",
    "CallRejected",
    "CallTimedOut",
    "CallUnavailable",
    "answer_unreadable",
    "error_of",
    "retry_after_seconds",
    "unreachable",
]


# Codes that only the client uses; no server sends them.
CLIENT_REASONS: Final[Mapping[str, Reason]] = {
    "ANSWER_UNREADABLE": Reason(
        PenstockError,
        "The response does not match the operation.",
        "Check that client and server have the same version; `system.info` returns the server's.",
    ),
    "CONNECTION_FAILED": Reason(
        Unavailable, "The server cannot be reached.", "Check the address, and that the server is running."
    ),
    "HTTP_ERROR": Reason(
        PenstockError,
        "The response is not from a Penstock server; it may be from a proxy.",
        "Check the address of the server.",
    ),
    "MCP_ERROR": Reason(
        Conflict,
        "The MCP server returned a protocol error.",
        "Check the server with `penstock mcp doctor`.",
    ),
    "SERVER_ADDRESS_INVALID": Reason(
        Rejected, "The address of the server is not valid.", "Write it like `http://127.0.0.1:5151`."
    ),
    "STREAM_CUT": Reason(
        Unavailable, "The stream was interrupted repeatedly.", "Open the stream again; it resumes after the last event."
    ),
    "TIMEOUT": Reason(
        Unavailable,
        "The server did not respond within the client's timeout.",
        "Send the call again, or raise the client's `timeout_seconds`.",
    ),
    "WAIT_TIMED_OUT": Reason(
        Unavailable,
        "The run did not end within the caller's timeout, and continues.",
        "Wait again, or longer.",
    ),
}


class CallFailed(PenstockError):
    """A call failed. Quote `request_id` when you report it; `status` is the HTTP status, if there was a response."""

    status: int | None = None
    request_id: str | None = None
    retry_after_seconds: float | None = None

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text} [request {self.request_id}]" if self.request_id else text


class CallRejected(CallFailed, Rejected):
    """The request cannot be accepted as it is."""


class CallNotFound(CallFailed, NotFound):
    """It does not exist, or not for this key."""


class CallDenied(CallFailed, Denied):
    """The key is missing, not valid, or lacks a scope."""


class CallConflict(CallFailed, Conflict):
    """The thing named is no longer in the state that the call needs."""


class CallLimited(CallFailed, LimitExceeded):
    """A limit was reached."""


class CallUnavailable(CallFailed, Unavailable):
    """The server cannot be reached or cannot answer now; the same call may succeed later."""


class CallTimedOut(CallUnavailable):
    """The result did not come within the caller's timeout."""


_BY_STATUS: Mapping[int, type[CallFailed]] = {
    401: CallDenied,
    403: CallDenied,
    404: CallNotFound,
    409: CallConflict,
    412: CallConflict,
    413: CallLimited,
    429: CallLimited,
    501: CallUnavailable,
    502: CallUnavailable,
    503: CallUnavailable,
    504: CallUnavailable,
}
_CLIENT_ERRORS = range(400, 500)
_BODY_CHARACTERS_MAX = 200


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> CallFailed:
    """Build the error of an unsuccessful response: a problem document, or whatever a proxy sent in its place."""
    problem = _problem(body)
    kind = _BY_STATUS.get(status, CallRejected if status in _CLIENT_ERRORS else CallFailed)
    if "code" in problem:
        details = problem.get("details")
        more: JsonObject = dict(details) if isinstance(details, dict) else {}
        if isinstance(problem.get("errors"), list):
            more["errors"] = problem["errors"]
        error = kind(str(problem["code"]), str(problem.get("detail", "")), _text(problem.get("hint")), more)
    else:
        excerpt = body.decode("utf-8", errors="replace").strip()[:_BODY_CHARACTERS_MAX]
        message = f"the server answered {status}" + (f": {excerpt}" if excerpt else "")
        error = kind("HTTP_ERROR", message, "check that this is the address of a Penstock server")
    error.status = status
    error.request_id = _text(problem.get("request_id")) or headers.get("x-request-id")
    error.retry_after_seconds = retry_after_seconds(headers)
    return error


def unreachable(server: str, reason: Exception, *, timed_out: bool) -> CallUnavailable:
    """Build the error of a call that got no response."""
    if timed_out:
        message = f"{server} did not answer in time"
        return CallUnavailable("TIMEOUT", message, "ask again, or give the client more time")
    why = str(reason) or type(reason).__name__
    return CallUnavailable(
        "CONNECTION_FAILED", f"{server} cannot be reached: {why}", "check the address, and that the server runs"
    )


def answer_unreadable(operation: str, reason: Exception) -> CallFailed:
    """Build the error of a response that does not fit the operation's types."""
    hint = "check that client and server have the same version"
    return CallFailed("ANSWER_UNREADABLE", f"the answer to {operation} cannot be read: {reason}", hint)


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return how long the server asks to wait; a date is ignored."""
    text = headers.get("retry-after", "").strip()
    return float(text) if text.isascii() and text.isdecimal() else None


def _problem(body: bytes) -> JsonObject:
    try:
        found: JsonValue = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None
