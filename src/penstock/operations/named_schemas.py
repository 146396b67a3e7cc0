"""The registered schemas of a tenant, for `$ref: "schema:order@1"` in documents and in other registries.

An entry of the registry has its versions in its body: `version` is the newest, `versions` has the older ones. An entry
from before versioning counts as version 1.

Above it: the registries, the operations on workflows. Below it: the resources of the platform store.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.definitions.schemas.references import (
    NamedSchema,
    SchemaReference,
    embed,
    references_in,
    why_not_embedded,
)
from penstock.definitions.source.findings import suggestion
from penstock.operations.gate.context import Context
from penstock.operations.permissions.authorship import refuse_proposed
from penstock.runtime.ports.platform import ResourceRow
from penstock.runtime.tables.resources import list_resources, read_resource

__all__ = ["find_schemas", "known_schemas", "newest_version", "schema_version", "with_registered"]

_KIND = "schema"


def newest_version(body: JsonObject) -> int:
    """Return the number of the newest version of an entry."""
    version = body.get("version")
    return version if isinstance(version, int) else 1


def schema_version(row: ResourceRow, version: int | None) -> NamedSchema | None:
    """Return a version of an entry, the newest for None; None if the entry does not have it."""
    newest = newest_version(row.body)
    wanted = newest if version is None else version
    held: JsonValue = row.body.get("schema")
    if wanted != newest:
        held = object_or_empty(object_or_empty(row.body.get("versions")).get(str(wanted))).get("schema")
    return NamedSchema(name=row.resource_id, version=wanted, schema=held) if isinstance(held, dict) else None


async def find_schemas(context: Context, references: Iterable[SchemaReference]) -> dict[str, NamedSchema]:
    """Return what references mean, by their texts; those that mean nothing are left out.

    Raise `Denied` for a schema that somebody proposed and nobody accepted.
    """
    found: dict[str, NamedSchema] = {}
    for reference in references:
        if reference.name is None or reference.text in found:
            continue
        row = await read_resource(context.services.platform, context.tenant, _KIND, reference.name)
        if row is not None:
            refuse_proposed(context.services, row.author, f"schema {row.resource_id}", row.etag)
        schema = None if row is None else schema_version(row, reference.version)
        if schema is not None:
            found[reference.text] = schema
    return found


async def known_schemas(context: Context) -> list[str]:
    """Return the names of registered schemas, as many as fit on a page, for hints."""
    page = await list_resources(context.services.platform, context.tenant, _KIND, limit=limits.PAGE_LIMIT_MAX)
    return [row.resource_id for row in page.rows]


async def with_registered(context: Context, member: str, schema: JsonObject) -> JsonObject:
    """Return a schema with the registered ones that it refers to; raise Rejected if one is missing.

    `member` is what callers call the member that holds it.
    """
    references = tuple(references_in(schema))
    found = await find_schemas(context, references)
    for reference in references:
        named = found.get(reference.text)
        why = None if named is None else why_not_embedded(named.schema)
        if named is None or why is not None:
            known = await known_schemas(context)
            wrong = "is not a schema that is registered" if why is None else f"cannot be part of another schema: {why}"
            message = f"`{reference.text}` {wrong}"
            hint = suggestion(reference.name or "", known) or "register it first with schema.create"
            pointed: JsonObject = {"errors": [{"pointer": f"/{member}{reference.path}", "message": message}]}
            raise Rejected("SCHEMA_INVALID", message, hint, pointed)
    return embed(schema, found)
