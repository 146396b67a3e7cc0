"""An update is a signal that somebody takes, and an answer from the run after it."""

from __future__ import annotations

import asyncio

import pytest

from penstock.app.drivers import temporary_storage
from penstock.app.penstock import Penstock
from penstock.base.json import JsonObject
from tests.waiting import SECONDS_MAX

DOCUMENT: JsonObject = {
    "penstock": "v1",
    "name": "counter",
    "state": {"type": "object", "properties": {"total": {"type": "number", "default": 0}}},
    "nodes": [
        {"id": "add", "type": "wait", "signal": "add"},
        {"id": "keep", "type": "set_state", "set": {"total": "${ .state.total + .add.by }"}},
        {"id": "more", "type": "switch", "cases": [{"when": ".state.total < 10", "next": "add"}], "default": "done"},
        {"id": "done", "type": "end", "output": "${ .state.total }"},
    ],
}


@pytest.mark.parametrize("early", [False, True], ids=["somebody_waits", "kept_first"])
def test_an_update_returns_what_the_run_says_after_it_was_taken(early: bool) -> None:
    async def scenario() -> None:
        async with Penstock.open(storage=temporary_storage(), workflows=[DOCUMENT]) as penstock:
            run = await penstock.start("counter")
            if early:
                await run.pause()
                waiting = asyncio.ensure_future(run.update("add", {"by": 3}, query=".state.total"))
                await penstock.run_memory.next_commit(timeout_seconds=240)
                await run.resume()
                assert await waiting == 3
            else:
                assert await run.update("add", {"by": 3}, query=".state.total") == 3
            await run.signal("add", {"by": 9})
            assert await run.result(timeout_seconds=240) == 12

    asyncio.run(asyncio.wait_for(scenario(), SECONDS_MAX))


def test_a_signal_starts_the_run_that_does_not_exist_yet_and_finds_it_afterwards() -> None:
    async def scenario() -> None:
        async with Penstock.open(storage=temporary_storage(), workflows=[DOCUMENT]) as penstock:
            first = await penstock.signal_with_start("counter", "c1", "add", {"by": 4})
            again = await penstock.signal_with_start("counter", "c1", "add", {"by": 6})
            assert first.id == again.id == "c1"
            assert await again.result(timeout_seconds=240) == 10

    asyncio.run(asyncio.wait_for(scenario(), SECONDS_MAX))
