"""Models by name, and the limits of each: requests in a minute, at once, and the cost of a day."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.base.json import JsonObject
from penstock.governance.quotas import UsageRow
from penstock.runtime.executors.llm.executor import LlmExecutor
from penstock.runtime.executors.llm.mock import MockFailure, MockProvider
from penstock.runtime.executors.llm.models import ModelMeter, ServedModel
from penstock.runtime.executors.llm.port import LlmAnswer, LlmReply, LlmRequest
from penstock.runtime.ports.models import ModelLimits, ModelRules
from penstock.runtime.ports.usage import BucketLevel, BucketUse
from tests.unit.runtime.executors.calls import bounded, call_of, done, error


@dataclass
class Counts:
    """Counts as a store keeps them."""

    cost: int = 0
    tokens: float = 1.0

    def now_ms(self) -> int:
        return 0

    async def usage(self, tenant: str, subject: str) -> UsageRow | None:
        assert subject == "model:small"
        return UsageRow(cost=self.cost)

    async def take_requests(self, taken: Sequence[BucketUse]) -> tuple[BucketLevel, ...] | None:
        self.tokens -= taken[0].amount
        return (BucketLevel(taken[0].bucket, self.tokens),)


@dataclass
class Crowd:
    """A provider that notes how many ask at once, and answers when all that may ask do."""

    expected: int
    models: dict[str, str] = field(default_factory=lambda: {"small": "small"})
    asking: int = 0
    most: int = 0
    full: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, request: LlmRequest) -> LlmAnswer:
        self.asking += 1
        self.most = max(self.most, self.asking)
        if self.asking == self.expected:
            self.full.set()
        await self.full.wait()
        self.asking -= 1
        return LlmReply(text="fine", input_tokens=1, output_tokens=1, model="small")

    async def close(self) -> None:
        """Nothing to close."""


def asked(provider: Any, limits: ModelLimits, counts: Counts | None = None, **config: Any) -> Any:
    rules = {"small": ModelRules(limits=limits)}
    executor = LlmExecutor({"mock": provider}, rules=rules, meter=ModelMeter(counts))
    given: JsonObject = {"model": "small", "prompt": "?", **config}
    return bounded(executor.perform(call_of("llm_call", given)))


def scripted(*replies: Any) -> MockProvider:
    return MockProvider(list(replies), {"small": "small-1"})


def test_no_more_than_the_allowed_number_is_asked_at_once_and_all_are_answered() -> None:
    async def work() -> Crowd:
        crowd = Crowd(expected=2)
        rules = {"small": ModelRules(limits=ModelLimits(concurrent=2))}
        executor = LlmExecutor({"mock": crowd}, rules=rules)
        calls = [executor.perform(call_of("llm_call", {"model": "small", "prompt": "?"})) for _ in range(6)]
        for outcome in await asyncio.gather(*calls):
            done(outcome)
        assert executor.meter._places == {}
        return crowd

    assert bounded(work()).most == 2


def test_a_request_above_the_rate_is_refused_and_takes_nothing() -> None:
    counts, provider = Counts(tokens=1.0), scripted("one", "two")
    limits = ModelLimits(requests_per_minute=1)
    assert done(asked(provider, limits, counts)) == {"text": "one"}
    refused = error(asked(provider, limits, counts))
    assert (refused.code, refused.retryable, counts.tokens) == ("LLM_LIMIT_REACHED", True, 0.0)
    assert "again in 60.0 s" in refused.error


def test_a_day_that_cost_enough_is_over_for_the_model() -> None:
    limits = ModelLimits(cost_per_day=0.5)
    assert done(asked(scripted("one"), limits, Counts(cost=499_999))) == {"text": "one"}
    refused = error(asked(scripted("one"), limits, Counts(cost=500_000)))
    assert (refused.code, refused.retryable) == ("LLM_LIMIT_REACHED", False)


@pytest.mark.parametrize("limits", [ModelLimits(cost_per_day=1), ModelLimits(requests_per_minute=1)])
def test_a_limit_that_nothing_counts_refuses_every_request(limits: ModelLimits) -> None:
    assert error(asked(scripted("one"), limits)).code == "LLM_LIMIT_UNKNOWN"


@pytest.mark.parametrize(("wanted", "sent"), [(None, 100), (50, 50), (500, 100)])
def test_the_longest_answer_is_that_of_the_model(wanted: int | None, sent: int) -> None:
    provider = scripted("one")
    asked(provider, ModelLimits(max_tokens=100), max_tokens=wanted)
    assert provider.requests[0].settings["max_tokens"] == sent


def test_fallbacks_of_fallbacks_come_first_and_none_is_asked_twice() -> None:
    names = ("a", "b", "c", "d")
    provider = MockProvider({"*": MockFailure("busy")}, {name: name for name in names})
    rules = {"a": ModelRules(fallbacks=("b", "d")), "b": ModelRules(fallbacks=("c", "a"))}
    executor = LlmExecutor({"mock": provider}, rules=rules)
    failed = error(bounded(executor.perform(call_of("llm_call", {"model": "a", "prompt": "?"}))))
    assert [request.model for request in provider.requests] == ["a", "b", "c", "d"]
    attempts = (failed.extra or {})["attempts"]
    assert isinstance(attempts, list)
    assert [attempt["name"] for attempt in attempts if isinstance(attempt, dict)] == ["a", "b", "c", "d"]


def test_a_source_is_asked_for_names_that_the_settings_lack_and_nothing_is_passed_on() -> None:
    provider = MockProvider(["ours"])

    class Source:
        passes_on = False

        async def find(self, tenant: str, name: str) -> ServedModel | None:
            served = ServedModel(name=name, provider_name="mock", provider=provider, model="x", owner=tenant)
            return served if name == "ours" else None

        async def names(self, tenant: str) -> Sequence[str]:
            return ("ours",)

        async def close(self) -> None:
            """Nothing to close."""

    executor = LlmExecutor({"only": MockProvider(["theirs"])}, registered=Source())
    found = bounded(executor.perform(call_of("llm_call", {"model": "ours", "prompt": "?"})))
    assert done(found) == {"text": "ours"}
    unknown = error(bounded(executor.perform(call_of("llm_call", {"model": "our", "prompt": "?"}))))
    assert unknown.code == "LLM_MODEL_NOT_FOUND"
    assert "did you mean `ours`?" in unknown.error
