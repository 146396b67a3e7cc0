"""The executor of `http` nodes: one request, one response.

`address_guard` decides before every connection where a request may go, redirects included. The result is ``{status,
headers, body}``. The body is JSON if the response says so, text if it is text, otherwise ``{"base64": …}``. Only
headers that are useful to a workflow and contain no secret are kept.

Above it: `app` adds it to the router. Below it: `outbound.guarded_transport`, `requests`, httpx2.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing

import httpx2
import msgspec

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue, exceeds_depth
from penstock.governance.secret_hosts import NOT_FOR_HOST, fits_host
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityError, ActivityOutcome
from penstock.runtime.address_guard import AddressDenied, AddressGuard
from penstock.runtime.executors.http.requests import (
    RequestPlan,
    RequestRefused,
    mask_secrets,
    plan_request,
    redirect_request,
    request_action,
)
from penstock.runtime.executors.outbound.bounded_body import BodyMode, ResponseLimits
from penstock.runtime.executors.outbound.guarded_transport import GuardedTransport, Resolver, resolve_host
from penstock.runtime.executors.outbound.httpx2_limits import ResponseTooLarge, ResponseUndecodable, limit_response
from penstock.runtime.executors.outbound.json_tokens import has_more_tokens

__all__ = ["HttpExecutor"]

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_KEPT_HEADERS = frozenset(
    {
        "content-language",
        "content-type",
        "date",
        "etag",
        "last-modified",
        "link",
        "location",
        "retry-after",
        "x-request-id",
        "x-total-count",
    }
)
_BEFORE_SENDING = "http11.send_request_headers.started"
_BODY = ResponseLimits(bytes_max=limits.HTTP_RESPONSE_BYTES_MAX)
_JSON_DECODER = msgspec.json.Decoder()
# How much of an error response is read, and how much of it an error text shows.
_FAILURE_BYTES_READ = 4_096
_FAILURE_CHARACTERS_SHOWN = 300


class _NotDecodable(Exception):
    """The body does not match the response headers."""


class HttpExecutor:
    """Performs HTTP requests.

    `allow_private` and `allow_hosts` are arguments of `AddressGuard`; `verify` and `resolve` are arguments of
    `GuardedTransport`.
    """

    def __init__(
        self,
        *,
        allow_private: bool = False,
        allow_hosts: Sequence[str] | None = None,
        verify: ssl.SSLContext | None = None,
        resolve: Resolver = resolve_host,
    ) -> None:
        guard = AddressGuard(allow_private, tuple(allow_hosts or ()))
        self.transport = GuardedTransport(guard, verify=verify, resolve=resolve)

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Send the request of one attempt."""
        return await self.send(call, lambda: plan_request(call.activity, epoch=call.epoch))

    async def send(self, call: ActivityCall, make_plan: Callable[[], RequestPlan]) -> ActivityOutcome:
        """Send a request that is made here, so that one that cannot be made is an outcome like any other."""
        try:
            plan = make_plan()
            plan.request.extensions["trace"] = _confirming(call)
            refused = _secrets_refusal(call, plan.request) or await call.refusal(request_action(call, plan.request))
            if refused is not None:
                return refused
            async with asyncio.timeout(plan.timeout_ms / 1000):
                return await self._follow(call, plan)
        except (TimeoutError, httpx2.TimeoutException):
            message = f"the request of {call.activity.node_id} was not answered in time"
            return ActivityError(message, "TIMEOUT")
        except AddressDenied as error:
            hint = "an operator can allow it with `allow_hosts`"
            return ActivityError(f"{error}; {hint}", "HTTP_ADDRESS_DENIED", retryable=False)
        except RequestRefused as error:
            return ActivityError(str(error), "HTTP_REQUEST_INVALID", retryable=False)
        except (httpx2.InvalidURL, httpx2.LocalProtocolError, httpx2.UnsupportedProtocol) as error:
            return ActivityError(f"the request cannot be sent: {error}", "HTTP_REQUEST_INVALID", retryable=False)
        except ResponseTooLarge as error:
            return ActivityError(str(error), "HTTP_RESPONSE_TOO_LARGE", retryable=False)
        except (_NotDecodable, ResponseUndecodable) as error:
            return ActivityError(f"the answer cannot be read: {error}", "HTTP_RESPONSE_INVALID")
        except httpx2.ConnectError as error:
            return ActivityError(f"no connection: {error}", "HTTP_CONNECT_FAILED")
        except httpx2.HTTPError as error:
            message = f"the exchange broke off: {type(error).__name__}"
            return ActivityError(message, "HTTP_PROTOCOL_ERROR")

    async def close(self) -> None:
        """Close the connections."""
        await self.transport.aclose()

    async def _follow(self, call: ActivityCall, plan: RequestPlan) -> ActivityOutcome:
        request = plan.request
        for _ in range(limits.HTTP_REDIRECTS_MAX + 1):
            response = await self.transport.handle_async_request(request)
            try:
                location = response.headers.get("location")
                if not plan.follow_redirects or response.status_code not in _REDIRECTS or not location:
                    return await _outcome(plan, request, response)
                request = redirect_request(request, response.status_code, location)
            finally:
                await response.aclose()
            # Where it leads is another request, and policies may permit one and not the other.
            refused = _secrets_refusal(call, request) or await call.refusal(request_action(call, request))
            if refused is not None:
                return refused
        message = f"more than {limits.HTTP_REDIRECTS_MAX} redirects"
        return ActivityError(message, "HTTP_REDIRECT_LOOP", retryable=False)


