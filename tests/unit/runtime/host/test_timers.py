"""Timers fire by the clock; those that a clock which was ahead put too late fire after the time they were to take."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock.base.clock import ManualClock
from penstock.base.errors import Unavailable
from penstock.base.json import JsonObject, JsonValue
from penstock.engine import inputs
from penstock.engine.state import RunState
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.host.timers import TimerLoop
from penstock.runtime.stores.sqlite.temporary import TemporaryDatabase
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.embedded import Bench
from tests.conformance.hosts import END, ScriptedPerformer, native, step
from tests.opened_database import opened_store
from tests.unit.runtime.executors.calls import bounded

NOON = 1_774_699_200_000
MINUTE_MS = 60_000
QUARTER_MS = 90 * 24 * 60 * MINUTE_MS
NAPS: tuple[JsonObject, ...] = (
    {"id": "nap", "type": "wait", "duration": "10m"},
    {"id": "again", "type": "wait", "duration": "10m"},
)


class Timed(Bench):
    """A bench with a clock that is moved by hand, and a loop that looks when it is told to."""

    clock: ManualClock
    loop: TimerLoop

    async def state(self) -> RunState:
        state = await self.host.read("r")
        assert state is not None
        return state

    async def waits_for(self) -> list[str]:
        """Look until nothing fires any more; what the run waits for then."""
        while await self.loop.fire() == 0.0:
            pass
        state = await self.state()
        return [item.node_id for item in state.activations()]


@asynccontextmanager
async def timed() -> AsyncIterator[Timed]:
    clock = ManualClock(NOON)
    async with opened_store(RunStore(TemporaryDatabase())) as store:
        host = EmbeddedHost(store=store, clock=clock, worker_id="w")
        bench = Timed(host, ScriptedPerformer())
        bench.clock, bench.loop = clock, loop_on(host)
        yield bench


def loop_on(host: EmbeddedHost) -> TimerLoop:
    loop = TimerLoop(host=host, report=lambda where, error: pytest.fail(f"{where}: {error}"))
    host.on_commit = lambda committed: loop.committed(committed.live.row)
    return loop


def test_a_timer_that_was_set_by_a_clock_ahead_fires_after_the_time_it_was_to_take() -> None:
    async def work() -> None:
        async with timed() as bench:
            await bench.loop.fire()
            bench.clock.advance(QUARTER_MS)
            await bench.loop.fire()
            await bench.start(native(*NAPS, END))
            bench.clock.advance(-QUARTER_MS)
            assert await bench.waits_for() == ["nap"]
            bench.clock.elapse(9 * MINUTE_MS)
            assert await bench.waits_for() == ["nap"]
            bench.clock.elapse(2 * MINUTE_MS)
            assert await bench.waits_for() == ["again"]
            bench.clock.elapse(9 * MINUTE_MS)
            assert await bench.waits_for() == ["again"]
            bench.clock.elapse(2 * MINUTE_MS)
            await bench.waits_for()
            assert (await bench.state()).terminal

    bounded(work())


def test_another_process_finds_such_a_timer_at_its_start() -> None:
    async def work() -> None:
        async with timed() as bench:
            bench.clock.advance(QUARTER_MS)
            await bench.start(native(*NAPS, END))
            bench.clock.advance(-QUARTER_MS)
            bench.loop = loop_on(bench.host)
            assert await bench.waits_for() == ["nap"]
            bench.clock.elapse(11 * MINUTE_MS)
            assert await bench.waits_for() == ["again"]

    bounded(work())


@pytest.mark.parametrize("restarts", [False, True])
def test_a_run_that_moves_before_anybody_looks_keeps_such_a_timer_findable(*, restarts: bool) -> None:
    """One branch took a nap while the clock was ahead; the result of the other came when it was right again."""

    async def work() -> None:
        async with timed() as bench:
            await bench.loop.fire()
            bench.clock.advance(QUARTER_MS)
            branches: list[JsonValue] = [{"name": "nap", "nodes": [NAPS[0]]}, {"name": "mail", "nodes": [step("mail")]}]
            await bench.start(native({"id": "both", "type": "parallel", "branches": branches}, END))
            ahead = (await bench.state()).updated_at
            bench.clock.advance(-QUARTER_MS)
            now = bench.clock.now_ms()
            mailed = inputs.CompleteActivity(at=now, node_id="mail", visit=1, attempt=1, result=None)
            await bench.host.send("r", mailed)
            assert (await bench.state()).updated_at == ahead  # the times of a history never go back
            if restarts:
                bench.loop = loop_on(bench.host)
            assert "nap" in await bench.waits_for()
            bench.clock.elapse(11 * MINUTE_MS)
            await bench.waits_for()
            assert (await bench.state()).terminal

    bounded(work())


def test_a_timer_that_was_set_before_the_clock_was_ahead_keeps_its_moment() -> None:
    async def work() -> None:
        async with timed() as bench:
            await bench.start(native({"id": "year", "type": "wait", "duration": "365d"}, END))
            bench.clock.advance(QUARTER_MS)
            await bench.loop.fire()
            bench.clock.advance(-QUARTER_MS)
            bench.clock.elapse(QUARTER_MS)
            assert await bench.waits_for() == ["year"]
            bench.clock.elapse(365 * 24 * 60 * MINUTE_MS - QUARTER_MS)
            await bench.waits_for()
            assert (await bench.state()).terminal

    bounded(work())


def test_a_store_that_cannot_be_read_for_a_moment_does_not_end_the_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with timed() as bench:
            told: list[str] = []
            failed = asyncio.Event()
            really = bench.host.store.due

            async def cannot(**_: object) -> tuple[str, ...]:
                failed.set()
                raise Unavailable("STORE_BUSY", "somebody else has it", "wait")

            loop = TimerLoop(host=bench.host, report=lambda where, error: told.append(where))
            monkeypatch.setattr(RunStore, "due", lambda self, **given: cannot(**given))
            await bench.start(native(NAPS[0], END))
            looking = asyncio.ensure_future(loop.run())
            await failed.wait()
            monkeypatch.setattr(RunStore, "due", lambda self, **given: really(**given))
            bench.clock.elapse(11 * MINUTE_MS)
            loop.nudge()
            await bench.ended()
            looking.cancel()
            assert told == ["timers"]

    bounded(work())
