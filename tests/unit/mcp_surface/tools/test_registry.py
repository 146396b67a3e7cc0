"""The names and lists of tools."""

from __future__ import annotations

import re

import pytest

from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.tools.registry import build_tool_list
from penstock.operations.builtin import builtin_operations


def names(**choices: object) -> list[str]:
    return [tool.name for tool in build_tool_list(builtin_operations(), McpOptions(**choices)).tools]  # type: ignore[arg-type]


def test_names_are_short_unique_and_plain() -> None:
    found = names()
    assert len(set(found)) == len(found)
    assert all(re.fullmatch("[a-z0-9_]{1,64}", name) for name in found)


def test_names_may_have_dots() -> None:
    assert "penstock.workflow.list" in names(tool_names="dot")


def test_a_name_that_is_too_long_is_cut_and_stays_unique() -> None:
    found = names(tool_prefix="a" * 60)
    assert len(set(found)) == len(found)
    assert max(len(name) for name in found) == 64


@pytest.mark.parametrize("name", ["penstock_workflow_list", "penstock.workflow.list", "workflow.list"])
@pytest.mark.parametrize("spelling", ["underscore", "dot"])
def test_every_spelling_is_found(name: str, spelling: str) -> None:
    tool_list = build_tool_list(builtin_operations(), McpOptions(tool_names=spelling))  # type: ignore[arg-type]
    found = tool_list.find(name)
    assert found is not None
    assert found.capability.name == "workflow.list"


@pytest.mark.parametrize("prefix", ["penstock", ""])
def test_the_functions_of_the_workflow_profile_answer_to_their_published_names(prefix: str) -> None:
    tool_list = build_tool_list(builtin_operations(), McpOptions(tool_prefix=prefix))
    for function in ("start", "status", "resume", "submit_activity", "signal", "cancel"):
        found = tool_list.find(f"workflow_{function}")
        assert found is not None
        assert found.capability.name == f"control.workflow_{function}"
    # What is listed under a name comes first.
    found = tool_list.find("workflow_list")
    assert found is not None
    assert found.capability.name == ("workflow.list" if prefix == "" else "control.workflow_list")


def test_streams_and_administration_are_no_tools() -> None:
    found = names()
    assert "penstock_execution_stream" not in found
    assert not [name for name in found if name.startswith(("penstock_key_", "penstock_audit_"))]


def test_excluded_paths_are_no_tools() -> None:
    found = names(exclude_endpoints=("/api/v0/schedules*", "/api/v0/*/executions"))
    assert not [name for name in found if name.startswith("penstock_schedule")]
    assert "penstock_workflow_execute" not in found
    assert "penstock_execution_list" in found


def test_schemas_are_those_of_the_catalogue() -> None:
    tool_list = build_tool_list(builtin_operations(), McpOptions())
    for tool in tool_list.tools:
        assert tool.listed["inputSchema"] == tool_list.naming.of_schema(tool.capability.input_schema)
        assert tool.listed["inputSchema"]["type"] == "object"
