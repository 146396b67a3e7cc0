"""From a history to a state, without keeping everybody else waiting: long histories are folded slice by slice.

However many long histories are asked for at once, one slice is folded between two turns of the event loop.

Above it: the embedded host, views of executions. Below it: the engine's `evolve`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.base import limits
from penstock.engine.folding.evolve import apply, fold
from penstock.engine.records import Record
from penstock.engine.state import RunState

__all__ = ["Folding"]


class Folding:
    """Folds histories for one event loop."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def fold(self, records: Sequence[Record]) -> RunState:
        """The state that a history leads to."""
        size = limits.FOLDED_AT_ONCE
        if len(records) <= size:
            return fold(records)
        state = RunState()
        for first in range(0, len(records), size):
            async with self._turn:
                for record in records[first : first + size]:
                    apply(state, record)
                # The lock is handed on only after everybody else had a turn.
                await asyncio.sleep(0)
        return state
