"""Results: what a model is given of an output, how much of it, and where the rest is."""

from __future__ import annotations

import json
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from penstock.base import limits
from penstock.base.errors import NotFound, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.content.blocks import messages_at, result_at
from penstock.mcp_surface.content.results import content_blocks, error_result, execution_result
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.tools.registry import build_tool_list
from penstock.mcp_surface.tools.tool_list import Tool, ToolList
from penstock.operations.builtin import builtin_operations
from penstock.operations.runs.results import ExecutionResult, HeldView
from penstock.operations.runs.views import ErrorView
from penstock.operations.runs.waits import QuestionView

WHOLE = build_tool_list(builtin_operations(), McpOptions())
PNG = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}


def tool_list(result: str) -> ToolList:
    """A book in which the workflow `draw` is a tool whose result is of a kind."""
    some = WHOLE.tools[0].capability
    metadata = MappingProxyType({"workflow": "draw", "result": result})
    capability = replace(some, name="workflow:draw", populator="workflow", metadata=metadata)
    tool = Tool("draw", capability, {})
    return ToolList((tool,), {**WHOLE.spellings, "draw": tool, "workflow:draw": tool}, WHOLE.operations)


def shown(one: ExecutionResult, kind: str, characters_max: int = 1_000) -> Any:
    return execution_result(one, tool_list(kind), characters_max)


def ended(output: Any = None, **more: Any) -> ExecutionResult:
    return ExecutionResult(
        **{"execution_id": "r_1", "workflow_id": "draw", "status": "completed", "sequence": 9, "output": output, **more}
    )


@pytest.mark.parametrize(
    ("output", "blocks"),
    [
        ("words", [{"type": "text", "text": "words"}]),
        (PNG, [PNG]),
        ([PNG, "words"], [PNG, {"type": "text", "text": "words"}]),
        ({"type": "image"}, [{"type": "text", "text": '{"type":"image"}'}]),
        ({"type": "unknown", "text": "x"}, [{"type": "text", "text": '{"type":"unknown","text":"x"}'}]),
        ([], []),
        (None, [{"type": "text", "text": "null"}]),
    ],
)
def test_an_output_is_content(output: Any, blocks: Any) -> None:
    assert content_blocks(output) == blocks
    assert shown(ended(output), "content") == {
        "content": blocks,
        "isError": False,
        "resultType": "complete",
    }


def test_data_is_text_and_structure() -> None:
    result = shown(ended([PNG]), "data")
    assert [item["type"] for item in result["content"]] == ["text"]
    assert result["structuredContent"]["output"] == [PNG]


def test_content_that_is_too_large_is_a_preview_and_a_link() -> None:
    large = {**PNG, "data": "A" * limits.MCP_CONTENT_BYTES_MAX}
    result = shown(ended(large), "content")
    text, link = result["content"]
    assert len(text["text"]) < 1_200
    assert "penstock://executions/r_1/result" in text["text"]
    assert link["uri"] == "penstock://executions/r_1/result"


@pytest.mark.parametrize("kind", ["data", "content"])
def test_a_failed_execution_is_an_error_whatever_its_output_would_be(kind: str) -> None:
    failed = ended(status="failed", error=ErrorView(code="FELL", message="it fell over"))
    result = shown(failed, kind)
    assert result["isError"] is True
    assert "FELL" in json.dumps(result["content"])


def test_a_refusal_with_a_thousand_mistakes_names_the_first_ones() -> None:
    mistakes: list[JsonValue] = [{"pointer": f"/{number}", "message": "m" * 200} for number in range(1_000)]
    refusal = Rejected("INVALID_ARGUMENTS", "nothing fits", "look at `errors`", {"errors": mistakes})
    result: Any = error_result(refusal, WHOLE)
    text = result["content"][0]["text"]
    assert "- /19: " in text
    assert "- and 980 more" in text
    assert "What to do: correct this and call again" in text
    assert "structuredContent" not in result
    assert len(json.dumps(result["_meta"])) <= limits.MCP_RESULT_CHARACTERS_MAX + 1_000


