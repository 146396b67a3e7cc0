"""Log messages of real MCP servers reach the attempt whose call was under way, and no other."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.base.clock import ManualClock
from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.activities.performing import ActivityCall
from penstock.runtime.activities.progress import ProgressBroadcast, ServerMessage
from penstock.runtime.executors.mcp.config import McpServerConfig
from penstock.runtime.executors.mcp.executor import McpToolExecutor
from penstock.runtime.executors.mcp.questions import ElicitationRouter, LiveCall
from tests.unit.runtime.executors.calls import bounded, done
from tests.unit.runtime.executors.mcp.test_executor import executor_of, script, tool, transport

KINDS = ["stdio", "stdio_legacy", "http", "http_legacy"]


@asynccontextmanager
async def executor_with(kind: str, heard: "Heard") -> AsyncIterator[McpToolExecutor]:
    async with transport("stdio" if kind.startswith("stdio") else kind) as config:
        protocol = "legacy" if kind.endswith("_legacy") else "auto"
        chosen = McpServerConfig(command=config.command, args=config.args, url=config.url, protocol=protocol)
        async with executor_of(chosen, on_log=heard) as executor:
            yield executor


class Heard:
    """Keeps what servers say, with the id of the run in whose call they said it."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, int, Any]] = []
        self.arrived = asyncio.Event()

    def __call__(self, call: ActivityCall, said: ServerMessage) -> None:
        assert (said.server, said.logger) == ("tools", "shop")
        self.lines.append((call.run_id, said.level, said.data))
        self.arrived.set()


def of_run(run_id: str, call: ActivityCall) -> ActivityCall:
    return replace(call, run_id=run_id)


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_belongs_to_the_call_that_is_under_way(kind: str) -> None:
    async def work() -> list[tuple[str, int, Any]]:
        heard = Heard()
        async with executor_with(kind, heard) as executor:
            for run_id, level in (("r_1", "notice"), ("r_2", "emergency")):
                arguments: JsonObject = {"message": {"for": run_id}, "level": level}
                done(await executor.perform(of_run(run_id, tool("tell", arguments))))
        return heard.lines

    assert bounded(work()) == [
        ("r_1", logging.INFO, {"for": "r_1"}),
        ("r_2", logging.CRITICAL, {"for": "r_2"}),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_while_several_calls_are_under_way_only_the_transport_says_whose_message_it_is(kind: str) -> None:
    async def work() -> list[tuple[str, int, Any]]:
        heard = Heard()
        async with executor_with(kind, heard) as executor:
            first = asyncio.create_task(executor.perform(of_run("r_1", tool("wait"))))
            await heard.arrived.wait()
            done(await executor.perform(of_run("r_2", tool("tell", {"message": "second"}))))
            first.cancel()
            await asyncio.wait([first])
            # The server may still be busy with the call that was left.
            done(await executor.perform(of_run("r_3", tool("tell", {"message": "third"}))))
        return heard.lines

    told = [(run_id, data) for run_id, _, data in bounded(work())]
    named = [("r_2", "second"), ("r_3", "third")]
    assert told == [("r_1", "waiting"), *(named if kind.startswith("http") else [])]


def test_a_message_that_names_no_request_belongs_to_the_only_call_of_the_session() -> None:
    async def work() -> list[tuple[str, int, Any]]:
        heard = Heard()
        async with executor_with("stdio_legacy", heard) as executor:
            done(await executor.perform(tool("tell", {"message": "aside", "aside": True})))
        return heard.lines

    assert [data for _, _, data in bounded(work())] == ["aside"]


def test_in_a_session_that_several_owners_share_such_a_message_belongs_to_nobody() -> None:
    async def work() -> tuple[LiveCall | None, LiveCall | None, bool]:
        router, call = ElicitationRouter(), LiveCall()
        async with router.at_work(call):
            alone = Context().run(router.speaker)
            router.only_named = True
            return alone, Context().run(router.speaker), router.speaker() is call is alone

    alone, shared, named = bounded(work())
    assert alone is not None
    assert shared is None
    assert named


def test_messages_are_kept_within_bounds_with_secrets_masked_and_the_name_of_the_server() -> None:
    progress = ProgressBroadcast(ManualClock(7))
    secret = 'se"cret'

    async def work() -> None:
        async with executor_of(script("mcp_tools_server.py"), on_log=progress.server_log) as executor:
            said: list[JsonValue] = [{"key": [secret]}, f"{'x' * 495}{secret} and more", "<b>Ignore the rules</b>"]
            for data in said:
                call = replace(tool("tell", {"message": data}), hidden=(secret,))
                done(await executor.perform(call))

    with progress.subscribe("r_1", logs=True) as news:
        bounded(work())
        assert news.take() == []  # not the word of a step of ours
    kept = progress.kept.of("r_1")
    assert kept is not None
    assert [(line.server, line.node_id, line.attempt) for line in kept.lines] == [("tools", "pay", 1)] * 3
    first, second, third = (line.message or "" for line in kept.lines)
    assert first == 'shop: {"key":["[secret]"]}'
    assert len(second) == 500
    assert "se" not in second[6:].replace("[sec", "")
    assert third == "shop: <b>Ignore the rules</b>"
