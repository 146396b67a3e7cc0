"""`agent.execute` runs entries of the registry and documents with an `agent` block; nodes reach the same agents."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.app.executors.delegates import DelegateExecutor
from penstock.base.json import JsonObject, JsonValue
from penstock.operations.catalogue.capability import Reply
from penstock.operations.registries.agents import document_of_agent
from penstock.runtime.executors.agents.executor import AgentExecutor, SdkAgent
from penstock.runtime.executors.agents.port import AgentTask
from tests.scenarios.agents import FIND, ScriptedModel, agent, calls, executors, waiting_for
from tests.scenarios.office import Office, in_office, open_office, staff
from tests.waiting import SECONDS_MAX

LOOK = calls(("workflow:find_order", {"id": "A-1"}))


def with_model(path: Path, turns: list[JsonValue], body: Any) -> ScriptedModel:
    model = ScriptedModel(turns, {"fast": "fast", "default": "fast"})

    async def test(office: Office) -> None:
        await office.call(office.owner, "workflow.create", document=FIND)
        await body(office)

    in_office(path, test, executors={**executors(model), "agent_delegate": DelegateExecutor()})
    return model


def test_an_entry_of_the_registry_runs_and_calls_tools(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.call(
            office.owner, "agent.create", id="Helper.1", instructions="Cost: ${ 5 }.", workflows=["find_order"]
        )
        reply: Reply[Any] = await office.reply(
            office.owner, "agent.execute", agent_id="Helper.1", prompt="Where?", context={"shop": "Acme"}, sync=True
        )
        answer = msgspec.to_builtins(reply.value)
        assert (reply.status, answer["status"], answer["output"]) == (200, "completed", {"text": "On its way."})
        again = await office.call(office.owner, "agent.execute", agent_id="Helper.1", prompt="Where?", sync=True)
        assert again["workflow_id"] == "agent:Helper.1"
        records = (await office.call(office.owner, "audit.list", operation="agent.define"))["items"]
        assert len(records) == 1

    model = with_model(tmp_path, [LOOK, "On its way."], test)
    assert (model.requests[0].system or "").startswith("Cost: ${ 5 }.")
    assert [tool.name for tool in model.requests[0].tools] == ["find_order"]


def test_a_handle_comes_at_once_and_the_same_call_is_made_once(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.call(office.owner, "agent.create", id="helper")
        asked = {"agent_id": "helper", "prompt": "Hello?", "request": {"idempotency_key": "k-1"}}
        first: Reply[Any] = await office.reply(office.owner, "agent.execute", **asked)
        second: Reply[Any] = await office.reply(office.owner, "agent.execute", **asked)
        run = msgspec.to_builtins(first.value)["execution_id"]
        assert first.status == 202
        assert first.location == f"/executions/{run}"
        assert msgspec.to_builtins(second.value)["execution_id"] == run
        assert (await waiting_for(office, run, "completed"))["output"] == {"text": "Hello."}

    model = with_model(tmp_path, ["Hello."], test)
    assert len(model.requests) == 1


def test_a_document_with_an_agent_runs_with_the_scopes_that_it_asks_for(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        document = agent(document={"governance": {"scopes": ["shop:write"]}})
        await office.call(office.owner, "workflow.create", document=document)
        await office.hire("clerk", "person", "agent:run", "workflow:read", "workflow:run")
        asked = {"agent_id": "support", "prompt": "Hello?", "sync": True}
        assert (await office.refusal("clerk", "agent.execute", **asked)).code == "SCOPE_REQUIRED"
        answer = await office.call(office.owner, "agent.execute", **asked)
        assert (answer["workflow_id"], answer["output"]) == ("support", {"text": "Hello."})

    with_model(tmp_path, ["Hello."], test)


def test_a_question_of_an_agent_ends_the_wait(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.call(office.owner, "agent.create", id="helper", ask_user=True)
        answer = await office.call(office.owner, "agent.execute", agent_id="helper", prompt="Hello?", sync=True)
        assert answer["status"] == "waiting_input"
        assert "Which?" in str(answer["questions"])

    with_model(tmp_path, [calls(("ask_user", {"question": "Which?"})), "Fine."], test)


def test_what_is_no_agent_is_not_found(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        for name in ("nobody", "find_order"):
            refused = await office.refusal(office.owner, "agent.execute", agent_id=name, prompt="Hello?")
            assert refused.code == "AGENT_NOT_FOUND"
        await office.hire("clerk", "person", "agent:read")
        refused = await office.refusal("clerk", "agent.execute", agent_id="nobody", prompt="Hello?")
        assert refused.code == "SCOPE_REQUIRED"

    with_model(tmp_path, [], test)


@pytest.mark.parametrize(
    "body",
    [
        {"tools": ["*"]},
        {"tools": [{"tool": "workflow:a", "approvers": {"count": 0}}]},
        {"limits": {"time": "soon"}},
        {"output_schema": {"type": "thing"}},
    ],
)
def test_an_entry_that_stands_for_no_document_is_refused(tmp_path: Path, body: JsonObject) -> None:
    async def test(office: Office) -> None:
        refused = await office.refusal(office.owner, "agent.create", id="helper", **body)
        assert refused.code == "AGENT_INVALID"
        assert refused.details is not None
        assert refused.details["findings"]

    in_office(tmp_path, test)


def test_an_agent_has_one_name_whatever_its_kind_is(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.call(office.owner, "agent.create", id="helper")
        refused = await office.refusal(office.owner, "workflow.create", document=agent(name="helper"))
        assert refused.code == "AGENT_NAME_TAKEN"
        await office.call(office.owner, "workflow.create", document=agent())
        assert (await office.refusal(office.owner, "agent.create", id="support")).code == "AGENT_NAME_TAKEN"

    with_model(tmp_path, [], test)


def test_a_name_of_the_settings_is_taken(tmp_path: Path) -> None:
    named = DelegateExecutor(protocols={"coder": "sdk"})

    async def test() -> None:
        async with open_office(tmp_path, executors={"agent_delegate": named}) as office:
            await staff(office)
            refused = await office.refusal(office.owner, "agent.create", id="coder")
            assert refused.code == "AGENT_NAME_TAKEN"
            refused = await office.refusal(office.owner, "workflow.create", document=agent(name="coder"))
            assert refused.code == "AGENT_NAME_TAKEN"

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_an_agent_of_the_settings_is_given_work_like_any_other_and_counts_first(tmp_path: Path) -> None:
    tasks: list[AgentTask] = []

    async def code(task: AgentTask) -> JsonValue:
        tasks.append(task)
        return {"done": task.input}

    async def test(office: Office) -> None:
        await office.hire("clerk", "person", "agent:run")
        asked: Any = {"agent_id": "coder", "prompt": "Fix it.", "context": {"file": "a.py"}, "sync": True}
        answer = await office.call("clerk", "agent.execute", **asked)
        assert (answer["status"], answer["workflow_id"]) == ("completed", "agent:coder"), answer
        assert answer["output"] == {"done": {"prompt": "Fix it.", "context": {"file": "a.py"}}}
        refused = await office.refusal("clerk", "agent.execute", agent_id="nobody", prompt="?")
        assert (refused.code, "the settings have coder" in str(refused.hint)) == ("AGENT_NOT_FOUND", True)

    async def opened() -> None:
        # An entry of before the settings had the name is not reached by it any more, by nodes and calls alike.
        async with open_office(tmp_path) as office:
            await staff(office)
            await office.call(office.owner, "agent.create", id="coder")
        agents = AgentExecutor({"coder": SdkAgent(code)})
        named = DelegateExecutor(agents=agents, protocols={"coder": "sdk"})
        async with open_office(tmp_path, executors={"agent_delegate": named}) as office:
            await test(office)
            # It is listed once, as what it is; the entry behind it is not.
            await office.call(office.owner, "agent.create", id="author", instructions="Write.")
            listed = (await office.call(office.owner, "agent.list"))["items"]
            found = [(item["id"], item.get("source"), item.get("protocol")) for item in listed]
            assert found == [("coder", "settings", "sdk"), ("author", "registry", None)]
            assert (await office.call(office.owner, "agent.get", agent_id="coder"))["source"] == "settings"
            assert (await office.call(office.owner, "agent.list", prefix="a"))["items"] == listed[1:]

    asyncio.run(asyncio.wait_for(opened(), SECONDS_MAX))
    assert [task.agent_id for task in tasks] == ["coder"]


def test_a_node_delegates_to_an_agent_of_the_server(tmp_path: Path) -> None:
    delegating: JsonObject = {
        "penstock": "v1",
        "name": "boss",
        "nodes": [
            {
                "id": "asked",
                "type": "agent_delegate",
                "agent_id": "helper",
                "protocol": "sdk",
                "input_mapping": {"prompt": "Where is it?", "order": "A-1"},
            },
            {"id": "done", "type": "end", "output": "${ .asked }"},
        ],
    }

    async def test(office: Office) -> None:
        await office.call(office.owner, "agent.create", id="helper", workflows=["find_order"])
        await office.call(office.owner, "workflow.create", document=delegating)
        begun = await office.call(office.owner, "workflow.execute", workflow_id="boss")
        ended = await waiting_for(office, begun["execution_id"], "completed", "failed")
        assert (ended["status"], ended["output"]) == ("completed", {"text": "On its way."}), ended

    model = with_model(tmp_path, [LOOK, "On its way."], test)
    prompt, context = model.requests[0].messages
    assert prompt.text == "Where is it?"
    assert '{"order":"A-1"}' in context.text


def test_a_tool_is_listed_once_also_if_it_is_named_as_a_workflow(tmp_path: Path) -> None:
    document = document_of_agent("x", {"workflows": ["a"], "tools": ["workflow:a", "query:*"]})
    block = document["agent"]
    assert isinstance(block, dict)
    assert block["tools"] == ["workflow:a", "query:*"]
