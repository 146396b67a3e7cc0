"""Audit records of requests that are refused before they become calls: every error response leaves a record.

The middleware calls this for every error status. If the gate refused the call, the audit log already has a record and
the request state says so (`AUDITED`). Everything else is recorded here: an unknown route or method, an unreadable body,
too many requests at once, an MCP message that the SDK refuses. A record has the code, the address and, if the request
has a valid key, the key's owner; never a path, a query or a body. The gate aggregates records that anybody can cause.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette.types import Scope

from penstock.asgi import AUDITED, CODE, HttpOrigin, remote_of, request_id_of
from penstock.base.errors import PenstockError
from penstock.operations.catalogue.errors import INTERNAL_ERROR
from penstock.operations.gate.context import Credentials, Principal, Request, Surface
from penstock.operations.gate.pipeline import ANONYMOUS, Gate
from penstock.rest.requests import bearer_of

__all__ = ["REQUEST", "RecordRefusal", "refusal_recorder", "unparsed_recorder"]

REQUEST = "http.request"
"""The operation in the record when the request did not get as far as one."""

RecordRefusal: TypeAlias = Callable[[Scope, int], Awaitable[None]]

# Codes for error responses that have only a status, for example from the MCP SDK.
_CODES = {
    400: "MALFORMED_REQUEST",
    401: "UNAUTHENTICATED",
    404: "ROUTE_NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    406: "NOT_ACCEPTABLE",
    408: "REQUEST_TIMEOUT",
    413: "BODY_TOO_LARGE",
    415: "UNSUPPORTED_MEDIA_TYPE",
    429: "RATE_LIMITED",
    500: INTERNAL_ERROR,
    503: "TOO_MANY_REQUESTS_IN_FLIGHT",
}
_OTHER = "REQUEST_REFUSED"
# A server without a free slot must not spend work on authenticating the request.
_BUSY = "TOO_MANY_REQUESTS_IN_FLIGHT"


def refusal_recorder(gate: Gate) -> RecordRefusal:
    """Return the function that records the refusals of an application."""

    async def note(scope: Scope, status: int) -> None:
        state = scope["state"]
        if AUDITED in state:
            return
        code: str = state.get(CODE) or _CODES.get(status, _OTHER)
        route = scope.get("route")
        surface: Surface = getattr(getattr(route, "endpoint", None), "surface", "rest")
        request = Request(
            operation=state.get("operation", REQUEST),
            arguments={},
            principal=state.get("principal") or await _sender(gate, scope, code),
            surface=surface,
            request_id=request_id_of(scope),
            remote=remote_of(scope),
            origin=HttpOrigin(scope),
        )
        gate.refused(request, code, failed=code == INTERNAL_ERROR)

    return note


async def _sender(gate: Gate, scope: Scope, code: str) -> Principal:
    """Return the principal whose key the request carries."""
    shown = next((value for name, value in scope["headers"] if name == b"authorization"), None)
    if shown is None or code == _BUSY:
        return ANONYMOUS
    credentials = Credentials(bearer=bearer_of({"authorization": shown.decode("latin-1")}))
    return await gate.identified(credentials, remote_of(scope))


def unparsed_recorder(gate: Gate) -> Callable[[PenstockError, str, str | None], None]:
    """Return the function that records requests that are not HTTP, by error, request id and client address."""

    def note(error: PenstockError, request_id: str, remote: str | None) -> None:
        request = Request(
            operation=REQUEST, arguments={}, principal=ANONYMOUS, surface="rest", request_id=request_id, remote=remote
        )
        gate.refused(request, error.code)

    return note
