"""The actions that policies of a tenant may name: operations, workflows, stored queries, tools, what nodes reach.

Above it: the operations on policies. Below it: the catalogue, `runs.actions`, `runs.imported_tools`, `stored_queries`,
`registered_tools`.
"""

from __future__ import annotations

from penstock.governance.policy.schema import ActionShape
from penstock.operations.gate.context import Services
from penstock.operations.registered_tools.capabilities import registered_tools
from penstock.operations.runs.actions.nodes import NODE_ACTIONS
from penstock.operations.runs.actions.workflows import workflow_action
from penstock.operations.runs.imported_tools import imported_tools
from penstock.operations.stored_queries.capabilities import graph_tools

__all__ = ["known_actions"]


async def known_actions(services: Services, tenant: str) -> dict[str, ActionShape]:
    """Return the actions of a tenant by name, as they are now."""
    catalogue = services.catalogue
    found = [item.policy_action for item in (catalogue.all() if catalogue is not None else ())]
    found += [
        workflow_action(row.name, row.document) for row in await services.store.definitions.list_newest(tenant=tenant)
    ]
    imported = await imported_tools(services, tenant)
    found += [item.policy_action for item in imported.tools.values()]
    queries = await graph_tools(services, tenant)
    found += [item.policy_action for item in (*queries.listed.values(), *queries.unlisted.values())]
    registered = await registered_tools(services, tenant, imported, queries)
    found += [item.policy_action for item in registered.all.values()]
    found += [kind.action for kind in NODE_ACTIONS.values()]
    return {action.name: action for action in found}
