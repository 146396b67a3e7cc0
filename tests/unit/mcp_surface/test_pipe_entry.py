"""The first answers over a pipe come before the SDK is loaded, and the SDK takes over without anybody noticing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from penstock.app.serving.mcp import load_mcp
from penstock.base import limits
from penstock.mcp_surface.pipe_entry import serve_pipe_client
from penstock.mcp_surface.wire.pipe import Pipe
from tests.unit.mcp_surface.assistants import Assistant, assisted, exposed
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.anyio

GREET = exposed("greet", {"id": "done", "type": "end", "output": "hello"})
OTHER = exposed("other", {"id": "done", "type": "end", "output": "hello"})
USUAL: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {"form": {}}},
    "clientInfo": {"name": "test", "title": "Test", "version": "1"},
}
INITIALIZED = {"method": "notifications/initialized"}
LIST = {"id": 2, "method": "tools/list"}


class TestClient:
    """A client at the other end of a pipe."""

    __test__ = False

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.written: list[bytes] = []
        self._sent: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._arrived = asyncio.Condition()

    async def lines(self) -> AsyncIterator[bytes]:
        while (line := await self._sent.get()) is not None:
            yield line

    async def write(self, line: bytes) -> None:
        async with self._arrived:
            self.written.append(line)
            self.received.append(json.loads(line))
            self._arrived.notify_all()

    def send(self, message: Mapping[str, Any]) -> None:
        self._sent.put_nowait(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def close(self) -> None:
        self._sent.put_nowait(None)

    async def wait_for(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for a message."""
        async with asyncio.timeout(SECONDS_MAX), self._arrived:
            await self._arrived.wait_for(lambda: any(map(wanted, self.received)))
        return next(filter(wanted, self.received))

    async def ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request, and wait for its answer."""
        self.send(message)
        return await self.wait_for(lambda answer: answer.get("id") == message["id"])

    async def open(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Perform the handshake."""
        answer = await self.ask({"id": 1, "method": "initialize", "params": params})
        self.send(INITIALIZED)
        return answer


