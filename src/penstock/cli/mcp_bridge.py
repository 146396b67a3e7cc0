"""From a pipe to a server: every message of the client is sent to the server's MCP address, every answer comes back.

The bridge understands as little as it can: what HTTP wants to know in headers is read from the message, the session of
an older client is remembered, and a request that is cancelled is hung up on.

Above it: `penstock mcp --server`. Below it: the pipe, an HTTP client. It needs no SDK.
"""

from __future__ import annotations

import asyncio
import base64
import os
from dataclasses import dataclass, field
from typing import Any

import httpx2
import msgspec

from penstock.base.json import JsonObject, JsonValue
from penstock.cli.values import UsageError
from penstock.client.options import KEY_VARIABLE
from penstock.mcp_surface.pipe import Pipe

__all__ = ["bridge"]

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_CONNECT_SECONDS = 10.0
_UNREACHABLE = -32000
_NO_CONTENT = (202, 204)


async def bridge(pipe: Pipe, server: str, key: str | None) -> None:
    """Carry messages until the client closes its end."""
    secret = key or os.environ.get(KEY_VARIABLE)
    if not secret:
        raise UsageError(f"there is no key for {server}; put it into {KEY_VARIABLE}")
    address = server.rstrip("/")
    url = address if address.endswith("/mcp") else f"{address}/mcp"
    timeout = httpx2.Timeout(None, connect=_CONNECT_SECONDS)
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {secret}"}, timeout=timeout) as http:
        carrier = _Carrier(pipe=pipe, http=http, url=url)
        async for line in pipe.lines():
            await carrier.take(line)
        await carrier.finish()


@dataclass(slots=True, kw_only=True)
class _Carrier:
    """What the bridge remembers of its client: the session, and the requests under way."""

    pipe: Pipe
    http: httpx2.AsyncClient
    url: str
    session: str | None = None
    version: str | None = None
    under_way: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def take(self, line: bytes) -> None:
        """Send one message of the client's."""
        try:
            message = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError:
            await self._say({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})
            return
        if message.get("method") == "notifications/cancelled" and self.session is None:
            # Without a session, hanging up is how a request is cancelled.
            under_way = self.under_way.get(_key(_params(message).get("requestId")))
            if under_way is not None:
                under_way.cancel()
            return
        sending = asyncio.ensure_future(self._carry(message))
        if message.get("method") == "initialize":
            await sending
            return
        name = _key(message.get("id")) if "id" in message else f"notification {id(sending)}"
        self.under_way[name] = sending
        sending.add_done_callback(lambda _: self.under_way.pop(name, None))

    async def finish(self) -> None:
        """End the session, and what is still under way."""
        for sending in list(self.under_way.values()):
            sending.cancel()
        if self.session is not None:
            try:
                await self.http.delete(self.url, headers=self._headers({}))
            except httpx2.HTTPError:
                return

    def _headers(self, message: JsonObject) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        params, method = _params(message), message.get("method")
        meta = params.get("_meta")
        version = meta.get(_VERSION_KEY) if isinstance(meta, dict) else None
        if isinstance(version, str) and isinstance(method, str):
            headers.update({"MCP-Protocol-Version": version, "Mcp-Method": method})
            name = params.get(_NAMED_BY.get(method, "taskId" if method.startswith("tasks/") else ""))
            if isinstance(name, str):
                headers["Mcp-Name"] = _header_text(name)
            return headers
        if self.session is not None:
            headers["Mcp-Session-Id"] = self.session
        if self.version is not None:
            headers["MCP-Protocol-Version"] = self.version
        return headers

    async def _carry(self, message: JsonObject) -> None:
        try:
            async with self.http.stream(
                "POST", self.url, content=msgspec.json.encode(message), headers=self._headers(message)
            ) as response:
                await self._answer(message, response)
        except httpx2.HTTPError as error:
            await self._fail(message, f"the server at {self.url} cannot be reached: {error}")

    async def _answer(self, message: JsonObject, response: httpx2.Response) -> None:
        if response.status_code in _NO_CONTENT:
            return
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            await self._events(message, response)
            return
        body = await response.aread()
        try:
            answer = msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.DecodeError:
            await self._fail(message, f"the server answered with status {response.status_code}")
            return
        if "id" in message and answer.get("id") is None:
            # Refused before the server knew which request it was.
            answer["id"] = message["id"]
        self._remember(message, response, answer)
        if "id" in message:
            await self._say(answer)

    async def _events(self, message: JsonObject, response: httpx2.Response) -> None:
        data: list[str] = []
        async for line in response.aiter_lines():
            if line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))
            elif not line and data:
                answer = msgspec.json.decode("\n".join(data), type=dict[str, Any]) if any(data) else {}
                data = []
                if answer:
                    self._remember(message, response, answer)
                    await self._say(answer)

    def _remember(self, message: JsonObject, response: httpx2.Response, answer: JsonObject) -> None:
        """The session and the version that a handshake agreed on."""
        result = answer.get("result")
        if message.get("method") != "initialize" or not isinstance(result, dict):
            return
        self.session = response.headers.get("mcp-session-id")
        agreed = result.get("protocolVersion")
        self.version = agreed if isinstance(agreed, str) else None

    async def _fail(self, message: JsonObject, told: str) -> None:
        if "id" in message:
            error: JsonObject = {"code": _UNREACHABLE, "message": told}
            await self._say({"jsonrpc": "2.0", "id": message["id"], "error": error})

    async def _say(self, message: JsonObject) -> None:
        await self.pipe.write(msgspec.json.encode(message))


def _params(message: JsonObject) -> JsonObject:
    found = message.get("params")
    return found if isinstance(found, dict) else {}


def _key(request_id: JsonValue) -> str:
    return msgspec.json.encode(request_id).decode()


def _header_text(text: str) -> str:
    """A value that a header can carry."""
    if text.isascii() and text.isprintable() and text == text.strip():
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="
