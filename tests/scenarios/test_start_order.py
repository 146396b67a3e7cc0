"""A server that starts lets nothing go on before the operator's policies are in force."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from penstock.app.gate import open_gate
from penstock.app.penstock import Penstock
from penstock.app.settings.graphs import GraphSettings
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from tests.fixtures.graph_data import written_graph
from tests.scenarios.test_policies import BASE
from tests.waiting import SECONDS_MAX

INNER: JsonObject = {
    "penstock": "v1",
    "name": "inner",
    "expose": {"tool": True},
    "nodes": [{"id": "done", "type": "end", "output": "paid"}],
}
NODES: dict[str, JsonObject] = {
    "child": {"id": "it", "type": "subworkflow", "workflow": "inner"},
    "call": {"id": "it", "type": "tool_call", "server": "penstock", "tool": "workflow:inner", "arguments": {}},
    "request": {"id": "it", "type": "http", "method": "GET", "url": "http://127.0.0.1:9/nobody"},
}
# What somebody may not call does not exist for them.
REFUSED = "POLICY_DENIED|there is no operation workflow:inner"
QUERY: JsonObject = {"id": "it", "type": "query", "graph": "crm", "query": "tasks_of", "params": {"owner": "ada"}}
FORBIDDEN = """
@id("no-inner") forbid (principal, action == Action::"workflow:inner", resource);
@id("no-request") forbid (principal, action == Action::"node:http", resource);
"""


async def go_on(folder: Path, node: JsonObject) -> tuple[str, list[str]]:
    """Start a run without a gate, open one while its first node waits for it, and return what became of both."""
    outer: JsonObject = {
        "penstock": "v1",
        "name": "outer",
        "nodes": [node, {"id": "done", "type": "end", "output": "${ .it }"}],
    }
    policies = folder / "policies.cedar"
    policies.write_text(BASE + FORBIDDEN, encoding="utf-8")
    written_graph(folder)
    graph = GraphSettings(schema=str(folder / "crm/schema.pg"), queries=(str(folder / "crm/queries"),))
    async with Penstock.open(folder / "penstock.db", governed=True, workflows=[INNER, outer]) as penstock:
        run = await penstock.start("outer")
        async with open_gate(penstock, policy_files=(str(policies),), graphs={"crm": graph}):
            try:
                told = f"ended with {await run.result()}"
            except PenstockError as error:
                told = str(error)
        return told, [row.workflow_name for row in (await penstock.runs()).rows]


@pytest.mark.parametrize("way", NODES)
def test_a_run_that_goes_on_at_the_start_is_bound_by_the_policies_of_the_files(tmp_path: Path, way: str) -> None:
    told, runs = asyncio.run(asyncio.wait_for(go_on(tmp_path, NODES[way]), SECONDS_MAX))
    assert re.search(REFUSED, told), told
    assert runs == ["outer"]


def test_a_run_that_goes_on_at_the_start_finds_the_graphs_of_the_files(tmp_path: Path) -> None:
    told, _ = asyncio.run(asyncio.wait_for(go_on(tmp_path, QUERY), SECONDS_MAX))
    assert told.startswith("ended with"), told
