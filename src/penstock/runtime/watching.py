"""Waiting for runs to move: any number of waiters, one look at the store for all of them.

What this process commits wakes its waiters at once. What other processes commit is found by looking at the sequence
numbers of the runs that are waited for, all in one read; the more runs there are, the longer the pause between two
looks, so that thousands of idle waiters cost next to nothing. Nobody waits, nobody looks.

Above it: a host. Below it: the store's `positions`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.engine.state import RunState
from penstock.runtime.ports import RunPosition, StoredRunReader

__all__ = ["Moved", "RunWatch", "Wanted", "moved_within"]

Moved: TypeAlias = "asyncio.Future[RunState | None]"
"""Done when a run has moved: with its state if that was here, with None if it was elsewhere or the run is gone."""

# Waiters for a commit of any run stand under this name, which no run has.
_ANY_RUN = ""


Wanted: TypeAlias = "Callable[[RunState], bool]"


def _anything(state: RunState) -> bool:
    return True


class _Awaited(msgspec.Struct, frozen=True):
    """What somebody waits for: a move past a sequence number, or the end; and of states stored here, only some."""

    after_seq: int | None
    wanted: Wanted


_NOBODY: Mapping[Moved, _Awaited] = MappingProxyType({})


@dataclass(slots=True, kw_only=True)
class RunWatch:
    """Who waits for which run."""

    store: StoredRunReader
    _waiting: dict[str, dict[Moved, _Awaited]] = field(default_factory=dict)
    _looking: asyncio.Task[None] | None = None
    _no_patience: bool = False

    @contextmanager
    def entered(self, run_id: str, *, after_seq: int | None, wanted: Wanted = _anything) -> Iterator[Moved]:
        """Wait for a run to pass a sequence number, or to end if there is none; inside, look whether it has already.

        A state that is stored here and is not `wanted` wakes nobody.
        """
        moved: Moved = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(run_id, {})
        waiting[moved] = _Awaited(after_seq, wanted)
        if self._no_patience and after_seq is None:
            moved.set_result(None)
        if self._looking is None and run_id != _ANY_RUN:
            self._looking = asyncio.ensure_future(self._look())
        try:
            yield moved
        finally:
            waiting.pop(moved, None)
            if not waiting and self._waiting.get(run_id) is waiting:
                del self._waiting[run_id]

    def stop_waiting(self) -> None:
        """Let nobody wait for the end of a run any more: who does is told what there is now."""
        self._no_patience = True
        for waiting in self._waiting.values():
            for moved, awaited in waiting.items():
                if awaited.after_seq is None and not moved.done():
                    moved.set_result(None)

    async def next_commit(self, *, timeout_seconds: float) -> None:
        """Wait for any commit here, or until time is up."""
        with self.entered(_ANY_RUN, after_seq=0) as moved:
            await asyncio.wait((moved,), timeout=timeout_seconds)

    def committed(self, state: RunState) -> None:
        """Wake those who wait for what was just stored here."""
        if not self._waiting:
            return
        for moved, awaited in self._waiting.get(state.run_id, _NOBODY).items():
            if _has_moved(state, awaited.after_seq) and not moved.done() and awaited.wanted(state):
                moved.set_result(state)
        for moved in self._waiting.get(_ANY_RUN, ()):
            if not moved.done():
                moved.set_result(state)

    async def _look(self) -> None:
        """Find what other processes stored, for as long as anybody waits."""
        try:
            while True:
                known = len(self._waiting)
                await asyncio.sleep(max(limits.FOREIGN_CHANGE_POLL_SECONDS, known / limits.WATCHED_RUNS_PER_SECOND))
                wanted = [run_id for run_id in self._waiting if run_id != _ANY_RUN]
                if not wanted:
                    return
                for first in range(0, len(wanted), limits.WATCHED_RUNS_PER_READ):
                    await self._look_at(wanted[first : first + limits.WATCHED_RUNS_PER_READ])
        finally:
            self._looking = None

    async def _look_at(self, run_ids: list[str]) -> None:
        try:
            positions = await self.store.positions(run_ids)
        except PenstockError:
            return  # the store may be back at the next look; who waits has a time limit
        for run_id in run_ids:
            position = positions.get(run_id)
            for moved, awaited in self._waiting.get(run_id, {}).items():
                if not moved.done() and (position is None or _has_moved(position, awaited.after_seq)):
                    moved.set_result(None)


async def moved_within(moved: Moved, timeout_seconds: float) -> None:
    """Wait until a run has moved, or until time is up; one future less and two turns of the loop less than `wait`."""
    timer = asyncio.get_running_loop().call_later(max(timeout_seconds, 0), _give_up, moved)
    try:
        await moved
    finally:
        timer.cancel()


def _give_up(moved: Moved) -> None:
    if not moved.done():
        moved.set_result(None)


def _has_moved(run: RunState | RunPosition, after_seq: int | None) -> bool:
    return run.terminal or (after_seq is not None and run.seq > after_seq)
