"""The middleware around every request: request id, common headers, access log, metrics, and an answer for bugs.

A log line has the request id, the caller, the operation, the status and the duration. It never has a key, a query, a
body, or a path with values from the caller. Successful reads are logged at `debug`, everything else at `info`. Every
error response has an audit record when it leaves (`audit`).
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.asgi import MCP_METHOD, MCP_TOOL, READS, Headers, remote_of
from penstock.asgi.headroom import Headroom
from penstock.base.json import JsonObject
from penstock.operations.catalogue.errors import report_failure
from penstock.operations.telemetry.log_events import log_event
from penstock.operations.telemetry.metrics import Telemetry
from penstock.rest.audit import RecordRefusal
from penstock.rest.responses import send_problem

__all__ = ["RequestMiddleware"]

_LOGGER = logging.getLogger("penstock.api")
_ACCESS = logging.getLogger("penstock.access")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,100}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_SERVER_ERROR = 500
_CLIENT_ERROR = 400
# The status counted when the client disconnects before it is answered.
_LEFT = 499
_NO_ROUTE = "none"
_NO_GUESSING = (b"x-content-type-options", b"nosniff")
_ASK_AGAIN = (b"cache-control", b"private, no-cache")
_NOT_KEPT = (b"cache-control", b"no-store")


class RequestMiddleware:
    """Gives each request an id, counts and logs it, and answers with 500 when a bug raises."""

    def __init__(
        self, app: ASGIApp, new_request_id: Callable[[], str], telemetry: Telemetry, refused: RecordRefusal
    ) -> None:
        self._app = app
        self._refused = refused
        self._new_request_id = new_request_id
        self._telemetry = telemetry
        self._headroom = Headroom()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        request_id = _client_request_id(scope) or self._new_request_id()
        scope.setdefault("state", {})["request_id"] = request_id
        status = _LEFT

        def send_with_headers(message: Message) -> Awaitable[None]:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = _with_common_headers(message["headers"], request_id)
            return send(message)

        try:
            self._headroom.require(scope)
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            failed = report_failure(_LOGGER, f"request {request_id} failed", request_id, error)
            if status == _LEFT:
                await send_problem(send_with_headers, scope, failed)
        finally:
            self._note(scope, status, time.perf_counter() - began)
        if status >= _CLIENT_ERROR and (status != _LEFT or "code" in scope["state"]):
            await self._refused(scope, status)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        state, method = scope["state"], scope["method"]
        route = getattr(scope.get("route"), "path", _NO_ROUTE)
        telemetry = self._telemetry
        telemetry.http_requests.add((method if method in _METHODS else "other", route, str(status)))
        if "stream" not in state:
            telemetry.http_seconds.add(seconds, (route,))
        # A surface where every request is a POST marks its reads itself.
        reads = method in _READS or READS in state
        level = logging.DEBUG if status < _CLIENT_ERROR and reads else logging.INFO
        if status >= _SERVER_ERROR:
            level = logging.WARNING
        if not _ACCESS.isEnabledFor(level):
            return
        fields: JsonObject = {"request_id": state["request_id"], "method": method[:20], "route": route}
        if "principal" in state:
            fields["principal"] = state["principal"].id
        fields.update({name: state[name] for name in ("operation", MCP_METHOD, MCP_TOOL, "code") if name in state})
        fields.update({"status": status, "ms": round(seconds * 1000, 1)})
        remote = remote_of(scope)
        if remote is not None:
            fields["remote"] = remote
        log_event(_ACCESS, level, "request", fields)


def _with_common_headers(given: Headers, request_id: str) -> Headers:
    """Return the response headers, completed with those that every response has."""
    headers = [*given, (b"x-request-id", request_id.encode()), _NO_GUESSING]
    names = {name for name, _ in given}
    if b"cache-control" not in names:
        # A response with a version may be cached and revalidated; everything else is not for caches.
        headers.append(_ASK_AGAIN if b"etag" in names else _NOT_KEPT)
    return headers


def _client_request_id(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            text: str = value.decode("latin-1")
            return text if _REQUEST_ID.fullmatch(text) else None
    return None
