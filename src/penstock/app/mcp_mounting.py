"""MCP in a server: its endpoint, its health, and the SDK only when somebody comes.

Above it: `serving`, `penstock mcp`. Below it: `mcp_surface`, which is imported in two parts: what needs no SDK at once,
the rest by the first request.
"""

from __future__ import annotations

import asyncio
import importlib
import ipaddress
from importlib.util import find_spec
from types import ModuleType
from urllib.parse import urlsplit

import msgspec
from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from penstock import __version__
from penstock.api.pages import PageAnswer, page
from penstock.app.settings import Settings
from penstock.base.errors import Unavailable
from penstock.mcp_surface.edge import Engine, McpEdge
from penstock.mcp_surface.options import McpOptions
from penstock.operations.pipeline import Gate

__all__ = ["McpMount", "load_mcp", "mcp_options"]

_MODULE = "penstock.mcp_surface.serving"
_LIBRARIES = ("mcp", "mcp_types")
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")


def mcp_options(settings: Settings) -> McpOptions:
    """As the settings say."""
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
        fast_path=mcp.fast_path,
        max_concurrent_requests=mcp.max_concurrent_requests,
        max_body_bytes=server.max_body_bytes,
        patience_seconds=mcp.request_timeout.total_seconds(),
        on_disconnect=mcp.on_disconnect,
        allowed_hosts=_allowed_hosts(server.host, server.public_url),
        allowed_origins=server.cors.origins,
    )


def _allowed_hosts(host: str, public_url: str | None) -> tuple[str, ...] | None:
    """The names that a server answers to; any, if others reach it and nobody said how."""
    public = (urlsplit(public_url).hostname or "",) if public_url else ()
    if _is_loopback(host):
        return (*_THIS_MACHINE, *public)
    return (*_THIS_MACHINE, host.lower(), *public) if public else None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_mcp_installed() -> bool:
    """Whether the libraries are there, without importing them."""
    return all(find_spec(library) is not None for library in _LIBRARIES)


def load_mcp() -> ModuleType:
    """The part of the surface that needs the SDK; says what to install if it is missing."""
    if not is_mcp_installed():
        raise Unavailable("NOT_CONFIGURED", "MCP needs libraries that are not installed", "install penstock[mcp]")
    return importlib.import_module(_MODULE)


class McpMount:
    """The routes of MCP, and their end."""

    def __init__(self, gate: Gate, options: McpOptions) -> None:
        self._gate = gate
        self._options = options
        self._edge = McpEdge(gate, options, self._load)
        self._closing: asyncio.Task[None] | None = None
        gate.services.open_streams.listen(self._look)

    def _look(self) -> None:
        """When the server stops, streams of clients end first: nobody shall wait for them."""
        if self._gate.services.open_streams.ending and self._closing is None:
            self._closing = asyncio.ensure_future(self._edge.close())

    async def _load(self) -> Engine:
        # In a thread: the import takes most of a second, and others are being answered.
        module = await asyncio.to_thread(load_mcp)
        engine: Engine = await module.open_http_engine(self._gate, self._options)
        return engine

    def routes(self) -> list[BaseRoute]:
        """What to put beside the operations."""
        if not self._options.enabled:
            return []
        return [page(f"{self._options.path}/healthz", self._health), Route(self._options.path, self._edge)]

    async def _health(self, scope: Scope) -> PageAnswer:
        installed = await asyncio.to_thread(is_mcp_installed)
        body = {"status": "ok"} if installed else {"status": "unavailable", "missing": "install penstock[mcp]"}
        return PageAnswer(
            body=msgspec.json.encode(body), media_type="application/json", status=200 if installed else 503
        )

    async def __aenter__(self) -> McpMount:
        """Nothing to do before somebody comes."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """End every session and every stream."""
        self._gate.services.open_streams.leave(self._look)
        if self._closing is not None:
            await self._closing
        await self._edge.close()
