"""Which tools somebody sees over MCP, and why others are hidden."""

from __future__ import annotations

from typing import Any

from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.tools.offering import offer_tools
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.running import run
from tests.unit.rest.conftest import HELLO


def exposed(name: str, **more: Any) -> dict[str, Any]:
    return {**HELLO, "name": name, "expose": {"tool": {"name": name}}, **more}


POLICY = '@id("not-this") forbid (principal, action == Action::"workflow:hidden", resource);'


def test_a_list_is_explained_tool_by_tool_and_measured(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        assert (await caller.refusal("policy.tools")).code == "NOT_CONFIGURED"
        offer_tools(caller.gate, McpOptions(version="1"))
        for document in (exposed("open"), exposed("hidden"), exposed("paid", governance={"scopes": ["money"]})):
            await caller.call("workflow.create", document=document)
        await caller.call("policy.put", policy_id="house", text=POLICY)
        await caller.call("key.create", name="claude", scopes=["workflow:run", "execution:read"], kind="agent")

        seen = await caller.call("policy.tools", key="claude")
        found = {item["operation"]: item for item in seen["items"]}
        assert (found["workflow:open"]["name"], found["workflow:open"]["hidden"]) == ("open", None)
        assert (found["workflow:paid"]["hidden"], found["workflow:paid"]["because"]) == ("scope", ["money"])
        assert (found["workflow:hidden"]["hidden"], found["workflow:hidden"]["because"]) == ("policy", ["not-this"])
        assert seen["listed"] == len([item for item in seen["items"] if item["name"]])
        assert seen["bytes"] == sum(item["bytes"] for item in seen["items"])
        assert seen["tokens"] == -(-seen["bytes"] // seen["bytes_per_token"])
        assert not any(item["kind"] == "builtin" and item["hidden"] for item in seen["items"])

        narrowed = await caller.call("policy.tools", key="claude", toolset="execution.status", operations=True)
        found = {item["operation"]: item for item in narrowed["items"]}
        assert (found["workflow:open"]["hidden"], found["workflow:open"]["because"]) == ("toolset", [])
        assert (found["workflow.create"]["hidden"], found["workflow.create"]["because"]) == (
            "scope",
            ["workflow:write"],
        )
        assert "key.create" not in found
        assert (await caller.refusal("policy.tools", key="nobody")).code == "KEY_NOT_FOUND"

    run(open_caller, test)
