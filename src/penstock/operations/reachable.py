"""What a call can reach, followed through everything that is stored: each name with its version.

    await reach_of(services, exposures, tenant, [Reached("workflow:parent")])
    {"workflow:parent": "9f2c…", "workflow:child": "77aa…", "model:fast": "1b0e…"}

An approval is bound to this map, so a change of anything in it makes people look again. A name of something that does
not exist has the version None: that it appears later is a change, too. A name with `*` at its end stands for all that
begin like this now; it has an entry of its own, which changes when one is added or removed. Steps and requests are
part of the documents that name them; the code of a step has no version.

Above it: the gate's stage that holds calls, what runs of approved calls do. Below it: `definitions.reached`, the ports.
It decides nothing, and knows neither scopes nor risks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.ids import id_in_tenant
from penstock.base.json import JsonObject
from penstock.definitions.agents.entries import document_of_agent
from penstock.definitions.agents.schemas import is_agent
from penstock.definitions.reached import ANY, Reached, reached_by, workflow_key
from penstock.governance.approvals import value_digest
from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.exposure import Exposure, Exposures
from penstock.operations.gate.context import Services
from penstock.runtime.ports.graphs import GraphRef
from penstock.runtime.tables.resources import list_resources, read_resource

__all__ = ["Reach", "changes_since", "reach_of"]

Reach: TypeAlias = dict[str, str | None]
"""The version of everything that can be reached, by name; None for what does not exist."""
_OF_SETTINGS = "settings"
_TOO_LARGE = "REACH_TOO_LARGE"


async def reach_of(services: Services, exposures: Exposures, tenant: str, roots: Iterable[Reached]) -> Reach:
    """Return everything that can be reached from these names, themselves included, in the order of the names."""
    walk = _Walk(services=services, exposures=exposures, tenant=tenant)
    waiting = list(roots)
    seen = set(waiting)
    while waiting:
        for following in await walk.follow(waiting.pop()):
            if following not in seen:
                seen.add(following)
                waiting.append(following)
        if len(walk.found) > limits.REACH_ENTRIES_MAX:
            message = f"the call can reach more than {limits.REACH_ENTRIES_MAX} workflows, tools and models"
            raise Rejected(_TOO_LARGE, message, "name what the workflow uses, instead of `*` or a computed name")
    return dict(sorted(walk.found.items()))


async def changes_since(
    services: Services, exposures: Exposures, tenant: str, roots: Iterable[Reached], approved: Mapping[str, str | None]
) -> tuple[str, ...]:
    """Return the names that can be reached now and were not approved as they are."""
    now = await reach_of(services, exposures, tenant, roots)
    return tuple(name for name, version in now.items() if name not in approved or approved[name] != version)


@dataclass(slots=True, kw_only=True)
class _Walk:
    """Follows names one step at a time."""

    services: Services
    exposures: Exposures
    tenant: str
    found: Reach = field(default_factory=dict)

    async def follow(self, reached: Reached) -> Iterable[Reached]:
        """Note the version of a name, and return what it leads to."""
        name = reached.name
        if reached.arguments is not None:
            return self._operation(reached)
        if name.endswith(ANY):
            return await self._pattern(name)
        if name in self.found:
            return ()
        kind, _, rest = name.partition(":")
        known: dict[str, Callable[[str], Awaitable[Iterable[Reached]]]] = {
            "workflow": self._workflow,
            "prompt": self._workflow,
            "resource": self._workflow,
            "agent": self._agent,
            "model": self._model,
            "tool": self._tool,
            "server": self._server,
            "graph": self._graph,
            "schedule": self._schedule,
            "execution": self._execution,
        }
        return await known[kind](rest) if kind in known else await self._exposed(name)

    def _operation(self, reached: Reached) -> Iterable[Reached]:
        """Follow a built-in operation. Its version is that of this program."""
        catalogue = self.services.catalogue
        known = next((item for item in catalogue.all() if item.name == reached.name), None) if catalogue else None
        if known is None or known.reaches is None:
            return ()
        return known.reaches(reached.known_arguments)

    async def _pattern(self, name: str) -> Iterable[Reached]:
        """Follow a name that stands for many."""
        if name in self.found:
            return ()
        beginning, exposure = name[: -len(ANY)], await self.exposures.of(self.tenant)
        names = [item for item in await self._names(beginning, exposure) if item.startswith(beginning)]
        self.found[name] = value_digest([*sorted(names)])
        catalogue = self.services.catalogue
        operations = [item.name for item in catalogue.all() if item.name.startswith(beginning)] if catalogue else []
        called = [Reached(item, ((ANY, ANY),)) for item in operations]
        return [*map(Reached, names), *called]

    async def _names(self, beginning: str, exposure: Exposure) -> list[str]:
        """Return all names of the kind with which a pattern begins; of every kind for `*` alone."""
        kind, has_kind, _ = beginning.partition(":")
        names = [*exposure.tools, *exposure.unlisted]
        if not has_kind or kind == "workflow":
            names += [
                workflow_key(row.name) for row in await self.services.store.definitions.list_newest(tenant=self.tenant)
            ]
        for registered in ("agent", "model"):
            if not has_kind or kind == registered:
                names += [f"{registered}:{item}" for item in await self._registered(registered)]
        if kind == "server":
            names += [f"{kind}:{item.metadata['server']}/{item.metadata['upstream']}" for item in _imported(exposure)]
        if kind == "graph":
            names += [f"{kind}:{item}" for item in exposure.graphs]
        return list(dict.fromkeys(names))

    async def _registered(self, kind: str) -> list[str]:
        platform, found, cursor = self.services.platform, list[str](), None
        while True:
            page = await list_resources(platform, self.tenant, kind, limit=limits.PAGE_LIMIT_MAX, cursor=cursor)
            found += [row.resource_id for row in page.rows]
            cursor = page.next_cursor
            if cursor is None or len(found) > limits.REACH_ENTRIES_MAX:
                break
        if kind == "agent":
            found += [
                row.name
                for row in await self.services.store.definitions.list_newest(tenant=self.tenant)
                if is_agent(row.document)
            ]
        return found

    async def _workflow(self, rest: str) -> Iterable[Reached]:
        name, _, pin = rest.partition("@")
        key, store = workflow_key(name, pin or None), self.services.store
        row = await store.definitions.find(pin, tenant=self.tenant) if pin else None
        if not pin:
            row = await store.definitions.find_named(name, tenant=self.tenant)
        self.found[key] = None if row is None or row.name != name else row.hash
        if row is None:
            return ()
        known = self.services.reached.get(row.hash)
        if known is None:
            # A document of thousands of nodes is walked for some time.
            known = await self.services.documents.threads.run(self.tenant, reached_by, row.document)
            self.services.reached.put(row.hash, known)
        return known

    async def _agent(self, name: str) -> Iterable[Reached]:
        key, protocol = f"agent:{name}", self.services.delegates.get(name)
        if protocol is not None:
            self.found[key] = f"{_OF_SETTINGS}:{protocol}"
            return ()
        row = await read_resource(self.services.platform, self.tenant, "agent", name)
        if row is None:
            self.found[key] = None
            return (Reached(workflow_key(name)),)  # a document with an `agent` block
        self.found[key] = row.etag
        return reached_by(document_of_agent(name, row.body))

    async def _model(self, name: str) -> Iterable[Reached]:
        if name in self.services.configured_models.names:
            self.found[f"model:{name}"] = _OF_SETTINGS
            return ()
        row = await read_resource(self.services.platform, self.tenant, "model", name)
        self.found[f"model:{name}"] = None if row is None else row.etag
        others = None if row is None else row.body.get("fallbacks")
        return [Reached(f"model:{item}") for item in others] if isinstance(others, list) else ()

    async def _tool(self, name: str) -> Iterable[Reached]:
        row = await read_resource(self.services.platform, self.tenant, "tool", name)
        self.found[f"tool:{name}"] = None if row is None else row.etag
        return () if row is None else _of_tool(row.body)

    async def _server(self, rest: str) -> Iterable[Reached]:
        """Follow a tool of another server: what was accepted of it, if its tools are imported."""
        server, _, tool = rest.partition("/")
        upstreams = self.services.upstreams
        rules = upstreams.rules_for(self.tenant).get(server) if upstreams is not None else None
        if rules is None:
            self.found[f"server:{rest}"] = _OF_SETTINGS
            return ()
        return (Reached(f"upstream:{rules.prefix}.{tool}"),)

    async def _graph(self, name: str) -> Iterable[Reached]:
        store = self.services.graphs
        row = None if store is None else await store.graph(GraphRef(self.tenant, name))
        self.found[f"graph:{name}"] = None if row is None else str(row.schema_version)
        return ()

    async def _schedule(self, name: str) -> Iterable[Reached]:
        row = await self.services.scheduler.find(id_in_tenant(self.tenant, name))
        ours = row is not None and row.tenant == self.tenant
        self.found[f"schedule:{name}"] = value_digest(row.spec) if row is not None and ours else None
        return (Reached(workflow_key(row.workflow_name)),) if row is not None and ours else ()

    async def _execution(self, name: str) -> Iterable[Reached]:
        row = await self.services.store.row(id_in_tenant(self.tenant, name))
        if row is None or row.tenant != self.tenant:
            return ()
        definition = await self.services.store.definitions.find(row.definition_hash)
        self.found[f"execution:{name}"] = row.definition_hash
        return () if definition is None else reached_by(definition.document)

    async def _exposed(self, name: str) -> Iterable[Reached]:
        """Follow a stored query, or a tool of another server, as it is offered now."""
        exposure = await self.exposures.of(self.tenant)
        capability = exposure.found(name)
        self.found[name] = None if capability is None else capability.schema_version
        graph = None if capability is None else capability.metadata.get("graph")
        if isinstance(graph, str):
            return (Reached(f"graph:{graph}"),)
        # A server may ask for something while a tool of it is called, and a workflow answers it.
        return [Reached(workflow_key(item)) for item in exposure.handlers.values()]


def _imported(exposure: Exposure) -> list[Capability]:
    return [item for item in exposure.tools.values() if {"server", "upstream"} <= item.metadata.keys()]


def _of_tool(body: JsonObject) -> Iterable[Reached]:
    """Return what a registered tool stands for."""
    match body.get("kind"):
        case "mcp":
            return (Reached(f"server:{body.get('server')}/{body.get('name')}"),)
        case "query":
            return (Reached(f"query:{body.get('graph')}/{body.get('name')}"),)
        case _:
            return ()
