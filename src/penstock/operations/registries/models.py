"""Operations on models: which language models there are, and how they are reached.

A key of a provider is named, never sent: `api_key_secret` is the name of one of the server's secrets.

Above it: the catalogue. Below it: `registry`.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Deleted, IfMatch
from penstock.operations.gate.context import Context
from penstock.operations.registries.registry import (
    Body,
    ListRegistered,
    Prose,
    Registry,
    ResourceId,
    SecretName,
)

__all__ = ["OPERATIONS"]

ModelId = Annotated[ResourceId, Meta(description="The id of the model.", examples=["fast"])]


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
    api_key_secret: SecretName = None
    parameters: Annotated[dict[str, Any] | None, Meta(description="Temperature and the like.")] = None
    description: Prose = None


class CreateModel(ModelBody, frozen=True, kw_only=True):
    """An id, and what it stands for."""

    id: ModelId


class OneModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which model."""

    model_id: ModelId


class UpdateModel(ModelBody, frozen=True, kw_only=True):
    """Which model, and what it is now."""

    model_id: ModelId
    if_match: IfMatch = None


class DeleteModel(OneModel, frozen=True, kw_only=True):
    """Which model, and perhaps which version of it."""

    if_match: IfMatch = None


class ModelView(ModelBody, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A model, and since when it is as it is."""

    id: str
    etag: str
    created_at: str | None
    updated_at: str | None
    updated_by: str | None


class ModelPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of models."""

    items: list[ModelView]
    next_cursor: str | None


_REGISTRY = Registry(kind="model", path="/models", body=ModelBody, view=ModelView)


@operation(
    "model.create",
    route=Route(method="POST", path="/models", status=201, etag=True),
    scopes=("model:write",),
    risk="medium",
    subject="id",
    errors=("MODEL_EXISTS",),
    examples=(
        Example(
            arguments={"id": "fast", "provider": "openai", "model": "gpt-5-mini", "api_key_secret": "OPENAI_API_KEY"}
        ),
    ),
)
async def model_create(context: Context, given: CreateModel) -> Reply[ModelView]:
    """Register a model.

    Names a provider's model, and the secret that holds the key for it. Refused if the id is taken.
    """
    return await _REGISTRY.create(context, given.id, given)


@operation(
    "model.get",
    route=Route(method="GET", path="/models/{model_id}", etag=True),
    scopes=("model:read",),
    reads=True,
    subject="model_id",
    errors=("MODEL_NOT_FOUND",),
    examples=(Example(arguments={"model_id": "fast"}),),
)
async def model_get(context: Context, given: OneModel) -> Reply[ModelView]:
    """Get a model.

    The provider, the model's name there and its parameters; never a key.
    """
    return await _REGISTRY.get(context, given.model_id)


@operation(
    "model.list",
    route=Route(method="GET", path="/models", query=("prefix", "limit", "cursor")),
    scopes=("model:read",),
    reads=True,
    errors=("INVALID_LIST_CURSOR",),
    examples=(Example(arguments={"limit": 20}),),
)
async def model_list(context: Context, given: ListRegistered) -> ModelPage:
    """List models.

    Models by id; use it to find out which there are.
    """
    items, next_cursor = await _REGISTRY.list(context, given)
    return ModelPage(items=list(items), next_cursor=next_cursor)


@operation(
    "model.update",
    route=Route(method="PUT", path="/models/{model_id}", headers={"If-Match": "if_match"}, etag=True),
    scopes=("model:write",),
    idempotent=True,
    risk="medium",
    subject="model_id",
    errors=("MODEL_NOT_FOUND", "PRECONDITION_FAILED"),
    examples=(Example(arguments={"model_id": "fast", "provider": "openai", "model": "gpt-5-mini"}),),
)
async def model_update(context: Context, given: UpdateModel) -> Reply[ModelView]:
    """Change a model.

    Replaces the whole entry. Send the ETag that you read as If-Match to be refused when somebody else changed it.
    """
    return await _REGISTRY.update(context, given.model_id, given, given.if_match)


@operation(
    "model.delete",
    route=Route(method="DELETE", path="/models/{model_id}", headers={"If-Match": "if_match"}),
    scopes=("model:delete",),
    destructive=True,
    risk="medium",
    subject="model_id",
    errors=("MODEL_NOT_FOUND", "PRECONDITION_FAILED"),
)
async def model_delete(context: Context, given: DeleteModel) -> Deleted:
    """Delete a model.

    Agents that name it cannot use it any more.
    """
    return await _REGISTRY.delete(context, given.model_id, given.if_match)


OPERATIONS: tuple[Capability, ...] = (model_create, model_get, model_list, model_update, model_delete)
