"""What tenants and their keys use: runs, tokens, cost, storage; and what they may use at most.

Runs are counted in the transaction that stores their first record, tokens and cost in the transaction that stores the
result which reports them. So the counts are exact, whichever process starts or performs a run. Whether a start is
within its quotas is decided in the same transaction: of two processes, one gets the last run of a day.

Calls that policies count are kept here too, with the numbers that policies add up. Such a call is entered before it is
decided, and sees what was entered before it: of two calls at once, one sees the other.

Above it: `platform`, `runs`, stores. Below it: `governance.quotas`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal, InvalidOperation

import msgspec

from penstock.base.json import JsonObject, JsonValue
from penstock.governance.quotas import QuotaLimits

__all__ = [
    "BucketLevel",
    "BucketUse",
    "CallUses",
    "ModelUsage",
    "PolicyTotal",
    "PolicyUse",
    "RunUsage",
    "StartQuota",
    "SubjectQuota",
    "TakenUses",
    "reported_models",
    "reported_usage",
]

_MICROS = 1_000_000
_AMOUNT_CHARACTERS_MAX = 64
# The ids of registered models have no more; results may come from outside.
_NAME_CHARACTERS_MAX = 128
# No real bill or prompt is larger, and sums of these fit into 64 bits.
_COUNT_MAX = 10**15


class SubjectQuota(msgspec.Struct, frozen=True):
    """The quotas that a start counts against, of its tenant or of a principal."""

    subject: str
    limits: QuotaLimits


class StartQuota(msgspec.Struct, frozen=True, kw_only=True):
    """The quotas of a start. A store counts it for every subject, or refuses it."""

    tenant: str
    at: int
    subjects: tuple[SubjectQuota, ...]


class ModelUsage(msgspec.Struct, frozen=True):
    """What a result says that a model used, by the name that documents have for it."""

    name: str
    tokens: int
    cost: int


class RunUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What the result of an activity says that it used, and for whom it was performed."""

    tenant: str
    subjects: tuple[str, ...]
    at: int
    tokens: int
    cost: int
    models: tuple[ModelUsage, ...] = ()
    """What each model used, for the limits of models."""


class BucketUse(msgspec.Struct, frozen=True, kw_only=True):
    """What a process took from a token bucket that several share, and how the bucket fills."""

    bucket: str
    amount: float
    per_minute: float
    burst: float


class BucketLevel(msgspec.Struct, frozen=True):
    """What is left in a shared bucket after all processes took from it; below zero if they took too much."""

    bucket: str
    tokens: float


class PolicyUse(msgspec.Struct, frozen=True, kw_only=True):
    """A call that policies count, or whose argument they add up. Nothing else of its arguments is kept."""

    tenant: str
    action: str
    field: str
    """The argument that is added up; an empty text for the call itself, which adds one."""
    principal: str
    resource: str
    run: str
    """The run that the call belongs to, as the id of the first of its tree; an empty text if it belongs to none."""
    amount: int
    """In ten-thousandths; never below zero."""
    at: int


class PolicyTotal(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls of a tenant to add up: those after `since`, of a principal, about a resource, of a run, or all."""

    tenant: str
    action: str
    field: str
    since: int
    principal: str | None = None
    resource: str | None = None
    run: str | None = None


class TakenUses(msgspec.Struct, frozen=True):
    """What was entered, by its numbers, and the requested totals, with what was entered."""

    ids: tuple[int, ...]
    totals: tuple[int, ...]


@dataclass(slots=True)
class CallUses:
    """What one call has entered so far: it may be decided several times and is entered once."""

    ids: list[int] = field(default_factory=list)
    amounts: dict[tuple[str, str], int] = field(default_factory=dict)
    """By action and argument."""


def reported_usage(extra: JsonValue) -> tuple[int, int] | None:
    """Return the tokens and the cost, in millionths, that a result reports; None if it reports none."""
    used = extra.get("usage") if isinstance(extra, dict) else None
    return _tokens_and_cost(used) if isinstance(used, dict) else None


def reported_models(extra: JsonValue) -> tuple[ModelUsage, ...]:
    """Return what a result says that each model used: the one that answered, or all that were tried."""
    if not isinstance(extra, dict):
        return ()
    attempts = extra.get("attempts")
    found: dict[str, ModelUsage] = {}
    for used in attempts if isinstance(attempts, list) else [extra.get("usage")]:
        name = used.get("name") if isinstance(used, dict) else None
        if isinstance(used, dict) and isinstance(name, str) and 0 < len(name) <= _NAME_CHARACTERS_MAX:
            tokens, cost = _tokens_and_cost(used)
            before = found.get(name, ModelUsage(name, 0, 0))
            found[name] = ModelUsage(name, before.tokens + tokens, before.cost + cost)
    return tuple(found.values())


def _tokens_and_cost(used: JsonObject) -> tuple[int, int]:
    # Hosts that report the results of activities may spell names as the published functions do.
    named = (("input_tokens", "inputTokens"), ("output_tokens", "outputTokens"))
    tokens = sum(_count(used.get(name, used.get(other))) for name, other in named)
    cost = used.get("cost")
    amount = cost.get("amount") if isinstance(cost, dict) and cost.get("currency") == "USD" else None
    return tokens, _micros(amount)


def _count(value: JsonValue) -> int:
    return min(value, _COUNT_MAX) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _micros(amount: JsonValue) -> int:
    """Return a decimal amount in millionths, rounded up; 0 for anything else. Results may come from outside."""
    if isinstance(amount, bool) or not isinstance(amount, str | int | float):
        return 0
    try:
        exact = Decimal(str(amount)[:_AMOUNT_CHARACTERS_MAX])
    except InvalidOperation:
        return 0
    if not exact.is_finite() or exact <= 0:
        return 0
    return min(int((exact * _MICROS).to_integral_value(ROUND_CEILING)), _COUNT_MAX)
