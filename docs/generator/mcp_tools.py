"""The page about MCP: every built-in tool with its arguments, hints, refusals and size, read from the catalogue."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from docs.generator.markdown import anchor, code, link, page, prose, table
from penstock.base import limits
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.resources.own import TEMPLATES
from penstock.mcp_surface.tools.registry import build_tool_list
from penstock.mcp_surface.tools.tool_list import BYTES_PER_TOKEN, Tool, ToolList, catalogue_bytes
from penstock.mcp_surface.tools.toolsets import EVERYDAY, toolset_list
from penstock.operations.builtin import builtin_operations

__all__ = ["mcp_tools_page"]

_HINTS = (("readOnlyHint", "reads only"), ("destructiveHint", "may destroy"), ("idempotentHint", "may be repeated"))


def mcp_tools_page() -> str:
    """Every built-in tool."""
    return page("MCP tools", "the catalogue in `operations` and `mcp_surface`", _parts())


def _parts() -> Iterator[str]:
    options = McpOptions()
    whole = build_tool_list(builtin_operations(), options)
    everyday = toolset_list(whole, "search", options)
    extra = [tool for tool in everyday.tools if whole.find(tool.name) is None]
    yield from _introduction(whole, everyday)
    tools = [*extra, *whole.tools]
    yield table(
        ["Tool", "What it does", "Listed", "Bytes"],
        [
            [
                link(code(tool.name), f"#{anchor(tool.name)}"),
                prose(tool.capability.title),
                _listed(tool, extra),
                str(catalogue_bytes((tool,))),
            ]
            for tool in tools
        ],
    )
    yield "## Resources"
    yield (
        "What the server itself offers to read, beside what workflows offer with `expose.resource`. An address that "
        "the key may not read is as unknown as one where nothing is."
    )
    yield table(
        ["Address", "What it is"],
        [[code(item["uriTemplate"]), prose(f"{item['title']}. {item['description']}")] for item in TEMPLATES],
    )
    yield "## Tools"
    for tool in tools:
        yield from _tool(tool)


def _introduction(whole: ToolList, everyday: ToolList) -> Iterator[str]:
    size, small = whole.size(), everyday.size()
    yield (
        "The tools that every server offers to keys with the scopes for them; each exposed workflow is one more. "
        "Arguments and answers are those of [REST](rest.md), and so are the refusals: a result with `isError`, the "
        "[code](errors.md), every mistake, and what to call next. Names are given as `server.mcp.tool_names: "
        "underscore` spells them; `penstock.workflow.list` and `workflow.list` are understood as well."
    )
    yield (
        f"All {size['tools']} of them are {size['bytes']} bytes of JSON, about {size['tokens']} tokens at "
        f"{BYTES_PER_TOKEN} bytes each. A list that would have more than {limits.MCP_CATALOGUE_BYTES_MAX} bytes has "
        f"those of every day instead ({small['tools']} tools, {small['bytes']} bytes), the workflows that fit beside "
        "them, and three tools that find, describe and call the rest. Each list says in `_meta` "
        "(`penstock/catalogue`) what it costs; `penstock mcp tools` shows it. [A guide](../guides/mcp-expose.md) "
        "shows how to choose other tools."
    )


def _listed(tool: Tool, extra: list[Tool]) -> str:
    if tool in extra:
        return "in place of the rest"
    return "always" if tool.capability.name in EVERYDAY else "if there is room"


def _tool(tool: Tool) -> Iterator[str]:
    capability = tool.capability
    yield f"### {tool.name}"
    yield prose(f"**{capability.title}.** {capability.description.removeprefix(capability.title).lstrip('. ')}")
    rows = list(_arguments(capability.input_schema))
    yield table(["Argument (* = required)", "Kind", "What it is"], rows) if rows else "It takes no arguments."
    facts = [f"**Hints:** {_hints(tool)}.", f"**Size in the list:** {catalogue_bytes((tool,))} bytes."]
    if capability.governance.scopes:
        facts.append(f"**Scopes:** {', '.join(map(code, capability.governance.scopes))}.")
    if capability.errors:
        facts.append(f"**Refusals of its own:** {', '.join(map(code, capability.errors))}.")
    if capability.route is not None:
        facts.append(f"**REST:** {link(code(capability.name), f'rest.md#{anchor(capability.name)}')}.")
    yield "\n".join(f"- {fact}" for fact in facts)
    if capability.examples:
        request = {"name": tool.name, "arguments": capability.examples[0].arguments}
        yield f"```json\n{msgspec.json.format(msgspec.json.encode(request), indent=2).decode()}\n```"


def _hints(tool: Tool) -> str:
    given = tool.listed["annotations"]
    hints = given if isinstance(given, dict) else {}
    said = [words for name, words in _HINTS if hints.get(name)]
    said.append("reaches other systems" if hints.get("openWorldHint", True) else "stays within the server")
    return ", ".join(said)


def _arguments(schema: Mapping[str, Any]) -> Iterator[list[str]]:
    required = set(schema.get("required") or ())
    for name, given in (schema.get("properties") or {}).items():
        words = prose(given.get("description") or "")
        if given.get("default") not in (None, [], {}, False):
            words = f"{words} Default: {code(given['default'])}.".strip()
        yield [code(name) + (" *" if name in required else ""), _kind(given), words]


def _kind(schema: Mapping[str, Any]) -> str:
    options = schema.get("anyOf")
    if options:
        return " or ".join(dict.fromkeys(_kind(option) for option in options if option.get("type") != "null"))
    if "enum" in schema:
        return ", ".join(map(code, schema["enum"]))
    named = schema.get("type")
    if named == "array":
        return f"list of {_kind(schema.get('items') or {})}"
    if isinstance(named, list):
        return " or ".join(str(kind) for kind in named if kind != "null")
    words = {"string": "text", "integer": "whole number"}
    return words.get(str(named), str(named)) if named else "any JSON"
