"""What is decided about tools of other servers without a person: by the settings, and by what the servers list.

These are internal calls; the principal is `system:upstream`. A server's list of tools belongs to no tenant; changes of
it are in the audit log of the default tenant. Tools that the settings accept at first sight, and the workflow for calls
of a tool, are in the audit log of the tenant that has the tool.

Above it: `app.gate`. Below it: `runtime.upstreams`, `runs.imported_tools`, the gate.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.base.errors import NotFound
from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context
from penstock.operations.gate.internal_callers import internal_call, system_principal
from penstock.operations.gate.pipeline import Gate
from penstock.operations.runs.imported_tools import CALLS_OWNER, call_workflow
from penstock.runtime.upstreams.tool_registry import ACCEPT_FIRST, DEFINE_CALL, KEEP_LISTING, Act, UpstreamToolRegistry

__all__ = ["OPERATIONS", "accept_through"]


class OfServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The server whose tools are meant."""

    server: str


class OfTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tool that is meant."""

    server: str
    tool: str
    repeatable: bool = False
    """Whether a call with an unknown outcome is made again."""


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """How many tools were affected."""

    count: int


def _tool_registry(context: Context) -> UpstreamToolRegistry:
    registry = context.services.upstreams
    if registry is None:
        raise NotFound("UPSTREAM_NOT_FOUND", "no tools of other servers are imported")
    return registry


def _tool(arguments: JsonObject) -> str:
    return f"{arguments.get('server')}/{arguments.get('tool')}"


@operation(KEEP_LISTING, route=None, scopes=("upstream:admin",), subject="server")
async def keep_listing(context: Context, given: OfServer) -> Counted:
    """Keep what a server lists now."""
    return Counted(count=await _tool_registry(context).keep_listing(given.server, call=context.call))


@operation(ACCEPT_FIRST, route=None, scopes=("upstream:admin",), risk="high", subject="server")
async def accept_first(context: Context, given: OfServer) -> Counted:
    """Accept the tools of a server that the settings accept as they are first seen."""
    registry = _tool_registry(context)
    chosen = await registry.accepted_by_settings(context.tenant, given.server)
    pins = await registry.accept(context.tenant, chosen, context.principal.id, lambda pins: context.call)
    return Counted(count=len(pins))


@operation(DEFINE_CALL, route=None, scopes=("workflow:write",), subject=_tool)
async def define_call(context: Context, given: OfTool) -> Counted:
    """Store the workflow that calls of a tool run."""
    rules = _tool_registry(context).rules[given.server]
    workflow = call_workflow(given.server, given.tool, rules, repeatable=given.repeatable)
    context.call.about(None, hash=workflow.hash)
    await context.services.host.register(
        workflow, tenant=CALLS_OWNER, created_by=context.principal.id, call=lambda row: context.call
    )
    return Counted(count=1)


def accept_through(gate: Gate) -> Act:
    """Return how the tool registry makes changes that no person requests: with a call through the gate."""

    async def act_as_upstream(tenant: str, operation: str, arguments: JsonObject) -> Any:
        upstream = system_principal("upstream", "upstream:admin", "workflow:write", tenant=tenant)
        return await internal_call(gate, upstream, operation, arguments)

    return act_as_upstream


OPERATIONS: tuple[Capability, ...] = (keep_listing, accept_first, define_call)
