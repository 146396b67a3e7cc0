"""Builds the request of an `http` node, or a text that says what is wrong with the node.

Above it: the http executor sends the planned request. It opens no connection and does not check addresses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote

import httpx2

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject, JsonValue
from penstock.base.masking import mask
from penstock.base.traces import current_traceparent
from penstock.engine.effects import PerformActivity
from penstock.runtime.activities.performing import ActivityCall, NodeAction

__all__ = [
    "RequestPlan",
    "RequestRefused",
    "mask_secrets",
    "plan_exchange",
    "plan_request",
    "redirect_request",
    "request_action",
]

_RETRY_ON_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
_WITHOUT_EFFECT = frozenset({"GET", "HEAD", "OPTIONS"})
_METHODS = _WITHOUT_EFFECT | {"POST", "PUT", "PATCH", "DELETE"}
_IDEMPOTENCY_HEADER = "idempotency-key"
_EPOCH_HEADER = "penstock-epoch"
# Headers that frame the message: a document that sets these could make one request look like two, or redirect it.
_FRAME_HEADERS = frozenset(
    {"connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade"}
)
# Headers that a redirect to another origin may keep. All others may be meant for the first origin alone.
_ORIGIN_FREE_HEADERS = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})
_PORTS = {"http": 80, "https": 443}
# Shorter values are ordinary words rather than secrets, and masking them would only garble a text.
_SECRET_CHARACTERS_MIN = 8


class RequestRefused(Exception):
    """The node cannot be turned into a request; the text says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPlan:
    """A request, and which statuses count as success."""

    request: httpx2.Request
    timeout_ms: int
    follow_redirects: bool
    expect_status: frozenset[int] | None
    retry_on_status: frozenset[int]

    def is_success(self, status: int) -> bool:
        """True if a status counts as success."""
        if self.expect_status is not None:
            return status in self.expect_status
        return 200 <= status <= 299  # noqa: PLR2004  # what success means in HTTP


def plan_request(activity: PerformActivity, *, epoch: int = 0) -> RequestPlan:
    """Build the request of a node. Raises `RequestRefused` if the node is wrong. An epoch of 0 is not sent."""
    config, given = activity.config, activity.arguments
    if not isinstance(given, dict):
        raise RequestRefused(f"node {activity.node_id} has no `url`")
    method = str(config.get("method", "GET")).upper()
    if method not in _METHODS:
        raise RequestRefused(f"the method {method} is not one of {', '.join(sorted(_METHODS))}")
    headers = _headers(given.get("headers"))
    content = _content(given.get("body"), headers)
    url = _url(given.get("url"), given.get("query"))
    retry_on_status = _statuses(config.get("retry_on_status"))
    plan = _plan(activity, method, url, headers, content, epoch=epoch)
    return replace(
        plan,
        follow_redirects=config.get("follow_redirects") is True,
        expect_status=_statuses(config.get("expect_status")),
        retry_on_status=_RETRY_ON_STATUS if retry_on_status is None else retry_on_status,
    )


def plan_exchange(  # noqa: PLR0913  # a request has these parts
    activity: PerformActivity,
    method: str,
    url: str,
    headers: Mapping[str, str],
    content: bytes | None,
    *,
    epoch: int = 0,
    timeout_ms: int | None = None,
) -> RequestPlan:
    """Build a request from its parts, under the rules for requests of nodes. Raises `RequestRefused`."""
    checked = _headers(dict(headers))
    return _plan(activity, method, _url(url, None), checked, content, epoch=epoch, timeout_ms=timeout_ms)


def _plan(  # noqa: PLR0913  # a request has these parts
    activity: PerformActivity,
    method: str,
    url: httpx2.URL,
    headers: dict[str, str],
    content: bytes | None,
    *,
    epoch: int,
    timeout_ms: int | None = None,
) -> RequestPlan:
    timeout_ms = activity.timeout_ms or timeout_ms or limits.HTTP_TIMEOUT_MS_DEFAULT
    if method not in _WITHOUT_EFFECT and _IDEMPOTENCY_HEADER not in headers:
        headers[_IDEMPOTENCY_HEADER] = quote(activity.idempotency_key, safe="/:;,.~!*()[]{}|@&=+$ ")
    if method not in _WITHOUT_EFFECT and epoch:
        headers[_EPOCH_HEADER] = str(epoch)
    traceparent = current_traceparent()
    if traceparent is not None:
        headers.setdefault("traceparent", traceparent)
    extensions = {"timeout": httpx2.Timeout(timeout_ms / 1000).as_dict()}
    return RequestPlan(
        request=httpx2.Request(method, url, headers=headers, content=content, extensions=extensions),
        timeout_ms=timeout_ms,
        follow_redirects=False,
        expect_status=None,
        retry_on_status=_RETRY_ON_STATUS,
    )


