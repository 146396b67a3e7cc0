"""A client of one MCP server, over HTTP or over the standard input and output of a program that it starts.

    async with connect_mcp(HttpServer(url="http://127.0.0.1:5151/mcp", headers={...})) as client:
        await client.call_tool("greet", {"name": "Ada"})

The SDK's client runs in a task of its own, so that its errors arrive unwrapped and sessions may be closed in any order.
Over HTTP a request that finds no server waits for one: a client outlives a restart.

Above it: `penstock mcp call|tools|doctor`, tests. Below it: the SDK's client, which takes most of a second to import;
so this module is imported when a command connects.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, assert_never

import httpx2
from mcp.client.client import Client
from mcp.client.extension import ClientExtension
from mcp.client.session import ElicitationFnT
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, Implementation
from pydantic import ValidationError

from penstock import __version__
from penstock.base.errors import Unavailable
from penstock.base.json import JsonObject
from penstock.cli.mcp.answers import invalid_answer, protocol_error
from penstock.cli.mcp.servers import HttpServer, McpServer, StdioServer

__all__ = ["ANSWER_ERRORS", "ConnectOptions", "ToolListing", "connect_mcp", "every_tool", "list_tools", "server_name"]

ANSWER_ERRORS: tuple[type[Exception], ...] = (RuntimeError, ValidationError)
"""What the SDK raises when the answer of a server is not what it should be."""

_CONNECT_SECONDS = 10.0
# What the SDK says of a connection that has ended.
_CLOSED = "Connection closed"
_HELLO_SECONDS = 60.0
_RETRY_SECONDS = 0.1
_RETRY_SECONDS_MAX = 2.0
_STREAM = "text/event-stream"
_PAGES_MAX = 100
_LIST_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions:
    """How a client connects and behaves."""

    era: str = "auto"
    """`auto`, `legacy`, or a version of the newest era."""
    ask: ElicitationFnT | None = None
    """Asks the person; without it, the client declares that nobody can be asked."""
    extensions: tuple[ClientExtension, ...] = ()
    timeout_seconds: float | None = None
    """How long one request may take; None for as long as it takes."""
    patience_seconds: float = 0.0
    """How long a request waits for a server that was there before and is away."""


class _RetryingClient(httpx2.AsyncClient):
    """Waits for a server that is away, and turns a failed request into an answer that says so.

    The SDK lets one request that fails end the whole session.
    """

    patience_seconds: float = 0.0
    was_there: bool = False

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send the request."""
        until = time.monotonic() + (self.patience_seconds if self.was_there else 0.0)
        pause = _RETRY_SECONDS
        while True:
            try:
                response = await super().send(request, **options)
                if not response.headers.get("content-type", "").startswith(_STREAM):
                    await response.aread()  # so that a body that breaks off raises here too
                self.was_there = True
                return response
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                # Nothing was sent: it can be tried again.
                if time.monotonic() + pause > until:
                    return _refusal(request, f"{request.url} cannot be reached: {error}")
            except httpx2.TransportError as error:
                return _refusal(
                    request, f"the connection to {request.url} was lost: {str(error) or type(error).__name__}"
                )
            await asyncio.sleep(pause)
            pause = min(pause * 2, _RETRY_SECONDS_MAX)


def _refusal(request: httpx2.Request, message: str) -> httpx2.Response:
    hint = "check that the server runs there; `penstock mcp doctor` checks the connection step by step"
    error = {"code": CONNECTION_CLOSED, "message": message, "data": {"hint": hint}}
    return httpx2.Response(503, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request)


