"""Tools of other MCP servers: a server's description, its hash, and the guard that decides about calls.

A server describes its tools itself, and may describe them differently tomorrow. The description shown to a model is
therefore identified by its hash: accepting a tool accepts exactly this text and these schemas.

Above it: `tool_registry` decides which tools are accepted and implements `ToolGuard`; executors connect to servers and
ask the guard before they call. Below it: nothing. It does no I/O.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable
from fnmatch import fnmatchcase
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from penstock.base.addresses import leads_straight, unescape_unreserved
from penstock.base.encoding import SafeEncoder
from penstock.base.ids import DEFAULT_TENANT

__all__ = [
    "PROMPT_PREFIX",
    "READS_RESOURCES",
    "ImportRules",
    "NoGuard",
    "ServerState",
    "ToolEffects",
    "ToolGuard",
    "ToolRefusal",
    "ToolRule",
    "UpstreamConnections",
    "UpstreamResource",
    "UpstreamTool",
    "tenant_refusal",
    "tool_hash",
]

_encode = SafeEncoder(order="sorted").encode

# Methods that change nothing, and those that have the same effect when they are sent twice (RFC 9110).
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_REPEATABLE = frozenset({"DELETE", "PUT"})

READS_RESOURCES = ("resources/list", "resources/read")
"""The names under which a server's resources are imported: they are tools that read."""
PROMPT_PREFIX = "prompts/"
"""What the names of a server's prompts begin with."""

Risk: TypeAlias = Literal["low", "medium", "high", "critical"]


class UpstreamTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as its server describes it. Its annotations are claims: shown to reviewers, otherwise unused."""

    name: str
    title: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] = msgspec.field(default_factory=dict)
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] = msgspec.field(default_factory=dict)
    problem: str | None = None
    """Why it cannot be used as it is described; such a tool cannot be accepted."""
    request: dict[str, Any] | None = None
    """Of an operation of an API, of a prompt and of resources: the request that a call becomes. None for a tool."""


class UpstreamResource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource as its server lists it, or a template of resources: then `uri` has variables in braces."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    is_template: bool = False


def tool_hash(tool: UpstreamTool) -> str:
    """The hash of everything about a tool that a model is shown, and of the request that it becomes."""
    shown = [tool.name, tool.title, tool.description, tool.input_schema, tool.output_schema]
    if tool.request is not None:
        shown.append(tool.request)
    return hashlib.sha256(_encode(shown)).hexdigest()


class ToolRule(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's rule for a tool. The server's own claims do not affect any of this.

    `None` means not set. For an operation of an API, the method of its request then decides.
    """

    scopes: tuple[str, ...] = ()
    risk: Risk | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool = True
    title: str | None = None
    description: str | None = None


class ToolEffects(msgspec.Struct, frozen=True, kw_only=True):
    """What a call of a tool may do."""

    risk: Risk
    read_only: bool
    destructive: bool
    idempotent: bool


class ImportRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which tools of a server are imported, under which names and rules. A tool that is not listed is not imported."""

    prefix: str
    tools: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    """The resources that may be read, as patterns of their addresses."""
    prompts: tuple[str, ...] = ()
    """The prompts that are imported, by name or pattern."""
    accept: Literal["manual", "first"] = "manual"
    tenants: tuple[str, ...] = (DEFAULT_TENANT,)
    rules: dict[str, ToolRule] = msgspec.field(default_factory=dict)
    """By name or pattern. An exact name wins; otherwise the first matching pattern does."""

    def admits(self, tool: str) -> bool:
        """True if the operator lists a tool, or what is imported as one."""
        if self.is_reading(tool):
            name = tool.removeprefix(PROMPT_PREFIX)
            return name == tool or any(fnmatchcase(name, pattern) for pattern in self.prompts)
        return any(fnmatchcase(tool, pattern) for pattern in self.tools)

    def admits_resource(self, uri: str) -> bool:
        """True if the operator lets a resource be read. An address must lead straight to what it seems to name."""
        normal = unescape_unreserved(uri)
        return leads_straight(uri) and any(
            fnmatchcase(uri, pattern) and fnmatchcase(normal, unescape_unreserved(pattern))
            for pattern in self.resources
        )

    def is_reading(self, tool: str) -> bool:
        """True if a name means a prompt or resources of the server, and no tool of it."""
        return (tool in READS_RESOURCES and bool(self.resources)) or (
            tool.startswith(PROMPT_PREFIX) and bool(self.prompts)
        )

    def is_for(self, tenant: str) -> bool:
        """True if a tenant may use the tools."""
        return "*" in self.tenants or tenant in self.tenants

    def rule_of(self, tool: str) -> ToolRule:
        """The rule for a tool: by its exact name, else by the first matching pattern."""
        exact = self.rules.get(tool)
        if exact is not None:
            return exact
        fitting = (rule for pattern, rule in self.rules.items() if fnmatchcase(tool, pattern))
        return next(fitting, ToolRule())

    def effects_of(self, tool: UpstreamTool) -> ToolEffects:
        """What a tool may do: what the operator says, else what the method of its request means, else anything."""
        rule, method = self.rule_of(tool.name), (tool.request or {}).get("method")
        read_only = rule.read_only if rule.read_only is not None else method in _READING
        return ToolEffects(
            risk=rule.risk or ("medium" if method is None else "low" if read_only else "high"),
            read_only=read_only,
            destructive=not read_only if rule.destructive is None else rule.destructive,
            idempotent=read_only or (rule.idempotent if rule.idempotent is not None else method in _REPEATABLE),
        )


class ServerState(msgspec.Struct, frozen=True, kw_only=True):
    """The connection state of a server."""

    status: Literal["idle", "connecting", "connected", "unavailable"] = "idle"
    protocol: str | None = None
    error: str | None = None
    since: int | None = None


class ToolRefusal(msgspec.Struct, frozen=True):
    """Why a tool must not be called."""

    code: str
    message: str


class ToolGuard(Protocol):
    """Receives the listings of servers, and decides whether a tool may be called."""

    def tools_listed(self, server: str, tools: tuple[UpstreamTool, ...]) -> Awaitable[None]:
        """Receive a server's listing. No tool of the server is called before this returns."""

    def resources_listed(self, server: str, resources: tuple[UpstreamResource, ...]) -> None:
        """Receive the resources of a server, as far as the operator imports them."""

    def refusal(self, tenant: str, server: str, tool: str) -> Awaitable[ToolRefusal | None]:
        """Why a tool must not be called for a tenant now; None if it may."""

    def state(self, server: str, state: ServerState) -> None:
        """Receive a new connection state of a server."""


def tenant_refusal(tenant: str, server: str, rules: ImportRules | None) -> ToolRefusal | None:
    """Why a tenant must not call a server at all; None if it may.

    Calls use the operator's credentials, so other tenants may call a server only if the settings say so.
    """
    if rules.is_for(tenant) if rules is not None else tenant == DEFAULT_TENANT:
        return None
    message = f"{server} is not for this tenant; an operator may list the tenant under `import.tenants` of {server}"
    return ToolRefusal("UPSTREAM_NOT_FOUND", message)


class NoGuard:
    """The guard if no tools are imported: refuses calls of other tenants, and nothing else."""

    async def tools_listed(self, server: str, tools: tuple[UpstreamTool, ...]) -> None:
        """Ignore the listing."""

    def resources_listed(self, server: str, resources: tuple[UpstreamResource, ...]) -> None:
        """Ignore the resources."""

    async def refusal(self, tenant: str, server: str, tool: str) -> ToolRefusal | None:
        """Refuse all tenants but the operator's own."""
        return tenant_refusal(tenant, server, None)

    def state(self, server: str, state: ServerState) -> None:
        """Ignore the state."""


class UpstreamConnections(Protocol):
    """The connections to servers, for callers that want a fresh listing."""

    def look(self, server: str) -> Awaitable[None]:
        """List the tools of a server now and inform the guard. Raises `Unavailable` if it cannot be reached."""
