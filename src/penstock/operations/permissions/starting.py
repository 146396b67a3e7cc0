"""Who may start a workflow: the one place that decides, for every way to start one.

A start needs `workflow:run` and every scope that the document names under `governance.scopes`. An older version must
not allow what the newest one forbids, so both are checked. A child runs with the authority of the principal that
started its parent, so a start also needs the scopes of its children, as they are stored at that moment; versions that
are stored later affect later starts only.

A principal that lacks a scope learns which one if it may read workflows; for any other, the workflow does not exist.
Reading needs none of these scopes.

Above it: everything that starts runs, and the lists of tools. Below it: `definitions.start_needs`, the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.base import limits
from penstock.base.errors import Denied, NotFound, PenstockError
from penstock.base.json import object_or_empty
from penstock.base.scopes import missing_scope, scope_allows
from penstock.definitions.start_needs import ChildReference, StartNeeds, start_needs
from penstock.operations.gate.context import Context, Principal, Services
from penstock.operations.permissions.authorship import refuse_proposed_version
from penstock.runtime.ports.runs import DefinitionRow
from penstock.runtime.tables.resources import list_resources

__all__ = [
    "READ_SCOPE",
    "RUN_SCOPE",
    "UNKNOWN_WORKFLOW",
    "UPSTREAM_RUN_SCOPE",
    "find_workflow",
    "first_missing",
    "found_definition",
    "may_start_alone",
    "needed_scopes",
    "needs_of",
    "needs_to_start",
    "protecting_version",
    "refuse_start",
    "scopes_to_start",
    "start_refusal",
    "unknown_workflow",
    "versions_of_child",
]


READ_SCOPE = "workflow:read"
UNKNOWN_WORKFLOW = "WORKFLOW_NOT_FOUND"
RUN_SCOPE = "workflow:run"
UPSTREAM_RUN_SCOPE = "upstream:run"
# The kind under which the platform store keeps registered tools.
_TOOLS = "tool"


def unknown_workflow(name: str, definition_hash: str | None = None) -> NotFound:
    """Return the error for a workflow that does not exist or that the caller may not see; it does not reveal which."""
    message = f"there is no workflow {name}" + (f" with hash {definition_hash}" if definition_hash else "")
    return NotFound(UNKNOWN_WORKFLOW, message, "list the workflows with workflow.list")


def needs_of(services: Services, row: DefinitionRow) -> StartNeeds:
    """Return what starting a stored version needs. Versions never change, so the result is cached."""
    known = services.start_needs.get(row.hash)
    if known is None:
        known = start_needs(row.document)
        services.start_needs.put(row.hash, known)
    return known


async def scopes_to_start(
    services: Services, tenant: str, versions: Iterable[StartNeeds], newest: Mapping[str, DefinitionRow] | None = None
) -> tuple[str, ...]:
    """Return every scope that is needed to start any of these versions, including their children as stored now.

    `newest` holds all workflows of the tenant, if the caller has read them; otherwise each child is looked up.
    """
    found: dict[str, None] = {RUN_SCOPE: None}
    for needs in await needs_to_start(services, tenant, versions, newest):
        found.update(dict.fromkeys(needs.scopes))
    return tuple(found)


async def needs_to_start(
    services: Services, tenant: str, versions: Iterable[StartNeeds], newest: Mapping[str, DefinitionRow] | None = None
) -> list[StartNeeds]:
    """Return what these versions need, and what all of their children do; `newest` as in `scopes_to_start`."""
    found: list[StartNeeds] = []
    seen: set[ChildReference] = set()
    waiting = list(versions)
    while waiting:
        needs = waiting.pop()
        found.append(needs)
        for child in needs.children:
            if child not in seen:
                seen.add(child)
                rows = await versions_of_child(services, tenant, child, newest)
                waiting.extend([needs_of(services, row) for row in rows])
    return found


async def versions_of_child(
    services: Services, tenant: str, child: ChildReference, newest: Mapping[str, DefinitionRow] | None
) -> list[DefinitionRow]:
    """Return the versions that decide about a child: the newest one, and the pinned one if that is another."""
    store = services.store
    row = await store.definitions.find_named(child.name, tenant=tenant) if newest is None else newest.get(child.name)
    if row is None:
        return []  # the run will report it
    if child.version_pin in (None, row.hash):
        return [row]
    pinned = await store.definitions.find(str(child.version_pin), tenant=tenant)
    return [row] if pinned is None else [row, pinned]


async def needed_scopes(services: Services, tenant: str) -> frozenset[str]:
    """Return every scope that anything in a tenant needs: operations, workflows, their approvals, tools."""
    catalogue, upstreams = services.catalogue, services.upstreams
    found = {scope for item in (catalogue.all() if catalogue else ()) for scope in item.governance.scopes}
    for row in await services.store.definitions.list_newest(tenant=tenant):
        needs = needs_of(services, row)
        found.update(needs.scopes)
        found.update(f"approve:{group}" for group in needs.groups)
    for rules in upstreams.rules_for(tenant).values() if upstreams is not None else ():
        found.update(scope for rule in rules.rules.values() for scope in (UPSTREAM_RUN_SCOPE, *rule.scopes))
    registered = await list_resources(services.platform, tenant, _TOOLS, limit=limits.TOOLS_PER_TENANT_MAX)
    for entry in registered.rows:
        scopes = object_or_empty(entry.body.get("governance")).get("scopes")
        found.update(str(scope) for scope in (scopes if isinstance(scopes, list) else []))
    return frozenset(found)


async def refuse_start(services: Services, principal: Principal, *rows: DefinitionRow, is_sent: bool = False) -> None:
    """Refuse to start the last of these versions of a workflow if the principal lacks a scope for any of them.

    A version that is only proposed is not started at all, unless it `is_sent`: a model sent it along with the run.
    """
    if not is_sent:
        refuse_proposed_version(services, rows[-1])
    versions = [needs_of(services, row) for row in rows]
    if may_start_alone(principal, versions):
        return
    refusal = await start_refusal(services, principal, rows[-1].name, versions)
    if refusal is not None:
        raise refusal


def may_start_alone(principal: Principal, versions: Iterable[StartNeeds]) -> bool:
    """Whether a principal may start versions that start no others: what is known without reading anything."""
    for needs in versions:
        if needs.children or missing_scope(principal.scopes, (RUN_SCOPE, *needs.scopes)) is not None:
            return False
    return True


async def start_refusal(
    services: Services, principal: Principal, name: str, versions: Iterable[StartNeeds]
) -> PenstockError | None:
    """Return why a principal may not start a workflow; None if it may."""
    required = await scopes_to_start(services, principal.tenant, versions)
    missing = first_missing(principal, required)
    if missing is None:
        return None
    if not scope_allows(principal.scopes, READ_SCOPE):
        return unknown_workflow(name)
    message = f"starting {name} needs the scope {missing}, which {principal.credential_noun} does not have"
    return Denied("SCOPE_REQUIRED", message, principal.scope_hint, {"scope": missing, "scopes": list(required)})


def first_missing(principal: Principal, required: Iterable[str]) -> str | None:
    """Return the first scope that a principal lacks."""
    return missing_scope(principal.scopes, tuple(required))


async def protecting_version(services: Services, tenant: str, name: str) -> DefinitionRow | None:
    """Return the version whose scopes and risk protect a name: the newest one, even if the workflow was deleted."""
    newest = await services.store.definitions.find_named(name, tenant=tenant)
    if newest is not None:
        return newest
    page = await services.store.definitions.list_versions(name, tenant=tenant, limit=1)
    return page.rows[0] if page.rows else None


async def find_workflow(context: Context, given: Any) -> DefinitionRow:
    """Find the workflow that the input of a call names."""
    return await found_definition(context, given.workflow_id)


async def found_definition(context: Context, workflow_id: str, definition_hash: str | None = None) -> DefinitionRow:
    """Return a workflow of the caller's tenant; raise NotFound if it does not exist."""
    store = context.services.store
    row = await store.definitions.find_named(workflow_id, tenant=context.tenant)
    # To callers, a deleted workflow has no versions.
    if definition_hash is not None and row is not None and row.hash != definition_hash:
        row = await store.definitions.find(definition_hash, tenant=context.tenant)
    if row is None or row.name != workflow_id:
        raise unknown_workflow(workflow_id, definition_hash)
    return row
