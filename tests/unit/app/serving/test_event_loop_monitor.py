"""An event loop that stands still is noticed, with the place where it stood."""

from __future__ import annotations

import asyncio
import builtins
import importlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.app.serving.event_loop_monitor import EventLoopMonitor
from penstock.base import limits
from penstock.operations.telemetry.metrics import Telemetry
from tests.waiting import SECONDS_MAX, until, wait_until


@contextmanager
def watched_loop(telemetry: Telemetry) -> Iterator[EventLoopMonitor]:
    watch = EventLoopMonitor(telemetry, asyncio.get_running_loop())
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()


def stand_still(watch: EventLoopMonitor) -> None:
    """Block the event loop until the watching thread has seen where it stands, and it counts as a stall."""
    wait_until(lambda: watch._where and time.monotonic() - watch._noted > 2 * limits.LOOP_STALL_SECONDS)


def test_a_stall_is_measured_logged_with_its_cause_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry()

    async def body() -> None:
        with watched_loop(telemetry) as watch:
            stand_still(watch)
            await until(lambda: telemetry.loop_stall_max_seconds > 0)

    with caplog.at_level(logging.WARNING, "penstock"):
        asyncio.run(asyncio.wait_for(body(), SECONDS_MAX))
    assert limits.LOOP_STALL_SECONDS < telemetry.loop_stall_max_seconds < SECONDS_MAX
    told = [record.__dict__["fields"] for record in caplog.records if record.getMessage() == "event_loop_stalled"]
    assert any("stand_still" in " ".join(entry["where"]) for entry in told)
    assert all(entry["stalled_ms"] >= 100 for entry in told)
    assert all(entry["computing_ms"] < 300 for entry in told)
    assert sum(telemetry.loop_stalls.values[()][0]) == len(told)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel does not say")
def test_time_in_which_no_processor_was_free_is_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    """On one processor that others want too, the loop's thread is ready for longer than it computes."""
    telemetry, allowed = Telemetry(), os.sched_getaffinity(0)
    wanted = [sys.executable, "-I", "-S", "-c", "print(flush=True)\nwhile True: pass"]

    async def body() -> None:
        with watched_loop(telemetry):
            enough = time.thread_time() + 0.3
            while time.thread_time() < enough:
                pass
            await until(lambda: telemetry.loop_stall_max_seconds > 0)

    os.sched_setaffinity(0, {min(allowed)})
    others = [subprocess.Popen(wanted, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for other in others:
            assert other.stdout is not None
            other.stdout.readline()
        with caplog.at_level(logging.WARNING, "penstock"):
            asyncio.run(asyncio.wait_for(body(), SECONDS_MAX))
    finally:
        os.sched_setaffinity(0, allowed)
        for other in others:
            other.kill()
            other.communicate()
    told = [record.__dict__["fields"] for record in caplog.records if record.getMessage() == "event_loop_stalled"]
    longest = max(told, key=lambda entry: entry["stalled_ms"])
    assert longest["computing_ms"] >= 250
    assert longest["unscheduled_ms"] > 100
    assert longest["computing_ms"] + longest["unscheduled_ms"] <= longest["stalled_ms"] + 100


def test_who_imports_is_told_and_not_how_imports_work(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.joinpath("slow_to_import.py").write_text("import builtins\nbuiltins.stand_still()\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    telemetry = Telemetry()

    async def body() -> None:
        with watched_loop(telemetry) as watch:
            monkeypatch.setattr(builtins, "stand_still", lambda: stand_still(watch), raising=False)
            importlib.import_module("slow_to_import")
            await until(lambda: telemetry.loop_stall_max_seconds > 0)

    with caplog.at_level(logging.WARNING, "penstock"):
        asyncio.run(asyncio.wait_for(body(), SECONDS_MAX))
    told = " ".join(
        " ".join(record.__dict__["fields"]["where"])
        for record in caplog.records
        if record.getMessage() == "event_loop_stalled"
    )
    assert "slow_to_import.py:2 <module>" in told
    assert "test_event_loop_monitor.py" in told
    assert "importlib._bootstrap" not in told


def test_a_loop_that_turns_is_not_told_of(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry()

    async def body() -> None:
        with watched_loop(telemetry) as watch:
            for _ in range(5):
                noted = watch._noted
                await until(lambda noted=noted: watch._noted != noted)  # type: ignore[misc]

    began = time.monotonic()
    asyncio.run(body())
    if time.monotonic() - began < 0.2:  # otherwise somebody else had the processor
        assert telemetry.loop_stall_max_seconds == 0.0
