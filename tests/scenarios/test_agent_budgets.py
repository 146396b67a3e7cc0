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
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.app.executors.delegates import DelegateExecutor
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.model import AgentLimits
from penstock.operations.gate.context import Services
from penstock.operations.gate.pipeline import RefusedCall
from penstock.runtime.activities.budgets import RunBudget
from penstock.runtime.activities.performing import (
    ActivityAsks,
    ActivityCall,
    ActivityDone,
    ActivityError,
    ActivityOutcome,
)
from penstock.runtime.executors.llm.executor import LlmExecutor
from penstock.runtime.executors.llm.mock import MockProvider, script_from_json
from penstock.runtime.executors.llm.port import LlmAnswer, LlmReply, LlmRequest
from penstock.runtime.system import SystemClock
from penstock.runtime.tables.spending import read_spending, spend
from tests.scenarios.agents import Dying, agent, calls, conversation, ended, waiting_for
from tests.scenarios.office import Office, in_office, open_office
from tests.unit.runtime.executors.calls import call_of
from tests.waiting import SECONDS_MAX, until, until_found

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

        counted = await read_spending(office.gate.services.store.database, answer["execution_id"])
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


LENT: JsonObject = {
    "penstock": "v1",
    "name": "lent",
    "nodes": [
        {"id": "ask", "type": "llm_call", "provider": "client", "model": "any", "prompt": "What is the capital? " * 20},
        {"id": "done", "type": "end", "output": "${ .ask.text }"},
    ],
}
BORROWING: JsonObject = {
    "penstock": "v1",
    "name": "borrowing",
    "nodes": [
        {"id": "think", "type": "subworkflow", "workflow": "lent"},
        {"id": "done", "type": "end", "output": "${ .think }"},
    ],
}


def test_the_model_that_a_client_lends_counts_for_the_runs_above(tmp_path: Path) -> None:
    """It reports no tokens, so they are estimated; nobody knows what it costs."""

    async def test(office: Office) -> None:
        for document in (LENT, BORROWING):
            await office.call(office.owner, "workflow.create", document=document)
        begun = await office.call(
            office.owner, "workflow.execute", workflow_id="borrowing", request={"client_kinds": ("sampling",)}
        )

        async def find_question() -> Any:
            listed = await office.call(office.owner, "execution.list", parent_id=begun["execution_id"])
            asking = [item for item in listed["items"] if item["status"] == "waiting_input"]
            return asking[0]["execution_id"] if asking else None

        child = await until_found(find_question)
        await office.call(office.owner, "execution.answer", execution_id=child, answer="It is Paris. " * 4)
        ended = await waiting_for(office, begun["execution_id"], "completed")
        used = ended["usage"]
        assert (used["requests"], used["cost"]) == (1, None)
        assert used["input_tokens"] >= 100
        assert used["output_tokens"] == 13

    in_office(tmp_path, test, executors={"llm_call": LlmExecutor({})})


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (AgentLimits(turns=1), "AGENT_TURNS_SPENT"),
        (AgentLimits(tokens=5), "AGENT_TOKENS_SPENT"),
        (AgentLimits(time_ms=0), "AGENT_TIME_SPENT"),
    ],
)
def test_a_client_is_not_asked_for_its_model_beyond_a_limit(tmp_path: Path, limits: AgentLimits, code: str) -> None:
    async def test(office: Office) -> None:
        services = office.gate.services
        budget = budget_within(services, limits)
        asks = call_of("llm_call", {"provider": "client", "model": "any", "prompt": "What is the capital?"})
        call = msgspec.structs.replace(asks, client_kinds=("sampling",), budget=budget)
        outcomes = [await LlmExecutor({}).perform(call) for _ in range(2)]
        assert isinstance(outcomes[-1], ActivityError)
        assert outcomes[-1].code == code
        assert isinstance(outcomes[0], ActivityError if limits.time_ms == 0 else ActivityAsks)

    in_office(tmp_path, test)


def budget_within(services: Services, limits: AgentLimits) -> RunBudget:
    spent = partial(spend, services.store.database)
    return RunBudget(spend=spent, clock=services.clock, run_id="r_1", tenant="default", limits=limits)


