"""The registry of JSON Schemas.

Above it: the catalogue. Below it: `registry`.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from penstock.operations.catalogue.capability import Capability
from penstock.operations.gate.context import Context
from penstock.operations.registries.members import JsonSchema, Prose, check_json_schema
from penstock.operations.registries.registry import Body, Registry, RegistryTexts

__all__ = ["OPERATIONS", "SCHEMAS"]


class SchemaBody(Body, frozen=True, kw_only=True):
    """A JSON Schema, and what it is for."""

    schema: JsonSchema
    title: Annotated[Annotated[str, Meta(max_length=200)] | None, Meta(description="A title for people.")] = None
    description: Prose = None


async def _check_schema(context: Context, given: SchemaBody) -> None:
    await check_json_schema(context, "schema", given.schema)


SCHEMAS = Registry(
    kind="schema",
    body=SchemaBody,
    example_id="order",
    create_example={"schema": {"type": "object", "required": ["order_id"]}},
    update_example={"schema": {"type": "object", "required": ["order_id"]}},
    texts=RegistryTexts(
        create="Keeps a JSON Schema under an id, after checking that it is one.",
        get="The schema, with its title and its ETag.",
        list="Ids with their schemas, in order of the id.",
        whole="schema",
        delete="Workflows keep the schemas that stand in their documents; only the entry goes.",
    ),
    check=_check_schema,
    check_errors=("SCHEMA_INVALID",),
)

OPERATIONS: tuple[Capability, ...] = SCHEMAS.operations()
