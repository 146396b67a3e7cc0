"""What operations know of the MCP surface: where it is served, and which tools it lists for a principal.

The surface is above the operations, so it says this itself once it is there. Where MCP is not served, nothing is known.

Above it: the surface that fills it in, operations that explain it. Below it: `capability`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from penstock.governance.principals import Principal
from penstock.operations.catalogue.capability import Capability

__all__ = ["ListedTool", "McpOffer", "OfferedTools"]


class ListedTool(NamedTuple):
    """An entry of a list of tools."""

    name: str
    title: str
    bytes: int
    """How much of the list it takes up."""


class OfferedTools(NamedTuple):
    """The tools that a principal is offered, and all tools that the tenant has."""

    every: tuple[Capability, ...]
    """Whatever the tenant could offer to somebody, operations included."""
    callable: frozenset[str]
    """What the principal may call, by canonical names, whether it is listed or not."""
    listed: Mapping[str, ListedTool]
    """What is listed, by canonical names."""
    toolset: str
    bytes_per_token: int


ToolsOf: TypeAlias = Callable[[Principal, str | None], Awaitable[OfferedTools]]


@dataclass(slots=True)
class McpOffer:
    """Filled in by the surface that serves MCP."""

    path: str | None = None
    """Where it is served, below the address of the server."""
    tools_of: ToolsOf | None = None
    """The tools of a principal, with a toolset of the address."""
