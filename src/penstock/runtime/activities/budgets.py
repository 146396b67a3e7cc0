"""The budget of an attempt: what its run and all runs above it may still spend on models.

Call `take` directly before a request that costs something, and `settle` when the actual cost is known. Both write to
the store, but only for runs that have limits or that are below a run with limits.

Above it: the executors of `llm_call` and `agent_delegate`, and what counts work that is done outside; hosts make the
budget of an attempt. Below it: `tables.spending`.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from penstock.base.clock import Clock
from penstock.base.errors import PenstockError, Unavailable
from penstock.base.ids import id_for_callers
from penstock.definitions.model import AgentLimits
from penstock.runtime.spending import PlacedRun, Spend, Spent, SpentLimit, caller_of

__all__ = ["BudgetRefusal", "RunBudget", "budget_of", "dollars_of", "nanodollars", "tokens_in"]

_LOGGER = logging.getLogger("penstock.budgets")
_NANOS = 1_000_000_000
_CHARACTERS_PER_TOKEN = 4
_RETRY_SECONDS = 0.1
_RETRY_SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True)
class BudgetRefusal:
    """Why the run may not spend more."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudget:
    """What one attempt may spend."""

    spend: Spend
    clock: Clock
    run_id: str
    tenant: str
    limits: AgentLimits | None = None

    async def take(self, amount: Spent) -> BudgetRefusal | None:
        """Reserve an amount, or return why it may not be spent. Waits while the store is unavailable."""
        pause = _RETRY_SECONDS
        while True:
            try:
                found = await self.spend(self.run_id, amount, at=self.clock.now_ms(), limits=self.limits, checked=True)
            except Unavailable:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _RETRY_SECONDS_MAX)
            else:
                return None if found is None else _refusal(found, self.tenant)

    async def settle(self, change: Spent) -> None:
        """Replace the estimate with the actual usage. If the store fails, the estimate keeps counting."""
        try:
            await self.spend(self.run_id, change, at=self.clock.now_ms(), limits=self.limits)
        except PenstockError as error:
            _LOGGER.warning(
                "cannot store what a model used for run %s, so the estimate counts: %s", self.run_id, error.code
            )


def budget_of(row: PlacedRun, limits: AgentLimits | None, spend: Spend, clock: Clock) -> RunBudget | None:
    """Return the budget of a run; None if nothing limits it, and no run above it counts what it spends."""
    if limits is None and not row.labels and row.parent_run_id is None:
        return None  # most activities, at no cost
    if limits is None and caller_of(row.tenant, row.parent_run_id, row.labels) is None:
        return None
    return RunBudget(spend=spend, clock=clock, run_id=row.run_id, tenant=row.tenant, limits=limits)


def _refusal(found: SpentLimit, tenant: str) -> BudgetRefusal:
    limits, used = found.limits, found.used
    who = f"the agent of run {id_for_callers(tenant, found.run_id)}, with everything below it,"
    match found.kind:
        case "turns":
            return BudgetRefusal("AGENT_TURNS_SPENT", f"{who} has taken {used.turns} of {limits.turns} turns")
        case "tokens":
            return BudgetRefusal("AGENT_TOKENS_SPENT", f"{who} has used {used.tokens} of {limits.tokens} tokens")
        case "cost":
            spent, most = dollars_of(used.cost), dollars_of(limits.cost or 0)
            return BudgetRefusal("AGENT_COST_SPENT", f"{who} has spent {spent} of {most} US dollars")
        case "time":
            return BudgetRefusal("AGENT_TIME_SPENT", f"{who} has worked for longer than {limits.time_ms} ms")
        case "unknown cost":
            message = f"{who} has a cost limit, but a model or agent that it uses has no known price"
            return BudgetRefusal("AGENT_COST_UNKNOWN", message)


def nanodollars(cost: Decimal | None) -> int:
    """Return an amount in billionths, rounded up; 0 if it is unknown."""
    return 0 if cost is None else int((cost * _NANOS).to_integral_value(ROUND_CEILING))


def dollars_of(nanos: int) -> str:
    """Return an amount of billionths as decimal text."""
    return f"{(Decimal(nanos) / _NANOS).normalize():f}"


def tokens_in(characters: int) -> int:
    """Estimate how many tokens a text has: one for four characters, and at least one."""
    return max(1, -(-characters // _CHARACTERS_PER_TOKEN))