class Served:
    """A client that is served, and how often the SDK was loaded for it."""

    def __init__(self, assistant: Assistant, **options: Any) -> None:
        self._assistant = assistant
        self._options = replace(assistant.options, **options)
        self.client = TestClient()
        self.loads = 0

    def _load(self) -> ModuleType:
        self.loads += 1
        return load_mcp()

    async def __aenter__(self) -> Served:
        principal = await self._assistant.caller.principal()
        gate, pipe = self._assistant.caller.gate, cast("Pipe", self.client)
        serving = serve_pipe_client(gate, self._options, lambda: principal, lambda: "test", pipe, self._load)
        self._serving = asyncio.create_task(serving)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.client.close()
        await asyncio.wait_for(self._serving, SECONDS_MAX)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is slow because the machine is busy is not quiet."""
    monkeypatch.setattr(limits, "MCP_WARM_AFTER_SECONDS", SECONDS_MAX)


async def test_the_handshake_and_the_tools_are_answered_without_the_sdk(tmp_path: Path) -> None:
    async with assisted(tmp_path, GREET) as assistant, Served(assistant) as served:
        answer = await served.client.open(USUAL)
        listed = await served.client.ask(LIST)
        assert answer["result"]["protocolVersion"] == "2025-11-25"
        assert "greet" in [tool["name"] for tool in listed["result"]["tools"]]
        assert served.loads == 0


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("step_logs", [True, False])
async def test_the_answers_are_byte_for_byte_those_of_the_sdk(tmp_path: Path, version: str, step_logs: bool) -> None:
    answers = []
    async with assisted(tmp_path, GREET, OTHER) as assistant:
        for fast_path in (True, False):
            async with Served(assistant, fast_path=fast_path, step_logs=step_logs) as served:
                await served.client.open({**USUAL, "protocolVersion": version})
                await served.client.ask(LIST)
                await served.client.ask({**LIST, "id": "x"})
                answers.append(served.client.written)
                assert served.loads == (0 if fast_path else 1)
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "params",
    [
        {**USUAL, "protocolVersion": "2024-11-05"},
        {**USUAL, "protocolVersion": "2099-01-01"},
        {**USUAL, "capabilities": {"extensions": {"io.modelcontextprotocol/ui": {}}}},
        {**USUAL, "capabilities": {"roots": {"listChanged": "yes"}}},
        {**USUAL, "clientInfo": {"name": "test"}},
        {**USUAL, "_meta": {"progressToken": 1}},
        {},
    ],
    ids=["old", "unknown", "extension", "invalid capability", "no version", "metadata", "nothing"],
)
async def test_an_unusual_handshake_is_left_to_the_sdk(tmp_path: Path, params: dict[str, Any]) -> None:
    answers = []
    async with assisted(tmp_path, GREET) as assistant:
        for fast_path in (True, False):
            async with Served(assistant, fast_path=fast_path) as served:
                answers.append(await served.client.ask({"id": 1, "method": "initialize", "params": params}))
                assert served.loads == 1
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "message",
    [
        {"id": 5, "method": "ping"},
        {"id": 5, "method": "prompts/list"},
        {"id": 5, "method": "tools/list", "params": {"cursor": "x"}},
        {"id": 5, "method": "initialize", "params": USUAL},
        {"id": 5, "method": "nonsense"},
        {"id": 5, "method": "tools/call", "params": {"name": "greet", "arguments": {}}},
    ],
    ids=["ping", "prompts", "cursor", "handshake again", "unknown", "call"],
)
async def test_the_first_other_message_loads_the_sdk_which_knows_the_client(
    tmp_path: Path, message: dict[str, Any]
) -> None:
    found = []
    async with assisted(tmp_path, GREET) as assistant:
        for fast_path in (True, False):
            async with Served(assistant, fast_path=fast_path) as served:
                await served.client.open(USUAL)
                await served.client.ask(LIST)
                answer = await served.client.ask(message)
                await served.client.ask({"id": 6, "method": "ping"})
                assert served.loads == 1
                # Each request has one answer, although the SDK read the handshake again.
                assert [item["id"] for item in served.client.received if "id" in item] == [1, 2, 5, 6]
                found.append(answer.get("error") or sorted(answer["result"]))
    assert found[0] == found[1]


async def test_a_tool_is_not_listed_before_the_handshake(tmp_path: Path) -> None:
    answers = []
    async with assisted(tmp_path, GREET) as assistant:
        for fast_path in (True, False):
            async with Served(assistant, fast_path=fast_path) as served:
                answers.append(await served.client.ask(LIST))
    assert answers[0] == answers[1]
    assert "error" in answers[0]


async def test_a_quiet_client_hears_of_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MCP_WARM_AFTER_SECONDS", 0.05)
    async with assisted(tmp_path, GREET) as assistant, Served(assistant) as served:
        await served.client.open(USUAL)
        await served.client.ask(LIST)
        await assistant.caller.call("workflow.create", document=OTHER)
        await served.client.wait_for(lambda sent: sent.get("method") == "notifications/tools/list_changed")
        assert "other" in [tool["name"] for tool in (await served.client.ask({**LIST, "id": 3}))["result"]["tools"]]


async def test_a_change_before_the_sdk_was_loaded_is_reported(tmp_path: Path) -> None:
    async with assisted(tmp_path, GREET) as assistant, Served(assistant) as served:
        await served.client.open(USUAL)
        await served.client.ask(LIST)
        await assistant.caller.call("workflow.create", document=OTHER)
        await served.client.ask({"id": 5, "method": "ping"})
        await served.client.wait_for(lambda sent: sent.get("method") == "notifications/tools/list_changed")


async def test_nothing_is_reported_if_nothing_changed(tmp_path: Path) -> None:
    async with assisted(tmp_path, GREET) as assistant, Served(assistant) as served:
        await served.client.open(USUAL)
        await served.client.ask(LIST)
        for number in (5, 6, 7):
            await served.client.ask({"id": number, "method": "ping"})
        assert [sent for sent in served.client.received if "method" in sent] == []


async def test_each_message_counts_once_against_the_rates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with assisted(tmp_path, GREET) as assistant:
        counted: list[str] = []
        limiter = assistant.caller.gate.rate_limiter
        charge = type(limiter).charge

        def note(self: Any, principal: Any, operation: str, *more: Any) -> None:
            counted.append(operation)
            charge(self, principal, operation, *more)

        monkeypatch.setattr(type(limiter), "charge", note)
        found = []
        for fast_path in (True, False):
            counted.clear()
            async with Served(assistant, fast_path=fast_path) as served:
                await served.client.open(USUAL)
                await served.client.ask(LIST)
                await served.client.ask({"id": 5, "method": "ping"})
            found.append(sorted(counted))
    assert found[0] == found[1]
    assert len(found[0]) == 4


async def test_a_client_that_leaves_early_ends_the_server_without_the_sdk(tmp_path: Path) -> None:
    async with assisted(tmp_path, GREET) as assistant:
        async with Served(assistant) as served:
            await served.client.open(USUAL)
        assert served.loads == 0
