"""The built-in agent that is a person."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.base.json import JsonValue
from penstock.runtime.activities.performing import ActivityAsks
from penstock.runtime.executors.agents.person import PERSON_AGENT, ask_person
from penstock.runtime.executors.agents.port import AgentTask
from penstock.runtime.steps.registry import StepFailed

pytestmark = pytest.mark.anyio


def task(given: JsonValue, **more: Any) -> AgentTask:
    return AgentTask(
        agent_id=PERSON_AGENT, input=given, correlation_id="c", idempotency_key="k", timeout_ms=1_000, **more
    )


async def test_it_asks_with_the_schema_that_it_is_given_and_gives_back_the_answer() -> None:
    schema: JsonValue = {"type": "object", "properties": {"a": {"type": "string"}}}
    asked = await ask_person(task({"message": "Which?", "schema": schema}))
    assert asked == ActivityAsks("Which?", {"type": "object", "properties": {"a": {"type": "string"}}})
    assert await ask_person(task({"message": "Which?"}, round=1, answer={"a": "this"})) == {"a": "this"}


@pytest.mark.parametrize(
    "given",
    [None, "Which?", {}, {"message": ""}, {"message": "?", "schema": 1}, {"message": "?", "schema": {"type": 7}}],
)
async def test_a_question_that_cannot_be_asked_fails_for_good(given: JsonValue) -> None:
    with pytest.raises(StepFailed) as failed:
        await ask_person(task(given))
    assert failed.value.retryable is False
