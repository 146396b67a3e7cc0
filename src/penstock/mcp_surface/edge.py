"""The edge of MCP over HTTP: who may come in, before anything of the SDK is touched.

Host and Origin are checked first (a web page must not reach a server on this machine by another name), then the key:
without a valid one the answer is 401 and says how to show one. The SDK is loaded by the first request that gets
through; a server without it answers everything else and says here what is missing.

Above it: `app` mounts it. Below it: the gate's authentication; an engine that is loaded when it is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

import msgspec
from starlette.types import Receive, Scope, Send

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.calls import Caller
from penstock.mcp_surface.options import McpOptions
from penstock.operations.context import Credentials, Principal
from penstock.operations.errors import mapping_of
from penstock.operations.pipeline import Gate

__all__ = ["CALLER", "CALLER_STATE", "Engine", "McpEdge"]

CALLER: ContextVar[Caller | None] = ContextVar("penstock_mcp_caller", default=None)
CALLER_STATE = "mcp_caller"
"""Where the caller of a request stands in the state of its scope."""

_METHODS = "GET, POST, DELETE"
_BEARER = "bearer "
_INVALID_REQUEST = -32600


class Engine(Protocol):
    """What speaks MCP with those who were let in."""

    async def handle(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

    async def stop(self) -> None:
        """End every session and every stream."""


class McpEdge:
    """The endpoint."""

    def __init__(self, gate: Gate, options: McpOptions, load: Callable[[], Awaitable[Engine]]) -> None:
        self._gate = gate
        self._options = options
        self._load = load
        self._engine: Engine | None = None
        self._loading = asyncio.Lock()
        self._at_work = 0
        self._idle = asyncio.Event()
        self._closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        refused = self._unwelcome(scope)
        if refused is not None:
            await _send_error(send, *refused)
            return
        if self._at_work >= self._options.max_concurrent_requests and scope["method"] == "POST":
            told = "the server works on as many MCP requests as it can; try again in a moment"
            await _send_error(send, 503, told, headers=((b"retry-after", b"1"),))
            return
        counts = scope["method"] == "POST"
        self._at_work += counts
        try:
            await self._let_in(scope, receive, send)
        finally:
            self._at_work -= counts
            if self._at_work == 0:
                self._idle.set()

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        credentials = Credentials(bearer=_bearer(scope))
        try:
            principal = await self._gate.authenticator.authenticate(credentials)
            engine = await self._loaded()
        except PenstockError as error:
            await _send_refusal(send, error, key_was_sent=credentials.bearer is not None)
            return
        client = scope.get("client")
        request_id = str(scope.get("state", {}).get("request_id", ""))
        caller = Caller(
            principal=principal,
            credentials=credentials,
            request_id=request_id,
            remote=client[0] if client else None,
            toolset=_toolset(scope),
        )
        state = scope.setdefault("state", {})
        state[CALLER_STATE] = caller
        state["principal"] = principal.id
        token = CALLER.set(caller)
        try:
            await engine.handle(principal, scope, receive, send)
        finally:
            CALLER.reset(token)

    async def _loaded(self) -> Engine:
        if self._engine is not None:
            return self._engine
        async with self._loading:
            if self._engine is None:
                self._engine = await self._load()
            return self._engine

    async def close(self) -> None:
        """Take no more requests, answer those under way for a moment, then end every session and every stream."""
        self._closed = True
        self._idle.clear()
        if self._at_work:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), limits.DRAIN_WAIT_SECONDS)
        async with self._loading:
            if self._engine is not None:
                await self._engine.stop()
                self._engine = None

    def _unwelcome(self, scope: Scope) -> tuple[int, str] | None:
        """The status and the words for a request that is not let in, whoever sends it."""
        if self._closed:
            return 503, "the server is stopping"
        if scope["method"] not in ("GET", "POST", "DELETE"):
            return 405, f"use {_METHODS}"
        host = _header(scope, b"host") or ""
        allowed = self._options.allowed_hosts
        if allowed is not None and _name_of(host) not in allowed:
            return 421, f"this server is not called {host[:100]}; set server.public_url to the address that clients use"
        origin = _header(scope, b"origin")
        if origin is not None and not self._is_welcome_origin(origin, host):
            return 403, f"pages of {origin[:100]} may not call; list it in server.cors.origins"
        return None

    def _is_welcome_origin(self, origin: str, host: str) -> bool:
        listed = self._options.allowed_origins
        if "*" in listed or origin in listed:
            return True
        return urlsplit(origin).netloc == host


def _header(scope: Scope, wanted: bytes) -> str | None:
    return next((value.decode("latin-1").strip() for name, value in scope["headers"] if name == wanted), None)


def _name_of(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[").lower()
    return host.partition(":")[0].lower()


def _toolset(scope: Scope) -> str | None:
    """The tools that the address asks for."""
    given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("toolset")
    return ",".join(given)[: limits.MCP_TOOLSET_CHARACTERS_MAX] if given else None


def _bearer(scope: Scope) -> str | None:
    value = _header(scope, b"authorization") or ""
    return value[len(_BEARER) :].strip() if value[: len(_BEARER)].lower() == _BEARER else None


async def _send_refusal(send: Send, error: PenstockError, *, key_was_sent: bool) -> None:
    known = mapping_of(error)
    data: JsonObject = {"code": error.code, "hint": error.hint}
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if known.status == 401:  # noqa: PLR2004
        problem = ', error="invalid_token"' if key_was_sent else ""
        headers = ((b"www-authenticate", f'Bearer realm="penstock"{problem}'.encode()),)
    await _send_error(send, known.status, error.message, code=known.json_rpc, data=data, headers=headers)


async def _send_error(
    send: Send,
    status: int,
    message: str,
    *,
    code: int = _INVALID_REQUEST,
    data: JsonValue = None,
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> None:
    error: JsonObject = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error})
    own = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    if status == 405:  # noqa: PLR2004
        own.append((b"allow", _METHODS.encode()))
    await send({"type": "http.response.start", "status": status, "headers": own})
    await send({"type": "http.response.body", "body": body})
