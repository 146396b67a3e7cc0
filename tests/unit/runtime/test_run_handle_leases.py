"""Leases as a Python program uses them: two processes on one file, one of them at work."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from penstock import Penstock
from penstock.base.clock import ManualClock
from penstock.base.errors import Conflict
from penstock.runtime.run_handle import Run
from tests.waiting import SECONDS_MAX

WORK = """\
penstock: v1
name: work
nodes:
  - {id: a, type: step, handler: a, with: {n: 1}, output_schema: {type: object}, retry: {max_attempts: 2}}
  - {id: done, type: end, output: "${ .a.n }"}
"""
ONCE = """\
penstock: v1
name: once
nodes:
  - {id: a, type: step, handler: a, effects: at_most_once}
  - {id: done, type: end}
"""


Body = Callable[[Run, Run, ManualClock], Coroutine[Any, Any, None]]


def two_processes(folder: Path, workflow: str, body: Body) -> None:
    async def run() -> None:
        path, clock = folder / "penstock.db", ManualClock(1_760_000_000_000)
        async with (
            asyncio.timeout(SECONDS_MAX),
            Penstock.open(path, clock=clock) as first,
            Penstock.open(path, clock=clock, perform=False) as second,
        ):
            registered = await first.register(workflow)
            started = await first.start(registered, mode="host_mediated")
            await body(started, second.run(started.id), clock)

    asyncio.run(run())


def test_one_of_two_gets_the_activity_and_hands_in_the_result(tmp_path: Path) -> None:
    async def body(ada: Run, bob: Run, clock: ManualClock) -> None:
        taken = await ada.lease_activity("a", "ada", 60)
        assert (taken.arguments, taken.attempt, taken.idempotency_key) == ({"n": 1}, 1, f"{ada.id}/a/1")
        assert taken.output_schema == {"type": "object"}
        assert taken.lease is not None
        with pytest.raises(Conflict) as refused:
            await bob.lease_activity("a", "bob", 60)
        assert refused.value.code == "ACTIVITY_LEASED"
        assert refused.value.details == {"holder": "ada", "lease_until": taken.lease.until}
        longer = await ada.lease_activity("a", "ada", 120, extend=True)
        [seen] = await bob.activities()
        assert seen.lease == longer.lease
        await ada.submit("a", {"n": 2}, visit=1, attempt=1, holder="ada")
        assert await ada.result(timeout_seconds=240) == 2

    two_processes(tmp_path, WORK, body)


def test_a_lease_that_was_given_back_and_taken_is_lost(tmp_path: Path) -> None:
    async def body(ada: Run, bob: Run, clock: ManualClock) -> None:
        await ada.lease_activity("a", "ada", 60)
        assert (await ada.lease_activity("a", "ada", 0)).lease is None
        await bob.lease_activity("a", "bob", 60)
        for call in (ada.submit("a", {"n": 2}, holder="ada"), ada.lease_activity("a", "ada", 9, extend=True)):
            with pytest.raises(Conflict) as refused:
                await call
            assert refused.value.code == "ACTIVITY_LEASE_LOST"
        await bob.submit("a", error="no", code="NO", holder="bob")
        with pytest.raises(Conflict, match="attempt 1 of a has ended"):
            await bob.submit("a", {"n": 3}, attempt=1)
        await bob.submit("a", {"n": 3})
        assert await bob.result(timeout_seconds=240) == 3

    two_processes(tmp_path, WORK, body)


def test_what_must_not_happen_twice_is_not_given_to_another(tmp_path: Path) -> None:
    async def body(ada: Run, bob: Run, clock: ManualClock) -> None:
        await ada.lease_activity("a", "ada", 60)
        clock.advance(60_000)
        with pytest.raises(Conflict) as refused:
            await bob.lease_activity("a", "bob", 60)
        assert refused.value.code == "ACTIVITY_OUTCOME_UNKNOWN"
        assert await bob.status() == "waiting_decision"
        await bob.retry_activity("a", by="bob")
        await bob.lease_activity("a", "bob", 60)
        await bob.submit("a", holder="bob")
        assert await ada.result(timeout_seconds=240) is None

    two_processes(tmp_path, ONCE, body)
