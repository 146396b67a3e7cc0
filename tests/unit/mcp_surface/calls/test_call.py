"""What a client is asked, of which kind, and what becomes of its answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.app.settings.model import Settings
from penstock.app.settings.named import ModelSettings
from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.mcp_surface.callers import ProtocolFault
from penstock.mcp_surface.questions.client_questions import ClientQuestion, Kind
from penstock.mcp_surface.questions.clients import ClientAnswer
from tests.unit.mcp_surface.assistants import SAID, Assistant, accept, assisted, exposed

pytestmark = pytest.mark.anyio

NAME = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
THINK = {"id": "thought", "type": "llm_call", "provider": "client", "model": "any", "prompt": "Capital of France?"}
ROOTS = {"id": "folders", "type": "tool_call", "server": "client", "tool": "roots/list"}
WHO = {"id": "who", "type": "interrupt", "message": "Who are you?", "answer": NAME}
SAMPLE = exposed("sample", THINK, {"id": "done", "type": "end", "output": "${ .thought }"})
LIST = exposed("list", ROOTS, {"id": "done", "type": "end", "output": "${ .folders }"})
ALL = exposed(
    "everything",
    {
        "id": "all",
        "type": "parallel",
        "branches": [
            {"name": "a", "nodes": [WHO]},
            {"name": "b", "nodes": [THINK]},
            {"name": "c", "nodes": [ROOTS]},
        ],
    },
    {"id": "done", "type": "end", "output": {"who": "${ .who }", "what": "${ .thought }", "where": "${ .folders }"}},
    requires=[],
)
APPROVE = exposed(
    "approve",
    {
        "id": "agreed",
        "type": "interrupt",
        "message": "May I?",
        "answer": {
            "type": "object",
            "required": ["approved"],
            "properties": {"approved": {"type": "boolean"}, "why": {"type": "string"}},
        },
    },
    {"id": "done", "type": "end", "output": "${ .agreed }"},
)
EITHER = exposed(
    "either",
    {
        "id": "form",
        "type": "interrupt",
        "message": "What now?",
        "answer": {
            "type": "object",
            "required": ["action"],
            "properties": {"action": {"enum": ["accept", "decline", "cancel"]}, "text": {"type": "string"}},
        },
    },
    {"id": "done", "type": "end", "output": "${ .form }"},
)
DECIDE = exposed(
    "decide",
    {
        "id": "verdict",
        "type": "interrupt",
        "message": "Keep it out?",
        "answer": {
            "type": "object",
            "required": ["reject"],
            "properties": {"reject": {"type": "boolean"}, "why": {"type": "string"}},
        },
        "decline": {"reject": True, "why": "declined"},
    },
    {"id": "done", "type": "end", "output": "${ .verdict }"},
)
PUBLISH = exposed(
    "publish",
    {"id": "yes", "type": "interrupt", "message": "Publish it?", "answer": {"type": "boolean"}},
    {"id": "done", "type": "end", "output": {"published": "${ .yes }"}},
)
TALK = exposed("talk", WHO, {"id": "done", "type": "end", "output": "${ .who }"})
EVERY: frozenset[Kind] = frozenset({"form", "url", "sampling", "roots"})
DIRECTORIES: JsonObject = {"roots": [{"uri": "file:///home/ada", "name": "home"}]}
MODEL = Settings(models={"small": ModelSettings(provider="mock", replies={"*": "from the server"})})


def sampled(text: str = "Paris") -> ClientAnswer:
    return ClientAnswer(kind="sampling", result={**SAID, "content": {"type": "text", "text": text}})


async def test_the_clients_model_answers_by_another_call(tmp_path: Path) -> None:
    async with assisted(tmp_path, SAMPLE) as assistant:
        asked = await assistant.call("sample", kinds=EVERY)
        assert asked["inputRequests"] == {
            "thought": {
                "method": "sampling/createMessage",
                "params": {
                    "messages": [{"role": "user", "content": {"type": "text", "text": "Capital of France?"}}],
                    "maxTokens": limits.CLIENT_TOKENS_DEFAULT,
                    "modelPreferences": {"hints": [{"name": "any"}]},
                },
            }
        }
        done = await assistant.call("sample", kinds=EVERY, state=asked["requestState"], answers={"thought": sampled()})
        assert done["structuredContent"]["output"] == {"text": "Paris"}
        [execution] = await assistant.executions()
        history = await assistant.caller.call("execution.history", execution_id=execution["execution_id"])
        [completed] = [row for row in history["items"] if row["name"] == "ActivityCompleted"]
        assert completed["payload"]["untrusted"] is True
        assert completed["payload"]["usage"]["tokens"] == "unknown"


async def test_without_a_model_of_anybodys_no_execution_is_started(tmp_path: Path) -> None:
    async with assisted(tmp_path, SAMPLE, LIST) as assistant:
        for name, needed in (("sample", "sampling"), ("list", "roots")):
            with pytest.raises(ProtocolFault) as refused:
                await assistant.call(name)
            assert refused.value.code == -32021
            assert refused.value.data == {"requiredCapabilities": {needed: {}}}
        assert await assistant.executions() == []


async def test_the_servers_model_stands_in_for_a_client_that_has_none(tmp_path: Path) -> None:
    async with assisted(tmp_path, SAMPLE, settings=MODEL) as assistant:
        done = await assistant.call("sample")
        assert done["structuredContent"]["output"] == {"text": "from the server"}
        other = await assistant.call("sample", kinds=EVERY)
        assert other["resultType"] == "input_required"


async def test_what_a_document_requires_is_required(tmp_path: Path) -> None:
    needy = {**TALK, "expose": {"tool": {"requires": ["elicitation", "roots"]}}}
    async with assisted(tmp_path, needy) as assistant:
        with pytest.raises(ProtocolFault) as refused:
            await assistant.call("talk", kinds=frozenset({"sampling"}))
        assert refused.value.data == {"requiredCapabilities": {"elicitation": {}, "roots": {}}}
        asked = await assistant.call("talk", kinds=frozenset({"form", "roots"}))
        assert asked["resultType"] == "input_required"
        assert len(await assistant.executions()) == 1


async def test_a_node_that_can_fail_requires_nothing(tmp_path: Path) -> None:
    caught = exposed("list", {**ROOTS, "on_error": [{"next": "none"}], "next": "done"},
                     {"id": "done", "type": "end", "output": "${ .folders }"},
                     {"id": "none", "type": "end", "output": "no folders"})  # fmt: skip
    async with assisted(tmp_path, caught) as assistant:
        done = await assistant.call("list")
        assert done["structuredContent"]["output"] == "no folders"


async def test_several_kinds_are_asked_at_once_and_each_only_until_it_is_answered(tmp_path: Path) -> None:
    async with assisted(tmp_path, ALL) as assistant:
        asked = await assistant.call("everything", kinds=EVERY)
        methods = {key: request["method"] for key, request in asked["inputRequests"].items()}
        assert methods == {
            "who": "elicitation/create",
            "thought": "sampling/createMessage",
            "folders": "roots/list",
        }
        first = {"who": accept(name="Ada"), "unknown": accept(what="ever"), "thought": accept(text="not a model's")}
        more = await assistant.call("everything", kinds=EVERY, state=asked["requestState"], answers=first)
        assert set(more["inputRequests"]) == {"thought", "folders"}
        assert more["requestState"] != asked["requestState"]
        rest = {"thought": sampled(), "folders": ClientAnswer(kind="roots", result=DIRECTORIES)}
        done = await assistant.call("everything", kinds=EVERY, state=more["requestState"], answers=rest)
        assert done["structuredContent"]["output"] == {
            "who": {"name": "Ada"},
            "what": {"text": "Paris"},
            "where": DIRECTORIES,
        }
        assert len(await assistant.executions()) == 1


async def test_only_what_the_client_declares_is_asked(tmp_path: Path) -> None:
    async with assisted(tmp_path, ALL, settings=MODEL) as assistant:
        asked = await assistant.call("everything", kinds=frozenset({"sampling", "roots"}))
        assert set(asked["inputRequests"]) == {"thought", "folders"}


async def test_an_answer_may_come_with_the_first_call(tmp_path: Path) -> None:
    async with assisted(tmp_path, TALK) as assistant:
        done = await assistant.call("talk", answers={"who": accept(name="Ada"), "more": accept(x=1)})
        assert done["structuredContent"]["output"] == {"name": "Ada"}
        wrong = await assistant.call("talk", answers={"other": accept(name="Ada")})
        assert wrong["resultType"] == "input_required"


@pytest.mark.parametrize(
    ("workflow", "action", "output"),
    [
        ("approve", "decline", {"approved": False}),
        ("either", "decline", {"action": "decline"}),
        ("either", "cancel", {"action": "cancel"}),
        ("approve", "cancel", None),
        ("talk", "decline", None),
        ("decide", "decline", {"reject": True, "why": "declined"}),
        ("decide", "cancel", None),
        ("publish", "decline", {"published": False}),
        ("publish", "cancel", None),
    ],
)
@pytest.mark.parametrize("way", ["again", "live", "task"])
async def test_to_decline_is_an_answer_where_there_is_a_place_for_it(
    tmp_path: Path, workflow: str, action: Any, output: Any, way: str
) -> None:
    refused = ClientAnswer(action=action)
    async with assisted(tmp_path, APPROVE, EITHER, DECIDE, PUBLISH, TALK) as assistant:
        if way == "live":

            async def ask(question: ClientQuestion) -> ClientAnswer:
                return refused

            shown = await assistant.call(workflow, ask=ask)
        elif way == "again":
            asked = await assistant.call(workflow)
            answers = dict.fromkeys(asked["inputRequests"], refused)
            shown = await assistant.call(workflow, state=asked["requestState"], answers=answers)
        else:
            task = (await assistant.call(workflow, tasks=True))["taskId"]
            asked = await assistant.task(task)
            await assistant.update(task, dict.fromkeys(asked["inputRequests"], refused))
            shown = None
        [execution] = await assistant.executions()
        view = await assistant.caller.call("execution.wait", execution_id=execution["execution_id"])
        assert view.get("output") == output
        assert view["status"] == ("completed" if output else "waiting_input")
        if shown is not None and output is None:
            assert "did not answer" in shown["content"][0]["text"]


async def test_a_client_is_asked_over_its_connection_until_nothing_is_open(tmp_path: Path) -> None:
    heard: list[str] = []

    async def ask(question: ClientQuestion) -> ClientAnswer:
        heard.append(question.kind)
        match question.kind:
            case "sampling":
                return sampled()
            case "roots":
                return ClientAnswer(kind="roots", result=DIRECTORIES)
            case _:
                return accept(name="Ada") if "does not fit" in question.message else accept(name=7)

    async with assisted(tmp_path, ALL) as assistant:
        done = await assistant.call("everything", kinds=EVERY, ask=ask)
        assert done["structuredContent"]["output"]["who"] == {"name": "Ada"}
        assert sorted(heard) == ["form", "form", "roots", "sampling"]


async def test_a_client_that_refuses_to_sample_fails_the_node(tmp_path: Path) -> None:
    async def ask(question: ClientQuestion) -> ClientAnswer:
        return ClientAnswer(kind="sampling", result={"refused": "not today"})

    async with assisted(tmp_path, SAMPLE) as assistant:
        done = await assistant.call("sample", kinds=EVERY, ask=ask)
        assert done["structuredContent"]["error"]["code"] == "SAMPLING_REFUSED"


async def test_a_client_that_cannot_be_asked_just_now_gets_the_handle(tmp_path: Path) -> None:
    async def ask(question: ClientQuestion) -> None:
        return None

    async with assisted(tmp_path, SAMPLE) as assistant:
        shown = await assistant.call("sample", kinds=EVERY, ask=ask)
        execution_id = shown["structuredContent"]["execution_id"]
        await assistant.caller.call("execution.answer", execution_id=execution_id, answer="Paris, by hand")
        ended = await assistant.caller.call("execution.wait", execution_id=execution_id)
        assert ended["output"] == {"text": "Paris, by hand"}


async def test_a_run_asks_its_client_only_so_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLIENT_QUESTIONS_MAX", 2)
    loop = {"id": "again", "type": "loop", "nodes": [THINK], "until": "false", "max_iterations": 5}

    async def ask(question: ClientQuestion) -> ClientAnswer:
        return sampled()

    async with assisted(tmp_path, exposed("sample", loop, {"id": "done", "type": "end"})) as assistant:
        failed = await assistant.call("sample", kinds=EVERY, ask=ask)
        assert failed["structuredContent"]["error"]["code"] == "CLIENT_QUESTIONS_EXCEEDED"


async def test_a_model_is_asked_by_a_task(tmp_path: Path) -> None:
    async with assisted(tmp_path, SAMPLE) as assistant:
        made = await assistant.call("sample", kinds=EVERY, tasks=True)
        asked = await assistant.task(made["taskId"], EVERY)
        assert (asked["status"], list(asked["inputRequests"])) == ("input_required", ["thought"])
        unable = await assistant.task(made["taskId"])
        assert (unable["status"], unable["inputRequests"]) == ("input_required", {})
        assert "the model of the client that started it" in unable["statusMessage"]
        await assistant.update(made["taskId"], {"thought": accept(text="no")}, EVERY)
        await assistant.update(made["taskId"], {"thought": sampled()}, EVERY)
        await assistant.caller.call("execution.wait", execution_id=made["taskId"])
        done = await assistant.task(made["taskId"], EVERY)
        assert done["result"]["structuredContent"]["output"] == {"text": "Paris"}


async def test_of_two_answers_at_once_one_counts(tmp_path: Path) -> None:
    async with assisted(tmp_path, TALK) as assistant:
        asked = await assistant.call("talk")
        [execution] = await assistant.executions()
        execution_id = execution["execution_id"]

        async def again(name: str) -> Any:
            answers = {"who": accept(name=name)}
            return await assistant.call("talk", state=asked["requestState"], answers=answers)

        async def by_task(name: str) -> Any:
            return await assistant.update(execution_id, {"who": accept(name=name)})

        async def by_rest(name: str) -> Any:
            return await assistant.caller.outcome("execution.answer", execution_id=execution_id, answer={"name": name})

        given = (again("a"), by_task("b"), by_rest("c"), again("d"))
        came = await asyncio.gather(*given, return_exceptions=True)
        assert all(not isinstance(item, BaseException) or isinstance(item, ProtocolFault) for item in came), came
        ended = await assistant.caller.call("execution.wait", execution_id=execution_id)
        assert ended["output"]["name"] in "abcd"
        history = await assistant.caller.call("execution.history", execution_id=execution_id)
        assert len([row for row in history["items"] if row["name"] == "ResumeInterrupt"]) == 1
        for item in came:
            if isinstance(item, dict) and "structuredContent" in item:
                assert item["structuredContent"]["output"] == ended["output"]
        assert len(await assistant.executions()) == 1


async def test_other_surfaces_start_no_questions_to_a_client(tmp_path: Path) -> None:
    async with assisted(tmp_path, SAMPLE) as assistant:
        started = await assistant.call(
            "penstock_workflow_execute", {"workflow_id": "sample", "sync": True}, kinds=EVERY
        )
        error = started["structuredContent"]["error"]
        assert error["code"] == "CLIENT_CANNOT_SAMPLE"


async def test_who_may_not_answer_is_not_asked_for_its_model(tmp_path: Path) -> None:
    async with assisted(tmp_path, SAMPLE, settings=MODEL) as assistant:
        runner: Assistant = await assistant.other("workflow:run")
        done = await runner.call("sample", kinds=EVERY)
        assert done["structuredContent"]["output"] == {"text": "from the server"}


PARENT = exposed(
    "parent",
    {
        "id": "two",
        "type": "parallel",
        "branches": [
            {"name": "a", "nodes": [{"id": "first", "type": "subworkflow", "workflow": "talk", "input": {}}]},
            {"name": "b", "nodes": [{"id": "second", "type": "subworkflow", "workflow": "middle", "input": {}}]},
        ],
    },
    {"id": "done", "type": "end", "output": {"first": "${ .first.name }", "second": "${ .second.text }"}},
)
MIDDLE = {
    "penstock": "v1",
    "name": "middle",
    "nodes": [
        {"id": "inner", "type": "subworkflow", "workflow": "sample", "input": {}},
        {"id": "done", "type": "end", "output": "${ .inner }"},
    ],
}


def answers(asked: Any) -> dict[str, ClientAnswer]:
    """An answer to each question, by what it is."""
    return {
        key: sampled() if request["method"] == "sampling/createMessage" else accept(name="Ada")
        for key, request in asked.items()
    }


@pytest.mark.parametrize("way", ["again", "live", "task"])
async def test_what_children_ask_reaches_the_client_of_their_parent(tmp_path: Path, way: str) -> None:
    async def ask(question: ClientQuestion) -> ClientAnswer:
        return sampled() if question.kind == "sampling" else accept(name="Ada")

    async with assisted(tmp_path, SAMPLE, TALK, MIDDLE, PARENT) as assistant:
        if way == "live":
            result = await assistant.call("parent", kinds=EVERY, ask=ask)
        elif way == "again":
            result, rounds = await assistant.call("parent", kinds=EVERY), 0
            while result["resultType"] == "input_required" and rounds < 3:
                given, rounds = answers(result["inputRequests"]), rounds + 1
                result = await assistant.call("parent", kinds=EVERY, state=result["requestState"], answers=given)
        else:
            made = (await assistant.call("parent", kinds=EVERY, tasks=True))["taskId"]
            asked, looks = 0, 0
            while asked < 2 and looks < 100:
                looks += 1
                await assistant.caller.call("execution.wait", execution_id=made)
                task = await assistant.task(made, EVERY)
                if task["status"] == "input_required":
                    asked += len(task["inputRequests"])
                    await assistant.update(made, answers(task["inputRequests"]), EVERY)
            await assistant.caller.call("execution.wait", execution_id=made)
            result = (await assistant.task(made, EVERY))["result"]
        assert result["structuredContent"]["output"] == {"first": "Ada", "second": "Paris"}
        assert len(await assistant.executions()) == 4
