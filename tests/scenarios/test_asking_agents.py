"""Runs whose agents ask back, from end to end: a real A2A server, a file, and processes that come and go."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock import Penstock
from penstock.app.gate import local_owner, open_gate
from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.operations.gate.pipeline import Gate
from penstock.runtime.executors.agents.a2a import A2aClients
from penstock.runtime.executors.agents.executor import AgentExecutor
from penstock.runtime.executors.agents.port import A2aAgent
from penstock.runtime.run_handle import Run
from tests.fixtures.a2a_agent import Agent, agent_app
from tests.unit.operations.conftest import Caller
from tests.unit.runtime.executors.asgi_server import serving_asgi, unused_port
from tests.unit.runtime.executors.calls import bounded
from tests.waiting import SECONDS_MAX, until_found

REVIEW = """\
penstock: v1
name: review
nodes:
  - {id: review, type: agent_delegate, agent_id: reviewer, input: {do: ask}}
  - {id: done, type: end, output: "${ .review.branch }"}
"""

IMPATIENT = """\
penstock: v1
name: impatient
nodes:
  - id: review
    type: agent_delegate
    agent_id: reviewer
    input: {do: ask}
    timeout: 1s
    on_error: {next: late}
  - {id: done, type: end, output: "${ .review.branch }"}
  - {id: late, type: end, output: nobody answered}
