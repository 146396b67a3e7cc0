"""A run as a Python object."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from penstock import Penstock, RunFailed, step
from penstock.base.errors import Conflict, NotFound, Rejected, Unavailable
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityOutcome
from tests.waiting import SECONDS_MAX

ASK = """\
penstock: v1
name: ask
nodes:
  - id: each
    type: for_each
    items: "[1, 2]"
    concurrency: 2
    nodes:
      - {id: ask, type: interrupt, message: "ok?", answer: {type: object, required: [ok]}}
  - {id: pay, type: step, handler: pay}
  - {id: done, type: end, output: "${ .pay }"}
"""
LOOP = """\
penstock: v1
name: busy
nodes:
  - {id: spin, type: step, handler: pay, retry: {max_attempts: 100000, initial_interval: 1ms}}
  - {id: done, type: end}
"""


@step(name="pay")
async def pay() -> dict[str, int]:
    return {"paid": 1}


@step(name="pay")
async def broken() -> None:
    raise ValueError("no")


def opened(folder: Path, body: Callable[[Penstock], Coroutine[Any, Any, None]], function: Any = pay) -> None:
    async def run() -> None:
        async with asyncio.timeout(SECONDS_MAX), Penstock.open(folder / "penstock.db", steps=[function]) as penstock:
            await body(penstock)

    asyncio.run(run())


def test_questions_of_several_visits_are_told_apart(tmp_path: Path) -> None:
    async def body(penstock: Penstock) -> None:
        await penstock.register(ASK)
        run = await penstock.start("ask", labels={"team": "red"})
        with pytest.raises(Rejected, match="several questions are open"):
            await run.answer({"ok": True}, node="ask")
        await run.answer({"ok": True}, node="ask", visit=2)
        await run.answer({"ok": False}, node="ask", visit=1)
        assert await run.result() == {"paid": 1}
        # What the nodes gave can still be asked for when the run has ended.
        assert await run.query(".each | map(.ok)") == [False, True]
        with pytest.raises(Rejected, match="JQ_INVALID"):
            await run.query("nonsense(")
        forked = await run.fork(at_seq=1)
        assert [row.labels for row in (await penstock.runs()).rows] == [{"team": "red"}] * 2
        assert await forked.status() == "waiting_input"
        with pytest.raises(Conflict, match="DUPLICATE_EXECUTION_ID"):
            await run.fork(at_seq=1, run_id=forked.id)

    opened(tmp_path, body)


def test_waiting_for_a_result_ends_in_time_also_when_the_run_keeps_moving(tmp_path: Path) -> None:
    async def body(penstock: Penstock) -> None:
        await penstock.register(LOOP)
        run = await penstock.start("busy")
        with pytest.raises(Unavailable, match="RUN_NOT_FINISHED"):
            await run.result(timeout_seconds=0.3)
        await run.cancel("enough")
        with pytest.raises(RunFailed, match="CANCELLED"):
            await run.result()

    opened(tmp_path, body, broken)


def test_a_run_that_does_not_exist_is_not_found(tmp_path: Path) -> None:
    async def body(penstock: Penstock) -> None:
        for call in (
            penstock.run("x").state(),
            penstock.run("x").result(),
            penstock.run("x").fork(at_seq=1),
            penstock.run("x").query("."),
            penstock.start("nothing"),
        ):
            with pytest.raises(NotFound):
                await call

    opened(tmp_path, body)


NAN = float("nan")
EVERYTHING = """\
penstock: v1
name: everything
nodes:
  - {id: ask, type: interrupt, message: "ok?", answer: {}}
  - {id: told, type: wait, signal: tell}
  - {id: work, type: tool_call, server: s, tool: t, retry: {max_attempts: 5}}
  - {id: done, type: end, output: "${ .work }"}
"""


class Unsound:
    """An executor that gives what JSON does not have."""

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        return ActivityDone({"rate": NAN})


def test_what_json_cannot_hold_is_refused_wherever_it_comes_in(tmp_path: Path) -> None:
    bad: list[Any] = [NAN, {"a": [float("inf")]}, {1: 2}, {"s": {1}}, {"b": b"x"}, (1, 2)]

    async def body(penstock: Penstock) -> None:
        await penstock.register(EVERYTHING)
        for value in bad:
            with pytest.raises(Rejected) as caught:
                await penstock.start("everything", value if isinstance(value, dict) else {"x": value})
            assert caught.value.code == "VALUE_NOT_JSON"
            assert "path" in caught.value.details
        run = await penstock.start("everything")
        for value in bad:
            with pytest.raises(Rejected, match="VALUE_NOT_JSON"):
                await run.answer(value)
            with pytest.raises(Rejected, match="VALUE_NOT_JSON"):
                await run.signal("tell", value)
        assert await run.status() == "waiting_input"
        mediated = await penstock.start("everything", mode="host_mediated")
        await mediated.answer(1)
        await mediated.signal("tell", {"x": 1})
        with pytest.raises(Rejected, match="the result is not JSON at /x: nan is not a number"):
            await mediated.submit("work", {"x": NAN})
        await mediated.submit("work", {"x": 1})
        assert await mediated.result(timeout_seconds=240) == {"x": 1}

    opened(tmp_path, body)


def test_a_result_that_json_cannot_hold_fails_its_activity_for_good(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            asyncio.timeout(SECONDS_MAX),
            Penstock.open(tmp_path / "penstock.db", executors={"tool_call": Unsound()}) as penstock,
        ):
            await penstock.register(EVERYTHING)
            run = await penstock.start("everything")
            await run.answer(1)
            await run.signal("tell", 2)
            with pytest.raises(RunFailed, match=r"VALUE_NOT_JSON.* at /rate: nan"):
                await run.result(timeout_seconds=240)
            failed = [record for record in await run.history() if record.name == "ActivityFailed"]
            assert [record.payload["attempt"] for record in failed] == [1]

    asyncio.run(run())
