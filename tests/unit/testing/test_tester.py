"""The test bench for workflow authors, tried on workflows that sleep, ask, retry, race and start children."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.activities.performing import ActivityCall, ActivityDeferred, ActivityDone, ActivityError
from penstock.runtime.steps.registry import StepContext, StepFailed, step
from penstock.testing import NEVER, WorkflowTester, in_turn
from tests.waiting import SECONDS_MAX

T = TypeVar("T")

REFUND = """
penstock: v1
name: refund_order
version: 1.4.0
input:
  type: object
  required: [order_id, amount]
  properties: {order_id: {type: string}, amount: {type: number}}
nodes:
  - {id: order, type: tool_call, server: shop, tool: get_order, arguments: {id: "${ .input.order_id }"}}
  - id: policy
    type: switch
    cases:
      - {when: .order.total < .input.amount, next: refuse}
      - {when: .input.amount > 100, next: ask}
    default: pay
  - id: ask
    type: interrupt
    message: "Refund ${ .input.amount } for order ${ .input.order_id }?"
    answer: {type: object, required: [approve], properties: {approve: {type: boolean}, comment: {type: string}}}
    timeout: 24h
    on_timeout: refuse
    next: {when: .ask.approve, then: pay, else: refuse}
  - id: pay
    type: step
    handler: shop.payments:refund
    with: {order_id: "${ .input.order_id }", amount: "${ .input.amount }"}
    retry: {max_attempts: 5, initial_interval: 1s, backoff_coefficient: 2}
    timeout: 30s
    next: done
  - {id: refuse, type: end, output: {refunded: 0, reason: "${ .ask.comment // \\"not allowed\\" }"}}
  - {id: done, type: end, output: {refunded: "${ .pay.amount }", reference: "${ .pay.reference }"}}
