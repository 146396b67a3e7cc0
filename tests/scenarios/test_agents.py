"""Agents are runs: turns and calls are recorded, limited, approved and refused, and none is repeated after a crash."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.ports.host import Committed
from tests.scenarios.agents import (
    FIND,
    Dying,
    ScriptedModel,
    agent,
    calls,
    conversation,
    ended,
    executors,
    waiting_for,
)
from tests.scenarios.office import Office, in_office, open_office, staff
from tests.waiting import SECONDS_MAX, until, until_found

FOUND: JsonObject = {"id": "A-1", "status": "shipped"}
LOOK = calls(("workflow:find_order", {"id": "A-1"}))
ERASES = calls(("workflow:erase_customer", {"customer": "C-7"}))


def with_agent(path: Path, turns: list[JsonValue], body: Any) -> ScriptedModel:
    """Run a test in an office whose model follows a script; FIND is there already."""
    model = ScriptedModel(turns)

    async def test(office: Office) -> None:
        await office.call(office.owner, "workflow.create", document=FIND)
        await body(office)

    in_office(path, test, executors=executors(model))
    return model


def test_an_agent_answers_at_once(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        answer = await ended(office, agent(), input={"prompt": "Hello?", "context": {"shop": "Acme"}})
        assert (answer["status"], answer["output"]) == ("completed", {"text": "Hello."})

    model = with_agent(tmp_path, ["Hello."], test)
    [request] = model.requests
    prompt, context = request.messages
    assert prompt.text == "Hello?"
    assert context.text.startswith("<untrusted-")
    assert "Acme" in context.text


def test_an_agent_calls_a_tool_and_reads_what_it_returned(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        answer = await ended(office, agent("workflow:find_order"))
        assert answer["output"] == {"text": "It is on its way."}
        said = await conversation(office, answer["execution_id"])
        assert [entry["role"] for entry in said] == ["user", "assistant", "tool", "assistant"]
        assert said[2] == {"role": "tool", "id": "call_1_0", "name": "workflow:find_order", "content": FOUND}

    model = with_agent(tmp_path, [LOOK, "It is on its way."], test)
    first, second = model.requests
    [tool] = first.tools
    assert (tool.name, tool.description) == ("find_order", "Finds an order.")
    assert tool.input_schema["required"] == ["id"]
    assert '"status":"shipped"' in second.messages[-1].text


def test_calls_of_one_turn_are_made_side_by_side_and_told_in_order(tmp_path: Path) -> None:
    wanted: list[tuple[str, JsonObject]] = [("workflow:find_order", {"id": f"A-{number}"}) for number in range(5)]
    turn = calls(*wanted)

    async def test(office: Office) -> None:
        document = agent("workflow:find_order", limits={"parallel_tools": 3})
        answer = await ended(office, document)
        said = await conversation(office, answer["execution_id"])
        assert [entry["content"]["id"] for entry in said if entry["role"] == "tool"] == [f"A-{n}" for n in range(5)]

    with_agent(tmp_path, [turn, "Done."], test)


def test_what_cannot_be_called_is_told_to_the_model(tmp_path: Path) -> None:
    turn: JsonValue = {
        "tool_calls": [
            {"name": "workflow:gone", "arguments": {}},
            {"name": "workflow.delete", "arguments": {"workflow_id": "find_order"}},
            {"name": "workflow:find_order", "arguments": "A-1"},
            {"name": "workflow:find_order", "arguments": {"id": 7}},
            {"name": "find_orders", "arguments": {}},
        ]
    }

    async def test(office: Office) -> None:
        answer = await ended(office, agent("workflow:find_order"))
        said = await conversation(office, answer["execution_id"])
        errors = [entry["error"].partition(":")[0] for entry in said if entry["role"] == "tool"]
        assert errors == [*["TOOL_UNKNOWN"] * 2, "TOOL_ARGUMENTS_INVALID", "INVALID_ARGUMENTS", "TOOL_UNKNOWN"]
        await office.call(office.owner, "workflow.get", workflow_id="find_order")

    model = with_agent(tmp_path, [turn, "I cannot."], test)
    told = [message for message in model.requests[1].messages if message.role == "tool"]
    assert [message.failed for message in told] == [True] * 5
    assert "there is no tool find_orders; did you mean find_order?" in told[4].text


def test_an_agent_has_the_rights_of_its_caller_and_no_others(tmp_path: Path) -> None:
    turn = calls(("workflow.delete", {"workflow_id": "find_order"}), ("key.list", {}))

    async def test(office: Office) -> None:
        await office.hire("clerk", "person", "workflow:run", "workflow:read", "execution:*")
        answer = await ended(office, agent("workflow.*", "key.list"), "clerk")
        said = await conversation(office, answer["execution_id"])
        errors = [entry["error"].partition(":")[0] for entry in said if entry["role"] == "tool"]
        assert errors == ["SCOPE_REQUIRED", "SCOPE_REQUIRED"]
        await office.call(office.owner, "workflow.get", workflow_id="find_order")

    model = with_agent(tmp_path, [turn, "I may not."], test)
    offered = {tool.name for tool in model.requests[0].tools}
    assert "workflow_list" in offered
    assert offered.isdisjoint({"workflow_delete", "key_list"})


def test_a_tool_result_approves_nothing(tmp_path: Path) -> None:
    """Whatever a model is talked into, the gate takes its calls for those of a model."""
    drafts: list[str] = []

    async def test(office: Office) -> None:
        await office.hire("clerk", "person", "*")
        drafts.append(await office.propose())
        model.turns = [calls(("draft.approve", {"draft_id": drafts[0]})), "I tried."]
        answer = await ended(office, agent("draft.*"), "clerk")
        said = await conversation(office, answer["execution_id"])
        assert said[2]["error"].startswith("PERSON_REQUIRED")
        assert await office.erased() == []

    model = ScriptedModel([])
    in_office(tmp_path, test, executors=executors(model))


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_held_call_parks_the_agent_until_somebody_decides_after_a_restart(tmp_path: Path, decision: str) -> None:
    model = ScriptedModel([ERASES, "Done."])
    document = agent("workflow:erase_customer")

    async def test() -> None:
        async with open_office(tmp_path, executors=executors(model)) as office:
            await staff(office)
            await office.hire("clerk", "person", "*")
            await office.call(office.owner, "workflow.create", document=document)
            given = {"workflow_id": "support", "input": {"prompt": "Erase C-7."}}
            begun = await office.call("clerk", "workflow.execute", **given)

            async def held() -> Any:
                return (await office.call("ada", "draft.list"))["items"] or None

            [draft] = await until_found(held)
            assert (await waiting_for(office, begun["execution_id"], "waiting_activity"))["status"]
            looked = {"execution_id": begun["execution_id"], "wait_seconds": 0}
            [told] = (await office.call("clerk", "execution.wait", **looked))["held_calls"]
            assert (told["draft_id"], told["operation"]) == (draft["id"], "workflow:erase_customer")
            assert told["approvers"]["group"] == "approvers"
            # Another key of an agent knows nothing of it.
            await office.hire("robot", "agent", "execution:read")
            assert not (await office.call("robot", "execution.wait", **looked)).get("held_calls")
        async with open_office(tmp_path, executors=executors(model)) as office:
            ada = await office.hire("ada2", "person", "draft:*", "execution:*", "approve:approvers")
            await office.call(ada, f"draft.{decision}", draft_id=draft["id"])
            answer = await waiting_for(office, begun["execution_id"], "completed", "failed")
            assert answer["output"] == {"text": "Done."}
            told = (await conversation(office, begun["execution_id"]))[2]
            if decision == "approve":
                assert told["content"] == {"erased": "C-7"}
                assert await office.erased() == ["C-7"]
            else:
                assert told["error"].startswith("DRAFT_REJECTED")
                assert await office.erased() == []
        assert len(model.requests) == 2

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_who_calls_an_agent_as_a_tool_learns_which_draft_its_call_waits_as(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("clerk", "person", "*")
        document = {**agent("workflow:erase_customer"), "expose": {"tool": True}}
        await office.call(office.owner, "workflow.create", document=document)
        more = {"surface": "mcp", "patience_seconds": 2}
        [told] = (await office.call("clerk", "workflow:support", prompt="Erase C-7.", request=more))["held_calls"]
        [draft] = (await office.call("ada", "draft.list"))["items"]
        assert (told["draft_id"], told["approvers"]["group"]) == (draft["id"], "approvers")

    in_office(tmp_path, test, executors=executors(ScriptedModel([ERASES, "Done."])))


@pytest.mark.parametrize("approved", [True, False])
def test_a_tool_that_wants_approval_asks_before_each_call(tmp_path: Path, approved: bool) -> None:
    async def test(office: Office) -> None:
        document = agent({"tool": "workflow:find_order", "approvers": {"group": "approvers"}})
        await office.call(office.owner, "workflow.create", document=document)
        begun = await office.call(office.owner, "workflow.execute", workflow_id="support", input={"prompt": "Go."})
        run = begun["execution_id"]
        asked = await waiting_for(office, run, "waiting_approval")
        assert 'workflow:find_order with {"id":"A-1"}' in str(asked)
        await office.call("ada", "execution.answer", execution_id=run, answer={"approved": approved})
        await waiting_for(office, run, "completed")
        told = (await conversation(office, run))[2]
        assert told.get("content") == (FOUND if approved else None)
        assert ("TOOL_CALL_DECLINED" in told.get("error", "")) is not approved

    with_agent(tmp_path, [LOOK, "Done."], test)


def test_an_agent_asks_a_person_and_goes_on_with_the_answer(tmp_path: Path) -> None:
    turn = calls(("ask_user", {"question": "Which order?"}))

    async def test(office: Office) -> None:
        await office.call(office.owner, "workflow.create", document=agent(ask_user=True))
        begun = await office.call(office.owner, "workflow.execute", workflow_id="support", input={"prompt": "Go."})
        asked = await waiting_for(office, begun["execution_id"], "waiting_input")
        assert "Which order?" in str(asked)
        given = {"execution_id": begun["execution_id"], "answer": {"answer": "A-1"}}
        assert (await office.refusal("robot", "execution.answer", **given)).code == "PERSON_REQUIRED"
        await office.call(office.owner, "execution.answer", **given)
        answer = await waiting_for(office, begun["execution_id"], "completed")
        assert answer["output"] == {"text": "Thanks."}

    model = with_agent(tmp_path, [turn, "Thanks."], test)
    assert [tool.name for tool in model.requests[0].tools] == ["ask_user"]
    assert model.requests[1].messages[-1].text == "A-1"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"turns": 2}, "AGENT_TURNS_SPENT"),
        ({"tokens": 1}, "AGENT_TOKENS_SPENT"),
        ({"cost": 0.1}, "AGENT_COST_UNKNOWN"),
    ],
)
def test_a_limit_ends_an_agent_before_anything_else_is_called(
    tmp_path: Path, given: dict[str, JsonValue], code: str
) -> None:
    async def test(office: Office) -> None:
        answer = await ended(office, agent("workflow:find_order", limits=given))
        assert (answer["status"], answer["error"]["code"]) == ("failed", code)
        called = (await office.call(office.owner, "execution.list", workflow_id="find_order"))["items"]
        assert len(called) == len(model.requests) - 1

    model = ScriptedModel([LOOK, LOOK, LOOK])

    async def prepared(office: Office) -> None:
        await office.call(office.owner, "workflow.create", document=FIND)
        await test(office)

    in_office(tmp_path, prepared, executors=executors(model))


def test_an_answer_that_does_not_fit_is_repaired_in_a_turn_of_its_own(tmp_path: Path) -> None:
    schema: JsonObject = {"type": "object", "required": ["total"], "properties": {"total": {"type": "number"}}}

    async def test(office: Office) -> None:
        answer = await ended(office, agent(output_schema=schema))
        assert answer["output"] == {"total": 3}

    model = with_agent(tmp_path, [{"total": "much"}, {"total": 3}], test)
    assert "/total" in model.requests[1].messages[-1].text


def test_an_answer_that_never_fits_fails_the_agent(tmp_path: Path) -> None:
    schema: JsonObject = {"type": "object", "required": ["total"]}

    async def test(office: Office) -> None:
        answer = await ended(office, agent(output_schema=schema))
        assert answer["error"]["code"] == "OUTPUT_SCHEMA_VIOLATION"

    model = with_agent(tmp_path, [{"a": 1}] * 9, test)
    assert len(model.requests) == limits.AGENT_REPAIRS_MAX + 1


def test_agents_that_call_each_other_end_at_a_depth(tmp_path: Path) -> None:
    turn = calls(("workflow:support", {"prompt": "You do it."}))

    async def test(office: Office) -> None:
        document = agent("workflow:support", document={"expose": {"tool": True}})
        answer = await ended(office, document)
        assert answer["status"] == "completed"
        runs = (await office.call(office.owner, "execution.list", workflow_id="support"))["items"]
        assert len(runs) == limits.CALLED_RUNS_DEPTH_MAX + 1

    model = with_agent(tmp_path, [turn, "Done."], test)
    deepest = [request.messages[-1].text for request in model.requests if request.messages[-1].failed]
    assert [text for text in deepest if "CALLS_TOO_DEEP" in text]


def test_a_cancelled_agent_takes_the_call_that_it_waits_for_with_it(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("clerk", "person", "*")
        document = agent("workflow:erase_customer")
        await office.call(office.owner, "workflow.create", document=document)
        begun = await office.call("clerk", "workflow.execute", workflow_id="support", input={"prompt": "Go."})

        async def held() -> Any:
            return (await office.call("ada", "draft.list"))["items"] or None

        [draft] = await until_found(held)

        async def parked() -> bool:
            driver = office.penstock.driver
            return driver is not None and bool(driver._only_waiting)

        await until(parked)
        await office.call(office.owner, "execution.cancel", execution_id=begun["execution_id"])
        await waiting_for(office, draft["id"], "cancelled")
        assert (await office.refusal("ada", "draft.approve", draft_id=draft["id"])).code == "DRAFT_FINAL"

    with_agent(tmp_path, [ERASES, "Done."], test)


def test_after_a_crash_at_any_commit_no_turn_is_paid_twice_and_no_tool_is_called_twice(tmp_path: Path) -> None:
    """The process dies after each commit in turn: of the agent, and of the runs that its calls start."""
    two = calls(("workflow:find_order", {"id": "A-1"}), ("workflow:find_order", {"id": "A-2"}))
    turns: list[JsonValue] = [two, LOOK, "Done."]
    document = agent("workflow:find_order")

    async def life(path: Path, dies_after: int) -> tuple[int, Any, ScriptedModel]:
        """Let a process die after so many commits and another one go on; return the commits of the first."""
        commits, died = 0, asyncio.Event()
        model = ScriptedModel(turns)

        def observe(committed: Committed) -> None:
            nonlocal commits
            if begun and not died.is_set():
                commits += 1
                if commits >= dies_after:
                    died.set()

        begun = False
        async with open_office(path, executors=executors(model), observe=observe) as office:
            await office.call(office.owner, "workflow.create", document=FIND)
            await office.call(office.owner, "workflow.create", document=document)
            driver = office.penstock.driver
            assert driver is not None
            driver.performer = Dying(driver.performer, died)
            begun = True
            given = {"workflow_id": "support", "input": {"prompt": "Go."}, "execution_id": "the-agent"}
            await office.call(office.owner, "workflow.execute", **given)

            async def over() -> bool:
                state = await office.gate.services.host.read("the-agent")
                return died.is_set() or (state is not None and state.terminal)

            await until(over)
        async with open_office(path, executors=executors(model)) as office:
            await waiting_for(office, "the-agent", "completed", "failed")
            said = await conversation(office, "the-agent")
            runs = (await office.call(office.owner, "execution.list", workflow_id="find_order"))["items"]
            assert len(runs) == 3, (dies_after, runs)
        return commits, said, model

    folders = [tmp_path / str(number) for number in range(100)]
    for folder in folders:
        folder.mkdir()

    async def test() -> None:
        commits, expected, model = await life(folders[0], 10_000)
        asked = [request.messages for request in model.requests]
        assert len(asked) == 3
        assert 10 < commits < len(folders)
        for dies_after in range(1, commits + 1):
            _, said, model = await life(folders[dies_after], dies_after)
            assert said == expected, dies_after
            assert [request.messages for request in model.requests] == asked, dies_after

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_the_tools_of_a_run_are_those_of_its_beginning(tmp_path: Path) -> None:
    """What a tool says of itself is in the history; what may be called is decided when it is called."""

    async def test(office: Office) -> None:
        document = agent("workflow:find_order", ask_user=True)
        await office.call(office.owner, "workflow.create", document=document)
        begun = await office.call(office.owner, "workflow.execute", workflow_id="support", input={"prompt": "Go."})
        await waiting_for(office, begun["execution_id"], "waiting_input")
        await office.call(office.owner, "workflow.delete", workflow_id="find_order")
        await office.call(
            office.owner, "execution.answer", execution_id=begun["execution_id"], answer={"answer": "Go on."}
        )
        await waiting_for(office, begun["execution_id"], "completed")
        said = await conversation(office, begun["execution_id"])
        assert said[4]["error"].partition(":")[0] == "OPERATION_NOT_FOUND", said[4]

    model = with_agent(tmp_path, [calls(("ask_user", {"question": "?"})), LOOK, "It is gone."], test)
    assert model.requests[0].tools == model.requests[1].tools


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("preflight.run", {"operation": "workflow:find_order", "arguments": {"id": "A-1"}}),
        ("preflight.run", {"operation": "workflow:erase_customer", "arguments": {"customer": "C-7"}}),
        ("workflow.get", {"workflow_id": "find_order"}),
        ("workflow.validate", {"document": {"penstock": "v1", "name": "x", "nodes": []}}),
        ("system.health", {}),
        ("workflow.list", {}),
        ("audit.list", {"limit": 2}),
    ],
)
def test_an_agent_reads_the_answer_of_any_operation(tmp_path: Path, operation: str, arguments: JsonObject) -> None:
    async def test(office: Office) -> None:
        answer = await ended(office, agent(operation))
        said = await conversation(office, answer["execution_id"])
        assert "error" not in said[2], said[2]
        assert said[2]["content"]

    with_agent(tmp_path, [calls((operation, arguments)), "I see."], test)
