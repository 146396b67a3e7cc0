"""What only the driver of a database can do with runs: search their texts, and list changes in the order of commits.

Above it: `runtime.tables.runs`. Below it: drivers in `runtime.stores`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from penstock.runtime.ports.runs import ChangePage
from penstock.runtime.ports.transactions import Reader, Transaction

__all__ = ["FoundRuns", "RunIndex", "RunText"]


# Made for every run: a struct costs a fraction of a frozen dataclass.
class RunText(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The texts of a run that a search looks at. They never change."""

    tenant: str
    run_id: str
    workflow_name: str
    label_values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRuns:
    """How SQL finds the runs of a search, and checks a run that was found by something else."""

    tables: str
    """What to select from: the index, joined with `runs`."""
    key: str
    """The column of the index that has the keys of runs."""
    condition: str
    values: tuple[object, ...]
    check: str
    """A condition on a row of `runs`. It must hold for runs that the index found, too."""
    check_values: tuple[object, ...]


class RunIndex(Protocol):
    """The index of texts, and the order of commits."""

    def add(self, transaction: Transaction, key: int, text: RunText) -> None:
        """Make a run findable by its text."""

    def forget(self, transaction: Transaction, key: int, text: RunText) -> None:
        """Remove a run from the index. The text must be the one that was added."""

    def find(self, reader: Reader, text: str, words: Sequence[str]) -> FoundRuns:
        """Return how to find the runs that have all words of a text."""

    def read_changes(self, reader: Reader, *, after: str | None, since: int, limit: int) -> ChangePage:
        """Return what any process stored after a position, in that order, without deleted runs.

        Without a position, or with one that cannot be continued (the store was restored, or the row at the position was
        deleted): everything from a short while before the time `since` on. Then some of it may come again.
        """
