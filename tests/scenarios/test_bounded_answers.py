"""What models, agents, task hosts and web servers send is bounded before it is decoded, and the loop goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.runtime.activities.performing import ActivityCall, ActivityOutcome
from penstock.runtime.executors.agents.a2a import A2aClients
from penstock.runtime.executors.agents.executor import AgentExecutor, TaskApiAgent
from penstock.runtime.executors.agents.port import A2aAgent
from penstock.runtime.executors.http.executor import HttpExecutor
from penstock.runtime.executors.llm.executor import LlmExecutor
from penstock.runtime.executors.llm.pydantic_ai import LlmProviderConfig, PydanticProvider
from tests.scenarios.hostile_answers import ATTACKS, Attack, Request, Spoken, hostile_answers
from tests.scenarios.loop_stalls import in_tries, watched_loop
from tests.unit.runtime.executors.agents.test_executor import delegation
from tests.unit.runtime.executors.calls import bounded, call_of, done, error

Executor = HttpExecutor | AgentExecutor | LlmExecutor


def _nothing(request: Request) -> Any:
    return None


def _card(*, streaming: bool) -> Spoken:
    def spoken(request: Request) -> Any:
        if request.method != "GET":
            return None
        interface = {"url": f"http://{request.host}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        return {
            **{"name": "reviewer", "description": "reviews", "version": "1", "skills": []},
            **{"defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"]},
            **{"supportedInterfaces": [interface], "capabilities": {"streaming": streaming}},
        }

    return spoken


def _created(request: Request) -> Any:
    return {"id": "t1"} if request.method == "POST" else None


def _model(url: str, kind: str) -> LlmExecutor:
    config = LlmProviderConfig(kind=kind, base_url=f"{url}/v1", api_key="sk-secret")
    return LlmExecutor({"local": PydanticProvider("local", config)})


def _agent(url: str) -> AgentExecutor:
    return AgentExecutor({"reviewer": A2aAgent(url=url, poll_interval_ms=10)}, a2a=A2aClients())


def _host(url: str) -> AgentExecutor:
    return AgentExecutor({"reviewer": TaskApiAgent(base_url=url, api_key="k", poll_interval_ms=10)})


def _prompt(url: str, timeout_ms: int) -> ActivityCall:
    return call_of("llm_call", {"provider": "local", "model": "tiny", "prompt": "Say."}, timeout_ms=timeout_ms)


def _delegated(url: str, timeout_ms: int) -> ActivityCall:
    return delegation("Review.", timeout_ms=timeout_ms)


def _requested(url: str, timeout_ms: int) -> ActivityCall:
    return call_of("http", {}, {"url": url, "method": "GET"}, timeout_ms=timeout_ms)


@dataclass(frozen=True)
class Upstream:
    """A kind of upstream: who asks it, what, what is ordinary in its protocol, and what its errors are called."""

    make: Callable[[str], Executor]
    call: Callable[[str, int], ActivityCall]
    spoken: Spoken
    too_large: str
    late: str
    unreadable: str


_A2A = ("A2A_RESULT_TOO_LARGE", "ACTIVITY_TIMEOUT", "A2A_PROVIDER_ERROR")
_LLM = ("LLM_RESPONSE_TOO_LARGE", "ACTIVITY_TIMEOUT", "LLM_PROVIDER_ERROR")
_HTTP = ("HTTP_RESPONSE_TOO_LARGE", "TIMEOUT", "HTTP_RESPONSE_INVALID")
UPSTREAMS = {
    "agent card": Upstream(_agent, _delegated, _nothing, *_A2A),
    "agent": Upstream(_agent, _delegated, _card(streaming=False), *_A2A),
    "streaming agent": Upstream(_agent, _delegated, _card(streaming=True), *_A2A),
    "task host": Upstream(_host, _delegated, _created, *_A2A),
    "openai": Upstream(lambda url: _model(url, "openai-compatible"), _prompt, _nothing, *_LLM),
    "anthropic": Upstream(lambda url: _model(url, "anthropic"), _prompt, _nothing, *_LLM),
    "http": Upstream(lambda url: HttpExecutor(allow_private=True), _requested, _nothing, *_HTTP),
}


def outcome_of(upstream: Upstream, attack: Attack, *, timeout_ms: int = 240_000) -> ActivityOutcome:
    async def work() -> ActivityOutcome:
        with hostile_answers(attack, upstream.spoken) as url:
            executor = upstream.make(url)
            try:
                async with watched_loop() as stalls:
                    outcome = await executor.perform(upstream.call(url, timeout_ms))
            finally:
                await executor.close()
        stalls.check(attack.name)
        return outcome

    return bounded(in_tries(work))


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """Libraries load parts of themselves at the first request, which takes longer than any answer may."""
    for name, upstream in UPSTREAMS.items():

        async def once(upstream: Upstream = upstream) -> None:
            with hostile_answers(Attack("json", {}), upstream.spoken) as url:
                executor = upstream.make(url)
                await executor.perform(upstream.call(url, 500))
                await executor.close()

        bounded(once())
        assert name


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("kind", UPSTREAMS)
def test_an_answer_that_is_too_large_is_refused_by_name(kind: str, attack: str) -> None:
    failed = error(outcome_of(UPSTREAMS[kind], Attack(attack)))
    assert (failed.code, failed.retryable) == (UPSTREAMS[kind].too_large, False), failed.error


@pytest.mark.parametrize("kind", UPSTREAMS)
def test_an_answer_that_never_ends_runs_out_of_time(kind: str) -> None:
    assert error(outcome_of(UPSTREAMS[kind], Attack("drip"), timeout_ms=400)).code == UPSTREAMS[kind].late


@pytest.mark.parametrize("kind", UPSTREAMS)
def test_an_encoding_that_nobody_asked_for_is_not_decoded(kind: str) -> None:
    assert error(outcome_of(UPSTREAMS[kind], Attack("brotli"))).code == UPSTREAMS[kind].unreadable


def _rpc(result: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "id": "1", "result": result}


def _task(data: Any) -> JsonObject:
    ended: JsonObject = {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_COMPLETED"}}
    return {**ended, "artifacts": [{"artifactId": "a1", "parts": [{"data": data}]}]}


def _completion(choice: JsonObject, count: int = 1) -> JsonObject:
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": "tiny", "choices": [choice] * count}


def _said(text: str) -> JsonObject:
    return {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}


@pytest.mark.parametrize(
    ("kind", "answer", "values"),
    [
        ("agent", lambda many: _rpc({"task": _task({"lists": many})}), limits.AGENT_ANSWER_TOKENS_MAX),
        ("task host", lambda many: {"status": "completed", "output": many}, limits.UPSTREAM_ANSWER_TOKENS_MAX),
        ("http", lambda many: many, limits.HTTP_RESPONSE_TOKENS_MAX),
    ],
)
@pytest.mark.parametrize("value", [[], 1, {"a": 1}], ids=["lists", "numbers", "objects"])
def test_as_many_values_as_are_taken_do_not_hold_up_the_loop(kind: str, answer: Any, values: int, value: Any) -> None:
    each = {"[]": 2, "1": 1, '{"a": 1}': 3}[json.dumps(value)]
    many = [value] * (values // each - 100)
    assert done(outcome_of(UPSTREAMS[kind], Attack("json", answer(many)))) is not None


def test_as_many_choices_as_are_taken_do_not_hold_up_the_loop() -> None:
    choice = _said("yes")
    tokens = sum(json.dumps(choice).count(mark) for mark in ",[{") + json.dumps(choice).count('"') // 2 + 1
    answer = _completion(choice, limits.LLM_ANSWER_TOKENS_MAX // tokens - 10)
    assert done(outcome_of(UPSTREAMS["openai"], Attack("json", answer))) == {"text": "yes"}


def test_a_long_text_of_a_model_is_taken() -> None:
    text = "x" * (limits.LLM_ANSWER_BYTES_MAX - 1_000)
    assert done(outcome_of(UPSTREAMS["openai"], Attack("json", _completion(_said(text))))) == {"text": text}


def test_a_model_that_writes_a_million_values_breaks_its_schema_and_nothing_else() -> None:
    async def work() -> ActivityOutcome:
        with hostile_answers(Attack("json", _completion(_said("[" + "[]," * 1_000_000 + "1]")))) as url:
            executor = _model(url, "openai-compatible")
            config: JsonObject = {
                "provider": "local",
                "model": "tiny",
                "prompt": "Say.",
                "output_schema": {"type": "array"},
            }
            async with watched_loop() as stalls:
                outcome = await executor.perform(call_of("llm_call", config))
            await executor.close()
        stalls.check("a million values")
        return outcome

    failed = error(bounded(in_tries(work)))
    assert str(limits.LLM_ANSWER_TOKENS_MAX) in failed.error


def test_an_agent_that_adds_to_its_answer_without_end_is_stopped() -> None:
    piece: JsonObject = {"artifactId": "a1", "parts": [{"text": "x" * 50_000}]}
    update: JsonObject = {"taskId": "t1", "contextId": "c1", "append": True, "artifact": piece}
    failed = error(outcome_of(UPSTREAMS["streaming agent"], Attack("events", _rpc({"artifactUpdate": update}))))
    assert (failed.code, failed.retryable) == ("A2A_RESULT_TOO_LARGE", False)


def test_an_agent_that_talks_without_end_is_read_slowly_and_runs_out_of_time() -> None:
    update: JsonObject = {"taskId": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_WORKING"}}
    talk = Attack("events", _rpc({"statusUpdate": update}))
    assert error(outcome_of(UPSTREAMS["streaming agent"], talk, timeout_ms=1_500)).code == "ACTIVITY_TIMEOUT"


def test_a_megabyte_of_lists_is_not_decoded_by_an_http_node() -> None:
    failed = error(outcome_of(UPSTREAMS["http"], Attack("json", [[]] * 250_000)))
    assert (failed.code, failed.retryable) == ("HTTP_RESPONSE_TOO_LARGE", False)
    assert str(limits.HTTP_RESPONSE_TOKENS_MAX) in failed.error


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_an_answer_that_is_none_of_a_model_is_told_as_such(kind: str) -> None:
    failed = error(outcome_of(UPSTREAMS[kind], Attack("json", {})))
    assert failed.code == "LLM_PROVIDER_ERROR"
    assert failed.retryable
