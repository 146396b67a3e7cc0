"""The executor of `http` nodes: one request, one answer.

Where a request may go is decided by `address_guard` before every connection, redirects included. The result is
``{status, headers, body}``: the body as JSON if the answer says it is JSON, as text if it is text, otherwise as
``{"base64": …}``; only headers that are no secret and of use to a workflow are kept.

Above it: `app` puts it into the router. Below it: `transport`, `requests`, httpx2.
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
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityError, ActivityOutcome
from penstock.runtime.address_guard import AddressDenied, AddressGuard
from penstock.runtime.executors.bounded.bodies import Bounds, Shape
from penstock.runtime.executors.bounded.http_answers import AnswerTooLarge, AnswerUndecodable, bound_answer
from penstock.runtime.executors.bounded.json_tokens import has_more_tokens
from penstock.runtime.executors.certificates import trust
from penstock.runtime.executors.http.requests import Plan, RequestRefused, plan_of, redirected, without_secrets
from penstock.runtime.executors.transport import GuardedTransport, Resolver, resolve_host

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
_BODY = Bounds(bytes_max=limits.HTTP_RESPONSE_BYTES_MAX)
_JSON_DECODER = msgspec.json.Decoder()
# How much of an answer that is a failure is worth reading, and how much of it an error text shows.
_FAILURE_BYTES_READ = 4_096
_FAILURE_CHARACTERS_SHOWN = 300


class _NotDecodable(Exception):
    """The answer is not what its headers say."""


class HttpExecutor:
    """Performs HTTP requests.

    `allow_private` and `allow_hosts` are what `AddressGuard` takes; `verify` says whom to trust, if not those whom the
    operating system trusts; `resolve` replaces the resolver of the operating system.
    """

    def __init__(
        self,
        *,
        allow_private: bool = False,
        allow_hosts: Sequence[str] | None = None,
        verify: ssl.SSLContext | None = None,
        resolve: Resolver = resolve_host,
        connections_max: int = limits.HTTP_CONNECTIONS_MAX,
    ) -> None:
        self._guard = AddressGuard(allow_private, tuple(allow_hosts or ()))
        self._verify = verify
        self._resolve = resolve
        self._connections_max = connections_max
        self._made: GuardedTransport | None = None

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Send the request of one attempt."""
        try:
            plan = plan_of(call.activity, epoch=call.epoch)
            plan.request.extensions["trace"] = _confirming(call)
            async with asyncio.timeout(plan.timeout_ms / 1000):
                return await self._follow(plan)
        except (TimeoutError, httpx2.TimeoutException):
            told = f"the request of {call.activity.node_id} was not answered in time"
            return ActivityError(told, "TIMEOUT")
        except AddressDenied as error:
            hint = "an operator can allow it with `allow_hosts`"
            return ActivityError(f"{error}; {hint}", "HTTP_ADDRESS_DENIED", retryable=False)
        except RequestRefused as error:
            return ActivityError(str(error), "HTTP_REQUEST_INVALID", retryable=False)
        except (httpx2.InvalidURL, httpx2.LocalProtocolError, httpx2.UnsupportedProtocol) as error:
            return ActivityError(f"the request cannot be sent: {error}", "HTTP_REQUEST_INVALID", retryable=False)
        except AnswerTooLarge as error:
            return ActivityError(str(error), "HTTP_RESPONSE_TOO_LARGE", retryable=False)
        except (_NotDecodable, AnswerUndecodable) as error:
            return ActivityError(f"the answer cannot be read: {error}", "HTTP_RESPONSE_INVALID")
        except httpx2.ConnectError as error:
            return ActivityError(f"no connection: {error}", "HTTP_CONNECT_FAILED")
        except httpx2.HTTPError as error:
            told = f"the exchange broke off: {type(error).__name__}"
            return ActivityError(told, "HTTP_PROTOCOL_ERROR")

    async def close(self) -> None:
        """Close the connections."""
        if self._made is not None:
            await self._made.aclose()

    async def _transport(self) -> GuardedTransport:
        # Made when it is first needed: few runs need it, and reading whom the machine trusts takes a while.
        made = self._made
        if made is not None:
            return made
        verify = self._verify or await trust()
        if self._made is None:  # nobody else has made one meanwhile
            self._made = GuardedTransport(
                self._guard,
                resolve=self._resolve,
                verify=verify,
                connections_max=self._connections_max,
            )
        return self._made

    async def _follow(self, plan: Plan) -> ActivityOutcome:
        request = plan.request
        for _ in range(limits.HTTP_REDIRECTS_MAX + 1):
            response = await (await self._transport()).handle_async_request(request)
            try:
                location = response.headers.get("location")
                if not plan.follow_redirects or response.status_code not in _REDIRECTS or not location:
                    return await _outcome(plan, request, response)
                request = redirected(request, response.status_code, location)
            finally:
                await response.aclose()
        told = f"more than {limits.HTTP_REDIRECTS_MAX} redirects"
        return ActivityError(told, "HTTP_REDIRECT_LOOP", retryable=False)


def _confirming(call: ActivityCall) -> Callable[[str, object], Awaitable[None]]:
    """What the connection calls before everything it does: resolving and connecting may have taken a while."""

    async def trace(event: str, info: object) -> None:
        if event == _BEFORE_SENDING:
            await call.confirm()

    return trace


async def _outcome(plan: Plan, request: httpx2.Request, response: httpx2.Response) -> ActivityOutcome:
    status = response.status_code
    if plan.is_success(status):
        bound_answer(response, _BODY)
        body = _value(response, await response.aread())
        kept: JsonObject = {
            name: without_secrets(plan, text) for name, text in response.headers.items() if name in _KEPT_HEADERS
        }
        return ActivityDone({"status": status, "headers": kept, "body": body})
    told = f"{request.method} {request.url.host} answered {status}"
    if status in _REDIRECTS:
        told += ", a redirect; set `follow_redirects` to follow it"
    excerpt = await _excerpt(plan, response)
    retryable = status in plan.retry_on_status
    return ActivityError(f"{told}: {excerpt}" if excerpt else told, f"HTTP_{status}", retryable=retryable)


async def _excerpt(plan: Plan, response: httpx2.Response) -> str:
    """The beginning of an answer that is a failure, for people; without what the request sent as headers."""
    found = b""
    try:
        bound_answer(response, _BODY, Shape.PIECES)
        async with aclosing(response.aiter_bytes()) as chunks:
            async for part in chunks:
                found += part
                if len(found) >= _FAILURE_BYTES_READ:
                    break
    except httpx2.HTTPError:
        return ""  # the status says enough
    text = " ".join(found[:_FAILURE_BYTES_READ].decode("utf-8", errors="replace").split())
    text = without_secrets(plan, text) if text.isprintable() else ""
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
        raise AnswerTooLarge(f"the answer has more than {limits.HTTP_RESPONSE_TOKENS_MAX} values")
    try:
        value: JsonValue = _JSON_DECODER.decode(body)
    except (ValueError, RecursionError) as error:
        raise _NotDecodable(f"it says that it is JSON, but {error}") from None
    if exceeds_depth(value, limits.JSON_DEPTH_MAX):
        raise _NotDecodable(f"it nests deeper than {limits.JSON_DEPTH_MAX} levels")
    return value
