"""MCP in a server: its endpoint and its health. The SDK is loaded only when a client connects.

Above it: `server`, `penstock mcp`. Below it: `mcp_surface`, which is imported in two parts: what needs no SDK at once,
the rest on the first request.
"""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Scope

from penstock import __version__
from penstock.app.settings.model import Settings
from penstock.app.sockets import is_loopback
from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.errors import PenstockError
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.lazy_import import import_alone, lazy_import
from penstock.mcp_surface.endpoint import McpBackend, McpEndpoint
from penstock.mcp_surface.options import GRAPH_PATH, MESSAGES_PATH, SSE_PATH, McpOptions
from penstock.mcp_surface.tools.offering import offer_tools
from penstock.operations.gate.pipeline import Gate
from penstock.rest.pages import PageAnswer, page

if TYPE_CHECKING:
    from penstock.mcp_surface.answer_page import page as answer_page
else:
    answer_page = lazy_import("penstock.mcp_surface.answer_page.page")  # not over a pipe

__all__ = ["McpMount", "load_mcp", "mcp_options"]

_MODULE = "penstock.mcp_surface.entry_points"
_CONSOLE = "/console"
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")


def mcp_options(settings: Settings) -> McpOptions:
    """The MCP options of the settings."""
    server, mcp = settings.server, settings.server.mcp
    return McpOptions(
        version=__version__,
        enabled=mcp.enabled and mcp.transport != "stdio",
        path=mcp.path,
        base_path=server.base_path,
        tool_prefix=mcp.tool_prefix,
        tool_names=mcp.tool_names,
        exclude_endpoints=mcp.exclude_endpoints,
        output_schemas=mcp.output_schemas,
        toolset=mcp.toolset,
        catalogue_bytes=mcp.catalogue_bytes,
        fast_path=mcp.fast_path,
        max_concurrent_requests=mcp.max_concurrent_requests,
        max_body_bytes=server.max_body_bytes,
        patience_seconds=mcp.request_timeout.total_seconds(),
        on_disconnect=mcp.on_disconnect,
        step_logs=mcp.step_logs,
        protocol_version=None if mcp.protocol_version == "auto" else mcp.protocol_version,
        sse_first=mcp.transport == "sse",
        heartbeat_seconds=mcp.sse_heartbeat_interval.total_seconds(),
        retry_ms=round(mcp.sse_retry_interval.total_seconds() * 1000),
        close_after_seconds=None if mcp.sse_close_after is None else mcp.sse_close_after.total_seconds(),
        models=_model_names(settings),
        console_path=_CONSOLE if server.console_enabled else None,
        public_url=server.public_url,
        allowed_hosts=_allowed_hosts(server.host, server.public_url),
        allowed_origins=server.cors.origins,
    )


def _model_names(settings: Settings) -> frozenset[str]:
    """The server's own models. A single model is also the default, as for nodes that name none."""
    alone = ("default",) if len(settings.models) == 1 else ()
    return frozenset((*settings.models, *alone))


def _allowed_hosts(host: str, public_url: str | None) -> tuple[str, ...] | None:
    """The host names that a server answers to; any, if others can reach it and no public address is configured."""
    public = (urlsplit(public_url).hostname or "",) if public_url else ()
    if is_loopback(host):
        return (*_THIS_MACHINE, *public)
    return (*_THIS_MACHINE, host.lower(), *public) if public else None


def load_mcp() -> ModuleType:
    """The part of the surface that needs the SDK, which takes most of a second to import."""
    # An import creates no garbage. Collecting takes a fifth of its time, and the new objects slow down later
    # collections.
    gc.disable()
    try:
        return import_alone(_MODULE)
    finally:
        gc.freeze()
        gc.enable()


class McpMount:
    """The routes of MCP, and their shutdown."""

    def __init__(self, gate: Gate, options: McpOptions) -> None:
        self._gate = gate
        self._options = options
        self._edge = McpEndpoint(gate, options, self._load)
        self._closing: asyncio.Task[None] | None = None
        self._warming: asyncio.Task[None] | None = None
        gate.services.open_streams.listen(self._close_on_shutdown)
        if options.enabled:
            offer_tools(gate, options)

    def _close_on_shutdown(self) -> None:
        """Close the streams of clients first when the server stops, so that the shutdown does not wait for them."""
        if self._gate.services.open_streams.ending and self._closing is None:
            self._closing = asyncio.ensure_future(self._edge.close())

    async def _load(self) -> McpBackend:
        # In a thread: the import takes most of a second, and other requests are being answered.
        module = await asyncio.to_thread(load_mcp)
        engine: McpBackend = await module.open_http_backend(self._gate, self._options)
        return engine

    @property
    def endpoint(self) -> ASGIApp:
        """The ASGI application that answers clients."""
        return self._edge

    def routes(self) -> list[BaseRoute]:
        """The routes to add beside the operations."""
        if not self._options.enabled:
            return []
        own = self._options.path
        older = [Route(own + path, self._edge) for path in (SSE_PATH, MESSAGES_PATH)]
        answer, answering = self._options.answer_path, answer_page.AnswerPage(self._gate, self._options)
        pages = [Route(path, answering) for path in (answer, f"{answer}/{{token}}")]
        graph = Route(GRAPH_PATH, self._edge)
        return [page(f"{own}/healthz", self._health), Route(own, self._edge), graph, *older, *pages]

    async def _health(self, scope: Scope) -> PageAnswer:
        return PageAnswer(body=encode_bytes({"status": "ok"}), media_type="application/json", status=200)

    async def __aenter__(self) -> McpMount:
        """Start nothing but the warm-up: the backend is loaded on the first request."""
        if self._options.enabled:
            self._warming = asyncio.create_task(self._warm())
        return self

    async def _warm(self) -> None:
        """Load the libraries soon after the start, if there is a workflow that assistants can see."""
        await asyncio.sleep(limits.MCP_WARM_AFTER_SECONDS)
        # An error here occurs again on the first request, which then reports it.
        with suppress(PenstockError):
            shown = await self._gate.exposed.of(DEFAULT_TENANT)
            if shown.tools or shown.prompts or shown.resources:
                # If the server stops meanwhile, this continues; the edge waits for it and then closes what was loaded.
                await asyncio.shield(self._edge.load())

    async def __aexit__(self, *_: object) -> None:
        """End every session and every stream."""
        self._gate.services.open_streams.leave(self._close_on_shutdown)
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.gather(self._warming, return_exceptions=True)
        if self._closing is not None:
            await self._closing
        await self._edge.close()
