"""The registry of JSON Schemas, in versions.

A change of a schema makes a version. Documents, tools and other schemas refer to one with `$ref: "schema:order@1"`, or
to the newest at that moment with `schema:order`; what they refer to is filled in when they are stored, so nothing that
is stored depends on an entry. Old versions stay readable; when there are too many, those that no workflow has go first.

Above it: the catalogue. Below it: `registry`, `named_schemas`.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.base.encoding import encode_bytes
from penstock.base.errors import LimitExceeded, NotFound
from penstock.base.json import JsonObject, object_or_empty
from penstock.base.limits import SCHEMA_VERSIONS_BYTES_MAX, SCHEMA_VERSIONS_MAX
from penstock.definitions.schemas.references import NamedSchema, content_hash
from penstock.operations.catalogue.capability import Capability, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import instant
from penstock.operations.gate.context import Context
from penstock.operations.named_schemas import newest_version, schema_version, with_registered
from penstock.operations.registries.members import JsonSchema, Prose, check_json_schema
from penstock.operations.registries.registry import Body, Registry, RegistryTexts, resource_id_type
from penstock.runtime.ports.platform import ResourceRow

__all__ = ["OPERATIONS", "SCHEMAS"]


class SchemaBody(Body, frozen=True, kw_only=True):
    """A JSON Schema, and what it is for."""

    schema: JsonSchema
    title: Annotated[Annotated[str, Meta(max_length=200)] | None, Meta(description="A title for people.")] = None
    description: Prose = None


async def _prepared(context: Context, body: JsonObject, was: ResourceRow | None) -> JsonObject:
    """Return the body with the schemas that it refers to, its version, and the versions before it."""
    schema = await with_registered(context, "schema", object_or_empty(body["schema"]))
    await check_json_schema(context, "schema", schema)
    made: JsonObject = {**body, "schema": schema}
    if was is None:
        return {**made, "version": 1, "created_at": context.now_ms()}
    version, versions = newest_version(was.body), object_or_empty(was.body.get("versions"))
    if content_hash(object_or_empty(was.body.get("schema"))) == content_hash(schema):
        kept: JsonObject = {"version": version, "created_at": was.body.get("created_at", was.updated_at)}
        return {**made, **kept, **({"versions": versions} if versions else {})}
    old: JsonObject = {"schema": was.body.get("schema"), "created_at": was.body.get("created_at", was.updated_at)}
    versions = await _bounded(context, was.resource_id, {**versions, str(version): old})
    return {**made, "version": version + 1, "created_at": context.now_ms(), "versions": versions}


async def _bounded(context: Context, name: str, versions: JsonObject) -> JsonObject:
    """Return as many versions as are kept. The oldest that no workflow has go first."""

    def fits(held: JsonObject) -> bool:
        size_bytes: int = len(encode_bytes(held))
        return len(held) <= SCHEMA_VERSIONS_MAX and size_bytes <= SCHEMA_VERSIONS_BYTES_MAX

    if fits(versions):
        return versions
    stored = await context.services.store.definitions.list_newest(tenant=context.tenant)
    texts = [encode_bytes(row.document).decode() for row in stored]
    kept = dict(versions)
    for number in sorted(versions, key=int):
        pin = f"schema:{name}@{number} sha256:"
        if not any(pin in text for text in texts):
            del kept[number]
            if fits(kept):
                return kept
    message = f"the schema {name} has {len(kept)} versions in use by workflows, which is the maximum"
    raise LimitExceeded("SCHEMA_VERSIONS_FULL", message, "register the new schema under another id")


class SchemaVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a schema, as documents may refer to it."""

    id: str
    version: int
    ref: str
    """The `$ref` that means this version."""
    hash: str
    """The SHA-256 of its canonical JSON; every copy contains it."""
    schema: dict[str, Any]
    created_at: str | None = None


class GetSchemaVersion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which version of which schema."""

    schema_id: resource_id_type("schema", "order")  # type: ignore[valid-type]  # made by a function
    version: Annotated[int, Meta(description="The number of the version.", ge=1, examples=[1])]


def _shown(row: ResourceRow) -> JsonObject:
    older = sorted(int(number) for number in object_or_empty(row.body.get("versions")))
    newest = newest_version(row.body)
    return {"version": newest, "versions": [*older, newest]}


SCHEMAS = Registry(
    stores="schema",
    kind="schema",
    body=SchemaBody,
    example_id="order",
    create_example={"schema": {"type": "object", "required": ["order_id"]}},
    update_example={"schema": {"type": "object", "required": ["order_id"]}},
    texts=RegistryTexts(
        create="Stores a JSON Schema under an id, after checking it; documents refer to it with `$ref: schema:ID@1`.",
        get="Returns the newest version with its title and its ETag, and the numbers of all versions.",
        list="Returns the ids with their schemas, ordered by id.",
        whole="schema, and makes a new version if it differs",
        delete="Deletes the entry with its versions. Workflows, tools and other schemas keep their copies.",
    ),
    check_errors=("SCHEMA_INVALID", "SCHEMA_VERSIONS_FULL"),
    prepare=_prepared,
    shown=(("version", int), ("versions", list[int])),
    show=_shown,
)


@operation(
    "schema.get_version",
    route=Route(method="GET", path="/schemas/{schema_id}/versions/{version}"),
    scopes=("schema:read",),
    reads=True,
    subject="schema_id",
    errors=("SCHEMA_NOT_FOUND", "SCHEMA_VERSION_NOT_FOUND"),
    examples=(Example(arguments={"schema_id": "order", "version": 1}),),
)
async def schema_get_version(context: Context, given: GetSchemaVersion) -> SchemaVersion:
    """Get a version of a schema.

    Returns it as it was registered, with the hash that its copies have in `$comment`.
    """
    row = await SCHEMAS.table.find(context, given.schema_id)
    found = schema_version(row, given.version)
    if found is None:
        message = f"the schema {given.schema_id} has no version {given.version}"
        raise NotFound("SCHEMA_VERSION_NOT_FOUND", message, "list the versions with schema.get")
    return _version_view(row, found)


def _version_view(row: ResourceRow, found: NamedSchema) -> SchemaVersion:
    held = row.body
    if found.version != newest_version(row.body):
        held = object_or_empty(object_or_empty(row.body.get("versions")).get(str(found.version)))
    at = held.get("created_at")
    return SchemaVersion(
        id=found.name,
        version=found.version,
        ref=found.address,
        hash=content_hash(found.schema),
        schema=found.schema,
        created_at=instant(at) if isinstance(at, int) else None,
    )


OPERATIONS: tuple[Capability, ...] = (*SCHEMAS.operations(), schema_get_version)
