"""A caller of the gate is cancelled at every await: what its call stored has an answer and an audit record."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from penstock.base.json import JsonObject
from penstock.operations.gate.pipeline import AnsweredCall
from tests.scenarios.test_cancelled_callers import AWAITS_MAX, Cancelled
from tests.unit.operations.conftest import Caller, OpenGate
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.anyio
QUICK: JsonObject = {"penstock": "v1", "name": "quick", "nodes": [{"id": "done", "type": "end", "output": "done"}]}
ASK: JsonObject = {
    "penstock": "v1",
    "name": "ask",
    "nodes": [
        {"id": "question", "type": "interrupt", "message": "ok?"},
        {"id": "done", "type": "end", "output": "${ .question }"},
    ],
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def cancelled_at(caller: Caller, at: int, key: str, late: bool) -> int:
    """How many awaits a call has that is cancelled at one of them."""
    calling = caller.outcome("workflow.execute", workflow_id="quick", input={}, sync=True, idempotency_key=key)
    driven = Cancelled(calling, at, late=late)

    async def wait() -> None:
        await driven

    with suppress(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.ensure_future(wait()), 60)
    return driven.awaits


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "late"])
async def test_a_call_whose_caller_leaves_is_answered_and_audited_all_the_same(
    open_caller: OpenGate, late: bool
) -> None:
    async with open_caller() as caller:
        await caller.call("workflow.create", document=QUICK)
        for at in range(1, AWAITS_MAX):
            key = f"key-{at}"
            if await cancelled_at(caller, at, key, late) < at:
                break
            await caller.gate.finish()
            again = await caller.outcome(
                "workflow.execute", workflow_id="quick", input={}, sync=True, idempotency_key=key
            )
            assert isinstance(again, AnsweredCall)
            assert again.replayed, f"the call that was cancelled at await {at} has no answer"
            written = (await caller.call("audit.list", operation="workflow.execute"))["items"]
            assert len([item for item in written if item["details"].get("idempotency_key") == key]) == 2
        else:
            raise AssertionError(f"more than {AWAITS_MAX} awaits")


async def test_a_call_whose_caller_left_waits_for_nothing_any_more(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        await caller.call("workflow.create", document=ASK)
        calling = asyncio.ensure_future(
            caller.outcome("workflow.execute", workflow_id="ask", input={}, sync=True, wait_seconds=300)
        )
        while not (await caller.call("execution.list"))["items"]:
            await caller.penstock.run_memory.next_commit(timeout_seconds=1)
        calling.cancel()
        async with asyncio.timeout(SECONDS_MAX):  # less than the call would have waited
            await caller.gate.finish()
