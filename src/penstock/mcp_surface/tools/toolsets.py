"""Toolsets: which of a caller's tools are listed, so that a model does not get more than it can use.

The address chooses (`/mcp?toolset=workflows`, or names of sets, resources and tools, separated by commas); otherwise
the setting does. The default is the exposed workflows and registered tools, the stored queries of the only graph, the
imported tools, and the operations that continue their runs: exposing a workflow to a model does not mean letting
the model change it. `management` adds all operations. A list that is small enough is shown whole. Otherwise it is
reduced to the everyday operations, and then to three tools that search, describe and call the others. With any other
set, only the tools of the set can be called.

A toolset never adds to what a caller may do.
"""

from __future__ import annotations

import re
from dataclasses import replace
from difflib import get_close_matches
from typing import Literal, TypeAlias

from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.tools.tool_list import CATALOGUE, Tool, ToolList, catalogue_bytes, listed_tool
from penstock.operations.catalogue.capability import (
    QUERY,
    REGISTERED_TOOL,
    Annotations,
    Authorization,
    Capability,
    Governance,
)
from penstock.operations.runs.tool_schemas import or_standing
from penstock.operations.stored_queries.tool_names import PAIR

__all__ = [
    "EVERYDAY",
    "FOLLOWING",
    "TOOLSETS",
    "described",
    "found_tools",
    "inner_call",
    "meant",
    "toolset_list",
    "trio_names",
]

TOOLSETS = ("default", "management", "workflows", "queries", "tools", "upstream", "operations", "all", "search")
EVERYDAY = frozenset(
    {
        "workflow.list",
        "workflow.get",
        "workflow.execute",
        "execution.status",
        "execution.answer",
        "execution.cancel",
        "execution.signal",
        "execution.wait",
        "execution.list",
        "execution.history",
        "system.info",
    }
)
FOLLOWING = frozenset({"execution.status", "execution.answer", "execution.cancel", "execution.wait"})
"""Operations that continue a run started by a workflow's tool."""
_SEARCHING = frozenset({"management", "search"})
# The set of the tools that start an execution, by what makes them.
_STARTING = {"workflow": "workflows", REGISTERED_TOOL: "tools", "upstream": "upstream"}
# The sets that include every workflow and every registered or imported tool.
_EVERY_START = frozenset({"default", "management"})
_FOUND_DEFAULT = 10
_FOUND_MAX = 50
_WORDS = re.compile(r"[a-z0-9]+")
_TITLE_WEIGHT = 3
_INVALID = "INVALID_ARGUMENTS"

_Action: TypeAlias = Literal["search", "describe", "call"]


def toolset_list(whole: ToolList, toolset: str, options: McpOptions) -> ToolList:
    """Return the list of a toolset: its tools in order, and what can be called through it."""
    words = frozenset(word for word in (part.strip() for part in toolset.split(",")) if word) or frozenset({"default"})
    if "all" in words:
        return whole
    if words & _SEARCHING:
        return _with_search(whole, words, options)
    spellings = {name: tool for name, tool in whole.spellings.items() if _is_named(tool, words, whole)}
    tools = tuple(tool for tool in whole.tools if tool.name in spellings)
    return replace(whole, tools=tools, spellings=spellings)


def _with_search(whole: ToolList, words: frozenset[str], options: McpOptions) -> ToolList:
    """Return a list through which everything can be called, and tools that do not fit are found by a search.

    Workflows were exposed to be called, so none of them is left out; operations of management make room for them.
    """
    manages, trio = "management" in words, _trio(options)
    if manages and catalogue_bytes(whole.tools) <= options.catalogue_bytes:
        return whole
    listed: tuple[Tool, ...] = ()
    for kept in (EVERYDAY, FOLLOWING):
        listed = (*(tool for tool in whole.tools if _is_kept(tool, kept, words, whole)), *trio)
        if not manages or catalogue_bytes(listed) <= options.catalogue_bytes:
            break
    spellings = {**whole.spellings, **{name: tool for tool in trio for name in (tool.name, tool.capability.name)}}
    return replace(whole, tools=tuple(sorted(listed, key=lambda tool: tool.name)), spellings=spellings)


def _is_kept(tool: Tool, kept: frozenset[str], words: frozenset[str], whole: ToolList) -> bool:
    return tool.capability.name in kept or _is_named(tool, words, whole)


def _is_named(tool: Tool, words: frozenset[str], whole: ToolList) -> bool:
    kinds = {_STARTING.get(tool.capability.populator, "workflows"), *_EVERY_START}
    if tool.capability.populator == QUERY:
        kinds = {"queries", *(_EVERY_START if _is_offered_alone(tool) else ())}
    elif tool.capability.name in PAIR and any(map(_is_paired, whole.tools)):
        kinds = {"operations", "queries", tool.capability.resource, *_EVERY_START}
    elif not tool.starts_execution:
        kinds = {"operations", tool.capability.resource}
        kinds |= {"workflows", "tools", "upstream", "default"} if tool.capability.name in FOLLOWING else set()
    return bool(words & kinds) or any(whole.find(word) is tool for word in words)


def _is_offered_alone(tool: Tool) -> bool:
    """Whether a stored query is of the tenant's only graph, and not offered through the pair of tools."""
    return tool.capability.metadata.get("alone") is True and not _is_paired(tool)


def _is_paired(tool: Tool) -> bool:
    return tool.capability.metadata.get("paired") is True


