"""The bridge from standard input and output to a server: it forwards every message, and every answer comes back.

It interprets as little as it can. It copies into headers what HTTP wants there, and keeps the session of an older
client and listens to it. If a stream ends before its answer, the bridge resumes it. If a request is cancelled, the
bridge closes its connection.

Above it: `penstock mcp --server`. Below it: the pipe, an HTTP client. It needs no SDK.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import Any

import httpx2
import msgspec

from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject, JsonValue
from penstock.cli.mcp.headers import HeaderPlan, header_plans, modern_headers
from penstock.cli.mcp.servers import mcp_address
from penstock.cli.terminal.values import UsageError
from penstock.client.options import KEY_VARIABLE
from penstock.mcp_surface.wire.pipe import Pipe

__all__ = ["bridge"]

_CONNECT_SECONDS = 10.0
_RETRY_MS = 1_000
_RETRIES_MAX = 5
_UNREACHABLE = -32000
_NO_CONTENT = (202, 204)
_STREAM = "text/event-stream"
_ACCEPT = f"application/json, {_STREAM}"


async def bridge(pipe: Pipe, server: str, key: str | None, toolset: str | None = None) -> None:
    """Forward messages until the client closes its end; `toolset` says which tools the server lists."""
    secret = key or os.environ.get(KEY_VARIABLE)
    if not secret:
        raise UsageError(f"there is no key for {server}; put it into {KEY_VARIABLE}")
    url = mcp_address(server, toolset)
    timeout = httpx2.Timeout(None, connect=_CONNECT_SECONDS)
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {secret}"}, timeout=timeout) as http:
        carrier = _Carrier(pipe=pipe, http=http, url=url)
        async for line in pipe.lines():
            await carrier.take(line)
        await carrier.finish()


@dataclass(slots=True)
class _Stream:
    """How far a stream of events has been read."""

    answered: bool = False
    last_event: str | None = None
    retry_ms: int = _RETRY_MS


@dataclass(slots=True, kw_only=True)
class _Carrier:
    """Forwards messages. It keeps the session, the open requests, and the headers that tools want."""

    pipe: Pipe
    http: httpx2.AsyncClient
    url: str
    session: str | None = None
    version: str | None = None
    under_way: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    plans: dict[str, HeaderPlan] = field(default_factory=dict)

    async def take(self, line: bytes) -> None:
        """Send one message of the client."""
        try:
            message = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError:
            await self._say({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})
            return
        if message.get("method") == "notifications/cancelled" and self.session is None:
            # Without a session, closing the connection cancels a request.
            under_way = self.under_way.get(_key(_params(message).get("requestId")))
            if under_way is not None:
                under_way.cancel()
            return
        name = _key(message.get("id")) if "id" in message else f"notification {id(message)}"
        sending = self._begin(name, self._carry(message))
        if message.get("method") == "initialize":
            await sending
        elif message.get("method") == "notifications/initialized" and self.session is not None:
            self._begin("session", self._listen())

    def _begin(self, name: str, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self.under_way[name] = task
        task.add_done_callback(lambda _: self.under_way.pop(name, None))
        return task

    async def finish(self) -> None:
        """End the session and the requests that are still open."""
        for sending in list(self.under_way.values()):
            sending.cancel()
        if self.session is not None:
            try:
                await self.http.delete(self.url, headers=self._session_headers())
            except httpx2.HTTPError:
                return

    def _headers(self, message: JsonObject) -> dict[str, str]:
        headers = modern_headers(message, self.plans)
        own = self._session_headers() if headers is None else headers
        return {"Content-Type": "application/json", "Accept": _ACCEPT, **own}

    def _session_headers(self) -> dict[str, str]:
        known = (("Mcp-Session-Id", self.session), ("MCP-Protocol-Version", self.version))
        return {name: value for name, value in known if value is not None}

    async def _carry(self, message: JsonObject) -> None:
        try:
            async with self.http.stream(
                "POST", self.url, content=encode_bytes(message), headers=self._headers(message)
            ) as response:
                stream = await self._answer(message, response)
            if stream is not None and not stream.answered and "id" in message:
                await self._resume(message, stream)
        except httpx2.HTTPError as error:
            await self._fail(message, f"the server at {self.url} cannot be reached: {error}")

    async def _answer(self, message: JsonObject, response: httpx2.Response) -> _Stream | None:
        """Forward an answer; if it is a stream, how far it was read."""
        if message.get("method") == "initialize":
            # The session is needed before the answer is complete, in case the stream must be resumed.
            self.session = response.headers.get("mcp-session-id")
        if response.status_code in _NO_CONTENT:
            return None
        if response.headers.get("content-type", "").startswith(_STREAM):
            stream = _Stream()
            await self._events(message, response, stream)
            return stream
        body = await response.aread()
        try:
            answer = msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.DecodeError:
            await self._fail(message, f"the server answered with status {response.status_code}")
            return None
        if "id" in message and answer.get("id") is None:
            # Refused before the server knew which request it was.
            answer["id"] = message["id"]
        self._remember(message, answer)
        if "id" in message:
            await self._say(answer)
        return None

    async def _events(self, message: JsonObject, response: httpx2.Response, stream: _Stream) -> None:
        try:
            # No limit: the events come from the user's own server.
            async for event in httpx2.EventSource(response, max_event_size=None):
                stream.last_event = event.id or stream.last_event
                stream.retry_ms = stream.retry_ms if event.retry is None else event.retry
                if event.data:
                    await self._event(message, event.data, stream)
        except httpx2.HTTPError:
            if stream.last_event is None:
                raise  # it cannot be resumed

    async def _event(self, message: JsonObject, text: str, stream: _Stream) -> None:
        try:
            answer = msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError:
            return  # a stream begins with an empty event, and others may carry something that is not ours
        stream.answered = stream.answered or ("method" not in answer and answer.get("id") == message.get("id"))
        self._remember(message, answer)
        await self._say(answer)

    async def _resume(self, message: JsonObject, stream: _Stream) -> None:
        """Resume a stream that ended before its answer, as long as the server knows its position."""
        for _ in range(_RETRIES_MAX):
            if stream.last_event is None:
                break
            last_before = stream.last_event
            await asyncio.sleep(stream.retry_ms / 1000)
            if not await self._forward_stream(message, stream):
                break
            if stream.answered:
                return
            if stream.last_event != last_before:
                await self._resume(message, stream)
                return
        await self._fail(message, "the stream of the server ended without an answer")

    async def _listen(self) -> None:
        """Forward what the server sends to a session beside its answers, until it refuses."""
        stream = _Stream()
        while True:
            if not await self._forward_stream({}, stream):
                return
            await asyncio.sleep(stream.retry_ms / 1000)

    async def _forward_stream(self, message: JsonObject, stream: _Stream) -> bool:
        """Forward a stream to its end; False without a stream."""
        last = {} if stream.last_event is None else {"Last-Event-ID": stream.last_event}
        headers = {"Accept": _STREAM, **self._session_headers(), **last}
        try:
            async with self.http.stream("GET", self.url, headers=headers) as response:
                is_stream = response.headers.get("content-type", "").startswith(_STREAM)
                if not response.is_success or not is_stream:
                    return False
                await self._events(message, response, stream)
        except httpx2.HTTPError:
            return stream.last_event is not None
        return True

    def _remember(self, message: JsonObject, answer: JsonObject) -> None:
        """Remember the version that a handshake agreed on, and the arguments that tools want in headers."""
        result, method = answer.get("result"), message.get("method")
        if not isinstance(result, dict):
            return
        if method == "tools/list":
            self.plans.update(header_plans(result))
        if method == "initialize":
            agreed = result.get("protocolVersion")
            self.version = agreed if isinstance(agreed, str) else None

    async def _fail(self, message: JsonObject, reason: str) -> None:
        if "id" in message:
            error: JsonObject = {"code": _UNREACHABLE, "message": reason}
            await self._say({"jsonrpc": "2.0", "id": message["id"], "error": error})

    async def _say(self, message: JsonObject) -> None:
        await self.pipe.write(encode_bytes(message))


def _params(message: JsonObject) -> JsonObject:
    found = message.get("params")
    return found if isinstance(found, dict) else {}


def _key(request_id: JsonValue) -> str:
    return encode_bytes(request_id).decode()
