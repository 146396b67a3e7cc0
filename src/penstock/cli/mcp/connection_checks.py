"""The checks of `penstock mcp doctor`, from the address to a call.

The first ones speak plain HTTP, so that they can say what exactly was refused. The others use the SDK's client, as an
assistant would. Nothing is changed on the server.

Above it: `doctor`, which imports this when it is called. Below it: `client`, an HTTP client.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.cli.mcp.answers import invalid_answer, size_text, token_estimate
from penstock.cli.mcp.client import ANSWER_ERRORS, ConnectOptions, connect_mcp, every_tool, server_name
from penstock.cli.mcp.oauth_checks import check_sign_in, metadata_address
from penstock.cli.mcp.servers import HttpServer, McpServer, StdioServer
from penstock.cli.terminal.checks import Check
from penstock.client.options import KEY_VARIABLE
from penstock.runtime.system import SystemClock

__all__ = ["check_connection"]

_STEP_SECONDS = 20.0
_MODERN = "2026-07-28"
_STRANGE_ORIGIN = "http://rebinding.invalid"
_SKEW_SECONDS_MAX = 30.0
# Tools of ours that change nothing: one says who answers, the other is asked for a run that cannot exist.
_INFO = "penstock_system_info"
_LOOK = "penstock_execution_status"
_NO_EXECUTION: JsonObject = {"execution_id": "penstock mcp doctor"}
_NOT_FOUND = "EXECUTION_NOT_FOUND"
_WRONG_HOST, _REFUSED, _NO_KEY = 421, 403, 401
_NOT_THERE = 404
_FAILURES: tuple[type[Exception], ...] = (MCPError, PenstockError, TimeoutError, *ANSWER_ERRORS)
_META = {
    "io.modelcontextprotocol/protocolVersion": _MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "penstock-doctor", "version": "1"},
}


async def check_connection(server: McpServer, *, ours: bool) -> AsyncIterator[Check]:
    """Check a connection step by step; stop where a further step makes no sense. `ours` is a server of Penstock."""
    if isinstance(server, HttpServer):
        probes = _Probes(server, ours=ours)
        async for check in probes.checks():
            yield check
        if probes.stopped:
            return
    else:
        found = _program(server)
        yield found
        if found.status == "fail":
            return
    for era in ("auto", "legacy"):
        checks = await _connected(server, era)
        for check in checks:
            yield check
        if checks[0].status == "fail":
            return


@dataclass(slots=True)
class _Probes:
    """What can be asked of an address before a client connects."""

    server: HttpServer
    ours: bool
    stopped: bool = False
    date: str | None = field(default=None, init=False)
    challenge: str | None = field(default=None, init=False)
    """The challenge that refuses a request without a key."""

    async def checks(self) -> AsyncIterator[Check]:
        """Address, names, key, clock."""
        reached = await _reach(self.server.url)
        yield reached
        self.stopped = reached.status == "fail"
        if self.stopped:
            return
        async with httpx2.AsyncClient(timeout=_STEP_SECONDS) as http:
            steps = (
                self._tried(http, self._names),
                check_sign_in(http, self.server.url, lambda: self.challenge),
                self._tried(http, self._key),
            )
            for step in steps:
                async for check in step:
                    yield check
                    self.stopped = self.stopped or check.status == "fail"
                if self.stopped:
                    return
        yield _clock(self.date)

    async def _tried(
        self, http: httpx2.AsyncClient, step: Callable[[httpx2.AsyncClient], Awaitable[Check]]
    ) -> AsyncIterator[Check]:
        try:
            yield await step(http)
        except httpx2.HTTPError as error:
            message = f"the address took the connection, but not the request: {str(error) or type(error).__name__}"
            yield Check(name="http", status="fail", message=message, hint="check http or https, and the port")

    def _without_key(self) -> dict[str, str]:
        return {name: value for name, value in self.server.headers.items() if name.lower() != "authorization"}

    async def _post(self, http: httpx2.AsyncClient, headers: dict[str, str]) -> httpx2.Response:
        """Send a request of the newest era; an older server refuses it in its own way."""
        body = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": _META}}
        sent = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": _MODERN,
            "Mcp-Method": "server/discover",
            **headers,
        }
        response = await http.post(self.server.url, json=body, headers=sent)
        self.date = response.headers.get("date") or self.date
        return response

    async def _names(self, http: httpx2.AsyncClient) -> Check:
        """Whether the server accepts its host name, and refuses pages of other origins."""
        host = urlsplit(self.server.url).netloc
        plain = await self._post(http, self._without_key())
        self.challenge = plain.headers.get("www-authenticate")
        if plain.status_code == _WRONG_HOST:
            hint = f"set server.public_url to an address with {host}, or use a name that the server knows"
            return Check(name="host", status="fail", message=f"the server does not answer to {host}", hint=hint)
        if plain.status_code == _NOT_THERE and b'"jsonrpc"' not in plain.content:
            message = f"there is nothing at {urlsplit(self.server.url).path or '/'} (404)"
            hint = "check the path: Penstock has MCP at /mcp, unless server.mcp.path says otherwise"
            return Check(name="path", status="fail", message=message, hint=hint)
        strange = await self._post(http, {"Origin": _STRANGE_ORIGIN, **self.server.headers})
        if strange.status_code == _REFUSED:
            return Check(name="host", status="ok", message=f"answers to {host} and refuses pages of other origins")
        message = f"answers to {host}, but also to a page of another origin"
        advice = "a page in a browser could call it: take * out of server.cors.origins" if self.ours else None
        return Check(name="host", status="warn", message=message, hint=advice)

    async def _key(self, http: httpx2.AsyncClient) -> Check:
        without = await self._post(http, self._without_key())
        response = await self._post(http, dict(self.server.headers)) if self.server.headers else without
        if response.status_code == _NO_KEY and metadata_address(self.challenge) and not self.server.headers:
            self.stopped = True  # a client would sign in now; the doctor has no browser
            message = "no key or token was given, so the checks as a client are left out"
            return Check(name="key", status="skip", message=message, hint="give one with --key-env NAME")
        if response.status_code == _NO_KEY:
            return Check(name="key", status="fail", message=_refused(response), hint=self._key_advice())
        if response.status_code >= 500:  # noqa: PLR2004
            return Check(name="key", status="fail", message=_refused(response), hint="look at the log of the server")
        if without.status_code == _NO_KEY:
            return Check(name="key", status="ok", message="the key is taken, and a request without one is refused")
        message = "the server takes requests without a key"
        return Check(name="key", status="warn" if self.ours else "ok", message=message)

    def _key_advice(self) -> str:
        if not self.ours:
            return "give the key with --key-env or --header"
        if self.server.headers:
            return "make a new one where the server runs: penstock key create --name NAME --scopes '[…]'"
        return f"put the key into {KEY_VARIABLE}, or name a profile that has one (penstock config profile add --help)"


def _refused(response: httpx2.Response) -> str:
    try:
        body = response.json()
    except ValueError:
        body = None
    error: Any = body.get("error") if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return f"refused with {response.status_code}" + (f": {message}" if message else "")


async def _reach(url: str) -> Check:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    began = time.perf_counter()
    try:
        async with asyncio.timeout(_STEP_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except socket.gaierror:
        message = f"there is no machine called {host}"
        return Check(name="address", status="fail", message=message, hint="check the name in the address")
    except (OSError, TimeoutError) as error:
        message = f"{host}:{port} does not answer: {_why(error)}"
        hint = "is the server running? penstock serve starts one; check host and port"
        return Check(name="address", status="fail", message=message, hint=hint)
    took_ms = round((time.perf_counter() - began) * 1000)
    writer.close()
    return Check(name="address", status="ok", message=f"{host}:{port} answers", took_ms=took_ms)


def _why(error: OSError) -> str:
    match error:
        case ConnectionRefusedError():
            return "nobody listens there"
        case TimeoutError():
            return "nobody took the connection in time"
        case _:
            return error.strerror or str(error)


def _clock(date: str | None) -> Check:
    if date is None:
        return Check(name="clock", status="skip", message="the server does not say what time it is")
    try:
        there = parsedate_to_datetime(date).timestamp()
    except ValueError:
        return Check(name="clock", status="skip", message="the server says a time that cannot be read")
    skew = there - SystemClock().now_ms() / 1000
    if abs(skew) <= _SKEW_SECONDS_MAX:
        return Check(name="clock", status="ok", message=f"the clocks agree within {_SKEW_SECONDS_MAX:g} s")
    message = f"the clock of the server is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this one"
    return Check(
        name="clock",
        status="warn",
        message=message,
        hint="set both clocks by the network: what expires depends on them",
    )


def _program(server: StdioServer) -> Check:
    found = shutil.which(server.command)
    if found is None:
        message, hint = f"{server.command} is not found", "check the name, or give the whole path"
        return Check(name="program", status="fail", message=message, hint=hint)
    return Check(name="program", status="ok", message=found)


async def _connected(server: McpServer, era: str) -> list[Check]:
    """Connect as a client does, and use the connection."""
    name = "connect" if era == "auto" else "handshake"
    began = time.perf_counter()
    checks: list[Check] = []
    try:
        async with asyncio.timeout(_STEP_SECONDS * 3):
            async with connect_mcp(server, ConnectOptions(era=era, timeout_seconds=_STEP_SECONDS)) as client:
                took_ms = round((time.perf_counter() - began) * 1000)
                checks.append(Check(name=name, status="ok", message=_greeting(client), took_ms=took_ms))
                if era == "auto":
                    checks += await _used(client)
    except _FAILURES as error:
        checks.append(_not_connected(name, era, error))
    return checks


def _greeting(client: Client) -> str:
    able = client.server_capabilities
    offered = [word for word in ("tools", "resources", "prompts", "completions", "logging") if getattr(able, word)]
    more = [name.rpartition("/")[2] for name in (able.extensions or {})]
    return f"{server_name(client) or 'a server without a name'} speaks {client.protocol_version}: " + ", ".join(
        [*offered, *more]
    )


def _not_connected(name: str, era: str, error: Exception) -> Check:
    hint: str | None = "is it an MCP server? check the address or the program"
    match error:
        case TimeoutError():
            message = "there was no answer in time"
        case MCPError():
            message = error.error.message
        case PenstockError():
            message, hint = error.message, error.hint or hint
        case _:
            message = invalid_answer(error).message
    if era == "legacy":
        return Check(name=name, status="warn", message=f"{message}; clients before 2026-07-28 cannot connect")
    return Check(name=name, status="fail", message=message, hint=hint)


async def _used(client: Client) -> list[Check]:
    began = time.perf_counter()
    tools = await every_tool(client)
    took_ms = round((time.perf_counter() - began) * 1000)
    return [_catalogue(tools, took_ms), await _harmless_call(client, {str(tool["name"]) for tool in tools})]


def _catalogue(tools: list[Any], took_ms: int) -> Check:
    size = len(json.dumps(tools, ensure_ascii=False, separators=(",", ":")).encode())
    message = f"{len(tools)} tools, {size_text(size)}, about {token_estimate(size):,} tokens"
    if not tools:
        hint = "expose a workflow (expose.tool: true), and give the key the scopes that it needs"
        return Check(name="tools", status="warn", message="there are no tools for this key", hint=hint, took_ms=took_ms)
    if size > limits.MCP_CATALOGUE_BYTES_MAX:
        hint = "a long list costs the model its room; choose with --toolset, or server.mcp.toolset"
        return Check(name="tools", status="warn", message=message, hint=hint, took_ms=took_ms)
    return Check(name="tools", status="ok", message=message, hint=_workflows_advice(tools), took_ms=took_ms)


def _workflows_advice(tools: list[Any]) -> str | None:
    """What the author of a new workflow may have forgotten; None for servers that are not ours."""
    ours = any(tool["name"] in (_INFO, _LOOK) for tool in tools)
    if not ours or any("penstock/workflow" in (tool.get("_meta") or {}) for tool in tools):
        return None
    return "no workflow is among them: expose one (expose.tool: true), or choose another toolset"


async def _harmless_call(client: Client, names: set[str]) -> Check:
    name = next((name for name in (_INFO, _LOOK) if name in names), None)
    if name is None:
        return Check(name="call", status="skip", message="no tool is known that could be called without doing anything")
    began = time.perf_counter()
    result = await client.call_tool(name, {} if name == _INFO else _NO_EXECUTION)
    took_ms = round((time.perf_counter() - began) * 1000)
    text = next((item.text for item in result.content if item.type == "text"), "")
    if result.is_error and not (name == _LOOK and text.startswith(_NOT_FOUND)):
        return Check(name="call", status="fail", message=f"{name} answered with an error: {text}", took_ms=took_ms)
    return Check(name="call", status="ok", message=f"{name} answered", took_ms=took_ms)
