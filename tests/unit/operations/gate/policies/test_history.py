"""Counts and sums over earlier calls: whichever way a workflow is started, and exactly, also for calls at once."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate import idempotency
from penstock.operations.gate.pipeline import AnsweredCall, RefusedCall
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import IdempotencyClaim
from penstock.runtime.tables.call_records import find_call
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.documents import workflow
from tests.unit.operations.running import run

PAY = workflow(
    "pay",
    {"id": "done", "type": "end", "output": "${ .input.amount }"},
    input={"type": "object", "required": ["amount"], "properties": {"amount": {"type": "number"}}},
    expose={"tool": True},
)
DAILY = (
    '@id("daily") @history("paid: sum of amount of workflow:pay by principal within 24h")'
    ' forbid (principal, action == Action::"workflow:pay", resource)'
    ' when { context.history.paid.greaterThan(decimal("100.0")) };'
)


async def prepared(caller: Caller, text: str = DAILY) -> Caller:
    """Somebody whose payments are added up."""
    await caller.call("workflow.import", workflows=[PAY])
    await caller.call("policy.put", policy_id="amounts", text=text)
    return await caller.new_caller("workflow:*", "schedule:*", "execution:*")


def test_amounts_are_added_up_whichever_way_the_workflow_is_started(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        one = await prepared(caller)
        other = await caller.new_caller("workflow:*")
        await one.call("workflow:pay", amount=60)
        refused = await one.refusal("workflow.execute", workflow_id="pay", input={"amount": 40.01})
        assert refused.code == "POLICY_DENIED"
        await one.call("workflow.execute", workflow_id="pay", input={"amount": 40})
        assert (await one.refusal("workflow:pay", amount=0.01)).code == "POLICY_DENIED"
        await one.call("workflow:pay", amount=0)
        await one.call("workflow:pay", amount=-50)
        # An amount below zero makes no room.
        assert (await one.refusal("workflow:pay", amount=0.01)).code == "POLICY_DENIED"
        await other.call("workflow:pay", amount=100)

    run(open_caller, test)


def test_of_calls_at_once_only_those_pass_that_fit(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        one = await prepared(caller)
        outcomes = await asyncio.gather(*(one.outcome("workflow:pay", amount=30) for _ in range(8)))
        assert sum(not isinstance(item, RefusedCall) for item in outcomes) == 3

    run(open_caller, test)


def test_what_is_not_made_does_not_count(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        one = await prepared(caller)
        assert (await one.refusal("workflow:pay", amount="60")).code == "INVALID_ARGUMENTS"
        assert (await one.refusal("workflow.execute", workflow_id="pay", input={"amount": 1e9})).code == "POLICY_DENIED"
        await one.call(
            "schedule.create", schedule_id="later", workflow_id="pay", cron="0 3 * * *", input={"amount": 90}
        )
        explained = await caller.call("policy.explain", action="pay", arguments={"amount": 90})
        assert explained["call"] == "permitted"
        await one.call("workflow:pay", amount=60)
        # A repeated call finds its answer: it counts once.
        await one.reply("workflow:pay", amount=20, idempotency_key="k-1")
        assert (await one.reply("workflow:pay", amount=20, idempotency_key="k-1")).value
        await one.call("workflow:pay", amount=20)
        assert (await one.refusal("workflow:pay", amount=1)).code == "POLICY_DENIED"

    run(open_caller, test)


ONCE_A_DAY = (
    '@id("once") @history("started: count of workflow:pay by principal within 24h")'
    ' forbid (principal, action == Action::"workflow:pay", resource) when { context.history.started > 1 };'
)
AFTER_ONE_IMPORT = (
    '@id("import-first") @history("imported: count of workflow.import by principal within 24h")'
    ' forbid (principal, action == Action::"workflow:pay", resource) unless { context.history.imported == 1 };'
)
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "tool": ("workflow:pay", {"amount": 100}),
    "execute": ("workflow.execute", {"workflow_id": "pay", "input": {"amount": 100}}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", [DAILY, ONCE_A_DAY])
def test_at_the_limit_a_repeated_call_gets_its_answer_and_does_not_count(
    open_caller: OpenGate, text: str, way: str
) -> None:
    operation, arguments = WAYS[way]

    async def test(caller: Caller) -> None:
        one = await prepared(caller, text)
        first = await one.reply(operation, **arguments, idempotency_key="k-1")
        for _ in range(3):
            again = await one.outcome(operation, **arguments, idempotency_key="k-1")
            assert isinstance(again, AnsweredCall), again
            assert again.replayed
            assert isinstance(again.reply, Reply)
            assert msgspec.to_builtins(again.reply.value) == msgspec.to_builtins(first.value)
        assert (await one.refusal(operation, **arguments, idempotency_key="k-2")).code == "POLICY_DENIED"
        other = {"amount": 99} if way == "tool" else {"workflow_id": "pay", "input": {"amount": 99}}
        refused = await one.refusal(operation, **other, idempotency_key="k-1")
        assert refused.code in ("POLICY_DENIED", "IDEMPOTENCY_KEY_REUSED")
        runs = await caller.call("execution.list", workflow_id="pay")
        assert len(runs["items"]) == 1
        # Had the repetitions counted, a higher limit would be reached by now.
        await caller.call("policy.put", policy_id="amounts", text=text.replace("100.0", "200.0").replace("> 1", "> 2"))
        await one.reply(operation, **arguments)

    run(open_caller, test)


def test_a_repeated_call_is_answered_whatever_happened_in_between(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        one = await prepared(caller, AFTER_ONE_IMPORT)
        assert (await one.refusal("workflow:pay", amount=1, idempotency_key="k-1")).code == "POLICY_DENIED"
        await one.call("workflow.import", workflows=[PAY])
        await one.reply("workflow:pay", amount=1, idempotency_key="k-1")
        await one.call("workflow.import", workflows=[PAY])
        assert (await one.refusal("workflow:pay", amount=1)).code == "POLICY_DENIED"
        assert (await one.outcome("workflow:pay", amount=1, idempotency_key="k-1")).replayed  # type: ignore[union-attr]

    run(open_caller, test)


def test_a_repeated_call_is_refused_to_whoever_may_not_make_it_any_more(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        one = await prepared(caller)
        await one.reply("workflow:pay", amount=60, idempotency_key="k-1")
        never = '@id("never") forbid (principal, action == Action::"workflow:pay", resource) when { %s };'
        await caller.call("policy.put", policy_id="never", text=never % "context.input has amount")
        await caller.call("policy.put", policy_id="amounts", text=DAILY)
        assert (await one.refusal("workflow:pay", amount=60, idempotency_key="k-1")).code == "POLICY_DENIED"
        # A condition that also looks at the past refuses if it would, whatever the past is.
        either = 'context.input has amount || context.history.paid.greaterThan(decimal("1.0"))'
        await caller.call("policy.put", policy_id="never", text=never % either)
        assert (await one.refusal("workflow:pay", amount=60, idempotency_key="k-1")).code == "POLICY_DENIED"
        await caller.call("policy.delete", policy_id="never")
        await one.reply("workflow:pay", amount=60, idempotency_key="k-1")
        stranger = await caller.new_caller("workflow:run")
        assert (await stranger.refusal("workflow:pay", amount=101, idempotency_key="k-1")).code == "POLICY_DENIED"

    run(open_caller, test)


def test_a_repetition_whose_answer_is_gone_is_not_made_without_being_counted(
    open_caller: OpenGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(caller: Caller) -> None:
        one = await prepared(caller)
        await one.reply("workflow:pay", amount=60, idempotency_key="k-1")
        looks = []

        async def kept_until_now(database: Database, claim: IdempotencyClaim) -> Any:
            looks.append(claim)
            return await find_call(database, claim) if len(looks) == 1 else None

        monkeypatch.setattr(idempotency, "find_call", kept_until_now)
        refused = await one.refusal("workflow:pay", amount=60, idempotency_key="k-1")
        assert refused.code == "IDEMPOTENCY_IN_FLIGHT"
        monkeypatch.undo()
        assert len((await caller.call("execution.list", workflow_id="pay"))["items"]) == 1
        await one.reply("workflow:pay", amount=60, idempotency_key="k-1")

    run(open_caller, test)


def test_a_call_that_waits_for_approval_counts_when_it_is_made(open_caller: OpenGate) -> None:
    text = DAILY.replace("forbid", '@outcome("approval") @approvers("leads") forbid')

    async def test(caller: Caller) -> None:
        one = await prepared(caller, text)
        for _ in range(2):
            assert (await one.reply("workflow:pay", amount=101)).status == 202
        assert (await one.reply("workflow:pay", amount=100)).status != 202
        assert (await one.reply("workflow:pay", amount=1)).status == 202

    run(open_caller, test)


def test_an_amount_that_cannot_be_added_up_refuses_the_call(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        one = await prepared(caller)
        assert (await one.refusal("workflow:pay", amount=0.00001)).code == "POLICY_DENIED"
        refused = await one.refusal("workflow.execute", workflow_id="pay", input={"amount": 0.00001})
        assert refused.code == "POLICY_DENIED"

    run(open_caller, test)


def test_sums_outlive_the_process(open_caller: OpenGate) -> None:
    secrets: dict[str, Any] = {}

    async def first(caller: Caller) -> None:
        one = await prepared(caller)
        secrets["who"] = one.who
        await one.call("workflow:pay", amount=99)

    async def second(caller: Caller) -> None:
        one = Caller(caller.gate, secrets["who"], caller.penstock)
        assert (await one.refusal("workflow:pay", amount=2)).code == "POLICY_DENIED"
        await one.call("workflow:pay", amount=1)

    run(open_caller, first)
    run(open_caller, second)


def test_another_action_may_depend_on_a_sum(open_caller: OpenGate) -> None:
    text = DAILY.replace('action == Action::"workflow:pay"', 'action == Action::"workflow.get"').replace(
        "100.0", "10.0"
    )

    async def test(caller: Caller) -> None:
        one = await prepared(caller, text)
        await one.call("workflow.get", workflow_id="pay")
        await one.call("workflow:pay", amount=11)
        assert (await one.refusal("workflow.get", workflow_id="pay")).code == "POLICY_DENIED"

    run(open_caller, test)


@pytest.mark.parametrize("ways", [("tool", "execute"), ("execute", "execute"), ("execute", "tool")])
def test_a_count_knows_every_way_to_start_a_workflow(open_caller: OpenGate, ways: tuple[str, ...]) -> None:
    text = (
        '@id("twice") @history("started: count of workflow:pay by principal within 1h")'
        ' forbid (principal, action == Action::"workflow:pay", resource) when { context.history.started > 2 };'
    )

    async def test(caller: Caller) -> None:
        one = await prepared(caller, text)
        for way in ways:
            if way == "tool":
                await one.call("workflow:pay", amount=1)
            else:
                await one.call("workflow.execute", workflow_id="pay", input={"amount": 1})
        assert (await one.refusal("workflow:pay", amount=1)).code == "POLICY_DENIED"
        assert (await one.refusal("workflow.execute", workflow_id="pay", input={"amount": 1})).code == "POLICY_DENIED"

    run(open_caller, test)


def test_what_was_done_to_a_run_is_known_for_that_run_and_its_children(open_caller: OpenGate) -> None:
    text = (
        '@id("pause-first") @history("paused: count of execution.pause by run within 1h")'
        ' forbid (principal, action == Action::"execution.cancel", resource) when { context.history.paused < 1 };'
    )

    async def test(caller: Caller) -> None:
        await caller.call("policy.put", policy_id="order", text=text)
        for name in ("one", "other"):
            await caller.call("workflow.execute", workflow_id="wait", execution_id=name)
        await caller.call("execution.pause", execution_id="one")
        assert (await caller.refusal("execution.cancel", execution_id="other")).code == "POLICY_DENIED"
        await caller.call("execution.cancel", execution_id="one")

    run(open_caller, test)