def test_a_client_is_not_asked_for_its_model_below_a_limit_of_cost(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        services, limits = office.gate.services, AgentLimits(cost=1_000_000)
        budget = budget_within(services, limits)
        asks = call_of("llm_call", {"provider": "client", "model": "any", "prompt": "What is the capital?"})
        outcome = await LlmExecutor({}).perform(
            msgspec.structs.replace(asks, client_kinds=("sampling",), budget=budget)
        )
        assert isinstance(outcome, ActivityError)
        assert (outcome.code, outcome.retryable) == ("AGENT_COST_UNKNOWN", False)

    in_office(tmp_path, test)


async def play_host(office: Office, run_id: str, operation: str, say: JsonObject, most: int = 12) -> Any:
    """Do the activities of a run outside, as a program does that has a model of its own; return how the run ends."""
    for _ in range(most):
        view = await office.call(office.owner, "execution.status", execution_id=run_id)
        todo = (view["waiting_for"] or {}).get("activities") or []
        if view["status"] in ("completed", "failed", "cancelled") or not todo:
            return view
        item = todo[0]
        result: JsonValue = say if item["type"] == "llm_call" else {"tools": []}
        if operation == "execution.submit_activity":
            await office.call(
                office.owner, operation, execution_id=run_id, node_id=item["node_id"], ok=True, result=result
            )
        else:
            outcome: JsonObject = {"ok": True, "result": result, "usage": {"input_tokens": -1, "output_tokens": 0}}
            # It answers with an error if the run fails.
            await office.outcome(office.owner, operation, execution_id=run_id, node_id=item["node_id"], outcome=outcome)
    return await office.call(office.owner, "execution.status", execution_id=run_id)


@pytest.mark.parametrize("operation", ["execution.submit_activity", "control.workflow_submit_activity"])
@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"tokens": 100, "turns": 50}, "AGENT_TOKENS_SPENT"),
        ({"cost": 0.5, "turns": 50}, "AGENT_COST_UNKNOWN"),
    ],
)
def test_the_model_of_a_program_that_does_the_activities_counts_although_it_reports_nothing(
    tmp_path: Path, limits: JsonObject, code: str, operation: str
) -> None:
    say: JsonObject = {
        "text": "I look it up. " * 10,
        "tool_calls": [{"id": "1", "name": "workflow.list", "arguments": {}}],
        "answer": None,
        "problem": None,
        "usage": {"input_tokens": 0, "output_tokens": 0, "cost": 0},
    }

    async def test(office: Office) -> None:
        document = agent("workflow.list", limits=limits)
        await office.call(office.owner, "workflow.create", document=document)
        begun = await office.call(
            office.owner, "workflow.execute", workflow_id="support", input={"prompt": "Go."}, mode="host_mediated"
        )
        ended = await play_host(office, begun["execution_id"], operation, say)
        assert (ended["status"], (ended["error"] or {}).get("code")) == ("failed", code), ended
        counted = await read_spending(office.gate.services.store.database, begun["execution_id"])
        assert counted is not None
        if code == "AGENT_TOKENS_SPENT":
            assert counted.own.tokens >= 100
            assert counted.own.turns == counted.own.requests > 0

    in_office(tmp_path, test)


