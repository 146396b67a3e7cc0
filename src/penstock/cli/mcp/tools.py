"""`penstock mcp tools`: what an MCP server offers, and how much of a model's context the list takes.

Below it: `servers` says which server is meant, `client` asks it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from penstock.base.json import JsonObject
from penstock.base.lazy_import import lazy_import
from penstock.base.text import clean
from penstock.cli.commands.command import WithTrailingArguments, trailing_arguments
from penstock.cli.declaration import Argument, Context
from penstock.cli.mcp.answers import BYTES_PER_TOKEN, silence_sdk_logs, size_text, token_estimate
from penstock.cli.mcp.servers import (
    ERAS,
    EraOption,
    ServerOptions,
    ToolsetOption,
    resolve_server,
)
from penstock.cli.terminal.console import console_for, count_words
from penstock.cli.terminal.exits import JsonOption, exit_with, print_json
from penstock.cli.terminal.styled_text import Text
from penstock.cli.terminal.values import UsageError
from penstock.definitions.source.findings import nearest

if TYPE_CHECKING:
    from penstock.cli.mcp import client as mcp_client
else:
    mcp_client = lazy_import("penstock.cli.mcp.client")

__all__ = ["TOOLS", "tools_command"]

_TITLE_CHARACTERS_MAX = 60


def tools_command(
    ctx: Context,
    tool: Annotated[str | None, Argument(metavar="TOOL", help="Show this one in full.")] = None,
    *,
    toolset: ToolsetOption = None,
    era: EraOption = "auto",
    options: ServerOptions,
    as_json: JsonOption = False,
) -> None:
    """List the tools of an MCP server with their sizes, or show one.

    The size is what the list costs a model, about one token for four bytes. With --json: protocol_version, server,
    tools, bytes and tokens.
    """
    choice = options.choice(toolset, trailing_arguments(ctx), looks_only=True)

    def work() -> int:
        silence_sdk_logs()
        listing = asyncio.run(mcp_client.list_tools(resolve_server(choice), ERAS[era]))
        chosen = _chosen(listing, tool)
        if as_json:
            print_json(_report(listing, chosen))
        elif tool is None:
            _print_list(listing, chosen)
            if not chosen:
                _say_why_none(toolset)
        else:
            _print_tool(chosen[0])
        return 0

    exit_with(work, as_json=as_json)


TOOLS = WithTrailingArguments(tools_command)


def _chosen(listing: mcp_client.ToolListing, name: str | None) -> list[JsonObject]:
    if name is None:
        return list(listing.tools)
    found = [item for item in listing.tools if item["name"] == name]
    if not found:
        near = nearest(name, [str(item["name"]) for item in listing.tools])
        meant = f"did you mean {near}?" if near else "`penstock mcp tools` lists the tools"
        raise UsageError(f"there is no tool {name!r} in the list; {meant}")
    return found


def _bytes(tool: JsonObject) -> int:
    """The size of a tool in the list."""
    return len(json.dumps(tool, ensure_ascii=False, separators=(",", ":")).encode())


def _report(listing: mcp_client.ToolListing, chosen: list[JsonObject]) -> JsonObject:
    total = sum(map(_bytes, chosen))
    return {
        "protocol_version": listing.version,
        "server": listing.server,
        "tools": [{**item, "bytes": _bytes(item), "tokens": token_estimate(_bytes(item))} for item in chosen],
        "bytes": total,
        "tokens": token_estimate(total),
    }


def _print_list(listing: mcp_client.ToolListing, tools: list[JsonObject]) -> None:
    console = console_for(sys.stdout)
    width = max((len(str(item["name"])) for item in tools), default=0)
    for item in tools:
        kind, style = _kind(item)
        title = clean(str(item.get("title") or item.get("description") or ""))[:_TITLE_CHARACTERS_MAX]
        size = f"{size_text(_bytes(item)):>8}"
        name = f"{clean(str(item['name'])):<{width}}"
        console.print(Text.assemble((name, "bold"), (f"  {size}", "dim"), (f"  {kind:<9}", style), title))
    total = sum(map(_bytes, tools))
    text = f"{count_words(len(tools), 'tool')} · {size_text(total)} · about {token_estimate(total):,} tokens"
    name = f" · {clean(listing.server)}" if listing.server else ""
    console.print(Text(f"{text} ({BYTES_PER_TOKEN} bytes each) · {listing.version}{name}", style="dim"))


def _say_why_none(toolset: str | None) -> None:
    """Print why the list may be empty."""
    text = "expose a workflow (expose.tool: true), or use a key with more scopes"
    if toolset is not None:
        sets = "workflows, management, operations, upstream, all, search, or names of tools"
        text = f"--toolset {clean(toolset)} has nothing for this key; it takes {sets}"
    console_for(sys.stdout).print(Text.assemble(("hint", "cyan"), f": {text}"))


def _kind(tool: JsonObject) -> tuple[str, str]:
    """What a tool does, by its annotations; without any it may do anything."""
    hints: Any = tool.get("annotations")
    known = hints if isinstance(hints, dict) else {}
    if known.get("readOnlyHint") is True:
        return "reads", "green"
    match known.get("destructiveHint"):
        case True:
            return "destroys", "red"
        case False:
            return "changes", "yellow"
        case _:
            return "anything", "yellow"


def _print_tool(tool: JsonObject) -> None:
    console = console_for(sys.stdout)
    kind, style = _kind(tool)
    size = _bytes(tool)
    text = f" · {size_text(size)}, about {token_estimate(size):,} tokens"
    console.print(Text.assemble((clean(str(tool["name"])), "bold"), (f"  {kind}", style), (text, "dim")))
    for line in str(tool.get("description") or tool.get("title") or "").splitlines():
        console.print(Text(clean(line)))
    for title, member in (("arguments", "inputSchema"), ("answer", "outputSchema")):
        schema: Any = tool.get(member)
        lines = list(_members(schema if isinstance(schema, dict) else {}))
        if lines:
            console.print(Text(f"\n{title}", style="bold"))
        for line in lines:
            console.print(Text(f"  {line}"))


def _members(schema: dict[str, Any]) -> Iterator[str]:
    properties = schema.get("properties")
    required = schema.get("required") or ()
    if not isinstance(properties, dict):
        return
    width = max(map(len, properties), default=0)
    for name, inner in properties.items():
        found = inner if isinstance(inner, dict) else {}
        needed = "needed" if name in required else ""
        text = clean(str(found.get("description", "")))
        yield f"{clean(name):<{width}}  {_type(found):<10}  {needed:<6}  {text}".rstrip()


def _type(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(schema.get("enum"), list):
        return "one of " + ", ".join(clean(str(value)) for value in schema["enum"])
    return " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind or "any")
