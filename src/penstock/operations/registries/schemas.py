"""Operations on schemas: JSON Schemas that workflows, tools and people share by id.

Above it: the catalogue. Below it: `registry`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Deleted, IfMatch
from penstock.operations.gate.context import Context
from penstock.operations.registries.registry import (
    Body,
    JsonSchema,
    ListRegistered,
    Prose,
    Registry,
    ResourceId,
    check_json_schema,
)

__all__ = ["OPERATIONS"]

SchemaId = Annotated[ResourceId, Meta(description="The id of the schema.", examples=["order"])]


class SchemaBody(Body, frozen=True, kw_only=True):
    """A JSON Schema, and what it is for."""

    schema: JsonSchema
    title: Annotated[Annotated[str, Meta(max_length=200)] | None, Meta(description="A title for people.")] = None
    description: Prose = None


class CreateSchema(SchemaBody, frozen=True, kw_only=True):
    """An id, and what it stands for."""

    id: SchemaId


class OneSchema(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which schema."""

    schema_id: SchemaId


class UpdateSchema(SchemaBody, frozen=True, kw_only=True):
    """Which schema, and what it is now."""

    schema_id: SchemaId
    if_match: IfMatch = None


class DeleteSchema(OneSchema, frozen=True, kw_only=True):
    """Which schema, and perhaps which version of it."""

    if_match: IfMatch = None


class SchemaView(SchemaBody, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A schema, and since when it is as it is."""

    id: str
    etag: str
    created_at: str | None
    updated_at: str | None
    updated_by: str | None


class SchemaPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of schemas."""

    items: list[SchemaView]
    next_cursor: str | None


_REGISTRY = Registry(kind="schema", path="/schemas", body=SchemaBody, view=SchemaView)


@operation(
    "schema.create",
    route=Route(method="POST", path="/schemas", status=201, etag=True),
    scopes=("schema:write",),
    risk="medium",
    subject="id",
    errors=("SCHEMA_EXISTS", "SCHEMA_INVALID"),
    examples=(Example(arguments={"id": "order", "schema": {"type": "object", "required": ["order_id"]}}),),
)
async def schema_create(context: Context, given: CreateSchema) -> Reply[SchemaView]:
    """Register a schema.

    Keeps a JSON Schema under an id, after checking that it is one. Refused if the id is taken.
    """
    await check_json_schema(context, "schema", given.schema)
    return await _REGISTRY.create(context, given.id, given)


@operation(
    "schema.get",
    route=Route(method="GET", path="/schemas/{schema_id}", etag=True),
    scopes=("schema:read",),
    reads=True,
    subject="schema_id",
    errors=("SCHEMA_NOT_FOUND",),
    examples=(Example(arguments={"schema_id": "order"}),),
)
async def schema_get(context: Context, given: OneSchema) -> Reply[SchemaView]:
    """Get a schema.

    The schema, with its title and its ETag.
    """
    return await _REGISTRY.get(context, given.schema_id)


@operation(
    "schema.list",
    route=Route(method="GET", path="/schemas", query=("prefix", "limit", "cursor")),
    scopes=("schema:read",),
    reads=True,
    errors=("INVALID_LIST_CURSOR",),
    examples=(Example(arguments={"limit": 20}),),
)
async def schema_list(context: Context, given: ListRegistered) -> SchemaPage:
    """List schemas.

    Ids with their schemas, in order of the id.
    """
    items, next_cursor = await _REGISTRY.list(context, given)
    return SchemaPage(items=list(items), next_cursor=next_cursor)


@operation(
    "schema.update",
    route=Route(method="PUT", path="/schemas/{schema_id}", headers={"If-Match": "if_match"}, etag=True),
    scopes=("schema:write",),
    idempotent=True,
    risk="medium",
    subject="schema_id",
    errors=("SCHEMA_NOT_FOUND", "PRECONDITION_FAILED", "SCHEMA_INVALID"),
    examples=(Example(arguments={"schema_id": "order", "schema": {"type": "object", "required": ["order_id"]}}),),
)
async def schema_update(context: Context, given: UpdateSchema) -> Reply[SchemaView]:
    """Change a schema.

    Replaces the whole schema. Send the ETag that you read as If-Match to be refused when somebody else changed it.
    """
    await check_json_schema(context, "schema", given.schema)
    return await _REGISTRY.update(context, given.schema_id, given, given.if_match)


@operation(
    "schema.delete",
    route=Route(method="DELETE", path="/schemas/{schema_id}", headers={"If-Match": "if_match"}),
    scopes=("schema:delete",),
    destructive=True,
    risk="medium",
    subject="schema_id",
    errors=("SCHEMA_NOT_FOUND", "PRECONDITION_FAILED"),
)
async def schema_delete(context: Context, given: DeleteSchema) -> Deleted:
    """Delete a schema.

    Workflows keep the schemas that stand in their documents; only the entry goes.
    """
    return await _REGISTRY.delete(context, given.schema_id, given.if_match)


OPERATIONS: tuple[Capability, ...] = (schema_create, schema_get, schema_list, schema_update, schema_delete)
