"""What this process stores of a run while somebody waits for it: they need not read it again.

A transcript begins before the run is started, or it is of no use: whoever wants the whole history of a run that began
earlier, or that another process moved meanwhile, reads it from the store.

Above it: `EmbeddedHost`, operations that start a run and wait for its end. Below it: pages of records.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.base import limits
from penstock.engine.pages import Move, Page, records_of
from penstock.engine.records import Record
from penstock.runtime.host.live import Committed
from penstock.runtime.ports.runs import RunRow, StoredRun

__all__ = ["Transcript", "Transcripts"]


class Transcript:
    """The pages of one run from its first record on, as far as they were stored here, and a bounded number of them."""

    __slots__ = ("_pages", "_row", "_seq")

    def __init__(self) -> None:
        self._pages: list[Page] = []
        self._row: RunRow | None = None
        self._seq = 0

    def take(self, page: Page, row: RunRow) -> None:
        """Note what was stored; `row` is how the run stands since."""
        first, last = _range(page)
        if first != self._seq + 1 or last > limits.FOLDED_AT_ONCE:
            self._pages, self._row, self._seq = [], None, limits.FOLDED_AT_ONCE
            return
        self._pages.append(page)
        self._row, self._seq = row, last

    def stored(self, seq: int) -> StoredRun | None:
        """The run with its whole history up to a record; None if not all of that is here."""
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


class Transcripts:
    """Those that are being taken."""

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
