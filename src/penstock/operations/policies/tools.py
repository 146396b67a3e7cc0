"""The operation that says which tools a principal sees over MCP, why others are hidden, and how much the list takes.

The list is the one that the principal's client would get now. Nothing is called.

Above it: the catalogue. Below it: `explaining`, what the MCP surface says of its lists, the gate's stage for policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Unavailable
from penstock.base.scopes import missing_scope
from penstock.governance.policy.sets import ListQuestion
from penstock.operations.catalogue.capability import Capability, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.offers import OfferedTools
from penstock.operations.gate.context import Context, Principal
from penstock.operations.gate.policy_stage import Standpoint
from penstock.operations.policies.explaining import CallerKey, ExplainedPrincipal, explained_principal

__all__ = ["OPERATIONS"]

Hidden: TypeAlias = Literal["scope", "policy", "withheld", "toolset"]


class ExplainTools(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose tools."""

    key: CallerKey | None = None
    principal: Annotated[ExplainedPrincipal, Meta(description="Who calls, instead of a key.")] | None = None
    toolset: (
        Annotated[
            str,
            Meta(
                description="The toolset of the address; without, that of the key or of the settings.",
                max_length=limits.MCP_TOOLSET_CHARACTERS_MAX,
            ),
        ]
        | None
    ) = None
    operations: Annotated[bool, Meta(description="Also operations that are hidden, not only workflows and tools.")] = (
        False
    )


class SeenTool(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is a tool for some callers."""

    operation: str
    """Its canonical name."""
    kind: str
    """builtin, workflow, query, tool, upstream, or catalogue for the tools that search."""
    title: str
    name: str | None
    """Its name in the list; None if it is hidden."""
    hidden: Hidden | None
    """Why it is not listed: a scope is missing, policies forbid it, nobody has accepted it as it is (withheld), or the
    toolset leaves it out."""
    because: list[str]
    """The scope that is missing, or the policies."""
    bytes: int
    """How much of the list it takes up."""


class SeenTools(msgspec.Struct, frozen=True, kw_only=True):
    """What a principal sees, and what not."""

    principal: str
    toolset: str
    listed: int
    bytes: int
    """The size of the list as JSON."""
    tokens: int
    """About how many tokens of a model's context it takes: a token is counted for each `bytes_per_token` bytes."""
    bytes_per_token: int
    items: list[SeenTool]


@operation(
    "policy.tools",
    route=Route(method="POST", path="/policies/tools"),
    scopes=("policy:read",),
    reads=True,
    bucket="admin",
    errors=("KEY_NOT_FOUND", "NOT_CONFIGURED"),
    examples=(Example(arguments={"key": "claude"}),),
)
async def policy_tools(context: Context, given: ExplainTools) -> SeenTools:
    """Explain which tools a key sees over MCP.

    Returns the list as a client with that key would get it now, with its size, and why other workflows and tools are
    hidden: a missing scope, a policy, or the toolset. Nothing is called.
    """
    tools_of = context.services.mcp.tools_of
    if tools_of is None:
        raise Unavailable(
            "NOT_CONFIGURED", "this process does not serve MCP", "send the call to a server with `server.mcp.enabled`"
        )
    principal = await explained_principal(context, given.key, given.principal)
    offered = await tools_of(principal, given.toolset)
    hidden = [item for item in offered.every if item.name not in offered.listed and _may_be_tool(item)]
    if not given.operations:
        hidden = [item for item in hidden if not item.is_builtin]
    shown = {item.name: item for item in offered.every}
    items = [
        SeenTool(
            operation=name,
            kind=shown[name].populator if name in shown else "catalogue",
            title=tool.title,
            name=tool.name,
            hidden=None,
            because=[],
            bytes=tool.bytes,
        )
        for name, tool in offered.listed.items()
    ]
    items += await _hidden(context, principal, offered, hidden)
    size = sum(tool.bytes for tool in offered.listed.values())
    return SeenTools(
        principal=principal.id,
        toolset=offered.toolset,
        listed=len(offered.listed),
        bytes=size,
        tokens=-(-size // offered.bytes_per_token),
        bytes_per_token=offered.bytes_per_token,
        items=items,
    )


def _may_be_tool(capability: Capability) -> bool:
    """Whether somebody could have it as a tool: what is for people who run the server is for no assistant."""
    return not capability.is_builtin or (capability.route is not None and capability.governance.bucket != "admin")


async def _hidden(
    context: Context, principal: Principal, offered: OfferedTools, hidden: Sequence[Capability]
) -> list[SeenTool]:
    stage = context.services.policies
    policies = None if stage is None else await stage.of(context.tenant)
    found: list[SeenTool] = []
    for capability in hidden:
        missing = missing_scope(principal.scopes, capability.governance.scopes)
        reason: Hidden = "toolset"
        because: tuple[str, ...] = ()
        if missing is not None:
            reason, because = "scope", (missing,)
        elif capability.name not in offered.callable and stage is not None and policies is not None:
            target = capability.authorization({}).resource_id
            resource = None if capability.is_builtin else target or ""
            question = ListQuestion(capability.policy_action, capability.governance.risk, resource)
            seen = stage.list_context(policies, principal, Standpoint(surface="mcp"))
            reason, because = "policy", policies.listed_because(stage.entity(principal), question, seen)
        elif capability.metadata.get("withheld") is True:
            reason = "withheld"
        found.append(
            SeenTool(
                operation=capability.name,
                kind=capability.populator,
                title=capability.title,
                name=None,
                hidden=reason,
                because=list(because),
                bytes=0,
            )
        )
    return found


OPERATIONS: tuple[Capability, ...] = (policy_tools,)
