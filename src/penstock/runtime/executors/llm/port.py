"""The port between `llm_call` and the providers of models: requests and replies as data, no library.

Above it: `executor` (prompts, schemas, repair, accounting). Below it: `pydantic_ai` (real providers) and `mock`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from penstock.base.json import JsonObject

__all__ = [
    "LlmAnswer",
    "LlmFailure",
    "LlmMessage",
    "LlmProvider",
    "LlmReply",
    "LlmRequest",
    "LlmTool",
    "LlmToolCall",
    "PricedProvider",
    "TextReader",
    "price_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmToolCall:
    """A model's call of a tool. `arguments` is the raw text if the model did not write a JSON object."""

    id: str
    name: str
    arguments: JsonObject | str


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmTool:
    """A tool that a model may call. Names are those of the wire: up to 64 letters, digits, `_` and `-`."""

    name: str
    description: str
    input_schema: JsonObject


@dataclass(frozen=True, slots=True)
class LlmMessage:
    """One message of a conversation. System instructions are not part of it.

    An `assistant` message may call tools; each call is answered by a `tool` message with the id and the name of the
    call.
    """

    role: Literal["user", "assistant", "tool"]
    text: str
    tool_calls: tuple[LlmToolCall, ...] = ()
    call_id: str | None = None
    tool: str | None = None
    failed: bool = False
    """Whether the tool failed: the text says why."""
    thoughts: JsonObject | None = None
    """What a model thought before it said this, as `LlmReply` has it; for the model that thought it, and no other."""


class TextReader(Protocol):
    """A reader of a reply while it is being written."""

    def begin(self) -> None:
        """Restart the text and discard everything before."""

    def say(self, piece: str) -> None:
        """Take the next piece of the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmRequest:
    """One request to a model; `settings` are the provider-neutral ones (temperature, max_tokens, top_p, …)."""

    node_id: str
    model: str
    messages: tuple[LlmMessage, ...]
    system: str | None = None
    output_schema: JsonObject | None = None
    settings: JsonObject = field(default_factory=dict)
    tools: tuple[LlmTool, ...] = ()
    reader: TextReader | None = field(default=None, compare=False)
    """Receives each piece of the text as it arrives, if the provider can stream; the reply has the whole text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmReply:
    """The model's reply: text, or the JSON text of a structured answer, or calls of tools with or without a text.

    `cost` is in US dollars, None if unknown.
    """

    text: str
    input_tokens: int
    output_tokens: int
    model: str
    cost: Decimal | None = None
    cut_off: bool = False
    tool_calls: tuple[LlmToolCall, ...] = ()
    tokens_known: bool = True
    """Whether the provider said how many tokens it used."""
    estimated: bool = False
    """Whether the tokens, and so the cost, are our estimate: the provider reports none that can be true."""
    thoughts: JsonObject | None = None
    """What the provider wants back in later turns, as it wrote it: only the adapter that made it understands it."""


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


@runtime_checkable
class PricedProvider(Protocol):
    """A provider that knows what its models cost."""

    def price(self, model: str, input_tokens: int, output_tokens: int) -> Decimal | None:
        """Return what so many tokens of a model cost, in US dollars; None if that is unknown."""


def price_of(provider: object, model: str, input_tokens: int, output_tokens: int) -> Decimal | None:
    """Return what so many tokens of a model cost, if its provider knows."""
    return provider.price(model, input_tokens, output_tokens) if isinstance(provider, PricedProvider) else None
