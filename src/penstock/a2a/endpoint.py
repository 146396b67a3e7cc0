"""The addresses of A2A agents: cards with GET, JSON-RPC with POST.

A caller who is not known, or an agent that is not exposed, is a problem of HTTP; everything behind that is an answer of
JSON-RPC. Cards need a key as everything does: which agents a tenant has is not for strangers.

Above it: `surface`. Below it: `methods`, `cards`, `exchange`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from penstock.a2a.cards import PROTOCOL_VERSION, card_of
from penstock.a2a.errors import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    VERSION_NOT_SUPPORTED,
    RpcError,
    error_body,
    rpc_error,
)
from penstock.a2a.exchange import Exchange
from penstock.a2a.legacy import LEGACY_METHODS, LEGACY_VERSION, LegacyMethod
from penstock.a2a.methods import METHODS, STREAMS
from penstock.asgi import request_id_of
from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.errors import NotFound, PenstockError
from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.operations.catalogue.capability import EventStream, StreamEvent
from penstock.operations.catalogue.errors import report_failure
from penstock.operations.gate.pipeline import Gate
from penstock.rest.endpoints import ConcurrencyLimit
from penstock.rest.responses import method_not_allowed, send_options, send_problem, send_response
from penstock.rest.sse import send_events

__all__ = ["CardEndpoint", "RpcEndpoint"]

_LOGGER = logging.getLogger("penstock.api")
_JSON = (b"content-type", b"application/json")
_VERSION = "a2a-version"


@dataclass(slots=True)
class _Place:
    """A place among the requests that are answered at once."""

    busy: ConcurrencyLimit
    held: bool = False

    def take(self) -> None:
        self.busy.enter()
        self.held = True

    def give_back(self) -> None:
        if self.held:
            self.held = False
            self.busy.leave()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Endpoint:
    """What both kinds of addresses do."""

    gate: Gate
    busy: ConcurrencyLimit
    max_body_bytes: int
    server_url: str | None = None

    async def _answer(self, exchange: Exchange, send: Send, place: _Place) -> None:
        raise NotImplementedError

    def _allowed(self) -> str:
        raise NotImplementedError

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        allowed = f"{self._allowed()}, OPTIONS"
        if scope["method"] == "OPTIONS":
            await send_options(send, allowed)
            return
        place = _Place(self.busy)
        try:
            place.take()
            if scope["method"] not in allowed.split(", "):
                raise method_not_allowed(scope["method"], allowed)
            exchange = Exchange.of(self.gate, (scope, receive, send), max_body_bytes=self.max_body_bytes)
            await self._answer(exchange, send, place)
        except PenstockError as error:
            await send_problem(send, scope, error)
        except Exception as error:
            request_id = request_id_of(scope)
            await send_problem(send, scope, report_failure(_LOGGER, f"request {request_id} failed", request_id, error))
        finally:
            place.give_back()


async def _exposed(exchange: Exchange) -> dict[str, Any]:
    """Return the description of the agent of an address, or of the only agent if the address names none."""
    arguments: JsonObject = {"agent_id": exchange.agent_id} if exchange.agent_id else {}
    cards = (await exchange.call("agent.cards", arguments))["items"]
    if len(cards) == 1:
        found: dict[str, Any] = cards[0]
        return found
    if exchange.agent_id or not cards:
        message = f"there is no agent {exchange.agent_id} for A2A" if exchange.agent_id else "no agent is exposed"
        raise NotFound("AGENT_NOT_FOUND", message, "set `expose: {a2a: true}` in the document of an agent")
    addresses = ", ".join(f"/a2a/{card['agent_id']}" for card in cards[:10])
    raise NotFound("AGENT_NOT_FOUND", "there are several agents; ask for the card of one of them", f"see {addresses}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CardEndpoint(_Endpoint):
    """The card of an agent, or of the only one."""

    def _allowed(self) -> str:
        return "GET, HEAD"

    async def _answer(self, exchange: Exchange, send: Send, place: _Place) -> None:
        card = await _exposed(exchange)
        host = exchange.headers.get("host", "")
        base_url = self.server_url or f"{exchange.scope.get('scheme', 'http')}://{host}"
        await _send_json(send, card_of(card, base_url.rstrip("/")))


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcEndpoint(_Endpoint):
    """The JSON-RPC address of an agent."""

    def _allowed(self) -> str:
        return "POST"

    async def _answer(self, exchange: Exchange, send: Send, place: _Place) -> None:
        content = await exchange.body()
        await _exposed(exchange)
        request_id: JsonValue = None
        try:
            request = _request(content)
            request_id = request.get("id")
            method = _method(exchange, request)
            params = method.params(object_or_empty(request.get("params")))
            stream = STREAMS.get(method.name)
            if stream is not None:
                news = _Told(stream(exchange, params), method.result, request_id)
                await self._stream(exchange, send, news, place)
                return
            result = method.result(await METHODS[method.name](exchange, params))
            answer: JsonObject = {"jsonrpc": "2.0", "id": request_id, "result": result}
        except RpcError as error:
            answer = error_body(request_id, error)
        except PenstockError as error:
            answer = error_body(request_id, rpc_error(error))
        await _send_json(send, answer)

    async def _stream(self, exchange: Exchange, send: Send, news: _Told, place: _Place) -> None:
        """Send a stream. What is refused before it begins is an ordinary answer."""
        async with aclosing(news.events):
            first = await anext(news.events)
            place.give_back()  # a stream may last for hours, and has limits of its own
            stream = EventStream(events=news.after(first), retry_ms=limits.STREAM_RETRY_MS)
            await send_events(stream, exchange.receive, send, self.gate.services.telemetry, "a2a")


@dataclass(frozen=True, slots=True)
class _Told:
    """The events of a stream, and how they are put."""

    events: AsyncGenerator[JsonObject, None]
    put: Callable[[JsonObject], JsonValue]
    request_id: JsonValue

    async def after(self, first: JsonObject) -> AsyncIterator[StreamEvent]:
        """Yield everything from the first event on; a refusal in the middle is the last one."""
        try:
            yield self._event(first)
            async for event in self.events:
                yield self._event(event) if event else StreamEvent(event=None)
        except RpcError as error:
            yield StreamEvent(event="message", data=error_body(self.request_id, error))
        except PenstockError as error:
            yield StreamEvent(event="message", data=error_body(self.request_id, rpc_error(error)))

    def _event(self, event: JsonObject) -> StreamEvent:
        data: JsonObject = {"jsonrpc": "2.0", "id": self.request_id, "result": self.put(event)}
        return StreamEvent(event="message", data=data)


def _request(content: bytes) -> JsonObject:
    try:
        request = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RpcError(PARSE_ERROR, "the body is not JSON", "MALFORMED_JSON", "send one request in UTF-8") from None
    if not isinstance(request, dict) or request.get("jsonrpc") != "2.0" or not isinstance(request.get("method"), str):
        raise RpcError(
            INVALID_REQUEST, "the body is not a request of JSON-RPC 2.0", "MALFORMED_REQUEST", "send one object"
        )
    if "id" in request and not (request["id"] is None or isinstance(request["id"], str | int)):
        raise RpcError(INVALID_REQUEST, "`id` must be a text or a number", "MALFORMED_REQUEST", "send such an id")
    found: JsonObject = request
    return found


def _method(exchange: Exchange, request: JsonObject) -> LegacyMethod:
    """Return the method that a request calls, in the version of the protocol that it is of."""
    name, asked = str(request["method"]), exchange.headers.get(_VERSION)
    if asked and not _is_version(asked, PROTOCOL_VERSION) and not _is_version(asked, LEGACY_VERSION):
        raise _version(f"version {asked[:20]} of the protocol is not supported")
    found = LEGACY_METHODS.get(name)
    exchange.legacy = found is not None
    if found is None and (name in METHODS or name in STREAMS):
        found = LegacyMethod(name, lambda params: params, lambda result: result)
    if found is None:
        known = ", ".join((*METHODS, *STREAMS))
        raise RpcError(METHOD_NOT_FOUND, f"there is no method {name[:64]}", "METHOD_NOT_FOUND", known)
    if asked and not _is_version(asked, LEGACY_VERSION if exchange.legacy else PROTOCOL_VERSION):
        raise _version(f"{name} is not a method of version {asked[:20]}")
    return found


def _version(message: str) -> RpcError:
    spoken = f"speak {PROTOCOL_VERSION} or {LEGACY_VERSION}"
    return RpcError(VERSION_NOT_SUPPORTED, message, "VERSION_NOT_SUPPORTED", spoken)


def _is_version(asked: str, version: str) -> bool:
    """Whether a client asks for a version; numbers after it change nothing that is sent."""
    return asked == version or asked.startswith(f"{version}.")


async def _send_json(send: Send, body: JsonObject) -> None:
    await send_response(send, 200, encode_bytes(body), [_JSON, (b"cache-control", b"no-store")])
