"""Where starts are governed, nodes call tools once a gate is open, and if it permits the call."""

from __future__ import annotations

import asyncio

import pytest

from penstock.app.executors.held_calls import HeldCallExecutor
from penstock.base import limits
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityError, ActivityOutcome
from tests.unit.runtime.executors.calls import call_of

pytestmark = pytest.mark.anyio
CALL = call_of("tool_call", {"server": "shop", "tool": "search"}, {})


class Tools:
    """An executor that finds what it is asked for."""

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        return ActivityDone("found")


async def make(run_id: str) -> ActivityOutcome:
    return ActivityDone(run_id)


async def refuse(call: ActivityCall) -> ActivityError | None:
    return ActivityError("a policy forbids it", "POLICY_DENIED", retryable=False)


async def test_without_a_gate_tools_are_called_unless_starts_are_governed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await HeldCallExecutor(tools=Tools()).perform(CALL) == ActivityDone("found")
    monkeypatch.setattr(limits, "HELD_CALL_GATE_SECONDS", 0.0)
    refused = await HeldCallExecutor(tools=Tools(), governed=True).perform(CALL)
    assert isinstance(refused, ActivityError)
    assert (refused.code, refused.retryable) == ("GATE_CLOSED", True)


async def test_a_call_waits_for_the_gate_and_asks_it() -> None:
    executor = HeldCallExecutor(tools=Tools(), governed=True)
    waiting = asyncio.create_task(executor.perform(CALL))
    await asyncio.sleep(0)
    assert not waiting.done()
    executor.attach(make, refuse)
    refused = await waiting
    assert isinstance(refused, ActivityError)
    assert refused.code == "POLICY_DENIED"
