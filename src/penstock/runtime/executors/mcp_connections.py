"""One session with an MCP server, which stays open between calls.

A session lives in a task of its own, because the library ties its streams to the task that opened them; calls from any
task borrow it. A server that dies, or an address that stops answering, costs the calls that are under way; the next
call opens a new session. One failing HTTP request does not disturb the others of its session. Where somebody wants to
know the server's tools, they are listed before the session is lent for the first time, and again when they change.

Above it: `mcp_pool` decides who gets which session. Below it: the official `mcp` client, which speaks both protocol
eras and chooses between them. It knows nothing of activities, results or error codes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from importlib.metadata import version
from types import TracebackType
from typing import Any, TypeAlias

import anyio
import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Implementation,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from penstock.base import limits
from penstock.runtime.executors.mcp_config import McpServerConfig
from penstock.runtime.executors.mcp_questions import CallDesk

__all__ = ["UNSENT", "Look", "McpConnection", "Owner"]

_LOGGER = logging.getLogger("penstock.mcp")
_CLIENT_INFO = Implementation(name="penstock", version=version("penstock"))
# In the data of an error that we make ourselves: the request has not left this machine, so it may be sent again.
UNSENT = "penstock/unsent"
_CONNECT_SECONDS = 10.0
_LAST_WORDS_SECONDS = 0.5
_EVENT_END = b"\n\n"

# Whose calls a session carries: a tenant, and the principal on whose behalf its run is.
Owner: TypeAlias = tuple[str, str | None]
# Lists the tools of a server over a session, for whoever wants to know.
Look: TypeAlias = Callable[[str, Client], Awaitable[None]]
_Streams = tuple[Any, Any]
_LISTEN_AGAIN_SECONDS = 5.0
_NOT_TOLD = (INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND)


class _EndWatch:
    """A read stream that tells when it has come to its end: then the server is gone."""

    def __init__(self, inner: Any, on_end: Callable[[], None]) -> None:
        self._inner = inner
        self._on_end = on_end

    async def receive(self) -> SessionMessage | Exception:
        """The next message."""
        try:
            received: SessionMessage | Exception = await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._on_end()
            raise
        return received

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    def __aiter__(self) -> _EndWatch:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _EndWatch:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _Bounded(httpx2.AsyncByteStream):
    """What a server sends, as long as no answer or event of it is unreasonably large: it would be kept in memory."""

    def __init__(self, inner: httpx2.AsyncByteStream, *, events: bool) -> None:
        self._inner = inner
        self._events = events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._inner:
            _, ended, rest = part.replace(b"\r", b"").rpartition(_EVENT_END)
            size = len(rest) if ended and self._events else size + len(part)
            if size > limits.UPSTREAM_ANSWER_BYTES_MAX:
                raise httpx2.ReadError(f"the server sent more than {limits.UPSTREAM_ANSWER_BYTES_MAX} bytes at once")
            yield part

    async def aclose(self) -> None:
        """Close it."""
        await self._inner.aclose()


class _AnsweringClient(httpx2.AsyncClient):
    """Turns a request that failed into an answer that says so.

    The library lets one request that cannot be sent end the whole session, with every call that is under way in it.
    """

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send the request; what cannot be sent is answered here."""
        try:
            # Always as a stream: otherwise all of it is in memory before anybody looks.
            response = await super().send(request, **{**options, "stream": True})
            events = response.headers.get("content-type", "").startswith("text/event-stream")
            if isinstance(response.stream, httpx2.AsyncByteStream):
                response.stream = _Bounded(response.stream, events=events)
            if not events or not options.get("stream", False):
                await response.aread()  # so that a body that breaks off ends here too
            return response
        except httpx2.TransportError as error:
            unsent = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
            told = {"code": CONNECTION_CLOSED, "message": f"Connection closed: {type(error).__name__}"}
            answer = {"jsonrpc": "2.0", "id": None, "error": {**told, "data": {UNSENT: unsent}}}
            return httpx2.Response(503, json=answer, request=request)


