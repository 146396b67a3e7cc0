"""Steps on the loop, on threads and in processes: results, failures, cancelling, and what they say on the way."""

import asyncio
import contextvars
import logging
import os
import select
import threading
from collections.abc import Callable
from typing import Any

import pytest

from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.activities.performing import ActivityCall, ActivityError, ActivityOutcome
from penstock.runtime.executors.step.executor import StepExecutor
from penstock.runtime.steps.registry import StepContext, StepFailed, StepRegistry, step
from tests.unit.runtime.executors import process_steps
from tests.unit.runtime.executors.calls import bounded, call_of, done, error
from tests.waiting import SECONDS_MAX


class Ears:
    """Remembers what steps say, and lets a test wait for it."""

    def __init__(self) -> None:
        self.heard: list[tuple[JsonValue, ...]] = []
        self.event = asyncio.Event()

    def heartbeat(self, call: ActivityCall, details: JsonValue) -> None:
        self.heard.append(("heartbeat", call.activity.node_id, details))
        self.event.set()

    def progress(self, call: ActivityCall, value: float, message: str | None) -> None:
        self.heard.append(("progress", call.activity.node_id, value, message))
        self.event.set()

    def log(self, call: ActivityCall, level: int, message: str) -> None:
        self.heard.append(("log", call.activity.node_id, level, message))
        self.event.set()


def executor_of(*functions: Callable[..., Any], **options: Any) -> StepExecutor:
    registry = StepRegistry()
    for function in functions:
        registry.register(function)
    return StepExecutor(registry, **options)


def step_call(function: Callable[..., Any] | str, arguments: JsonValue = None) -> ActivityCall:
    handler = function if isinstance(function, str) else f"{function.__module__}:{function.__qualname__}"
    return call_of("step", {"handler": handler}, arguments)


def perform(function: Callable[..., Any], arguments: JsonValue = None, **options: Any) -> ActivityOutcome:
    async def work() -> ActivityOutcome:
        executor = executor_of(function, **options)
        try:
            return await executor.perform(step_call(function, arguments))
        finally:
            await executor.close()

    return bounded(work())


# --- on the loop ------------------------------------------------------------------------------------


def test_an_async_function_runs_on_the_loop() -> None:
    async def refund(amount: float) -> JsonObject:
        return {"amount": amount, "thread": threading.get_ident()}

    assert done(perform(refund, {"amount": 20})) == {"amount": 20.0, "thread": threading.get_ident()}


def test_a_step_knows_its_call() -> None:
    async def look(context: StepContext) -> JsonObject:
        return {
            "run": context.run_id,
            "workflow": context.workflow_name,
            "node": context.node_id,
            "visit": context.visit,
            "attempt": context.attempt,
            "key": context.idempotency_key,
            "epoch": context.epoch,
            "deadline": context.deadline,
            "state": context.state,
            "cancelled": context.cancelled,
        }

    assert done(perform(look)) == {
        "run": "r_1",
        "workflow": "refund_order",
        "node": "pay",
        "visit": 1,
        "attempt": 1,
        "key": "r_1/pay/1",
        "epoch": 0,
        "deadline": 1_000,
        "state": {"seen": 1},
        "cancelled": False,
    }


def test_a_parameter_called_context_needs_no_annotation() -> None:
    async def look(context):  # type: ignore[no-untyped-def]
        return context.node_id

    assert done(perform(look)) == "pay"


def test_a_step_may_fail_with_a_code_of_its_own() -> None:
    async def pay() -> None:
        raise StepFailed("CARD_DECLINED", "no money", retryable=False)

    failure = error(perform(pay))
    assert (failure.code, failure.error, failure.retryable) == ("CARD_DECLINED", "no money", False)


def test_an_exception_becomes_an_error_without_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def pay() -> None:
        raise ZeroDivisionError("nothing to divide by")

    with caplog.at_level(logging.WARNING, "penstock.step"):
        failure = error(perform(pay))
    assert (failure.code, failure.retryable) == ("HANDLER_ERROR", True)
    assert failure.error == "ZeroDivisionError: nothing to divide by"
    [record] = caplog.records
    assert record.exc_info is not None
    assert vars(record)["run_id"] == "r_1"


def test_leaving_the_interpreter_is_a_failure_of_the_step_alone() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    assert error(perform(leave)).code == "HANDLER_ERROR"


def test_a_long_error_text_is_cut() -> None:
    async def pay() -> None:
        raise ValueError("x" * 10_000)

    assert len(error(perform(pay)).error) == 2_000


