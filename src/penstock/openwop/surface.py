"""The OpenWOP wire of a server: its routes, its discovery pages, and its MCP mount while the server is open.

`app.serving` adds it to the other surfaces, or leaves it out.
"""

from __future__ import annotations

from dataclasses import dataclass

from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from penstock.base.json import JsonObject
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.wire.versions import is_modern
from penstock.openwop.discovery import mcp_claim, openwop_pages
from penstock.openwop.mcp.mount import OpenwopMount
from penstock.openwop.runs import openwop_routes
from penstock.operations.gate.pipeline import Gate
from penstock.rest.endpoints import ConcurrencyLimit

__all__ = ["MOUNT_PATH", "OpenwopOptions", "OpenwopSurface"]

MOUNT_PATH = "/v1/mcp"
_CURRENT = "2026-07-28"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenwopOptions:
    """The operator's options for this wire."""

    version: str = "0"
    max_body_bytes: int
    server_url: str | None = None
    mcp_mount: bool = True
    """Whether MCP is mounted here too, if it is served at all."""
    sampling: bool = False
    """Whether there is a model that clients of the mount can ask."""
    seam: bool = False
    """Whether conformance tests may import workflows; never on a server that others can reach."""


class OpenwopSurface:
    """The wire of one server. `mcp` and `endpoint` are the MCP surface to which its mount passes strict clients."""

    def __init__(self, gate: Gate, options: OpenwopOptions, mcp: McpOptions, endpoint: ASGIApp) -> None:
        self._gate = gate
        self._options = options
        self._mcp = mcp
        # Plain requests belong to the handshake era, so the mount is not offered where that era is not served.
        offered = mcp.protocol_version is None or not is_modern(mcp.protocol_version)
        served = mcp.enabled and options.mcp_mount and offered
        self._mount = OpenwopMount(gate, mcp, endpoint, sampling=options.sampling) if served else None

    def routes(self, limit: ConcurrencyLimit) -> list[BaseRoute]:
        """Return every route of the wire, and the pages that need no key."""
        options = self._options
        pages = openwop_pages(
            version=options.version,
            max_body_bytes=options.max_body_bytes,
            server_url=options.server_url,
            mcp=self.claim,
        )
        routes = openwop_routes(
            self._gate,
            limit,
            max_body_bytes=options.max_body_bytes,
            version=options.version,
            mount=self._mount,
            seam=options.seam,
        )
        return [*pages, *routes]

    def claim(self) -> JsonObject:
        """Return the claim about MCP in the discovery document.

        The mount works without the SDK, the endpoint needs it.
        """
        mounted = self._mount is not None
        urls = [MOUNT_PATH] if mounted else []
        versions: tuple[str, ...] = ()
        if self._mcp.enabled:
            urls.append(self._mcp.path)
            versions = (self._mcp.protocol_version or _CURRENT,)
        return mcp_claim(
            server_urls=urls,
            protocol_versions=versions,
            sampling=mounted and self._options.sampling,
            elicitation=mounted,
        )

    async def __aenter__(self) -> OpenwopSurface:
        """Enter the surface; nothing has to be opened."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Finish the requests in flight, and accept no more."""
        if self._mount is not None:
            await self._mount.close()
