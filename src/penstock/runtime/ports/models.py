"""What is said about a language model, wherever it is declared: providers, limits, fallbacks, prices.

Models come from the settings and from the registry of a tenant. Both are checked against the same table of providers
and the same list of parameters, and both become `ModelRules` before a node uses them.

Above it: the registry, the settings, the executor of `llm_call`. Below it: nothing. It names no library: a test
compares the table with the library that speaks to the providers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from penstock.base.json import JsonObject

__all__ = [
    "COMPATIBLE",
    "MOCK",
    "MODEL_PARAMETERS",
    "PROVIDERS",
    "ConfiguredModels",
    "ModelLimits",
    "ModelRules",
    "ModelUse",
    "ProviderKind",
    "fallback_cycle",
    "model_subject",
]

COMPATIBLE: Final = "openai-compatible"
MOCK: Final = "mock"

MODEL_PARAMETERS: Final = (
    "frequency_penalty",
    "max_tokens",
    "presence_penalty",
    "seed",
    "stop_sequences",
    "temperature",
    "thinking",
    "top_k",
    "top_p",
)
"""What a node or a model may set; anything else in a node is not for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderKind:
    """What can be said about the models of a provider."""

    takes_address: bool = False
    """Whether `base_url` may name another address than the usual one."""
    extra: str = "llm"
    """The extra that installs what its models need."""


PROVIDERS: Final[Mapping[str, ProviderKind]] = {
    "openai": ProviderKind(takes_address=True),
    COMPATIBLE: ProviderKind(takes_address=True),
    "anthropic": ProviderKind(takes_address=True, extra="anthropic"),
    # The library speaks to these with the client that `openai` needs anyway.
    "alibaba": ProviderKind(takes_address=True),
    "cerebras": ProviderKind(),
    "deepseek": ProviderKind(),
    "fireworks": ProviderKind(),
    "heroku": ProviderKind(takes_address=True),
    "moonshotai": ProviderKind(takes_address=True),
    "nebius": ProviderKind(),
    "openrouter": ProviderKind(),
    "ovhcloud": ProviderKind(),
    "sambanova": ProviderKind(takes_address=True),
    "together": ProviderKind(),
    "vercel": ProviderKind(),
    "zai": ProviderKind(takes_address=True),
    MOCK: ProviderKind(),
}
"""The providers that need no library beyond the extras of this package. Every other one is refused by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredModels:
    """The models of the settings, as far as documents can name them."""

    names: frozenset[str] = frozenset()
    providers: frozenset[str] = frozenset()
    """Providers that a document can ask for models of any name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLimits:
    """How much a model may be used. None means no limit."""

    max_tokens: int | None = None
    """The longest answer; a node that asks for more gets this."""
    requests_per_minute: int | None = None
    """Requests in a minute, of all processes that share the store."""
    concurrent: int | None = None
    """Requests at the same time, in each process. Others wait."""
    cost_per_day: float | None = None
    """Dollars that a tenant may spend in a day (UTC). Requests in flight are counted when they end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRules:
    """The rules for using a model, apart from where it is served."""

    timeout_ms: int | None = None
    """How long one request may take; the node's own timeout bounds all requests together."""
    fallbacks: tuple[str, ...] = ()
    """Models that are asked in this order if this one cannot answer."""
    limits: ModelLimits = field(default_factory=ModelLimits)
    parameters: JsonObject = field(default_factory=dict)
    """Settings of requests; what the node says counts first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """What one attempt used, to be counted. `code` is `None` if the model answered."""

    provider: str
    code: str | None
    input_tokens: int
    output_tokens: int
    cost: Decimal | None


def model_subject(name: str) -> str:
    """Return the subject under which a store counts what a model used."""
    return f"model:{name}"


def fallback_cycle(start: str, fallbacks: Mapping[str, tuple[str, ...]]) -> tuple[str, ...] | None:
    """Return the names of a cycle of fallbacks that begins and ends with `start`; None if there is no cycle."""
    waiting: list[tuple[str, ...]] = [(start,)]
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        for name in fallbacks.get(path[-1], ()):
            if name == start:
                return (*path, name)
            if name not in seen:
                seen.add(name)
                waiting.append((*path, name))
    return None
