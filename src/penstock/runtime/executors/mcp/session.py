"""One session with an MCP server, which stays open between calls.

A session lives in a task of its own, because the library ties its streams to the task that opened them; calls from any
task borrow it. When a server dies, or an address stops answering, the calls in progress fail and the next call opens a
new session. One failing HTTP request does not disturb the others of its session. If the server's tools are imported,
they are listed before the session is first used, and again when they change.

Above it: `session_pool` decides who gets which session. Below it: the official `mcp` client, which supports both
protocol eras and chooses between them. It knows nothing of activities, results or error codes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, TypeAlias

import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    ErrorData,
    Implementation,
    ListRootsResult,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    RootsListChangedNotification,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from penstock.base import limits
from penstock.base.errors import PenstockError, Unavailable
from penstock.base.json import JsonObject
from penstock.runtime.executors.mcp.checked_messages import CheckedReader
from penstock.runtime.executors.mcp.config import McpServerConfig
from penstock.runtime.executors.mcp.lending import existing_folders, listed_roots
from penstock.runtime.executors.mcp.oauth.challenges import challenge_of
from penstock.runtime.executors.mcp.questions import ElicitationRouter
from penstock.runtime.executors.mcp.stdio import StdioIntake, bounded_stdio
from penstock.runtime.executors.outbound.bounded_body import ACCEPTED_ENCODING, TOO_LARGE, BodyMode, ResponseLimits
from penstock.runtime.executors.outbound.httpx2_limits import ResponseTooLarge, is_event_stream, limit_response
from penstock.runtime.executors.outbound.tls_trust import trusted_certificates
from penstock.runtime.extras import DISTRIBUTION
from penstock.runtime.upstreams.lending import Lending
from penstock.runtime.upstreams.oauth.model import BearerSource, authorization_failed
from penstock.runtime.upstreams.tools import UpstreamTool

__all__ = ["UNAUTHORIZED", "UNSENT", "McpSession", "SessionOptions", "SessionOwner", "ToolLister"]

_LOGGER = logging.getLogger("penstock.mcp")
_CLIENT_INFO = Implementation(name="penstock", version=version(DISTRIBUTION))
# In the data of our own errors: the request has not left this machine, so it may be sent again.
UNSENT = "penstock/unsent"
# In the data of our own errors: there is no token for the request. It has the code and whether another try may help.
UNAUTHORIZED = "penstock/unauthorized"
_ANSWER = ResponseLimits(bytes_max=limits.UPSTREAM_ANSWER_BYTES_MAX, tokens_max=limits.UPSTREAM_ANSWER_TOKENS_MAX)
_CONNECT_SECONDS = 10.0
_LAST_WORDS_SECONDS = 0.5

# The owner of a session's calls: a tenant, and the principal on whose behalf its run acts.
SessionOwner: TypeAlias = tuple[str, str | None]
# Lists the tools of a server over a session.
ToolLister: TypeAlias = Callable[[str, Client], Awaitable[Sequence[UpstreamTool]]]
_Streams = tuple[Any, Any]
_LISTEN_AGAIN_SECONDS = 5.0
_NOT_TOLD = (INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND)


class _AnsweringClient(httpx2.AsyncClient):
    """Turns a failed request into a response that reports the failure.

    The library lets one request that cannot be sent end the whole session, with every call in progress. It also gives
    each request its token, here and not as `auth` of the client: a refusal is then read within the same limits as
    everything else, and requests do not wait for each other.
    """

    def __init__(self, name: str = "", bearer: BearerSource | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._name = name
        self._bearer = bearer

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send the request. If it cannot be sent, return an error response."""
        try:
            # Always as a stream: otherwise the whole body is in memory before it can be limited.
            response = await self._authorized(request, {**options, "stream": True})
            try:
                events = is_event_stream(response) and options.get("stream", False)
                limit_response(response, _ANSWER, BodyMode.EVENTS if events else BodyMode.WHOLE)
                if not events:
                    await response.aread()  # so that a body that breaks off raises here too
            except BaseException:
                await response.aclose()
                raise
            return response
        except PenstockError as error:  # there is no token for the request
            message = f"{error.message}; {error.hint}" if error.hint else error.message
            found = {"code": error.code, "retryable": isinstance(error, Unavailable)}
            return _refusal(request, INVALID_REQUEST, message, {UNAUTHORIZED: found})
        except ResponseTooLarge as error:
            return _refusal(request, INVALID_REQUEST, str(error), {TOO_LARGE: True})
        except httpx2.DecodingError as error:
            return _refusal(request, INVALID_REQUEST, f"the answer cannot be decoded: {error}", {})
        except httpx2.RequestError as error:
            unsent = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
            message = f"Connection closed: {type(error).__name__}"
            return _refusal(request, CONNECTION_CLOSED, message, {UNSENT: unsent})

    async def _authorized(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """Send the request with a token, and again with another one if the server refuses it."""
        bearer = self._bearer
        if bearer is None:
            return await super().send(request, **options)
        token = await bearer.token()
        for renewals in range(limits.OAUTH_RENEWALS_MAX + 1):
            if token is not None:
                request.headers["authorization"] = f"Bearer {token}"
            response = await super().send(request, **options)
            challenge = challenge_of(response)
            if challenge is None:
                return response
            await response.aclose()
            token = await bearer.renewed(challenge, token, again=renewals > 0)
        raise authorization_failed(self._name, "the server refuses every token")


def _refusal(request: httpx2.Request, code: int, message: str, data: dict[str, Any]) -> httpx2.Response:
    answer = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message, "data": data}}
    return httpx2.Response(503, json=answer, request=request)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """How a session is opened: how its tools are listed, for whom it is, and what its server is lent."""

    look: ToolLister | None = None
    owner: SessionOwner | None = None
    lending: Lending | None = None


