"""The timeline of an execution, as callers see it: visits along time, what was decided, and what is undecided.

Above it: `pictures`, which makes it; surfaces. Below it: `runs.decisions`.
"""

from __future__ import annotations

import msgspec

from penstock.operations.permissions.deciding import WhyNot
from penstock.operations.runs.decisions import DecisionView

__all__ = ["Bar", "Lane", "Timeline", "Undecided"]


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A visit of a node, or several in a row if there are too many to show one by one."""

    visit: int
    visits: int
    status: str
    attempts: int
    begun_seq: int
    ended_seq: int | None
    begun_at: str | None
    ended_at: str | None
    waits_for: str | None = None


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """The visits of one node."""

    node_id: str
    bars: list[Bar]


class Undecided(msgspec.Struct, frozen=True, kw_only=True):
    """An open question, and whether the caller may decide it."""

    interrupt_id: str
    decidable: bool
    why_not: WhyNot | None
    """Why you cannot: you lack the scope, are a program, are not named, asked for it, or have approved it."""


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """The visits of an execution along time, in the order in which its nodes were first visited."""

    began_at: str | None
    updated_at: str | None
    sequence: int
    lanes: list[Lane]
    lanes_left_out: int
    first_failure: int | None
    """The record of the first visit or attempt that failed."""
    last_failure: int | None
    waits: list[int]
    """The records with which open waits began."""
    at_sequence: int | None = None
    """The last record up to the time that was asked for."""
    decisions: list[DecisionView] = []
    """What people decided, oldest first; of very many, the last ones."""
    starter_name: str = ""
    """What whoever started it is called; "" if that is not known."""
    undecided: list[Undecided] = []
    """The questions that are open now, and whether you may decide them."""
