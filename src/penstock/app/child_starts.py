"""Starts child runs through a gate, once one is open.

In a process whose starts are governed, a run may be ready to start a child before the gate is open, after a restart.
Its start waits for the gate: it must not slip past the policies. In a program that embeds Penstock and has no gate,
children start at once; with one, they go through it while it is open.

Above it: `Penstock`. Below it: `operations.executions.child_starts`, given by `app.gate`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from penstock.base import limits
from penstock.base.errors import Unavailable
from penstock.engine.effects import StartChild
from penstock.engine.outcomes import Refused
from penstock.runtime.child_starts import ChildStarted, ChildStarter
from penstock.runtime.ports.host import RunSnapshot

__all__ = ["GovernedChildStarts"]


@dataclass(slots=True, kw_only=True)
class GovernedChildStarts:
    """How runs start their children. `governed`: only through a gate."""

    governed: bool = False
    _starter: ChildStarter | None = None
    _open: asyncio.Event = field(default_factory=asyncio.Event)

    def attach(self, starter: ChildStarter) -> None:
        """Start children through this gate from now on."""
        self._starter = starter
        self._open.set()

    def detach(self) -> None:
        """The gate is closed."""
        self._starter = None
        self._open.clear()

    async def start(self, run: RunSnapshot, effect: StartChild) -> Refused | ChildStarted | None:
        """Start a child through the gate; None if the host may start it."""
        if self._starter is None and self.governed:
            try:
                await asyncio.wait_for(self._open.wait(), limits.HELD_CALL_GATE_SECONDS)
            except TimeoutError:
                message = f"the child run {effect.child_id} waits for a process that may start it"
                raise Unavailable("GATE_CLOSED", message, "start `penstock serve` on this store") from None
        starter = self._starter
        return None if starter is None else await starter(run, effect)
