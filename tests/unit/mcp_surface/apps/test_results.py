"""What a page is told beside a result, and to whom."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.base import limits
from penstock.mcp_surface.apps.views import VIEW_META
from tests.unit.mcp_surface.assistants import Assistant, assisted, exposed

pytestmark = pytest.mark.anyio

DONE = exposed("done", {"id": "end", "type": "end", "output": {"text": "fine"}})
ASKS = exposed(
    "asks",
    {"id": "may_i", "type": "interrupt", "message": "May I?", "answer": {"type": "object"}},
    {"id": "end", "type": "end", "output": "yes"},
)
BREAKS = exposed(
    "breaks",
    {"id": "way", "type": "switch", "cases": [{"when": "true", "next": "no"}], "default": "end"},
    {"id": "no", "type": "fail", "code": "BROKEN", "message": "x" * 2_000},
    {"id": "end", "type": "end"},
)
CONTENT = exposed("content", {"id": "end", "type": "end", "output": "fine"}, result="content")
MANY = exposed(
    "many",
    *(
        {"id": f"n{number}", "type": "interrupt", "message": "?", "answer": {"type": "boolean"}}
        for number in range(150)
    ),
    {"id": "end", "type": "end"},
)


async def shown(assistant: Assistant, name: str, arguments: dict[str, Any] | None = None) -> Any:
    result = await assistant.call(name, arguments, completes=False, kinds=frozenset(), apps=True)
    return result["_meta"][VIEW_META]


async def test_a_client_without_pages_gets_what_it_always_got(tmp_path: Path) -> None:
    async with assisted(tmp_path, DONE) as assistant:
        assert VIEW_META not in (await assistant.call("done")).get("_meta", {})


async def test_a_page_is_told_how_the_run_stands_and_where_it_is_in_the_console(tmp_path: Path) -> None:
    async with assisted(tmp_path, DONE, CONTENT, BREAKS) as assistant:
        for name in ("done", "content"):
            told = await shown(assistant, name)
            run = told["run"]
            assert (run["workflow_id"], run["status"], run["nodes_left_out"]) == (name, "completed", 0)
            assert [(node["node_id"], node["status"]) for node in run["nodes"]] == [("end", "completed")]
            assert "output" not in run
            assert told["open"] == {"what": "run", "url": f"http://penstock.test/console/runs/{run['execution_id']}"}
        run = (await shown(assistant, "breaks"))["run"]
        assert run["error"]["code"] == "BROKEN"
        assert all(len(node["error"] or "") <= 500 for node in run["nodes"])


async def test_the_button_of_a_question_leads_to_the_page_that_the_text_names(tmp_path: Path) -> None:
    async with assisted(tmp_path, ASKS) as assistant:
        result = await assistant.call("asks", completes=False, kinds=frozenset(), apps=True)
        opened = result["_meta"][VIEW_META]["open"]
        assert opened["what"] == "answer"
        assert opened["url"] in result["content"][0]["text"]
        status = await shown(
            assistant, "penstock_execution_status", {"execution_id": result["structuredContent"]["execution_id"]}
        )
        assert status["open"] == opened
        assert status["run"]["status"] == "waiting_input"


async def test_without_an_address_or_a_console_there_is_no_button(tmp_path: Path) -> None:
    async with assisted(tmp_path, DONE) as assistant:
        piped = Assistant(assistant.caller, assistant.options, None)
        without = Assistant(assistant.caller, replace(assistant.options, console_path=None))
        for one in (piped, without):
            assert (await shown(one, "done")).keys() == {"run"}


async def test_who_may_not_read_runs_gets_a_page_without_nodes(tmp_path: Path) -> None:
    async with assisted(tmp_path, DONE) as assistant:
        caller = await assistant.other("workflow:run")
        result = await caller.call("done", completes=False, kinds=frozenset(), apps=True)
        assert result["structuredContent"]["status"] == "completed"
        assert result["_meta"][VIEW_META].keys() == {"open"}


async def test_a_page_lists_only_so_many_nodes_and_says_so(tmp_path: Path) -> None:
    async with assisted(tmp_path, MANY) as assistant:
        run = (await shown(assistant, "many"))["run"]
        assert len(run["nodes"]) == limits.MCP_VIEW_NODES_MAX
        assert run["nodes"][0]["node_id"] == "n0"
        assert run["nodes_left_out"] == 151 - limits.MCP_VIEW_NODES_MAX


async def test_a_tool_without_a_page_and_a_refusal_say_nothing_for_pages(tmp_path: Path) -> None:
    async with assisted(tmp_path, DONE) as assistant:
        for name, given in (("penstock_workflow_list", {}), ("penstock_execution_status", {"execution_id": "r_none"})):
            result = await assistant.call(name, given, apps=True)
            assert VIEW_META not in result.get("_meta", {})
