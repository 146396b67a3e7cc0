"""Which tools a list has, and how the others are found."""

from __future__ import annotations

import msgspec
import pytest

from penstock.base.errors import Rejected
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.tools.registry import build_tool_list
from penstock.mcp_surface.tools.tool_list import ToolList
from penstock.mcp_surface.tools.toolsets import EVERYDAY, FOLLOWING, described, found_tools, inner_call, toolset_list
from penstock.operations.builtin import builtin_operations
from penstock.operations.runs.tool_schemas import or_standing

WHOLE = build_tool_list(builtin_operations(), McpOptions())


def chosen(toolset: str, **choices: int) -> ToolList:
    return toolset_list(WHOLE, toolset, McpOptions(**choices))  # type: ignore[arg-type]


def names(tool_list: ToolList) -> list[str]:
    return [tool.name for tool in tool_list.tools]


def size(tool_list: ToolList) -> int:
    return len(msgspec.json.encode([tool.listed for tool in tool_list.tools]))


def test_by_default_nothing_is_listed_or_called_but_workflows_and_what_goes_on_with_them() -> None:
    tool_list = chosen("default")
    assert {tool.capability.name for tool in tool_list.tools} == FOLLOWING
    assert {tool.capability.name for tool in tool_list.spellings.values()} == FOLLOWING


def test_the_list_for_management_fits_the_budget_and_has_what_is_used_every_day() -> None:
    tool_list = chosen("management")
    assert size(tool_list) < McpOptions().catalogue_bytes
    assert {tool.capability.name for tool in tool_list.tools} == EVERYDAY | {
        "tools.search",
        "tools.describe",
        "tools.call",
    }
    assert names(tool_list) == sorted(names(tool_list))


def test_a_small_catalogue_is_listed_whole() -> None:
    assert chosen("management", catalogue_bytes=1_000_000) is WHOLE


def test_what_is_not_listed_can_still_be_called() -> None:
    tool_list = chosen("management")
    assert "penstock_schedule_pause" not in names(tool_list)
    assert tool_list.find("penstock_schedule_pause") is WHOLE.find("penstock_schedule_pause")


def test_a_set_that_was_asked_for_is_all_that_can_be_called() -> None:
    tool_list = chosen("schedule,penstock_system_info")
    assert "penstock_schedule_pause" in names(tool_list)
    assert "penstock_system_info" in names(tool_list)
    assert not [name for name in names(tool_list) if name.startswith("penstock_workflow")]
    assert tool_list.find("workflow.list") is None


def test_workflows_come_with_what_goes_on_with_their_executions() -> None:
    assert names(chosen("workflows")) == [
        "penstock_execution_answer",
        "penstock_execution_cancel",
        "penstock_execution_status",
        "penstock_execution_wait",
    ]


def test_all_is_everything() -> None:
    assert chosen("all") is WHOLE


def test_names_that_do_not_exist_add_nothing() -> None:
    assert names(chosen("no_such_tool")) == []


def test_a_search_finds_a_tool_by_what_it_does() -> None:
    found = found_tools(chosen("management"), {"query": "pause a schedule", "limit": 3})
    assert found["items"][0]["name"] == "penstock_schedule_pause"  # type: ignore[index,call-overload]


def test_a_search_without_words_lists_everything_that_can_be_called() -> None:
    assert found_tools(chosen("management"), {})["total"] == len(WHOLE.tools)


def test_a_description_has_both_schemas() -> None:
    told = described(chosen("management"), {"name": "penstock.schedule.pause"})
    tool = WHOLE.find("schedule.pause")
    assert tool is not None
    assert told["inputSchema"] == tool.capability.input_schema
    assert told["outputSchema"] == or_standing(WHOLE.naming.of_schema(tool.capability.output_schema or {}))


def test_a_call_names_its_tool_and_arguments() -> None:
    tool, arguments = inner_call(chosen("search"), {"name": "schedule.pause", "arguments": {"schedule_id": "a"}})
    assert (tool.name, arguments) == ("penstock_schedule_pause", {"schedule_id": "a"})


@pytest.mark.parametrize("name", ["nothing", "penstock_tools_call", None, 7])
def test_a_tool_that_cannot_be_called_so_is_refused(name: object) -> None:
    with pytest.raises(Rejected):
        inner_call(chosen("management"), {"name": name})  # type: ignore[dict-item]


def test_an_unknown_tool_is_named_with_the_one_that_may_be_meant() -> None:
    with pytest.raises(Rejected) as refused:
        inner_call(chosen("search"), {"name": "penstock_schedule_paus"})
    assert "did you mean penstock_schedule_pause?" in str(refused.value.hint)


@pytest.mark.parametrize("arguments", [{"query": 7}, {"limit": 0}, {"limit": True}, {"limit": "many"}])
def test_a_search_says_what_it_cannot_read(arguments: dict[str, object]) -> None:
    with pytest.raises(Rejected):
        found_tools(chosen("management"), arguments)  # type: ignore[arg-type]


def test_lists_leave_out_what_operations_answer_with_unless_asked() -> None:
    assert not [tool for tool in WHOLE.tools if "outputSchema" in tool.listed]
    full = build_tool_list(builtin_operations(), McpOptions(output_schemas=True))
    for tool in full.tools:
        own = full.naming.of_schema(tool.capability.output_schema or {})
        assert tool.listed["outputSchema"] == or_standing(own)
