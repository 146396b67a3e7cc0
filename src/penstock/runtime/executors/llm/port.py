"""The port between `llm_call` and the providers of models: requests and replies as data, no library.

Above it: `executor` (prompts, schemas, repair, accounting). Below it: `pydantic_ai` (real providers) and `mock`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, Protocol, TypeAlias

from penstock.base.json import JsonObject

__all__ = ["LlmAnswer", "LlmFailure", "LlmMessage", "LlmProvider", "LlmReply", "LlmRequest"]


@dataclass(frozen=True, slots=True)
class LlmMessage:
    """One message of a conversation. System instructions are not part of it."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmRequest:
    """One request to a model; `settings` are the provider-neutral ones (temperature, max_tokens, top_p, …)."""

    node_id: str
    model: str
    messages: tuple[LlmMessage, ...]
    system: str | None = None
    output_schema: JsonObject | None = None
    settings: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmReply:
    """The model's reply: text, or the JSON text of a structured answer. `cost` is in US dollars, None if unknown."""

    text: str
    input_tokens: int
    output_tokens: int
    model: str
    cost: Decimal | None = None
    cut_off: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmFailure:
    """The error if there is no reply."""

    error: str
    code: str
    retryable: bool = False


LlmAnswer: TypeAlias = LlmReply | LlmFailure


class LlmProvider(Protocol):
    """Serves models."""

    @property
    def models(self) -> Mapping[str, str]:
        """Model names that documents may use, mapped to the provider's names. Other names are passed on unchanged."""

    async def ask(self, request: LlmRequest) -> LlmAnswer:
        """Send one request, once. The engine does the retries."""

    async def close(self) -> None:
        """Close the connections."""