def test_a_result_that_is_not_json_is_a_final_failure() -> None:
    async def pay() -> object:
        return {"socket": object()}

    failure = error(perform(pay))
    assert (failure.code, failure.retryable) == ("VALUE_NOT_JSON", False)
    assert "dict" in failure.error


def test_a_result_with_a_number_that_json_does_not_have_is_a_final_failure() -> None:
    async def rate() -> object:
        return {"rates": [1.5, float("nan")], "none": None}

    failure = error(perform(rate))
    assert (failure.code, failure.retryable) == ("VALUE_NOT_JSON", False)
    assert "nan at /rates/1 is not a number in JSON" in failure.error


def test_arguments_that_do_not_fit_are_told_and_final() -> None:
    async def pay(amount: float) -> None: ...

    failure = error(perform(pay, {"amount": "much"}))
    assert (failure.code, failure.retryable) == ("STEP_CONFIG_INVALID", False)
    assert "`amount`" in failure.error


def test_an_unknown_handler_is_named_with_a_suggestion() -> None:
    @step(name="shop.payments:refund")
    async def refund() -> None: ...

    executor = executor_of(refund)
    failure = error(bounded(executor.perform(step_call("shop.payments:refnud"))))
    assert (failure.code, failure.retryable) == ("HANDLER_NOT_FOUND", False)
    assert "did you mean `shop.payments:refund`?" in failure.error


def test_a_step_without_a_handler_is_told() -> None:
    outcome = bounded(executor_of().perform(call_of("step", {"code_ref": "x"})))
    assert error(outcome).code == "STEP_CONFIG_INVALID"


def test_cancelling_reaches_an_async_step() -> None:
    async def work() -> tuple[bool, bool]:
        began, seen = asyncio.Event(), []

        async def forever(context: StepContext) -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                seen.append(context.cancelled)

        executor = executor_of(forever)
        task = asyncio.ensure_future(executor.perform(step_call(forever)))
        await began.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return task.cancelled(), seen == [True]

    assert bounded(work()) == (True, True)


def test_a_step_that_cancels_something_of_its_own_has_failed_and_is_not_lost() -> None:
    async def inner() -> None:
        task = asyncio.ensure_future(asyncio.Event().wait())
        task.cancel()
        await task

    assert error(perform(inner)).code == "HANDLER_ERROR"


def test_an_async_step_speaks_to_the_observer() -> None:
    async def work() -> list[tuple[JsonValue, ...]]:
        async def talk(context: StepContext) -> None:
            context.heartbeat({"row": 3})
            context.progress(0.25)

        ears = Ears()
        done(await executor_of(talk, observer=ears).perform(step_call(talk)))
        return ears.heard

    assert bounded(work()) == [("heartbeat", "pay", {"row": 3}), ("progress", "pay", 0.25, None)]


# --- on threads -------------------------------------------------------------------------------------

who = contextvars.ContextVar("who", default="nobody")


def test_a_plain_function_runs_on_a_thread_with_the_context_of_its_caller() -> None:
    def look() -> JsonObject:
        return {"elsewhere": threading.get_ident() != main, "who": who.get()}

    main = threading.get_ident()
    token = who.set("me")
    try:
        assert done(perform(look)) == {"elsewhere": True, "who": "me"}
    finally:
        who.reset(token)


def test_failures_on_a_thread_are_told_like_others() -> None:
    def pay() -> None:
        raise StepFailed("CARD_DECLINED", "no money")

    def leave() -> None:
        raise SystemExit(3)

    assert error(perform(pay)).code == "CARD_DECLINED"
    assert error(perform(leave)).code == "HANDLER_ERROR"


def test_cancelling_sets_the_token_of_a_step_on_a_thread() -> None:
    async def work() -> bool:
        ears, ended, seen = Ears(), threading.Event(), []

        def forever(context: StepContext) -> None:
            context.heartbeat()
            seen.append(context.wait_cancelled(60))
            try:
                context.raise_if_cancelled()
            finally:
                ended.set()

        executor = executor_of(forever, observer=ears)
        task = asyncio.ensure_future(executor.perform(step_call(forever)))
        await ears.event.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        assert await asyncio.to_thread(ended.wait, 30)
        await executor.close()
        return seen == [True]

    assert bounded(work())


def test_there_are_never_more_threads_than_allowed_and_work_waits_its_turn() -> None:
    async def work() -> tuple[int, int]:
        running, most, lock = 0, 0, threading.Lock()
        both = threading.Barrier(2)

        def busy() -> None:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            both.wait(SECONDS_MAX)
            with lock:
                running -= 1

        executor = executor_of(busy, threads=2)
        outcomes = await asyncio.gather(*(executor.perform(step_call(busy)) for _ in range(10)))
        await executor.close()
        return most, len([done(outcome) for outcome in outcomes])

    assert bounded(work()) == (2, 10)


