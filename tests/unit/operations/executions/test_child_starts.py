"""A run starts a child only if policies permit it to the principal of the run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.documents import workflow
from tests.unit.operations.running import ended, run

PAY = workflow(
    "pay",
    {"id": "done", "type": "end", "output": "${ .input.amount }"},
    input={"type": "object", "required": ["amount"], "properties": {"amount": {"type": "number"}}},
)
VERIFY = workflow("verify", {"id": "done", "type": "end", "output": True})
OUTER = workflow(
    "outer",
    {"id": "child", "type": "subworkflow", "workflow": "pay", "input": {"amount": "${ .input.amount }"}},
    {"id": "done", "type": "end", "output": "${ .child }"},
    input={"type": "object", "properties": {"amount": {"type": "number"}}},
)
CAREFUL = workflow(
    "careful",
    {"id": "first", "type": "subworkflow", "workflow": "verify", "input": {}},
    {"id": "then", "type": "subworkflow", "workflow": "outer", "input": {"amount": 5}},
    {"id": "done", "type": "end", "output": "paid"},
)
LARGE = (
    '@id("large") forbid (principal is Agent, action == Action::"workflow:pay", resource)'
    ' when { context.input.amount.greaterThan(decimal("100.0")) };'
)


async def prepared(caller: Caller, text: str) -> None:
    await caller.call("workflow.import", workflows=[PAY, VERIFY, OUTER, CAREFUL])
    await caller.call("policy.put", policy_id="children", text=text)


async def outcome(caller: Caller, workflow_id: str, **given: Any) -> dict[str, Any]:
    """Start a run as somebody, and wait for its end."""
    handle = await caller.call("workflow.execute", workflow_id=workflow_id, input=given)
    await ended(caller, handle["execution_id"])
    found: dict[str, Any] = await caller.call("execution.status", execution_id=handle["execution_id"])
    return found


def test_policies_decide_about_the_child_with_its_input_and_the_principal_of_the_run(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await prepared(caller, LARGE)
        agent = await caller.new_caller("workflow:*", "execution:*", kind="agent")
        assert (await outcome(agent, "outer", amount=100))["status"] == "completed"
        failed = await outcome(agent, "outer", amount=101)
        assert (failed["status"], failed["error"]["code"]) == ("failed", "POLICY_DENIED")
        assert "pay" in failed["error"]["message"]
        assert (await outcome(caller, "outer", amount=101))["status"] == "completed"

    run(open_caller, test)


def test_every_start_of_a_child_that_is_decided_is_in_the_audit_log(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await prepared(caller, LARGE)
        agent = await caller.new_caller("workflow:*", "execution:*", kind="agent")
        await outcome(agent, "outer", amount=1)
        await outcome(agent, "outer", amount=101)
        found = (await caller.call("audit.list", operation="execution.start_child"))["items"]
        refused, allowed = found
        assert (refused["outcome"], refused["code"]) == ("refused", "POLICY_DENIED")
        assert list(refused["reasons"]) == ["large"]
        assert (allowed["outcome"], allowed["principal"]) == ("allowed", "system:runs")
        assert list(allowed["acting_for"]) == [(await agent.principal()).id]
        assert allowed["run_id"].endswith(":sub:child")

    run(open_caller, test)


def test_a_child_that_needs_approval_fails_its_node(open_caller: OpenGate) -> None:
    asks = LARGE.replace("forbid", '@outcome("approval") @approvers("leads") forbid')

    async def test(caller: Caller) -> None:
        await prepared(caller, asks)
        agent = await caller.new_caller("workflow:*", "execution:*", kind="agent")
        failed = await outcome(agent, "outer", amount=101)
        assert failed["error"]["code"] == "APPROVAL_REQUIRED"

    run(open_caller, test)


def test_amounts_of_children_add_up_with_those_of_other_starts(open_caller: OpenGate) -> None:
    daily = (
        '@id("daily") @history("paid: sum of amount of workflow:pay by principal within 24h")'
        ' forbid (principal, action == Action::"workflow:pay", resource)'
        ' when { context.history.paid.greaterThan(decimal("100.0")) };'
    )

    async def test(caller: Caller) -> None:
        await prepared(caller, daily)
        somebody = await caller.new_caller("workflow:*", "execution:*")
        await outcome(somebody, "pay", amount=60)
        assert (await outcome(somebody, "outer", amount=40.5))["error"]["code"] == "POLICY_DENIED"
        assert (await outcome(somebody, "outer", amount=40))["status"] == "completed"
        refused = await somebody.refusal("workflow.execute", workflow_id="pay", input={"amount": 0.5})
        assert refused.code == "POLICY_DENIED"

    run(open_caller, test)


def test_one_child_only_after_another_in_the_same_run(open_caller: OpenGate) -> None:
    order = (
        '@id("verify-first") @history("verified: count of workflow:verify by run within 24h")'
        ' forbid (principal, action == Action::"workflow:pay", resource) when { context.history.verified < 1 };'
    )

    async def test(caller: Caller) -> None:
        await prepared(caller, order)
        somebody = await caller.new_caller("workflow:*", "execution:*")
        assert (await outcome(somebody, "careful"))["status"] == "completed"
        # What another run did before does not count, nor what was started outside of any run.
        await outcome(somebody, "verify")
        assert (await outcome(somebody, "outer", amount=5))["error"]["code"] == "POLICY_DENIED"
        assert (await outcome(somebody, "careful"))["status"] == "completed"

    run(open_caller, test)


def test_a_schedule_starts_children_for_its_maker(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await prepared(caller, LARGE)
        agent = await caller.new_caller("workflow:*", "execution:*", "schedule:*", kind="agent")
        for who, name in ((agent, "by-agent"), (caller, "by-owner")):
            made = await who.call(
                "schedule.create", schedule_id=name, workflow_id="outer", cron="0 3 * * *", input={"amount": 101}
            )
            if who is agent:
                await caller.accepted(made)
        fire = caller.gate.services.scheduler.fire
        assert fire is not None
        for name in ("by-agent", "by-owner"):
            row = await caller.gate.services.scheduler.find(name)
            assert row is not None
            await fire(row, "tonight")
        runs = (await caller.call("execution.list", workflow_id="outer"))["items"]
        statuses = []
        for item in runs:
            statuses.append((await ended(caller, item["execution_id"]))["status"])
        assert sorted(statuses) == ["completed", "failed"]

    run(open_caller, test)


@pytest.mark.parametrize("revoked", [False, True])
def test_a_run_goes_on_with_what_is_known_of_a_key(open_caller: OpenGate, revoked: bool) -> None:
    waits = workflow(
        "waits",
        {"id": "go", "type": "wait", "signal": "go"},
        {"id": "child", "type": "subworkflow", "workflow": "pay", "input": {"amount": 101}},
        {"id": "done", "type": "end", "output": "${ .child }"},
    )

    async def test(caller: Caller) -> None:
        await prepared(caller, LARGE)
        await caller.call("workflow.import", workflows=[waits])
        agent = await caller.new_caller("workflow:*", "execution:*", kind="agent")
        key = (await agent.principal()).key_id
        await agent.call("workflow.execute", workflow_id="waits", execution_id="one")
        if revoked:
            await caller.call("key.revoke", key_id=key)
        await caller.call("execution.signal", execution_id="one", name="go")
        await ended(caller, "one")
        assert (await caller.call("execution.status", execution_id="one"))["error"]["code"] == "POLICY_DENIED"

    run(open_caller, test)