def _confirming(call: ActivityCall) -> Callable[[str, object], Awaitable[None]]:
    """A trace hook that confirms our ownership just before sending: resolving and connecting may have taken a while."""

    async def trace(event: str, info: object) -> None:
        if event == _BEFORE_SENDING:
            await call.confirm()

    return trace


async def _outcome(plan: RequestPlan, request: httpx2.Request, response: httpx2.Response) -> ActivityOutcome:
    status = response.status_code
    if plan.is_success(status):
        limit_response(response, _BODY)
        body = _value(response, await response.aread())
        kept: JsonObject = {
            name: mask_secrets(plan, text) for name, text in response.headers.items() if name in _KEPT_HEADERS
        }
        return ActivityDone({"status": status, "headers": kept, "body": body})
    message = f"{request.method} {request.url.host} answered {status}"
    if status in _REDIRECTS:
        message += ", a redirect; set `follow_redirects` to follow it"
    excerpt = await _excerpt(plan, response)
    retryable = status in plan.retry_on_status
    return ActivityError(f"{message}: {excerpt}" if excerpt else message, f"HTTP_{status}", retryable=retryable)


async def _excerpt(plan: RequestPlan, response: httpx2.Response) -> str:
    """The start of an error response, for people, without the values of the request headers."""
    found = b""
    try:
        limit_response(response, _BODY, BodyMode.PIECES)
        async with aclosing(response.aiter_bytes()) as chunks:
            async for part in chunks:
                found += part
                if len(found) >= _FAILURE_BYTES_READ:
                    break
    except httpx2.HTTPError:
        return ""  # the status alone is enough
    text = " ".join(found[:_FAILURE_BYTES_READ].decode("utf-8", errors="replace").split())
    text = mask_secrets(plan, text) if text.isprintable() else ""
    return text if len(text) <= _FAILURE_CHARACTERS_SHOWN else text[:_FAILURE_CHARACTERS_SHOWN] + "…"


def _value(response: httpx2.Response, body: bytes) -> JsonValue:
    if not body:
        return None
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type == "application/json" or media_type.endswith("+json"):
        return _json(body)
    try:
        return body.decode(response.charset_encoding or "utf-8")
    except (UnicodeDecodeError, LookupError):
        return {"base64": base64.b64encode(body).decode("ascii")}


def _json(body: bytes) -> JsonValue:
    if has_more_tokens(body, limits.HTTP_RESPONSE_TOKENS_MAX):
        raise ResponseTooLarge(f"the answer has more than {limits.HTTP_RESPONSE_TOKENS_MAX} values")
    try:
        value: JsonValue = _JSON_DECODER.decode(body)
    except (ValueError, RecursionError) as error:
        raise _NotDecodable(f"it says that it is JSON, but {error}") from None
    if exceeds_depth(value, limits.JSON_DEPTH_MAX):
        raise _NotDecodable(f"it nests deeper than {limits.JSON_DEPTH_MAX} levels")
    return value


def _secrets_refusal(call: ActivityCall, request: httpx2.Request) -> ActivityError | None:
    """Return why a request is not sent: its secrets are bound to other hosts. None if it may be."""
    host = request.url.host
    if call.secret_hosts is None or fits_host(host, call.secret_hosts):
        return None
    message = f"the secrets of {call.activity.node_id} are bound to other hosts than {call.masked(host)}"
    hint = "an operator can bind them to it with `secret_hosts`"
    return ActivityError(f"{message}; {hint}", NOT_FOR_HOST, retryable=False)
