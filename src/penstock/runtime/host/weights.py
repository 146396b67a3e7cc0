"""How much memory the runs in memory take, estimated from what they hold as JSON.

A megabyte of empty lists takes thirty times as much as Python objects, a megabyte of text little more than itself; so
what counts is structure as well as bytes. A run is weighed when it has grown; until then what was added counts as if it
were nothing but structure.

Above it: the embedded host, which forgets runs when they weigh too much together. Below it: the engine's state.
"""

from __future__ import annotations

import msgspec

from penstock.engine.state import RunState

__all__ = ["RunWeights", "weight_of"]

# Bytes of memory per byte of JSON, where that is nothing but structure.
_FACTOR_MAX = 32
# A run is weighed again when it may have grown by this much.
_GROWTH_BYTES = 1_048_576
_ELEMENT_BYTES = 64
_OBJECT_BYTES = 240
# What every run takes: its state, its row, its place.
_EVERY_BYTES = 8_192

_encode = msgspec.json.Encoder().encode


def weight_of(state: RunState) -> int:
    """About how many bytes of memory a state takes."""
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


class RunWeights:
    """The weights of runs, and their sum."""

    def __init__(self) -> None:
        self.total = 0
        self._weighed: dict[str, tuple[int, int]] = {}
        """By run: what it weighed, and the length of its history then."""
        self._counted: dict[str, int] = {}

    def note(self, state: RunState) -> None:
        """A run is in memory, or has moved on."""
        run_id = state.run_id
        weight, at = self._weighed.get(run_id, (_EVERY_BYTES, 0))
        grown = (state.history_bytes - at) * _FACTOR_MAX
        if grown > _GROWTH_BYTES or grown < 0:
            weight, grown = weight_of(state), 0
            self._weighed[run_id] = weight, state.history_bytes
        self.total += weight + grown - self._counted.get(run_id, 0)
        self._counted[run_id] = weight + grown

    def drop(self, run_id: str) -> None:
        """A run is no longer in memory."""
        self._weighed.pop(run_id, None)
        self.total -= self._counted.pop(run_id, 0)
