"""Executors that are made when they are first needed."""

from __future__ import annotations

import asyncio

import pytest

from penstock.app.executors.lazy_executor import ClosableExecutor, LazyExecutor
from penstock.base.errors import Rejected
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityError, ActivityOutcome
from tests.unit.runtime.executors.calls import call_of


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
    assert "what performs tool_call cannot be made" in caplog.text


def test_what_the_settings_get_wrong_is_told_at_once() -> None:
    def make() -> ClosableExecutor:
        raise Rejected("SECRET_NOT_SET", "the secret A is not set", "set it")

    outcome = asyncio.run(LazyExecutor(make=make).perform(call_of("tool_call", {})))
    assert outcome == ActivityError("the secret A is not set; set it", "SECRET_NOT_SET", retryable=False)
