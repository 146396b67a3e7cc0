"""A server that stops holds up no client, and loses nothing that one of them began."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.live.mcp.clients import ERAS, connected, listened, old_stream, text_of
from tests.live.mcp.workflows import ALL
from tests.live.rest.servers import serving
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("era", ERAS)
async def test_who_waits_gets_the_handle_and_the_execution_is_there_afterwards(tmp_path: Path, era: str) -> None:
    # Nobody is drained for: the server would wait for longer than the test does.
    with serving(tmp_path, PENSTOCK_SERVER_DRAIN_SECONDS="3600") as server:
        for document in ALL:
            server.call("POST", "workflows", {"document": document})
        begun = asyncio.Event()

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            begun.set()

        async with (
            connected(server, era) as client,
            listened(server, {"toolsListChanged": True}) as messages,
            old_stream(server, server.key),
        ):
            # The client wants to know the schemas of results; it would ask for them when the server has stopped.
            await client.list_tools()
            calling = asyncio.ensure_future(client.call_tool("nap", progress_callback=hear))
            await asyncio.wait_for(begun.wait(), SECONDS_MAX)
            stopping = asyncio.ensure_future(asyncio.to_thread(server.stop))
            result = await asyncio.wait_for(calling, SECONDS_MAX)
            assert await stopping == 0
            assert "continues" in text_of(result)
            async with asyncio.timeout(SECONDS_MAX):
                assert "result" in [message async for message in messages][-1]
            server.start()
        found = server.call("GET", f"executions/{result.structured_content['execution_id']}")
        assert found["status"] == "waiting_timer"


async def test_what_was_called_is_in_the_audit_trail(tmp_path: Path) -> None:
    # Nobody is drained for: the server would wait for longer than the test does.
    with serving(tmp_path, PENSTOCK_SERVER_DRAIN_SECONDS="3600") as server:
        for document in ALL:
            server.call("POST", "workflows", {"document": document})
        async with connected(server, toolset="management") as client:
            await client.call_tool("greet", {"name": "Ada"})
            await client.call_tool("penstock_workflow_delete", {"workflow_id": "big"})
        kept = [(item["surface"], item["operation"]) for item in server.call("GET", "audit?limit=100")["items"]]
        assert ("mcp", "workflow.delete") in kept