def test_usage_that_a_program_outside_reports_is_believed_if_it_can_be_true(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        for document in (LENT, BORROWING):
            await office.call(office.owner, "workflow.create", document=document)
        begun = await office.call(
            office.owner, "workflow.execute", workflow_id="borrowing", input={}, mode="host_mediated"
        )

        async def find_child() -> Any:
            listed = await office.call(office.owner, "execution.list", parent_id=begun["execution_id"])
            return listed["items"][0]["execution_id"] if listed["items"] else None

        child = await until_found(find_child)
        usage: JsonObject = {"input_tokens": 70, "output_tokens": 7, "cost": {"amount": "0.002", "currency": "USD"}}
        outcome: JsonObject = {"ok": True, "result": {"text": "Paris"}, "usage": usage}
        submit = {"execution_id": child, "node_id": "ask"}
        wrong = await office.outcome(
            office.owner, "control.workflow_submit_activity", **submit, attempt=7, outcome=outcome
        )
        assert isinstance(wrong, RefusedCall)  # and takes back what it entered
        await office.call(office.owner, "control.workflow_submit_activity", **submit, outcome=outcome)
        again = await office.outcome(office.owner, "control.workflow_submit_activity", **submit, outcome=outcome)
        assert isinstance(again, RefusedCall)
        ended = await waiting_for(office, begun["execution_id"], "completed")
        used = ended["usage"]
        assert (used["requests"], used["input_tokens"], used["output_tokens"]) == (1, 70, 7)
        assert used["cost"] == {"amount": "0.002", "currency": "USD"}

    in_office(tmp_path, test)


class SlowClock(SystemClock):
    """The machine's clock, moved forward by a test."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


def test_the_time_of_an_agent_binds_the_runs_below_it(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        child = agent("workflow:support", name="child", limits={"turns": 200}, document=TOOL)
        answer = await run_of(office, agent("workflow:child", limits={"time": "1h", "turns": 50}, document=TOOL), child)
        assert (answer["status"], answer["error"]["code"]) == ("failed", "AGENT_TIME_SPENT")

    def say(request: LlmRequest) -> JsonValue:
        clock.ahead_ms += 20 * 60 * 1000
        return calls((f"workflow:{request.tools[0].name}", {"prompt": "You do it."}))

    clock, model = SlowClock(), PricedModel(say)
    in_office(tmp_path, test, clock=clock, executors=executors(model))
    assert model.asked == 3


ASKING_FOR_EVER: JsonObject = {
    "penstock": "v1",
    "name": "for_ever",
    **TOOL,
    "nodes": [
        {"id": "ask", "type": "llm_call", "model": "fast", "prompt": "More?"},
        {"id": "on", "type": "continue_as_new", "input": {}},
    ],
}


def test_a_run_that_continues_as_new_below_an_agent_keeps_counting_for_it(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        answer = await run_of(office, agent("workflow:for_ever", limits={"turns": 6}), ASKING_FOR_EVER)
        assert (answer["status"], answer["error"]["code"]) == ("failed", "AGENT_TURNS_SPENT"), answer
        assert answer["usage"]["requests"] == model.asked

    def say(request: LlmRequest) -> JsonValue:
        return calls(("workflow:for_ever", {})) if request.tools else "More."

    model = PricedModel(say)
    in_office(tmp_path, test, executors=executors(model))
    assert model.asked == 6


def test_a_delegate_of_this_server_counts_for_the_agent_that_asks_it(tmp_path: Path) -> None:
    delegating: JsonObject = {
        "penstock": "v1",
        "name": "ask_helper",
        **TOOL,
        "nodes": [
            {"id": "ask", "type": "agent_delegate", "agent_id": "helper", "input": {"prompt": "Do it."}},
            {"id": "done", "type": "end", "output": "${ .ask }"},
        ],
    }

    async def test(office: Office) -> None:
        await office.call(office.owner, "agent.create", id="helper", model="fast", instructions="Help.")
        answer = await run_of(office, agent("workflow:ask_helper", limits={"turns": 4}), delegating)
        assert (answer["error"] or {}).get("code") == "AGENT_TURNS_SPENT", answer
        assert answer["usage"]["requests"] == model.asked == 4
        assert answer["usage"]["own"]["requests"] == 2

    def say(request: LlmRequest) -> JsonValue:
        return calls(("workflow:ask_helper", {})) if request.tools else "Done."

    model = PricedModel(say)
    in_office(tmp_path, test, executors={**executors(model), "agent_delegate": DelegateExecutor()})


def test_what_was_answered_before_a_crash_counts_once(tmp_path: Path) -> None:
    """Answered turns are in the history and are not asked again; only the request that was lost counts beside them."""

    async def test() -> None:
        died = asyncio.Event()
        first = PricedModel(always("workflow:support"), died=died, dies_at=3)
        dying = {"llm_call": Dying(LlmExecutor({"priced": first}), died)}
        async with open_office(tmp_path, executors=dying) as office:
            document = agent("workflow:support", limits={"turns": 6}, document=TOOL)
            await office.call(office.owner, "workflow.create", document=document)
            begun = await office.call(office.owner, "workflow.execute", workflow_id="support", input={"prompt": "Go."})
            await asyncio.wait_for(died.wait(), SECONDS_MAX)
        second = PricedModel(always("workflow:support"))
        async with open_office(tmp_path, executors=executors(second)) as office:
            ended_run = await waiting_for(office, begun["execution_id"], "failed")
            counted = await read_spending(office.gate.services.store.database, begun["execution_id"])
            assert counted is not None
            whole = counted.own + counted.below
            assert ended_run["error"]["code"] == "AGENT_TURNS_SPENT"
        assert (first.answered, second.asked) == (2, 3)
        assert (whole.turns, whole.requests) == (6, 6)
        assert ended_run["usage"]["requests"] == 6

    asyncio.run(test())


def test_an_agent_that_a_program_outside_asks_counts_as_a_turn(tmp_path: Path) -> None:
    delegating: JsonObject = {
        "penstock": "v1",
        "name": "lent",
        "nodes": [
            {"id": "ask", "type": "agent_delegate", "agent_id": "partner", "input": {"prompt": "Do it."}},
            {"id": "done", "type": "end", "output": "${ .ask }"},
        ],
    }

    async def test(office: Office) -> None:
        for document in (delegating, BORROWING):
            await office.call(office.owner, "workflow.create", document=document)
        begun = await office.call(
            office.owner, "workflow.execute", workflow_id="borrowing", input={}, mode="host_mediated"
        )

        async def find_child() -> Any:
            listed = await office.call(office.owner, "execution.list", parent_id=begun["execution_id"])
            return listed["items"][0]["execution_id"] if listed["items"] else None

        child = await until_found(find_child)
        await office.call(
            office.owner,
            "execution.submit_activity",
            execution_id=child,
            node_id="ask",
            ok=True,
            result={"text": "Done."},
        )
        ended_run = await waiting_for(office, begun["execution_id"], "completed")
        assert (ended_run["usage"]["requests"], ended_run["usage"]["cost"]) == (1, None)
        assert ended_run["usage"]["input_tokens"] > 0

    in_office(tmp_path, test)