"""

PAID: JsonObject = {"amount": 180, "reference": "R1"}
LARGE: JsonObject = {"order_id": "A-1", "amount": 180}


def bounded(work: Coroutine[Any, Any, T], seconds: float = SECONDS_MAX) -> T:
    async def main() -> T:
        async with asyncio.timeout(seconds):
            return await work

    return asyncio.run(main())


@asynccontextmanager
async def refunds(**activities: Any) -> AsyncIterator[WorkflowTester]:
    scripts = {"order": {"total": 200}, "pay": PAID, **activities}
    async with WorkflowTester.open(REFUND, activities=scripts) as tester:
        yield tester


def test_a_run_goes_as_far_as_it_can_and_the_test_answers() -> None:
    async def work() -> None:
        async with refunds() as tester:
            await tester.start(LARGE)
            await tester.wait_for_status("waiting_input")
            assert await tester.question() == "Refund 180 for order A-1?"
            await tester.answer({"approve": True}, by="lead")
            assert await tester.result() == {"refunded": 180, "reference": "R1"}
            assert await tester.path() == ["order", "policy", "ask", "pay", "done"]
            [call] = tester.calls("pay")
            assert call.activity.arguments == {"order_id": "A-1", "amount": 180}
            assert call.activity.idempotency_key.endswith("/pay/1")
            assert tester.calls("refuse") == []

    bounded(work())


def test_a_day_passes_in_no_time() -> None:
    async def work() -> None:
        async with refunds() as tester:
            await tester.start(LARGE)
            await tester.advance(hours=23, minutes=59, seconds=59)
            await tester.wait_for_status("waiting_input")
            await tester.advance(seconds=1)
            assert await tester.result() == {"refunded": 0, "reason": "not allowed"}
            assert tester.now == datetime(2026, 1, 2, tzinfo=UTC)

    bounded(work())


def test_attempts_are_scripted_in_turn_and_happen_at_their_moments() -> None:
    async def work() -> None:
        seen: list[tuple[int, datetime]] = []

        def attempt(call: ActivityCall) -> JsonValue:
            seen.append((call.activity.attempt, tester.now))
            raise StepFailed("TIMEOUT", "slow")

        async with refunds(pay=in_turn(attempt, attempt, attempt, PAID)) as tester:
            await tester.start({"order_id": "A-1", "amount": 20})
            await tester.wait_for_status("waiting_timer")
            await tester.advance(minutes=10)
            assert await tester.result() == {"refunded": 180, "reference": "R1"}
            assert [(number, (at - seen[0][1]).total_seconds()) for number, at in seen] == [(1, 0), (2, 1), (3, 3)]
            assert len({call.activity.idempotency_key for call in tester.calls("pay")}) == 1

    bounded(work())


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (StepFailed("CARD_DECLINED", "no", retryable=False), "CARD_DECLINED"),
        (ActivityError("no", "CARD_DECLINED", retryable=False), "CARD_DECLINED"),
        (in_turn(ValueError("a"), ValueError, RuntimeError("c")), "HANDLER_ERROR"),
        (object(), "ACTIVITY_NOT_SCRIPTED"),
    ],
    ids=["step_failed", "activity_error", "exceptions", "not_json"],
)
def test_activities_fail_as_scripted(outcome: Any, code: str) -> None:
    async def work() -> str:
        async with refunds(pay=outcome) as tester:
            await tester.start({"order_id": "A-1", "amount": 20})
            await tester.advance(hours=1)
            return await tester.failure()

    assert bounded(work()) == code


def test_a_value_may_come_from_a_function_async_or_not() -> None:
    async def total(call: ActivityCall) -> JsonObject:
        await asyncio.sleep(0)
        return {"total": 50, "asked": call.activity.arguments}

    async def work() -> JsonValue:
        async with refunds(order=total, pay=lambda call: ActivityDone(PAID)) as tester:
            await tester.start({"order_id": "A-1", "amount": 20})
            return await tester.result()

    assert bounded(work()) == {"refunded": 180, "reference": "R1"}


def test_an_activity_without_a_script_fails_and_says_so() -> None:
    async def work() -> str:
        async with WorkflowTester.open(REFUND) as tester:
            await tester.start(LARGE)
            with pytest.raises(AssertionError, match=r"no script for order \(tool_call\)"):
                await tester.wait_for_status("waiting_input")
            return await tester.failure()

    assert bounded(work()) == "ACTIVITY_NOT_SCRIPTED"


def test_an_activity_that_never_ends_times_out_and_is_cancelled() -> None:
    async def work() -> None:
        async with refunds(pay=in_turn(NEVER, PAID)) as tester:
            await tester.start({"order_id": "A-1", "amount": 20})
            await tester.wait_for_status("waiting_activity")
            await tester.advance(seconds=29)
            assert tester.cancelled("pay") == 0
            await tester.advance(seconds=2)
            assert tester.cancelled("pay") == 1
            assert (await tester.result()) == {"refunded": 180, "reference": "R1"}

    bounded(work())


def test_cancelling_a_run_reaches_its_activity() -> None:
    async def work() -> None:
        async with refunds(pay=NEVER) as tester:
            await tester.start({"order_id": "A-1", "amount": 20})
            await tester.cancel("changed our minds")
            await tester.wait_for_status("cancelled")
            assert tester.cancelled("pay") == 1

    bounded(work())


def test_somebody_else_may_report_a_result_later() -> None:
    async def work() -> JsonValue:
        async with refunds(pay=ActivityDeferred()) as tester:
            run = await tester.start({"order_id": "A-1", "amount": 20})
            await tester.wait_for_status("waiting_activity")
            await run.submit("pay", PAID)
            return await tester.result()

    assert bounded(work()) == {"refunded": 180, "reference": "R1"}


def test_a_step_that_is_not_scripted_calls_its_function_with_its_context() -> None:
    @step(name="shop.payments:refund")
    def refund(order_id: str, amount: float, *, context: StepContext) -> JsonObject:
        assert threading.current_thread() is not threading.main_thread()
        return {"amount": amount, "reference": f"{order_id}/{context.node_id}/{context.attempt}"}

    async def work() -> JsonValue:
        async with WorkflowTester.open(REFUND, activities={"order": {"total": 50}}, steps=[refund]) as tester:
            await tester.start({"order_id": "A-1", "amount": 20})
            return await tester.result()

    assert bounded(work()) == {"refunded": 20.0, "reference": "A-1/pay/1"}


def test_a_result_that_nests_too_deep_fails_the_activity_instead_of_hanging_the_run() -> None:
    deep: JsonValue = []
    for _ in range(100):
        deep = [deep]

    async def work() -> str:
        async with refunds(pay=ActivityDone({"deep": deep})) as tester:
            await tester.start({"order_id": "A-1", "amount": 20})
            return await tester.failure()

    assert bounded(work()) == "SUBMIT_VALIDATION_ERROR"


def test_signals_and_sleeps_and_children() -> None:
    parent = """
