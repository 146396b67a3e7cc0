"""The tools of one graph, as its own endpoint `/graphs/{graph_id}/mcp` lists them.

Nothing but the graph is there: its stored queries under their own names, and the operations on graphs under the names
of the published graph profile, without the argument that names the graph. What the caller may not call on this graph is
not in the list; nor is anything of a graph that does not exist.

Above it: `registry`. Below it: `tool_list`, the exposure of the tenant, the gate's lists.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from penstock.base.json import JsonObject
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.tools.naming import ToolNaming
from penstock.mcp_surface.tools.tool_list import Tool, ToolList, listed_tool
from penstock.operations.catalogue.capability import BOUND, Authorization, Capability
from penstock.operations.catalogue.exposure import ExposedGraph, Exposure
from penstock.operations.gate.context import Principal
from penstock.operations.gate.pipeline import Gate
from penstock.operations.gate.policy_stage import Standpoint
from penstock.operations.stored_queries.tool_names import (
    ADHOC,
    GRAPH_TOOLS,
    OTHER_SPELLINGS,
    PAIR,
    RENAMED_ARGUMENTS,
)

__all__ = ["GRAPH_TOOLSET", "graph_of", "graph_tool_list"]

GRAPH_TOOLSET = "graph:"
"""What the name of a graph's toolset begins with. The id of the graph follows."""
_GRAPH_ARGUMENT = "graph_id"
# Its resource is a stored query, which the arguments name.
_UNBOUND = frozenset({"graph.query_run"})


def graph_of(toolset: str | None) -> str | None:
    """Return the graph of a toolset; None for other toolsets."""
    is_graph = toolset is not None and toolset.startswith(GRAPH_TOOLSET)
    return toolset.removeprefix(GRAPH_TOOLSET) if toolset is not None and is_graph else None


async def graph_tool_list(
    gate: Gate, principal: Principal, standpoint: Standpoint, graph_id: str, options: McpOptions
) -> ToolList:
    """Return the tools of a graph that a caller may call with some arguments; none if there is no such graph."""
    exposure = await gate.exposed.of(principal.tenant)
    graph = exposure.graphs.get(graph_id)
    if graph is None:
        return ToolList((), {}, frozenset())
    naming = ToolNaming(GRAPH_TOOLS)
    queries = _queries(exposure, graph)
    operations = [item for name in GRAPH_TOOLS if (item := gate.catalogue.get(name)) is not None]
    bound = [_bound(item, graph_id) for item in operations if graph.allows_adhoc or item.name not in ADHOC]
    allowed = await gate.lists.allowed(principal, (*bound, *queries), standpoint)
    tools: dict[str, Tool] = {}
    for capability in (*bound, *queries):
        if capability.name in allowed:
            tool = _tool(capability, graph_id, options, naming)
            tools.setdefault(tool.name, tool)
    hidden = set(graph.queries) if graph.as_pair else PAIR
    shown = tuple(tools[name] for name in sorted(tools) if tools[name].capability.name not in hidden)
    spellings = {**{tool.capability.name: tool for tool in tools.values()}, **tools}
    for name, operation in OTHER_SPELLINGS.items():
        if operation in spellings:
            spellings.setdefault(name, spellings[operation])
    return ToolList(shown, spellings, allowed, naming)


def _queries(exposure: Exposure, graph: ExposedGraph) -> Iterable[Capability]:
    return [exposure.tools[name] for name in graph.queries]


def _bound(capability: Capability, graph_id: str) -> Capability:
    """Return an operation for one graph: it takes no argument that names the graph, and policies know which it is."""
    if _GRAPH_ARGUMENT not in _properties(capability.input_schema):
        return capability
    schema = partial(_without_graph, capability.input_schema)
    if capability.name in _UNBOUND:
        return replace(capability, make_input_schema=schema)
    return replace(
        capability,
        make_input_schema=schema,
        authorization=partial(_on_graph, capability, graph_id),
        populator=BOUND,
    )


def _on_graph(capability: Capability, graph_id: str, arguments: JsonObject) -> Authorization:
    return capability.authorization({**arguments, _GRAPH_ARGUMENT: graph_id})


def _properties(schema: JsonObject) -> JsonObject:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _without_graph(schema: JsonObject) -> JsonObject:
    required = schema.get("required")
    kept = [name for name in required if name != _GRAPH_ARGUMENT] if isinstance(required, list) else []
    properties = {name: member for name, member in _properties(schema).items() if name != _GRAPH_ARGUMENT}
    return {**schema, "properties": properties, "required": kept}


def _tool(capability: Capability, graph_id: str, options: McpOptions, naming: ToolNaming) -> Tool:
    named = GRAPH_TOOLS.get(capability.name)
    if named is None:
        return listed_tool(str(capability.metadata["tool"]), capability, output_schemas=True)
    tool = listed_tool(named, capability, output_schemas=options.output_schemas, naming=naming)
    takes_graph = capability.populator == BOUND or capability.name in _UNBOUND
    return replace(tool, fixed={_GRAPH_ARGUMENT: graph_id} if takes_graph else {}, renamed=RENAMED_ARGUMENTS)
