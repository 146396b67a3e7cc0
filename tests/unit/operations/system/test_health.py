"""What the server says about itself: the operations that a caller can use."""

from __future__ import annotations

from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.running import run


async def listed(caller: Caller) -> set[str]:
    return {item["name"] for item in (await caller.call("system.operations"))["items"]}


def test_operations_are_listed_that_scopes_and_policies_allow(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        everything = await listed(caller)
        agent = await caller.new_caller("workflow:*", "policy:read", kind="agent")
        before = await listed(agent)
        assert {"workflow.get", "workflow.delete", "policy.list", "system.info"} <= before < everything
        assert not {"key.create", "policy.put"} & before
        text = (
            '@id("x") forbid (principal is Agent, action == Action::"workflow.delete", resource);'
            '@id("y") forbid (principal is Agent, action == Action::"workflow.get", resource)'
            ' when { context.input.workflow_id == "hello" };'
        )
        await caller.call("policy.put", policy_id="agents", text=text)
        # A condition about arguments hides nothing.
        assert await listed(agent) == before - {"workflow.delete"}
        assert await listed(caller) == everything

    run(open_caller, test)
