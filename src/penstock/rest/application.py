"""The ASGI application: every operation with a route at its path, and the pages beside them.

From the outside in: `middleware` (request id, metrics, log, audit, bugs), CORS (if origins are configured),
compression, `routing`. An unknown path is answered with a problem document too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.base import limits
from penstock.base.errors import LimitExceeded, NotFound
from penstock.operations.gate.pipeline import Gate
from penstock.rest.arguments import INTENT_HEADERS
from penstock.rest.audit import refusal_recorder
from penstock.rest.endpoints import ConcurrencyLimit, Endpoint, admit_stranger
from penstock.rest.middleware import RequestMiddleware
from penstock.rest.responses import send_problem
from penstock.rest.routing import PathRouter

__all__ = ["RestOptions", "build_application"]

_GZIP_LEVEL = 5
_ALLOWED_HEADERS = (
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "If-Match",
    "If-None-Match",
    "Last-Event-ID",
    *INTENT_HEADERS.values(),
    "Prefer",
    "X-Request-ID",
)
_EXPOSED_HEADERS = ("ETag", "Location", "X-Request-ID", "Idempotency-Replayed", "Retry-After", "Mcp-Session-Id")
# Headers that MCP clients in web pages send in addition.
_MCP_HEADERS = ("Mcp-Session-Id", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestOptions:
    """The operator's options for REST."""

    base_path: str = "/api/v0"
    cors_origins: tuple[str, ...] = ()
    max_body_bytes: int = limits.REQUEST_BYTES_MAX
    max_concurrent_requests: int = limits.REQUESTS_AT_ONCE_MAX
    gzip_min_bytes: int | None = limits.GZIP_BYTES_MIN
    docs_enabled: bool = True
    metrics_public: bool = False


def operation_routes(gate: Gate, options: RestOptions, busy: ConcurrencyLimit) -> list[BaseRoute]:
    """Build a route for each path of the catalogue."""
    endpoints: dict[str, Endpoint] = {}
    for capability in gate.catalogue.all():
        route = capability.route
        if route is None:
            continue
        endpoint = endpoints.setdefault(
            route.path,
            Endpoint(gate=gate, base_path=options.base_path, max_body_bytes=options.max_body_bytes, busy=busy),
        )
        if route.method in endpoint.operations:
            raise ValueError(f"{capability.name}: {route.method} {route.path} is taken")
        endpoint.operations[route.method] = capability
    # Literal segments sort before parameters, so that /executions/search is not an execution called "search".
    ordered = sorted(endpoints.items(), key=lambda item: (item[0].count("{"), item[0]))
    return [Route(options.base_path + path, endpoint) for path, endpoint in ordered]


def build_application(
    gate: Gate,
    options: RestOptions,
    *,
    new_request_id: Callable[[], str],
    pages: Sequence[BaseRoute] = (),
    busy: ConcurrencyLimit | None = None,
) -> ASGIApp:
    """Build the application. `pages` are routes beside the operations (health, metrics, documents, other surfaces)."""
    places = busy or ConcurrencyLimit(options.max_concurrent_requests)
    nothing = _NotFound(gate)
    nothing.paths = PathRouter([*pages, *operation_routes(gate, options, places)], nothing)
    app: ASGIApp = nothing.paths
    if options.gzip_min_bytes is not None:
        app = _Compression(app, options.gzip_min_bytes)
    if options.cors_origins:
        app = CORSMiddleware(
            app,
            allow_origins=options.cors_origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=[*_ALLOWED_HEADERS, *_MCP_HEADERS],
            expose_headers=_EXPOSED_HEADERS,
        )
    return RequestMiddleware(app, new_request_id, gate.services.telemetry, refusal_recorder(gate))


class _Compression:
    """Compresses responses for clients that accept gzip; other requests skip the middleware entirely."""

    def __init__(self, app: ASGIApp, minimum_bytes: int) -> None:
        self.app = app
        self._packing = GZipMiddleware(app, minimum_size=minimum_bytes, compresslevel=_GZIP_LEVEL)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Answer one request."""
        wanted = scope["type"] == "http" and _takes_gzip(scope["headers"])
        return (self._packing if wanted else self.app)(scope, receive, send)


def _takes_gzip(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    for name, value in headers:  # noqa: SIM110  # a generator would be slower
        if name == b"accept-encoding" and b"gzip" in value:
            return True
    return False


class _NotFound:
    """Answers requests for paths that do not exist."""

    paths: PathRouter | None = None

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a problem document; the hint gives the right path if there is only a trailing slash too many."""
        if scope["type"] != "http":
            return
        try:
            admit_stranger(self._gate, scope, count=False)  # the record of the refusal counts it
        except LimitExceeded as error:
            await send_problem(send, scope, error)
            return
        path: str = scope["path"]
        hint = "the paths are listed at /openapi.json"
        meant = path.rstrip("/")
        if meant != path and self.paths is not None and self.paths.find({**scope, "path": meant}):
            hint = f"leave out the slash at the end: {meant[:200]}"
        message = f"nothing is served at {path[:200]}"
        await send_problem(send, scope, NotFound("ROUTE_NOT_FOUND", message, hint))
