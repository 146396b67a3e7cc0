"""The child runs of a run, and theirs, for a caller that waits for it: their questions are reported, too.

Above it: `results`, `following`. Below it: the host port. The number of children that are watched is bounded.
"""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, field

from penstock.base import limits
from penstock.engine.state import RunState
from penstock.runtime.ports.host import Moved, RunReader
from penstock.runtime.ports.run_memory import RunMemory

__all__ = ["ChildRunWatcher", "ChildRuns"]


@dataclass(frozen=True, slots=True)
class ChildRuns:
    """The children that have not ended, what to wait for to see them move, and whether any has moved since."""

    states: tuple[RunState, ...] = ()
    waits: tuple[Moved, ...] = ()
    moved: bool = False


@dataclass(slots=True)
class ChildRunWatcher:
    """Watches the children of one run, and remembers how far each was seen."""

    host: RunReader
    memory: RunMemory
    _seen: dict[str, int] = field(default_factory=dict)

    async def look(self, state: RunState, watching: ExitStack) -> ChildRuns:
        """Read every child; the watches stay open for as long as `watching` does."""
        states: list[RunState] = []
        waits: list[Moved] = []
        moved = False
        names = deque(_children(state))
        while names and len(waits) < limits.CHILDREN_WATCHED_MAX:
            name = await self.host.newest(names.popleft())
            seen = self._seen.get(name, 0)
            waits.append(watching.enter_context(self.host.watched(name, after_seq=seen)))
            child = await self.memory.watched_state(name)
            if child is None:
                continue
            self._seen[name] = child.seq
            moved = moved or child.seq > seen
            if not child.terminal:
                states.append(child)
                names.extend(_children(child))
        return ChildRuns(tuple(states), tuple(waits), moved)


def _children(state: RunState) -> list[str]:
    return [child.child_id for child in state.children.values() if not child.abandoned]
