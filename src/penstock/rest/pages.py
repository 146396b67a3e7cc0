"""The few pages beside the operations: health probes, documents, metrics.

Each page answers GET, HEAD and OPTIONS, and refuses every other method with a problem document, as operations do.
Probes need no key and say no more than a load balancer needs. `app` adds the pages to the routes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256

from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from penstock.asgi import AUDITED, Headers, send_body
from penstock.base.encoding import encode_bytes
from penstock.base.errors import PenstockError
from penstock.operations.system.health import is_ready, public_checks
from penstock.rest.responses import (
    etag_matches,
    joined_header,
    method_not_allowed,
    send_options,
    send_problem,
    send_response,
)

__all__ = ["Page", "PageAnswer", "document_page", "page", "probe_pages"]

_ALLOWED = "GET, HEAD, OPTIONS"
_JSON = "application/json"
_OK = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAnswer:
    """The response of a page."""

    body: bytes
    media_type: str
    status: int = 200
    etag: str | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()


Content = Callable[[Scope], Awaitable[PageAnswer]]


@dataclass(frozen=True, slots=True)
class Page:
    """An ASGI endpoint for one page."""

    content: Content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        method = scope["method"]
        try:
            if method == "OPTIONS":
                await send_options(send, _ALLOWED)
                return
            if method not in ("GET", "HEAD"):
                raise method_not_allowed(method, _ALLOWED)
            answer = await self.content(scope)
            if answer.status != _OK:
                # A failed probe is not a refused request, so it needs no audit record.
                scope["state"][AUDITED] = True
        except PenstockError as error:
            await send_problem(send, scope, error)
            return
        headers: Headers = [(b"content-type", answer.media_type.encode()), *answer.headers]
        if answer.etag is not None:
            headers.append((b"etag", f'"{answer.etag}"'.encode()))
            if not any(name == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-cache"))
            if etag_matches(joined_header(scope, b"if-none-match"), answer.etag):
                await send_body(send, 304, headers[1:])
                return
        await send_response(send, answer.status, answer.body, headers)


def _admit_everybody(scope: Scope) -> None:
    """Refuse nobody."""


def page(path: str, content: Content) -> BaseRoute:
    """Build a route for a page."""
    return Route(path, Page(content))


def probe_pages(ready: Callable[[], Awaitable[dict[str, str]]]) -> list[BaseRoute]:
    """Build `/healthz` (the process answers) and `/readyz` (it can take work; else 503 with the failed checks)."""

    async def healthz(scope: Scope) -> PageAnswer:
        return PageAnswer(body=b'{"status":"ok"}', media_type=_JSON)

    async def readyz(scope: Scope) -> PageAnswer:
        checks = await ready()
        well = is_ready(checks)
        body = {"status": "ok" if well else "unavailable", "checks": public_checks(checks)}
        return PageAnswer(body=encode_bytes(body), media_type=_JSON, status=200 if well else 503)

    return [page("/healthz", healthz), page("/readyz", readyz)]


def document_page(
    path: str,
    make: Callable[[], bytes],
    media_type: str = _JSON,
    *,
    revision: Callable[[], int] = int,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    admit: Callable[[Scope], None] = _admit_everybody,
) -> BaseRoute:
    """Build a page for a document: rendered on first request, and again when its revision changes.

    `admit` raises the error with which a request is refused.
    """
    kept: dict[int, PageAnswer] = {}

    async def content(scope: Scope) -> PageAnswer:
        admit(scope)
        now = revision()
        if now not in kept:
            body = make()
            kept.clear()
            etag = sha256(body).hexdigest()[:32]
            kept[now] = PageAnswer(body=body, media_type=media_type, etag=etag, headers=headers)
        return kept[now]

    return page(path, content)