class McpSession:
    """One session with one server, and the task that owns it."""

    def __init__(
        self,
        name: str,
        config: McpServerConfig,
        on_end: Callable[[McpSession], None],
        options: SessionOptions | None = None,
    ) -> None:
        chosen = options or SessionOptions()
        self.name = name
        self.config = config
        self.owner = chosen.owner
        self.lending = chosen.lending
        """What the server may use."""
        self.on_updated: Callable[[str], None] = lambda uri: None
        """Called with the address of a resource that an older server reports as changed."""
        self._told_folders: tuple[str, ...] | None = None
        self.shared = False
        """True if calls of different owners may share the session: its server asks only in answers to calls."""
        self.elicitations = ElicitationRouter(self._flooded)
        self.retired = False
        self.flooded = False
        """True if the session was lost because its server sent too much."""
        self.borrowed = 0
        self._intake = StdioIntake(self._flooded)
        self._is_doubtful = False
        self.looked_at: float | None = None
        """When the server's tools were last listed over this session, on the monotonic clock."""
        self.schemas: dict[str, JsonObject | None] | None = None
        """The output schemas by tool; None until they are first needed."""
        self._version: str | None = None
        self._look_lock = asyncio.Lock()
        self._look = chosen.look
        self._changed = asyncio.Event()
        self._closing = asyncio.Event()
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._idle: asyncio.TimerHandle | None = None
        # An empty context: everything in the session happens on behalf of its calls, not of the task that opens it.
        self._task = asyncio.create_task(self._own(), name=f"mcp {name}", context=Context())
        self._task.add_done_callback(lambda _: on_end(self))

    async def client(self) -> Client:
        """Wait for the handshake and return the client. Raises the error if the handshake failed."""
        # Several callers may wait: one that is cancelled must not take the session from the others.
        return await asyncio.shield(self._client)

    def acquire(self) -> None:
        """Count a user of the session."""
        self.borrowed += 1
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def release(self, idle_seconds: float) -> None:
        """Release the session. The last user starts the idle timer after which it is closed."""
        self.borrowed -= 1
        if self.borrowed > 0 or self.retired:
            return
        if self._is_clogged():
            self.retire()
        else:
            self._is_doubtful = False
            self._idle = asyncio.get_running_loop().call_later(idle_seconds, self.retire)

    def mark_doubtful(self) -> None:
        """Record that a caller left without an answer."""
        self._is_doubtful = True

    def accepts_calls(self) -> bool:
        """True if a call may start here. Otherwise the session closes after the last call that somebody waits for."""
        if self.retired:
            return False
        if not self._is_clogged():
            return True
        if self.elicitations.calls_left()[0] == 0:
            self.retire()
        return False

    def _is_clogged(self) -> bool:
        """True if the next call would have to wait for output of an earlier call that is still in the pipe."""
        left = self._is_doubtful or self.elicitations.calls_left()[1] > 0
        return self._intake.is_amid_a_skipped_line or (left and self._intake.is_behind)

    def retire(self) -> None:
        """Retire the session: it is not lent any more, and its task closes it."""
        self.retired = True
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        self._closing.set()

    async def ended(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the session is closed and its server stopped. False if that takes too long."""
        done, _ = await asyncio.wait([self._task], timeout=timeout_seconds)
        return bool(done)

    async def close(self) -> None:
        """Close the session and wait for it, up to a limit."""
        self.retire()
        if not await self.ended(limits.FAREWELL_SECONDS_MAX):
            self._task.cancel()
            await self.ended(limits.FAREWELL_SECONDS_MAX)

    async def look(self, client: Client, *, older_than_seconds: float = 0.0) -> None:
        """List the tools, unless that was done a moment ago. Many calls share one listing."""
        if self._look is None:
            return
        async with self._look_lock:
            now = time.monotonic()
            if self.looked_at is None or now - self.looked_at >= older_than_seconds:
                self.listed(await self._look(self.name, client))
                self.looked_at = now

    def listed(self, tools: Sequence[UpstreamTool]) -> None:
        """Store the output schemas of the tools."""
        self.schemas = {tool.name: tool.output_schema for tool in tools}

    async def tell_folders(self, client: Client) -> None:
        """Notify an older server if the existing folders differ from those in its last listing.

        Servers of the newest era ask whenever they need to know.
        """
        told = self._told_folders
        if told is None or client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        if await existing_folders(self.lending) != told:
            self._told_folders = None
            await client.session.send_notification(RootsListChangedNotification())

    async def _list_roots(self, context: object) -> ListRootsResult | ErrorData:
        if not self.elicitations.has_call():
            return ErrorData(code=INVALID_REQUEST, message="folders are listed during a call of a tool only")
        self._told_folders = folders = await existing_folders(self.lending)
        return listed_roots(folders)

    async def _own(self) -> None:
        lent = self.lending or Lending()
        try:
            async with (
                asyncio.timeout(limits.MCP_CONNECT_SECONDS_MAX) as patience,
                Client(
                    self._transport(),
                    mode=self.config.protocol,
                    client_info=_CLIENT_INFO,
                    cache=None,
                    read_timeout_seconds=limits.MCP_CONNECT_SECONDS_MAX,
                    elicitation_callback=self.elicitations.asked,
                    # A capability is declared if there is a callback for it.
                    sampling_callback=None if lent.sampling is None else self.elicitations.sampled,
                    list_roots_callback=self._list_roots if lent.folders else None,
                    logging_callback=self.elicitations.logged,
                    message_handler=self._on_message,
                ) as client,
            ):
                self._version = client.protocol_version
                await self.look(client)
                patience.reschedule(None)
                # A server of the newest era asks only in its answers, and over HTTP it has no sessions.
                self.shared = self.config.url is not None and client.protocol_version in MODERN_PROTOCOL_VERSIONS
                self.elicitations.only_named = self.shared
                self._client.set_result(client)
                _LOGGER.debug("%s: session open (%s)", self.name, client.protocol_version)
                async with self._watching_tools(client):
                    await self._closing.wait()
        except Exception as error:  # any error of the server, the network or the library ends this session
            self._failed(error)
        finally:
            self.retired = True
            if not self._client.done():
                closed = MCPError(CONNECTION_CLOSED, "Connection closed")
                self._client.set_exception(_too_large() if self.flooded else closed)
                self._client.exception()

    async def _on_message(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification | ResourceListChangedNotification):
            self._changed.set()
        elif isinstance(message, ResourceUpdatedNotification):
            self.on_updated(str(message.params.uri))

    @asynccontextmanager
    async def _watching_tools(self, client: Client) -> AsyncIterator[None]:
        """List the tools again when they change, and from time to time in case no notification arrives."""
        if self._look is None:
            yield
            return
        tasks = [asyncio.create_task(self._look_again(client))]
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            tasks.append(asyncio.create_task(self._listen(client)))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=limits.FAREWELL_SECONDS_MAX)

    async def _look_again(self, client: Client) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(limits.UPSTREAM_LOOK_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            try:
                await self.look(client)
            except Exception as error:
                _LOGGER.info("%s: its tools could not be listed: %r", self.name, error)
                if self.borrowed <= 1:  # nobody but the task that keeps the session open
                    self.retire()
                    return
            await asyncio.sleep(limits.UPSTREAM_LOOK_PAUSE_SECONDS)

    async def _listen(self, client: Client) -> None:
        """Listen for changes in the way of servers of the newest era."""
        pause_seconds = _LISTEN_AGAIN_SECONDS
        while True:
            try:
                async with client.listen(tools_list_changed=True, resources_list_changed=True) as subscription:
                    async for _ in subscription:
                        self._changed.set()
            except (SubscriptionLost, TimeoutError):
                self._changed.set()  # missed notifications are not repeated
            except MCPError as error:
                if error.code in _NOT_TOLD:
                    _LOGGER.debug("%s: it does not report changes: %s", self.name, error)
                    return
                self._changed.set()
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, limits.UPSTREAM_LOOK_SECONDS)

    def _failed(self, error: Exception) -> None:
        if self._client.done():
            _LOGGER.debug("%s: session ended: %r", self.name, error)
            return
        self._client.set_exception(_too_large() if self.flooded else _innermost(error))
        self._client.exception()  # read it once, so that asyncio does not warn about an exception that nobody retrieved

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[_Streams]:
        config = self.config
        if config.url is not None:
            # Each call decides how long an answer may take.
            timeout = httpx2.Timeout(_CONNECT_SECONDS, read=None)
            headers = {**config.headers, "accept-encoding": ACCEPTED_ENCODING}
            async with (
                _AnsweringClient(
                    self.name, config.bearer, headers=headers, timeout=timeout, verify=await trusted_certificates()
                ) as http,
                # Events are limited below the library, like everything else.
                streamable_http_client(config.url, http_client=http, max_sse_event_size=None) as (reader, writer),
            ):
                yield CheckedReader(reader, self.retire, self._protocol), writer
            return
        parameters = StdioServerParameters(
            command=config.command or "", args=list(config.args), env=dict(config.env), cwd=config.cwd
        )
        async with (
            _logged_errors(self.name) as errors,
            bounded_stdio(parameters, errors, self._intake) as (reader, writer),
        ):
            yield CheckedReader(reader, self.retire, self._protocol), writer

    def _protocol(self) -> str | None:
        return self._version

    def _flooded(self) -> None:
        """End the session: the server sends too much, and nothing tells which call it belongs to."""
        self.flooded = True
        self.retire()


@asynccontextmanager
async def _logged_errors(name: str) -> AsyncIterator[Any]:
    """A file for the error output of a server process. Every line of it is logged."""
    if os.name == "nt":  # its event loop cannot read from such a pipe
        yield sys.stderr
        return
    reading, writing = os.pipe()
    stream = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reading, "rb"))
    logger = logging.getLogger(f"penstock.mcp.{name}")

    async def copy() -> None:
        with suppress(ValueError):  # a line without an end: the server does not write a log
            async for line in stream:
                logger.info("%s", line.decode("utf-8", "replace").rstrip())

    copying = asyncio.create_task(copy())
    try:
        with os.fdopen(writing, "w") as file:
            yield file
    finally:
        # The last lines often give the reason. A descendant that keeps the pipe open is not waited for.
        await asyncio.wait([copying], timeout=_LAST_WORDS_SECONDS)
        pipe.close()
        copying.cancel()


def _too_large() -> MCPError:
    return MCPError(INVALID_REQUEST, TOO_LARGE, {TOO_LARGE: True})


def _innermost(error: Exception) -> Exception:
    """The error itself, unwrapped from the exception groups of the library's task groups."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
