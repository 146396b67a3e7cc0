"""Lets a gate decide what `http`, `llm_call` and `agent_delegate` nodes reach, once one is open, and record what they
withdraw.

The executors of these nodes ask directly before each effect (`ActivityCall.refusal`). In a process whose runs are
governed, a node may be due before the gate is open, after a restart; it waits for that. So does a node of a run that
people approved, in every process. In a program that embeds Penstock and has no gate, nothing else is asked.

Above it: `Penstock`. Below it: `operations.executions.node_permissions`, given by `app.gate`; the executors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec.structs import replace

from penstock.base import limits
from penstock.operations.runs.actions.nodes import NODE_ACTIONS
from penstock.runtime.activities.performing import (
    ActivityCall,
    ActivityError,
    ActivityOutcome,
    AsyncPerformer,
    NodeAction,
    NodePolicy,
    Withdrawn,
)

__all__ = ["CheckApproved", "GovernedNodes"]

CheckApproved: TypeAlias = Callable[[ActivityCall], Awaitable[ActivityError | None]]
"""Says what a node of an approved run reaches that is not as it was approved; None if nothing."""

# The types of nodes that reach nothing that is stored by its name.
_REACH_NOTHING = frozenset({"step", "http"})


@dataclass(slots=True, kw_only=True)
class GovernedNodes:
    """Decides what nodes reach. `governed`: nothing is reached before a gate is open."""

    governed: bool = False
    _decide: NodePolicy | None = None
    _withdrawn: Withdrawn | None = None
    _unapproved: CheckApproved | None = None
    _open: asyncio.Event = field(default_factory=asyncio.Event)

    def attach(self, decide: NodePolicy, withdrawn: Withdrawn, unapproved: CheckApproved | None = None) -> None:
        """Let this gate decide and record from now on."""
        self._decide, self._withdrawn, self._unapproved = decide, withdrawn, unapproved
        self._open.set()

    def detach(self) -> None:
        """The gate is closed."""
        self._decide = self._withdrawn = self._unapproved = None
        self._open.clear()

    def governing(self, executors: Mapping[str, AsyncPerformer]) -> dict[str, AsyncPerformer]:
        """Return executors that ask here, by the type of their nodes."""
        governed = {
            name: _Governed(inner, self) if name in NODE_ACTIONS else inner for name, inner in executors.items()
        }
        return {name: inner if name in _REACH_NOTHING else _Approved(inner, self) for name, inner in governed.items()}

    async def unapproved(self, call: ActivityCall) -> ActivityError | None:
        """Return what an attempt of an approved run reaches that is not as it was approved; None if nothing."""
        if not await self._is_open(required=True) or self._unapproved is None:
            return ActivityError("this process has no open gate, which the approved run needs", "GATE_CLOSED")
        refused = await self._unapproved(call)
        await call.confirm()  # it may have waited
        return refused

    async def decide(self, call: ActivityCall, action: NodeAction) -> ActivityError | None:
        """Return why an attempt may not do something; None if it may, or if there is no gate to ask."""
        if not await self._is_open():
            return ActivityError("this process has no open gate to decide about the node", "GATE_CLOSED")
        refused = None if self._decide is None else await self._decide(call, action)
        await call.confirm()  # it may have waited
        return refused

    async def withdrawn(self, call: ActivityCall, outcome: ActivityOutcome) -> None:
        """Record the outcome of a withdrawal by an attempt, if a gate is open."""
        if await self._is_open() and self._withdrawn is not None:
            await self._withdrawn(call, outcome)

    async def _is_open(self, *, required: bool = False) -> bool:
        """Wait until a gate is open, where there has to be one; return whether it is, or need not be."""
        if self._decide is None and (required or self.governed):
            try:
                await asyncio.wait_for(self._open.wait(), limits.HELD_CALL_GATE_SECONDS)
            except TimeoutError:
                return False
        return True


@dataclass(frozen=True, slots=True)
class _Approved:
    """An executor whose attempts, in runs that people approved, reach only what was approved."""

    inner: AsyncPerformer
    nodes: GovernedNodes

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Perform one attempt."""
        if call.approved is not None and not call.withdraws:
            refused = await self.nodes.unapproved(call)
            if refused is not None:
                return refused
        return await self.inner.perform(call)


@dataclass(frozen=True, slots=True)
class _Governed:
    """An executor whose attempts know whom to ask."""

    inner: AsyncPerformer
    nodes: GovernedNodes

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Perform one attempt."""
        outcome = await self.inner.perform(replace(call, policy=self.nodes.decide))
        if call.withdraws:
            await self.nodes.withdrawn(call, outcome)
        return outcome