def test_work_that_is_cancelled_before_its_turn_is_never_begun() -> None:
    async def work() -> int:
        calls, release, ears = [], threading.Event(), Ears()

        def busy(context: StepContext) -> None:
            calls.append(1)
            context.heartbeat()
            release.wait(SECONDS_MAX)

        executor = executor_of(busy, threads=1, observer=ears)
        first = asyncio.ensure_future(executor.perform(step_call(busy)))
        await ears.event.wait()
        second = asyncio.ensure_future(executor.perform(step_call(busy)))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        release.set()
        done(await first)
        done(await executor.perform(step_call(busy)))  # the queue has passed the second
        await executor.close()
        return len(calls)

    assert bounded(work()) == 2


# --- in processes -------------------------------------------------------------------------------------


def test_a_step_in_a_process_gives_results_and_its_worker_is_used_again() -> None:
    async def work() -> list[JsonValue]:
        executor = executor_of(process_steps.add, processes=1)
        call = step_call(process_steps.add, {"one": 1, "other": 2})
        results = [done(await executor.perform(call)) for _ in range(2)]
        await executor.close()
        return results

    first, second = bounded(work())
    assert first == second
    assert isinstance(first, dict)
    assert first["total"] == 3
    assert first["process"] != os.getpid()


def test_other_functions_are_called_from_now_on_and_in_other_processes() -> None:
    async def work() -> list[JsonValue]:
        executor = executor_of(process_steps.add, processes=1)
        call = step_call(process_steps.add, {"one": 1, "other": 2})
        results = [done(await executor.perform(call))]
        registry = StepRegistry()
        registry.register(process_steps.add)
        executor.use(registry)
        results.append(done(await executor.perform(call)))
        executor.use(StepRegistry())
        unknown = await executor.perform(call)
        assert isinstance(unknown, ActivityError)
        assert unknown.code == "HANDLER_NOT_FOUND"
        await executor.close()
        return results

    first, second = bounded(work())
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert (first["total"], second["total"]) == (3, 3)
    assert first["process"] != second["process"]


def test_a_step_in_a_process_has_a_context_and_is_heard() -> None:
    async def work() -> tuple[JsonValue, list[tuple[JsonValue, ...]]]:
        ears = Ears()
        executor = executor_of(process_steps.where, processes=1, observer=ears)
        result = done(await executor.perform(step_call("where.am.i")))
        await executor.close()
        return result, ears.heard

    result, heard = bounded(work())
    assert isinstance(result, dict)
    assert (result["run"], result["key"]) == ("r_1", "r_1/pay/1")
    assert heard == [("heartbeat", "pay", {"at": 1}), ("progress", "pay", 0.5, "half")]


def test_failures_in_a_process_are_told_like_others_and_a_crash_is_survived(caplog: pytest.LogCaptureFixture) -> None:
    names = ("fail", "raise_bug", "leave", "crash", "add")

    async def work() -> list[ActivityOutcome]:
        executor = executor_of(*(getattr(process_steps, name) for name in names), processes=1)
        outcomes = [await executor.perform(step_call(getattr(process_steps, name))) for name in names]
        await executor.close()
        return outcomes

    with caplog.at_level(logging.WARNING, "penstock.step"):
        failures = [error(outcome) for outcome in bounded(work())]
    assert [(item.code, item.retryable) for item in failures] == [
        ("CARD_DECLINED", False),
        ("HANDLER_ERROR", True),
        ("HANDLER_ERROR", True),
        ("STEP_PROCESS_DIED", True),
        ("STEP_CONFIG_INVALID", False),
    ]
    assert "exit code 7" in failures[3].error
    assert "Traceback" in caplog.text
    assert all("Traceback" not in item.error for item in failures)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs a handle on a process")
def test_cancelling_kills_the_process_and_the_next_step_gets_a_new_one() -> None:
    async def work() -> JsonValue:
        ears = Ears()
        executor = executor_of(process_steps.spin, process_steps.add, processes=1, observer=ears)
        task = asyncio.ensure_future(executor.perform(step_call(process_steps.spin)))
        await ears.event.wait()
        process = ears.heard[0][2]
        assert isinstance(process, int)
        handle = os.pidfd_open(process)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        ended, _, _ = await asyncio.to_thread(select.select, [handle], [], [], 30)
        os.close(handle)
        assert ended, "the process is still there"
        result = done(await executor.perform(step_call(process_steps.add, {"one": 1, "other": 1})))
        await executor.close()
        return result

    result = bounded(work())
    assert isinstance(result, dict)
    assert result["total"] == 2
