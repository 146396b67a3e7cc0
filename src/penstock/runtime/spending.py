"""What the models below a run spend: counted upwards at once, and compared with the limits of every run above.

A run is *below* the run that started it: as a child, or with a call of one of its nodes. Each request to a model is
entered with an estimate before it is sent, in one transaction with the comparison, and corrected when its reply is
there. So two runs at once cannot both pass a limit that has room for one turn. A request that was lost in a crash still
counts, and money that was paid counts even if nobody waits for the result any more.

Above it: `activities.budgets` counts, the stores keep, views show. Below it: nothing but data.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Literal, Protocol, TypeAlias

import msgspec

from penstock.base.ids import id_in_tenant
from penstock.definitions.model import AgentLimits

__all__ = [
    "CALLER_LABEL",
    "LimitKind",
    "PlacedRun",
    "RunSpending",
    "Spend",
    "Spent",
    "SpentLimit",
    "caller_of",
    "find_spent_limit",
]

CALLER_LABEL = "penstock.caller"
"""The label of a run that a node of another run started with a call: the id of that other run."""
LimitKind: TypeAlias = Literal["turns", "tokens", "cost", "time", "unknown cost"]


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What requests to models used. Negative numbers take back what was entered before."""

    turns: int = 0
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0
    """In billionths of a US dollar."""
    unpriced: int = 0
    """Requests whose price nobody knows."""

    @property
    def tokens(self) -> int:
        """Tokens that were read and written."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Spent) -> Spent:
        return Spent(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})

    def __neg__(self) -> Spent:
        return Spent(**{name: -getattr(self, name) for name in self.__struct_fields__})


class RunSpending(msgspec.Struct, frozen=True, kw_only=True):
    """What a run spent itself, as far as it was counted, and what all runs below it spent."""

    own: Spent
    below: Spent


class SpentLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The limit that a request would go beyond: of which run, and how much of it is used."""

    run_id: str
    kind: LimitKind
    limits: AgentLimits
    used: Spent


class PlacedRun(Protocol):
    """A run, as far as its place in the tree of runs goes."""

    @property
    def run_id(self) -> str:
        """Its stored id."""

    @property
    def tenant(self) -> str:
        """Whose run it is."""

    @property
    def parent_run_id(self) -> str | None:
        """The run whose child it is."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels, which may name its caller."""


class Spend(Protocol):
    """Counts what a run uses, for the run and for every run above it; see `tables.spending.spend`."""

    def __call__(
        self, run_id: str, amount: Spent, *, at: int, limits: AgentLimits | None = None, checked: bool = False
    ) -> Awaitable[SpentLimit | None]:
        """Return the limit that leaves no room, if `checked`; None once the amount is counted."""


def caller_of(tenant: str, parent_run_id: str | None, labels: Mapping[str, str]) -> str | None:
    """Return the stored id of the run directly above a run; None for the first of its tree."""
    if parent_run_id is not None:
        return parent_run_id
    caller = labels.get(CALLER_LABEL)
    return None if caller is None else id_in_tenant(tenant, caller)


def find_spent_limit(
    limits: AgentLimits, used: Spent, asked: Spent, *, ends_at: int | None, at: int
) -> LimitKind | None:
    """Return which limit leaves no room for a request; None if all do.

    What a request will cost is not known before it is answered. So there is room as long as anything is left.
    """
    if ends_at is not None and at >= ends_at:
        return "time"
    if limits.turns is not None and used.turns + asked.turns > limits.turns:
        return "turns"
    if limits.tokens is not None and used.tokens >= limits.tokens:
        return "tokens"
    if limits.cost is not None:
        if used.unpriced or asked.unpriced:
            return "unknown cost"
        if used.cost >= limits.cost:
            return "cost"
    return None
