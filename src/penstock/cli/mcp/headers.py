"""The HTTP headers of an MCP message, taken from the message itself.

Above it: `bridge`. Below it: nothing. It knows the protocol's JSON, not the SDK.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from penstock.base.json import JsonObject, JsonValue

__all__ = ["HeaderPlan", "header_plans", "modern_headers"]

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_MARK = "x-mcp-header"
_PREFIX = "Mcp-Param-"
_DEPTH_MAX = 16

HeaderPlan: TypeAlias = Mapping[tuple[str, ...], str]
"""Which arguments of a tool stand in which headers too."""


def modern_headers(message: JsonObject, plans: Mapping[str, HeaderPlan]) -> dict[str, str] | None:
    """The headers of a request of the newest era; None for a message of an older one."""
    params, method = _object(message.get("params")), message.get("method")
    version = _object(params.get("_meta")).get(_VERSION_KEY)
    if not isinstance(version, str) or not isinstance(method, str):
        return None
    headers = {"MCP-Protocol-Version": version, "Mcp-Method": method}
    name = params.get(_NAMED_BY.get(method, "taskId" if method.startswith("tasks/") else ""))
    if isinstance(name, str):
        headers["Mcp-Name"] = _header_text(name)
        if method == "tools/call":
            headers.update(_argument_headers(plans.get(name, {}), _object(params.get("arguments"))))
    return headers


def header_plans(result: JsonValue) -> dict[str, HeaderPlan]:
    """The arguments that tools want in headers, by tool, from a list of tools."""
    tools = _object(result).get("tools")
    found: dict[str, HeaderPlan] = {}
    for tool in tools if isinstance(tools, list) else ():
        known = _object(tool)
        plan = dict(_marked(_object(known.get("inputSchema")), ()))
        if plan and isinstance(known.get("name"), str):
            found[str(known["name"])] = plan
    return found


def _marked(schema: JsonObject, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if len(path) > _DEPTH_MAX:
        return
    for name, inner in _object(schema.get("properties")).items():
        mark = _object(inner).get(_MARK)
        if isinstance(mark, str):
            yield (*path, name), mark
        yield from _marked(_object(inner), (*path, name))


def _argument_headers(plan: HeaderPlan, arguments: JsonObject) -> dict[str, str]:
    headers = {}
    for path, mark in plan.items():
        value: Any = arguments
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, bool):
            headers[f"{_PREFIX}{mark}"] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            headers[f"{_PREFIX}{mark}"] = _header_text(str(value))
    return headers


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _header_text(text: str) -> str:
    """A value that a header can carry."""
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="
