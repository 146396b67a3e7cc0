"""MCP on the OpenWOP wire: what is mounted there, and what the discovery document claims of it.

Above it: `server`. Below it: `mcp_surface.openwop_mount`, which needs no SDK, and the endpoint of MCP beside it.
"""

from __future__ import annotations

from starlette.types import ASGIApp

from penstock.app.serving.mcp import McpMount
from penstock.base.json import JsonObject
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.wire.versions import is_modern
from penstock.openwop.discovery import mcp_claim
from penstock.openwop.mcp.mount import OpenwopMount
from penstock.operations.gate.pipeline import Gate

__all__ = ["MOUNT_PATH", "OpenwopMcp"]

MOUNT_PATH = "/v1/mcp"
_CURRENT = "2026-07-28"


class OpenwopMcp:
    """The mount while a server is open; there is none where MCP is off, or the operator wants none."""

    def __init__(self, gate: Gate, options: McpOptions, mcp: McpMount) -> None:
        self._options = options
        # Plain requests are of the handshake era: where that is not offered, neither is the mount.
        offered = options.protocol_version is None or not is_modern(options.protocol_version)
        served = options.enabled and options.openwop_mount and offered
        self._mount = OpenwopMount(gate, options, mcp.endpoint) if served else None

    @property
    def application(self) -> ASGIApp | None:
        """What answers at the mount."""
        return self._mount

    def claim(self) -> JsonObject:
        """What holds of MCP here: the mount answers without the SDK, the endpoint beside it does not."""
        urls: list[str] = []
        versions: tuple[str, ...] = ()
        if self._mount is not None:
            urls.append(MOUNT_PATH)
        if self._options.enabled:
            urls.append(self._options.path)
            versions = (self._options.protocol_version or _CURRENT,)
        mounted = self._mount is not None
        return mcp_claim(
            server_urls=urls,
            protocol_versions=versions,
            sampling=mounted and self._options.sampling_bridge,
            elicitation=mounted,
        )

    async def __aenter__(self) -> OpenwopMcp:
        """Nothing to do before somebody comes."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Answer what is under way, and take no more."""
        if self._mount is not None:
            await self._mount.close()
