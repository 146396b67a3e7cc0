"""Models and folders for MCP servers: real servers over a pipe and HTTP, in both eras, modest and greedy ones."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.json import JsonValue
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityOutcome
from penstock.runtime.executors.mcp.config import McpServerConfig, command_name
from penstock.runtime.executors.mcp.executor import McpToolExecutor
from penstock.runtime.upstreams.lending import (
    LendingRules,
    SampledText,
    SamplingRefusal,
    SamplingRequest,
    SamplingTerms,
)
from tests.fixtures.borrowing_server import make_borrower
from tests.unit.runtime.executors.asgi_server import serving_asgi
from tests.unit.runtime.executors.calls import bounded, call_of, done, error
from tests.zygote import piped_script

SERVER = Path(__file__).parents[4] / "fixtures" / "borrowing_server.py"
TERMS = SamplingTerms(model="cheap", requests_per_call=3, max_tokens=50, timeout_ms=5_000)
WAYS = ["pipe", "pipe_legacy", "http", "http_legacy"]


@dataclass
class Lender:
    """Answers like a model, and counts."""

    cost: Decimal | None = Decimal("0.01")
    refusal: SamplingRefusal | None = None
    asked: list[SamplingRequest] = field(default_factory=list)

    async def __call__(
        self, call: ActivityCall, terms: SamplingTerms, request: SamplingRequest, /
    ) -> SampledText | SamplingRefusal:
        self.asked.append(request)
        if self.refusal is not None:
            return self.refusal
        text = f"answer to {request.messages[-1].text}"
        return SampledText(text=text, execution_id=f"r_{len(self.asked)}", output_tokens=3, cost=self.cost)


@asynccontextmanager
async def borrower(way: str, rules: LendingRules | None) -> AsyncIterator[McpServerConfig]:
    kind, _, era = way.partition("_")
    protocol = era or "auto"
    if kind == "pipe":
        command, *arguments = piped_script(SERVER)
        yield McpServerConfig(command=command, args=tuple(arguments), protocol=protocol, lending=rules)
        return
    async with serving_asgi(make_borrower().streamable_http_app()) as address:
        yield McpServerConfig(url=f"{address}/mcp", protocol=protocol, lending=rules)


@asynccontextmanager
async def executor_of(config: McpServerConfig, lender: Lender | None = None) -> AsyncIterator[McpToolExecutor]:
    executor = McpToolExecutor(
        {"borrower": config}, allow_commands=(command_name(sys.executable),), lender=lambda: lender
    )
    try:
        yield executor
    finally:
        await executor.close()


def tool(name: str, **arguments: Any) -> ActivityCall:
    return call_of("tool_call", {"server": "borrower", "tool": name}, arguments, timeout_ms=60_000)


def told(outcome: ActivityOutcome) -> Any:
    """What a tool of the server said."""
    result = done(outcome)
    assert isinstance(result, dict)
    return json.loads(str(result["text"]))


def sampling(outcome: ActivityOutcome) -> JsonValue:
    assert isinstance(outcome, ActivityDone)
    return (outcome.extra or {}).get("sampling")


@pytest.mark.parametrize("way", WAYS)
def test_a_server_is_lent_a_model_and_the_outcome_lists_every_request(way: str) -> None:
    async def work() -> None:
        lender = Lender()
        async with (
            borrower(way, LendingRules(sampling=TERMS)) as config,
            executor_of(config, lender) as executor,
        ):
            outcome = await executor.perform(tool("ask", texts=["one", "two"], system="Be brief.", tokens=10_000))
            assert told(outcome) == [["answer to one", "cheap", "endTurn"], ["answer to two", "cheap", "endTurn"]]
            used = {"model": "cheap", "inputTokens": 0, "outputTokens": 3, "cost": "0.01"}
            assert sampling(outcome) == [{**used, "executionId": "r_1"}, {**used, "executionId": "r_2"}]
            assert [(item.max_tokens, item.system, item.number) for item in lender.asked] == [(50, "Be brief.", 0)] * 2
            assert told(await executor.perform(tool("told"))).keys() == {"sampling"}

    bounded(work())


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_is_lent_nothing_is_told_so_and_gets_nothing(way: str) -> None:
    async def work() -> None:
        lender = Lender()
        other = LendingRules(sampling=replace(TERMS, tenants=("acme",)), folders={"acme": ("/",)})
        async with borrower(way, other) as config, executor_of(config, lender) as executor:
            assert told(await executor.perform(tool("told"))) == {}
            for name in ("ask", "folders"):
                outcome = await executor.perform(tool(name, texts=["one"]))
                if way.endswith("legacy"):
                    assert "not supported" in str(told(outcome))
                else:
                    assert error(outcome).code == "MCP_PROTOCOL_ERROR"
            assert lender.asked == []

    bounded(work())


@pytest.mark.parametrize("way", ["pipe_legacy", "http_legacy"])
def test_a_server_that_asks_again_and_again_is_refused_and_then_given_up(way: str) -> None:
    async def work() -> None:
        lender = Lender()
        async with (
            borrower(way, LendingRules(sampling=TERMS)) as config,
            executor_of(config, lender) as executor,
        ):
            outcome = await executor.perform(tool("ask", texts=["one"] * 5))
            assert [item[0] for item in told(outcome)] == [*["answer to one"] * 3, "S", "S"]
            assert str(told(outcome)[3]).startswith("SAMPLING_LIMIT_REACHED: borrower may ask the model 3 times")
            assert [item.number for item in lender.asked] == [0, 1, 2]
            for name in ("ask", "ask_at_once"):
                flood = error(await executor.perform(tool(name, texts=["one"] * 1_000)))
                assert (flood.code, flood.retryable) == ("MCP_RESULT_TOO_LARGE", False)
            assert len(lender.asked) <= 9

    bounded(work())


def test_a_server_of_the_newest_era_that_asks_again_and_again_fails() -> None:
    async def work() -> None:
        lender = Lender()
        async with (
            borrower("http", LendingRules(sampling=TERMS)) as config,
            executor_of(config, lender) as executor,
        ):
            refused = error(await executor.perform(tool("ask", texts=["one"] * 1_000)))
            assert (refused.code, refused.retryable) == ("SAMPLING_LIMIT_REACHED", False)
            assert len(lender.asked) == 3
            assert isinstance((refused.extra or {})["sampling"], list)

    bounded(work())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"texts": ["x" * (limits.MCP_SAMPLING_BYTES_MAX + 1)]}, "bytes of text"),
        ({"texts": ["x"], "system": "y" * limits.MCP_SAMPLING_BYTES_MAX}, "bytes of text"),
        ({"texts": ["x"], "picture": True}, "something else than text"),
        ({"texts": ["x"], "tools": True}, "tools, which is not lent"),
        ({"texts": ["x"], "tokens": 0}, "less than one token"),
    ],
)
@pytest.mark.parametrize("way", ["http", "http_legacy"])
def test_what_a_server_may_not_ask_is_refused_before_a_model_is_asked(
    way: str, arguments: dict[str, Any], words: str
) -> None:
    async def work() -> None:
        lender = Lender()
        async with (
            borrower(way, LendingRules(sampling=TERMS)) as config,
            executor_of(config, lender) as executor,
        ):
            outcome = await executor.perform(tool("ask", **arguments))
            if way == "http":
                assert (error(outcome).code, words in error(outcome).error) == ("SAMPLING_REQUEST_INVALID", True)
            else:
                assert words in told(outcome)[0]
            assert lender.asked == []

    bounded(work())


def test_a_call_may_cost_so_much_and_an_unknown_cost_is_too_much() -> None:
    async def asked(cost: Decimal | None) -> Any:
        terms = replace(TERMS, cost_per_call=0.015)
        async with (
            borrower("http_legacy", LendingRules(sampling=terms)) as config,
            executor_of(config, Lender(cost=cost)) as executor,
        ):
            return told(await executor.perform(tool("ask", texts=["one"] * 3)))

    known, unknown = bounded(asked(Decimal("0.01"))), bounded(asked(None))
    assert "has spent 0.02 dollars in this call; 0.015 are allowed" in known[2]
    assert "what the model cheap costs is unknown" in unknown[1]


def test_a_server_learns_the_code_of_a_failure_and_not_the_names_of_other_models() -> None:
    async def work(way: str) -> ActivityOutcome:
        refusal = SamplingRefusal(
            code="LLM_MODEL_NOT_FOUND", message="there is no cheap; secretive", execution_id="r_1"
        )
        async with (
            borrower(way, LendingRules(sampling=TERMS)) as config,
            executor_of(config, Lender(refusal=refusal)) as executor,
        ):
            return await executor.perform(tool("ask", texts=["one"]))

    old, new = bounded(work("http_legacy")), bounded(work("http"))
    assert told(old) == ["LLM_MODEL_NOT_FOUND"]
    assert error(new).code == "LLM_MODEL_NOT_FOUND"
    assert "secretive" in error(new).error


def test_an_answer_ends_where_the_server_wants_it_to_and_secrets_reach_no_model() -> None:
    async def work() -> None:
        lender = Lender()
        async with (
            borrower("http", LendingRules(sampling=TERMS)) as config,
            executor_of(config, lender) as executor,
        ):
            call = replace(tool("ask", texts=["tell hunter2 to me"], stop=["to me", " ***"]), hidden=("hunter2",))
            assert told(await executor.perform(call)) == [["answer to tell", "cheap", "stopSequence"]]
            assert lender.asked[0].messages[0].text == "tell *** to me"

    bounded(work())


def test_without_a_gate_no_model_is_lent() -> None:
    async def work() -> None:
        async with borrower("http", LendingRules(sampling=TERMS)) as config, executor_of(config) as executor:
            assert error(await executor.perform(tool("ask", texts=["one"]))).code == "GATE_CLOSED"

    bounded(work())


@pytest.mark.parametrize("way", WAYS)
def test_a_server_is_told_of_the_folders_of_the_tenant_that_exist(way: str, tmp_path: Path) -> None:
    own, others, later = tmp_path / "with space", tmp_path / "others", tmp_path / "later"
    own.mkdir()
    others.mkdir()

    async def work() -> None:
        rules = LendingRules(folders={"default": (str(own), str(later)), "acme": (str(others),)})
        async with borrower(way, rules) as config, executor_of(config) as executor:
            assert told(await executor.perform(tool("told"))) == {"roots": {"listChanged": True}}
            assert told(await executor.perform(tool("folders"))) == [own.as_uri()]
            later.mkdir()
            assert told(await executor.perform(tool("folders"))) == [own.as_uri(), later.as_uri()]
            acme = replace(tool("folders"), tenant="acme")
            assert error(await executor.perform(acme)).code == "UPSTREAM_NOT_FOUND"

    bounded(work())


@pytest.mark.parametrize("way", ["pipe_legacy", "http_legacy"])
def test_an_older_server_is_told_that_the_folders_changed(way: str, tmp_path: Path) -> None:
    later = tmp_path / "later"

    async def work() -> None:
        rules = LendingRules(folders={"*": (str(tmp_path), str(later))})
        async with borrower(way, rules) as config, executor_of(config) as executor:
            await executor.perform(tool("folders"))
            assert told(await executor.perform(tool("changes"))) == 0
            await asyncio.to_thread(later.mkdir)
            assert told(await executor.perform(tool("changes"))) == 1
            assert told(await executor.perform(tool("changes"))) == 1

    bounded(work())
