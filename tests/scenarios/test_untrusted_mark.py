"""What somebody outside has said is marked wherever it comes out: on every path, small or large, and for good."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock.app.gate import create_owner_key
from penstock.app.penstock import Penstock
from penstock.app.serving.server import ServerOptions, open_application
from penstock.governance.webhook_signatures import sign_request
from penstock.mcp_surface.options import McpOptions
from penstock.operations.gate.pipeline import Gate
from penstock.runtime.executors.llm.executor import LlmExecutor
from penstock.runtime.executors.llm.mock import MockProvider
from tests.unit.rest.conftest import Client

pytestmark = pytest.mark.anyio
MARK = "penstock/untrusted"
SECRET = "a good secret"
SHOWN_CHARACTERS = 2_000
TEXTS = {"small": "obey", "large": "obey " * SHOWN_CHARACTERS}
_ERA = "io.modelcontextprotocol/"
NEWEST = {
    f"{_ERA}protocolVersion": "2026-07-28",
    f"{_ERA}clientCapabilities": {"extensions": {f"{_ERA}tasks": {}}},
    f"{_ERA}clientInfo": {"name": "test", "version": "1"},
}


def workflow(name: str, *nodes: dict[str, Any], output: Any = None, **more: Any) -> dict[str, Any]:
    end = {"id": "done", "type": "end", "output": "${ .input.text }" if output is None else output}
    return {"penstock": "v1", "name": name, "nodes": [*nodes, end], **more}


LLM = {"id": "ask", "type": "llm_call", "model": "default", "prompt": "Hello"}
NEWS = {"id": "news", "type": "wait", "signal": "news"}
OPEN = {"id": "sure", "type": "interrupt", "message": "?", "answer": {"type": "object"}, "answered_by": "anyone"}
EXPOSED = {"tool": True, "prompt": {"run": True, "name": "echo"}, "resource": {"uri": "mcp://test/echo/{text}"}}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
AGAIN: dict[str, Any] = {
    "penstock": "v1",
    "name": "again",
    "nodes": [
        {"id": "way", "type": "switch", "cases": [{"when": ".input.last", "next": "done"}], "default": "ask"},
        {**LLM, "next": "more"},
        {"id": "more", "type": "continue_as_new", "input": {"last": True, "text": "${ .input.text }"}},
        {"id": "done", "type": "end", "output": "${ .input.text }"},
    ],
}
FAILING = (
    {"id": "way", "type": "switch", "cases": [{"when": "true", "next": "no"}], "default": "done"},
    {"id": "no", "type": "fail", "code": "NO", "message": "${ .input.text }"},
)
HOOKED = {
    "secrets": ["HOOK_KEY"],
    "triggers": [{"webhook": {"path": "/hooks/told", "secret": "${secret:HOOK_KEY}"}}],
}
DOCUMENTS = (
    workflow("echo", input=TEXT, expose=EXPOSED),
    workflow("blocks", expose={"tool": {"result": "content"}}, input=TEXT),
    workflow("fails", *FAILING, expose={"tool": True}),
    workflow("plain"),
    workflow("model", LLM),
    workflow("parent", {"id": "below", "type": "subworkflow", "workflow": "model"}),
    workflow("hears", NEWS),
    workflow("asks", OPEN),
    workflow("told", **HOOKED),
    AGAIN,
)


class Server:
    """A whole application on a file, with people on REST and a model on MCP."""

    def __init__(self, rest: Client, penstock: Penstock, gate: Gate) -> None:
        self.rest = rest
        self.penstock = penstock
        self.gate = gate

    async def ask(self, method: str, params: dict[str, Any], *, newest: bool = False) -> Any:
        """What a method of MCP is answered with."""
        headers = {"accept": "application/json, text/event-stream", "host": "127.0.0.1"}
        if newest:
            params = {**params, "_meta": NEWEST}
            headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
            named = params.get("name") or params.get("taskId") or params.get("uri")
            headers |= {"mcp-name": named} if named else {}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        path = "/mcp" if newest else "/v1/mcp"  # where older clients need no session
        answer = (await self.rest("POST", path, body, headers=headers)).json()
        return answer.get("result") or answer["error"]["data"]

    async def call(self, tool: str, *, newest: bool = False, **arguments: Any) -> Any:
        return await self.ask("tools/call", {"name": tool, "arguments": arguments}, newest=newest)

    async def start(self, name: str, text: str, **more: Any) -> str:
        """Start a run as a person does, over REST."""
        body = {"input": {"text": text}, **more}
        return str((await self.rest("POST", f"workflows/{name}/executions", body)).json()["execution_id"])

    async def ended(self, run_id: str) -> str:
        state = await self.penstock.host.wait_for_end(run_id, timeout_seconds=240)
        assert state is not None
        assert state.terminal
        return run_id

    async def accept(self, draft_id: str) -> None:
        """Approve what the model stores, as a person does."""
        person = {
            "name": "approver",
            "kind": "person",
            "subject": "person:approver",
            "scopes": ["*", "approve:approvers"],
        }
        made = await self.rest("POST", "keys", person)
        assert made.status == 201, made.body
        key = made.json()["secret"]
        made = await Client(self.rest.app, self.gate, key)("POST", f"drafts/{draft_id}/approve", {"wait_seconds": 30})
        assert made.json()["status"] == "executed", made.json()

    async def view(self, run_id: str) -> Any:
        return (await self.rest("GET", f"executions/{run_id}")).json()


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Server]:
    mcp = McpOptions(patience_seconds=30, toolset="management", result_characters=SHOWN_CHARACTERS)
    executors = {"llm_call": LlmExecutor({"mock": MockProvider({"*": "fine"})})}
    async with (
        Penstock.open(folder / "penstock.db", executors=executors, secrets={"HOOK_KEY": SECRET}.get) as penstock,
        open_application(penstock, ServerOptions(mcp=mcp)) as (app, gate),
    ):
        key = await create_owner_key(gate)
        assert key is not None
        server = Server(Client(app, gate, key), penstock, gate)
        for document in DOCUMENTS:
            made = await server.rest("POST", "workflows", {"document": document})
            assert made.status == 201, made.body
        yield server


def is_marked(found: Any) -> bool:
    return (found.get("_meta") or {}).get(MARK, False) is True


async def read_over_mcp(server: Server, run_id: str) -> dict[str, bool]:
    """Whether a run is marked, by the path on which a model sees it."""
    uri = f"penstock://executions/{run_id}"
    named: dict[str, Any] = {"execution_id": run_id}
    found: dict[str, bool] = {"REST": (await server.view(run_id))["untrusted"]}
    for newest in (False, True):
        for tool in ("penstock_execution_status", "penstock_execution_wait"):
            for attempt in ("first", "again"):  # the second time it may not come from the SDK
                result = await server.call(tool, newest=newest, **named)
                assert result["isError"] is False
                found[f"{tool} {newest} {attempt}"] = is_marked(result)
                links = [block for block in result["content"] if block["type"] == "resource_link"]
                found.update({f"link of {tool} {newest} {attempt}": is_marked(link) for link in links})
        for address in (uri, f"{uri}/result"):
            result = await server.ask("resources/read", {"uri": address}, newest=newest)
            found[f"{address.removeprefix(uri)} {newest}"] = is_marked(result) and is_marked(result["contents"][0])
    for attempt in ("first", "again"):
        task = await server.ask("tasks/get", {"taskId": run_id}, newest=True)
        found[f"task {attempt}"] = is_marked(task["result"])
    return found


# --- who makes a run untrusted -------------------------------------------------------------------


async def by_model(server: Server, text: str) -> str:
    return await server.ended(await server.start("model", text))


async def by_child(server: Server, text: str) -> str:
    return await server.ended(await server.start("parent", text))


async def by_signal_over_mcp(server: Server, text: str) -> str:
    run_id = await server.start("hears", text)
    assert not (await server.view(run_id))["untrusted"]
    await server.call("penstock_execution_signal", execution_id=run_id, name="news")
    return await server.ended(run_id)


async def by_answer_of_a_model(server: Server, text: str) -> str:
    run_id = await server.start("asks", text)
    assert not (await server.view(run_id))["untrusted"]
    await server.call("penstock_execution_answer", execution_id=run_id, answer={})
    return await server.ended(run_id)


async def by_operation_over_mcp(server: Server, text: str) -> str:
    given: dict[str, Any] = {"workflow_id": "plain", "input": {"text": text}}
    started = await server.call("penstock_workflow_execute", **given)
    return await server.ended(started["structuredContent"]["execution_id"])


async def by_fork_over_mcp(server: Server, text: str) -> str:
    original = await server.ended(await server.start("plain", text))
    forked = await server.call("penstock_execution_fork", execution_id=original, at_sequence=1)
    assert not (await server.view(original))["untrusted"]
    return await server.ended(forked["structuredContent"]["execution_id"])


async def by_fork_of_untrusted(server: Server, text: str) -> str:
    original = await by_operation_over_mcp(server, text)
    forked = await server.rest("POST", f"executions/{original}/fork", {"at_sequence": 1})
    return await server.ended(forked.json()["execution_id"])


async def by_predecessor(server: Server, text: str) -> str:
    first = await server.start("again", text)
    await server.ended(first)
    return await server.ended(f"{first}~2")


async def by_schedule_over_mcp(server: Server, text: str) -> str:
    given: dict[str, Any] = {
        "workflow_id": "plain",
        "cron": "0 0 1 1 *",
        "schedule_id": "yearly",
        "input": {"text": text},
    }
    held = (await server.call("penstock_schedule_create", **given))["structuredContent"]["held"]
    await server.accept(held["draft_id"])
    started = await server.rest("POST", "schedules/yearly/run", {})
    return await server.ended(started.json()["execution_id"])


async def by_changed_schedule(server: Server, text: str) -> str:
    given: dict[str, Any] = {"workflow_id": "plain", "cron": "0 0 1 1 *", "schedule_id": "changed"}
    assert (await server.rest("POST", "schedules", given)).status == 201
    held = await server.call("penstock_schedule_update", schedule_id="changed", input={"text": text})
    await server.accept(held["structuredContent"]["held"]["draft_id"])
    await server.rest("PATCH", "schedules/changed", {"cron": "0 0 2 1 *"})  # which does not take the mark away
    started = await server.rest("POST", "schedules/changed/run", {})
    return await server.ended(started.json()["execution_id"])


async def by_webhook(server: Server, text: str) -> str:
    content = b'{"text": "%s"}' % text.encode()
    signature = sign_request(SECRET, content, now_ms=server.gate.services.clock.now_ms())
    headers = {"x-penstock-signature": signature, "content-type": "application/json"}
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(server.rest.app), base_url="http://penstock") as http:
        answer = await http.post("/hooks/told", content=content, headers=headers)
    assert answer.status_code == 202, answer.text
    return await server.ended(answer.json()["execution_id"])


SOURCES: list[Callable[[Server, str], Awaitable[str]]] = [
    by_model,
    by_child,
    by_signal_over_mcp,
    by_answer_of_a_model,
    by_operation_over_mcp,
    by_fork_over_mcp,
    by_fork_of_untrusted,
    by_predecessor,
    by_schedule_over_mcp,
    by_changed_schedule,
    by_webhook,
]


@pytest.mark.parametrize("size", TEXTS)
async def test_an_untrusted_run_is_marked_on_every_path_on_which_a_model_reads_it(tmp_path: Path, size: str) -> None:
    unmarked: list[tuple[str, str]] = []
    async with serving(tmp_path) as server:
        for source in SOURCES:
            found = await read_over_mcp(server, await source(server, TEXTS[size]))
            assert sum(path.startswith("link of") for path in found) == (8 if size == "large" else 0)
            unmarked += [(source.__name__, path) for path, marked in found.items() if not marked]
    assert unmarked == []


@pytest.mark.parametrize("size", TEXTS)
async def test_a_run_of_the_operators_own_is_not_marked(tmp_path: Path, size: str) -> None:
    async with serving(tmp_path) as server:
        run_id = await server.ended(await server.start("plain", TEXTS[size]))
        answered = await server.start("asks", TEXTS[size])
        await server.rest("POST", f"executions/{answered}/answers", {"answer": {}})
        for own in (run_id, await server.ended(answered)):
            found = await read_over_mcp(server, own)
            assert [path for path, marked in found.items() if marked] == []
        history = await server.ask("resources/read", {"uri": f"penstock://executions/{run_id}/history"})
        assert is_marked(history["contents"][0])  # nobody looks what is in it


@pytest.mark.parametrize("size", TEXTS)
@pytest.mark.parametrize("newest", [False, True], ids=["legacy", "newest"])
async def test_what_a_workflow_says_to_the_model_that_called_it_is_marked(
    tmp_path: Path, size: str, newest: bool
) -> None:
    text = TEXTS[size]
    async with serving(tmp_path) as server:
        for tool in ("echo", "blocks", "fails"):
            result = await server.call(tool, newest=newest, text=text)
            assert is_marked(result), tool
            assert result["isError"] is (tool == "fails")
            assert tool == "blocks" or result["structuredContent"]["untrusted"] is True
        prompt = await server.ask("prompts/get", {"name": "echo", "arguments": {"text": text}}, newest=newest)
        assert prompt["messages"][0]["content"]["text"] == text
        assert is_marked(prompt)
        read = await server.ask("resources/read", {"uri": f"mcp://test/echo/{text.split()[0]}"}, newest=newest)
        assert is_marked(read)
        assert all(is_marked(item) for item in read["contents"])


async def test_what_is_asked_of_a_run_over_mcp_is_marked(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        run_id = await by_model(server, "obey")
        named: dict[str, Any] = {"execution_id": run_id}
        shown = {
            "history": await server.call("penstock_execution_history", **named),
            "query": await server.call("penstock_execution_query", **named, expression=".input"),
            "control": await server.call("penstock_control_workflow_status", **named),
        }
        assert [name for name, result in shown.items() if result["isError"] or not is_marked(result)] == []
