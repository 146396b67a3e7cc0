"""Whatever a tool answers fits the schema that it is listed with, refusals above all: clients check it, and show a
fault of the schema instead of the reason when it does not fit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from penstock.base import limits
from penstock.mcp_surface.content.results import ERROR_META
from penstock.mcp_surface.tools.registry import ToolRegistry
from tests.live.mcp.workflows import ASK, BIG, FAIL, GREET, NAP
from tests.unit.mcp_surface.assistants import Assistant, assisted
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.anyio

STRICT: dict[str, Any] = {
    **BIG,
    "name": "strict",
    "output": {"type": "object", "required": ["items"], "properties": {"items": {"type": "array"}}},
}
EXCERPT: dict[str, Any] = {**FAIL, "name": "excerpt", "expose": {"tool": {"result": "content"}}}
# Right calls and wrong ones, of workflows and of what is built in; the code that is expected, or none.
CALLS: list[tuple[str, dict[str, Any], str | None]] = [
    ("greet", {"name": "Ada"}, None),
    ("greet", {"tone": "rude", "more": 1}, "INVALID_ARGUMENTS"),
    ("stumble", {}, "FELL"),
    ("excerpt", {}, "FELL"),
    ("refund_order", {}, None),
    ("nap", {}, None),
    ("big", {}, None),
    ("strict", {}, None),
    ("penstock_workflow_get", {"workflow_id": "greet"}, None),
    ("penstock_workflow_get", {"workflow_id": "nothing"}, "WORKFLOW_NOT_FOUND"),
    ("penstock_workflow_list", {"limit": "many"}, "INVALID_ARGUMENTS"),
    ("penstock_workflow_create", {"document": {"penstock": "v1", "name": "x", "nodes": []}}, "INVALID_DOCUMENT"),
    ("penstock_workflow_create", {"document": GREET}, "WORKFLOW_EXISTS"),
    ("penstock_execution_status", {"execution_id": "r_nothing"}, "EXECUTION_NOT_FOUND"),
    ("penstock_execution_answer", {"execution_id": "r_nothing", "answer": 1}, "EXECUTION_NOT_FOUND"),
    ("penstock_control_workflow_status", {"execution_id": "nothing"}, "EXECUTION_NOT_FOUND"),
]


@asynccontextmanager
async def listing(folder: Path) -> AsyncIterator[tuple[Assistant, dict[str, Any]]]:
    """Somebody who calls, and the schemas that the tools are listed with; nobody waits long."""
    async with assisted(folder, GREET, ASK, FAIL, NAP, BIG, STRICT, EXCERPT) as assistant:
        assistant.options = replace(assistant.options, output_schemas=True, patience_seconds=0.5)
        book = await ToolRegistry(assistant.caller.gate, assistant.options).of((await assistant.who()).principal)
        yield assistant, {tool.name: tool.listed.get("outputSchema") for tool in book.tools}


def misfit(result: dict[str, Any], schema: Any) -> str | None:
    """Why a client that checks results would refuse this one, in the words of the TypeScript SDK."""
    structured = result.get("structuredContent")
    if schema is None:
        return None
    if structured is None:
        return None if result["isError"] else "has an output schema but did not return structured content"
    found = next(Draft202012Validator(schema).iter_errors(structured), None)
    return None if found is None else found.message


async def test_every_answer_fits_the_schema_of_its_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # On a machine that has other work, jq takes longer than its second to make a large result.
    monkeypatch.setattr(limits, "JQ_TIME_BUDGET_MS", SECONDS_MAX * 1000)
    async with listing(tmp_path) as (assistant, schemas):
        for name, arguments, code in CALLS:
            result = await assistant.call(name, arguments, kinds=frozenset(), completes=False)
            assert misfit(result, schemas[name]) is None, (name, arguments)
            assert result["isError"] is (code is not None), result


async def test_a_refusal_says_its_code_its_words_and_what_to_do_as_text_and_for_programs(tmp_path: Path) -> None:
    async with listing(tmp_path) as (assistant, _):
        for name, arguments, code in CALLS:
            if code is None:
                continue
            result = await assistant.call(name, arguments, kinds=frozenset(), completes=False)
            text, error = result["content"][0]["text"], result["_meta"][ERROR_META]
            assert error["code"] == code
            assert f"{code}: {error['message']}" in text
            assert any(f"\n{way}: " in text for way in ("What to do", "To look at it", "Call next")), text


async def test_a_failed_task_says_its_error_for_programs_too(tmp_path: Path) -> None:
    async with listing(tmp_path) as (assistant, schemas):
        started = await assistant.caller.call("workflow.execute", workflow_id="stumble", sync=True)
        async with asyncio.timeout(SECONDS_MAX):
            task = await assistant.task(started["execution_id"])
        assert misfit(task["result"], schemas["stumble"]) is None
        assert task["result"]["_meta"][ERROR_META]["code"] == "FELL"
        assert "FELL" in json.dumps(task["result"]["content"])
