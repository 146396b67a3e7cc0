"""A run as a Python object."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from penstock import Penstock, RunFailed, step
from penstock.base.errors import Conflict, NotFound, Rejected, Unavailable

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
        async with asyncio.timeout(60), Penstock.open(folder / "penstock.db", steps=[function]) as penstock:
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