def test_a_question_that_this_client_cannot_answer_says_who_can_and_where() -> None:
    asked = QuestionView(
        interrupt_id="ask:1", node_id="ask", visit=1, prompt="Refund?", answer_schema=None, approvers={"group": "leads"}
    )
    text = shown(ended(status="waiting_input", questions=[asked]), "data")["content"][0]["text"]
    assert "an approval by leads. Only a person can give it; a tool call cannot." in text
    assert "`penstock runs answer r_1`" in text
    assert 'To wait until it continues: penstock_execution_wait {"execution_id":"r_1"}' in text


def test_a_held_call_names_its_draft_and_who_decides_also_inside_of_an_agent() -> None:
    held = HeldView(
        draft_id="r_9",
        operation="workflow:erase",
        reason="risk",
        digest="d",
        expires_at="2026-01-02T00:00:00Z",
        look="/drafts/r_9",
        approvers={"group": "finance", "count": 2},
    )
    asked = QuestionView(interrupt_id="approve:1", node_id="approve", visit=1, prompt="May they?", answer_schema={})
    own = ended(status="waiting_approval", held=held, questions=[asked])
    inside = ended(status="waiting_activity", held_calls=[held])
    for one in (own, inside):
        text = shown(one, "data")["content"][0]["text"]
        assert "workflow:erase is held as draft r_9 until 2026-01-02T00:00:00Z" in text
        assert "an approval by 2 of finance" in text
        assert one.status in text


def test_what_tells_how_to_go_on_is_never_cut_off() -> None:
    failed = ended(status="failed", error=ErrorView(code="FELL", message="m" * 100_000))
    text = shown(failed, "data")["content"][0]["text"]
    assert len(text) < 2_100
    assert text.startswith("The run r_1 failed")
    assert text.endswith('penstock_execution_history {"execution_id":"r_1"}')


def test_nothing_that_is_sent_is_larger_than_its_limit() -> None:
    details = {f"member {number}": "x" * 500 for number in range(500)}
    for one in (
        ended("y" * 50_000),
        ended({"deep": [details] * 5}),
        ended(status="failed", error=ErrorView(code="FELL", message="it fell", details=details)),
    ):
        result = shown(one, "data", 4_000)
        assert len(json.dumps(result["structuredContent"])) < 4_500
        assert len(json.dumps(result["content"])) < 5_500
        links = [item for item in result["content"] if item["type"] == "resource_link"]
        assert len(links) == 1


def test_a_function_of_the_workflow_profile_is_refused_in_the_published_shape() -> None:
    published: JsonObject = {"code": "EXECUTION_NOT_FOUND", "message": "no", "details": {"execution_id": "x"}}
    result: Any = error_result(NotFound("EXECUTION_NOT_FOUND", "no", None, {"error": published}), WHOLE)
    error = result["_meta"]["penstock/error"]
    assert {name: error[name] for name in published} == published


def test_a_block_that_a_revision_does_not_have_is_told_in_words() -> None:
    link: JsonObject = {"type": "resource_link", "uri": "penstock://executions/r_1", "name": "r_1"}
    sound: JsonObject = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
    picture: JsonObject = {**PNG}
    result: JsonObject = {"content": [picture, link, sound], "isError": False}
    kinds = {
        "2026-07-28": ["image", "resource_link", "audio"],
        "2025-06-18": ["image", "resource_link", "audio"],
        "2025-03-26": ["image", "text", "audio"],
        "2024-11-05": ["image", "text", "text"],
    }
    for revision, expected in kinds.items():
        found: Any = result_at(revision, result)["content"]
        assert [block["type"] for block in found] == expected
        said: Any = messages_at(
            revision, {"messages": [{"role": "user", "content": block} for block in (picture, link)]}
        )
        assert [message["content"]["type"] for message in said["messages"]] == expected[:2]
    old: Any = result_at("2025-03-26", result)["content"]
    assert old[1]["text"] == "r_1: penstock://executions/r_1"
