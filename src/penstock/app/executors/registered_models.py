"""The models that tenants registered, for nodes that name them: read from the store for every call.

A tenant's key for a provider is one of the tenant's secrets. It is read for every call, lives in the provider's client
and nowhere else, and never appears in a message. A provider and its connections are kept until its entry or key
changes. Then the next call creates a new provider, and the old one is closed after its last request.

The address of a model is a tenant's choice, so it passes the same guard as the addresses of `http` nodes.

Above it: `configured`, `Penstock`. Below it: the platform store, `extras` for the library of the providers.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from penstock.app.executors.extras import load_executor
from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.errors import PenstockError, Unavailable
from penstock.base.lazy_import import lazy_import
from penstock.governance.authorship import (
    PROPOSED,
    PROPOSED_HINT,
    AuthorshipRules,
    acts_as_agent,
    is_proposed,
    proposed_message,
)
from penstock.governance.quotas import UsageRow
from penstock.governance.secret_hosts import NOT_BOUND, NOT_FOR_HOST, fits_host
from penstock.runtime.activities.routing import SecretResolver, hosts_of
from penstock.runtime.address_guard import AddressGuard
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.models import (
    COMPATIBLE,
    MOCK,
    MODEL_PARAMETERS,
    PROVIDERS,
    ConfiguredModels,
    ModelLimits,
    ModelRules,
    ModelUse,
)
from penstock.runtime.ports.platform import ResourceRow
from penstock.runtime.ports.usage import BucketLevel, BucketUse
from penstock.runtime.secrets import secret_name
from penstock.runtime.tables.resources import list_resources, read_resource
from penstock.runtime.tables.usage import exchange_buckets, read_usage

if TYPE_CHECKING:
    from penstock.operations.registries import models as registry
    from penstock.runtime.executors.llm import mock, models, port
else:
    mock = lazy_import("penstock.runtime.executors.llm.mock")
    models = lazy_import("penstock.runtime.executors.llm.models")
    port = lazy_import("penstock.runtime.executors.llm.port")
    registry = lazy_import("penstock.operations.registries.models")

__all__ = ["ModelLink"]

_KIND = "model"


def _no_secrets(name: str) -> str | None:
    return None


def _nobody(use: ModelUse) -> None:
    """Count nothing."""


@dataclass(slots=True, kw_only=True)
class ModelLink:
    """The link between the executor of `llm_call` and the store: a `ModelSource`, and the counts of its limits."""

    configured: ConfiguredModels = field(default_factory=ConfiguredModels)
    """The models of the settings. They take precedence, and tenants cannot register these names."""
    secrets: SecretResolver = _no_secrets
    guard: AddressGuard = field(default_factory=AddressGuard)
    passes_on: bool = False
    authorship: AuthorshipRules = field(default_factory=AuthorshipRules)
    """Whose entries have to be accepted before they are used. A gate sets it."""
    observe: Callable[[ModelUse], None] = _nobody
    """Receives what every attempt used."""
    _platform: Database | None = None
    _clock: Clock | None = None
    _providers: OrderedDict[tuple[str, str], _KeptProvider] = field(default_factory=OrderedDict)

    def attach(self, platform: Database | None, clock: Clock) -> None:
        """Read models from this store from now on."""
        self._platform, self._clock = platform, clock

    async def find(self, tenant: str, name: str) -> models.ServedModel | port.LlmFailure | None:
        """Return a model of a tenant, as it is registered now."""
        row = None if self._platform is None else await read_resource(self._platform, tenant, _KIND, name)
        if row is None:
            return None
        if is_proposed(row.author, self.authorship):
            message = proposed_message(f"model {name}", row.author, row.etag)
            return port.LlmFailure(error=f"{message}; {PROPOSED_HINT}", code=PROPOSED)
        entry = msgspec.convert(row.body, registry.ModelBody)
        if entry.provider not in PROVIDERS:
            message = f"{name}: models of {entry.provider} are not supported; supported: {', '.join(PROVIDERS)}"
            return port.LlmFailure(error=message, code="LLM_CONFIG_INVALID")
        refused = self._key_refusal(row, entry)
        if refused is not None:
            return refused
        try:
            provider = await self._provider(row, entry)
        except PenstockError as error:
            message = f"{name}: {error.message}; {error.hint}" if error.hint else f"{name}: {error.message}"
            retryable = error.code == "SECRET_UNREADABLE"
            return port.LlmFailure(error=message, code=error.code, retryable=retryable)
        return models.ServedModel(
            name=name,
            provider_name=entry.provider,
            provider=provider,
            model=entry.model,
            rules=_rules(entry),
            owner=tenant,
        )

    async def names(self, tenant: str) -> Sequence[str]:
        """Return the names of a tenant's models, as many as fit on a page."""
        if self._platform is None:
            return ()
        page = await list_resources(self._platform, tenant, _KIND, limit=limits.PAGE_LIMIT_MAX)
        return [row.resource_id for row in page.rows]

    def used(self, use: ModelUse) -> None:
        """Pass on what an attempt used, to be counted."""
        self.observe(use)

    def now_ms(self) -> int:
        """The current time in milliseconds."""
        return 0 if self._clock is None else self._clock.now_ms()

    async def usage(self, tenant: str, subject: str) -> UsageRow | None:
        """Return what a subject used today."""
        return None if self._platform is None else await read_usage(self._platform, tenant, subject, at=self.now_ms())

    async def take_requests(self, taken: Sequence[BucketUse]) -> tuple[BucketLevel, ...] | None:
        """Take from token buckets that the processes of the store share."""
        return None if self._platform is None else await exchange_buckets(self._platform, taken, at=self.now_ms())

    async def close(self) -> None:
        """Close the connections of all providers."""
        while self._providers:
            _, kept = self._providers.popitem()
            await kept.retire()

    async def _provider(self, row: ResourceRow, entry: registry.ModelBody) -> port.LlmProvider:
        key = await self._key(row.tenant, entry.api_key_secret)
        place = (row.tenant, row.resource_id)
        kept = self._providers.get(place)
        if kept is not None and (kept.etag, kept.key) == (row.etag, key):
            self._providers.move_to_end(place)
            return kept
        made = await asyncio.to_thread(_made, entry, key, self.guard)
        fresh = _KeptProvider(etag=row.etag, key=key, provider=made)
        outdated = [self._providers.pop(place, None)]
        self._providers[place] = fresh
        while len(self._providers) > limits.LLM_REGISTERED_PROVIDERS_MAX:
            outdated.append(self._providers.popitem(last=False)[1])
        for old in outdated:
            if old is not None:
                await old.retire()
        return fresh

    def _key_refusal(self, row: ResourceRow, entry: registry.ModelBody) -> port.LlmFailure | None:
        """Return why the key of an entry is not sent to its address; None if it may be."""
        name = entry.api_key_secret
        if name is None:
            return None
        bound = hosts_of(self.secrets, secret_name(row.tenant, name))
        if not bound and self.authorship.enforced and acts_as_agent(row.author):
            message = f"an agent wrote the model {row.resource_id}, and the secret {name} is bound to no host"
            hint = f"an operator can bind it: secret_hosts.{name}, or a person stores the same entry"
            return port.LlmFailure(error=f"{message}; {hint}", code=NOT_BOUND)
        host = None if entry.base_url is None else urlsplit(entry.base_url).hostname
        # The tenant does not choose the usual address of a provider.
        if bound and entry.base_url is not None and not fits_host(host or "", bound):
            message = f"the secret {name} is bound to other hosts than that of the model {row.resource_id}"
            return port.LlmFailure(error=f"{message}; an operator can bind it with `secret_hosts`", code=NOT_FOR_HOST)
        return None

    async def _key(self, tenant: str, name: str | None) -> str | None:
        if name is None:
            return None
        wanted = secret_name(tenant, name)
        # A source that starts a program must not block the event loop.
        blocks = getattr(self.secrets, "may_block", False)
        value = await asyncio.to_thread(self.secrets, wanted) if blocks else self.secrets(wanted)
        if value is None:
            hint = "give it to the process that performs runs"
            raise Unavailable("SECRET_NOT_SET", f"the secret {name} is not set", hint)
        return value


