"""The providers that are supported, and their libraries, against a model server on the loopback interface."""

import asyncio
from decimal import Decimal
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from pydantic_ai.models import infer_model
from pydantic_ai.providers import infer_provider_class

from penstock.base.json import JsonObject
from penstock.runtime.activities.performing import ActivityOutcome
from penstock.runtime.executors.llm.executor import LlmExecutor
from penstock.runtime.executors.llm.pydantic_ai import LlmProviderConfig, PydanticProvider, TokenPrices
from penstock.runtime.ports.models import COMPATIBLE, MOCK, PROVIDERS
from tests.fixtures.model_server import CutsOff, Fails, ModelServer, Reply, Says, Stalls, model_server
from tests.unit.runtime.executors.calls import bounded, call_of, done, error
from tests.waiting import SECONDS_MAX

KINDS = ("openai-compatible", "openai", "anthropic")
PRICES = TokenPrices(input_per_million=Decimal(1_000), output_per_million=Decimal(2_000))
OUTPUT: JsonObject = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}


def asked(kind: str, server: ModelServer, *, key: str = "sk-test", timeout_ms: int | None = None) -> ActivityOutcome:
    """One call through the library of a provider."""
    address = server.anthropic_url if kind == "anthropic" else server.url
    config = LlmProviderConfig(kind=kind, base_url=address, api_key=key, prices=PRICES)

    async def work() -> ActivityOutcome:
        executor = LlmExecutor({"local": PydanticProvider("local", config)})
        try:
            node: JsonObject = {"provider": "local", "model": "tiny-1", "prompt": "?", "max_tokens": 50}
            limit_ms = round(SECONDS_MAX * 1000) if timeout_ms is None else timeout_ms
            return await executor.perform(call_of("llm_call", node, timeout_ms=limit_ms))
        finally:
            await executor.close()

    return bounded(work())


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_its_tokens_and_its_cost_come_over_every_wire(kind: str) -> None:
    with model_server(key="sk-test") as server:
        server.script.append(Says("Paris", input_tokens=20, output_tokens=5))
        outcome = asked(kind, server)
    assert done(outcome) == {"text": "Paris"}
    usage = (getattr(outcome, "extra", None) or {})["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["model"]) == (20, 5, "tiny-1")
    assert usage["cost"] == {"amount": "0.03", "currency": "USD"}
    [seen] = server.asked
    assert 50 in (
        seen.body.get("max_tokens"),
        seen.body.get("max_completion_tokens"),
        seen.body.get("max_output_tokens"),
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("reply", "code", "retryable"),
    [
        (Fails(400, "too long", "invalid_request_error"), "LLM_PROVIDER_ERROR", False),
        (Fails(429, "slow down", "rate_limit_error", retry_after=30), "LLM_PROVIDER_ERROR", True),
        (Fails(500, "oh", "api_error"), "LLM_PROVIDER_ERROR", True),
        (CutsOff(), "LLM_PROVIDER_ERROR", True),
    ],
    ids=["400", "429", "500", "cut off"],
)
def test_a_failure_is_asked_for_once_and_told_apart(kind: str, reply: Reply, code: str, retryable: bool) -> None:
    with model_server() as server:
        server.script.append(reply)
        failed = error(asked(kind, server))
    assert (failed.code, failed.retryable, len(server.asked)) == (code, retryable, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_key_is_refused_and_not_shown(kind: str) -> None:
    with model_server(key="sk-right") as server:
        failed = error(asked(kind, server, key="sk-wrong-secret"))
    assert (failed.code, failed.retryable) == ("LLM_CREDENTIALS_MISSING", False)
    assert "sk-wrong-secret" not in failed.error


def test_a_silent_provider_is_given_up() -> None:
    with model_server() as server:
        asked(COMPATIBLE, server)  # imports the library, so that a short timeout is that of the request
        server.script.append(Stalls())
        assert error(asked(COMPATIBLE, server, timeout_ms=300)).code == "ACTIVITY_TIMEOUT"


def test_the_server_streams_as_openai_does() -> None:
    async def work(server: ModelServer) -> tuple[str, str, Any]:
        client = openai.AsyncOpenAI(base_url=server.url, api_key="k", http_client=httpx2.AsyncClient(), max_retries=0)
        text, arguments, usage = "", "", None
        async with client:
            stream = await client.chat.completions.create(
                model="tiny-1",
                messages=[{"role": "user", "content": "?"}],
                stream=True,
                stream_options={"include_usage": True},
            )
            async for chunk in stream:
                usage = chunk.usage or usage
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    for call in choice.delta.tool_calls or ():
                        arguments += (call.function and call.function.arguments) or ""
        return text, arguments, usage

    with model_server() as server:
        server.script.append(Says("It is Paris.", (("look_up", {"city": "Paris"}),), 20, 5))
        text, arguments, usage = bounded(work(server))
    assert (text, arguments) == ("It is Paris.", '{"city": "Paris"}')
    assert (usage.prompt_tokens, usage.completion_tokens) == (20, 5)


def test_the_server_streams_as_anthropic_does() -> None:
    async def work(server: ModelServer) -> Any:
        http = httpx2.AsyncClient()
        async with anthropic.AsyncAnthropic(base_url=server.anthropic_url, api_key="k", http_client=http) as client:
            asking = client.messages.stream(model="tiny-1", max_tokens=9, messages=[{"role": "user", "content": "?"}])
            async with asking as stream:
                return await stream.get_final_message()

    with model_server() as server:
        server.script.append(Says("It is Paris.", (("look_up", {"city": "Paris"}),), 20, 5))
        message = bounded(work(server))
    assert message.content[0].text == "It is Paris."
    assert (message.content[1].name, message.content[1].input) == ("look_up", {"city": "Paris"})
    assert (message.usage.input_tokens, message.usage.output_tokens, message.stop_reason) == (20, 5, "tool_use")


@pytest.mark.parametrize("kind", sorted(set(PROVIDERS) - {MOCK, COMPATIBLE}))
def test_every_supported_provider_can_be_made_with_a_key_alone(kind: str) -> None:
    async def work() -> None:
        async with httpx2.AsyncClient() as http:
            make: Any = infer_provider_class(kind)
            named = "openai/x" if kind == "openrouter" else "x"
            infer_model(f"{kind}:{named}", provider_factory=lambda _: make(api_key="k", http_client=http))
            if PROVIDERS[kind].takes_address:
                make(api_key="k", http_client=http, base_url="https://example.com/v1")
            else:
                with pytest.raises(TypeError, match="base_url"):
                    make(api_key="k", http_client=http, base_url="https://example.com/v1")

    asyncio.run(work())
