"""The limits of an agent bind everything below its run: what is spent there counts upwards, and what is left binds it.

The bound that these tests hold: turns are never exceeded. When a model is asked, what the tree has spent, with an
estimate of each call under way, is below every limit of tokens and cost. So the last call of each parallel branch may
go beyond a limit, and nothing after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.app.executors.delegates import DelegateExecutor
from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityOutcome
from penstock.runtime.executors.llm.executor import LlmExecutor
from penstock.runtime.executors.llm.mock import MockProvider, script_from_json
from penstock.runtime.executors.llm.port import LlmAnswer, LlmReply, LlmRequest
from tests.scenarios.agents import Dying, agent, calls, conversation, ended, waiting_for
from tests.scenarios.office import Office, in_office, open_office
from tests.waiting import SECONDS_MAX, until

TOOL: JsonObject = {"expose": {"tool": True}}
PRICE = Decimal("0.0003")
USED = (40, 10)


@dataclass(slots=True)
class PricedModel:
    """Says what a function of the request says, for a fixed price."""

    say: Callable[[LlmRequest], JsonValue]
    usage: tuple[int, int] = USED
    cost: Decimal | None = PRICE
    models: Mapping[str, str] = field(default_factory=lambda: {"fast": "fast"})
    asked: int = 0
    answered: int = 0
    at_once: int = 0
    most_at_once: int = 0
    died: asyncio.Event | None = None
    dies_at: int = 0

    async def ask(self, request: LlmRequest) -> LlmAnswer:
        self.asked += 1
        if self.died is not None and self.asked == self.dies_at:
            self.died.set()
            await asyncio.Event().wait()
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)  # so that branches meet
        self.at_once -= 1
        self.answered += 1
        reply = await MockProvider(script_from_json([self.say(request)]) or []).ask(request)
        assert isinstance(reply, LlmReply)
        tokens_in, tokens_out = self.usage
        return replace(reply, input_tokens=tokens_in, output_tokens=tokens_out, cost=self.cost)

    def price(self, model: str, input_tokens: int, output_tokens: int) -> Decimal | None:
        return None if self.cost is None else Decimal(input_tokens + output_tokens) * PRICE / sum(USED)

    async def close(self) -> None:
        pass


def executors(model: PricedModel) -> dict[str, LlmExecutor]:
    return {"llm_call": LlmExecutor({"priced": model})}


def always(*names: str) -> Callable[[LlmRequest], JsonValue]:
    """A model that never answers, and calls all of these in each turn."""
    turn = calls(*[(name, dict[str, JsonValue](prompt="You do it.")) for name in names])
    return lambda request: turn


async def run_of(office: Office, document: JsonObject, *others: JsonObject) -> Any:
    for other in others:
        await office.call(office.owner, "workflow.create", document=other)
    return await ended(office, document)


def test_an_agent_that_calls_itself_spends_no_more_than_its_limit(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        answer = await run_of(office, agent("workflow:support", limits={"cost": 0.001, "turns": 50}, document=TOOL))
        assert (answer["status"], answer["error"]["code"]) == ("failed", "AGENT_COST_SPENT")
        assert answer["usage"]["cost"] == {"amount": str(PRICE * model.asked), "currency": "USD"}
        assert answer["usage"]["requests"] == model.asked
        assert answer["usage"]["own"]["requests"] < model.asked

    model = PricedModel(always("workflow:support"))
    in_office(tmp_path, test, executors=executors(model))
    assert model.asked == 4  # 0.0009 are below the limit, 0.0012 are not


@pytest.mark.parametrize(
    ("limits", "code", "asked"),
    [
        ({"turns": 5}, "AGENT_TURNS_SPENT", 5),
        ({"tokens": 201, "turns": 50}, "AGENT_TOKENS_SPENT", 5),
        ({"cost": 0.0013, "turns": 50}, "AGENT_COST_SPENT", 5),
    ],
)
def test_each_limit_binds_the_tree_although_the_child_has_none(
    tmp_path: Path, limits: JsonObject, code: str, asked: int
) -> None:
    async def test(office: Office) -> None:
        child = agent("workflow:support", name="child", limits={"turns": 200}, document=TOOL)
        answer = await run_of(office, agent("workflow:child", limits=limits, document=TOOL), child)
        assert (answer["status"], answer["error"]["code"]) == ("failed", code), answer

    def say(request: LlmRequest) -> JsonValue:
        return calls((f"workflow:{request.tools[0].name}", {"prompt": "You do it."}))

    model = PricedModel(say)
    in_office(tmp_path, test, executors=executors(model))
    assert model.asked == asked


def test_children_that_start_at_once_do_not_each_get_the_whole_rest(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        child = agent("workflow:leaf", name="child", limits={"turns": 200}, document=TOOL)
        leaf = agent("workflow:child", name="leaf", limits={"turns": 200}, document=TOOL)
        root = agent("workflow:child", limits={"turns": 9, "cost": 0.002, "parallel_tools": 4})
        answer = await run_of(office, root, child, leaf)
        assert answer["status"] == "failed"

    def say(request: LlmRequest) -> JsonValue:
        one: tuple[str, JsonObject] = (f"workflow:{request.tools[0].name}", {"prompt": "You do it."})
        return calls(one, one, one, one)

    model = PricedModel(say)
    in_office(tmp_path, test, executors=executors(model))
    assert model.asked <= 9
    assert PRICE * model.answered < Decimal("0.002") + PRICE * model.most_at_once


trees = st.fixed_dictionaries(
    {
        "agents": st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), min_size=1, max_size=4),
        "turns": st.integers(1, 25),
        "tokens": st.none() | st.integers(1, 1_500),
        "cost": st.none() | st.integers(1, 60),
        "usage": st.sampled_from([USED, (0, 0), (-50, -10), (1, 1)]),
    }
)


@given(trees)
@settings(max_examples=15, deadline=None)
def test_no_tree_of_agents_spends_more_than_one_call_of_each_branch_beyond_its_limit(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, Any]
) -> None:
    names = [f"agent{number}" for number in range(len(tree["agents"]))]
    limits = {"turns": tree["turns"], "tokens": tree["tokens"], "cost": tree["cost"] and tree["cost"] / 10_000}
    given_limits = {name: value for name, value in limits.items() if value is not None}

    async def test(office: Office) -> None:
        for name, called in zip(names, tree["agents"], strict=True):
            tools = [f"workflow:{names[number % len(names)]}" for number in called]
            document = agent(*dict.fromkeys(tools), name=name, limits={"turns": 200}, document=TOOL)
            await office.call(office.owner, "workflow.create", document=document)
        answer = await ended(office, agent(f"workflow:{names[0]}", name="root", limits=given_limits))
        assert answer["status"] == "failed"
        assert answer["error"]["code"] in ("AGENT_TURNS_SPENT", "AGENT_TOKENS_SPENT", "AGENT_COST_SPENT")
        used = answer["usage"]
        assert used["requests"] == model.answered

        counted = await office.gate.services.store.spending(answer["execution_id"])
        assert counted is not None
        whole = counted.own + counted.below
        assert whole.turns == model.asked <= tree["turns"]
        biggest = max(sum(tree["usage"]), -(-whole.tokens // max(1, model.answered)) * 4)
        if tree["tokens"] is not None:
            assert whole.tokens < tree["tokens"] + model.most_at_once * biggest
        if tree["cost"] is not None and tree["usage"] == USED:
            assert PRICE * model.answered < Decimal(tree["cost"]) / 10_000 + PRICE * model.most_at_once

    def say(request: LlmRequest) -> JsonValue:
        return calls(*[(f"workflow:{tool.name}", dict[str, JsonValue](prompt="You.")) for tool in request.tools])

    model = PricedModel(say, usage=tree["usage"])
    in_office(tmp_path_factory.mktemp("tree"), test, executors=executors(model))


def test_a_call_that_was_lost_in_a_crash_counts(tmp_path: Path) -> None:
    """Each process dies while the model is asked; the turns of all of them together are those of the limit."""

    async def test() -> None:
        document = agent("workflow:support", limits={"turns": 4}, document=TOOL)
        run_id = None
        for _ in range(3):
            died = asyncio.Event()
            model = PricedModel(always("workflow:support"), died=died, dies_at=1)
            dying = {"llm_call": Dying(LlmExecutor({"priced": model}), died)}
            async with open_office(tmp_path, executors=dying) as office:
                if run_id is None:
                    await office.call(office.owner, "workflow.create", document=document)
                    begun = await office.call(
                        office.owner, "workflow.execute", workflow_id="support", input={"prompt": "Go."}
                    )
                    run_id = begun["execution_id"]
                await asyncio.wait_for(died.wait(), SECONDS_MAX)
        model = PricedModel(always("workflow:support"))
        async with open_office(tmp_path, executors=executors(model)) as office:
            answer = await waiting_for(office, str(run_id), "failed")
            assert answer["error"]["code"] == "AGENT_TURNS_SPENT"
        assert model.asked == 1

    asyncio.run(test())


@pytest.mark.parametrize("usage", [(0, 0), (-5, -5), (10**15, 1), (5, 0)])
def test_usage_that_cannot_be_true_is_estimated(tmp_path: Path, usage: tuple[int, int]) -> None:
    async def test(office: Office) -> None:
        answer = await run_of(office, agent(limits={"cost": 0.5}))
        used = answer["usage"]
        assert 1 < used["input_tokens"] < 1_000 or usage[0] == 5
        assert 1 <= used["output_tokens"] < 1_000
        assert Decimal(used["cost"]["amount"]) > 0
        [completed] = [
            item["payload"]
            for item in (await office.call(office.owner, "execution.history", execution_id=answer["execution_id"]))[
                "items"
            ]
            if item["payload"].get("usage")
        ]
        assert completed["usage"]["estimated"] is True

    in_office(tmp_path, test, executors=executors(PricedModel(lambda request: "Done.", usage=usage)))


def test_an_unknown_price_below_ends_a_tree_with_a_limit_of_cost(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        child: JsonObject = {
            "penstock": "v1",
            "name": "child",
            **TOOL,
            "nodes": [
                {"id": "ask", "type": "llm_call", "model": "fast", "prompt": "Hello?"},
                {"id": "done", "type": "end", "output": "${ .ask }"},
            ],
        }
        answer = await run_of(office, agent("workflow:child", limits={"cost": 0.5}), child)
        assert (answer["status"], answer["error"]["code"]) == ("failed", "AGENT_COST_UNKNOWN")
        assert answer["usage"]["cost"] is None

    def say(request: LlmRequest) -> JsonValue:
        model.cost = PRICE if request.tools else None
        return calls(("workflow:child", {})) if request.tools else "Hello."

    model = PricedModel(say)
    in_office(tmp_path, test, executors=executors(model))


def test_what_a_fork_made_by_an_agent_spends_counts_for_the_agent(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.call(office.owner, "workflow.create", document=agent(name="other", document=TOOL))
        earlier = await office.call(
            office.owner, "workflow.execute", workflow_id="other", input={"prompt": "Go."}, sync=True, wait_seconds=200
        )
        forked.append(earlier["execution_id"])
        answer = await run_of(office, agent("execution.fork"))
        assert answer["status"] == "completed", answer

        async def counted() -> bool:
            view = await office.call(office.owner, "execution.status", execution_id=answer["execution_id"])
            return bool(view["usage"]["requests"] == 3)

        await until(counted)

    forked: list[str] = []

    def say(request: LlmRequest) -> JsonValue:
        begins = request.tools and not any(message.role == "tool" for message in request.messages)
        return calls(("execution.fork", {"execution_id": forked[0], "at_sequence": 1})) if begins else "Done."

    in_office(tmp_path, test, executors=executors(PricedModel(say)))


class OutsideAgent:
    """An agent that another company runs, and that says nothing of its cost."""

    def __init__(self) -> None:
        self.tasks = 0

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        self.tasks += 1
        return ActivityDone({"text": "Done. " * 20})

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("limits", "tasks", "code"),
    [
        ({"turns": 3}, 1, "AGENT_TURNS_SPENT"),
        ({"tokens": 60, "turns": 9}, 1, "AGENT_TOKENS_SPENT"),
        ({"cost": 0.5}, 0, None),
    ],
)
def test_an_agent_outside_counts_as_a_turn_and_is_not_asked_under_a_limit_of_cost(
    tmp_path: Path, limits: JsonObject, tasks: int, code: str | None
) -> None:
    delegating: JsonObject = {
        "penstock": "v1",
        "name": "ask_partner",
        **TOOL,
        "nodes": [
            {"id": "ask", "type": "agent_delegate", "agent_id": "partner", "input": {"prompt": "Do it."}},
            {"id": "done", "type": "end", "output": "${ .ask }"},
        ],
    }

    async def test(office: Office) -> None:
        answer = await run_of(office, agent("workflow:ask_partner", limits=limits), delegating)
        assert (answer["error"] or {}).get("code") == code, answer
        if code is None:
            assert "AGENT_COST_UNKNOWN" in str(await conversation(office, answer["execution_id"]))

    def say(request: LlmRequest) -> JsonValue:
        given_up = any("AGENT_COST_UNKNOWN" in message.text for message in request.messages)
        return "I cannot." if given_up else calls(("workflow:ask_partner", {}))

    outside = OutsideAgent()
    delegates = DelegateExecutor(agents=outside, protocols={"partner": "a2a"})
    in_office(tmp_path, test, executors={**executors(PricedModel(say)), "agent_delegate": delegates})
    assert outside.tasks == tasks
