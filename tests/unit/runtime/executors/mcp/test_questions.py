"""Questions of MCP servers: answered over the open connection, by another call, or after the connection was lost."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import Context
from pathlib import Path

import mcp_types as types
import pytest
from mcp_types import CreateMessageRequestParams, ElicitRequestFormParams, ElicitRequestURLParams, ErrorData
from msgspec.structs import replace

from penstock.base.json import JsonValue
from penstock.runtime.activities.performing import ActivityAsks, ActivityCall, ActivityError, ActivityOutcome
from penstock.runtime.executors.mcp.config import McpServerConfig, command_name
from penstock.runtime.executors.mcp.executor import McpToolExecutor
from penstock.runtime.executors.mcp.lending import LentToCall
from penstock.runtime.executors.mcp.questions import ElicitationRouter, LiveCall, ResumeState, next_question, resumed
from tests.fixtures.upstream_server import CONFIRM, make_upstream
from tests.unit.runtime.executors.asgi_server import serving_asgi
from tests.unit.runtime.executors.calls import bounded, call_of, done, error

SERVER = Path(__file__).parents[4] / "fixtures" / "upstream_server.py"


def order(item: str = "tea") -> ActivityCall:
    return call_of("tool_call", {"server": "shop", "tool": "order"}, {"item": item}, timeout_ms=240_000)


def again(call: ActivityCall, asked: ActivityOutcome, answer: JsonValue, *, at_most_once: bool = False) -> ActivityCall:
    """The same attempt, handed out again with the answer."""
    assert isinstance(asked, ActivityAsks), asked
    activity = replace(call.activity, resume=asked.resume, answer=answer, round=1, at_most_once=at_most_once)
    return replace(call, activity=activity)


@asynccontextmanager
async def executor_of(config: McpServerConfig) -> AsyncIterator[McpToolExecutor]:
    executor = McpToolExecutor({"shop": config}, allow_commands=(command_name(sys.executable),))
    try:
        yield executor
    finally:
        await executor.close()


@asynccontextmanager
async def shop(protocol: str = "auto") -> AsyncIterator[McpServerConfig]:
    async with serving_asgi(make_upstream().streamable_http_app()) as address:
        yield McpServerConfig(url=f"{address}/mcp", protocol=protocol)


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
def test_an_answer_is_of_use_after_the_process_that_asked_is_gone(protocol: str) -> None:
    async def work() -> None:
        async with shop(protocol) as config:
            async with executor_of(config) as first:
                asked = await first.perform(order())
            async with executor_of(config) as second:
                assert done(await second.perform(again(order(), asked, {"confirmed": True}))) == {"text": "ordered tea"}

    bounded(work())


def test_what_must_not_happen_twice_is_not_called_again_for_an_answer() -> None:
    async def work() -> None:
        async with shop("legacy") as config:
            async with executor_of(config) as first:
                asked = await first.perform(order())
            async with executor_of(config) as second:
                retired = error(await second.perform(again(order(), asked, {"confirmed": True}, at_most_once=True)))
                assert (retired.code, retired.retryable) == ("MCP_QUESTION_LOST", False)

    bounded(work())


def test_questions_of_calls_at_once_come_to_their_own_calls_over_http() -> None:
    async def work() -> None:
        async with shop("legacy") as config, executor_of(config) as executor:
            items = ("tea", "oil", "rye")
            asked = await asyncio.gather(*(executor.perform(order(item)) for item in items))
            for item, question in zip(items, asked, strict=True):
                assert isinstance(question, ActivityAsks)
                assert question.question == f"shop/order asks: Really order {item}?"
            ended = [
                executor.perform(again(order(item), question, {"confirmed": item != "oil"}))
                for item, question in zip(items, asked, strict=True)
            ]
            results = [done(outcome) for outcome in await asyncio.gather(*ended)]
            assert results == [{"text": "ordered tea"}, {"text": "left oil"}, {"text": "ordered rye"}]

    bounded(work())


def form(message: str) -> ElicitRequestFormParams:
    return ElicitRequestFormParams(message=message, requested_schema=CONFIRM)


def apart(elicitations: ElicitationRouter, message: str) -> asyncio.Task[types.ElicitResult | ErrorData]:
    """A question that comes from a pipe: what happens then belongs to no call."""
    return asyncio.create_task(elicitations.asked(None, form(message)), context=Context())


def at_work() -> LiveCall:
    call = LiveCall()
    call.task = asyncio.create_task(asyncio.Event().wait())  # type: ignore[arg-type]
    return call


def test_a_question_on_a_pipe_waits_until_it_is_clear_whose_it_is() -> None:
    async def work() -> None:
        elicitations, one, other = ElicitationRouter(), at_work(), at_work()
        async with elicitations.at_work(one):
            async with elicitations.at_work(other):
                asking = apart(elicitations, "sure?")
                for _ in range(5):
                    await asyncio.sleep(0)
                assert not asking.done()
            await one.settled()
            one.answer({"confirmed": True})
            answer = await asking
        assert isinstance(answer, types.ElicitResult)
        assert answer.content == {"confirmed": True}
        assert isinstance(await apart(elicitations, "nobody"), ErrorData)

    bounded(work())


def test_two_questions_that_cannot_be_told_apart_are_not_answered() -> None:
    async def work() -> None:
        elicitations, one, other = ElicitationRouter(), at_work(), at_work()
        async with elicitations.at_work(one), elicitations.at_work(other):
            both = await asyncio.gather(apart(elicitations, "a"), apart(elicitations, "b"))
        assert all(isinstance(item, ErrorData) for item in both)

    bounded(work())


def test_calls_of_a_server_that_asks_on_a_pipe_take_turns() -> None:
    async def work() -> None:
        elicitations = ElicitationRouter()
        ended: list[str] = []

        async def through(call: LiveCall, name: str) -> None:
            async with elicitations.at_work(call):
                asking = apart(elicitations, name)
                await call.settled()
                call.answer({"confirmed": True})
                await asking
                ended.append(name)

        await through(at_work(), "alone")  # from now on it is known that the server asks
        await asyncio.gather(through(at_work(), "first"), through(at_work(), "second"))
        assert sorted(ended) == ["alone", "first", "second"]

    bounded(work())


def test_several_questions_of_one_answer_are_asked_one_by_one_and_answered_together() -> None:
    request = types.ElicitRequest(params=form("first?")).model_dump(mode="json", by_alias=True, exclude_none=True)
    link = types.ElicitRequest(params=ElicitRequestURLParams(message="Pay.", url="https://pay.example/1"))
    elsewhere = link.model_dump(mode="json", by_alias=True, exclude_none=True)
    first = next_question("shop/pay", ResumeState(state="s", requests={"b": request, "a": elsewhere}))
    assert isinstance(first, ActivityAsks)
    assert first.question == "shop/pay asks: first?"
    kept = resumed(first.resume, {"confirmed": True})
    second = next_question("shop/pay", kept)
    assert isinstance(second, ActivityAsks)
    assert "https://pay.example/1" in second.question
    complete = resumed(second.resume, {"done": False})
    assert complete.open() is None
    assert complete.state == "s"
    responses = complete.input_responses() or {}
    assert (responses["b"].action, responses["b"].content) == ("accept", {"confirmed": True})
    assert responses["a"].action == "decline"


def test_a_server_may_ask_only_for_what_it_was_told_that_we_can_do() -> None:
    refused = next_question("shop/pay", ResumeState(requests={"a": {"method": "roots/list"}}))
    assert isinstance(refused, ActivityError)
    assert refused.code == "MCP_PROTOCOL_ERROR"


def test_an_attempt_that_begins_has_nothing_to_go_on_with() -> None:
    assert resumed(None, None) == ResumeState()


class Lent(LentToCall):
    """Lends a model that answers when it is let."""

    async def sample(self, params: CreateMessageRequestParams) -> types.CreateMessageResult | ErrorData:
        await asyncio.sleep(0)
        content = types.TextContent(type="text", text="said")
        return types.CreateMessageResult(role="assistant", content=content, model="lent")


def test_a_server_that_asks_several_things_at_once_gets_all_answers_and_its_call_ends() -> None:
    async def work() -> None:
        elicitations, call = ElicitationRouter(), at_work()
        call.lent = Lent(server="shop")
        async with elicitations.at_work(call):
            wanted = [elicitations.sampled(None, number) for number in range(3)]
            asked = [asyncio.create_task(item, context=Context()) for item in wanted]
            answers = await asyncio.gather(*asked)
            assert [isinstance(answer, types.CreateMessageResult) for answer in answers] == [True] * 3
        async with elicitations.at_work(at_work()):
            pass  # the next call gets its turn

    bounded(work())


def test_nothing_is_asked_or_listed_outside_of_a_call() -> None:
    async def has_call(elicitations: ElicitationRouter) -> bool:
        return elicitations.has_call()

    async def work() -> None:
        elicitations, call = ElicitationRouter(), at_work()
        assert not elicitations.has_call()
        for asked in (elicitations.sampled(None, "hello"), elicitations.asked(None, form("hello"))):
            assert isinstance(await asked, ErrorData)
        async with elicitations.at_work(call):
            assert elicitations.has_call()
            elicitations.only_named = True
            assert elicitations.has_call()
            assert not await asyncio.create_task(has_call(elicitations), context=Context())
        assert not elicitations.has_call()

    bounded(work())
