"""Where runs are governed, nodes reach nothing before a gate is open."""

from __future__ import annotations

import asyncio

import pytest

from penstock.app.executors.governed_nodes import GovernedNodes
from penstock.base import limits
from penstock.runtime.activities.performing import (
    ActivityCall,
    ActivityDone,
    ActivityError,
    ActivityOutcome,
    NodeAction,
)
from tests.unit.runtime.executors.calls import call_of

pytestmark = pytest.mark.anyio
CALL = call_of("http", {}, {"url": "https://example.com/"})
ACTION = NodeAction(resource="example.com", facts={"host": "example.com"})


class Asking:
    """An executor that asks before it does something."""

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        return await call.refusal(ACTION) or ActivityDone("done")


async def refuse(call: ActivityCall, action: NodeAction) -> ActivityError | None:
    return ActivityError(f"a policy forbids {action.resource}", "POLICY_DENIED", retryable=False)


async def ignore(call: ActivityCall, outcome: ActivityOutcome) -> None:
    """Record nothing."""


async def test_without_a_gate_nothing_is_asked_unless_runs_are_governed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await GovernedNodes().governing({"http": Asking()})["http"].perform(CALL) == ActivityDone("done")
    monkeypatch.setattr(limits, "HELD_CALL_GATE_SECONDS", 0.0)
    refused = await GovernedNodes(governed=True).governing({"http": Asking()})["http"].perform(CALL)
    assert isinstance(refused, ActivityError)
    assert (refused.code, refused.retryable) == ("GATE_CLOSED", True)


async def test_a_node_waits_for_the_gate_and_asks_it() -> None:
    nodes = GovernedNodes(governed=True)
    waiting = asyncio.create_task(nodes.governing({"llm_call": Asking()})["llm_call"].perform(CALL))
    await asyncio.sleep(0)
    assert not waiting.done()
    nodes.attach(refuse, ignore)
    refused = await waiting
    assert isinstance(refused, ActivityError)
    assert (refused.error, refused.code) == ("a policy forbids example.com", "POLICY_DENIED")


def test_other_nodes_do_not_ask() -> None:
    step = Asking()
    assert GovernedNodes(governed=True).governing({"step": step})["step"] is step