def _url(text: JsonValue, query: JsonValue) -> httpx2.URL:
    if not isinstance(text, str):
        raise RequestRefused("`url` is not a text")
    url = _checked(httpx2.URL(text))
    if query is None:
        return url
    if not isinstance(query, dict):
        raise RequestRefused("`query` is not an object")
    pairs: list[tuple[str, str]] = []
    for name, value in query.items():
        items = value if isinstance(value, list) else [value]
        pairs.extend((name, _text(f"query/{name}", item)) for item in items if item is not None)
    return url.copy_merge_params(httpx2.QueryParams(tuple(pairs))) if pairs else url


def _checked(url: httpx2.URL) -> httpx2.URL:
    if url.scheme not in ("http", "https"):
        raise RequestRefused("`url` does not begin with http:// or https://")
    if not url.host:
        raise RequestRefused("`url` names no host")
    if url.userinfo:
        raise RequestRefused("`url` has a user name or password in it; put credentials into `headers`, as secrets")
    return url


def _headers(given: JsonValue) -> dict[str, str]:
    headers = {"user-agent": "penstock", "accept": "*/*", "accept-encoding": "gzip, deflate"}
    if given is None:
        return headers
    if not isinstance(given, dict):
        raise RequestRefused("`headers` is not an object")
    for name, value in given.items():
        lowered = name.lower()
        if lowered in _FRAME_HEADERS or lowered.startswith("proxy-"):
            raise RequestRefused(f"the header `{name}` is not for documents to set")
        if value is not None:
            text = _text(f"headers/{name}", value)
            if not text.isprintable() or not text.isascii():
                raise RequestRefused(f"the header `{name}` has characters that a header cannot carry")
            headers[lowered] = text.strip()
    return headers


def _content(body: JsonValue, headers: dict[str, str]) -> bytes | None:
    if body is None:
        return None
    if isinstance(body, str):
        headers.setdefault("content-type", "text/plain; charset=utf-8")
        return body.encode("utf-8", errors="replace")
    headers.setdefault("content-type", "application/json")
    return encode_bytes(body)


def _text(place: str, value: JsonValue) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            raise RequestRefused(f"`{place}` is neither text, nor a number, nor true or false")


def _statuses(given: JsonValue) -> frozenset[int] | None:
    if not isinstance(given, list):
        return None
    return frozenset(item for item in given if isinstance(item, int) and not isinstance(item, bool))


def redirect_request(request: httpx2.Request, status: int, location: str) -> httpx2.Request:
    """The request that a redirect asks for.

    Another origin gets neither the headers of the document nor its body: both may contain secrets that are meant for
    the first origin only.
    """
    url = _checked(request.url.join(location))
    same_origin = url.origin == request.url.origin
    keeps_body = status in (307, 308) or request.method in ("GET", "HEAD")
    if keeps_body and request.content and not same_origin:
        message = f"{request.url.host} redirects to {url.host}, and the request has a body that was not meant for it"
        raise RequestRefused(message)
    dropped = {"host"} if keeps_body else {"host", "content-length", "content-type"}
    headers = {
        name: value
        for name, value in request.headers.items()
        if name not in dropped and (same_origin or name in _ORIGIN_FREE_HEADERS)
    }
    return httpx2.Request(
        request.method if keeps_body else "GET",
        url,
        headers=headers,
        content=request.content if keeps_body else None,
        extensions=request.extensions,
    )


def request_action(call: ActivityCall, request: httpx2.Request) -> NodeAction:
    """Return a request as policies see it: without its query, headers and body, and with secrets masked.

    The host is in lower case, in its ASCII form and without a dot at its end; escapes in the path are resolved.
    """
    url = request.url
    host = call.masked(url.raw_host.decode("ascii").strip("[]").rstrip(".").lower())
    facts: JsonObject = {
        "method": request.method,
        "scheme": url.scheme,
        "host": host,
        "port": url.port or _PORTS[url.scheme],
        "path": call.masked(url.path),
    }
    return NodeAction(resource=host, facts=facts)


def mask_secrets(plan: RequestPlan, text: str) -> str:
    """Mask the values of the request's own headers and query in a text that the server sent."""
    request = plan.request
    sent: list[str] = [value for name, value in request.headers.items() if name not in _ORIGIN_FREE_HEADERS]
    sent.extend(value for _, value in request.url.params.multi_items())
    words = {word for value in sent for word in (value, *value.split())}
    own = request.url.netloc.decode("ascii")
    return mask(text, tuple(sorted(word for word in words if len(word) >= _SECRET_CHARACTERS_MIN and word != own)))
