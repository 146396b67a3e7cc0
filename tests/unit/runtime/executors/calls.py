"""Activities as an executor gets them, and a bounded way to run async code in a plain test."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from penstock.base.json import JsonObject, JsonValue
from penstock.engine.effects import PerformActivity
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityError, ActivityOutcome
from tests.waiting import SECONDS_MAX

__all__ = ["bounded", "call_of", "done", "error"]

T = TypeVar("T")


def bounded(work: Coroutine[Any, Any, T], seconds: float = SECONDS_MAX) -> T:
    """Run async code; a test that hangs fails instead."""

    async def main() -> T:
        async with asyncio.timeout(seconds):
            return await work

    return asyncio.run(main())


def call_of(
    node_type: str, config: JsonObject, arguments: JsonValue = None, *, timeout_ms: int | None = None, attempt: int = 1
) -> ActivityCall:
    activity = PerformActivity(
        effect_id="r_1/pay/1/1",
        idempotency_key="r_1/pay/1",
        node_id="pay",
        visit=1,
        attempt=attempt,
        node_type=node_type,
        config=config,
        arguments=arguments,
        timeout_ms=timeout_ms,
        deadline=1_000,
    )
    return ActivityCall(run_id="r_1", workflow_name="refund_order", activity=activity, values={"seen": 1})


def done(outcome: ActivityOutcome) -> JsonValue:
    """The result of an activity that must have gone well."""
    assert isinstance(outcome, ActivityDone), outcome
    return outcome.result


def error(outcome: ActivityOutcome) -> ActivityError:
    """The failure of an activity that must have failed."""
    assert isinstance(outcome, ActivityError), outcome
    return outcome
