"""Clients that check every answer against the schema of its tool: all kinds of tools, and all outcomes of a call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from penstock.runtime.executors.mcp.config import command_name
from tests.conformance.mcp_suite.node import node_programs
from tests.fixtures.graph_data import DATA, written_graph
from tests.live.mcp.clients import connected, text_of
from tests.live.mcp.workflows import ALL, GREET
from tests.live.rest.servers import LiveServer, serving
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.anyio

SCRIPT = Path(__file__).with_name("typescript_strict.mjs")
UPSTREAM = Path(__file__).parents[2] / "fixtures" / "upstream_server.py"
SHOP = {
    "command": sys.executable,
    "args": [str(UPSTREAM)],
    "import": {
        "tools": ["search", "refuse", "hold"],
        "accept": "first",
        "governance": {"search": {"read_only": False, "risk": "medium"}, "hold": {"risk": "low"}},
    },
}
SETTINGS = {
    "PENSTOCK_SERVER_MCP_OUTPUT_SCHEMAS": "true",
    "PENSTOCK_SERVER_MCP_TOOLSET": "all",
    "PENSTOCK_SERVER_MCP_REQUEST_TIMEOUT": "2s",
}
DOCUMENT = {**GREET, "name": "another"}


@dataclass(frozen=True, slots=True)
class Case:
    """A call, who makes it, and what their client has to read."""

    tool: str
    arguments: dict[str, Any]
    says: tuple[str, ...] = ()
    status: str | None = None
    """The status that the structured answer has, if it is one of an execution."""
    is_error: bool = False
    structured: dict[str, Any] = field(default_factory=dict)


def held(tool: str, arguments: dict[str, Any]) -> Case:
    """A call that waits because its caller wants that: the text names the draft and who decides."""
    return Case(tool, arguments, ("held as draft", "by approvers"), status="waiting_approval")


CASES = {
    "a workflow is done": Case("greet", {"name": "Ada"}, ("Hello, Ada",), status="completed"),
    "a workflow is held": held("refund_order", {"order": "A-1"}),
    "a workflow waits": Case("refund_order", {"order": "A-1"}, ("May I refund",), status="waiting_input"),
    "a workflow goes on": Case("nap", {}, ("penstock_execution_wait",), status="waiting_timer"),
    "a workflow fails": Case("stumble", {}, ("FELL",), status="failed", is_error=True),
    "a workflow is unfit": Case(
        "greet", {"nome": "Ada"}, ("INVALID_ARGUMENTS", "unknown member `nome`; did you mean `name`?"), is_error=True
    ),
    "a workflow says much": Case("big", {}, ("shown in part",), status="completed"),
    "an imported tool is done": Case(
        "shop_search", {"query": "tea"}, ("tea 1",), structured={"items": ["tea 1", "tea 2"]}
    ),
    "an imported tool is held": held("shop_search", {"query": "tea"}),
    "an imported tool fails": Case("shop_refuse", {}, ("the shop is closed",), is_error=True),
    "an imported tool goes on": Case("shop_hold", {}, ("penstock_execution_wait",), status="waiting_activity"),
    "a query is done": Case("tasks_of", {"params": {"owner": "ada"}}, ("t1",)),
    "a change of a graph is done": Case("close_task", {"params": {"slug": "t1"}}),
    "a change of a graph is held": held("close_task", {"params": {"slug": "t2"}}),
    "a change of a graph is unfit": Case("close_task", {"params": {"slog": "t2"}}, ("/params/slog",), is_error=True),
    "an operation reads": Case("penstock_workflow_list", {}, ("greet",)),
    "an operation is held": held("penstock_workflow_create", {"document": DOCUMENT}),
    "an operation without content is held": held("penstock_workflow_delete", {"workflow_id": "nap"}),
    "a start is held": held("penstock_workflow_execute", {"workflow_id": "greet", "input": {"name": "Ada"}}),
    "an operation is refused": Case(
        "penstock_workflow_get", {"workflow_id": "none"}, ("WORKFLOW_NOT_FOUND",), is_error=True
    ),
    "a registered tool is held": held("teas", {"query": "tea"}),
    "a cancelled run is waited for": Case(
        "penstock_execution_wait", {"execution_id": "cancelled-1"}, ("cancelled",), status="cancelled"
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with every kind of tool, which shows all output schemas."""
    folder = tmp_path_factory.mktemp("strict")
    settings = {"mcpServers": {"shop": SHOP}, "mcp_allow_commands": [command_name(sys.executable)]}
    written = [f"{name}: {json.dumps(value)}" for name, value in settings.items()]
    written += ["graphs:", f"  {written_graph(folder)}", ""]
    (folder / "penstock.yaml").write_text("\n".join(written), encoding="utf-8")
    with serving(folder, **SETTINGS) as running:
        for document in ALL:
            running.call("POST", "workflows", {"document": document})
        running.call("POST", "graphs/crm/load", {"data": DATA})
        running.call("POST", "upstreams/shop/refresh", {})
        tool = {"id": "teas", "kind": "mcp", "server": "shop", "name": "search", "expose": True}
        running.call("POST", "tools", tool)
        running.call("POST", "workflows/nap/executions", {"execution_id": "cancelled-1"})
        running.call("POST", "executions/cancelled-1/cancel", {})
        yield running


def check(client: str, answers: list[dict[str, Any]]) -> None:
    """That a client accepted every answer, and could read what happened."""
    wrong = []
    for (name, case), got in zip(CASES.items(), answers, strict=True):
        if "threw" in got:
            wrong.append(f"{client}: {name}: {got['threw'][:300]}")
            continue
        structured = got["structured"] or {}
        said = [word for word in case.says if word not in got["text"]]
        if said or got["isError"] is not case.is_error:
            wrong.append(f"{client}: {name}: no {said} in {got['text'][:400]!r} (isError: {got['isError']})")
        if case.status is not None and structured.get("status") != case.status:
            wrong.append(f"{client}: {name}: {structured}")
        if case.status == "waiting_approval":
            draft = structured.get("held", {}).get("draft_id", "?")
            if draft not in got["text"] or draft != structured.get("execution_id"):
                wrong.append(f"{client}: {name}: the draft {draft} is not named in {got['text'][:400]!r}")
        if case.structured and structured != case.structured:
            wrong.append(f"{client}: {name}: {structured}")
    assert not wrong, "\n".join(wrong)


def meta_of(case: Case) -> Any:
    """What a call says beside its arguments."""
    return {"penstock/draft": True} if case.status == "waiting_approval" else None


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_strict_client_in_python_reads_what_came_of_every_call(server: LiveServer, era: str) -> None:
    answers: list[dict[str, Any]] = []
    async with connected(server, era) as client:
        await client.list_tools()
        for case in CASES.values():
            try:
                result = await client.call_tool(case.tool, case.arguments, meta=meta_of(case))
            except Exception as error:  # whatever a client throws is shown
                answers.append({"threw": str(error)})
                continue
            shown = {"structured": result.structured_content, "text": text_of(result)}
            answers.append({**shown, "isError": result.is_error})
    check(f"python {era}", answers)


def test_strict_clients_in_typescript_read_what_came_of_every_call(server: LiveServer) -> None:
    calls = [{"name": case.tool, "arguments": case.arguments, "_meta": meta_of(case)} for case in CASES.values()]
    programs = node_programs()
    done = subprocess.run(
        [programs.command, str(SCRIPT), str(programs.modules), f"{server.url}/mcp", json.dumps(calls)],
        env={**os.environ, "PENSTOCK_API_KEY": server.key},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for client, answers in json.loads(done.stdout).items():
        check(client, answers)
