"""Wait for runs to move: any number of waiters, one poll of the store for all of them.

A commit of this process wakes its waiters at once. Commits of other processes are found by polling the sequence numbers
of the awaited runs, all in one read. The more runs are awaited, the longer the pause between two polls, so that
thousands of idle waiters cost next to nothing. Without waiters there is no polling. A run that this process moved since
the last poll is skipped: its commit was decided on everything that others had stored.

Above it: a host. Below it: the store's `positions`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import TracebackType

import msgspec

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.engine.state import RunState
from penstock.runtime.ports.host import Committed, Moved, Wanted
from penstock.runtime.ports.run_memory import Transcript
from penstock.runtime.ports.runs import RunPosition
from penstock.runtime.shared_timeouts import moved_within
from penstock.runtime.tables.runs.store import RunStore

__all__ = ["RunWatch", "Transcripts"]


def _anything(state: RunState) -> bool:
    return True


class _Awaited(msgspec.Struct, frozen=True):
    """What a waiter waits for: a move past a sequence number, or the end; `wanted` filters the states stored here."""

    after_seq: int | None
    wanted: Wanted

    def is_met_by(self, run: RunState | RunPosition) -> bool:
        return run.terminal or (self.after_seq is not None and run.seq > self.after_seq)


class _Watched:
    """The waiters of one run, and whether this process moved it since the last poll."""

    __slots__ = ("moved_here", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[Moved, _Awaited] = {}
        self.moved_here = False


@dataclass(slots=True, kw_only=True)
class RunWatch:
    """The waiters of all runs."""

    store: RunStore
    _watched: dict[str, _Watched] = field(default_factory=dict)
    _for_any: set[Moved] = field(default_factory=set)
    """Waiters for a commit of any run."""
    _polling: asyncio.Task[None] | None = None
    _stopped: bool = False

    def entered(
        self, run_id: str, *, after_seq: int | None, wanted: Wanted = _anything
    ) -> AbstractContextManager[Moved]:
        """Wait for a run to pass a sequence number, or to end if no number is given.

        Inside, check whether it already has.

        A state that is stored here and is not `wanted` does not wake the waiter.
        """
        return _Entered(self, run_id, _Awaited(after_seq, wanted))

    def enter(self, run_id: str, awaited: _Awaited) -> Moved:
        """Begin to wait; the caller must call `leave`."""
        moved: Moved = asyncio.get_running_loop().create_future()
        watched = self._watched.get(run_id)
        if watched is None:
            watched = self._watched[run_id] = _Watched()
        watched.waiting[moved] = awaited
        if self._stopped and awaited.after_seq is None:
            moved.set_result(None)
        if self._polling is None:
            self._polling = asyncio.ensure_future(self._poll())
        return moved

    def leave(self, run_id: str, moved: Moved) -> None:
        """Stop waiting."""
        watched = self._watched.get(run_id)
        if watched is not None:
            watched.waiting.pop(moved, None)
            if not watched.waiting:
                del self._watched[run_id]

    def stop_waiting(self) -> None:
        """End all waits for the end of a run: waiters return with the current state."""
        self._stopped = True
        for watched in self._watched.values():
            for moved, awaited in watched.waiting.items():
                if awaited.after_seq is None and not moved.done():
                    moved.set_result(None)

    async def next_commit(self, *, timeout_seconds: float) -> None:
        """Wait for any commit of this process, or until the timeout."""
        moved: Moved = asyncio.get_running_loop().create_future()
        self._for_any.add(moved)
        try:
            await moved_within(moved, timeout_seconds)
        finally:
            self._for_any.discard(moved)

    def committed(self, state: RunState) -> None:
        """Wake the waiters of a commit that was just stored here."""
        watched = self._watched.get(state.run_id)
        if watched is not None:
            watched.moved_here = True
            is_over, seq = state.terminal, state.seq
            for moved, awaited in watched.waiting.items():
                # Inlines `is_met_by`, because this runs for every commit of every awaited run.
                after = awaited.after_seq
                if (is_over or (after is not None and seq > after)) and not moved.done() and awaited.wanted(state):
                    moved.set_result(state)
        for moved in self._for_any:
            if not moved.done():
                moved.set_result(state)

    async def _poll(self) -> None:
        """Poll for commits of other processes while there are waiters."""
        try:
            while True:
                known = len(self._watched)
                await asyncio.sleep(max(limits.FOREIGN_CHANGE_POLL_SECONDS, known / limits.WATCHED_RUNS_PER_SECOND))
                if not self._watched:
                    return
                wanted = self._unmoved()
                for first in range(0, len(wanted), limits.WATCHED_RUNS_PER_READ):
                    await self._poll_runs(wanted[first : first + limits.WATCHED_RUNS_PER_READ])
        finally:
            self._polling = None

    def _unmoved(self) -> list[str]:
        """Return the runs that this process did not move since the last call."""
        unmoved = []
        for run_id, watched in self._watched.items():
            if not watched.moved_here:
                unmoved.append(run_id)
            watched.moved_here = False
        return unmoved

    async def _poll_runs(self, run_ids: list[str]) -> None:
        try:
            positions = await self.store.positions(run_ids)
        except PenstockError:
            return  # the store may recover by the next poll; every waiter has a timeout
        for run_id in run_ids:
            position, watched = positions.get(run_id), self._watched.get(run_id)
            for moved, awaited in watched.waiting.items() if watched is not None else ():
                if not moved.done() and (position is None or awaited.is_met_by(position)):
                    moved.set_result(None)


class _Entered(AbstractContextManager["Moved"]):
    """One waiter, for the duration of a block."""

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


class Transcripts:
    """The transcripts in progress, by run."""

    def __init__(self) -> None:
        self.taken: dict[str, list[Transcript]] = {}

    @contextmanager
    def of(self, run_id: str) -> Iterator[Transcript]:
        """Take a transcript for the duration of the block."""
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
        """Add a commit that was just stored here to the transcripts of its run."""
        if self.taken:
            for transcript in self.taken.get(committed.live.state.run_id, ()):
                transcript.take(committed.page, committed.live.row)
