"""What steps write into their logs reaches the client that waits with them, as far as it wants to hear it."""

from __future__ import annotations

import json
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from tests.live.mcp.broken_messages import META
from tests.live.mcp.clients import ERAS, connected
from tests.live.rest.servers import LiveServer
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.anyio
eras = pytest.mark.parametrize("era", ERAS)


@pytest.fixture
def server(streaming_server: LiveServer) -> LiveServer:
    """A server whose steps talk; its own log is not interested in them."""
    return streaming_server


async def lines_of(server: LiveServer, era: str, level: str | None) -> list[tuple[str, str | None, Any]]:
    """The lines that a client hears while it waits for the tool."""
    heard: list[tuple[str, str | None, Any]] = []
    marks: list[Any] = []

    async def hear(params: types.LoggingMessageNotificationParams) -> None:
        heard.append((params.level, params.logger, params.data))
        marks.append((params.meta or {}).get("penstock/untrusted"))

    async with connected(server, era, logging_callback=hear) as client:
        meta: Any = {}
        if level is not None and era == "legacy":
            await client.session.send_request(
                types.SetLevelRequest(params=types.SetLevelRequestParams(level=level)),  # type: ignore[arg-type]
                types.EmptyResult,
            )
        elif level is not None:
            meta = {types.LOG_LEVEL_META_KEY: level}
        result = await client.call_tool("talk", meta=meta)
        assert result.is_error is False
    assert marks == [True] * len(heard), "a model chose the arguments"
    return heard


async def test_a_level_that_does_not_exist_is_refused_with_the_nearest_one(server: LiveServer) -> None:
    async with connected(server, "2026-07-28") as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("talk", meta={types.LOG_LEVEL_META_KEY: "warnin"})  # type: ignore[arg-type]
    assert refused.value.error.code == types.INVALID_PARAMS
    assert "unknown value `warnin`; did you mean `warning`?" in refused.value.error.message


@eras
async def test_every_line_is_told_in_order_and_no_secret(server: LiveServer, era: str) -> None:
    assert await lines_of(server, era, "debug") == [
        ("debug", "first", "looking"),
        ("info", "first", "found 3 of them"),
        ("warning", "first", "the token is ***"),
        ("error", "second", "badly %s"),
        ("error", "second", "it went wrong"),
    ]


@eras
async def test_what_is_less_important_is_not_told(server: LiveServer, era: str) -> None:
    assert [line[0] for line in await lines_of(server, era, "error")] == ["error", "error"]


async def test_without_a_word_the_older_era_hears_what_people_care_about(server: LiveServer) -> None:
    assert [line[0] for line in await lines_of(server, "legacy", None)] == ["info", "warning", "error", "error"]


async def test_without_a_word_the_newest_era_hears_nothing(server: LiveServer) -> None:
    assert await lines_of(server, "2026-07-28", None) == []


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_the_server_says_that_it_has_logs(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        assert client.server_capabilities.logging is not None


async def test_progress_of_a_run_that_a_model_called_is_marked(server: LiveServer) -> None:
    """The step goes on when its progress was heard."""
    nodes = [{"id": "first", "type": "step", "handler": "halfway"}, {"id": "done", "type": "end"}]
    document = {"penstock": "v1", "name": "halfway", "expose": {"tool": True}, "nodes": nodes}
    server.call("POST", "workflows", {"document": document})
    plain = {**META, "io.modelcontextprotocol/clientCapabilities": {}}  # one that waits, and takes no tasks
    params = {"name": "halfway", "arguments": {}, "_meta": {**plain, "progressToken": "p"}}
    headers = {
        "Authorization": f"Bearer {server.key}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "halfway",
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    with closing(HTTPConnection("127.0.0.1", server.port, timeout=SECONDS_MAX)) as connection:
        connection.request("POST", "/mcp", json.dumps(message), headers)
        answer = connection.getresponse()
        lines = (line.decode() for line in iter(answer.readline, b""))
        told = (json.loads(line[6:])["params"] for line in lines if "notifications/progress" in line)
        said = next(item for item in told if item["message"] == "first: half of it")
        (server.folder / "heard").touch()
    assert (said["_meta"], said["progressToken"]) == ({"penstock/untrusted": True}, "p")
