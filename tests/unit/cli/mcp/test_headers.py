"""What HTTP wants to know of an MCP message in headers."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.base.json import JsonObject
from penstock.cli.mcp.headers import header_plans, modern_headers

META: JsonObject = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
TOOL: JsonObject = {
    "name": "ship",
    "inputSchema": {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "fast": {"type": "boolean", "x-mcp-header": "Fast"},
            "parcel": {"type": "object", "properties": {"weight": {"type": "integer", "x-mcp-header": "Weight"}}},
            "note": {"type": "string"},
        },
    },
}


def request(method: str, **params: Any) -> JsonObject:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (request("tools/call", name="greet"), "greet"),
        (request("prompts/get", name="greet"), "greet"),
        (request("resources/read", uri="penstock://workflows/greet"), "penstock://workflows/greet"),
        (request("tasks/get", taskId="r_1"), "r_1"),
        (request("tools/call", name="grüße"), "=?base64?Z3LDvMOfZQ==?="),
        (request("tools/call", name=" greet"), "=?base64?IGdyZWV0?="),
        (request("tools/call", name="=?base64?YQ==?="), "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
    ],
)
def test_what_a_request_is_about_stands_in_a_header(message: JsonObject, name: str) -> None:
    headers = modern_headers(message, {})
    assert headers == {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": message["method"], "Mcp-Name": name}


def test_a_message_of_an_older_era_has_none_of_it() -> None:
    older: list[JsonObject] = [{"method": "ping"}, {"method": "ping", "params": {"_meta": {}}}, {"params": []}, {}]
    assert [modern_headers(message, {}) for message in older] == [None] * len(older)


def test_arguments_that_a_tool_wants_in_headers_are_put_there() -> None:
    plans = header_plans({"tools": [TOOL, {"name": "plain", "inputSchema": {}}, "nonsense"]})
    arguments = {"region": "eu west", "fast": True, "parcel": {"weight": 42}, "note": "x"}
    headers = modern_headers(request("tools/call", name="ship", arguments=arguments), plans) or {}
    found = {name: value for name, value in headers.items() if name.startswith("Mcp-Param-")}
    assert found == {"Mcp-Param-Region": "eu west", "Mcp-Param-Fast": "true", "Mcp-Param-Weight": "42"}
    assert list(plans) == ["ship"]


def test_what_is_not_given_or_no_plain_value_is_left_out() -> None:
    plans = header_plans({"tools": [TOOL]})
    message = request("tools/call", name="ship", arguments={"region": None, "parcel": 5, "fast": [True]})
    headers = modern_headers(message, plans) or {}
    assert not [name for name in headers if name.startswith("Mcp-Param-")]


@pytest.mark.parametrize(
    "result", [None, [], {"tools": 5}, {"tools": [{"name": 5, "inputSchema": TOOL["inputSchema"]}]}]
)
def test_a_list_that_is_none_says_nothing(result: Any) -> None:
    assert header_plans(result) == {}
