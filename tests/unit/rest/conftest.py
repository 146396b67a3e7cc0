"""The application on a real SQLite file, called as a server calls it, without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Message

from penstock.app.gate import create_owner_key
from penstock.app.serving.server import ServerOptions
from penstock.operations.gate.context import GateLimits
from penstock.operations.gate.pipeline import Gate
from penstock.rest.application import RestOptions
from tests.surroundings import open_server
from tests.waiting import SECONDS_MAX

HELLO = {"penstock": "v1", "name": "hello", "nodes": [{"id": "done", "type": "end", "output": "hello"}]}
WAITS = {
    "penstock": "v1",
    "name": "waits",
    "nodes": [{"id": "go", "type": "wait", "signal": "go"}, {"id": "done", "type": "end"}],
}


@dataclass(slots=True)
class Answered:
    """What the application answered."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class Client:
    """Calls the application with the owner's key."""

    app: ASGIApp
    gate: Gate
    key: str

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        key: str | None = None,
        more: Sequence[tuple[str, str]] = (),
    ) -> Answered:
        """The answer to a request; without a leading slash a path is an operation's."""
        target, _, query = (path if path.startswith("/") else f"/api/v0/{path}").partition("?")
        named = {name.lower(): value for name, value in (headers or {}).items()}
        sent = {"authorization": f"Bearer {self.key if key is None else key}", **named}
        if key == "":
            del sent["authorization"]
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        if content:
            sent.setdefault("content-type", "application/json")
        scope = {
            "type": "http",
            "method": method,
            "path": target,
            "raw_path": target.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in [*sent.items(), *more]],
            "client": ("127.0.0.1", 5_000),
            "state": {},
        }
        parts = [content]
        answered = Answered()

        async def receive() -> Message:
            if parts:
                return {"type": "http.request", "body": parts.pop(), "more_body": False}
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered.status = message["status"]
                answered.headers = {name.decode(): value.decode("latin-1") for name, value in message["headers"]}
            else:
                answered.body += message["body"]

        async with asyncio.timeout(SECONDS_MAX):
            await self.app(scope, receive, send)
        return answered


@asynccontextmanager
async def opened(folder: Path, options: ServerOptions, **more: Any) -> AsyncIterator[Client]:
    """A client of an application on a file in a folder; further arguments are those of `Penstock.open`."""
    async with open_server(folder, options, **more) as (_, app, gate):
        key = await create_owner_key(gate)
        assert key is not None
        yield Client(app, gate, key)


@pytest.fixture
def with_client(tmp_path: Path) -> Callable[..., None]:
    """Runs a test with a client that knows some workflows; further arguments are options of REST."""

    def run(
        test: Callable[[Client], Awaitable[None]],
        *,
        workflows: Sequence[dict[str, Any]] = (HELLO,),
        limits: GateLimits | None = None,
        **chosen: Any,
    ) -> None:
        async def body() -> None:
            options = ServerOptions(rest=RestOptions(**chosen), gate=limits or GateLimits())
            async with opened(tmp_path, options) as client:
                for document in workflows:
                    created = await client("POST", "workflows", {"document": document})
                    assert created.status == 201, created
                await test(client)

        asyncio.run(body())

    return run
