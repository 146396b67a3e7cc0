"""Counts what programs outside spend on models when they do the activities of a run.

Such a program asks models and agents itself, and pays for them. What it reports is believed as far as it can be true;
anything else is estimated: four characters are a token, and a price that nobody names is unknown. It counts when the
outcome is submitted, for the run and all runs above it. An outcome for which there is nothing left is not taken: the
activity fails with the limit that is spent.

Above it: `messages`, `control_plane`. Below it: the budget of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import partial

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.model import NodeType
from penstock.engine.effects import PerformActivity
from penstock.engine.pending import pending_activities
from penstock.operations.gate.context import Context
from penstock.runtime.activities.budgets import BudgetRefusal, RunBudget, budget_of, nanodollars, tokens_in
from penstock.runtime.spending import Spent
from penstock.runtime.tables.spending import spend

__all__ = ["OutsideWork", "Submitted", "take_outside_work"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The outcome of an activity, as a program outside reports it."""

    node_id: str
    visit: int | None
    ok: bool
    result: JsonValue = None
    usage: JsonValue = None


@dataclass(frozen=True, slots=True)
class OutsideWork:
    """What was entered for an outcome."""

    budget: RunBudget
    spent: Spent
    refusal: BudgetRefusal | None
    """Why the outcome is not taken."""

    async def give_back(self) -> None:
        """Take the entry back: the run did not take the outcome."""
        if self.refusal is None:
            await self.budget.settle(-self.spent)


async def take_outside_work(context: Context, run_id: str, submitted: Submitted) -> OutsideWork | None:
    """Enter what an outcome says was spent; None if nothing limits or counts it, or if nobody asked a model."""
    host = context.services.host
    row = await host.row(run_id)
    if row is None or row.terminal:
        return None
    workflow = await host.workflow(row.definition_hash)
    if workflow is None:
        return None
    budget = budget_of(row, workflow.limits, partial(spend, context.services.store.database), context.services.clock)
    state = None if budget is None else await host.read(run_id)
    if budget is None or state is None or state.mode != "host_mediated":
        return None
    waiting = (
        item
        for item in pending_activities(workflow, state)
        if item.node_id == submitted.node_id and submitted.visit in (None, item.visit)
    )
    activity = next(waiting, None)
    if activity is None or (activity.node_type != NodeType.LLM_CALL and activity.delegate is None):
        return None
    spent = _spent(activity, submitted)
    if spent is None:
        return None
    return OutsideWork(budget, spent, await budget.take(spent))


def _spent(activity: PerformActivity, submitted: Submitted) -> Spent | None:
    """Return what an outcome counts as. A failure without any usage counts as nothing, as that of a provider does."""
    usage = _usage_of(submitted)
    if not submitted.ok and not usage:
        return None
    asked = encode_bytes((activity.config, activity.arguments, activity.delegate))
    cost = _believable_cost(usage)
    return Spent(
        turns=1,
        requests=1,
        input_tokens=_believable_tokens(usage, "input_tokens", "inputTokens") or tokens_in(len(asked)),
        output_tokens=_believable_tokens(usage, "output_tokens", "outputTokens")
        or tokens_in(len(encode_bytes(submitted.result))),
        cost=nanodollars(cost),
        unpriced=int(cost is None),
    )


def _usage_of(submitted: Submitted) -> JsonObject:
    """Return the usage beside an outcome, or in it, where the turn of a model has it."""
    if isinstance(submitted.usage, dict):
        return submitted.usage
    inside = submitted.result.get("usage") if isinstance(submitted.result, dict) else None
    return inside if isinstance(inside, dict) else {}


def _believable_tokens(usage: JsonObject, *names: str) -> int | None:
    found = next((usage[name] for name in names if name in usage), None)
    if not isinstance(found, int) or isinstance(found, bool):
        return None
    return found if 0 < found <= limits.LLM_TOKENS_BELIEVED_MAX else None


def _believable_cost(usage: JsonObject) -> Decimal | None:
    """Return a reported price in US dollars. A price of zero is ignored: no model is free."""
    found = usage.get("cost")
    if isinstance(found, dict):
        found = found.get("amount") if found.get("currency", "USD") == "USD" else None
    try:
        cost = Decimal(str(found)) if isinstance(found, int | float | str) else None
    except ArithmeticError:
        return None
    return cost if cost is not None and cost.is_finite() and 0 < cost <= limits.LLM_COST_BELIEVED_MAX else None