@asynccontextmanager
async def connect_mcp(server: McpServer, options: ConnectOptions | None = None) -> AsyncIterator[Client]:
    """A client that is connected, until the block ends."""
    options = options or ConnectOptions()
    connected: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
    closing = asyncio.Event()

    async def hold() -> None:
        async with AsyncExitStack() as stack:
            transport = await _transport(stack, server, options)
            client = Client(
                transport,
                mode=options.era,
                elicitation_callback=options.ask,
                extensions=list(options.extensions) or None,
                read_timeout_seconds=options.timeout_seconds,
                client_info=Implementation(name="penstock", version=__version__),
            )
            await stack.enter_async_context(client)
            connected.set_result(client)
            await closing.wait()

    holding = asyncio.create_task(hold())
    try:
        done = (holding, connected)
        await asyncio.wait(done, timeout=_HELLO_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if holding.done():
            await _raise_cause(holding, server)
        if not connected.done():
            message = f"the server did not say hello within {_HELLO_SECONDS:g} s"
            raise Unavailable("TIMEOUT", message, "is it an MCP server? check the address or the program")
        yield connected.result()
    finally:
        closing.set()
        if not connected.done():
            holding.cancel()
        await asyncio.wait((holding,))
        if not holding.cancelled():
            # The block is over: how the session ends no longer matters.
            holding.exception()


async def _transport(stack: AsyncExitStack, server: McpServer, options: ConnectOptions) -> Any:
    match server:
        case HttpServer(url=url, headers=headers):
            timeout = httpx2.Timeout(None, connect=_CONNECT_SECONDS)
            http = await stack.enter_async_context(_RetryingClient(headers=dict(headers), timeout=timeout))
            http.patience_seconds = options.patience_seconds
            return streamable_http_client(url, http_client=http)
        case StdioServer(command=command, arguments=arguments, environment=environment):
            variables = None if environment is None else dict(environment)
            parameters = StdioServerParameters(command=command, args=list(arguments), env=variables)
            # The program's own log goes to the real standard error, even where this process has replaced it.
            return stdio_client(parameters, errlog=sys.__stderr__ or sys.stderr)
        case _:
            assert_never(server)


async def _raise_cause(holding: asyncio.Task[None], server: McpServer) -> None:
    """Raise the reason why there is no client."""
    try:
        await holding
    except BaseExceptionGroup as group:
        error = _first(group)
        raise _explained(error, server) from group
    except (OSError, MCPError) as error:
        raise _explained(error, server) from error


def _explained(error: BaseException, server: McpServer) -> BaseException:
    """The error of a program that could not be used, explained; other errors stay as they are."""
    if isinstance(server, HttpServer):
        return error
    match error:
        case OSError():
            message, hint = (
                f"{server.command} cannot be started: {error.strerror or error}",
                "check the program and its path",
            )
        case MCPError() if error.error.code == CONNECTION_CLOSED and error.error.message == _CLOSED:
            # Programs use this number for errors of their own too, such as a bridge whose server is not there.
            message, hint = f"{server.command} ended before it said hello", "run it in a terminal to see why"
        case _:
            return error
    return Unavailable("CONNECTION_FAILED", message, hint)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error in a group, and in the groups inside of it."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


# --- what a server offers -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolListing:
    """What a server offers; tools are in the words of the wire."""

    version: str
    server: str | None
    tools: tuple[JsonObject, ...]


async def list_tools(server: McpServer, era: str) -> ToolListing:
    """Ask a server for its tools; a refusal is raised as one of our errors."""
    try:
        async with connect_mcp(server, ConnectOptions(era=era, timeout_seconds=_LIST_TIMEOUT_SECONDS)) as client:
            return ToolListing(
                version=client.protocol_version, server=server_name(client), tools=tuple(await every_tool(client))
            )
    except MCPError as error:
        raise protocol_error(error.error.code, error.error.message, error.error.data) from error
    except ANSWER_ERRORS as error:
        raise invalid_answer(error) from error


async def every_tool(client: Client) -> list[JsonObject]:
    """The tools of all pages."""
    found: list[JsonObject] = []
    cursor: str | None = None
    for _ in range(_PAGES_MAX):
        page = await client.list_tools(cursor=cursor)
        found += [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in page.tools]
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def server_name(client: Client) -> str | None:
    """What a server calls itself, with its version."""
    info = client.server_info
    return None if info is None else f"{info.name} {info.version}"
