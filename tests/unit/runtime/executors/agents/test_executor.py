"""Delegation to agents: the A2A standard against a real server, the simple task API, MCP tools and functions."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.engine.state import RunState
from penstock.runtime.activities.performing import (
    ActivityAsks,
    ActivityCall,
    ActivityDone,
    ActivityError,
    ActivityOutcome,
)
from penstock.runtime.executors.agents.a2a import A2aClients, AgentStatus, StatusListener
from penstock.runtime.executors.agents.executor import AgentConfig, AgentExecutor, McpAgent, SdkAgent, TaskApiAgent
from penstock.runtime.executors.agents.port import A2aAgent, AgentTask
from penstock.runtime.executors.agents.task_api import TaskApiDelegate
from penstock.runtime.executors.mcp.config import McpServerConfig, command_name
from penstock.runtime.executors.mcp.executor import McpToolExecutor
from tests.fixtures.a2a_agent import Agent, agent_app
from tests.unit.runtime.executors.asgi_server import serving_asgi, unused_port
from tests.unit.runtime.executors.calls import bounded, call_of, done, error
from tests.unit.runtime.executors.web_server import Answer, Seen, serving
from tests.zygote import piped_script

FIXTURES = Path(__file__).parents[4] / "fixtures"
CORRELATION = "r_1:delegate:pay"
JSON = {"content-type": "application/json"}


def delegation(
    given: JsonValue, *, protocol: str = "a2a", agent_id: str = "reviewer", timeout_ms: int = 240_000
) -> ActivityCall:
    """A delegation as the engine asks for it, native: with rendered arguments."""
    call = call_of("agent_delegate", {"agent_id": agent_id, "protocol": protocol}, given, timeout_ms=timeout_ms)
    delegate: JsonObject = {
        "agentId": agent_id,
        "protocol": protocol,
        "delegateInput": given,
        "delegateCorrelationId": CORRELATION,
    }
    return replace(call, activity=replace(call.activity, delegate=delegate))


def extra(outcome: ActivityOutcome) -> JsonObject:
    assert isinstance(outcome, ActivityDone), outcome
    return outcome.extra or {}


@asynccontextmanager
async def a2a(
    agent: Agent,
    *,
    streaming: bool = True,
    card_leads_to: str | None = None,
    key: str | None = None,
    on_status: StatusListener | None = None,
    **config: Any,
) -> AsyncIterator[AgentExecutor]:
    port = unused_port()
    rpc_url = card_leads_to or f"http://127.0.0.1:{port}/rpc"
    app = agent_app(agent, streaming=streaming, rpc_url=rpc_url, key=key)
    async with serving_asgi(app, port) as address:
        configured = A2aAgent(url=address, poll_interval_ms=10, **config)
        executor = AgentExecutor({"reviewer": configured}, a2a=A2aClients(on_status))
        try:
            yield executor
        finally:
            await executor.close()


def ask(given: JsonValue, **options: Any) -> tuple[ActivityOutcome, Agent]:
    async def work() -> tuple[ActivityOutcome, Agent]:
        agent = Agent()
        async with a2a(agent, **options) as executor:
            return await executor.perform(delegation(given)), agent

    return bounded(work())


@pytest.mark.parametrize("streaming", [True, False])
def test_an_a2a_agent_is_given_a_task_and_its_data_is_the_result(streaming: bool) -> None:
    outcome, agent = ask({"do": "review", "diff": "-1 +1"}, streaming=streaming)
    assert done(outcome) == {"verdict": "approve", "remarks": 2}
    told = extra(outcome)
    assert (told["delegateCorrelationId"], told["untrusted"]) == (CORRELATION, True)
    assert isinstance(told["externalTaskId"], str)
    [message] = agent.seen
    assert message.message_id == "r_1/pay/1"
    assert message.metadata["delegateCorrelationId"] == CORRELATION


@pytest.mark.parametrize("streaming", [True, False])
def test_what_an_agent_writes_in_pieces_is_put_together(streaming: bool) -> None:
    outcome, _ = ask("write", streaming=streaming)
    assert done(outcome) == {"text": "a b c"}
    outcome, _ = ask({"do": "both"}, streaming=streaming)
    parts = done(outcome)
    assert isinstance(parts, dict)
    assert [sorted(part)[0] for part in parts["parts"]] == ["text", "data"]  # type: ignore[union-attr, arg-type]


def test_an_agent_may_answer_at_once_without_a_task() -> None:
    outcome, _ = ask({"do": "answer at once"})
    assert done(outcome) == {"text": "here"}


def answered(call: ActivityCall, asked: ActivityOutcome, answer: JsonValue) -> ActivityCall:
    """The same delegation as the engine hands it out after the answer."""
    assert isinstance(asked, ActivityAsks), asked
    activity = replace(call.activity, round=call.activity.round + 1, resume=asked.resume, answer=answer)
    return replace(call, activity=activity)


@pytest.mark.parametrize("streaming", [True, False])
def test_an_agent_that_asks_back_asks_a_person_and_gets_the_answer_in_the_same_task(streaming: bool) -> None:
    async def work() -> None:
        agent = Agent()
        async with a2a(agent, streaming=streaming) as executor:
            call = delegation({"do": "ask"})
            asked = await executor.perform(call)
            assert isinstance(asked, ActivityAsks)
            assert asked.question == "Which branch?"
            assert asked.answer_schema["required"] == ["text"]
            call = answered(call, asked, {"text": "you tell me"})
            asked = await executor.perform(call)
            assert isinstance(asked, ActivityAsks)
            assert asked.question == "main or next?"
            call = answered(call, asked, {"text": "next", "sure": True})
            outcome = await executor.perform(call)
            assert done(outcome) == {"branch": "next", "beside": [{"sure": True}]}
            _, second, third = agent.seen
            assert second.task_id == third.task_id == extra(outcome)["externalTaskId"]
            assert [item.message_id for item in agent.seen] == ["r_1/pay/1", "r_1/pay/1/1", "r_1/pay/1/2"]
            assert second.metadata["delegateCorrelationId"] == CORRELATION

    bounded(work())


def test_an_answer_that_the_agent_has_already_is_not_sent_again() -> None:
    async def work() -> None:
        agent = Agent()
        async with a2a(agent) as executor:
            call = delegation({"do": "ask"})
            call = answered(call, await executor.perform(call), {"text": "main"})
            once = done(await executor.perform(call))
            again = done(await executor.perform(call))  # as after a crash: the result was not stored
            assert once == again == {"branch": "main", "beside": []}
            assert len(agent.seen) == 2

    bounded(work())


def test_a_second_question_is_found_by_a_process_that_sent_the_answer_to_the_first_before_it_died() -> None:
    async def work() -> None:
        agent = Agent()
        async with a2a(agent) as executor:
            call = delegation({"do": "ask"})
            call = answered(call, await executor.perform(call), {"text": "you tell me"})
            questions = [await executor.perform(call), await executor.perform(call)]
            assert questions[0] == questions[1]
            assert len(agent.seen) == 2

    bounded(work())


def test_a_task_that_the_agent_has_forgotten_is_begun_anew_by_another_attempt() -> None:
    async def work() -> None:
        async with a2a(Agent()) as executor:
            call = delegation({"do": "ask"})
            gone = ActivityAsks("?", {}, {"taskId": "no-such-task", "contextId": "c", "messageId": "m"})
            failed = error(await executor.perform(answered(call, gone, {"text": "main"})))
            assert (failed.code, failed.retryable) == ("A2A_TASK_FAILED", True)

    bounded(work())


def test_an_answer_without_a_task_goes_with_a_new_one() -> None:
    async def work() -> None:
        agent = Agent()
        async with a2a(agent) as executor:
            call = answered(delegation({"do": "review"}), ActivityAsks("?", {}), {"text": "main"})
            done(await executor.perform(call))
            [message] = agent.seen
            assert [part.WhichOneof("content") for part in message.parts] == ["data", "text"]

    bounded(work())


def test_a_task_is_cancelled_at_the_agent_after_an_answer_too() -> None:
    async def work() -> None:
        agent = Agent()
        async with a2a(agent) as executor:
            call = delegation({"do": "ask"})
            call = answered(call, await executor.perform(call), {"text": "wait"})
            activity = asyncio.create_task(executor.perform(call))
            await agent.waiting.wait()
            activity.cancel()
            with pytest.raises(asyncio.CancelledError):
                await activity
            await agent.cancelled.wait()

    bounded(work())


@pytest.mark.parametrize(
    ("wanted", "code", "retryable", "text"),
    [
        ("fail", "A2A_TASK_FAILED", True, "the diff is empty"),
        ("reject", "A2A_TASK_FAILED", False, "not my job"),
        ("login", "A2A_CREDENTIALS_MISSING", False, "Sign in first."),
    ],
)
def test_a_task_that_does_not_succeed_has_a_code_and_the_agents_words(
    wanted: str, code: str, retryable: bool, text: str
) -> None:
    outcome, _ = ask({"do": wanted})
    failed = error(outcome)
    assert (failed.code, failed.retryable) == (code, retryable)
    assert text in failed.error
    assert failed.extra is not None
    assert failed.extra["delegateCorrelationId"] == CORRELATION
    assert failed.extra["externalTaskId"]


@pytest.mark.parametrize("streaming", [True, False])
def test_a_task_that_takes_too_long_is_cancelled_at_the_agent(streaming: bool) -> None:
    async def work() -> None:
        agent = Agent()
        async with a2a(agent, streaming=streaming) as executor:
            done(await executor.perform(delegation("write")))  # the card is known
            late = error(await executor.perform(delegation("wait", timeout_ms=1_000)))
            assert (late.code, late.retryable) == ("ACTIVITY_TIMEOUT", True)
            await agent.cancelled.wait()

    bounded(work())


def test_a_delegation_that_is_cancelled_is_cancelled_at_the_agent() -> None:
    async def work() -> None:
        agent, working = Agent(), asyncio.Event()

        def listen(task: AgentTask, status: AgentStatus) -> None:
            if (task.input, status.state) == ("wait", "working"):
                working.set()

        async with a2a(agent, on_status=listen) as executor:
            activity = asyncio.create_task(executor.perform(delegation("wait")))
            await working.wait()
            done(await executor.perform(delegation("write")))  # others go on meanwhile
            activity.cancel()
            with pytest.raises(asyncio.CancelledError):
                await activity
            await agent.cancelled.wait()

    bounded(work())


def test_the_key_is_sent_and_a_refused_key_is_named() -> None:
    outcome, _ = ask("write", key="k1", api_key="k1")
    done(outcome)
    outcome, _ = ask("write", key="k1", api_key="k2")
    failed = error(outcome)
    assert (failed.code, failed.retryable) == ("A2A_CREDENTIALS_MISSING", False)
    assert "k2" not in failed.error


def test_a_card_that_leads_elsewhere_is_not_followed() -> None:
    outcome, _ = ask("write", card_leads_to="https://elsewhere.example/rpc", api_key="k1")
    failed = error(outcome)
    assert (failed.code, failed.retryable) == ("A2A_CONFIG_INVALID", False)
    assert "elsewhere.example" in failed.error


def test_an_agent_that_is_not_there_may_be_tried_again() -> None:
    async def work() -> ActivityError:
        agents: dict[str, AgentConfig] = {"reviewer": A2aAgent(url=f"http://127.0.0.1:{unused_port()}")}
        return error(await AgentExecutor(agents, a2a=A2aClients()).perform(delegation("write")))

    failed = bounded(work())
    assert (failed.code, failed.retryable) == ("A2A_PROVIDER_ERROR", True)


@pytest.mark.parametrize(
    ("wanted", "schema", "result"),
    [
        ("write json", {"type": "object"}, {"verdict": "approve"}),
        ("write json", None, {"text": '{"verdict": "approve"}'}),
        ("write", {"type": "object"}, {"text": "a b c"}),  # not JSON: the engine will hold it against the schema
    ],
)
def test_json_in_the_text_of_an_agent_counts_where_json_is_wanted(
    wanted: str, schema: JsonObject | None, result: JsonValue
) -> None:
    async def work() -> JsonValue:
        async with a2a(Agent()) as executor:
            call = delegation(wanted)
            call = replace(call, activity=replace(call.activity, output_schema=schema))
            return done(await executor.perform(call))

    assert bounded(work()) == result


# --- the simple task API -----------------------------------------------------------------------------


def task_api(
    statuses: list[JsonObject], *, timeout_ms: int = 240_000, **config: Any
) -> tuple[ActivityOutcome, list[Seen]]:
    async def work() -> tuple[ActivityOutcome, list[Seen]]:
        left = iter(statuses)

        def respond(seen: Seen) -> Answer:
            if seen.headers.get("authorization") != "Bearer k1":
                return Answer(401)
            if seen.method == "POST":
                return Answer(201, b'{"id": "task/1", "status": "submitted"}', JSON)
            return Answer(200, json.dumps(next(left)).encode(), JSON)

        async with serving(respond) as server:
            given: dict[str, Any] = {"api_key": "k1", "poll_interval_ms": 1, **config}
            agent = TaskApiAgent(base_url=server.url("").rstrip("/"), **given)
            executor = AgentExecutor({"reviewer": agent})
            try:
                outcome = await executor.perform(delegation({"diff": "x"}, timeout_ms=timeout_ms))
                return outcome, list(server.seen)
            finally:
                await executor.close()

    return bounded(work())


@pytest.mark.parametrize(
    ("output", "headers", "code"),
    [
        (b'"' + b"x" * limits.AGENT_ANSWER_BYTES_MAX + b'"', {}, "A2A_RESULT_TOO_LARGE"),
        (b"[" + b"[]," * limits.UPSTREAM_ANSWER_TOKENS_MAX + b"1]", {}, "A2A_RESULT_TOO_LARGE"),
        (b'"small"', {"content-encoding": "gzip"}, "A2A_PROVIDER_ERROR"),
        (b'"small"', {}, None),
    ],
)
def test_who_waits_for_a_task_in_a_thread_reads_no_more_than_is_taken(
    output: bytes, headers: dict[str, str], code: str | None
) -> None:
    async def work() -> ActivityOutcome:
        def respond(seen: Seen) -> Answer:
            made = seen.method == "POST"
            told = b'{"id": "t"}' if made else b'{"status": "completed", "output": ' + output + b"}"
            return Answer(201, told, JSON) if made else Answer(200, told, {**JSON, **headers})

        async with serving(respond) as server:
            host = TaskApiDelegate(base_url=server.url("").rstrip("/"), api_key="k1", poll_interval_ms=1)
            call = delegation({"diff": "x"})
            return await asyncio.to_thread(host.perform, RunState(), call.activity)

    outcome = bounded(work())
    assert (error(outcome).code if code is not None else None) == code
    if code is None:
        assert done(outcome) == "small"


def test_the_simple_task_api_is_polled_to_the_end() -> None:
    outcome, seen = task_api([{"status": "working"}, {"status": "completed", "output": {"patch": "p"}}])
    assert done(outcome) == {"patch": "p"}
    assert extra(outcome) == {"delegateCorrelationId": CORRELATION, "externalTaskId": "task/1", "untrusted": True}
    assert json.loads(seen[0].body) == {"agent_id": "reviewer", "correlation_id": CORRELATION, "input": {"diff": "x"}}
    assert seen[0].headers["idempotency-key"] == "r_1/pay/1"
    assert [request.target for request in seen[1:]] == ["/tasks/task%2F1"] * 2


@pytest.mark.parametrize(
    ("statuses", "config", "code"),
    [
        ([{"status": "failed", "error": "broken"}], {}, "A2A_TASK_FAILED"),
        ([{"status": "input-required"}], {}, "A2A_TASK_FAILED"),
        ([], {"api_key": "wrong"}, "A2A_CREDENTIALS_MISSING"),
        ([], {"api_key": None}, "A2A_CREDENTIALS_MISSING"),
        ([{"status": "working"}] * 100_000, {"poll_interval_ms": 50, "timeout_ms": 500}, "ACTIVITY_TIMEOUT"),
    ],
)
def test_a_task_of_the_simple_api_that_does_not_succeed_has_a_code(
    statuses: list[JsonObject], config: dict[str, Any], code: str
) -> None:
    outcome, _ = task_api(statuses, **config)
    assert error(outcome).code == code


# --- tools and functions -----------------------------------------------------------------------------


def test_an_agent_may_be_a_tool_of_an_mcp_server() -> None:
    async def work() -> None:
        command, *arguments = piped_script(FIXTURES / "mcp_tools_server.py")
        server = McpServerConfig(command=command, args=tuple(arguments))
        tools = McpToolExecutor({"tools": server}, allow_commands=(command_name(sys.executable),))
        executor = AgentExecutor({"reviewer": McpAgent(server="tools", tool="greet")}, tools=tools)
        outcome = await executor.perform(delegation({"name": "Ada"}, protocol="mcp"))
        assert done(outcome) == {"text": "Hello Ada"}
        assert extra(outcome)["delegateCorrelationId"] == CORRELATION
        assert extra(outcome)["tool"] == "greet"
        await executor.close()
        await tools.close()

    bounded(work())


def test_an_agent_may_be_a_function() -> None:
    seen: list[AgentTask] = []

    async def review(task: AgentTask) -> JsonValue:
        seen.append(task)
        return {"verdict": "approve"}

    outcome = bounded(AgentExecutor({"reviewer": SdkAgent(review)}).perform(delegation({"diff": "x"}, protocol="sdk")))
    assert done(outcome) == {"verdict": "approve"}
    assert extra(outcome)["delegateCorrelationId"] == CORRELATION
    assert (seen[0].input, seen[0].idempotency_key) == ({"diff": "x"}, "r_1/pay/1")


def test_a_function_may_ask_a_person() -> None:
    async def review(task: AgentTask) -> JsonValue | ActivityAsks:
        if task.answer is None:
            return ActivityAsks("Really?", {"type": "boolean"}, {"half": "done"})
        return {"resume": task.resume, "answer": task.answer, "round": task.round}

    executor, call = AgentExecutor({"reviewer": SdkAgent(review)}), delegation({}, protocol="sdk")
    asked = bounded(executor.perform(call))
    assert asked == ActivityAsks("Really?", {"type": "boolean"}, {"half": "done"})
    outcome = bounded(executor.perform(answered(call, asked, True)))
    assert done(outcome) == {"resume": {"half": "done"}, "answer": True, "round": 1}


def test_a_function_that_raises_or_never_ends_is_a_failed_attempt() -> None:
    async def raises(task: AgentTask) -> JsonValue:
        raise LookupError("no such change")

    async def waits(task: AgentTask) -> JsonValue:
        await asyncio.Event().wait()
        return None

    async def digs(task: AgentTask) -> JsonValue:
        value: JsonValue = None
        for _ in range(100):
            value = [value]
        return value

    codes = []
    for function in (raises, waits, digs):
        call = delegation({}, protocol="sdk", timeout_ms=200)
        codes.append(error(bounded(AgentExecutor({"reviewer": SdkAgent(function)}).perform(call))).code)
    assert codes == ["HANDLER_ERROR", "ACTIVITY_TIMEOUT", "DELEGATE_PROTOCOL_ERROR"]


@pytest.mark.parametrize(
    ("agents", "protocol", "code"),
    [
        ({}, "a2a", "DELEGATE_AGENT_NOT_FOUND"),
        ({}, "telepathy", "DELEGATE_PROTOCOL_UNSUPPORTED"),
        ({"reviewer": McpAgent(server="s", tool="t")}, "a2a", "DELEGATE_PROTOCOL_UNSUPPORTED"),
        ({"reviewer": McpAgent(server="s", tool="t")}, "mcp", "DELEGATE_PROTOCOL_UNSUPPORTED"),
        ({"reviewer": A2aAgent(url="http://127.0.0.1:9")}, "a2a", "DELEGATE_PROTOCOL_UNSUPPORTED"),
    ],
)
def test_what_is_not_configured_fails_for_good(agents: dict[str, AgentConfig], protocol: str, code: str) -> None:
    failed = error(bounded(AgentExecutor(agents).perform(delegation({}, protocol=protocol))))
    assert (failed.code, failed.retryable) == (code, False)


def test_an_activity_that_undoes_a_delegation_finds_its_agent_in_its_own_fields() -> None:
    async def undo(task: AgentTask) -> JsonValue:
        return {"undone": task.input, "correlation": task.correlation_id}

    call = call_of("agent_delegate", {"agent_id": "reviewer", "protocol": "sdk"}, {"patch": 1})
    outcome = bounded(AgentExecutor({"reviewer": SdkAgent(undo)}).perform(call))
    assert done(outcome) == {"undone": {"patch": 1}, "correlation": CORRELATION}
