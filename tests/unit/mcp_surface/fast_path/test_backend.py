"""The fast path answers what the SDK would answer, byte for byte, and leaves to it whatever is unusual or wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.mcp_surface.endpoint import McpBackend, McpEndpoint
from penstock.mcp_surface.entry_points import open_http_backend
from penstock.mcp_surface.fast_path.backend import FastPath
from penstock.mcp_surface.fast_path.requests import FastRequest
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.tools.registry import ToolRegistry
from penstock.mcp_surface.tools.tool_list import ToolList
from penstock.operations.gate.context import Principal, Request, Surface
from penstock.operations.gate.pipeline import AnsweredCall, Gate

pytestmark = pytest.mark.anyio

_VERSION = "2026-07-28"
_PREFIX = "io.modelcontextprotocol/"
META: dict[str, Any] = {
    f"{_PREFIX}protocolVersion": _VERSION,
    f"{_PREFIX}clientCapabilities": {"extensions": {f"{_PREFIX}tasks": {}}, "elicitation": {}},
    f"{_PREFIX}clientInfo": {"name": "test", "version": "1"},
}
GREET: dict[str, Any] = {
    "penstock": "v1",
    "name": "greet",
    "title": "Grüßen",
    "expose": {"tool": {"description": "Says hello."}},
    "input": {"type": "object", "properties": {"name": {"type": "string"}}},
    "nodes": [{"id": "done", "type": "end", "output": {"text": "Hello", "nothing": None, "half": 0.5}}],
}
UNCHANGED: dict[str, Any] = {
    "penstock": "v1",
    "name": "plain",
    "nodes": [{"id": "done", "type": "end", "output": {"text": 'a "quoted" line\nand <another>\t'}}],
}
LONG: dict[str, Any] = {
    "penstock": "v1",
    "name": "long",
    "nodes": [{"id": "done", "type": "end", "output": {"items": ["word" * 10] * 2_000}}],
}
Answer = tuple[int, list[tuple[bytes, bytes]], bytes]


@dataclass
class Counted:
    """The engine behind the fast path, and how often it was asked."""

    engine: McpBackend
    asked: int = 0

    async def handle(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked += 1
        await self.engine.handle(principal, scope, receive, send)

    async def stop(self) -> None:
        await self.engine.stop()


@dataclass
class Both:
    """The same server with the fast path and without it."""

    gate: Gate
    fast: McpEndpoint
    slow: McpEndpoint
    counted: list[Counted]
    paths: list[FastPath]
    key: str
    runs: dict[str, str] = field(default_factory=dict)

    async def call(self, operation: str, *, surface: Surface = "sdk", **arguments: Any) -> Any:
        request = Request(
            operation=operation, arguments=arguments, principal=local_owner(), surface=surface, request_id="test"
        )
        outcome = await self.gate.call(request)
        assert isinstance(outcome, AnsweredCall), outcome
        return outcome.reply.value  # type: ignore[union-attr]

    async def post(self, body: Any, headers: dict[str, str], *, fast: bool, key: str | None = None) -> Answer:
        return await posted(self.fast if fast else self.slow, body, headers, self.key if key is None else key)

    async def compared(self, body: Any, headers: dict[str, str], key: str | None = None) -> tuple[Answer, bool]:
        """The answer that both give, and whether the fast path gave it by itself."""
        expected = await self.post(body, headers, fast=False, key=key)
        before = sum(item.asked for item in self.counted)
        found = await self.post(body, headers, fast=True, key=key)
        assert found == expected
        return found, sum(item.asked for item in self.counted) == before


async def posted(edge: McpEndpoint, body: Any, headers: dict[str, str], key: str) -> Answer:
    sent: list[Message] = []
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = {"host": "localhost", "content-type": "application/json", "content-length": str(len(raw)), **headers}
    if key:
        lines["authorization"] = f"Bearer {key}"
    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in lines.items()],
        "client": ("127.0.0.1", 1),
        "state": {"request_id": "test"},
    }
    waiting: list[Message] = [{"type": "http.request", "body": raw, "more_body": False}]

    async def receive() -> Message:
        if not waiting:
            # The client stays until it is answered: one that goes cancels.
            await asyncio.Event().wait()
        return waiting.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    await edge(scope, receive, send)
    return sent[0]["status"], sent[0]["headers"], b"".join(item.get("body", b"") for item in sent[1:])


def asked(method: str, /, request_id: int | str = 7, **params: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """A request and its headers."""
    meta = params.pop("meta", META)
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": _VERSION, "mcp-method": method}
    named = params.get("name") or params.get("taskId")
    if named:
        headers["mcp-name"] = named
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {"_meta": meta, **params}}, headers


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Both]:
    async with Penstock.open(path / "penstock.db") as penstock, open_gate(penstock) as gate:
        counted: list[Counted] = []
        paths: list[FastPath] = []
        options = McpOptions(toolset="all", catalogue_bytes=10_000_000)

        async def load_fast() -> McpBackend:
            engine = await open_http_backend(gate, options)
            assert isinstance(engine, FastPath)
            counted.append(Counted(engine._backend))
            paths.append(engine)
            engine._backend = counted[-1]
            return engine

        async def load_slow() -> McpBackend:
            return await open_http_backend(gate, replace(options, fast_path=False))

        both = Both(
            gate, McpEndpoint(gate, options, load_fast), McpEndpoint(gate, options, load_slow), counted, paths, ""
        )
        both.key = (await both.call("key.create", name="owner", scopes=["*"])).secret
        for document in (GREET, UNCHANGED, LONG):
            await both.call("workflow.create", document=document)
            made = await both.call("workflow.execute", workflow_id=document["name"], sync=True)
            both.runs[document["name"]] = made.execution_id
            # What is untrusted says so, in metadata of its own.
            made = await both.call("workflow.execute", surface="mcp", workflow_id=document["name"], sync=True)
            both.runs[f"untrusted {document['name']}"] = made.execution_id
        try:
            yield both
        finally:
            await both.fast.close()
            await both.slow.close()


async def test_answers_are_those_of_the_sdk_byte_for_byte(tmp_path: Path) -> None:
    async with opened(tmp_path) as both:
        requests = [
            asked("server/discover"),
            asked("server/discover", "näher"),
            asked("tools/list", 0),
            asked("tools/list", "a"),
            asked("tools/call", name="penstock_workflow_get", arguments={"workflow_id": "plain"}),
            asked("tools/call", name="penstock_workflow_get", arguments={"workflow_id": "greet"}),
            asked("tools/call", name="workflow.get", arguments={"workflow_id": "nothing"}),
            asked("tools/call", name="penstock_workflow_list", arguments={"limit": "many"}),
            asked("tools/call", name="penstock_workflow_list", arguments={"unknown": "ü", "limit": -1}),
            asked("tools/call", name="penstock_workflow_list", arguments={"limit": {"a": [{"b": 1}]}}),
            asked("tools/call", name="penstock_workflow_list"),
            asked("tools/call", "x" * 50, name="penstock.workflow.list", arguments={"limit": 1}),
            *(
                asked("tools/call", name="penstock_execution_status", arguments={"execution_id": run})
                for run in both.runs.values()
            ),
            *(asked("tasks/get", taskId=run) for run in both.runs.values()),
            asked("tasks/get", taskId="nothing"),
        ]
        for body, headers in requests:
            await both.compared(body, headers)
        for body, headers in requests:
            _, alone = await both.compared(body, headers)
            assert alone, body


async def test_what_is_unusual_or_wrong_goes_to_the_sdk(tmp_path: Path) -> None:
    listed, headers = asked("tools/list")
    called, calling = asked("tools/call", name="penstock_workflow_list")
    old = {**META, f"{_PREFIX}protocolVersion": "1999-01-01"}
    cases = [
        (listed, {**headers, "mcp-method": "tools/call"}),
        (listed, {**headers, "mcp-protocol-version": "1999-01-01"}),
        (listed, {**headers, "mcp-name": "x"}),
        (listed, {**headers, "accept": "application/json"}),
        (listed, {**headers, "content-type": "text/plain"}),
        (called, {**calling, "mcp-name": "penstock_workflow_get"}),
        (called, {**calling, "mcp-param-limit": "1"}),
        (called, {name: value for name, value in calling.items() if name != "mcp-name"}),
        asked("tools/list", meta=old),
        asked("tools/list", meta={f"{_PREFIX}protocolVersion": _VERSION}),
        asked("tools/list", meta={**META, f"{_PREFIX}clientCapabilities": 5}),
        asked("tools/list", meta={**META, "progressToken": 1}),
        asked("tools/list", cursor="x"),
        asked("tools/call", name="penstock_workflow_list", meta={**META, "progressToken": 1}),
        asked("tools/call", name="nothing"),
        asked("tools/call", name="penstock_workflow_list", requestState="x"),
        asked("nothing/at_all"),
        ({**listed, "id": None}, headers),
        ({**listed, "id": 1.5}, headers),
        ({**listed, "jsonrpc": "1.0"}, headers),
        ([listed], headers),
        (b"{", headers),
        (b"", headers),
    ]
    async with opened(tmp_path) as both:
        for warm in (asked("tools/list"), asked("tools/call", name="penstock_workflow_list")):
            await both.compared(*warm)
        for body, sent in cases:
            for _ in range(2):
                _, alone = await both.compared(body, sent)
                assert not alone, body


async def test_whoever_wants_more_than_an_answer_goes_to_the_sdk(tmp_path: Path) -> None:
    wishes: list[dict[str, Any]] = [
        {f"{_PREFIX}logLevel": "debug"},
        {"progressToken": "p"},
        {"penstock/idempotency_key": "once"},
        {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
        {"anything": {"else": 1}},
    ]
    reading: dict[str, Any] = {"name": "penstock_workflow_get", "arguments": {"workflow_id": "plain"}}
    async with opened(tmp_path) as both:
        for body, headers in (asked("tools/list"), asked("tools/call", **reading)):
            await both.compared(body, headers)
            assert (await both.compared(body, headers))[1]
        for wish in wishes:
            for body, headers in (
                asked("tools/list", meta={**META, **wish}),
                asked("server/discover", meta={**META, **wish}),
                asked("tools/call", meta={**META, **wish}, **reading),
            ):
                for _ in range(2):
                    assert not (await both.compared(body, headers))[1], body
        more: list[dict[str, Any]] = [
            {"inputResponses": {"a": {"action": "accept", "content": {}}}},
            {"inputResponses": {}},
            {"requestState": "sealed"},
            {"task": {"ttl": 1}},
        ]
        for params in more:
            for _ in range(2):
                assert not (await both.compared(*asked("tools/call", **reading, **params)))[1], params
        # What changes something, waits, or runs a workflow is nothing to be quick about.
        for name, arguments in (
            ("greet", {}),
            ("penstock_execution_wait", {"execution_id": both.runs["greet"]}),
            ("penstock_workflow_delete", {"workflow_id": "nothing"}),
        ):
            body, headers = asked("tools/call", name=name, arguments=arguments)
            before = sum(item.asked for item in both.counted)
            for _ in range(2):
                await both.post(body, headers, fast=True)
            assert sum(item.asked for item in both.counted) == before + 2, name


async def test_what_a_client_can_be_asked_changes_no_answer_that_only_reads(tmp_path: Path) -> None:
    able: dict[str, Any] = {
        "elicitation": {"form": {}, "url": {}},
        "sampling": {"tools": {}},
        "roots": {},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    }
    meta = {**META, f"{_PREFIX}clientCapabilities": able}
    async with opened(tmp_path) as both:
        requests = [
            asked("server/discover", meta=meta),
            asked("tools/list", meta=meta),
            asked("tools/call", meta=meta, name="penstock_workflow_get", arguments={"workflow_id": "plain"}),
            asked("tasks/get", meta=meta, taskId=both.runs["greet"]),
        ]
        for body, headers in requests:
            await both.compared(body, headers)
            assert (await both.compared(body, headers))[1], body


async def test_what_pages_show_beside_results_is_told_as_without_the_fast_path(tmp_path: Path) -> None:
    shows = {"extensions": {f"{_PREFIX}ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
    meta = {**META, f"{_PREFIX}clientCapabilities": shows}
    async with opened(tmp_path) as both:
        run: dict[str, Any] = {"name": "penstock_execution_status", "arguments": {"execution_id": both.runs["greet"]}}
        listed, read = asked("tools/list", meta=meta), asked("tools/call", meta=meta, **run)
        for _ in range(3):
            (_, _, tools), _ = await both.compared(*listed)
            assert b"ui://penstock/run" in tools
            (_, _, result), _ = await both.compared(*read)
            assert b"penstock/view" in result
            assert b"ui://penstock" not in (await both.compared(*asked("tools/list")))[0][2]
            assert b"penstock/view" not in (await both.compared(*asked("tools/call", **run)))[0][2]


async def test_one_look_at_the_tools_serves_a_whole_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []

    def noted(name: str) -> None:
        look = getattr(ToolRegistry, name)

        def noting(registry: ToolRegistry, *given: Any) -> Any:
            looks.append(name)
            return look(registry, *given)

        monkeypatch.setattr(ToolRegistry, name, noting)

    for name in ("of", "at_hand", "last_of"):
        noted(name)
    async with opened(tmp_path) as both:
        requests = [
            asked("tools/list"),
            asked("tools/call", name="penstock_workflow_get", arguments={"workflow_id": "plain"}),
            asked("tools/call", name="greet", arguments={"name": "Ada"}),
            asked("tools/call", name="nothing"),
            asked("tasks/get", taskId=both.runs["greet"]),
        ]
        for body, headers in requests:
            await both.post(body, headers, fast=True)
        for body, headers in requests:
            looks.clear()
            await both.post(body, headers, fast=True)
            assert looks == ["at_hand"], body


async def test_what_one_result_adds_of_its_own_is_in_no_other(tmp_path: Path) -> None:
    async with opened(tmp_path) as both:
        await both.post(*asked("tools/list"), fast=True)
        fast, tool_list = both.paths[0], ToolList((), {}, frozenset())
        hot = FastRequest("tools/call", 1, json.dumps(META).encode(), "anything", {})
        info = {f"{_PREFIX}serverInfo": {"name": "penstock", "version": "0"}}
        for added, is_learnt in (({**info, "theirs": 1}, False), ({}, False), (info, True)):
            fast._learn(hot, tool_list, json.dumps({"content": [], "_meta": added}).encode() + b"}")
            assert (fast._envelopes.get((hot.method, hot.meta)) is not None) is is_learnt


async def test_what_the_sdk_adds_to_results_is_learned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path) as both:
        learned, learn = [], FastPath._learn

        def counted(path: FastPath, hot: FastRequest, tool_list: ToolList, rest: bytes | None) -> None:
            learned.append(hot.method)
            learn(path, hot, tool_list, rest)

        monkeypatch.setattr(FastPath, "_learn", counted)
        for _ in range(3):
            answer = await both.post(*asked("tools/call", name="greet", arguments={"name": "Ada"}), fast=True)
            assert b"Hello" in answer[2]
        assert learned == ["tools/call"]


async def test_large_lists_are_sent_in_parts_and_are_whole(tmp_path: Path) -> None:
    async with opened(tmp_path) as both:
        for request_id in (0, -5, 2**40, "x" * 200, 'quote " and ü'):
            answer, _ = await both.compared(*asked("tools/list", request_id))
            assert dict(answer[1])[b"content-length"] == str(len(answer[2])).encode()
            assert json.loads(answer[2])["id"] == request_id
            assert len(answer[2]) > 16_384


async def test_nobody_without_a_valid_key_is_answered(tmp_path: Path) -> None:
    async with opened(tmp_path) as both:
        body, headers = asked("tools/list")
        await both.compared(body, headers)
        for key in ("", "pen_wrong"):
            answer, _ = await both.compared(body, headers, key)
            assert answer[0] == 401
        made = await both.call("key.create", name="short", scopes=["*"])
        assert (await both.compared(body, headers, made.secret))[0][0] == 200
        await both.call("key.revoke", key_id=made.key.id)
        assert (await both.compared(body, headers, made.secret))[0][0] == 401


async def test_each_sees_what_they_may_and_as_it_is_now(tmp_path: Path) -> None:
    async with opened(tmp_path) as both:
        body, headers = asked("tools/list")
        reader = (await both.call("key.create", name="reader", scopes=["workflow:read"])).secret
        names: dict[str, list[set[str]]] = {reader: [], both.key: []}
        for _ in range(3):
            for key, seen in names.items():
                answer, _ = await both.compared(body, headers, key)
                seen.append({tool["name"] for tool in json.loads(answer[2])["result"]["tools"]})
        assert all("greet" in seen for seen in names[both.key])
        assert all("penstock_workflow_get" in seen and "greet" not in seen for seen in names[reader])
        called = asked("tools/call", name="penstock_execution_list")
        for _ in range(2):
            assert (await both.compared(*called))[0][0] == 200
            assert (await both.compared(*called, reader))[0][0] == 400
        await both.call("workflow.create", document={**GREET, "name": "another"})
        answer, alone = await both.compared(body, headers)
        assert not alone
        assert b'"another"' in answer[2]
        assert (await both.compared(body, headers))[1]


async def test_every_call_is_written_down(tmp_path: Path) -> None:
    async with opened(tmp_path) as both:
        body, headers = asked("tools/call", name="penstock_workflow_get", arguments={"workflow_id": "nothing"})
        for _ in range(3):
            await both.post(body, headers, fast=True)
        assert both.counted[0].asked == 1
        entries = (await both.call("audit.list", limit=100)).items
        refused = [entry for entry in entries if entry.code == "WORKFLOW_NOT_FOUND"]
        assert len(refused) == 3
        assert {(entry.surface, entry.operation, entry.subject) for entry in refused} == {
            ("mcp", "workflow.get", "nothing")
        }
