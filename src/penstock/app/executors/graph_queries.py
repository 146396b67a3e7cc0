"""Performs `query` nodes with the gate, once one is open.

After a restart, such a node may be due before the gate is open, so it waits for that; a process that opens no gate
reaches no graphs.

Above it: `Penstock`. Below it: `operations.graphs.nodes`, given by `app.gate`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from penstock.base import limits
from penstock.runtime.activities.performing import ActivityCall, ActivityError, ActivityOutcome

__all__ = ["GraphQueryExecutor"]

Perform = Callable[[ActivityCall], Awaitable[ActivityOutcome]]


@dataclass(slots=True, kw_only=True)
class GraphQueryExecutor:
    """Performs `query` nodes."""

    _perform: Perform | None = None
    _open: asyncio.Event = field(default_factory=asyncio.Event)

    def attach(self, perform: Perform) -> None:
        """Perform nodes through this gate from now on."""
        self._perform = perform
        self._open.set()

    def detach(self) -> None:
        """The gate is closed."""
        self._perform = None
        self._open.clear()

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Perform one attempt."""
        try:
            await asyncio.wait_for(self._open.wait(), limits.HELD_CALL_GATE_SECONDS)
        except TimeoutError:
            return _no_gate()
        perform = self._perform
        if perform is None:
            return _no_gate()
        await call.confirm()  # it may have waited
        return await perform(call)


def _no_gate() -> ActivityError:
    message = "this process has no open gate, and only a gate reaches graphs; run the workflow on a server"
    return ActivityError(message, "GRAPHS_NEED_GATE", retryable=False)
