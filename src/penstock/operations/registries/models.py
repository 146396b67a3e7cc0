"""The registry of language models.

A provider's key is referred to by name, never sent: `api_key_secret` is the name of one of the server's secrets.

Above it: the catalogue. Below it: `registry`.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from penstock.operations.catalogue.capability import Capability
from penstock.operations.registries.members import Prose
from penstock.operations.registries.registry import Body, Registry, RegistryTexts

__all__ = ["MODELS", "OPERATIONS"]


class ModelBody(Body, frozen=True, kw_only=True):
    """Who provides a model, what it is called there, and how it is reached."""

    provider: Annotated[
        str, Meta(description="Who provides it.", min_length=1, max_length=64, examples=["openai", "anthropic"])
    ]
    model: Annotated[str, Meta(description="What the provider calls it.", min_length=1, max_length=200)]
    base_url: Annotated[
        Annotated[str, Meta(pattern=r"^https?://[^\s@]+$", max_length=500)] | None,
        Meta(description="Where it is, if not at the provider's usual address."),
    ] = None
    api_key_secret: Annotated[
        Annotated[str, Meta(pattern=r"^[A-Z][A-Z0-9_]{0,127}$")] | None,
        Meta(description="The name of a secret of the server; never the secret itself.", examples=["OPENAI_API_KEY"]),
    ] = None
    parameters: Annotated[dict[str, Any] | None, Meta(description="Temperature and the like.")] = None
    description: Prose = None


MODELS = Registry(
    kind="model",
    body=ModelBody,
    example_id="fast",
    create_example={"provider": "openai", "model": "gpt-5-mini", "api_key_secret": "OPENAI_API_KEY"},
    update_example={"provider": "openai", "model": "gpt-5-mini"},
    texts=RegistryTexts(
        create="Names a provider's model, and the secret that holds the key for it.",
        get="The provider, the model's name there and its parameters; never a key.",
        list="Models by id; use it to find out which there are.",
        delete="Agents that name it cannot use it any more.",
    ),
)

OPERATIONS: tuple[Capability, ...] = MODELS.operations()
