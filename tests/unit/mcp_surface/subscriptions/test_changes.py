"""The task that looks for changes: it ends when it is told to, whatever happens at the same moment."""

from __future__ import annotations

import asyncio

import pytest

from penstock.mcp_surface.callers import Caller
from penstock.mcp_surface.calls.calls import ToolCalls
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.resources.contents import Contents
from penstock.mcp_surface.subscriptions.changes import ChangeWatcher
from penstock.mcp_surface.tools.registry import ToolRegistry
from tests.unit.operations.conftest import OpenGate, open_caller
from tests.waiting import turns, until

__all__ = ["open_caller"]

pytestmark = pytest.mark.anyio
TURNS_MAX = 6  # of the event loop, between a change and the watcher that looks at it


async def test_a_change_at_the_moment_of_the_stop_does_not_keep_the_watcher_going(open_caller: OpenGate) -> None:
    async with open_caller() as gate:
        registry = ToolRegistry(gate.gate, McpOptions())
        contents = Contents(gate.gate, registry, ToolCalls(gate.gate, registry, McpOptions()))
        caller = Caller(principal=await gate.principal(), request_id="test")
        for count in range(TURNS_MAX):
            changes = ChangeWatcher(gate.gate, registry, contents)
            subscription = await changes.open(caller, ("tools",), lambda: None)
            await turns()
            gate.gate.exposed.changed(caller.principal.tenant)
            await turns(count)
            stopping = asyncio.ensure_future(changes.stop())
            await until(stopping.done)  # not awaited itself: a watcher that goes on would take the cancellation too
            assert subscription.ended