@dataclass(slots=True, kw_only=True)
class _KeptProvider:
    """A provider that is closed once it is outdated and nobody waits for it."""

    etag: str
    key: str | None = field(repr=False)
    provider: port.LlmProvider
    _in_flight: int = 0
    _retired: bool = False

    @property
    def models(self) -> dict[str, str]:
        """Documents name the entry, never the models of its provider."""
        return {}

    async def ask(self, request: port.LlmRequest) -> port.LlmAnswer:
        """Send one request."""
        self._in_flight += 1
        try:
            return await self.provider.ask(request)
        finally:
            self._in_flight -= 1
            await self._close_if_unused()

    def price(self, model: str, input_tokens: int, output_tokens: int) -> Decimal | None:
        """Return what so many tokens of a model cost; None if that is unknown."""
        return port.price_of(self.provider, model, input_tokens, output_tokens)

    async def close(self) -> None:
        """Close the connections."""
        await self.provider.close()

    async def retire(self) -> None:
        """Close the provider when its last request has ended."""
        self._retired = True
        await self._close_if_unused()

    async def _close_if_unused(self) -> None:
        if self._retired and not self._in_flight:
            await self.provider.close()


def _decimals(prices: registry.ModelPrices) -> dict[str, Decimal]:
    """The prices of a model as exact numbers, by the names that providers take."""
    return {
        "input_per_million": Decimal(str(prices.input_per_million)),
        "output_per_million": Decimal(str(prices.output_per_million)),
    }


def _made(entry: registry.ModelBody, key: str | None, guard: AddressGuard) -> port.LlmProvider:
    if entry.provider == MOCK:
        priced = None if entry.prices is None else mock.MockPrices(**_decimals(entry.prices))
        return mock.MockProvider(mock.script_from_json(entry.replies) or {}, prices=priced)
    library, prices = load_executor("llm"), entry.prices
    made: port.LlmProvider = library.PydanticProvider(
        entry.provider,
        library.LlmProviderConfig(
            kind=entry.provider,
            base_url=entry.base_url,
            api_key=key,
            api_key_name="its `api_key_secret`",
            needs_key=entry.provider != COMPATIBLE,
            prices=None if prices is None else library.TokenPrices(**_decimals(prices)),
            # The usual address of a provider is no choice of the tenant, and may be behind the operator's proxy.
            guard=None if entry.base_url is None else guard,
        ),
    )
    return made


def _rules(entry: registry.ModelBody) -> ModelRules:
    said = entry.limits
    return ModelRules(
        timeout_ms=None if entry.timeout_seconds is None else max(1, round(entry.timeout_seconds * 1000)),
        fallbacks=tuple(entry.fallbacks),
        limits=ModelLimits()
        if said is None
        else ModelLimits(
            max_tokens=said.max_tokens,
            requests_per_minute=said.requests_per_minute,
            concurrent=said.concurrent,
            cost_per_day=said.cost_per_day,
        ),
        parameters={name: value for name, value in (entry.parameters or {}).items() if name in MODEL_PARAMETERS},
    )
