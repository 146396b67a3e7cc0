"""The runs in memory: an LRU cache bounded by the number of runs and by the memory they take.

Memory is estimated from the JSON of a run. A megabyte of empty lists takes thirty times as much as Python objects, a
megabyte of text little more than itself, so structure counts as well as bytes. A run is measured again when it has
grown; until then, its growth is counted as if it were pure structure.

Above it: the embedded host. Below it: the engine's state. A run that is evicted here is loaded from the store again.
"""

from __future__ import annotations

from collections import OrderedDict

from penstock.base import limits
from penstock.base.encoding import SafeEncoder
from penstock.engine.state import RunState
from penstock.runtime.ports.host import LiveRun
from penstock.runtime.ports.runs import RunRow

__all__ = ["EndedRuns", "LiveRuns", "MemoryUse", "memory_of"]

# Bytes of memory per byte of JSON if the JSON is pure structure.
_FACTOR_MAX = 32
# A run is measured again when it may have grown by this much.
_GROWTH_BYTES = 1_048_576
_ELEMENT_BYTES = 64
_OBJECT_BYTES = 240
# The fixed cost of a run: its state, its row, its cache entry.
_EVERY_BYTES = 8_192

_encode = SafeEncoder().encode


def memory_of(state: RunState) -> int:
    """Estimate how many bytes of memory a state takes."""
    held = (
        *(state.input, state.values, state.result, state.error, state.owed, state.continuation),
        *(list(state.scopes.values()), state.signals, state.compensations, list(state.children.values())),
    )
    try:
        text = _encode(held)
    except (TypeError, UnicodeEncodeError):
        return _EVERY_BYTES + state.history_bytes * _FACTOR_MAX
    elements = text.count(b",") + text.count(b"[")
    return _EVERY_BYTES + len(text) + _ELEMENT_BYTES * elements + _OBJECT_BYTES * text.count(b"{")


class MemoryUse:
    """Estimates of the memory that each run takes, and their sum."""

    def __init__(self) -> None:
        self.total = 0
        self._measured: dict[str, tuple[int, int]] = {}
        """By run: its memory, and the size of its history at that time."""
        self._counted: dict[str, int] = {}

    def note(self, state: RunState) -> None:
        """Count a run that was loaded or has moved."""
        run_id = state.run_id
        held, at = self._measured.get(run_id, (_EVERY_BYTES, 0))
        grown = (state.history_bytes - at) * _FACTOR_MAX
        if grown > _GROWTH_BYTES or grown < 0:
            held, grown = memory_of(state), 0
            self._measured[run_id] = held, state.history_bytes
        self.total += held + grown - self._counted.get(run_id, 0)
        self._counted[run_id] = held + grown

    def drop(self, run_id: str) -> None:
        """Stop counting a run that was evicted."""
        self._measured.pop(run_id, None)
        self.total -= self._counted.pop(run_id, 0)


class LiveRuns(OrderedDict[str, LiveRun]):
    """Runs by id, least recently used first: a caller that uses one moves it to the end.

    Runs in use are never evicted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.memory = MemoryUse()

    def keep(self, live: LiveRun) -> LiveRun:
        """Add a run and return the one in memory, which differs if it was loaded or started concurrently."""
        known = self.setdefault(live.state.run_id, live)
        self.note(known)
        return known

    def used(self, run_id: str) -> LiveRun | None:
        """Return a run that is used now, if it is in memory."""
        live = self.get(run_id)
        if live is not None:
            self.move_to_end(run_id)
        return live

    def state_at(self, row: RunRow) -> RunState | None:
        """Return the state of a run if it is that of an index row. States that are known are never changed."""
        live = self.get(row.run_id)
        state = None if live is None or live.row.created_at != row.created_at else live.state
        return state if state is not None and (row.seq, row.updated_at) == (state.seq, state.updated_at) else None

    def note(self, live: LiveRun) -> None:
        """Update the memory that a run takes, and evict others if the total is too high."""
        if self.get(live.state.run_id) is live:
            self.memory.note(live.state)
        # Inlines `_are_too_many`, because this runs for every commit.
        if len(self) > limits.LIVE_RUNS_MAX or self.memory.total > limits.LIVE_RUNS_BYTES_MAX:
            self._make_room(live)

    def drop(self, run_id: str) -> None:
        """Remove a run from memory."""
        self.pop(run_id, None)
        self.memory.drop(run_id)

    def _are_too_many(self) -> bool:
        return len(self) > limits.LIVE_RUNS_MAX or self.memory.total > limits.LIVE_RUNS_BYTES_MAX

    def _make_room(self, kept: LiveRun) -> None:
        for item in [item for item in self.values() if not (item.tasks or item.users or item is kept)]:
            self.drop(item.state.run_id)
            if not self._are_too_many():
                return


class EndedRuns(OrderedDict[str, RunState]):
    """The final states of runs that just ended here, oldest first. Their callers usually read them next.

    The history of an ended run takes no more records, but the run can be deleted, by any process. So a state counts
    only together with the index row of now.
    """

    def keep(self, state: RunState) -> None:
        """Remember how a run ended, unless that is large."""
        if state.history_bytes > limits.ENDED_RUN_BYTES_MAX:
            return
        self[state.run_id] = state
        if len(self) > limits.ENDED_RUNS_MAX:
            self.popitem(last=False)

    def still(self, run_id: str, row: RunRow | None) -> RunState | None:
        """Return the state of a run if the row says that it is the stored one; otherwise forget it."""
        state = self.get(run_id)
        if state is not None and row is not None and (row.seq, row.updated_at) == (state.seq, state.updated_at):
            return state
        self.pop(run_id, None)
        return None
