"""The models that a node may name: where they are found, and whether they may be asked now.

Models of the settings are known at the start. Those of a tenant are looked up for every call (`ModelSource`, which
`app` fills in), so that a change takes effect with the next call. `ModelMeter` keeps the limits of both.

Above it: `executor`, `attempts`. Below it: `port`, the counts of the platform store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol

from penstock.governance.quotas import UsageRow
from penstock.runtime.activities.performing import NodeAction
from penstock.runtime.executors.llm.port import LlmFailure, LlmProvider
from penstock.runtime.ports.models import ModelRules, model_subject
from penstock.runtime.ports.usage import BucketLevel, BucketUse

__all__ = ["ModelCounts", "ModelMeter", "ModelSource", "NoModels", "ServedModel", "model_action"]

_MICROS = 1_000_000
_SECONDS_PER_MINUTE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model that can be asked."""

    name: str | None
    """What documents call it; None if the node names a provider and a model of that provider."""
    provider_name: str
    provider: LlmProvider
    model: str
    """What the provider calls it."""
    rules: ModelRules = field(default_factory=ModelRules)
    owner: str = ""
    """The tenant that registered it; empty for a model of the settings, which all tenants share."""


def model_action(provider: str, model: str) -> NodeAction:
    """Return what policies decide about before a model is asked."""
    return NodeAction(resource=f"{provider}:{model}", facts={"provider": provider, "model": model})


class ModelSource(Protocol):
    """Where the models are that tenants registered."""

    @property
    def passes_on(self) -> bool:
        """Whether an unknown name is passed on to the only provider.

        False where models can be deleted: the prompts of a deleted model are not meant for another one.
        """

    async def find(self, tenant: str, name: str) -> ServedModel | LlmFailure | None:
        """Return a model of a tenant as it is registered now; None if the tenant has no model of that name."""

    async def names(self, tenant: str) -> Sequence[str]:
        """Return the names of a tenant's models."""

    async def close(self) -> None:
        """Close the connections."""


class NoModels:
    """The source where nothing can be registered."""

    passes_on = True

    async def find(self, tenant: str, name: str) -> ServedModel | LlmFailure | None:
        """Find nothing."""
        return None

    async def names(self, tenant: str) -> Sequence[str]:
        """Return an empty list."""
        return ()

    async def close(self) -> None:
        """Nothing to close."""


class ModelCounts(Protocol):
    """The part of a platform store that limits of models need, and the time."""

    def now_ms(self) -> int:
        """The current time in milliseconds."""

    async def usage(self, tenant: str, subject: str) -> UsageRow | None:
        """Return what a subject used today; None if usage is not counted here."""

    async def take_requests(self, taken: Sequence[BucketUse]) -> tuple[BucketLevel, ...] | None:
        """Take from the token buckets that the processes of the store share; None if this process has no buckets."""


@dataclass(slots=True)
class _Places:
    limit: int
    free: asyncio.Semaphore
    users: int = 0


@dataclass(slots=True)
class ModelMeter:
    """Keeps the limits of models."""

    counts: ModelCounts | None = None
    _places: dict[tuple[str, str], _Places] = field(default_factory=dict)

    async def refusal(self, served: ServedModel, tenant: str) -> LlmFailure | None:
        """Return why a model must not be asked now; None if it may. What is allowed is counted as a request."""
        limits, name = served.rules.limits, served.name
        if name is None or (limits.cost_per_day is None and limits.requests_per_minute is None):
            return None
        if limits.cost_per_day is not None:
            used = None if self.counts is None else await self.counts.usage(tenant, model_subject(name))
            if used is None:
                return _unknown(name, "cost_per_day")
            if used.cost >= Decimal(str(limits.cost_per_day)) * _MICROS:
                message = (
                    f"the model {name} has cost {used.cost / _MICROS:g} dollars today; {limits.cost_per_day:g} are"
                )
                return LlmFailure(error=f"{message} allowed for a day (UTC)", code="LLM_LIMIT_REACHED")
        if limits.requests_per_minute is not None:
            return await self._too_fast(served.owner, name, limits.requests_per_minute)
        return None

    async def _too_fast(self, owner: str, name: str, per_minute: int) -> LlmFailure | None:
        def use(amount: float) -> BucketUse:
            bucket = f"model:{owner}:{name}"
            return BucketUse(bucket=bucket, amount=amount, per_minute=float(per_minute), burst=float(per_minute))

        levels = None if self.counts is None else await self.counts.take_requests([use(1.0)])
        if self.counts is None or levels is None:
            return _unknown(name, "requests_per_minute")
        if levels[0].tokens >= 0:
            return None
        await self.counts.take_requests([use(-1.0)])  # it is not asked, so nothing is taken
        wait_seconds = -levels[0].tokens * _SECONDS_PER_MINUTE / per_minute
        message = f"the model {name} may be asked {per_minute} times in a minute; again in {wait_seconds:.1f} s"
        return LlmFailure(error=message, code="LLM_LIMIT_REACHED", retryable=True)

    @asynccontextmanager
    async def place(self, served: ServedModel) -> AsyncIterator[None]:
        """Hold a slot of a model that limits concurrent requests, waiting for a free one."""
        limit = served.rules.limits.concurrent
        if limit is None or served.name is None:
            yield
            return
        key = (served.owner, served.name)
        places = self._places.get(key)
        if places is None or places.limit != limit:
            # After a change of the limit, requests in flight keep the places that they have.
            places = self._places[key] = _Places(limit, asyncio.Semaphore(limit))
        places.users += 1
        try:
            async with places.free:
                yield
        finally:
            places.users -= 1
            if not places.users and self._places.get(key) is places:
                del self._places[key]


def _unknown(name: str, limit: str) -> LlmFailure:
    message = f"the model {name} has `{limit}`, and this process has no store that counts it"
    return LlmFailure(error=message, code="LLM_LIMIT_UNKNOWN")
