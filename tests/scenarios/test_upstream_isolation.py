"""Calls of different tenants and people at one MCP server: what it asks one of them, no other ever sees."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.runtime.activities.performing import ActivityAsks, ActivityCall, ActivityOutcome
from penstock.runtime.executors.mcp.config import McpServerConfig, command_name
from penstock.runtime.executors.mcp.executor import McpToolExecutor
from penstock.runtime.upstreams.tools import NoGuard, ToolRefusal
from tests.fixtures.mcp_tools_server import make_server
from tests.scenarios.hostile_upstream import hostile_http, pipe_arguments
from tests.unit.runtime.executors.asgi_server import serving_asgi
from tests.unit.runtime.executors.calls import bounded, call_of, done, error


class AnyTenant(NoGuard):
    """Every tenant may call the server, as an operator may say."""

    async def refusal(self, tenant: str, server: str, tool: str) -> ToolRefusal | None:
        return None


PIPE = McpServerConfig(command=sys.executable, args=pipe_arguments())


def called(
    tool: str, arguments: JsonObject | None = None, *, tenant: str = "acme", by: str = "ada", timeout_ms: int = 240_000
) -> ActivityCall:
    call = call_of("tool_call", {"server": "shop", "tool": tool}, arguments or {}, timeout_ms=timeout_ms)
    return replace(call, tenant=tenant, principal=by)


def answered(call: ActivityCall, asked: ActivityOutcome, word: str) -> ActivityCall:
    assert isinstance(asked, ActivityAsks), asked
    return replace(call, activity=replace(call.activity, resume=asked.resume, answer={"word": word}, round=1))


@asynccontextmanager
async def executor_of(config: McpServerConfig, **options: Any) -> AsyncIterator[McpToolExecutor]:
    executor = McpToolExecutor(
        {"shop": config}, allow_commands=(command_name(sys.executable),), guard=AnyTenant(), **options
    )
    try:
        yield executor
    finally:
        await executor.close()


async def process_of(executor: McpToolExecutor, *, tenant: str = "acme", by: str = "ada") -> int:
    found = done(await executor.perform(called("pid", tenant=tenant, by=by)))
    assert isinstance(found, dict)
    assert isinstance(found["pid"], int)
    return found["pid"]


def test_callers_of_different_tenants_and_people_never_share_a_process() -> None:
    async def work() -> None:
        async with executor_of(PIPE) as executor:
            callers = [("acme", "ada"), ("acme", "bob"), ("globex", "ada"), ("acme", "ada")]
            found = [await process_of(executor, tenant=tenant, by=by) for tenant, by in callers]
            assert found[0] == found[3]
            assert len(set(found)) == 3

    bounded(work())


@pytest.mark.parametrize("kind", ["pipe", "http"])
def test_a_question_of_one_tenants_call_is_never_shown_to_another_tenant(kind: str) -> None:
    async def work(config: McpServerConfig) -> None:
        async with executor_of(config) as executor:
            waiting = asyncio.create_task(executor.perform(called("hold", tenant="globex", by="eve")))
            ask = called("ask", {"said": "the password of acme?"})
            asked = await executor.perform(ask)
            # The other tenant's call is the only one left that could be asked.
            assert not waiting.done()
            told = done(await executor.perform(answered(ask, asked, "acme's word")))
            assert isinstance(told, dict)
            assert told["answer"] == {"action": "accept", "content": {"word": "acme's word"}}
            assert not waiting.done()
            waiting.cancel()

    async def over_http() -> None:
        with hostile_http() as url:
            await work(McpServerConfig(url=url))

    bounded(work(PIPE) if kind == "pipe" else over_http())


def test_a_question_whose_call_was_given_up_goes_to_nobody_else() -> None:
    async def work() -> None:
        async with executor_of(PIPE) as executor:
            others = asyncio.create_task(executor.perform(called("hold", tenant="globex", by="eve")))
            await process_of(executor, tenant="globex", by="eve")
            await executor.perform(called("ask", {"said": "the password of acme?"}, timeout_ms=1_000))
            # Whatever the pipe had for the other tenant has arrived before this answer.
            await process_of(executor, tenant="globex", by="eve")
            assert not others.done()
            others.cancel()

    bounded(work())


def test_http_servers_of_the_newest_era_have_no_sessions_and_are_shared() -> None:
    async def work() -> None:
        async with serving_asgi(make_server().streamable_http_app()) as address:
            config = McpServerConfig(url=f"{address}/mcp")
            async with executor_of(config) as executor:
                for by in ("ada", "bob"):
                    await executor.perform(called("greet", {"name": by}, by=by))
                assert executor.open_sessions("shop") == 1

    bounded(work())


def test_the_processes_of_a_server_are_limited_and_idle_ones_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UPSTREAM_SESSIONS_MAX", 2)

    async def work() -> None:
        async with executor_of(PIPE) as executor:
            first = await process_of(executor, by="ada")
            await process_of(executor, by="bob")
            await process_of(executor, by="eve")
            assert executor.open_sessions("shop") == 2
            assert await process_of(executor, by="ada") != first

    bounded(work())


def test_a_caller_waits_a_bounded_time_for_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UPSTREAM_SESSIONS_PER_TENANT_MAX", 1)
    monkeypatch.setattr(limits, "UPSTREAM_SESSION_WAIT_SECONDS_MAX", 0.2)

    async def work() -> None:
        async with executor_of(PIPE) as executor:
            holding = asyncio.create_task(executor.perform(called("hold")))
            await process_of(executor, tenant="globex")  # another tenant is not in the way, nor held up
            busy = error(await executor.perform(called("pid", by="bob")))
            assert (busy.code, busy.retryable) == ("MCP_SERVER_BUSY", True)
            holding.cancel()
            await asyncio.wait((holding,))
            assert await process_of(executor, by="bob")

    bounded(work())