def found_tools(tool_list: ToolList, arguments: JsonObject) -> JsonObject:
    """Return the tools that match some words best, with names and descriptions; without words, every tool in order."""
    query, limit = arguments.get("query", ""), arguments.get("limit", _FOUND_DEFAULT)
    if not isinstance(query, str):
        raise Rejected(_INVALID, "`query` must be text", "send words that describe the task")
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= _FOUND_MAX:
        raise Rejected(_INVALID, f"`limit` must be a whole number from 1 to {_FOUND_MAX}")
    words = frozenset(_WORDS.findall(query.lower()))
    candidates = _callable(tool_list)
    scored = [(_score(tool, words), tool) for tool in candidates]
    fitting = sorted((pair for pair in scored if pair[0] or not words), key=lambda pair: (-pair[0], pair[1].name))
    items: list[JsonValue] = [_short(tool) for _, tool in fitting[:limit]]
    return {"items": items, "total": len(fitting)}


def described(tool_list: ToolList, arguments: JsonObject) -> JsonObject:
    """Return a tool as a list would show it, with its schemas."""
    tool = _named(tool_list, arguments)
    output = tool.capability.output_schema
    if output is None:
        return tool.listed
    return {"outputSchema": or_standing(tool_list.naming.of_schema(output)), **tool.listed}


def inner_call(tool_list: ToolList, arguments: JsonObject) -> tuple[Tool, JsonObject]:
    """Return the tool to call, and its arguments."""
    given = arguments.get("arguments", {})
    if not isinstance(given, dict):
        raise Rejected(_INVALID, "`arguments` must be an object", "describe the tool to see what it takes")
    return _named(tool_list, arguments), given


def _named(tool_list: ToolList, arguments: JsonObject) -> Tool:
    name = arguments.get("name")
    found = tool_list.find(name) if isinstance(name, str) else None
    if not isinstance(name, str):
        raise Rejected(_INVALID, "`name` is missing: the name of a tool", "search for a tool and use its name")
    if found is None or found.capability.populator == CATALOGUE:
        near = _nearest(tool_list, name)
        hint = f"did you mean {near}? Otherwise search for one" if near else "search for one and use its name"
        raise Rejected(_INVALID, f"there is no tool {name[:100]!r}", hint)
    return found


def meant(tool_list: ToolList, name: str) -> str:
    """Return a question that offers the tool whose name is most like an unknown one; empty if none is."""
    near = _nearest(tool_list, name)
    return f"; did you mean {near}?" if near else ""


def _nearest(tool_list: ToolList, name: str) -> str | None:
    return next(iter(get_close_matches(name[:100], [tool.name for tool in _callable(tool_list)], n=1)), None)


def _callable(tool_list: ToolList) -> list[Tool]:
    every = tool_list.spellings.values()
    by_name = {tool.name: tool for tool in every if tool.capability.populator != CATALOGUE and not tool.withheld}
    return [by_name[name] for name in sorted(by_name)]


def _score(tool: Tool, words: frozenset[str]) -> int:
    named = set(_WORDS.findall(f"{tool.name} {tool.capability.title}".lower().replace("_", " ")))
    message = set(_WORDS.findall(str(tool.listed["description"]).lower()))
    near = sum(any(word in other or other in word for other in named) for word in words)
    return _TITLE_WEIGHT * len(words & named) + near + len(words & message)


def _short(tool: Tool) -> JsonObject:
    first = str(tool.listed["description"]).partition(". ")[0]
    return {"name": tool.name, "title": tool.capability.title, "description": first}


_NAME: JsonObject = {"type": "string", "description": "The name of a tool, as a search found it.", "maxLength": 200}
_SCHEMAS: dict[_Action, JsonObject] = {
    "search": {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "description": "Words for what the tool should do, such as `pause schedule`; empty for all.",
                "maxLength": 200,
            },
            "limit": {"type": "integer", "minimum": 1, "maximum": _FOUND_MAX, "default": _FOUND_DEFAULT},
        },
        "additionalProperties": False,
    },
    "describe": {
        "type": "object",
        "required": ["name"],
        "properties": {"name": _NAME},
        "additionalProperties": False,
    },
    "call": {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": _NAME,
            "arguments": {"type": "object", "description": "The arguments, as the tool's input schema wants them."},
        },
        "additionalProperties": False,
    },
}
_TOLD: dict[_Action, tuple[str, str]] = {
    "search": (
        "Search for tools",
        "Finds workflows and operations that are not in the list of tools: schedules, webhooks, agents, models,"
        " registered tools, versions of workflows and more. Describe what it finds, then call it.",
    ),
    "describe": (
        "Describe a tool",
        "Shows what a tool that a search found takes and gives back. Read its input schema before you call it.",
    ),
    "call": (
        "Call a tool",
        "Calls a tool that a search found, with the same checks and the same answer as if it were in the list.",
    ),
}


def _trio(options: McpOptions) -> tuple[Tool, ...]:
    mark = "_" if options.tool_names == "underscore" else "."
    prefix = f"{options.tool_prefix}{mark}" if options.tool_prefix else ""
    return tuple(
        listed_tool(f"{prefix}tools{mark}{action}", _capability(action), output_schemas=False) for action in _SCHEMAS
    )


def trio_names(options: McpOptions) -> frozenset[str]:
    """Return the names of the three tools, whether they are listed or not."""
    return frozenset(name for tool in _trio(options) for name in (tool.name, tool.capability.name))


def _capability(action: _Action) -> Capability:
    title, description = _TOLD[action]
    reads = action != "call"
    return Capability(
        name=f"tools.{action}",
        title=title,
        description=description,
        make_input_schema=lambda: _SCHEMAS[action],
        make_output_schema=lambda: None,
        annotations=Annotations(read_only=reads, destructive=not reads, idempotent=reads, open_world=not reads),
        governance=Governance(),
        handler=_never,
        convert=lambda arguments: arguments,
        authorization=lambda _: Authorization(action=f"tools.{action}", resource_kind="tool"),
        populator=CATALOGUE,
    )


async def _never(context: object, given: object) -> None:
    raise AssertionError("the surface answers this itself")
