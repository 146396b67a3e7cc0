"""What a model is shown: every exposed workflow, in words that name the tools of the list."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from penstock.definitions.schemas.compiled import CompiledSchema, compile_schema, violations
from penstock.mcp_surface.options import INSTRUCTIONS, McpOptions
from penstock.mcp_surface.tools.registry import ToolRegistry, build_tool_list
from penstock.mcp_surface.tools.tool_list import ToolList
from penstock.operations.builtin import builtin_operations
from penstock.operations.catalogue.profile_names import profile_metadata
from tests.unit.mcp_surface.assistants import Assistant, assisted

pytestmark = pytest.mark.anyio
# What a tool may cost beyond the document's own words. Of that, its governance has some 70.
OVERHEAD_BYTES_MAX = 590
# What is never a tool keeps its name: a person calls it, over REST or at the terminal.
TOOLS = build_tool_list(builtin_operations(), McpOptions()).tools
CANONICAL = re.compile(rf"(?<![\w.:/-])(?:{'|'.join(re.escape(item.capability.name) for item in TOOLS)})(?![\w-]|\.\w)")


def workflow(number: int) -> dict[str, Any]:
    """A workflow as people write them: four inputs, an output, words for each."""
    text = {"type": "string", "description": "The text that this parameter takes, in a sentence of usual length."}
    return {
        "penstock": "v1",
        "name": f"flow-{number:03}",
        "version": "1.0.0",
        "title": f"Workflow {number}",
        "description": f"Workflow number {number}. It gives back what it takes; nothing outside is changed by it.",
        "expose": {"tool": True},
        "input": {
            "type": "object",
            "required": ["first"],
            "properties": {"first": text, "second": text, "third": {"type": "integer"}, "fourth": {"type": "boolean"}},
        },
        "output": {"type": "object", "properties": {"first": text}},
        "nodes": [{"id": "done", "type": "end", "output": {"first": "${ .input.first }"}}],
    }


async def book_of(assistant: Assistant, **options: Any) -> ToolList:
    chosen = replace(assistant.options, **options)
    return await ToolRegistry(assistant.caller.gate, chosen).of((await assistant.who()).principal)


def encoded(value: Any) -> int:
    return len(msgspec.json.encode(value))


@pytest.mark.parametrize("count", [1, 13, 50, 200])
async def test_every_exposed_workflow_is_listed_however_many_there_are(tmp_path: Path, count: int) -> None:
    async with assisted(tmp_path, *(workflow(number) for number in range(count))) as assistant:
        for toolset in ("default", "management", "all", "workflows"):
            book = await book_of(assistant, toolset=toolset)
            listed = {tool.name for tool in book.tools if tool.starts_execution}
            assert listed == {f"flow-{number:03}" for number in range(count)}, toolset


async def test_above_the_budget_a_search_takes_the_place_of_management(tmp_path: Path) -> None:
    async with assisted(tmp_path, *(workflow(number) for number in range(13))) as assistant:
        book = await book_of(assistant, toolset="management")
        names = {tool.capability.name for tool in book.tools if not tool.starts_execution}
        assert {"tools.search", "tools.describe", "tools.call", "workflow.update", "execution.status"} - names == {
            "workflow.update"
        }
        found = book.find("workflow.update")
        assert found is not None
        assert found not in book.tools


async def test_when_workflows_fill_the_budget_only_what_follows_them_and_the_search_stay(tmp_path: Path) -> None:
    async with assisted(tmp_path, *(workflow(number) for number in range(50))) as assistant:
        book = await book_of(assistant, toolset="management", catalogue_bytes=20_000)
        assert [tool.capability.name for tool in book.tools if not tool.starts_execution] == [
            "execution.answer",
            "execution.cancel",
            "execution.status",
            "execution.wait",
            "tools.call",
            "tools.describe",
            "tools.search",
        ]


async def test_a_workflow_costs_little_more_than_its_own_words(tmp_path: Path) -> None:
    document = workflow(1)
    async with assisted(tmp_path, document) as assistant:
        tool = (await book_of(assistant)).find("flow-001")
        assert tool is not None
        # The name stands for the tool and for the workflow, the title also where older clients look for it.
        words = ("name", "name", "version", "title", "title", "description", "input", "output")
        own = sum(encoded(document[name]) for name in words)
        assert encoded(tool.listed) - own <= OVERHEAD_BYTES_MAX


@pytest.mark.parametrize("style", ["underscore", "dot"])
async def test_what_a_model_reads_names_tools_as_the_list_does(
    tmp_path: Path, style: Literal["underscore", "dot"]
) -> None:
    async with assisted(tmp_path, workflow(1)) as assistant:
        options = replace(assistant.options, tool_names=style, output_schemas=True, toolset="all")
        book = await ToolRegistry(assistant.caller.gate, options).of((await assistant.who()).principal)
        for tool in book.tools:
            for text in told(tool.listed):
                assert not CANONICAL.search(text), (tool.name, text)
        status = next(tool for tool in book.tools if tool.capability.name == "execution.status")
        answer = next(tool for tool in book.tools if tool.capability.name == "execution.answer")
        assert answer.name in str(status.listed["description"])
    assert not CANONICAL.search(INSTRUCTIONS)


def told(value: Any) -> list[str]:
    """Every description in something that is listed."""
    if isinstance(value, list):
        return [text for item in value for text in told(item)]
    if not isinstance(value, dict):
        return []
    own = [value["description"]] if isinstance(value.get("description"), str) else []
    return own + [text for name, item in value.items() if name not in ("examples", "enum") for text in told(item)]


async def test_a_refusal_names_the_tool_that_is_in_the_list(tmp_path: Path) -> None:
    async with assisted(tmp_path, workflow(1)) as assistant:
        result = await assistant.call("penstock_workflow_create", {"document": workflow(1)})
        assert result["isError"]
        text = result["content"][0]["text"]
        assert "penstock_workflow_update" in text
        assert not CANONICAL.search(text)


QUESTION = {"id": "ask", "type": "interrupt", "message": "Really?", "next": "done"}
ENDINGS: dict[str, list[dict[str, Any]]] = {
    "completed": [{"id": "done", "type": "end", "output": {"first": "a"}}],
    "waiting_input": [QUESTION, {"id": "done", "type": "end"}],
    "failed": [
        {"id": "look", "type": "switch", "cases": [{"when": "true", "next": "bad"}], "default": "done"},
        {"id": "bad", "type": "fail", "code": "BAD", "message": "It went wrong."},
        {"id": "done", "type": "end"},
    ],
}


@pytest.mark.parametrize("status", ENDINGS)
async def test_what_a_call_gives_fits_the_schema_that_the_list_shows(tmp_path: Path, status: str) -> None:
    document = {**workflow(1), "input": {"type": "object"}, "nodes": ENDINGS[status]}
    async with assisted(tmp_path, document) as assistant:
        tool = (await book_of(assistant)).find("flow-001")
        assert tool is not None
        compiled = compile_schema(tool.listed["outputSchema"])  # type: ignore[arg-type]
        assert isinstance(compiled, CompiledSchema)
        result = await assistant.call("flow-001", {}, kinds=frozenset(), completes=False)
        assert result["structuredContent"]["status"] == status
        assert violations(compiled, result["structuredContent"]) == ()


def governance_in(listed: dict[str, Any]) -> dict[str, Any]:
    """What an entry of the list says of its governance, with what is left out because it is usual."""
    bucket = "read" if listed["annotations"]["readOnlyHint"] else "write"
    usual = {"requiredScopes": [], "risk": "low", "requiresConfirmation": False, "draftPolicy": {"mode": "never"}}
    said = listed.get("_meta", {}).get("penstock/governance", {})
    return {**usual, "rateLimitHints": {"bucket": bucket}, **said}


def test_every_tool_says_its_governance_and_leaves_out_what_is_usual() -> None:
    for item in TOOLS:
        assert governance_in(item.listed) == profile_metadata(item.capability), item.name
    listed = {item.capability.name: item.listed for item in TOOLS}
    assert listed["execution.status"]["_meta"] == {"penstock/governance": {"requiredScopes": ["execution:read"]}}
    dangerous = {"risk": "high", "requiredScopes": ["workflow:delete"]}
    assert listed["workflow.delete"]["_meta"] == {"penstock/governance": dangerous}
