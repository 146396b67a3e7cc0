"""What operations on model answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.client.generated.views.workflow import AuthorView, ProposalView

__all__ = ["ModelPage", "ModelPrices", "ModelUseLimits", "ModelView"]


class ModelPrices(msgspec.Struct, frozen=True, kw_only=True):
    """What a million tokens cost in US dollars."""

    input_per_million: float
    output_per_million: float


class ModelUseLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a model may be used."""

    max_tokens: int | None = None
    """The longest answer; a node that asks for more gets this."""
    requests_per_minute: int | None = None
    """Requests in a minute, of all processes that share the store."""
    concurrent: int | None = None
    """Requests at the same time, in each process; others wait."""
    cost_per_day: float | None = None
    """Dollars that may be spent on it in a day (UTC); needs `prices`."""


class ModelView(msgspec.Struct, frozen=True, kw_only=True):
    """A model, and since when it is as it is."""

    provider: str
    """Who provides it: openai, openai-compatible, anthropic, alibaba, cerebras, deepseek, fireworks, heroku,
    moonshotai, nebius, openrouter, ovhcloud, sambanova, together, vercel, zai, mock.
    """
    model: str
    """What the provider calls it."""
    base_url: str | None = None
    """Where it is, if not at the provider's usual address."""
    api_key_secret: str | None = None
    """The name of a secret of the tenant; never the secret itself."""
    parameters: dict[str, Any] | None = None
    """What nodes do not set themselves: frequency_penalty, max_tokens, presence_penalty, seed, stop_sequences,
    temperature, thinking, top_k, top_p.
    """
    prices: ModelPrices | None = None
    """What it costs; else the library's price list counts."""
    limits: ModelUseLimits | None = None
    """How much it may be used; no limits if left out."""
    fallbacks: list[str] = msgspec.field(default_factory=list)
    """Other models, of the registry or the settings, asked in this order if it cannot answer."""
    timeout_seconds: float | None = None
    """How long one request may take."""
    replies: list[Any] | dict[str, Any] | None = None
    """With `mock`: replies in order, or by node id."""
    description: str | None = None
    """What it is, for people."""
    id: str
    etag: str
    created_at: str | None
    updated_at: str | None
    updated_by: str | None
    author: AuthorView | None = None


class ModelPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of models."""

    items: list[ModelView]
    next_cursor: str | None
    proposals: list[ProposalView] = msgspec.field(default_factory=list)
