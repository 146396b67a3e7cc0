"""What each tenant exposes to assistants: the tools, prompts and resources that its workflows declare.

Stored queries, registered tools and tools that are imported from other MCP servers are listed with them. A workflow
with `expose.tool` becomes a capability like any other: called through the gate, it starts a durable run of the version
that was listed and waits for the result for as long as the call may. The result of reading is cached until this process
changes a workflow of the tenant; changes by other processes are noticed after a moment.

Above it: the gate looks here for what the catalogue does not have, surfaces list it. Below it: `runs`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from penstock.base import limits
from penstock.base.encoding import SafeEncoder
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.agents.schemas import input_schema_of, output_schema_of
from penstock.definitions.reached import Reached, workflow_key
from penstock.governance.authorship import agents_behind
from penstock.operations.catalogue.capability import Capability, Governance
from penstock.operations.catalogue.exposure import ExposedPrompt, ExposedResource, Exposure, TenantWorkflows
from penstock.operations.exposed.contents import (
    PROMPT_PREFIX,
    RESOURCE_PREFIX,
    exposed_prompt,
    exposed_resource,
    imported_prompt,
)
from penstock.operations.gate.context import Services
from penstock.operations.permissions.starting import needs_of, needs_to_start, scopes_to_start
from penstock.operations.permissions.weaker import agents_of_children
from penstock.operations.registered_tools.capabilities import TOOL_PREFIX, RegisteredTools, registered_tools
from penstock.operations.runs.capabilities import client_needs, converted, execute, execution_authorization, icons_of
from penstock.operations.runs.impacts import start_impact
from penstock.operations.runs.imported_tools import UPSTREAM_PREFIX, ImportedTools, imported_tools
from penstock.operations.runs.tool_schemas import (
    annotations_of,
    governance_of,
    object_at,
    object_schema,
    result_schema,
    settings_of,
    strictest,
    text_of,
)
from penstock.operations.stored_queries.capabilities import QUERY_PREFIX, GraphTools, graph_tools
from penstock.runtime.ports.runs import DefinitionRow
from penstock.runtime.ports.topics import Mark, Topic

__all__ = ["WORKFLOW_PREFIX", "ExposedWorkflows"]


WORKFLOW_PREFIX = "workflow:"
_PREFIXES = (WORKFLOW_PREFIX, RESOURCE_PREFIX, PROMPT_PREFIX, UPSTREAM_PREFIX, QUERY_PREFIX, TOOL_PREFIX)
_ERRORS = ("INVALID_ARGUMENTS", "WORKFLOW_NOT_FOUND", "VALUE_NOT_JSON", "QUOTA_EXCEEDED")

_EXPOSED = (Topic.DEFINITIONS, Topic.GRAPHS, Topic.REGISTERED)
_LISTED = (*_EXPOSED, Topic.KEYS, Topic.POLICIES, Topic.GRANTS)

# The kinds of requests that workflows can handle.
_HANDLED = ("sampling", "elicitation", "roots")

_encode = SafeEncoder(order="sorted").encode


class ExposedWorkflows:
    """The exposures of all tenants; implements `Exposures`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._known: dict[str, Exposure] = {}
        self._outdated: set[str] = set()
        self._listening: set[Callable[[str], None]] = set()
        self._reading = asyncio.Lock()
        self._changes = 0
        self._revision = 0

    def changed(self, tenant: str, *, quietly: bool = False) -> None:
        """Read a tenant's workflows again before they are next used; notify the listeners, unless `quietly`."""
        self._outdated.add(tenant)
        self._changes += 1
        for callback in () if quietly else tuple(self._listening):
            callback(tenant)

    def listen(self, callback: Callable[[str], None]) -> None:
        """Call this with each tenant whose workflows this process changes, until `leave`."""
        self._listening.add(callback)

    def leave(self, callback: Callable[[str], None]) -> None:
        """Remove a listener."""
        self._listening.discard(callback)

    async def of(self, tenant: str) -> Exposure:
        """Return what a tenant exposes now."""
        known = self.at_hand(tenant)
        if known is not None:
            return known
        # After a change many callers ask at once: only one of them reads.
        async with self._reading:
            return self.at_hand(tenant) or await self._read(tenant)

    def at_hand(self, tenant: str) -> Exposure | None:
        """Return the cached exposure if it is valid: nothing was stored since, or it was read a moment ago."""
        known = self._known.get(tenant)
        if known is None or tenant in self._outdated:
            return None
        if self._services.clock.now_ms() - known.read_at < limits.EXPOSED_REREAD_MS:
            return known  # asking the file for its mark costs more than looking at the clock
        return known if known.mark == self._services.store.changed(*_EXPOSED) and not self._imports(tenant) else None

    def mark_of_lists(self) -> Mark:
        """Return what differs once any process has stored something that may change what a caller sees in a list."""
        return self._services.store.changed(*_LISTED)

    def _imports(self, tenant: str) -> bool:
        """Whether a tenant imports tools of other servers; those can change without a change in the store."""
        upstreams = self._services.upstreams
        return upstreams is not None and bool(upstreams.rules_for(tenant))

    async def _read(self, tenant: str) -> Exposure:
        known, now = self._known.get(tenant), self._services.clock.now_ms()
        mark = self._services.store.changed(*_EXPOSED)
        changes = self._changes
        stored = await self._services.store.definitions.list_newest(tenant=tenant)
        rows = sorted((row for row in stored if _exposes(row.document)), key=lambda row: row.name)
        workflows = TenantWorkflows.of(stored)
        imported = await imported_tools(self._services, tenant)
        queries = await graph_tools(self._services, tenant)
        registered = await registered_tools(self._services, tenant, imported, queries)
        newest = {row.name: row for row in stored}
        called = {**imported.tools, **queries.listed, **queries.unlisted, **registered.all}
        needs = {row.name: await self._needs(tenant, row, newest, called) for row in rows}
        # The scopes of its children decide who sees a workflow, and their risk whether it waits, as much as its own.
        marks = (*imported.marks, *queries.marks, *registered.marks)
        hashes = (*(row.hash for row in rows), *map(repr, needs.values()), *marks)
        if known is not None and known.hashes == hashes:
            fresh = replace(known, workflows=workflows, read_at=now, mark=mark)
        else:
            self._revision += 1
            exposure = _with_tools(_exposure(rows, needs, imported, self._revision), queries, registered)
            fresh = replace(exposure, hashes=hashes, workflows=workflows, read_at=now, mark=mark)
        self._known[tenant] = fresh
        if changes == self._changes:  # otherwise something changed while reading, and the cache stays outdated
            self._outdated.discard(tenant)
        while len(self._known) > limits.EXPOSED_TENANTS_KEPT:
            del self._known[next(iter(self._known))]
        return fresh

    async def _needs(
        self,
        tenant: str,
        row: DefinitionRow,
        newest: Mapping[str, DefinitionRow],
        called: Mapping[str, Capability],
    ) -> _Needs:
        own = [needs_of(self._services, row)]
        children = await needs_to_start(self._services, tenant, own, newest)
        scopes = await scopes_to_start(self._services, tenant, own, newest)
        authors = (*agents_behind(row.author), *await agents_of_children(self._services, tenant, own[0]))
        governance = [item.governance for item in children if item is not own[0]]
        names = dict.fromkeys(name for item in children for name in item.calls if name in called)
        return _Needs(scopes, (*governance, *(called[name].governance for name in names)), authors)

    async def find(self, tenant: str, name: str) -> Capability | None:
        """Return an exposed workflow by its canonical name: as a tool, prompt or resource."""
        if not name.startswith(_PREFIXES):
            return None
        return (await self.of(tenant)).found(name)


