"""How a graph is offered, as stored: its words, what callers may do with it, and its stored queries.

The graph itself (schema, branches, data) is in the graph store. What is here is a resource of the platform store, one
for each graph; a graph without one has no stored queries and allows nothing special.

Above it: `checking`, the operations on graphs. Below it: the platform store's resources.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType

import msgspec

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject
from penstock.governance.authorship import Author
from penstock.operations.gate.context import Services
from penstock.operations.stored_resources import ResourceTable
from penstock.runtime.ports.platform import ResourceRow
from penstock.runtime.stored_bodies import decode_body
from penstock.runtime.tables.resources import read_resource

__all__ = ["GRAPHS", "GraphDefinition", "StoredQuery", "definition_of", "stored_definition"]

GRAPHS = ResourceTable(kind="graph", noun="graph", deleted_hint="create it with graph.create")
"""The definitions of a tenant's graphs."""
_NO_ETAG = "-"


class StoredQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query that callers run by its name."""

    name: str
    source: str
    """Its declaration, as it was written."""
    expose: bool = True
    """Whether it is in lists of tools. It can be called in any case."""
    tool_name: str | None = None
    """Its name as a tool, if not its own."""
    author: Author | None = None
    """Who wrote it, and who accepted it; None for a query of a file, and if that was not recorded."""

    @property
    def called(self) -> str:
        """Its name as a tool."""
        return self.tool_name or self.name


class GraphDefinition(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """How a graph is offered."""

    title: str | None = None
    description: str | None = None
    allow_adhoc: bool = False
    """Whether callers may send queries and mutations of their own."""
    protected_branches: tuple[str, ...] = ()
    """Branches whose changes need approval."""
    tools_max: int = limits.QUERY_TOOLS_MAX
    """Above so many exposed queries, two tools take the place of one for each."""
    queries: tuple[StoredQuery, ...] = ()
    """Sorted by name."""
    of_settings: bool = False
    """Whether the settings of the server declare it: callers do not change it then."""
    quarantine: str | None = None
    """Why it cannot be used, if the settings declare something that is wrong."""

    @cached_property
    def by_name(self) -> Mapping[str, StoredQuery]:
        """The queries by name."""
        return MappingProxyType({query.name: query for query in self.queries})

    def to_json(self) -> JsonObject:
        """Return it as it is stored."""
        stored: JsonObject = msgspec.json.decode(encode_bytes(self))
        return stored

    def with_query(self, query: StoredQuery) -> GraphDefinition:
        """Return it with a query added, or replaced."""
        others = [item for item in self.queries if item.name != query.name]
        return msgspec.structs.replace(self, queries=tuple(sorted((*others, query), key=lambda item: item.name)))

    def without_query(self, name: str) -> GraphDefinition:
        """Return it without a query."""
        return msgspec.structs.replace(self, queries=tuple(item for item in self.queries if item.name != name))


_NOTHING = GraphDefinition()


def definition_of(row: ResourceRow | None) -> tuple[GraphDefinition, str]:
    """Return a stored definition and its ETag; the definition without anything if there is no row."""
    return (_NOTHING, _NO_ETAG) if row is None else (decode_body(row, GraphDefinition), row.etag)


async def stored_definition(services: Services, tenant: str, graph_id: str) -> tuple[GraphDefinition, str]:
    """Return how a graph is offered, and the ETag of that."""
    return definition_of(await read_resource(services.platform, tenant, GRAPHS.kind, graph_id))
