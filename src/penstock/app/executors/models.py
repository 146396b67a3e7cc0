"""The configured language models, as providers of the `llm_call` executor.

Models with the same provider, address and key share one provider, and so one connection pool. The first provider of a
kind is named after its kind (`provider: anthropic` in a document), others after their kind and first model. A single
model also serves nodes that name none.

Above it: `configured`. Below it: `extras` loads the library when a model is first asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any

from penstock.app.executors.extras import load_executor
from penstock.app.executors.secret_sources import private_texts, resolve_secret
from penstock.app.settings.named import ModelSettings
from penstock.app.settings.secrets import describe_reference
from penstock.base.errors import PenstockError
from penstock.base.json import JsonValue
from penstock.runtime.activities.routing import SecretResolver
from penstock.runtime.executors.llm.mock import MockPrices, MockProvider, script_from_json
from penstock.runtime.executors.llm.port import LlmAnswer, LlmFailure, LlmProvider, LlmRequest, price_of
from penstock.runtime.ports.models import COMPATIBLE, MOCK, ConfiguredModels, ModelLimits, ModelRules

__all__ = ["configured_models", "model_providers", "model_rules"]

_DEFAULT = "default"
_MILLISECOND = timedelta(milliseconds=1)


def configured_models(models: Mapping[str, ModelSettings]) -> ConfiguredModels:
    """The names under which documents find the models of the settings."""
    names = frozenset({*models, _DEFAULT} if len(models) == 1 else models)
    return ConfiguredModels(names=names, providers=frozenset(model.provider for model in models.values()))


def model_rules(models: Mapping[str, ModelSettings]) -> dict[str, ModelRules]:
    """What holds for the models of the settings, by the names that documents use."""
    rules = {name: _rules(model) for name, model in models.items()}
    if len(rules) == 1:
        rules.setdefault(_DEFAULT, next(iter(rules.values())))
    return rules


def _rules(model: ModelSettings) -> ModelRules:
    limits = model.limits
    return ModelRules(
        timeout_ms=None if model.timeout is None else model.timeout // _MILLISECOND,
        fallbacks=model.fallbacks,
        limits=ModelLimits()
        if limits is None
        else ModelLimits(
            max_tokens=limits.max_tokens,
            requests_per_minute=limits.requests_per_minute,
            concurrent=limits.concurrent,
            cost_per_day=limits.cost_per_day,
        ),
    )


def model_providers(models: Mapping[str, ModelSettings], secrets: SecretResolver) -> dict[str, LlmProvider]:
    """The providers, by the names that documents may use for them."""
    providers: dict[str, LlmProvider] = {}
    groups: list[tuple[ModelSettings, dict[str, str]]] = []
    for name, model in models.items():
        aliases = next((aliases for first, aliases in groups if _share(first, model)), None)
        if aliases is None:
            aliases = {}
            groups.append((model, aliases))
        aliases[name] = model.model or name
    if len(models) == 1:
        [(name, model)] = models.items()
        groups[0][1].setdefault(_DEFAULT, model.model or name)
    for model, aliases in groups:
        first = next(iter(aliases))
        called = model.provider if model.provider not in providers else f"{model.provider}-{first}"
        providers[called] = _provider(called, model, aliases, secrets)
    return providers


def _share(first: ModelSettings, second: ModelSettings) -> bool:
    if first.provider == MOCK:
        return False  # each mock has a script of its own
    shared = ("provider", "base_url", "api_key", "needs_key", "headers", "prices")
    return all(getattr(first, name) == getattr(second, name) for name in shared)


def _provider(called: str, model: ModelSettings, aliases: dict[str, str], secrets: SecretResolver) -> LlmProvider:
    if model.provider == MOCK:
        replies: Any = model.replies
        script: JsonValue = replies
        return MockProvider(script_from_json(script) or {}, aliases, _mock_prices(model))
    return _ProviderOnDemand(called=called, settings=model, models=aliases, secrets=secrets)


def _mock_prices(model: ModelSettings) -> MockPrices | None:
    if model.prices is None:
        return None
    given, made = Decimal(str(model.prices.input_per_million)), Decimal(str(model.prices.output_per_million))
    return MockPrices(input_per_million=given, output_per_million=made)


@dataclass(slots=True, kw_only=True)
class _ProviderOnDemand:
    """A provider whose library is imported and whose key is read when it is first asked."""

    called: str
    settings: ModelSettings
    models: Mapping[str, str]
    secrets: SecretResolver = field(repr=False)
    _made: LlmProvider | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def ask(self, request: LlmRequest) -> LlmAnswer:
        """Send one request."""
        try:
            async with self._lock:
                if self._made is None:
                    self._made = await asyncio.to_thread(self._make)
        except PenstockError as error:
            message = f"{error.message}; {error.hint}" if error.hint else error.message
            return LlmFailure(error=f"{self.called}: {message}", code="LLM_CREDENTIALS_MISSING")
        return await self._made.ask(request)

    def price(self, model: str, input_tokens: int, output_tokens: int) -> Decimal | None:
        """Return what so many tokens of a model cost; None if that is unknown, or before the first request."""
        return price_of(self._made, model, input_tokens, output_tokens)

    async def close(self) -> None:
        """Close the provider if it was created."""
        if self._made is not None:
            await self._made.close()

    def _make(self) -> LlmProvider:
        library, settings = load_executor("llm"), self.settings
        prices = settings.prices
        made: LlmProvider = library.PydanticProvider(
            self.called,
            library.LlmProviderConfig(
                kind=settings.provider,
                base_url=settings.base_url,
                api_key=self._key(),
                api_key_name=None if settings.api_key is None else describe_reference(settings.api_key),
                needs_key=settings.provider != COMPATIBLE if settings.needs_key is None else settings.needs_key,
                headers=private_texts(settings.headers, self.secrets),
                models=self.models,
                prices=None
                if prices is None
                else library.TokenPrices(
                    input_per_million=Decimal(str(prices.input_per_million)),
                    output_per_million=Decimal(str(prices.output_per_million)),
                ),
            ),
        )
        return made

    def _key(self) -> str | None:
        reference = self.settings.api_key
        return None if reference is None else resolve_secret(reference)