class _Needs(NamedTuple):
    """What starting a workflow needs, with its children as they are stored now."""

    scopes: tuple[str, ...]
    reached: tuple[JsonObject | Governance, ...]
    """The governance of the children, and of the tools and queries that nodes call."""
    authors: tuple[str, ...] = ()
    """The agents that wrote the workflow or one of its children, and who is behind them."""


def _exposes(document: JsonObject) -> bool:
    return isinstance(document.get("expose"), dict)


def _exposure(
    rows: list[DefinitionRow], needs: Mapping[str, _Needs], imported: ImportedTools, revision: int
) -> Exposure:
    own = [tool for row in rows if (tool := _tool(row, needs[row.name])) is not None]
    tools = {**imported.tools, **{tool.name: tool for tool in own}}
    prompts: dict[str, ExposedPrompt] = {}
    resources: dict[str, ExposedResource] = {}
    for row in rows:
        prompt, resource = exposed_prompt(row, needs[row.name].scopes), exposed_resource(row, needs[row.name].scopes)
        if prompt is not None:
            prompts.setdefault(prompt.name, prompt)
        if resource is not None:
            resources.setdefault(resource.address.text, resource)
    for tool in imported.tools.values():
        prompt = imported_prompt(tool)
        if prompt is not None:
            prompts.setdefault(prompt.name, prompt)
    read: tuple[ExposedPrompt | ExposedResource, ...] = (*prompts.values(), *resources.values())
    return Exposure(
        tools=MappingProxyType(tools),
        prompts=MappingProxyType({name: prompts[name] for name in sorted(prompts)}),
        resources=MappingProxyType({address: resources[address] for address in sorted(resources)}),
        contents=MappingProxyType({item.capability.name: item.capability for item in read}),
        imported=imported.resources,
        handlers=MappingProxyType(_handlers(rows)),
        revision=revision,
    )


