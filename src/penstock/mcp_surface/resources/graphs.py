"""Graphs as resources: which there are, and the schema and branches of each.

    penstock://graphs                        the graphs
    penstock://graphs/{graph_id}/schema      the schema of a graph, as it was written
    penstock://graphs/{graph_id}/branches    the branches of a graph

On the endpoint of a graph, only that graph is there; `omnigraph://schema`, `omnigraph://branches` and
`omnigraph://graphs`, the names of the published graph profile, are understood as well. Everything is read through the
gate: what a caller may not see does not exist for them.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from penstock.base.errors import NotFound, PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.callers import Caller, call_operation
from penstock.mcp_surface.content.results import plain_text
from penstock.mcp_surface.tools.graph_tools import graph_of
from penstock.mcp_surface.tools.registry import ToolRegistry
from penstock.operations.gate.pipeline import Gate

__all__ = ["GRAPH_TEMPLATES", "GraphResources"]

_JSON = "application/json"
_TEXT = "text/plain"
_LIST = "penstock://graphs"
_OWN = re.compile(r"penstock://graphs/(?P<graph>[^/?#\s]{1,300})/(?P<part>schema|branches)")
_PROFILE = re.compile(r"omnigraph://(?P<part>schema|branches|graphs)")
_HIDDEN = ("SCOPE_REQUIRED", "INVALID_ARGUMENTS", "POLICY_DENIED", "GRAPH_QUARANTINED", "NOT_CONFIGURED")
_OPERATIONS = {"schema": "graph.schema_get", "branches": "graph.branches_list", "graphs": "graph.list"}
_WORDS = {
    "schema": ("The schema of the graph", "Its types of nodes and edges, with their properties.", _TEXT),
    "branches": ("The branches of the graph", "Their names and heads.", _JSON),
    "graphs": ("The graphs", "Which graphs there are.", _JSON),
}
GRAPH_TEMPLATES: tuple[JsonObject, ...] = (
    {
        "uriTemplate": "penstock://graphs/{graph_id}/branches",
        "name": "graph_branches",
        "title": "The branches of a graph",
        "description": "Their names and heads.",
        "mimeType": _JSON,
    },
    {
        "uriTemplate": "penstock://graphs/{graph_id}/schema",
        "name": "graph_schema",
        "title": "The schema of a graph",
        "description": "Its types of nodes and edges, with their properties.",
        "mimeType": _TEXT,
    },
)


class GraphResources:
    """Lists and reads graphs as resources for all callers."""

    def __init__(self, gate: Gate, registry: ToolRegistry) -> None:
        self._gate = gate
        self._registry = registry

    async def listed(self, caller: Caller) -> list[JsonObject]:
        """List what has a fixed address: on the endpoint of a graph its schema and branches, elsewhere the graphs."""
        tool_list = await self._registry.of(caller.principal, caller.toolset, caller.remote)
        graph_id = graph_of(caller.toolset)
        if graph_id is None:
            exposure = await self._gate.exposed.of(caller.principal.tenant)
            shown = exposure.graphs and _OPERATIONS["graphs"] in tool_list.operations
            return [_resource(_LIST, "graphs")] if shown else []
        own = f"{_LIST}/{quote(graph_id, safe='')}"
        parts = [part for part in ("schema", "branches") if _OPERATIONS[part] in tool_list.operations]
        found = [_resource(f"{prefix}{part}", part) for part in parts for prefix in (f"{own}/", "omnigraph://")]
        if _OPERATIONS["graphs"] in tool_list.operations:
            found.append(_resource("omnigraph://graphs", "graphs"))
        return found

    async def read(self, caller: Caller, uri: str) -> JsonObject | None:
        """Return the contents at an address; None if there is nothing that the caller may see."""
        here = graph_of(caller.toolset)
        own, profile = _OWN.fullmatch(uri), _PROFILE.fullmatch(uri)
        if uri == _LIST and here is None:
            part, graph_id = "graphs", None
        elif own is not None and here in (None, unquote(own["graph"])):
            part, graph_id = own["part"], unquote(own["graph"])
        elif profile is not None and here is not None:
            part, graph_id = profile["part"], here
        else:
            return None
        arguments: JsonObject = {} if part == "graphs" or graph_id is None else {"graph_id": graph_id}
        try:
            found: Any = msgspec.to_builtins(await call_operation(self._gate, caller, _OPERATIONS[part], arguments))
        except PenstockError as error:
            if isinstance(error, NotFound) or error.code in _HIDDEN:
                return None
            raise
        if part == "schema":
            return {"mimeType": _TEXT, "text": found["schema"]}
        listed: JsonValue = found["branches" if part == "branches" else "graphs"]
        return {"mimeType": _JSON, "text": plain_text(listed)}


def _resource(uri: str, part: str) -> JsonObject:
    title, description, mime_type = _WORDS[part]
    return {"uri": uri, "name": part, "title": title, "description": description, "mimeType": mime_type}
