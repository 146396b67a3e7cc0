"""A node calls an imported tool only if policies permit it to the principal of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.base.json import JsonObject
from tests.unit.app.executors.test_upstreams import platform, shop, until_seen
from tests.unit.operations.conftest import Caller

pytestmark = pytest.mark.anyio
LOOK: JsonObject = {
    "penstock": "v1",
    "name": "look",
    "input": {"type": "object", "required": ["query"], "properties": {"query": {"type": "string"}}},
    "nodes": [
        {
            "id": "found",
            "type": "tool_call",
            "server": "shop",
            "tool": "search",
            "arguments": {"query": "${ .input.query }"},
        },
        {"id": "done", "type": "end", "output": "${ .found }"},
    ],
}
NO_COFFEE = (
    '@id("no-coffee") {} forbid (principal is Agent, action == Action::"upstream:shop.search", resource)'
    ' when {{ context.input.query == "coffee" }};'
)


async def looked(caller: Caller, query: str) -> Any:
    return await caller.call("workflow.execute", workflow_id="look", input={"query": query}, sync=True)


async def test_policies_about_a_tool_bind_the_nodes_that_call_it(tmp_path: Path) -> None:
    async with shop(tmp_path) as upstream, platform(tmp_path, shop=upstream.settings) as caller:
        await until_seen(caller)
        await caller.call("upstream.accept", server="shop", tools=["search"])
        await caller.call("workflow.create", document=LOOK)
        agent = await caller.new_caller("workflow:*", "execution:*", "upstream:*", kind="agent")
        await caller.call("policy.put", policy_id="coffee", text=NO_COFFEE.format(""))
        assert (await looked(agent, "tea"))["output"] == {"items": ["tea 1", "tea 2"]}
        failed = await looked(agent, "coffee")
        assert (failed["status"], failed["error"]["code"]) == ("failed", "POLICY_DENIED")
        assert (await looked(caller, "coffee"))["status"] == "completed"
        records = (await caller.call("audit.list", operation="execution.call_tool"))["items"]
        assert [item["outcome"] for item in records] == ["allowed", "refused", "allowed"]
        assert list(records[1]["reasons"]) == ["no-coffee"]


async def test_a_call_of_the_tool_itself_is_decided_once_and_a_fork_of_it_again(tmp_path: Path) -> None:
    async with shop(tmp_path) as upstream, platform(tmp_path, shop=upstream.settings) as caller:
        await until_seen(caller)
        await caller.call("upstream.accept", server="shop", tools=["search"])
        await caller.call("workflow.create", document=LOOK)
        agent = await caller.new_caller("workflow:*", "execution:*", "upstream:*", kind="agent")
        counted = (
            '@id("twice") @history("searched: count of upstream:shop.search by principal within 1h")'
            ' forbid (principal is Agent, action == Action::"upstream:shop.search", resource)'
            " when { context.history.searched > 2 };"
        )
        await caller.call("policy.put", policy_id="often", text=counted)
        called = await agent.call("upstream:shop.search", query="tea")
        assert called["output"] == {"items": ["tea 1", "tea 2"]}
        assert (await caller.call("audit.list", operation="execution.call_tool"))["items"] == []
        assert (await looked(agent, "tea"))["status"] == "completed"
        assert (await agent.refusal("upstream:shop.search", query="tea")).code == "POLICY_DENIED"
        assert (await looked(agent, "tea"))["error"]["code"] == "POLICY_DENIED"
        asks = NO_COFFEE.format('@outcome("approval") @approvers("leads")').replace("coffee", "tea")
        await caller.call("policy.put", policy_id="often", text=asks)
        assert (await looked(agent, "tea"))["error"]["code"] == "APPROVAL_REQUIRED"
        fork = await agent.call("execution.fork", execution_id=called["execution_id"], at_sequence=1)
        ended = await agent.call("execution.wait", execution_id=fork["execution_id"])
        assert ended["error"]["code"] == "APPROVAL_REQUIRED"
