"""Prompts and resources of MCP servers, as tools that read: what a server has of them, and one call.

A prompt is a tool of its own, with its arguments. Resources change all the time and may be thousands, so two tools
stand for all of them: one lists, one reads, and both only what the operator's patterns admit.

Above it: `executor`. Below it: the official `mcp` client, whose answers are bounded by the session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND, Prompt
from pydantic import BaseModel

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.activities.performing import ActivityError, ActivityOutcome
from penstock.runtime.executors.mcp.results import taken
from penstock.runtime.upstreams.tools import (
    PROMPT_PREFIX,
    READS_RESOURCES,
    ImportRules,
    UpstreamResource,
    UpstreamTool,
)

__all__ = ["EXCLUDED", "listed_readings", "listed_resources", "read"]

EXCLUDED = "UPSTREAM_RESOURCE_EXCLUDED"
_LIST, _READ = READS_RESOURCES
# Reading changes nothing: the method says so, for the rules that ask for it.
_READING = "GET"
_URI: JsonObject = {
    "type": "object",
    "required": ["uri"],
    "properties": {"uri": {"type": "string", "description": "The address of the resource."}},
    "additionalProperties": False,
}
_NOTHING: JsonObject = {"type": "object", "properties": {}, "additionalProperties": False}


async def listed_readings(client: Client, rules: ImportRules) -> tuple[UpstreamTool, ...]:
    """The tools that stand for what a server has of prompts and resources, as far as the operator imports them."""
    found: list[UpstreamTool] = []
    capabilities = client.server_capabilities
    if rules.resources and capabilities.resources is not None:
        found.append(_reading(_LIST, "Lists the resources that can be read.", _NOTHING))
        found.append(_reading(_READ, "Reads a resource by its address.", _URI))
    if rules.prompts and capabilities.prompts is not None:
        for prompt in await _pages(client.list_prompts, "prompts"):
            if rules.admits(f"{PROMPT_PREFIX}{prompt.name}"):
                found.append(_prompt(prompt))
    fitting = {tool.name: tool for tool in reversed(found) if _size(tool) <= limits.UPSTREAM_TOOL_BYTES_MAX}
    return tuple(fitting[name] for name in sorted(fitting)[: limits.UPSTREAM_TOOLS_MAX])


async def listed_resources(client: Client, rules: ImportRules) -> tuple[UpstreamResource, ...]:
    """The resources and templates of a server that the operator's patterns admit, by address, up to the limit."""
    if not rules.resources or client.server_capabilities.resources is None:
        return ()
    found = [_resource(item, str(item.uri)) for item in await _pages(client.list_resources, "resources")]
    for item in await _pages(client.list_resource_templates, "resource_templates"):
        found.append(_resource(item, item.uri_template, is_template=True))
    fitting = {
        item.uri: item
        for item in reversed(found)
        if rules.admits_resource(item.uri) and _size(item) <= limits.UPSTREAM_TOOL_BYTES_MAX
    }
    return tuple(fitting[uri] for uri in sorted(fitting)[: limits.UPSTREAM_TOOLS_MAX])


def _resource(item: Any, uri: str, *, is_template: bool = False) -> UpstreamResource:
    return UpstreamResource(
        uri=uri,
        name=item.name,
        title=item.title,
        description=item.description,
        mime_type=item.mime_type,
        is_template=is_template,
    )


def _size(item: UpstreamTool | UpstreamResource) -> int:
    return len(encode_bytes(item))


def _reading(name: str, description: str, schema: JsonObject, title: str | None = None) -> UpstreamTool:
    return UpstreamTool(
        name=name, title=title, description=description, input_schema=schema, request={"method": _READING, "mcp": name}
    )


def _prompt(prompt: Prompt) -> UpstreamTool:
    arguments = prompt.arguments or []
    properties: JsonObject = {
        item.name: {"type": "string", **({"description": item.description} if item.description else {})}
        for item in arguments
    }
    required: list[JsonValue] = [item.name for item in arguments if item.required]
    schema: JsonObject = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    words = prompt.description or f"The prompt {prompt.name}."
    return _reading(f"{PROMPT_PREFIX}{prompt.name}", words, schema, prompt.title)


async def _pages(fetch: Callable[..., Awaitable[Any]], member: str) -> list[Any]:
    """All items of a list, up to the limit."""
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(limits.UPSTREAM_TOOLS_MAX):
        try:
            page = await fetch(cursor=cursor)
        except MCPError as error:
            if error.code == METHOD_NOT_FOUND:
                return []
            raise
        found += getattr(page, member)
        cursor = page.next_cursor
        if cursor is None or len(found) >= limits.UPSTREAM_TOOLS_MAX:
            break
    return found[: limits.UPSTREAM_TOOLS_MAX]


async def read(client: Client, server: str, tool: str, arguments: JsonObject, rules: ImportRules) -> ActivityOutcome:
    """Get a prompt, list resources or read one. Raises what the library raises."""
    if tool == _LIST:
        return taken(server, tool, await _resources(client, rules))
    if tool == _READ:
        uri = arguments.get("uri")
        if not isinstance(uri, str) or not rules.admits_resource(uri):
            message = f"{server}: this address is not among the resources that the settings import"
            return ActivityError(message, EXCLUDED, retryable=False)
        return taken(server, tool, _plain(await client.read_resource(uri, cache_mode="bypass"), "contents"))
    texts = {name: value if isinstance(value, str) else "" for name, value in arguments.items()}
    return taken(server, tool, _plain(await client.get_prompt(tool.removeprefix(PROMPT_PREFIX), texts), "messages"))


async def _resources(client: Client, rules: ImportRules) -> JsonObject:
    listed = [item for item in await _pages(client.list_resources, "resources") if rules.admits_resource(str(item.uri))]
    templates = await _pages(client.list_resource_templates, "resource_templates")
    resources: list[JsonValue] = [_shown(item) for item in listed]
    found: JsonObject = {"resources": resources}
    if templates:
        # A template is shown as it is; which addresses made from it can be read is decided when one is.
        found["templates"] = [_shown(item) for item in templates]
    return found


def _shown(item: BaseModel) -> JsonObject:
    shown: JsonObject = item.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {name: value for name, value in shown.items() if name not in ("_meta", "icons")}


def _plain(result: BaseModel, member: str) -> JsonObject:
    whole: JsonObject = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {name: whole[name] for name in ("description", member) if name in whole}