class McpConnection:
    """One session with one server, and the task that owns it."""

    def __init__(
        self,
        name: str,
        config: McpServerConfig,
        on_end: Callable[[McpConnection], None],
        look: Look | None = None,
        owner: Owner | None = None,
    ) -> None:
        self.name = name
        self.config = config
        self.owner = owner
        self.shared = False
        """Whether calls of anybody may be in it: it asks nothing but in answer to a call."""
        self.desk = CallDesk()
        self.lost = False
        self.borrowed = 0
        self._look = look
        self._changed = asyncio.Event()
        self._closing = asyncio.Event()
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._idle: asyncio.TimerHandle | None = None
        # Whoever opens the session is not the one on whose behalf everything in it happens.
        self._task = asyncio.create_task(self._own(), name=f"mcp {name}", context=Context())
        self._task.add_done_callback(lambda _: on_end(self))

    async def client(self) -> Client:
        """The client, as soon as the server has said hello; raises what kept it from that."""
        # Several callers may wait: one that gives up must not take the session from the others.
        return await asyncio.shield(self._client)

    def lend(self) -> None:
        """Somebody uses the session."""
        self.borrowed += 1
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def give_back(self, idle_seconds: float) -> None:
        """Somebody is done; the last one starts the time after which the session is closed."""
        self.borrowed -= 1
        if self.borrowed == 0 and not self.lost:
            self._idle = asyncio.get_running_loop().call_later(idle_seconds, self.lose)

    def lose(self) -> None:
        """Give the session up: nobody gets it any more, and its task closes it."""
        self.lost = True
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        self._closing.set()

    async def ended(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the session is closed and its server stopped; False if that takes too long."""
        done, _ = await asyncio.wait([self._task], timeout=timeout_seconds)
        return bool(done)

    async def close(self) -> None:
        """Close the session and wait for it, but not for ever."""
        self.lose()
        if not await self.ended(limits.FAREWELL_SECONDS_MAX):
            self._task.cancel()
            await self.ended(limits.FAREWELL_SECONDS_MAX)

    async def _own(self) -> None:
        try:
            async with (
                asyncio.timeout(limits.MCP_CONNECT_SECONDS_MAX) as patience,
                Client(
                    self._transport(),
                    mode=self.config.protocol,
                    client_info=_CLIENT_INFO,
                    cache=None,
                    read_timeout_seconds=limits.MCP_CONNECT_SECONDS_MAX,
                    elicitation_callback=self.desk.asked,
                    message_handler=self._heard,
                ) as client,
            ):
                if self._look is not None:
                    await self._look(self.name, client)
                patience.reschedule(None)
                # A server of the newest era asks by answering, and over HTTP it knows no sessions.
                self.shared = self.config.url is not None and client.protocol_version in MODERN_PROTOCOL_VERSIONS
                self.desk.only_named = self.shared
                self._client.set_result(client)
                _LOGGER.debug("%s: session open (%s)", self.name, client.protocol_version)
                async with self._looking(client):
                    await self._closing.wait()
        except Exception as error:  # whatever the server, the network or the library does: this session is over
            self._failed(error)
        finally:
            self.lost = True
            if not self._client.done():
                self._client.set_exception(MCPError(CONNECTION_CLOSED, "Connection closed"))
                self._client.exception()

    async def _heard(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._changed.set()

    @asynccontextmanager
    async def _looking(self, client: Client) -> AsyncIterator[None]:
        """Look at the tools again when they change, and now and then in case nobody says so."""
        if self._look is None:
            yield
            return
        tasks = [asyncio.create_task(self._look_again(client, self._look))]
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            tasks.append(asyncio.create_task(self._listen(client)))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=limits.FAREWELL_SECONDS_MAX)

    async def _look_again(self, client: Client, look: Look) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(limits.UPSTREAM_LOOK_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            try:
                await look(self.name, client)
            except Exception as error:
                _LOGGER.info("%s: its tools could not be listed: %r", self.name, error)
                if self.borrowed <= 1:  # nobody but whoever keeps the session open
                    self.lose()
                    return

    async def _listen(self, client: Client) -> None:
        """Hear of changes as servers of the newest era tell them."""
        pause_seconds = _LISTEN_AGAIN_SECONDS
        while True:
            try:
                async with client.listen(tools_list_changed=True) as subscription:
                    async for _ in subscription:
                        self._changed.set()
            except (SubscriptionLost, TimeoutError):
                self._changed.set()  # nobody repeats what was missed
            except MCPError as error:
                if error.code in _NOT_TOLD:
                    _LOGGER.debug("%s: it does not tell of changes: %s", self.name, error)
                    return
                self._changed.set()
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, limits.UPSTREAM_LOOK_SECONDS)

    def _failed(self, error: Exception) -> None:
        if self._client.done():
            _LOGGER.debug("%s: session ended: %r", self.name, error)
            return
        self._client.set_exception(_innermost(error))
        self._client.exception()  # read once, so that a connection nobody waits for any more leaves no warning

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[_Streams]:
        config = self.config
        if config.url is not None:
            # How long an answer may take is decided by each call.
            timeout = httpx2.Timeout(_CONNECT_SECONDS, read=None)
            async with (
                _AnsweringClient(headers=dict(config.headers), timeout=timeout) as http,
                streamable_http_client(config.url, http_client=http) as streams,
            ):
                yield streams
            return
        parameters = StdioServerParameters(
            command=config.command or "", args=list(config.args), env=dict(config.env), cwd=config.cwd
        )
        async with _logged_errors(self.name) as errors, stdio_client(parameters, errlog=errors) as (reader, writer):
            yield _EndWatch(reader, self.lose), writer


@asynccontextmanager
async def _logged_errors(name: str) -> AsyncIterator[Any]:
    """A file for the error output of a server process; every line of it goes to the log."""
    if os.name == "nt":  # its event loop cannot read from such a pipe
        yield sys.stderr
        return
    reading, writing = os.pipe()
    stream = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reading, "rb"))
    logger = logging.getLogger(f"penstock.mcp.{name}")

    async def copy() -> None:
        with suppress(ValueError):  # a line without end: its server writes no log
            async for line in stream:
                logger.info("%s", line.decode("utf-8", "replace").rstrip())

    copying = asyncio.create_task(copy())
    try:
        with os.fdopen(writing, "w") as file:
            yield file
    finally:
        # Last words are often the reason for them; a grandchild that keeps the pipe open is not waited for.
        await asyncio.wait([copying], timeout=_LAST_WORDS_SECONDS)
        pipe.close()
        copying.cancel()


def _innermost(error: Exception) -> Exception:
    """The error itself, where the library's task groups have wrapped it."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
