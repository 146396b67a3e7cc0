"""Imported tools over MCP: what is listed, under which names, and what their results look like."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.base import limits
from penstock.mcp_surface.content.results import execution_result
from penstock.mcp_surface.content.upstream_results import upstream_result
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.tools.registry import build_tool_list
from penstock.mcp_surface.tools.tool_list import Tool, listed_tool
from penstock.mcp_surface.tools.toolsets import found_tools, toolset_list
from penstock.operations.catalogue.capability import Annotations, Authorization, Capability, Governance
from penstock.operations.runs.results import ExecutionResult
from penstock.operations.runs.views import ErrorView

OPTIONS = McpOptions(version="1")


async def nothing(context: Any, given: Any) -> None:
    return None


def capability(name: str, populator: str = "upstream", **metadata: Any) -> Capability:
    return Capability(
        name=name,
        title=name,
        description="Does something.",
        make_input_schema=lambda: {"type": "object"},
        make_output_schema=lambda: None,
        annotations=Annotations(),
        governance=Governance(),
        handler=nothing,
        convert=lambda arguments: arguments,
        authorization=lambda _: Authorization(action="x", resource_kind="x"),
        populator=populator,
        metadata=metadata,
    )


def imported(name: str = "shop.search", **metadata: Any) -> Capability:
    return capability(f"upstream:{name}", tool=name, server="shop", upstream="search", hash="h", **metadata)


def tool(**metadata: Any) -> Tool:
    return listed_tool("shop_search", imported(**metadata), output_schemas=False)


def ended(output: Any = None, **more: Any) -> ExecutionResult:
    known: dict[str, Any] = {"status": "completed", "sequence": 9, **more}
    return ExecutionResult(execution_id="r_1", workflow_id="upstream:shop.search", output=output, **known)


def test_what_is_withheld_is_found_and_not_listed() -> None:
    tool_list = build_tool_list([imported(), imported("shop.order", withheld=True)], OPTIONS)
    assert [item.name for item in tool_list.tools] == ["shop_search"]
    found = tool_list.find("shop_order")
    assert found is not None
    assert found.withheld
    assert [item["name"] for item in found_tools(tool_list, {})["items"]] == ["shop_search"]  # type: ignore[union-attr,index,call-overload]


def test_a_workflow_keeps_its_name_and_the_imported_tool_takes_another() -> None:
    workflow = capability("workflow:shop_search", "workflow", tool="shop_search", workflow="shop_search")
    tool_list = build_tool_list([imported(), workflow], OPTIONS)
    named = {item.name: item.capability.name for item in tool_list.tools}
    assert named == {"shop_search": "workflow:shop_search", "upstream_shop_search": "upstream:shop.search"}


def test_a_toolset_has_imported_tools_only() -> None:
    workflow = capability("workflow:greet", "workflow", tool="greet", workflow="greet")
    tool_list = build_tool_list([imported(), workflow], OPTIONS)
    assert [item.name for item in toolset_list(tool_list, "upstream", OPTIONS).tools] == ["shop_search"]
    assert [item.name for item in toolset_list(tool_list, "workflows", OPTIONS).tools] == ["greet"]


def test_data_and_content_come_back_as_the_server_gave_them() -> None:
    data = upstream_result(ended({"items": [1]}), tool(structured=True), 1_000)
    assert data is not None
    assert (data["structuredContent"], data["isError"]) == ({"items": [1]}, False)
    assert data["_meta"] == {
        "penstock/untrusted": True,
        "penstock/server": "shop",
        "penstock/execution_id": "r_1",
    }
    text = upstream_result(ended({"text": "hello"}), tool(structured=False), 1_000)
    assert text is not None
    assert text["content"] == [{"type": "text", "text": "hello"}]
    assert "structuredContent" not in text
    image = {"type": "image", "data": "AA==", "mimeType": "image/png"}
    blocks = upstream_result(ended({"text": "a", "content": [{"type": "text", "text": "a"}, image]}), tool(), 1_000)
    assert blocks is not None
    assert blocks["content"] == [{"type": "text", "text": "a"}, image]
    undeclared = upstream_result(ended({"sum": 3}), tool(structured=False), 1_000)
    assert undeclared is not None
    assert undeclared["structuredContent"] == {"sum": 3}


def test_an_error_of_the_tool_is_one_with_its_words() -> None:
    error = ErrorView(code="MCP_TOOL_EXECUTION_ERROR", message="the shop is closed")
    failed = upstream_result(ended(status="failed", error=error), tool(), 1_000)
    assert failed is not None
    assert (failed["isError"], failed["content"]) == (True, [{"type": "text", "text": "the shop is closed"}])


@pytest.mark.parametrize(
    "result",
    [
        ended({"text": "x" * 1_001}),
        ended({"content": [{"type": "image", "data": "A" * limits.MCP_CONTENT_BYTES_MAX}]}),
        ended(status="waiting_input"),
        ended(status="failed", error=ErrorView(code="ACTIVITY_TIMEOUT", message="too late")),
    ],
)
def test_everything_else_is_told_like_that_of_any_execution(result: ExecutionResult) -> None:
    assert upstream_result(result, tool(), 1_000) is None


@pytest.mark.parametrize(
    "result",
    [
        ended({"text": "short"}),
        ended({"text": "x" * 5_000}),
        ended(status="failed", error=ErrorView(code="MCP_RESULT_TOO_LARGE", message="too much", node_id="call")),
        ended(status="waiting_input"),
    ],
    ids=["whole", "in part", "failed", "waiting"],
)
def test_a_result_of_an_imported_tool_is_marked_untrusted_whatever_its_size_and_status(result: ExecutionResult) -> None:
    shown: Any = execution_result(result, build_tool_list([imported()], OPTIONS), 1_000)
    assert shown["_meta"]["penstock/untrusted"] is True
