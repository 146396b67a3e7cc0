"""What would happen to a call, and why."""

from __future__ import annotations

from typing import Any

from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.running import run
from tests.unit.rest.conftest import HELLO

REFUND: dict[str, Any] = {
    **HELLO,
    "name": "refund",
    "expose": {"tool": {"name": "refund_order"}},
    "governance": {"scopes": ["orders.refund"]},
    "input": {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "number"}}},
}
POLICIES = """
@id("large") @outcome("approval") @approvers("leads") @quorum("2")
forbid (principal, action == Action::"workflow:refund", resource)
when { context.input.amount.greaterThan(decimal("100.0")) };
@id("no-contractors") forbid (principal in Group::"contractors", action in Action::"call", resource);
"""


def test_a_call_is_explained_for_any_key_or_principal(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.create", document=REFUND)
        await caller.call("policy.put", policy_id="refunds", text=POLICIES)
        await caller.call(
            "key.create", name="claude", scopes=["workflow:run", "orders.refund"], kind="agent", groups=["support"]
        )

        async def explained(amount: float, **more: Any) -> Any:
            return await caller.call("policy.explain", action="refund_order", arguments={"amount": amount}, **more)

        small = await explained(5, key="claude")
        assert (small["listed"], small["call"], small["policies"]) == (True, "permitted", ["scopes-decide"])
        large = await explained(180, key="claude")
        assert (large["listed"], large["call"], large["policies"]) == (True, "approval", ["large"])
        assert (large["approvers"], large["quorum"]) == (["leads"], 2)
        outsider = await explained(5, principal={"groups": ["contractors"]})
        assert (outsider["listed"], outsider["call"]) == (False, "forbidden")
        assert outsider["policies"] == outsider["listed_by"] == ["no-contractors"]
        without = await explained(5, principal={"scopes": ["workflow:run"]})
        assert (without["listed"], without["call"], without["missing_scope"]) == (
            False,
            "scope_missing",
            "orders.refund",
        )
        assert (await explained(1e-9, key="claude"))["call"] == "arguments_unfit"
        assert (await caller.refusal("policy.explain", action="nothing")).code == "ACTION_NOT_FOUND"
        assert (await caller.refusal("policy.explain", action="refund", key="nobody")).code == "KEY_NOT_FOUND"

    run(open_caller, test)


def test_without_policies_scopes_alone_are_explained(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        found = await caller.call("policy.explain", action="workflow.get", principal={"scopes": ["key:read"]})
        assert (found["call"], found["missing_scope"], found["version"]) == ("scope_missing", "workflow:read", None)
        assert (await caller.call("policy.explain", action="workflow_get"))["call"] == "permitted"

    run(open_caller, test)
