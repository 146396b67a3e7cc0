"""The harness's surfaces `rest`, `sdk` and `mcp`: the published functions as users reach them.

Every session has a file of its own with a gate on it. `sdk` calls the gate in this process, as the local owner; `rest`
and `mcp` call a real HTTP server on a loopback port, with a key that may do what the functions need and no more.

Read after `protocol`, which opens these for a session.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import msgspec
from starlette.types import ASGIApp

from penstock.app.gate import local_owner
from penstock.app.penstock import Penstock
from penstock.app.serving.server import ServerOptions, build_server, open_application
from penstock.app.serving.shutdown import serve_until
from penstock.app.sockets import address_of, listen
from penstock.base.clock import Clock
from penstock.base.errors import Unavailable
from penstock.base.json import JsonObject
from penstock.base.lazy_import import lazy_import
from penstock.definitions.model import ACTIVITY_TYPES
from penstock.operations.catalogue.capability import EventStream
from penstock.operations.gate.context import Principal, Request
from penstock.operations.gate.pipeline import Gate, RefusedCall
from tests.conformance.harness.activities import InThread, keep_test_child, performer_of

if TYPE_CHECKING:
    from tests.conformance.harness import mcp_tools
else:
    mcp_tools = lazy_import("tests.conformance.harness.mcp_tools")

__all__ = ["SERVED_SURFACES", "Call", "open_surface"]

SERVED_SURFACES = ("rest", "sdk", "mcp")
# Longer than a call follows a run.
_CALL_SECONDS_MAX = 60.0
_DRAIN_SECONDS = 5.0
# What a caller of the seven functions needs, and no more.
_SCOPES = ("workflow:write", "workflow:run", "execution:read", "execution:write", "execution:control")

# Calls a published function; says whether it was refused, and gives the published body.
Call = Callable[[str, JsonObject], Awaitable[tuple[bool, JsonObject]]]


@dataclass(frozen=True, slots=True)
class _Embedded:
    """Calls the gate in this process."""

    gate: Gate
    principal: Principal

    async def call(self, function: str, arguments: JsonObject) -> tuple[bool, JsonObject]:
        """Call a published function."""
        return await self.operate(f"control.{function}", arguments)

    async def operate(self, operation: str, arguments: JsonObject) -> tuple[bool, JsonObject]:
        """Call any operation."""
        outcome = await self.gate.call(
            Request(
                operation=operation,
                arguments=arguments,
                principal=self.principal,
                surface="sdk",
                request_id="harness",
            )
        )
        if isinstance(outcome, RefusedCall):
            return True, _published(outcome.error.details.get("error"), outcome.error.code, outcome.error.message)
        if isinstance(outcome.reply, EventStream):
            raise TypeError(f"{operation} answers with a stream")
        return False, msgspec.to_builtins(outcome.reply.value)


@dataclass(frozen=True, slots=True)
class _Remote:
    """Calls the server over HTTP."""

    http: httpx2.AsyncClient
    key: str

    async def call(self, function: str, arguments: JsonObject) -> tuple[bool, JsonObject]:
        """Call a published function."""
        headers = {"Authorization": f"Bearer {self.key}"}
        try:
            response = await self.http.post(f"/control/{function}", json=arguments, headers=headers)
            body: Any = response.json()
        except (httpx2.HTTPError, ValueError) as error:
            raise Unavailable("SERVER_UNREACHABLE", f"{function}: {error!r:.200}") from error
        if not isinstance(body, dict):
            raise Unavailable("SERVER_UNREACHABLE", f"{function} answered {response.status_code} with {body!r:.100}")
        if response.is_success:
            return False, body
        return True, _published(body.get("error"), str(body.get("code")), str(body.get("detail")))


def _published(error: Any, code: str, message: str) -> JsonObject:
    """The published error of a refusal; one that has none was refused before it reached the function."""
    return {"error": error if isinstance(error, dict) else {"code": code, "message": message, "details": {}}}


@asynccontextmanager
async def open_surface(surface: str, given: JsonObject, clock: Clock) -> AsyncIterator[Call]:
    """What a session on one of these surfaces calls with, until the block ends."""
    options = ServerOptions(port=0, drain_seconds=_DRAIN_SECONDS)
    executors = dict.fromkeys(map(str, ACTIVITY_TYPES), InThread(performer_of(given)))
    with tempfile.TemporaryDirectory(prefix="penstock-harness-") as folder:
        async with (
            Penstock.open(Path(folder) / "penstock.db", executors=executors, clock=clock) as penstock,
            open_application(penstock, options) as (app, gate),
        ):
            await keep_test_child(penstock.store, given)
            owner = _Embedded(gate, local_owner())
            if surface == "sdk":
                yield owner.call
                return
            _, made = await owner.operate("key.create", {"name": "harness", "scopes": list(_SCOPES)})
            async with (
                _served(app, options, penstock, gate) as server,
                _called_as(surface, server, str(made["secret"]), given) as call,
            ):
                yield call


@asynccontextmanager
async def _called_as(surface: str, server: str, key: str, given: JsonObject) -> AsyncIterator[Call]:
    """A client of a surface that is reached over the network."""
    if surface == "rest":
        url = server + ServerOptions().rest.base_path
        async with httpx2.AsyncClient(base_url=url, timeout=_CALL_SECONDS_MAX, trust_env=False) as http:
            yield _Remote(http, key).call
        return
    era = str(given.get("era", "auto"))
    async with mcp_tools.open_mcp(server, key, era=era, timeout_seconds=_CALL_SECONDS_MAX) as tool:

        async def call(function: str, arguments: JsonObject) -> tuple[bool, JsonObject]:
            is_error, body = await tool(function, arguments)
            error = body.get("error")
            if not is_error or not isinstance(error, dict):
                return is_error, body
            # What a model is told beside it, such as what to call next, is not published.
            return True, {"error": {name: error.get(name, {}) for name in ("code", "message", "details")}}

        yield call


@asynccontextmanager
async def _served(app: ASGIApp, options: ServerOptions, penstock: Penstock, gate: Gate) -> AsyncIterator[str]:
    """An application behind a listening server; its address."""
    logging.getLogger("penstock").setLevel(logging.ERROR)  # a driver reads answers, not a log of requests
    told, server = asyncio.Event(), build_server(app, options, gate=gate)
    with listen(options.host, options.port) as listener:
        serving = asyncio.create_task(
            serve_until(told, server, listener, gate=gate, penstock=penstock, drain_seconds=options.drain_seconds)
        )
        try:
            yield address_of(options.host, listener)
        finally:
            told.set()
            await serving
