"""The events of an agent: what its model says and calls, in order, and not for whoever must not see the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.base.json import JsonValue
from penstock.operations.catalogue.capability import EventStream
from penstock.operations.gate.pipeline import AnsweredCall
from tests.scenarios.agents import FIND, ScriptedModel, agent, calls, executors
from tests.scenarios.office import Office, in_office

TURNS: list[JsonValue] = [
    {"text": "I look.", "tool_calls": [{"name": "workflow:find_order", "arguments": {"id": "A-1"}}]},
    "It is on its way.",
]


async def events_of(office: Office, who: Any, operation: str, **arguments: Any) -> list[tuple[str | None, Any]]:
    """What a call that wants events is answered with."""
    outcome = await office.outcome(who, operation, **arguments, request={"streams": True})
    assert isinstance(outcome, AnsweredCall), outcome
    assert isinstance(outcome.reply, EventStream)
    return [(event.event, event.data) async for event in outcome.reply.events if event.event is not None]


def with_support(path: Path, test: Any) -> None:
    model = ScriptedModel(TURNS)

    async def prepared(office: Office) -> None:
        await office.call(office.owner, "workflow.create", document=FIND)
        await office.call(office.owner, "workflow.create", document=agent("workflow:find_order"))
        await test(office)

    in_office(path, prepared, executors=executors(model))


def test_pieces_turns_and_calls_come_in_order(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        for operation, member in (("agent.message", "message"), ("agent.execute", "prompt")):
            events = await events_of(office, office.owner, operation, agent_id="support", **{member: "Where?"})
            told: list[Any] = []
            for name, data in events:
                if name == "delta" and told and told[-1][0] == "delta" and data["offset"]:
                    told[-1] = ("delta", told[-1][1] + data["text"])
                elif name in ("delta", "turn"):
                    told.append((name, data["text"]))
                elif name == "tool":
                    told.append((name, data["phase"]))
            assert told == [
                ("delta", "I look."),
                ("turn", "I look."),
                ("tool", "begun"),
                ("tool", "done"),
                ("delta", "It is on its way."),
                ("turn", "It is on its way."),
            ]
            assert (events[0][0], events[-1][0]) == ("begun", "complete")

    with_support(tmp_path, test)


def test_a_repeated_call_is_told_which_execution_it_started(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        for operation, member in (("agent.message", "message"), ("agent.execute", "prompt")):
            given = {"agent_id": "support", member: "Where?", "request": {"streams": True, "idempotency_key": "k-1"}}
            outcome = await office.outcome(office.owner, operation, **given)
            assert isinstance(outcome, AnsweredCall)
            assert isinstance(outcome.reply, EventStream)
            assert [event.event async for event in outcome.reply.events][-1] == "complete"
            again = await office.call(office.owner, operation, **given)
            assert again["execution_id"] == outcome.reply.execution_id

    with_support(tmp_path, test)


def test_whoever_must_not_see_the_answer_reads_nothing_of_it(tmp_path: Path) -> None:
    policy = (
        '@id("texts") @redact("output.text") forbid (principal, action == Action::"workflow:support", resource)'
        ' unless { principal in Group::"support" };'
    )

    async def test(office: Office) -> None:
        await office.hire("robot2", "service", "*")
        await office.call(office.owner, "policy.put", policy_id="hidden", text=policy)
        for operation, member in (("agent.message", "message"), ("agent.execute", "prompt")):
            events = await events_of(office, "robot2", operation, agent_id="support", **{member: "Where?"})
            names = {name for name, _ in events}
            assert "complete" in names
            assert names.isdisjoint({"delta", "turn", "tool"})
            assert "on its way" not in str(events)
            heard: list[Any] = []

            async def observe(news: Any, heard: list[Any] = heard) -> None:
                heard.append(news)

            request = {"observe": observe, "reads_along": True}
            await office.call("robot2", operation, agent_id="support", **{member: "Where?"}, sync=True, request=request)
            assert heard
            assert "I look" not in str(heard)

    with_support(tmp_path, test)


def test_a_call_of_many_arguments_is_told_without_them(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        long = calls(("workflow:find_order", {"id": "A" * 5000}))
        model.turns = [long, "Done."]
        await office.call(office.owner, "workflow.create", document=FIND)
        await office.call(office.owner, "workflow.create", document=agent("workflow:find_order"))
        events = await events_of(office, office.owner, "agent.message", agent_id="support", message="Where?")
        begun = next(data for name, data in events if name == "tool")
        assert begun["arguments_left_out"] is True
        assert "arguments" not in begun

    model = ScriptedModel([])
    in_office(tmp_path, test, executors=executors(model))