penstock: v1
name: parent
version: 1.0.0
nodes:
  - {id: nap, type: wait, duration: 2h}
  - {id: go, type: wait, signal: go}
  - {id: child, type: subworkflow, workflow: child, input: {n: "${ .go.n }"}}
  - {id: end, type: end, output: "${ .child }"}
"""
    child = """
penstock: v1
name: child
version: 1.0.0
input: {type: object, properties: {n: {type: integer}}}
nodes:
  - {id: rest, type: wait, duration: 365d}
  - {id: end, type: end, output: {doubled: "${ .input.n * 2 }"}}
"""

    async def work() -> JsonValue:
        async with WorkflowTester.open(parent, child) as tester:
            await tester.start()
            await tester.wait_for_status("waiting_timer")
            await tester.advance(hours=2)
            await tester.wait_for_status("waiting_signal")
            await tester.signal("go", {"n": 21})
            await tester.wait_for_status("waiting_child")
            await tester.advance(days=365)
            return await tester.result()

    assert bounded(work()) == {"doubled": 42}


def test_a_secret_reaches_the_activity_and_not_the_history() -> None:
    document: JsonObject = {
        "penstock": "v1",
        "name": "call",
        "version": "1.0.0",
        "secrets": ["KEY"],
        "nodes": [
            {
                "id": "call",
                "type": "http",
                "url": "https://api.example/",
                "headers": {"Authorization": "Bearer ${secret:KEY}"},
            },
            {"id": "end", "type": "end", "output": "${ .call.status }"},
        ],
    }

    async def work() -> None:
        scripts = {"call": {"status": 200}}
        async with WorkflowTester.open(document, activities=scripts, secrets={"KEY": "s3cret"}) as tester:
            await tester.start()
            assert await tester.result() == 200
            arguments = tester.calls("call")[0].activity.arguments
            assert isinstance(arguments, dict)
            assert arguments["headers"] == {"Authorization": "Bearer s3cret"}
            assert "s3cret" not in str(await tester.history())

    bounded(work())


def test_several_runs_stand_side_by_side() -> None:
    async def work() -> None:
        async with refunds() as tester:
            first = await tester.start(LARGE)
            second = await tester.start({**LARGE, "order_id": "A-2"})
            await tester.answer({"approve": False, "comment": "no"}, run=first)
            assert await tester.result(run=first) == {"refunded": 0, "reason": "no"}
            assert await tester.status() == await tester.status(run=second) == "waiting_input"

    bounded(work())


def test_two_runs_of_one_test_give_the_same_history() -> None:
    async def work() -> list[JsonObject]:
        async with refunds(pay=in_turn(ValueError("x"), PAID)) as tester:
            await tester.start(LARGE, run_id="r_1")
            await tester.advance(hours=1)
            await tester.answer({"approve": True})
            await tester.advance(hours=1)
            return [{"name": record.name, **record.payload} for record in await tester.history()]

    assert bounded(work()) == bounded(work())


def test_mistakes_of_a_test_are_told() -> None:
    async def work() -> None:
        with pytest.raises(Rejected, match="no workflow to test"):
            async with WorkflowTester.open():
                pass
        async with refunds() as tester:
            with pytest.raises(AssertionError, match="no run was started"):
                await tester.status()
            await tester.start({"order_id": "A-1", "amount": 20})
            with pytest.raises(AssertionError, match="the run is `completed`, not `waiting_input` or `failed`"):
                await tester.wait_for_status("waiting_input", "failed")
            with pytest.raises(Rejected, match="already completed"):
                await tester.answer({"approve": True})
        with pytest.raises(ValueError, match="at least one"):
            in_turn()

    bounded(work())


def test_a_file_can_be_tested(tmp_path: Path) -> None:
    file = tmp_path / "refund.yaml"
    file.write_text(REFUND)

    async def work() -> str:
        async with WorkflowTester.open(file, activities={"order": {"total": 1}}) as tester:
            await tester.start(LARGE)
            return await tester.status()

    assert bounded(work()) == "completed"
