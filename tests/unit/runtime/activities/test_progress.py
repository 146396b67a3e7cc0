"""What activities say while they are under way is heard by those who listen, and stands in nobody's way."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from penstock import Penstock, Progress, StepContext, step
from penstock.app.drivers import temporary_storage
from penstock.base import limits
from penstock.base.clock import ManualClock
from penstock.engine.effects import PerformActivity
from penstock.engine.records import Record
from penstock.runtime.activities.performing import ActivityCall
from penstock.runtime.activities.progress import ProgressBroadcast
from tests.waiting import SECONDS_MAX

DOCUMENT = """
penstock: v1
name: copy
nodes:
  - {id: copy, type: step, handler: copy}
  - {id: done, type: end}
"""


def bounded(work: Coroutine[Any, Any, None]) -> None:
    async def run() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            await work

    asyncio.run(run())


def call(run_id: str = "r") -> ActivityCall:
    activity = PerformActivity(
        effect_id="e", idempotency_key="k", node_id="copy", visit=1, attempt=2, node_type="step", config={}
    )
    return ActivityCall(run_id=run_id, workflow_name="copy", activity=activity)


# --- the broadcast -------------------------------------------------------------------------------


def test_a_listener_hears_its_run_and_no_other() -> None:
    async def body() -> None:
        broadcast = ProgressBroadcast(ManualClock(7))
        broadcast.progress(call(), 0.1, "nobody listens yet")
        with broadcast.subscribe("r") as news, broadcast.subscribe("r") as also:
            broadcast.progress(call(), 0.5, "half")
            broadcast.progress(call("other"), 0.9, None)
            broadcast.heartbeat(call(), {"file": 3})
            heard = news.take()
            assert [item.to_json() for item in heard] == [
                {
                    "executionId": "r",
                    "nodeId": "copy",
                    "visit": 1,
                    "attempt": 2,
                    "at": 7,
                    "value": 0.5,
                    "message": "half",
                },
                {"executionId": "r", "nodeId": "copy", "visit": 1, "attempt": 2, "at": 7, "details": {"file": 3}},
            ]
            assert (await anext(also), await anext(also)) == tuple(heard)
            assert news.take() == []
        broadcast.progress(call(), 1.0, "nobody listens any more")

    bounded(body())


def test_a_slow_listener_loses_the_oldest_news() -> None:
    async def body() -> None:
        broadcast = ProgressBroadcast(ManualClock(7))
        with broadcast.subscribe("r") as news:
            for number in range(limits.PROGRESS_BUFFERED_MAX + 5):
                broadcast.progress(call(), number, None)
            assert news.missed == 5
            assert [item.value for item in news.take()] == list(range(5, limits.PROGRESS_BUFFERED_MAX + 5))

    bounded(body())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_not_told(value: float) -> None:
    async def body() -> None:
        broadcast = ProgressBroadcast(ManualClock(7))
        with broadcast.subscribe("r") as news:
            broadcast.progress(call(), value, None)
            assert news.take() == []

    bounded(body())


# --- runs ------------------------------------------------------------------------------------------


@step(name="copy")
async def on_the_loop(*, context: StepContext) -> None:
    for number in (1, 2):
        context.progress(number / 2, f"part {number}")
    context.heartbeat("alive")
    await asyncio.sleep(0)


@step(name="copy")
def in_a_thread(*, context: StepContext) -> None:
    for number in (1, 2):
        context.progress(number / 2, f"part {number}")
    context.heartbeat("alive")


@pytest.mark.parametrize("function", [on_the_loop, in_a_thread])
def test_progress_comes_between_the_records_of_its_activity(function: Callable[..., Any]) -> None:
    async def body() -> None:
        async with Penstock.open(storage=temporary_storage(), steps=[function], workflows=[DOCUMENT]) as penstock:
            told: list[str] = []
            run = penstock.run("mine")
            # Listening may begin before the run does: its id is known.
            with penstock.host.progress.subscribe("mine") as news:
                await penstock.start("copy", run_id="mine")
                async for item in run.live():
                    told.append(item.name if isinstance(item, Record) else "progress")
                heard = news.take()
            assert told[0] == "ExecutionStarted"
            assert told[-1] == "ExecutionCompleted"
            assert [(item.value, item.message, item.details) for item in heard] == [
                (0.5, "part 1", None),
                (1.0, "part 2", None),
                (None, None, "alive"),
            ]
            assert {(item.node_id, item.visit, item.attempt) for item in heard} == {("copy", 1, 1)}

    bounded(body())


def test_a_run_that_is_streamed_live_ends_and_tells_what_was_said_meanwhile(tmp_path: Path) -> None:
    async def body() -> None:
        begun, told = asyncio.Event(), asyncio.Event()

        @step(name="copy")
        async def copy(*, context: StepContext) -> None:
            begun.set()
            await told.wait()
            context.progress(0.25, "a quarter")
            await asyncio.sleep(0)

        async with Penstock.open(tmp_path / "penstock.db", steps=[copy], workflows=[DOCUMENT]) as penstock:
            run = await penstock.start("copy")
            await begun.wait()
            heard: list[str] = []
            async for item in run.live():
                if isinstance(item, Progress):
                    heard.append(f"{item.value} {item.message}")
                elif item.name == "ActivityRequested":
                    told.set()
                else:
                    heard.append(item.name)
            assert heard.index("0.25 a quarter") < heard.index("ActivityCompleted")
            assert heard[-1] == "ExecutionCompleted"
            # Nothing of it is stored.
            assert [record.name for record in await run.history() if record.name not in heard] == ["ActivityRequested"]

    bounded(body())


def test_progress_can_be_listened_to_alone(tmp_path: Path) -> None:
    async def body() -> None:
        go_on = asyncio.Event()

        @step(name="copy")
        async def copy(*, context: StepContext) -> None:
            while not go_on.is_set():
                context.progress(0.5)
                await asyncio.sleep(0)

        async with Penstock.open(storage=temporary_storage(), steps=[copy], workflows=[DOCUMENT]) as penstock:
            run = await penstock.start("copy")
            count = 0
            async for item in run.progress():
                assert item.value == 0.5
                count += 1
                if count == 3:
                    go_on.set()
            assert count >= 3
            assert await run.status() == "completed"

    bounded(body())


def test_lines_of_logs_are_for_those_who_asked_for_them() -> None:
    async def body() -> None:
        broadcast = ProgressBroadcast(ManualClock(7))
        with broadcast.subscribe("r") as news, broadcast.subscribe("r", logs=True) as also:
            broadcast.log(call(), 20, "x" * (limits.LOG_LINE_CHARACTERS_MAX + 1))
            assert news.take() == []
            (line,) = also.take()
            assert (line.level, line.message) == (20, "x" * limits.LOG_LINE_CHARACTERS_MAX)

    bounded(body())


def test_what_is_written_while_a_run_starts_waits_for_whoever_started_it() -> None:
    async def body() -> None:
        broadcast = ProgressBroadcast(ManualClock(7))
        broadcast.log(call(), 20, "nobody starts anything")
        with broadcast.starting():
            broadcast.log(call(), 20, "early")
            broadcast.log(call("other"), 20, "of another run")
        with broadcast.subscribe("r", logs=True) as news:
            assert [item.message for item in news.take()] == ["early"]
        with broadcast.subscribe("r", logs=True) as news:
            assert news.take() == []

    bounded(body())


def test_no_secret_is_told() -> None:
    async def body() -> None:
        broadcast = ProgressBroadcast(ManualClock(7))
        with_secret = structs.replace(call(), hidden=("hush", ""))
        with broadcast.subscribe("r", logs=True) as news:
            broadcast.log(with_secret, 20, "hush, hush")
            broadcast.progress(with_secret, 0.5, "at hush")
            broadcast.heartbeat(with_secret, {"a hush": ["hush", 1]})
            lines = news.take()
        assert [item.message for item in lines] == ["[secret], [secret]", "at [secret]", None]
        assert lines[2].details == {"a [secret]": ["[secret]", 1]}

    bounded(body())


# --- texts ---------------------------------------------------------------------------------------


def test_what_is_written_is_read_by_who_asked_for_texts_and_joined_until_it_is_taken() -> None:
    async def body() -> None:
        broadcast = ProgressBroadcast(ManualClock(7))
        assert not broadcast.is_heard(call())
        with broadcast.subscribe("r", texts=True) as news, broadcast.subscribe("r", logs=True) as deaf:
            assert broadcast.is_heard(call())
            assert not broadcast.is_heard(call("other"))
            for number in range(limits.PROGRESS_BUFFERED_MAX * 2):
                broadcast.write(call(), "ab", number * 2)
            [piece] = news.take()
            assert (piece.text, piece.offset) == ("ab" * limits.PROGRESS_BUFFERED_MAX * 2, 0)
            assert news.missed == 0
            broadcast.write(call(), "c", 1)
            broadcast.write(call(), "d", 0)
            assert [(item.text, item.offset) for item in news.take()] == [("c", 1), ("d", 0)]
            assert deaf.take() == []
        assert not broadcast.is_heard(call())

    bounded(body())


def test_who_comes_later_reads_what_was_written_so_far_and_nothing_of_what_has_ended() -> None:
    async def body() -> None:
        broadcast = ProgressBroadcast(ManualClock(7))
        broadcast.write(call(), "Hello", 0)
        broadcast.write(call(), ", you", 5)
        with broadcast.subscribe("r", texts=True) as news:
            [piece] = news.take()
            assert (piece.text, piece.offset) == ("Hello, you", 0)
            broadcast.write(call(), ".", 10)
            [piece] = news.take()
            assert (piece.text, piece.offset) == (".", 10)
        broadcast.written(call())
        with broadcast.subscribe("r", texts=True) as news:
            assert news.take() == []

    bounded(body())


def test_who_starts_a_run_is_heard_before_it_is_subscribed_to() -> None:
    async def body() -> None:
        broadcast = ProgressBroadcast(ManualClock(7))
        with broadcast.starting():
            assert broadcast.is_heard(call())
        assert not broadcast.is_heard(call())

    bounded(body())
