"""Raw JSON-RPC over HTTP: an MCP client of a few lines, which hides nothing that a check wants to see.

It opens a session with the handshake of revision 2025-06-18, which every server of the last years understands, and
reads answers as JSON or as an event stream.

Above it: `kit`. Below it: `target`, httpx2.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx2

from penstock.cli.verify.checks import CheckFailed, NotApplicable
from penstock.cli.verify.target import Answer, Json, Traffic

__all__ = ["McpClient"]

_REVISION = "2025-06-18"
_ACCEPT = "application/json, text/event-stream"
_NOT_SERVED = (404, 405)
_SESSION = "mcp-session-id"


@dataclass(slots=True, kw_only=True)
class McpClient:
    """One client of the MCP endpoint."""

    http: httpx2.AsyncClient
    path: str
    token: str | None
    traffic: Traffic = field(default_factory=Traffic)
    session: str | None = None
    _ids: count[int] = field(default_factory=lambda: count(1))

    async def open(self) -> None:
        """Introduce the client; the check is not applicable if nothing speaks MCP there."""
        about = {"name": "penstock-verify", "version": "1"}
        given = {"protocolVersion": _REVISION, "capabilities": {}, "clientInfo": about}
        answer = await self.post({"jsonrpc": "2.0", "id": next(self._ids), "method": "initialize", "params": given})
        if answer.status in _NOT_SERVED:
            raise NotApplicable(f"nothing speaks MCP at {self.path}")
        if "result" not in message_of(answer):
            raise CheckFailed("an answer to `initialize`", str(answer))
        self.session = answer.headers.get(_SESSION)
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(self, method: str, params: Json | None = None) -> Json:
        """Make a request; return the whole JSON-RPC answer."""
        answer = await self.send(method, params)
        found = message_of(answer)
        if not found:
            raise CheckFailed(f"a JSON-RPC answer to {method}", str(answer))
        return found

    async def send(self, method: str, params: Json | None = None) -> Answer:
        """Make a request; return the HTTP answer."""
        return await self.post({"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params or {}})

    async def tools(self) -> list[Json]:
        """Return the tools of every page."""
        found, cursor = list[Json](), None
        while True:
            answer = await self.call("tools/list", {} if cursor is None else {"cursor": cursor})
            result = answer.get("result")
            if not isinstance(result, dict):
                raise CheckFailed("a list of tools", answer)
            found += result.get("tools", [])
            cursor = result.get("nextCursor")
            if cursor is None:
                return found

    async def tool(self, name: str) -> str:
        """Return the name under which a tool of the profile is listed; the check is not applicable if it is not."""
        for listed in await self.tools():
            if str(listed.get("name")).replace(".", "_").endswith(name.replace(".", "_")):
                return str(listed["name"])
        raise NotApplicable(f"the MCP endpoint does not offer {name} as a tool")

    async def post(self, message: Any, content: bytes | None = None) -> Answer:
        """Send one message as it is, as soon as the server's limits admit it."""
        return await self.traffic.send(self.http, self._build(message, content))

    async def send_once(self, method: str, params: Json | None = None) -> Answer:
        """Make one request, for a check that wants to see or admits a 429."""
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params or {}}
        return await self.traffic.send_once(self.http, self._build(message, None))

    def _build(self, message: Any, content: bytes | None) -> httpx2.Request:
        headers = {"content-type": "application/json", "accept": _ACCEPT, "mcp-protocol-version": _REVISION}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        if self.session is not None:
            headers[_SESSION] = self.session
        raw = json.dumps(message).encode() if content is None else content
        return self.http.build_request("POST", self.path, content=raw, headers=headers)


def message_of(answer: Answer) -> Json:
    """Return the JSON-RPC answer in a response: the body, or the last event of a stream that has an id."""
    if not answer.headers.get("content-type", "").startswith("text/event-stream"):
        return answer.body
    found: Json = {}
    for line in answer.text.splitlines():
        if line.startswith("data:"):
            try:
                event = json.loads(line.removeprefix("data:"))
            except ValueError:
                continue
            if isinstance(event, dict) and "id" in event:
                found = event
    return found