def _with_tools(exposure: Exposure, queries: GraphTools, registered: RegisteredTools) -> Exposure:
    """Return an exposure with the stored queries of the tenant's graphs, and its registered tools."""
    tools = {**exposure.tools, **queries.listed, **registered.listed}
    unlisted = {**queries.unlisted, **registered.unlisted}
    return replace(exposure, tools=MappingProxyType(tools), unlisted=MappingProxyType(unlisted), graphs=queries.graphs)


def _handlers(rows: list[DefinitionRow]) -> dict[str, str]:
    """Return, for each kind of request, the first workflow by name that handles it."""
    found: dict[str, str] = {}
    for row in rows:
        for kind in _HANDLED:
            if settings_of(row.document, kind) is not None:
                found.setdefault(kind, row.name)
    return found


def _tool(row: DefinitionRow, needs: _Needs) -> Capability | None:
    shown = settings_of(row.document, "tool")
    return None if shown is None else _capability(row, shown, needs)


def _capability(row: DefinitionRow, shown: JsonObject, needs: _Needs) -> Capability:
    document = row.document
    input_schema = object_schema(input_schema_of(document))
    output_schema = result_schema(output_schema_of(document))
    title = text_of(shown.get("title"), document.get("title")) or row.name
    metadata: dict[str, JsonValue] = {
        "workflow": row.name,
        "tool": text_of(shown.get("name")) or row.name,
        "version": row.version,
        "hash": row.hash,
        "schema_hash": sha256(_encode([input_schema, output_schema])).hexdigest()[:_SCHEMA_DIGITS],
        "result": text_of(shown.get("result")) or "data",
        "task": text_of(shown.get("task")) or "auto",
        "icons": icons_of(shown),
        **client_needs(document, shown),
    }
    return Capability(
        name=f"{WORKFLOW_PREFIX}{row.name}",
        title=title,
        description=text_of(shown.get("description"), document.get("description")) or title,
        make_input_schema=lambda: input_schema,
        # A result that is shown as content has no structured data.
        make_output_schema=lambda: None if metadata["result"] == "content" else output_schema,
        annotations=annotations_of(object_at(shown, "annotations")),
        governance=msgspec.structs.replace(
            strictest(governance_of(object_at(document, "governance"), needs.scopes), needs.reached),
            authors=needs.authors,
        ),
        handler=partial(execute, row.name, row.hash),
        convert=partial(converted, input_schema_of(document)),
        authorization=partial(execution_authorization, row.name),
        impact=partial(start_impact, row.hash),
        reaches=lambda arguments: (Reached(workflow_key(row.name)),),
        errors=_ERRORS,
        populator="workflow",
        metadata=MappingProxyType(metadata),
    )


# Enough to notice a change of the schemas; the version itself is named by its whole hash.
_SCHEMA_DIGITS = 16
