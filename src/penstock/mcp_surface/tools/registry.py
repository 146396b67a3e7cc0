"""The tool lists of all callers: what each may call, with the names, schemas and hints that MCP clients see.

A tool is a capability of the gate under another name. Capabilities for which the caller lacks a scope, and those that
the operator excluded, are not in the list: they are neither listed nor found. A list is one page, always in the same
order, because most clients read only the first page.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator
from hashlib import sha256

from penstock.base import limits
from penstock.base.lru_cache import LruCache
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.tools.graph_tools import graph_of, graph_tool_list
from penstock.mcp_surface.tools.naming import ToolNaming
from penstock.mcp_surface.tools.tool_list import ToolList, listed_tool
from penstock.mcp_surface.tools.toolsets import toolset_list, trio_names
from penstock.operations.catalogue.capability import QUERY, REGISTERED_TOOL, Capability
from penstock.operations.gate.context import Principal
from penstock.operations.gate.pipeline import Gate
from penstock.operations.gate.policy_stage import Standpoint

__all__ = ["ToolRegistry", "build_tool_list"]

_LISTS_KEPT = 256
# Priority when several want the same name: built-in operations, workflows, stored queries, registered tools, tools of
# other servers.
_ORDER = {"builtin": 0, "workflow": 1, QUERY: 2, REGISTERED_TOOL: 3, "upstream": 4}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")


class ToolRegistry:
    """The tool lists of all callers; callers who may call the same tools share one."""

    def __init__(self, gate: Gate, options: McpOptions) -> None:
        self._gate = gate
        self._options = options
        self._lists: LruCache[Hashable, ToolList] = LruCache(_LISTS_KEPT)
        self._newest: LruCache[Hashable, tuple[Hashable, ToolList]] = LruCache(_LISTS_KEPT)
        """The newest list of each class of callers, with the revisions that it was built from."""

    async def of(self, principal: Principal, toolset: str | None = None, remote: str | None = None) -> ToolList:
        """Return the current list of a caller. The toolset of the address, the key or the settings narrows it."""
        chosen, standpoint = self._chosen(principal, toolset), Standpoint(surface="mcp", remote=remote)
        exposure = await self._gate.exposed.of(principal.tenant)
        decided = await self._gate.lists.key(principal, standpoint)
        who = (_class_of(principal), decided)
        revisions = (self._gate.catalogue.revision, exposure.revision)
        known = self._newest.get((who, chosen))
        if known is not None and known[0] == revisions:
            return known[1]
        graph_id = graph_of(chosen)
        if graph_id is not None:
            of_graph = await graph_tool_list(self._gate, principal, standpoint, graph_id, self._options)
            self._newest.put((who, chosen), (revisions, of_graph))
            return of_graph
        # With policies, callers share a list if they may call the same; without, scopes say that already.
        allowed = None if decided is None else await self._gate.visible(principal, standpoint)
        names = None if allowed is None else frozenset(item.name for item in allowed)
        key = (_class_of(principal), names, revisions)
        tool_list = self._lists.get((key, chosen))
        if tool_list is None:
            whole = self._lists.get(key)
            if whole is None:
                reserved = self._gate.catalogue.all()
                listed = await self._gate.visible(principal, standpoint) if allowed is None else allowed
                whole = build_tool_list(listed, self._options, reserved)
                if principal.toolset is not None:
                    whole = toolset_list(whole, principal.toolset, self._options)
                self._lists.put(key, whole)
            tool_list = toolset_list(whole, chosen, self._options)
            self._lists.put((key, chosen), tool_list)
        self._newest.put((who, chosen), (revisions, tool_list))
        return tool_list

    def at_hand(self, principal: Principal, toolset: str | None = None, remote: str | None = None) -> ToolList | None:
        """Return the current list of a caller, if it is known without reading or building anything."""
        exposure = self._gate.exposed.at_hand(principal.tenant)
        known = self._known(principal, toolset, remote)
        if exposure is None or known is None or known[0] != (self._gate.catalogue.revision, exposure.revision):
            return None
        return known[1]

    def last_of(self, principal: Principal, toolset: str | None = None, remote: str | None = None) -> ToolList | None:
        """Return the list that a caller was given last, for code that cannot wait."""
        known = self._known(principal, toolset, remote)
        return None if known is None else known[1]

    def _known(self, principal: Principal, toolset: str | None, remote: str | None) -> tuple[Hashable, ToolList] | None:
        decided = self._gate.lists.key_at_hand(principal, Standpoint(surface="mcp", remote=remote))
        if decided is None:
            return None
        return self._newest.get(((_class_of(principal), decided[0]), self._chosen(principal, toolset)))

    def _chosen(self, principal: Principal, toolset: str | None) -> str:
        """Return the toolset in effect: of the address, else of the key, else of the settings."""
        if toolset is not None:
            return toolset
        return self._options.toolset if principal.toolset is None else "all"


def _class_of(principal: Principal) -> Hashable:
    """Return a key that is equal for all principals who may call, and are offered, the same tools."""
    return (principal.tenant, principal.scopes, principal.toolset)


def build_tool_list(
    capabilities: Iterable[Capability], options: McpOptions, reserved: Iterable[Capability] = ()
) -> ToolList:
    """Build the tools of some capabilities. No workflow or imported tool takes the name of a built-in operation.

    That holds for the `reserved` operations too, which this caller may not call: a name means the same to everybody.
    """
    taken: dict[str, Capability] = {}
    excluded = [_pattern(text) for text in options.exclude_endpoints]
    allowed = tuple(capabilities)
    known = (*allowed, *reserved)
    own = frozenset(_own_names(known, options))
    # A withheld tool must not take a name from one that is listed.
    ordered = sorted(allowed, key=lambda item: (_ORDER.get(item.populator, 1), _is_withheld(item), item.name))
    for capability in ordered:
        if not _is_offered(capability, excluded, options):
            continue
        for name in _names(capability, options):
            if name not in taken and (name not in own or capability.populator == "builtin"):
                taken[name] = capability
                break
    naming = _naming(known, excluded, options)
    tools = {
        name: listed_tool(name, found, output_schemas=options.output_schemas, naming=naming)
        for name, found in taken.items()
    }
    spellings = dict(tools)
    for tool in tools.values():
        for other in _spellings(tool.capability, options):
            if other not in own or tool.capability.populator == "builtin":
                spellings.setdefault(other, tool)
    shown = tuple(tools[name] for name in sorted(tools) if not tools[name].withheld)
    return ToolList(shown, spellings, frozenset(capability.name for capability in allowed), naming)


def _naming(capabilities: Iterable[Capability], excluded: list[re.Pattern[str]], options: McpOptions) -> ToolNaming:
    """Return the naming of all operations that are tools, whether this caller has them or not."""
    offered = (item for item in capabilities if item.populator == "builtin" and _is_offered(item, excluded, options))
    return ToolNaming({item.name: _names(item, options)[0] for item in offered})


def _own_names(capabilities: Iterable[Capability], options: McpOptions) -> Iterator[str]:
    """Yield every name of a built-in operation."""
    yield from trio_names(options)
    for capability in capabilities:
        if capability.populator == "builtin":
            yield from (*_names(capability, options), *_spellings(capability, options))


def _is_withheld(capability: Capability) -> bool:
    return capability.metadata.get("withheld") is True


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in text.split("*")))


def _is_offered(capability: Capability, excluded: list[re.Pattern[str]], options: McpOptions) -> bool:
    if capability.populator != "builtin":
        return True
    route = capability.route
    if route is None or capability.governance.bucket == "admin" or _is_stream(capability):
        return False
    return not any(pattern.fullmatch(options.base_path + route.path) for pattern in excluded)


def _is_stream(capability: Capability) -> bool:
    return capability.output_schema is None


def _names(capability: Capability, options: McpOptions) -> list[str]:
    """Return the names that a capability may get, the preferred one first."""
    underscored = options.tool_names == "underscore"
    if capability.populator == "builtin":
        return [_shortened(_builtin(capability.name, options.tool_prefix, "_" if underscored else "."))]
    chosen = str(capability.metadata.get("tool") or capability.name)
    own = _own_name(capability, chosen)
    digest = sha256(capability.name.encode()).hexdigest()[:8]
    found = [_shortened(_NOT_IN_NAMES.sub("_", name)) for name in (chosen, own, f"{own}_{digest}")]
    return [name.replace(".", "_") for name in found] if underscored else found


def _own_name(capability: Capability, chosen: str) -> str:
    """Return the name of a capability that no other kind of capability has."""
    if capability.populator == "upstream":
        return f"upstream_{chosen}"
    if capability.populator == REGISTERED_TOOL:
        return f"tool_{chosen}"
    metadata = capability.metadata
    if capability.populator == QUERY:
        return f"{metadata.get('graph')}_{metadata.get('query')}"
    return f"workflow_{metadata.get('workflow')}"


def _spellings(capability: Capability, options: McpOptions) -> list[str]:
    """Return every other name under which a capability is found."""
    if capability.populator == "builtin":
        dotted = [_builtin(capability.name, options.tool_prefix, mark) for mark in "._"]
        # The functions of the workflow profile are also found by their published names.
        published = [capability.name.removeprefix("control.")] if capability.resource == "control" else []
        return [*(_shortened(name) for name in dotted), capability.name, *published]
    chosen = str(capability.metadata.get("tool") or "")
    return [chosen, chosen.replace(".", "_"), capability.name]


def _builtin(name: str, prefix: str, mark: str) -> str:
    parts = [prefix] if prefix else []
    return mark.join((*parts, name.replace(".", mark)))


def _shortened(name: str) -> str:
    """Return the name, shortened to what clients accept and made unique by a digest."""
    if len(name) <= limits.MCP_TOOL_NAME_CHARACTERS_MAX:
        return name
    digest = sha256(name.encode()).hexdigest()[:8]
    return f"{name[: limits.MCP_TOOL_NAME_CHARACTERS_MAX - len(digest) - 1]}_{digest}"
