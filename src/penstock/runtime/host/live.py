"""A run as a host has it in memory, and what it tells of a commit: the values that a host and its driver share.

Above it: hosts make these, the driver dispatches by them, observers read them. Below it: the engine's state, the index
row. Nothing here does anything.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from penstock.definitions.model import Workflow
from penstock.engine.effects import Effect
from penstock.engine.inputs import Input
from penstock.engine.pages import Move, Page, names_of, records_of
from penstock.engine.records import Record
from penstock.engine.state import RunState
from penstock.runtime.ports.runs import RunRow
from penstock.runtime.semaphores import Turnstile

__all__ = ["Committed", "LiveRun", "RunSnapshot"]


class RunSnapshot(Protocol):
    """A run as it is stored: what may be known of it by whoever performs an effect of it, on any host."""

    @property
    def workflow(self) -> Workflow:
        """The definition that the run is pinned to."""

    @property
    def state(self) -> RunState:
        """What its history amounts to."""

    @property
    def row(self) -> RunRow:
        """How it stands in the index."""


@dataclass(slots=True, eq=False)
class LiveRun:
    """A run in memory: its state as stored, which the host keeps current, and who is busy with it."""

    workflow: Workflow
    state: RunState
    row: RunRow
    lock: Turnstile = field(default_factory=Turnstile)  # one transition at a time
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    deferred: set[str] = field(default_factory=set)  # effects done here whose outcome comes from elsewhere
    finished: set[str] = field(default_factory=set)  # effects of an ended run that need not be done again
    users: int = 0


class Committed(msgspec.Struct, frozen=True):
    """What was just stored, for whoever dispatches, watches or counts."""

    live: LiveRun
    page: Page
    effects: tuple[Effect, ...]
    given: Input | None = None
    """What led to it. Where it is the very object that was sent, the driver spares a task; a copy does as well."""

    @property
    def records(self) -> tuple[Record, ...]:
        """The records that were stored."""
        return records_of(self.page)

    def record(self, number: int) -> Record:
        """One of them, counted from 0; the others of a move are not made for that."""
        return self.page.record(number) if isinstance(self.page, Move) else self.page[number]

    def seq(self, number: int) -> int:
        """The sequence number of one of them, which is not made for that."""
        return self.page.first_seq + number if isinstance(self.page, Move) else self.page[number].seq

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the records, which are not made for that."""
        return names_of(self.page)
