"""Resources and prompts that workflows stand behind: read through the gate, run by the engine."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.base.errors import Rejected
from penstock.mcp_surface.apps.pages import app_contents
from penstock.mcp_surface.callers import Caller, ProtocolFault
from penstock.mcp_surface.calls.calls import ToolCalls
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.questions.clients import Client, ClientAnswer
from penstock.mcp_surface.resources.contents import Contents
from penstock.mcp_surface.tools.registry import ToolRegistry
from tests.unit.operations.conftest import Caller as GateCaller
from tests.unit.operations.conftest import OpenGate, open_caller
from tests.unit.operations.documents import ANSWER, workflow

__all__ = ["open_caller"]

pytestmark = pytest.mark.anyio
PNG = "iVBORw0KGgo="
MARKED = {"_meta": {"penstock/untrusted": True}}  # whoever reads started the run, over MCP


def end(output: Any) -> dict[str, Any]:
    return {"id": "done", "type": "end", "output": output}


STATIC = workflow(
    "static",
    end("This is the text."),
    title="A text",
    expose={"resource": {"uri": "test://static-text", "mime_type": "text/plain", "icon": "https://a.example/i.png"}},
)
BINARY = workflow(
    "binary",
    end([{"blob": PNG, "mimeType": "image/png"}, {"text": "a picture"}]),
    expose={"resource": {"uri": "test://static-binary", "result": "content"}},
)
DATA = workflow(
    "data",
    end({"id": "${ .input.id }", "twice": "${ .input.count * 2 }"}),
    input={
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": {"type": "string", "enum": ["red", "green", "a b"]},
            "count": {"type": "integer", "default": 1},
        },
    },
    expose={"resource": {"uri": "test://template/{id}/{count}/data", "title": "Data"}},
)
OWN = workflow("own", end("own"), expose={"resource": True}, governance={"scopes": ["notes:read"]})


def failing(code: str, message: str) -> tuple[dict[str, Any], ...]:
    return (
        {"id": "way", "type": "switch", "cases": [{"when": "true", "next": "no"}], "default": "done"},
        {"id": "no", "type": "fail", "code": code, "message": message},
        end("x"),
    )


MISSING = workflow(
    "missing",
    *failing("RESOURCE_NOT_FOUND", "there is no such note"),
    expose={"resource": {"uri": "test://missing"}},
)
BROKEN = workflow(
    "broken",
    *failing("DISK_FULL", "there is no room"),
    expose={"resource": {"uri": "test://broken"}},
)
SLOW = workflow(
    "slow", {"id": "pause", "type": "wait", "signal": "go"}, end("late"), expose={"resource": {"uri": "test://slow"}}
)
SAYS = workflow(
    "says",
    end("nothing"),
    input={
        "type": "object",
        "required": ["topic"],
        "properties": {
            "topic": {"type": "string", "title": "Topic", "description": "What about."},
            "tone": {"type": "string", "enum": ["formal", "friendly"]},
            "brief": {"type": "boolean"},
        },
    },
    expose={
        "prompt": {
            "name": "write",
            "messages": [
                {"text": "Write about {{ topic }}."},
                {"role": "assistant", "text": "In which tone? {{tone}}"},
            ],
        }
    },
)
RUNS = workflow(
    "runs",
    end(
        [
            "Look at this:",
            {"type": "image", "data": PNG, "mimeType": "image/png"},
            {
                "role": "assistant",
                "content": {"type": "resource", "resource": {"uri": "${ .input.uri }", "text": "x"}},
            },
        ]
    ),
    input={"type": "object", "required": ["uri"], "properties": {"uri": {"type": "string"}}},
    expose={"prompt": {"run": True}},
)
ASKS = workflow(
    "asks",
    {"id": "who", "type": "interrupt", "message": "May I?", "answer": ANSWER},
    end({"description": "Asked.", "messages": [{"role": "user", "content": "Answer: ${ .who.ok }"}]}),
    expose={"prompt": {"run": True}, "resource": {"uri": "test://asks"}},
)
DOCUMENTS = (STATIC, BINARY, DATA, OWN, MISSING, BROKEN, SLOW, SAYS, RUNS, ASKS)


class Reader:
    """Reads and chooses as somebody."""

    def __init__(self, caller: GateCaller, patience_seconds: float = 20) -> None:
        options = McpOptions(patience_seconds=patience_seconds)
        registry = ToolRegistry(caller.gate, options)
        self.caller = caller
        self.contents = Contents(caller.gate, registry, ToolCalls(caller.gate, registry, options))

    async def who(self) -> Caller:
        return Caller(principal=await self.caller.principal(), request_id="test")

    async def read(self, uri: str, **client: Any) -> Any:
        return await self.contents.read(await self.who(), uri, Client(**client), legacy=False)

    async def prompt(self, name: str, arguments: dict[str, str] | None = None, **client: Any) -> Any:
        return await self.contents.prompt(await self.who(), name, arguments or {}, Client(**client))

    async def completed(self, reference: str, argument: str, begun: str = "") -> Any:
        return await self.contents.completion(await self.who(), reference, argument, begun)

    async def fault(self, uri: str) -> ProtocolFault:
        with pytest.raises(ProtocolFault) as caught:
            await self.read(uri)
        return caught.value


async def filled(caller: GateCaller) -> Reader:
    for document in DOCUMENTS:
        await caller.call("workflow.create", document=document)
    return Reader(caller)


async def test_workflows_are_listed_and_read_as_resources(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        reader = await filled(caller)
        who = await reader.who()
        listed = {str(item["uri"]): item for item in await reader.contents.resources(who)}
        assert list(listed) == sorted(listed)
        pinned = listed["test://static-text"].pop("_meta")
        assert isinstance(pinned, dict)
        assert pinned["penstock/workflow"] == "static"
        assert listed["test://static-text"] == {
            "uri": "test://static-text",
            "name": "static",
            "title": "A text",
            "mimeType": "text/plain",
            "icons": [{"src": "https://a.example/i.png"}],
        }
        assert {"test://static-binary", "penstock://resources/own"} <= set(listed)
        templates = [item["uriTemplate"] for item in await reader.contents.templates(who)]
        assert templates == sorted(templates, key=str)
        assert "test://template/{id}/{count}/data" in templates
        assert not [uri for uri in listed if "{" in uri]
        text = await reader.read("test://static-text")
        assert text["contents"] == [
            {"uri": "test://static-text", "mimeType": "text/plain", "text": "This is the text.", **MARKED}
        ]
        binary = await reader.read("test://static-binary")
        assert binary["contents"] == [
            {"uri": "test://static-binary", "mimeType": "image/png", "blob": PNG, **MARKED},
            {"uri": "test://static-binary", "mimeType": "text/plain", "text": "a picture", **MARKED},
        ]
        assert (await reader.read("penstock://resources/own"))["contents"][0]["text"] == "own"
        # Each of them was a durable run.
        runs = (await caller.call("execution.list"))["items"]
        assert sorted(run["workflow_id"] for run in runs) == ["binary", "own", "static"]


async def test_variables_become_the_input_as_its_schema_says(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        reader = await filled(caller)
        found = await reader.read("TEST://template/a%20b/21/data")
        assert found["contents"][0]["mimeType"] == "application/json"
        assert json.loads(found["contents"][0]["text"]) == {"id": "a b", "twice": 42}


async def test_what_does_not_fit_is_not_there_and_starts_nothing(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        reader = await filled(caller)
        for uri in (
            "test://template/blue/1/data",
            "test://template/red/many/data",
            "test://template/red/1/data/more",
            "test://template/%2e%2e/1/data",
            "test://template/a%2Fb/1/data",
            "test://nothing",
            "penstock://resources/static",
            "penstock://executions/nothing/result",
            "penstock://keys/all",
            "nonsense",
        ):
            fault = await reader.fault(uri)
            assert (fault.code, fault.data) == (-32602, {"uri": uri}), uri
        assert (await caller.call("execution.list"))["items"] == []


async def test_no_workflow_takes_the_place_of_a_page_that_people_approve_by(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        fake = workflow("fake", end("<h1>Fine</h1>"), expose={"resource": {"uri": "ui://penstock/approval"}})
        await caller.call("workflow.create", document=fake)
        reader = Reader(caller)
        found = await reader.read("ui://penstock/approval")
        assert found == {"contents": [app_contents("ui://penstock/approval")]}
        listed = await reader.contents.resources(await reader.who(), apps=True)
        assert [item["title"] for item in listed if str(item["uri"]).startswith("ui:")] == [
            "Penstock approval",
            "Penstock run",
        ]


async def test_a_workflow_says_that_there_is_nothing(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        reader = await filled(caller)
        assert (await reader.fault("test://missing")).message == "Resource not found: test://missing"
        broken = await reader.fault("test://broken")
        assert (broken.code, broken.message) == (-32603, "DISK_FULL: there is no room")


async def test_reading_takes_no_longer_than_patience_and_names_the_run(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        await filled(caller)
        fault = await Reader(caller, patience_seconds=0.05).fault("test://slow")
        assert isinstance(fault.data, dict)
        execution_id = str(fault.data["execution_id"])
        assert fault.data["uri"] == f"penstock://executions/{execution_id}/result"
        assert str(fault.data["uri"]) in fault.message
        await caller.call("execution.signal", execution_id=execution_id, name="go")
        await caller.call("execution.wait", execution_id=execution_id, wait_seconds=240)
        later = await Reader(caller).read(str(fault.data["uri"]))
        assert later["contents"][0]["text"] == "late"


async def test_a_limit_is_not_taken_for_a_resource_that_is_missing(open_caller: OpenGate) -> None:
    async with open_caller(write_per_minute=1) as caller:
        await caller.call("workflow.create", document=STATIC)
        fault = await Reader(caller).fault("test://static-text")
        assert fault.code == -32603
        assert isinstance(fault.data, dict)
        assert fault.data["code"] == "RATE_LIMITED"


async def test_who_lacks_a_scope_sees_and_reads_nothing(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        await filled(caller)
        runner = Reader(await caller.new_caller("workflow:run", name="runner"))
        listed = [item["uri"] for item in await runner.contents.resources(await runner.who())]
        assert "test://static-text" in listed
        assert "penstock://resources/own" not in listed
        assert (await runner.fault("penstock://resources/own")).code == -32602
        visitor = Reader(await caller.new_caller("execution:read", name="visitor"))
        assert await visitor.contents.prompts(await visitor.who()) == []
        assert await visitor.contents.resources(await visitor.who()) == []
        assert (await visitor.fault("test://static-text")).code == -32602


async def test_a_prompt_shows_its_arguments_as_text(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        reader = await filled(caller)
        listed = {item["name"]: item for item in await reader.contents.prompts(await reader.who())}
        assert listed["write"]["arguments"] == [
            {"name": "topic", "required": True, "title": "Topic", "description": "What about."},
            {"name": "tone", "required": False},
            {"name": "brief", "required": False},
        ]
        said = await reader.prompt("write", {"topic": "{{tone}} ${ .input }", "tone": "formal", "brief": "true"})
        assert said["messages"] == [
            {"role": "user", "content": {"type": "text", "text": "Write about {{tone}} ${ .input }."}},
            {"role": "assistant", "content": {"type": "text", "text": "In which tone? formal"}},
        ]
        assert (await caller.call("execution.list"))["items"] == []


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("write", {}), ("write", {"topic": "x", "tone": "rude"}), ("write", {"topic": "x", "brief": "maybe"}), ("no", {})],
)
async def test_a_prompt_with_arguments_that_do_not_fit_is_refused(
    open_caller: OpenGate, name: str, arguments: dict[str, str]
) -> None:
    async with open_caller() as caller:
        await caller.call("workflow.create", document=SAYS)
        with pytest.raises((ProtocolFault, Rejected)) as caught:
            await Reader(caller).prompt(name, arguments)
        refused: Any = caught.value
        assert refused.code in (-32602, "INVALID_ARGUMENTS")


async def test_a_prompt_without_words_asks_for_a_run_with_the_tool(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        expose = {"prompt": True, "tool": {"name": "write_it"}}
        await caller.call("workflow.create", document={**SAYS, "expose": expose})
        said = await Reader(caller).prompt("says", {"topic": "tea"})
        text = said["messages"][0]["content"]["text"]
        assert "with the tool write_it" in text
        assert '{"topic":"tea"}' in text


async def test_a_prompt_names_no_tool_that_the_list_lacks(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        await caller.call("workflow.create", document={**SAYS, "expose": {"prompt": True}})
        reader = Reader(caller)
        text = (await reader.prompt("says", {"topic": "tea"}))["messages"][0]["content"]["text"]
        assert "penstock_workflow_execute" not in text
        assert "ask the person to start it" in text
        assert '{"topic":"tea"}' in text


async def test_a_prompt_runs_its_workflow_and_says_what_that_gives(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        reader = await filled(caller)
        said = await reader.prompt("runs", {"uri": "test://a"})
        assert [(item["role"], item["content"]["type"]) for item in said["messages"]] == [
            ("user", "text"),
            ("user", "image"),
            ("assistant", "resource"),
        ]
        assert said["messages"][2]["content"]["resource"]["uri"] == "test://a"


@pytest.mark.parametrize("kind", ["prompt", "resource"])
async def test_a_question_is_asked_first_and_the_same_run_goes_on(open_caller: OpenGate, kind: str) -> None:
    async with open_caller() as caller:
        reader = await filled(caller)

        forms: dict[str, Any] = {"completes": True, "kinds": frozenset({"form"})}

        async def take(**client: Any) -> Any:
            if kind == "prompt":
                return await reader.prompt("asks", **client)
            return await reader.read("test://asks", **client)

        asked = await take(**forms)
        assert asked["resultType"] == "input_required"
        answers = {key: ClientAnswer(action="accept", content={"ok": True}) for key in asked["inputRequests"]}
        with pytest.raises(ProtocolFault):
            await reader.read("test://slow", **forms, answers=answers, state=asked["requestState"])
        done = await take(**forms, answers=answers, state=asked["requestState"])
        assert "true" in json.dumps(done)
        assert done["resultType"] == "complete"
        assert len((await caller.call("execution.list"))["items"]) == 1
        with pytest.raises(ProtocolFault, match="waits for an answer"):
            await take()


async def test_arguments_and_variables_are_completed(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        reader = await filled(caller)
        assert (await reader.completed("write", "tone", "f"))["values"] == ["formal", "friendly"]
        assert (await reader.completed("write", "tone", "fr"))["values"] == ["friendly"]
        assert (await reader.completed("write", "brief"))["values"] == ["true", "false"]
        assert (await reader.completed("write", "topic"))["values"] == []
        assert (await reader.completed("test://template/{id}/{count}/data", "id", "g"))["values"] == ["green"]
        own = await reader.completed("penstock://workflows/{workflow_id}", "workflow_id", "s")
        assert own == {"values": ["says", "slow", "static"], "total": 3, "hasMore": False}
        started = await caller.call("workflow.execute", workflow_id="static")
        ids = await reader.completed("penstock://executions/{execution_id}", "execution_id")
        assert ids["values"] == [started["execution_id"]]
        visitor = Reader(await caller.new_caller("key:read", name="visitor"))
        assert (await visitor.completed("write", "tone"))["values"] == []


async def test_versions_are_completed_once_the_workflow_is_chosen(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        reader = await filled(caller)
        old = await caller.call("workflow.get", workflow_id="static")
        new = await caller.call("workflow.update", workflow_id="static", document={**STATIC, "title": "Another text"})
        template, who = "penstock://workflows/{workflow_id}/versions/{hash}", await reader.who()
        found = await reader.contents.completion(who, template, "hash", "", {"workflow_id": "static"})
        assert found["values"] == [new["hash"], old["hash"]]
        for chosen in ({"workflow_id": "nothing"}, {}, None):
            assert (await reader.contents.completion(who, template, "hash", "", chosen))["values"] == []


async def test_runs_results_histories_and_versions_are_resources(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        reader = await filled(caller)
        old = await caller.call("workflow.get", workflow_id="static")
        await caller.call("workflow.update", workflow_id="static", document={**STATIC, "title": "Another text"})
        started = await caller.call("workflow.execute", workflow_id="data", input={"id": "red"}, sync=True)
        run = f"penstock://executions/{started['execution_id']}"
        whole = json.loads((await reader.read(run))["contents"][0]["text"])
        result = (await reader.read(f"{run}/result"))["contents"][0]
        assert json.loads(result["text"]) == whole["output"] == {"id": "red", "twice": 2}
        history = json.loads((await reader.read(f"{run}/history"))["contents"][0]["text"])
        assert len(history["items"]) == whole["sequence"]
        assert history["next_cursor"] is None
        version = await reader.read(f"penstock://workflows/static/versions/{old['hash']}")
        assert json.loads(version["contents"][0]["text"])["title"] == "A text"
        newest = await reader.read("penstock://workflows/static")
        assert json.loads(newest["contents"][0]["text"])["title"] == "Another text"