"""


@asynccontextmanager
async def agent_server(agent: Agent) -> AsyncIterator[str]:
    port = unused_port()
    async with serving_asgi(agent_app(agent, rpc_url=f"http://127.0.0.1:{port}/rpc"), port) as address:
        yield address


@asynccontextmanager
async def opened(folder: Path, address: str) -> AsyncIterator[Penstock]:
    executor = AgentExecutor({"reviewer": A2aAgent(url=address, poll_interval_ms=10)}, a2a=A2aClients())
    try:
        async with Penstock.open(
            folder / "penstock.db", executors={"agent_delegate": executor}, workflows=[REVIEW, IMPATIENT]
        ) as penstock:
            yield penstock
    finally:
        await executor.close()


async def waits_for(run: Run, status: str) -> None:
    state = await run.state()
    while await run.status() != status:
        state = await run.host.wait(run.id, after_seq=state.seq, timeout_seconds=240) or state


def test_an_agent_asks_and_the_answer_reaches_its_task_through_another_process(tmp_path: Path) -> None:
    async def work() -> None:
        agent = Agent()
        async with agent_server(agent) as address:
            async with opened(tmp_path, address) as penstock:
                run = await penstock.start("review", run_id="r1")
                await waits_for(run, "waiting_input")
            async with Penstock.open(tmp_path / "penstock.db", perform=False) as looking:
                [question] = await looking.run("r1").questions()
                assert (question.interrupt_id, question.prompt) == ("review:1:1", "Which branch?")
                await looking.run("r1").answer({"text": "main"}, interrupt_id=question.interrupt_id, by="ada")
                with pytest.raises(Rejected, match="no open question"):
                    await looking.run("r1").answer({"text": "next"}, interrupt_id=question.interrupt_id)
            async with opened(tmp_path, address) as penstock:
                assert await penstock.run("r1").result(timeout_seconds=240) == "main"
                [done] = [item for item in await penstock.run("r1").history() if item.name == "ActivityCompleted"]
                assert done.payload["externalTaskId"] == agent.seen[-1].task_id
            assert len(agent.seen) == 2

    bounded(work())


def test_a_fork_of_a_question_is_a_task_of_its_own(tmp_path: Path) -> None:
    async def work() -> None:
        agent = Agent()
        async with agent_server(agent) as address, opened(tmp_path, address) as penstock:
            run = await penstock.start("review")
            await waits_for(run, "waiting_input")
            twin = await run.fork(at_seq=(await run.state()).seq)
            await twin.answer({"text": "you tell me"})
            await waits_for(twin, "waiting_input")
            assert await run.status() == "waiting_input"
            await run.answer({"text": "main"})
            assert await run.result(timeout_seconds=240) == "main"
            [question] = await twin.questions()
            assert question.interrupt_id == "review:1:2"
            await twin.answer({"text": "next"})
            assert await twin.result(timeout_seconds=240) == "next"

    bounded(work())


def test_cancelling_a_run_cancels_the_task_that_the_agent_works_on(tmp_path: Path) -> None:
    async def work() -> None:
        agent = Agent()
        async with agent_server(agent) as address, opened(tmp_path, address) as penstock:
            run = await penstock.start("review")
            await waits_for(run, "waiting_input")
            await run.answer({"text": "wait"})
            await agent.waiting.wait()
            await run.cancel("enough")
            await waits_for(run, "cancelled")
            await agent.cancelled.wait()

    bounded(asyncio.wait_for(work(), SECONDS_MAX))


async def has_no_work(penstock: Penstock, run_id: str) -> None:
    host: Any = penstock.host

    async def look() -> bool | None:
        row = await host.store.row(run_id)
        return True if row is not None and not row.has_work else None

    await until_found(look)


def test_cancelling_a_run_that_asks_cancels_the_task_of_its_agent(tmp_path: Path) -> None:
    async def work() -> None:
        agent = Agent()
        async with (
            agent_server(agent) as address,
            opened(tmp_path, address) as penstock,
            open_gate(penstock) as gate,
        ):
            run = await penstock.start("review", run_id="r1")
            await waits_for(run, "waiting_input")
            await run.cancel("enough")
            await waits_for(run, "cancelled")
            with pytest.raises(Rejected):
                await run.answer({"text": "main"})
            await agent.cancelled.wait()
            await has_no_work(penstock, "r1")
            [record] = await withdrawals(gate, penstock)
            assert (record["outcome"], record["subject"]) == ("allowed", "r1")
            kept = penstock.host.progress.kept.of("r1")
            assert kept is not None
            assert [line.message for line in kept.lines] == ["the task that waited for an answer was cancelled"]

    bounded(asyncio.wait_for(work(), SECONDS_MAX))


async def withdrawals(gate: Gate, penstock: Penstock) -> list[dict[str, Any]]:
    owner = Caller(gate, local_owner(), penstock)
    found: list[dict[str, Any]] = (await owner.call("audit.list", operation="execution.withdraw"))["items"]
    return found


def test_the_task_is_cancelled_by_the_next_process_if_nobody_performs_runs_when_the_run_is(tmp_path: Path) -> None:
    async def work() -> None:
        agent = Agent()
        async with agent_server(agent) as address:
            async with opened(tmp_path, address) as penstock:
                await waits_for(await penstock.start("review", run_id="r1"), "waiting_input")
            async with Penstock.open(tmp_path / "penstock.db", perform=False) as looking:
                await looking.run("r1").cancel("enough")
                assert await looking.run("r1").status() == "cancelled"
            assert not agent.cancelled.is_set()
            async with opened(tmp_path, address) as penstock:
                await agent.cancelled.wait()
                await has_no_work(penstock, "r1")

    bounded(asyncio.wait_for(work(), SECONDS_MAX))


@pytest.mark.parametrize("how", ["gone", "silent"])
def test_an_agent_that_cannot_be_told_keeps_no_run_from_being_cancelled(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FAREWELL_SECONDS_MAX", 0.2)

    async def work() -> None:
        agent = Agent()
        if how == "silent":
            agent.cancel = partial(_never, agent)  # type: ignore[method-assign]  # an agent that does not answer
        async with AsyncExitStack() as stack:
            leaving = await stack.enter_async_context(AsyncExitStack())
            address = await leaving.enter_async_context(agent_server(agent))
            penstock = await stack.enter_async_context(opened(tmp_path, address))
            gate = await stack.enter_async_context(open_gate(penstock))
            run = await penstock.start("review", run_id="r1")
            await waits_for(run, "waiting_input")
            if how == "gone":
                await leaving.aclose()
            await run.cancel("enough")
            await waits_for(run, "cancelled")
            await has_no_work(penstock, "r1")
            [record] = await withdrawals(gate, penstock)
            assert (record["outcome"], record["code"]) == ("refused", "TASK_NOT_WITHDRAWN")
            kept = penstock.host.progress.kept.of("r1")
            assert kept is not None
            [line] = kept.lines
            assert "the task of node review was not cancelled: reviewer" in str(line.message)
            assert (await run.state()).status == "cancelled"

    bounded(asyncio.wait_for(work(), SECONDS_MAX))


async def _never(agent: Agent, context: Any, event_queue: Any) -> None:
    agent.cancelled.set()
    await asyncio.Event().wait()


def test_a_question_that_took_too_long_is_withdrawn_when_its_run_ends(tmp_path: Path) -> None:
    async def work() -> None:
        agent = Agent()
        async with agent_server(agent) as address, opened(tmp_path, address) as penstock:
            run = await penstock.start("impatient", run_id="r1")
            assert await run.result(timeout_seconds=240) == "nobody answered"
            await agent.cancelled.wait()
            await has_no_work(penstock, "r1")

    bounded(asyncio.wait_for(work(), SECONDS_MAX))
