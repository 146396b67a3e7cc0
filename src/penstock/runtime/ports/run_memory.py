"""The port of what a process has in memory of runs: shortcuts that save reads of the store.

A host whose runs are in this process has them. Any other host answers all that its port asks without them, and
`NoRunMemory` stands in.

Above it: operations and deliveries that run often. Below it: the host port.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from penstock.base import limits
from penstock.engine.pages import Move, Page, records_of
from penstock.engine.records import Record
from penstock.engine.state import RunState
from penstock.runtime.ports.host import RunReader
from penstock.runtime.ports.runs import RunRow, StoredRun

__all__ = ["NoRunMemory", "RunMemory", "Transcript"]


class Transcript:
    """The pages of one run from its first record on, as far as this process stored them, up to a limit."""

    __slots__ = ("_pages", "_row", "_seq")

    def __init__(self) -> None:
        self._pages: list[Page] = []
        self._row: RunRow | None = None
        self._seq = 0

    def take(self, page: Page, row: RunRow) -> None:
        """Add what was stored; `row` is the run's row after it."""
        first, last = _range(page)
        if first != self._seq + 1 or last > limits.FOLDED_AT_ONCE:
            self._pages, self._row, self._seq = [], None, limits.FOLDED_AT_ONCE
            return
        self._pages.append(page)
        self._row, self._seq = row, last

    def stored(self, seq: int) -> StoredRun | None:
        """Return the run with its whole history up to a record, or None if this process did not store all of it."""
        if self._row is None or self._seq != seq:
            return None
        records: list[Record] = []
        for page in self._pages:
            records += records_of(page)
        return StoredRun(self._row, tuple(records))


def _range(page: Page) -> tuple[int, int]:
    if isinstance(page, Move):
        return page.first_seq, page.last_seq
    return (page[0].seq, page[-1].seq) if page else (0, 0)


class RunMemory(Protocol):
    """Runs as far as this process has them in memory."""

    def known_state(self, row: RunRow) -> RunState | None:
        """Return the state of a run if it is in memory as an index row of now says; nothing is read."""

    async def watched_state(self, run_id: str) -> RunState | None:
        """Return the state of a run for watchers; a commit in progress may be missing from it."""

    def transcribed(self, run_id: str) -> AbstractContextManager[Transcript]:
        """Collect what this process stores of a run: for callers about to start it and wait for its end.

        If the transcript is incomplete, they read the history.
        """

    async def next_commit(self, *, timeout_seconds: float) -> None:
        """Wait for any commit of this process, or until the timeout."""


@dataclass(frozen=True, slots=True)
class NoRunMemory:
    """The memory of a process whose host is elsewhere."""

    host: RunReader

    def known_state(self, row: RunRow) -> RunState | None:
        """Return None: nothing is in memory."""
        return None

    async def watched_state(self, run_id: str) -> RunState | None:
        """Return the state as stored."""
        return await self.host.read(run_id)

    def transcribed(self, run_id: str) -> AbstractContextManager[Transcript]:
        """Return a transcript that stays empty."""
        return nullcontext(Transcript())

    async def next_commit(self, *, timeout_seconds: float) -> None:
        """Wait until the timeout: commits are made elsewhere."""
        await asyncio.sleep(timeout_seconds)
