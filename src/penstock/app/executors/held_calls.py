"""Performs `tool_call` nodes that call the gate itself, once one is open, and asks it before other tools are called.

A run that holds a call reaches its `tool_call` node when it was approved. The server that this node names is the gate
itself. Nodes with `server: penstock` call capabilities of this server. After a restart, such a call may be due before
the gate is open, so it waits for that; a process that opens no gate makes no such call. Tools of other servers go to
the executor that has them.

Above it: `Penstock`. Below it: `operations.drafts.making` and `operations.executions.capability_calls`, given by
`app.gate`; the executor for MCP servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from penstock.base import limits
from penstock.engine.effects import PerformActivity
from penstock.runtime.activities.performing import ActivityCall, ActivityError, ActivityOutcome, AsyncPerformer
from penstock.runtime.executors.mcp.config import OWN_SERVER

__all__ = ["HELD_SERVER", "HeldCallExecutor"]

HELD_SERVER = "-gate"
"""As in `operations.runs.held_calls`, which is not imported by programs without a gate."""

MakeCall = Callable[[str], Awaitable[ActivityOutcome]]
"""Makes the call that a run holds."""
DecideCall = Callable[[ActivityCall], Awaitable[ActivityError | None]]
CallCapability = Callable[[ActivityCall], Awaitable[ActivityOutcome]]


@dataclass(slots=True, kw_only=True)
class HeldCallExecutor:
    """Makes held calls; passes everything else on."""

    tools: AsyncPerformer | None = None
    """The executor for tools of MCP servers, if one is configured."""
    governed: bool = False
    """Whether nodes call tools only if a gate permits it, once one is open."""
    _make: MakeCall | None = None
    _decide: DecideCall | None = None
    _call: CallCapability | None = None
    _open: asyncio.Event = field(default_factory=asyncio.Event)

    def attach(self, make: MakeCall, decide: DecideCall | None = None, call: CallCapability | None = None) -> None:
        """Make held calls and calls of capabilities through this gate, and let it decide about calls of tools."""
        self._make, self._decide, self._call = make, decide, call
        self._open.set()

    def detach(self) -> None:
        """The gate is closed."""
        self._make = self._decide = self._call = None
        self._open.clear()

    @staticmethod
    def settles(activity: PerformActivity) -> bool:
        """Whether an attempt that a process left behind may be repeated: a held call has an idempotency key."""
        return activity.config.get("server") == HELD_SERVER

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Perform one attempt."""
        if call.activity.config.get("server") == HELD_SERVER:
            return await self._made(call)
        if call.activity.config.get("server") == OWN_SERVER:
            return await self._called(call)
        if self.tools is None:
            message = f"no executor is configured for tool_call (node {call.activity.node_id})"
            return ActivityError(message, "COMPOSITE_EXECUTOR_NOT_CONFIGURED", retryable=False)
        refused = await self._refused(call)
        return await self.tools.perform(call) if refused is None else refused

    async def _refused(self, call: ActivityCall) -> ActivityError | None:
        """Return why policies do not permit a call; None if they do, or if there is no gate to ask."""
        if self._decide is None and self.governed:
            try:
                await asyncio.wait_for(self._open.wait(), limits.HELD_CALL_GATE_SECONDS)
            except TimeoutError:
                return ActivityError("this process has no open gate to decide about the call", "GATE_CLOSED")
        refused = None if self._decide is None else await self._decide(call)
        await call.confirm()  # it may have waited
        return refused

    async def _is_open(self) -> bool:
        try:
            await asyncio.wait_for(self._open.wait(), limits.HELD_CALL_GATE_SECONDS)
        except TimeoutError:
            return False
        return True

    async def _called(self, call: ActivityCall) -> ActivityOutcome:
        perform = self._call if await self._is_open() else None
        if perform is None:
            message = "this process has no open gate, and only a gate calls capabilities; run it on a server"
            return ActivityError(message, "GATE_CLOSED", retryable=False)
        await call.confirm()  # it may have waited
        return await perform(call)

    async def _made(self, call: ActivityCall) -> ActivityOutcome:
        if not await self._is_open():
            return _no_gate()
        make = self._make
        if make is None:
            return _no_gate()
        await call.confirm()  # it may have waited
        return await make(call.run_id)


def _no_gate() -> ActivityError:
    message = "this process has no open gate, and only a gate makes held calls; propose the call again on the server"
    return ActivityError(message, "HELD_CALL_NO_GATE", retryable=False)
