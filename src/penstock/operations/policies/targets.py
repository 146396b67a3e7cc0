"""Finds what a name stands for: an operation, a workflow, a stored query, an imported tool or what a node reaches.

Above it: `explaining`, `replaying`. Below it: the catalogue, `permissions`, `runs`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.base.errors import NotFound
from penstock.base.json import JsonObject
from penstock.base.scopes import missing_scope
from penstock.governance.policy.sets import ListQuestion
from penstock.operations.catalogue.capability import Capability, Governance
from penstock.operations.gate.context import Context, Principal
from penstock.operations.gate.policy_stage import Target
from penstock.operations.permissions.starting import needs_of, needs_to_start, scopes_to_start
from penstock.operations.registered_tools.capabilities import registered_tools
from penstock.operations.runs.actions.nodes import NODE_ACTIONS, node_target
from penstock.operations.runs.actions.workflows import start_target
from penstock.operations.runs.imported_tools import UPSTREAM_PREFIX, imported_tools
from penstock.operations.runs.tool_schemas import annotations_of, governance_of, object_at, settings_of, strictest
from penstock.operations.stored_queries.capabilities import QUERY_PREFIX, graph_tools
from penstock.runtime.ports.runs import DefinitionRow

__all__ = ["Called", "find_called", "meant_by"]

_WORKFLOW = "workflow:"
_NODE = "node:"
# What is found without its prefix, too. The id of a registered tool may be that of anything else.
_SHORT = (UPSTREAM_PREFIX, QUERY_PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """Something that can be called."""

    target: Target
    scopes: tuple[str, ...]
    is_builtin: bool = False
    governance: Governance = field(default_factory=Governance)
    """What decides whether a call waits; of a workflow, with that of its children."""
    changes: bool = True
    can_wait: bool = True
    """Whether a call that has to be approved waits; otherwise it is refused."""
    capability: Capability | None = None
    """The operation or tool; None for a workflow, whose arguments are its input."""

    @property
    def question(self) -> ListQuestion:
        """The question whether it is listed. The arguments of an operation name its resource, so it is unknown."""
        resource_id = None if self.is_builtin else self.target.resource_id
        return ListQuestion(self.target.action, self.target.risk, resource_id)


async def find_called(context: Context, name: str, arguments: JsonObject) -> Called:
    """Return what has a name, in any spelling that callers know: `workflow.get`, `refund_order`, a tool's name."""
    services = context.services
    catalogue, node = services.catalogue, name.removeprefix(_NODE)
    if node != name and node in NODE_ACTIONS:
        return Called(target=node_target(node, arguments), scopes=(), changes=False, can_wait=False)
    for capability in catalogue.all() if catalogue is not None else ():
        if name in (capability.name, capability.name.replace(".", "_")):
            return _of_capability(capability, arguments, is_builtin=True)
    for row in await services.store.definitions.list_newest(tenant=context.tenant):
        if name.removeprefix(_WORKFLOW) in (row.name, _tool_name(row)):
            return await _of_workflow(context, row)
    for tool in await _tools(context):
        if name == tool.name or (tool.name.startswith(_SHORT) and name == tool.name.partition(":")[2]):
            return _of_capability(tool, arguments, is_builtin=False)
    message = f"there is no operation, workflow or tool {name[:100]}"
    raise NotFound(
        "ACTION_NOT_FOUND", message, "list the operations with system.operations, and the workflows with workflow.list"
    )


async def meant_by(context: Context, principal: Principal, name: str, arguments: JsonObject) -> tuple[str, JsonObject]:
    """Return what a call of an operation stands for, as the gate does: a stored query, a registered tool."""
    catalogue = context.services.catalogue
    known = None if catalogue is None else next((item for item in catalogue.all() if item.name == name), None)
    meant = None if known is None or known.stands_for is None else known.stands_for(arguments)
    if known is None or meant is None or missing_scope(principal.scopes, known.governance.scopes) is not None:
        return name, arguments
    called, given, _ = meant
    return (called, given) if any(tool.name == called for tool in await _tools(context)) else (name, arguments)


async def _tools(context: Context) -> tuple[Capability, ...]:
    """Return the tools of a tenant, without its workflows."""
    imported = await imported_tools(context.services, context.tenant)
    queries = await graph_tools(context.services, context.tenant)
    registered = await registered_tools(context.services, context.tenant, imported, queries)
    return (
        *imported.tools.values(),
        *queries.listed.values(),
        *queries.unlisted.values(),
        *registered.all.values(),
    )


def _tool_name(row: DefinitionRow) -> str | None:
    named = (settings_of(row.document, "tool") or {}).get("name")
    return named if isinstance(named, str) else None


def _of_capability(capability: Capability, arguments: JsonObject, *, is_builtin: bool) -> Called:
    resource_id = capability.authorization(arguments).resource_id or ""
    target = Target(capability.policy_action, capability.governance.risk, resource_id)
    return Called(
        target=target,
        scopes=capability.governance.scopes,
        is_builtin=is_builtin,
        governance=capability.governance,
        changes=not capability.annotations.read_only,
        can_wait=capability.governance.holdable and not capability.only_reads,
        capability=capability,
    )


async def _of_workflow(context: Context, row: DefinitionRow) -> Called:
    own = [needs_of(context.services, row)]
    scopes = await scopes_to_start(context.services, context.tenant, own)
    needs = await needs_to_start(context.services, context.tenant, own)
    declared = governance_of(object_at(row.document, "governance"), scopes)
    shown = annotations_of(object_at(settings_of(row.document, "tool") or {}, "annotations"))
    return Called(
        target=start_target(row.name, row.document),
        scopes=scopes,
        governance=strictest(declared, (item.governance for item in needs)),
        changes=not shown.read_only,
    )
