"""Recorded calls, decided again with other policies."""

from __future__ import annotations

from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.policies.test_explaining import REFUND
from tests.unit.operations.running import run

ALL = '@id("all") permit (principal, action, resource);'
LARGE = (
    '@id("large") forbid (principal, action == Action::"workflow:refund", resource)'
    ' when { context.input.amount.greaterThan(decimal("100.0")) };'
)


def test_runs_remember_what_policies_about_arguments_need(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.create", document=REFUND)
        for amount in (5, 50, 500):
            await caller.call("workflow:refund", amount=amount)
        found = await caller.call("policy.replay", text=ALL + LARGE)
        assert (found["would_be_refused"], found["undecidable"]) == (1, 0)
        (change,) = found["changes"]
        assert (change["operation"], change["before"], change["after"]) == ("workflow:refund", "permitted", "forbidden")
        assert change["policies"] == ["large"]
        assert found["calls"] >= 4

    run(open_caller, test)


def test_calls_without_known_arguments_are_counted_as_undecidable(open_caller: OpenGate) -> None:
    text = (
        '@id("x") forbid (principal, action == Action::"workflow.delete", resource)'
        ' when { context.input.workflow_id == "refund" };'
    )

    async def test(caller: Caller) -> None:
        await caller.call("workflow.create", document=REFUND)
        await caller.call("workflow.delete", workflow_id="refund")
        found = await caller.call("policy.replay", text=ALL + text)
        assert (found["undecidable"], found["would_be_refused"]) == (1, 0)
        by_resource = '@id("x") forbid (principal, action, resource == Workflow::"refund");'
        assert (await caller.call("policy.replay", text=ALL + by_resource))["would_be_refused"] == 2

    run(open_caller, test)


def test_a_mistake_is_refused(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        assert (await caller.refusal("policy.replay", text="permit")).code == "POLICY_INVALID"

    run(open_caller, test)
