"""Tools of other MCP servers as we know them: what a server said, what it hashes to, and who is told of it.

A server describes its tools itself, and may describe them differently tomorrow. What is shown to a model is therefore
known by its hash: whoever accepted a tool accepted these words and these schemas, and no others.

Above it: `operations` decides which tools are accepted and implements `ToolGuard`; executors speak to servers and ask
it before they call. Below it: nothing. It does no I/O.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable
from fnmatch import fnmatchcase
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from penstock.base.ids import DEFAULT_TENANT

__all__ = [
    "ImportRules",
    "NoGuard",
    "ServerState",
    "ToolGuard",
    "ToolRefusal",
    "ToolRule",
    "UpstreamConnections",
    "UpstreamTool",
    "tenant_refusal",
    "tool_hash",
]

_encode = msgspec.json.Encoder(order="sorted").encode

Risk: TypeAlias = Literal["low", "medium", "high", "critical"]


class UpstreamTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as its server describes it. Its annotations are claims: shown to whoever decides, used for nothing."""

    name: str
    title: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] = msgspec.field(default_factory=dict)
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] = msgspec.field(default_factory=dict)
    problem: str | None = None
    """Why it cannot be used as it is described; nobody can accept it then."""


def tool_hash(tool: UpstreamTool) -> str:
    """The hash of everything that a model would be shown of a tool."""
    shown = [tool.name, tool.title, tool.description, tool.input_schema, tool.output_schema]
    return hashlib.sha256(_encode(shown)).hexdigest()


class ToolRule(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator says about a tool; the server's own word counts for nothing of this."""

    scopes: tuple[str, ...] = ()
    risk: Risk = "medium"
    read_only: bool = False
    destructive: bool | None = None
    idempotent: bool = False
    open_world: bool = True
    title: str | None = None
    description: str | None = None


class ImportRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which tools of a server are imported, under which names, and what holds for them. Nothing is, unless listed."""

    prefix: str
    tools: tuple[str, ...] = ()
    accept: Literal["manual", "first"] = "manual"
    tenants: tuple[str, ...] = (DEFAULT_TENANT,)
    rules: dict[str, ToolRule] = msgspec.field(default_factory=dict)
    """By name or pattern; the first that fits counts."""

    def admits(self, tool: str) -> bool:
        """Whether a tool is one that the operator lists."""
        return any(fnmatchcase(tool, pattern) for pattern in self.tools)

    def is_for(self, tenant: str) -> bool:
        """Whether a tenant may have the tools."""
        return "*" in self.tenants or tenant in self.tenants

    def rule_of(self, tool: str) -> ToolRule:
        """What holds for a tool: what is said of its name, else of a pattern that fits it."""
        exact = self.rules.get(tool)
        if exact is not None:
            return exact
        fitting = (rule for pattern, rule in self.rules.items() if fnmatchcase(tool, pattern))
        return next(fitting, ToolRule())


class ServerState(msgspec.Struct, frozen=True, kw_only=True):
    """How the connection to a server stands."""

    status: Literal["idle", "connecting", "connected", "unavailable"] = "idle"
    protocol: str | None = None
    error: str | None = None
    since: int | None = None


class ToolRefusal(msgspec.Struct, frozen=True):
    """Why a tool is not called."""

    code: str
    message: str


class ToolGuard(Protocol):
    """Told what servers say, and asked before their tools are called."""

    def tools_listed(self, server: str, tools: tuple[UpstreamTool, ...]) -> Awaitable[None]:
        """A server has listed its tools. Nothing of it is called before this is done."""

    def refusal(self, tenant: str, server: str, tool: str) -> Awaitable[ToolRefusal | None]:
        """Why a tool must not be called for a tenant now; None if it may."""

    def state(self, server: str, state: ServerState) -> None:
        """The connection to a server stands differently."""


def tenant_refusal(tenant: str, server: str, rules: ImportRules | None) -> ToolRefusal | None:
    """Why a tenant must not call a server at all; None if it may.

    Calls are made with the operator's credentials: other tenants have a server only where the settings say so.
    """
    if rules.is_for(tenant) if rules is not None else tenant == DEFAULT_TENANT:
        return None
    message = f"{server} is not for this tenant; an operator may list the tenant in mcp_servers.{server}.import.tenants"
    return ToolRefusal("UPSTREAM_NOT_FOUND", message)


class NoGuard:
    """Refuses what other tenants call, and nothing else: where no tools are imported."""

    async def tools_listed(self, server: str, tools: tuple[UpstreamTool, ...]) -> None:
        """Nobody wants to know."""

    async def refusal(self, tenant: str, server: str, tool: str) -> ToolRefusal | None:
        """The operator's own tenant may call everything."""
        return tenant_refusal(tenant, server, None)

    def state(self, server: str, state: ServerState) -> None:
        """Nobody wants to know."""


class UpstreamConnections(Protocol):
    """The connections to servers, for whoever wants to look again."""

    def look(self, server: str) -> Awaitable[None]:
        """List the tools of a server now, and tell the guard; raises `Unavailable` if it cannot be reached."""
