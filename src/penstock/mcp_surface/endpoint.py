"""The MCP endpoint over HTTP: decides which requests get through, before the SDK sees any of them.

Host and Origin are checked first (a web page must not reach a server on this machine under another name), then the key:
without a valid one the answer is 401 and says how to send one. No principal can use up all slots for requests in
flight. The first request that gets through loads the backend, and with it the SDK.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from typing import NamedTuple, Protocol, TypeAlias
from urllib.parse import parse_qs, urlsplit

from starlette.types import Receive, Scope, Send

from penstock.asgi import AUDITED, CODE, HttpOrigin, State, read_messages, remote_of, replayed, request_id_of, send_body
from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.audit import reason_of
from penstock.mcp_surface.callers import Caller
from penstock.mcp_surface.missing_scopes import MissingScopes
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.rates import error_data, retry_headers
from penstock.mcp_surface.tools.graph_tools import GRAPH_TOOLSET
from penstock.mcp_surface.wire.codes import INVALID_REQUEST, UNSUPPORTED_VERSION
from penstock.mcp_surface.wire.messages import error_message
from penstock.mcp_surface.wire.versions import (
    id_in,
    is_modern,
    only_message,
    pinned_body,
    refused_version,
    unsupported,
    with_header,
)
from penstock.operations.catalogue.errors import mapping_of
from penstock.operations.gate.context import Credentials, Principal
from penstock.operations.gate.pipeline import Gate

__all__ = ["CALLER", "CALLER_STATE", "HEADERS_STATE", "WHOLE_KEYS_STATE", "McpBackend", "McpEndpoint", "not_in_flight"]

CALLER: ContextVar[Caller | None] = ContextVar("penstock_mcp_caller", default=None)
CALLER_STATE = "mcp_caller"
"""Request state key: the caller."""
HEADERS_STATE = "mcp_headers"
"""Request state key: the headers by name; of repeated headers, the first."""
WHOLE_KEYS_STATE = "mcp_whole_keys"
"""Request state key: whether questions are identified by their whole ids."""

_IN_FLIGHT_STATE = "mcp_work"
# When all slots are taken, one principal may hold at most 1/_SHARES of them.
_SHARES = 4
_HOSTS_KEPT = 64
_METHODS = "GET, POST, DELETE"
_BEARER = b"bearer "

_Headers: TypeAlias = dict[bytes, bytes]


class McpBackend(Protocol):
    """Answers requests that the endpoint has authenticated."""

    async def handle(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

    async def stop(self) -> None:
        """End every session and every stream."""


class _EarlyRefusal(NamedTuple):
    """Why a request is refused before its key is checked: status and message for the client, reason for the log."""

    status: int
    message: str
    reason: str


class McpEndpoint:
    """The ASGI application at the MCP path."""

    surface = "mcp"

    def __init__(self, gate: Gate, options: McpOptions, load: Callable[[], Awaitable[McpBackend]]) -> None:
        self._gate = gate
        self._options = options
        self._load = load
        self._backend: McpBackend | None = None
        self._loading = asyncio.Lock()
        self._in_flight = _InFlight()
        self._missing_scopes = MissingScopes(gate, options)
        self._share = max(1, options.max_concurrent_requests // _SHARES)
        """How many requests one principal may have in flight when the server is over its limit."""
        self._known_hosts: dict[bytes, str] = {}
        """Host headers that passed the check: the bytes as sent, with their text."""
        self._idle = asyncio.Event()
        self._closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers = _headers(scope)
        refused = self._early_refusal(scope, headers)
        state = scope.setdefault("state", {})
        if refused is not None:
            state[CODE] = refused.reason
            await _send_error(send, refused.status, refused.message)
            return
        state[HEADERS_STATE] = headers
        if scope["method"] != "POST":
            await self._authenticate_and_handle(headers, scope, receive, send)
            return
        in_flight = self._in_flight
        if in_flight.total >= self._options.max_concurrent_requests + self._share:
            await _send_busy(send, state)
            return
        state[_IN_FLIGHT_STATE] = counted = _InFlightRequest(in_flight)
        try:
            await self._authenticate_and_handle(headers, scope, receive, send)
        finally:
            counted.end()
            if in_flight.total == 0 and self._closed:
                self._idle.set()

    def _exceeds_share(self, principal: Principal) -> bool:
        """Return whether a principal that already has its share sends another request while the server is full."""
        is_full = self._in_flight.total > self._options.max_concurrent_requests
        return is_full and self._in_flight.by_principal.get(principal.id, 0) >= self._share

    async def _authenticate_and_handle(self, headers: _Headers, scope: Scope, receive: Receive, send: Send) -> None:
        credentials, state = Credentials(bearer=_bearer(headers)), scope["state"]
        request_id, remote = request_id_of(scope), remote_of(scope)
        try:
            principal = self._gate.recognised(credentials) or await self._gate.authenticate(
                credentials, surface="mcp", request_id=request_id, remote=remote, origin=HttpOrigin(scope)
            )
            backend = self._backend or await self._loaded()
        except PenstockError as error:
            state[CODE] = error.code
            if error.on_record:
                state[AUDITED] = True
            await _send_refusal(send, error, key_was_sent=credentials.bearer is not None)
            return
        state["principal"] = principal
        counted: _InFlightRequest | None = state.get(_IN_FLIGHT_STATE)
        if counted is not None:
            if self._exceeds_share(principal):
                await _send_busy(send, state)
                return
            counted.belongs_to(principal.id)
        only = self._options.protocol_version
        if only is not None:
            wrong = refused_version(only, scope)
            if wrong is not None:
                state[CODE] = reason_of(UNSUPPORTED_VERSION)
                await _send_version_error(only, wrong, receive, send)
                return
            scope, receive = with_header(only, scope), await _pinned(only, scope, receive)
        caller = Caller(
            principal=principal,
            request_id=request_id,
            remote=remote,
            origin=HttpOrigin(scope),
            toolset=_toolset(scope),
            whole_keys=state.get(WHOLE_KEYS_STATE, False),
            address=self._options.public_url or self._address(scope, headers),
        )
        state[CALLER_STATE] = caller
        if principal.token is not None and scope["method"] == "POST":
            received, body = await read_messages(receive)
            refused = await self._missing_scopes.refusal(caller, body or b"")
            if refused is not None:
                state.update({CODE: refused.code, AUDITED: True})
                await _send_refusal(send, refused, key_was_sent=True)
                return
            receive = replayed(received, receive)
        await backend.handle(principal, scope, receive, send)

    async def load(self) -> None:
        """Load the backend before the first request needs it, unless the server is stopping."""
        if not self._closed:
            await self._loaded()

    async def _loaded(self) -> McpBackend:
        if self._backend is not None:
            return self._backend
        async with self._loading:
            if self._backend is None:
                self._backend = await self._load()
            return self._backend

    async def close(self) -> None:
        """Refuse new requests, wait briefly for those in flight, then end every session and stream."""
        self._closed = True
        self._idle.clear()
        if self._in_flight.total:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), limits.DRAIN_WAIT_SECONDS)
        async with self._loading:
            if self._backend is not None:
                await self._backend.stop()
                self._backend = None

    def _early_refusal(self, scope: Scope, headers: _Headers) -> _EarlyRefusal | None:
        """Return why a request is refused regardless of its sender, or None."""
        if self._closed:
            return _EarlyRefusal(503, "the server is stopping", "SERVER_STOPPING")
        if scope["method"] not in ("GET", "POST", "DELETE"):
            return _EarlyRefusal(405, f"use {_METHODS}", "METHOD_NOT_ALLOWED")
        if len(headers) != len(scope["headers"]) and _is_repeated(scope, b"authorization"):
            message = "the header Authorization is given twice: a request has one key or one token"
            return _EarlyRefusal(400, message, "CREDENTIALS_AMBIGUOUS")
        if b"origin" not in headers and headers.get(b"host", b"") in self._known_hosts:
            return None
        host = _text(headers, b"host") or ""
        allowed = self._options.allowed_hosts
        if allowed is not None and _name_of(host) not in allowed:
            message = f"this server is not called {host[:100]}; set server.public_url to the address that clients use"
            return _EarlyRefusal(421, message, "HOST_NOT_ALLOWED")
        origin = _text(headers, b"origin")
        if origin is not None and not self._is_allowed_origin(origin, host):
            message = f"pages of {origin[:100]} may not call; list it in server.cors.origins"
            return _EarlyRefusal(403, message, "ORIGIN_NOT_ALLOWED")
        if len(self._known_hosts) < _HOSTS_KEPT:
            self._known_hosts[headers.get(b"host", b"")] = host
        return None

    def _address(self, scope: Scope, headers: _Headers) -> str | None:
        """Return the address under which the caller reached the server."""
        host = self._known_hosts.get(headers.get(b"host", b"")) or _text(headers, b"host")
        return f"{scope.get('scheme', 'http')}://{host}" if host else None

    def _is_allowed_origin(self, origin: str, host: str) -> bool:
        listed = self._options.allowed_origins
        if "*" in listed or origin in listed:
            return True
        return urlsplit(origin).netloc == host


class _InFlight:
    """Counts the requests in flight, in total and by principal."""

    __slots__ = ("by_principal", "total")

    def __init__(self) -> None:
        self.total = 0
        self.by_principal: dict[str, int] = {}


class _InFlightRequest:
    """One request in flight and its principal. It does not count while its caller is asked something."""

    __slots__ = ("_asking", "_in_flight", "_is_open", "_principal_id")

    def __init__(self, in_flight: _InFlight) -> None:
        self._in_flight = in_flight
        self._principal_id = ""
        self._is_open = True
        self._asking = 0
        in_flight.total += 1

    def belongs_to(self, principal_id: str) -> None:
        """Count the request for a principal from now on."""
        self._principal_id = principal_id
        by_principal = self._in_flight.by_principal
        by_principal[principal_id] = by_principal.get(principal_id, 0) + 1

    def end(self) -> None:
        """The request is answered: stop counting it."""
        self._is_open = False
        if not self._asking:
            self._leave()

    def _leave(self) -> None:
        in_flight, principal_id = self._in_flight, self._principal_id
        in_flight.total -= 1
        if principal_id:
            remaining = in_flight.by_principal[principal_id] - 1
            if remaining:
                in_flight.by_principal[principal_id] = remaining
            else:
                del in_flight.by_principal[principal_id]

    def _reenter(self) -> None:
        self._in_flight.total += 1
        if self._principal_id:
            self.belongs_to(self._principal_id)

    @contextmanager
    def not_in_flight(self) -> Iterator[None]:
        """Do not count the request inside this context.

        In a session, the request may end before the person who was asked answers.
        """
        if self._is_open and not self._asking:
            self._leave()
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            if self._is_open and not self._asking:
                self._reenter()


def not_in_flight(scope: Scope) -> AbstractContextManager[None]:
    """Do not count a request while it waits for a person or only listens: that may take an hour."""
    counted: _InFlightRequest | None = scope.get("state", {}).get(_IN_FLIGHT_STATE)
    return nullcontext() if counted is None else counted.not_in_flight()


def _headers(scope: Scope) -> _Headers:
    """Return the headers by name; of repeated headers, the first counts."""
    return dict(reversed(scope["headers"]))


def _is_repeated(scope: Scope, wanted: bytes) -> bool:
    return [name for name, _ in scope["headers"]].count(wanted) > 1


def _text(headers: _Headers, wanted: bytes) -> str | None:
    value = headers.get(wanted)
    return None if value is None else value.decode("latin-1").strip()


async def _send_version_error(only: str, wrong: str, receive: Receive, send: Send) -> None:
    _, body = await read_messages(receive)
    error = error_message(id_in(body), UNSUPPORTED_VERSION, only_message(only), unsupported(only, wrong))
    await _send_answer(send, 400, error)


async def _pinned(only: str, scope: Scope, receive: Receive) -> Receive:
    """Return a `receive` in which `initialize` proposes the only revision that is served."""
    if is_modern(only) or scope["method"] != "POST" or b"mcp-session-id" in _headers(scope):
        return receive
    received, body = await read_messages(receive)
    changed = pinned_body(only, body) if body is not None else None
    return replayed(received if changed is None else [changed], receive)


def _name_of(host: str) -> str:
    """Return the host name in a Host header, without its port."""
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[").lower()
    return host.partition(":")[0].lower()


def _toolset(scope: Scope) -> str | None:
    """Return the toolset that the address asks for: the graph in its path, or what its query names."""
    graph_id = scope.get("path_params", {}).get("graph_id")
    if isinstance(graph_id, str):
        return f"{GRAPH_TOOLSET}{graph_id}"[: limits.MCP_TOOLSET_CHARACTERS_MAX]
    query: bytes = scope.get("query_string", b"")
    given = parse_qs(query.decode("latin-1")).get("toolset") if query else None
    return ",".join(given)[: limits.MCP_TOOLSET_CHARACTERS_MAX] if given else None


def _bearer(headers: _Headers) -> str | None:
    value = headers.get(b"authorization", b"").strip()
    return value[len(_BEARER) :].strip().decode("latin-1") if value[: len(_BEARER)].lower() == _BEARER else None


async def _send_busy(send: Send, state: State) -> None:
    state[CODE] = "TOO_MANY_REQUESTS_IN_FLIGHT"
    message = "the server works on as many MCP requests as it can; try again in a moment"
    await _send_error(send, 503, message, headers=((b"retry-after", b"1"),))


async def _send_refusal(send: Send, error: PenstockError, *, key_was_sent: bool) -> None:
    known = mapping_of(error)
    data = error_data(error)
    headers = tuple(retry_headers(error))
    if error.challenge is not None:
        headers = ((b"www-authenticate", error.challenge.encode("latin-1", "replace")),)
    elif known.status == 401:  # noqa: PLR2004
        problem = ', error="invalid_token"' if key_was_sent else ""
        headers = ((b"www-authenticate", f'Bearer realm="penstock"{problem}'.encode()),)
    await _send_error(send, known.status, error.message, code=known.json_rpc, data=data, headers=headers)


async def _send_error(
    send: Send,
    status: int,
    message: str,
    *,
    code: int = INVALID_REQUEST,
    data: JsonValue = None,
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> None:
    await _send_answer(send, status, error_message(None, code, message, data), headers)


async def _send_answer(
    send: Send, status: int, answer: JsonObject, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    body = encode_bytes(answer)
    own = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    if status == 405:  # noqa: PLR2004
        own.append((b"allow", _METHODS.encode()))
    await send_body(send, status, own, body)
