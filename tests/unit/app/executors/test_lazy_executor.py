"""Executors that are made when they are first needed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.app.executors.lazy_executor import ClosableExecutor, ExecutorStatus, LazyExecutor
from penstock.app.penstock import Penstock
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject
from penstock.engine.transitions import RunStatus
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityError, ActivityOutcome
from tests.unit.runtime.executors.calls import call_of
from tests.waiting import SECONDS_MAX, until


class Ready:
    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        return ActivityDone("done")

    async def close(self) -> None:
        pass


def test_an_executor_that_cannot_be_made_is_made_again_and_the_run_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    tries: list[int] = []

    def make() -> ClosableExecutor:
        tries.append(1)
        if len(tries) < 3:
            raise ImportError("cannot import name 'Client' from partially initialized module 'mcp.client.client'")
        return Ready()

    outcome = asyncio.run(LazyExecutor(make=make).perform(call_of("tool_call", {})))
    assert (outcome, len(tries)) == (ActivityDone("done"), 3)
    assert "the executor of tool_call cannot be created" in caplog.text


def test_what_the_settings_get_wrong_is_told_at_once() -> None:
    def make() -> ClosableExecutor:
        raise Rejected("SECRET_NOT_SET", "the secret A is not set", "set it")

    outcome = asyncio.run(LazyExecutor(make=make).perform(call_of("tool_call", {})))
    assert outcome == ActivityError("the secret A is not set; set it", "SECRET_NOT_SET", retryable=False)


BROKEN = "cannot import name 'Client' from partially initialized module 'mcp.client.client'"


def test_an_executor_that_cannot_be_made_is_named_in_health_and_told_to_its_run_until_it_is_made(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tries: list[str] = []
    told: list[str] = []

    def make() -> ClosableExecutor:
        tries.append(status.health())
        if len(tries) < 5:
            raise ImportError(BROKEN)
        return Ready()

    status = ExecutorStatus(tell=lambda call, level, message: told.append(message))
    asyncio.run(LazyExecutor(make=make, status=status).perform(call_of("tool_call", {})))
    assert tries[0] == status.health() == "ok"
    assert all(state == f"tool_call cannot be created: ImportError: {BROKEN}" for state in tries[1:])
    assert len(told) == 1
    assert len(caplog.records) == 1, "once a minute, not once a try"
    assert "tool_call cannot be created" in told[0]


def test_a_library_that_is_not_there_ends_the_attempt_with_a_clear_error() -> None:
    tries: list[int] = []

    def make() -> ClosableExecutor:
        tries.append(1)
        raise ModuleNotFoundError("No module named 'brotli'", name="brotli")

    outcome = asyncio.run(LazyExecutor(make=make).perform(call_of("tool_call", {})))
    assert isinstance(outcome, ActivityError)
    assert (outcome.code, outcome.retryable, len(tries)) == ("EXECUTOR_NOT_INSTALLED", False, 1)
    assert "brotli" in outcome.error
    assert "install" in outcome.error


@pytest.mark.parametrize("ends_by", ["timeout", "cancel"])
def test_a_run_whose_executor_cannot_be_made_ends_with_its_timeout_and_when_it_is_cancelled(
    tmp_path: Path, ends_by: str
) -> None:
    def make() -> ClosableExecutor:
        raise ImportError(BROKEN)

    ask: JsonObject = {"id": "ask", "type": "llm_call", "model": "m", "prompt": "Hello?"}
    if ends_by == "timeout":
        ask |= {"timeout": "300ms", "retry": {"max_attempts": 1}}
    document: JsonObject = {"penstock": "v1", "name": "w", "nodes": [ask, {"id": "done", "type": "end"}]}

    async def test() -> None:
        executors = {"llm_call": LazyExecutor(make=make)}
        async with Penstock.open(tmp_path / "penstock.db", executors=executors) as penstock:
            await penstock.register(document)
            run = await penstock.start("w")
            if ends_by == "cancel":

                async def is_tried() -> bool:
                    return bool(executors["llm_call"].status.problems)

                await until(is_tried)
                await run.cancel()

            async def has_ended() -> bool:
                return (await run.state()).terminal

            await until(has_ended)
            state = await run.state()
            failure = state.failure
            assert (state.status, None if failure is None else failure.code) == (
                (RunStatus.CANCELLED, None) if ends_by == "cancel" else (RunStatus.FAILED, "TIMEOUT")
            )

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))
