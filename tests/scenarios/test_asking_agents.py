"""Runs whose agents ask back, from end to end: a real A2A server, a file, and processes that come and go."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock import Penstock
from penstock.base.errors import Rejected
from penstock.runtime.executors.agents.a2a import A2aClients
from penstock.runtime.executors.agents.executor import AgentExecutor
from penstock.runtime.executors.agents.port import A2aAgent
from penstock.runtime.run_handle import Run
from tests.fixtures.a2a_agent import Agent, agent_app
from tests.unit.runtime.executors.asgi_server import serving_asgi, unused_port
from tests.unit.runtime.executors.calls import bounded
from tests.waiting import SECONDS_MAX

REVIEW = """\
penstock: v1
name: review
nodes:
  - {id: review, type: agent_delegate, agent_id: reviewer, input: {do: ask}}
  - {id: done, type: end, output: "${ .review.branch }"}
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
            folder / "penstock.db", executors={"agent_delegate": executor}, workflows=[REVIEW]
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


def test_cancelling_a_run_that_asks_leaves_nothing_under_way(tmp_path: Path) -> None:
    async def work() -> None:
        async with agent_server(Agent()) as address, opened(tmp_path, address) as penstock:
            run = await penstock.start("review")
            await waits_for(run, "waiting_input")
            await run.cancel("enough")
            await waits_for(run, "cancelled")
            with pytest.raises(Rejected):
                await run.answer({"text": "main"})

    bounded(asyncio.wait_for(work(), SECONDS_MAX))
