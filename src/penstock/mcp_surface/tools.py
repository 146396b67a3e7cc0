"""Tools: what a caller may call, with the names, schemas and hints that MCP clients see.

A tool is a capability of the gate under another name. Whatever a caller lacks a scope for, and whatever the operator
excluded, is not in their book: it is neither listed nor found. The whole book is one page, always in the same order,
because most clients read the first page only.

Above it: `server`. Below it: the gate, `toolsets`. Nothing here knows the SDK.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from hashlib import sha256

from penstock.base import limits
from penstock.mcp_surface.book import ToolBook, listed_tool
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.toolsets import chosen_book
from penstock.operations.capability import Capability
from penstock.operations.context import Principal
from penstock.operations.pipeline import Gate
from penstock.operations.recent import Recent

__all__ = ["ToolShelf", "tool_book"]

_BOOKS_KEPT = 256
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")


class ToolShelf:
    """The books of all callers: those who may call the same share one."""

    def __init__(self, gate: Gate, options: McpOptions) -> None:
        self._gate = gate
        self._options = options
        self._books: Recent[Hashable, ToolBook] = Recent(_BOOKS_KEPT)
        self._newest: Recent[Hashable, ToolBook] = Recent(_BOOKS_KEPT)

    async def of(self, principal: Principal, toolset: str | None = None) -> ToolBook:
        """The book of a caller, as it is now, with the tools that their address or the settings ask for."""
        chosen = self._options.toolset if toolset is None else toolset
        exposure = await self._gate.exposed.of(principal.tenant)
        who = (principal.tenant, principal.scopes)
        key = (who, self._gate.catalogue.revision, exposure.revision)
        book = self._books.get((key, chosen))
        if book is None:
            whole = self._books.get(key)
            if whole is None:
                whole = tool_book(await self._gate.visible(principal), self._options)
                self._books.put(key, whole)
            book = chosen_book(whole, chosen, self._options)
            self._books.put((key, chosen), book)
        self._newest.put((who, chosen), book)
        return book

    def last_of(self, principal: Principal, toolset: str | None = None) -> ToolBook | None:
        """The book that a caller was given last, for those who cannot wait."""
        chosen = self._options.toolset if toolset is None else toolset
        return self._newest.get(((principal.tenant, principal.scopes), chosen))


def tool_book(capabilities: Iterable[Capability], options: McpOptions) -> ToolBook:
    """The tools of what may be called. Built-in names come first: a workflow cannot take one of them."""
    taken: dict[str, Capability] = {}
    excluded = [_pattern(text) for text in options.exclude_endpoints]
    allowed = tuple(capabilities)
    ordered = sorted(allowed, key=lambda item: (item.populator != "builtin", item.name))
    for capability in ordered:
        if not _is_offered(capability, excluded, options):
            continue
        for name in _names(capability, options):
            if name not in taken:
                taken[name] = capability
                break
    tools = tuple(listed_tool(name, taken[name], output_schemas=options.output_schemas) for name in sorted(taken))
    spellings = {tool.name: tool for tool in tools}
    for tool in tools:
        for other in _spellings(tool.capability, options):
            spellings.setdefault(other, tool)
    return ToolBook(tools, spellings, frozenset(capability.name for capability in allowed))


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
    """What a capability may be called, the best first."""
    underscored = options.tool_names == "underscore"
    if capability.populator == "builtin":
        return [_shortened(_builtin(capability.name, options.tool_prefix, "_" if underscored else "."))]
    chosen = str(capability.metadata.get("tool") or capability.name)
    own = f"workflow_{capability.metadata.get('workflow')}"
    found = [_shortened(_NOT_IN_NAMES.sub("_", name)) for name in (chosen, own)]
    return [name.replace(".", "_") for name in found] if underscored else found


def _spellings(capability: Capability, options: McpOptions) -> list[str]:
    """Everything else that a capability answers to."""
    if capability.populator == "builtin":
        dotted = [_builtin(capability.name, options.tool_prefix, mark) for mark in "._"]
        return [*(_shortened(name) for name in dotted), capability.name]
    chosen = str(capability.metadata.get("tool") or "")
    return [chosen, chosen.replace(".", "_"), capability.name]


def _builtin(name: str, prefix: str, mark: str) -> str:
    parts = [prefix] if prefix else []
    return mark.join((*parts, name.replace(".", mark)))


def _shortened(name: str) -> str:
    """The name, or as much of it as clients take with a digest of all of it."""
    if len(name) <= limits.MCP_TOOL_NAME_CHARACTERS_MAX:
        return name
    digest = sha256(name.encode()).hexdigest()[:8]
    return f"{name[: limits.MCP_TOOL_NAME_CHARACTERS_MAX - len(digest) - 1]}_{digest}"
