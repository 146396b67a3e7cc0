"""Waiting for runs to move: any number of waiters, one look at the store for all of them.

What this process commits wakes its waiters at once. What other processes commit is found by looking at the sequence
numbers of the runs that are waited for, all in one read; the more runs there are, the longer the pause between two
looks, so that thousands of idle waiters cost next to nothing. Nobody waits, nobody looks; and nobody looks at a run
that was moved here since the last look, because what was stored here was decided on everything that others had stored.

Above it: a host. Below it: the store's `positions`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from math import ceil
from types import TracebackType
from weakref import WeakKeyDictionary

import msgspec

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.engine.state import RunState
from penstock.runtime.ports.host import Committed, Moved, Transcript, Wanted
from penstock.runtime.ports.runs import RunPosition, StoredRunReader

__all__ = ["RunWatch", "Transcripts", "moved_within"]

# Who waits for shorter has a timer of their own, to the millisecond; for others a quarter of a second is nothing.
_SHARED_SECONDS_MIN, _SHARED_TICK_SECONDS = 5.0, 0.25
_TICKS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, set[Moved]]] = WeakKeyDictionary()


def _anything(state: RunState) -> bool:
    return True


class _Awaited(msgspec.Struct, frozen=True):
    """What somebody waits for: a move past a sequence number, or the end; and of states stored here, only some."""

    after_seq: int | None
    wanted: Wanted

    def is_met_by(self, run: RunState | RunPosition) -> bool:
        return run.terminal or (self.after_seq is not None and run.seq > self.after_seq)


class _Watched:
    """Those who wait for one run, and whether it was moved here since the last look at it."""

    __slots__ = ("moved_here", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[Moved, _Awaited] = {}
        self.moved_here = False


@dataclass(slots=True, kw_only=True)
class RunWatch:
    """Who waits for which run."""

    store: StoredRunReader
    _watched: dict[str, _Watched] = field(default_factory=dict)
    _for_any: set[Moved] = field(default_factory=set)
    """Waiters for a commit of any run."""
    _looking: asyncio.Task[None] | None = None
    _no_patience: bool = False

    def entered(
        self, run_id: str, *, after_seq: int | None, wanted: Wanted = _anything
    ) -> AbstractContextManager[Moved]:
        """Wait for a run to pass a sequence number, or to end if there is none; inside, look whether it has already.

        A state that is stored here and is not `wanted` wakes nobody.
        """
        return _Entered(self, run_id, _Awaited(after_seq, wanted))

    def enter(self, run_id: str, awaited: _Awaited) -> Moved:
        """Begin to wait; whoever does must `leave`."""
        moved: Moved = asyncio.get_running_loop().create_future()
        watched = self._watched.get(run_id)
        if watched is None:
            watched = self._watched[run_id] = _Watched()
        watched.waiting[moved] = awaited
        if self._no_patience and awaited.after_seq is None:
            moved.set_result(None)
        if self._looking is None:
            self._looking = asyncio.ensure_future(self._look())
        return moved

    def leave(self, run_id: str, moved: Moved) -> None:
        """Wait no longer."""
        watched = self._watched.get(run_id)
        if watched is not None:
            watched.waiting.pop(moved, None)
            if not watched.waiting:
                del self._watched[run_id]

    def stop_waiting(self) -> None:
        """Let nobody wait for the end of a run any more: waiters return with what there is now."""
        self._no_patience = True
        for watched in self._watched.values():
            for moved, awaited in watched.waiting.items():
                if awaited.after_seq is None and not moved.done():
                    moved.set_result(None)

    async def next_commit(self, *, timeout_seconds: float) -> None:
        """Wait for any commit here, or until time is up."""
        moved: Moved = asyncio.get_running_loop().create_future()
        self._for_any.add(moved)
        try:
            await moved_within(moved, timeout_seconds)
        finally:
            self._for_any.discard(moved)

    def committed(self, state: RunState) -> None:
        """Wake those who wait for what was just stored here."""
        watched = self._watched.get(state.run_id)
        if watched is not None:
            watched.moved_here = True
            is_over, seq = state.terminal, state.seq
            for moved, awaited in watched.waiting.items():
                # As `is_met_by`, which would be called for every commit of every run that is waited for.
                after = awaited.after_seq
                if (is_over or (after is not None and seq > after)) and not moved.done() and awaited.wanted(state):
                    moved.set_result(state)
        for moved in self._for_any:
            if not moved.done():
                moved.set_result(state)

    async def _look(self) -> None:
        """Find what other processes stored, for as long as anybody waits."""
        try:
            while True:
                known = len(self._watched)
                await asyncio.sleep(max(limits.FOREIGN_CHANGE_POLL_SECONDS, known / limits.WATCHED_RUNS_PER_SECOND))
                if not self._watched:
                    return
                wanted = self._unmoved()
                for first in range(0, len(wanted), limits.WATCHED_RUNS_PER_READ):
                    await self._look_at(wanted[first : first + limits.WATCHED_RUNS_PER_READ])
        finally:
            self._looking = None

    def _unmoved(self) -> list[str]:
        """The runs that were not moved here since this was asked last."""
        unmoved = []
        for run_id, watched in self._watched.items():
            if not watched.moved_here:
                unmoved.append(run_id)
            watched.moved_here = False
        return unmoved

    async def _look_at(self, run_ids: list[str]) -> None:
        try:
            positions = await self.store.positions(run_ids)
        except PenstockError:
            return  # the store may be back at the next look; who waits has a time limit
        for run_id in run_ids:
            position, watched = positions.get(run_id), self._watched.get(run_id)
            for moved, awaited in watched.waiting.items() if watched is not None else ():
                if not moved.done() and (position is None or awaited.is_met_by(position)):
                    moved.set_result(None)


class _Entered(AbstractContextManager["Moved"]):
    """Somebody who waits, for as long as a block lasts."""

    __slots__ = ("_awaited", "_moved", "_run_id", "_watch")

    def __init__(self, watch: RunWatch, run_id: str, awaited: _Awaited) -> None:
        self._watch = watch
        self._run_id = run_id
        self._awaited = awaited

    def __enter__(self) -> Moved:
        self._moved = self._watch.enter(self._run_id, self._awaited)
        return self._moved

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._watch.leave(self._run_id, self._moved)


async def moved_within(moved: Moved, timeout_seconds: float) -> None:
    """Wait until a run has moved, or until time is up; cheaper than `asyncio.wait` by two turns of the loop.

    Waits rarely run out of time, and a timer for each would cost more than everything else. So long waits share a
    timer with others that end at about the same time, and may last up to `_SHARED_TICK_SECONDS` longer.
    """
    loop = asyncio.get_running_loop()
    if timeout_seconds < _SHARED_SECONDS_MIN:
        timer = loop.call_later(max(timeout_seconds, 0), _give_up, (moved,))
        try:
            await moved
        finally:
            timer.cancel()
        return
    waiting = _those_until(loop, ceil((loop.time() + timeout_seconds) / _SHARED_TICK_SECONDS))
    waiting.add(moved)
    try:
        await moved
    finally:
        waiting.discard(moved)


def _those_until(loop: asyncio.AbstractEventLoop, tick: int) -> set[Moved]:
    """Those for whom time is up at a tick of a loop's clock."""
    ticks = _TICKS.get(loop)
    if ticks is None:
        ticks = _TICKS[loop] = {}
    waiting = ticks.get(tick)
    if waiting is None:
        waiting = ticks[tick] = set()
        loop.call_at(tick * _SHARED_TICK_SECONDS, _time_is_up, ticks, tick)
    return waiting


def _time_is_up(ticks: dict[int, set[Moved]], tick: int) -> None:
    _give_up(tuple(ticks.pop(tick)))


def _give_up(waiting: Iterable[Moved]) -> None:
    for moved in waiting:
        if not moved.done():
            moved.set_result(None)


class Transcripts:
    """The transcripts that are being taken, by run."""

    def __init__(self) -> None:
        self.taken: dict[str, list[Transcript]] = {}

    @contextmanager
    def of(self, run_id: str) -> Iterator[Transcript]:
        """Take one while the block lasts."""
        transcript = Transcript()
        taken = self.taken.setdefault(run_id, [])
        taken.append(transcript)
        try:
            yield transcript
        finally:
            taken.remove(transcript)
            if not taken and self.taken.get(run_id) is taken:
                del self.taken[run_id]

    def committed(self, committed: Committed) -> None:
        """Note what was just stored here."""
        if self.taken:
            for transcript in self.taken.get(committed.live.state.run_id, ()):
                transcript.take(committed.page, committed.live.row)
