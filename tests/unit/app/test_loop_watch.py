"""An event loop that stands still is noticed, with the place where it stood."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.app.loop_watch import LoopWatch
from penstock.operations.telemetry import Telemetry


@contextmanager
def watched_loop(telemetry: Telemetry) -> Iterator[None]:
    watch = LoopWatch(telemetry, asyncio.get_running_loop())
    watch.start()
    try:
        yield
    finally:
        watch.stop()


def stand_still() -> None:
    threading.Event().wait(0.4)


def test_a_stall_is_measured_logged_with_its_cause_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry()

    async def body() -> None:
        with watched_loop(telemetry):
            await asyncio.sleep(0.05)
            stand_still()
            for _ in range(1_000):
                await asyncio.sleep(0.01)
                if telemetry.loop_stall_max_seconds:
                    break

    with caplog.at_level(logging.WARNING, "penstock"):
        asyncio.run(asyncio.wait_for(body(), 30))
    assert 0.3 < telemetry.loop_stall_max_seconds < 30
    told = [record.__dict__["fields"] for record in caplog.records if record.getMessage() == "event_loop_stalled"]
    assert any("stand_still" in " ".join(entry["where"]) for entry in told)
    assert all(entry["stalled_ms"] >= 100 for entry in told)
    assert all(entry["computing_ms"] < 300 for entry in told)
    assert sum(telemetry.loop_stalls.values[()][0]) == len(told)


def test_a_loop_that_turns_is_not_told_of(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry()

    async def body() -> None:
        with watched_loop(telemetry):
            for _ in range(20):
                await asyncio.sleep(0.005)

    began = time.monotonic()
    asyncio.run(body())
    if time.monotonic() - began < 0.2:  # otherwise somebody else had the processor
        assert telemetry.loop_stall_max_seconds == 0.0
