"""What every registry does alike: keep, show, list, replace and remove the things that a tenant registers.

A body is kept without the members that say nothing, and its hash is the ETag: whoever changes something can say which
version they saw. Which members a body has, and what must hold for them, is said by the module of its kind.

Above it: `schemas`, `models`, `tools`, `agents`. Below it: the platform
port's resources.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Conflict, NotFound, Rejected
from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import Reply
from penstock.operations.catalogue.fields import Cursor, Deleted, Limit, instant
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.stored_resources import expected_etag
from penstock.runtime.ports.platform import ResourceChanged, ResourcePage, ResourceRow, body_etag

__all__ = ["Body", "JsonSchema", "ListRegistered", "Prose", "Registry", "ResourceId", "SecretName", "check_json_schema"]


# What a path can hold without escapes, and people can read out.
_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$"

ResourceId = Annotated[
    str, Meta(description="Its id: letters, digits, `_`, `.` and `-`.", pattern=_ID_PATTERN, examples=["invoice"])
]
Prose = Annotated[Annotated[str, Meta(max_length=2_000)] | None, Meta(description="What it is, for people.")]
SecretName = Annotated[
    Annotated[str, Meta(pattern=r"^[A-Z][A-Z0-9_]{0,127}$")] | None,
    Meta(description="The name of a secret of the server; never the secret itself.", examples=["OPENAI_API_KEY"]),
]
JsonSchema = Annotated[
    dict[str, Any], Meta(description="A JSON Schema (draft 2020-12).", examples=[{"type": "object"}])
]


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody registers, without its id."""


class ListRegistered(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page."""

    prefix: Annotated[str, Meta(description="Only ids that begin like this.", min_length=1, max_length=128)] | None = (
        None
    )
    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


View = TypeVar("View", bound=msgspec.Struct)


async def check_json_schema(context: Context, name: str, schema: JsonObject | None) -> None:
    """Refuse what cannot be used as a JSON Schema; `name` is the member it stands in."""
    if schema is None:
        return
    problem = await context.services.documents.schema_problem(schema, tenant=context.tenant)
    if problem is not None:
        told = f"{name} is not a JSON Schema: {problem.message} at {problem.path or '/'}"
        pointed: JsonObject = {"errors": [{"pointer": f"/{name}{problem.path}", "message": problem.message}]}
        raise Rejected("SCHEMA_INVALID", told, "send a JSON Schema of draft 2020-12", pointed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry(Generic[View]):
    """One kind of thing: how it is called, where it stands in REST, and what a body and a view of it hold."""

    kind: str
    path: str
    body: type[Body]
    view: type[View]

    def view_of(self, row: ResourceRow) -> View:
        """A stored thing for callers."""
        known: JsonObject = {
            "id": row.resource_id,
            "etag": row.etag,
            "created_at": instant(row.created_at),
            "updated_at": instant(row.updated_at),
            "updated_by": row.updated_by,
        }
        return msgspec.convert({**row.body, **known}, self.view)

    async def found(self, context: Context, resource_id: str) -> ResourceRow:
        """Something of the caller's tenant, or NotFound."""
        row = await context.services.platform.resource(context.tenant, self.kind, resource_id)
        if row is None:
            told = f"there is no {self.kind} {resource_id}"
            raise NotFound(f"{self.kind.upper()}_NOT_FOUND", told, f"list them with {self.kind}.list")
        return row

    async def create(self, context: Context, resource_id: str, given: Body) -> Reply[View]:
        """Keep something new; refused if the id is taken."""
        row = self._row(context, resource_id, given)
        reply = Reply(value=self.view_of(row), etag=row.etag, location=f"{self.path}/{resource_id}")
        outcome = await context.services.platform.put_resource(
            row, expected_etag=None, call=idempotency.answered(context, reply)
        )
        if isinstance(outcome, ResourceChanged):
            told = f"there is a {self.kind} {resource_id} already"
            raise Conflict(f"{self.kind.upper()}_EXISTS", told, f"change it with {self.kind}.update")
        return reply

    async def get(self, context: Context, resource_id: str) -> Reply[View]:
        """Something by id."""
        row = await self.found(context, resource_id)
        return Reply(value=self.view_of(row), etag=row.etag)

    async def list(self, context: Context, given: ListRegistered) -> tuple[Sequence[View], str | None]:
        """A page by id, and where to go on."""
        page: ResourcePage = await context.services.platform.resources(
            context.tenant, self.kind, limit=given.limit, cursor=given.cursor, prefix=given.prefix
        )
        return [self.view_of(row) for row in page.rows], page.next_cursor

    async def update(self, context: Context, resource_id: str, given: Body, if_match: str | None) -> Reply[View]:
        """Replace the body of something that exists."""
        current = await self.found(context, resource_id)
        row = self._row(context, resource_id, given, created_at=current.created_at)
        reply = Reply(value=self.view_of(row), etag=row.etag)
        outcome = await context.services.platform.put_resource(
            row, expected_etag=expected_etag(if_match), call=idempotency.answered(context, reply)
        )
        if isinstance(outcome, ResourceChanged):
            raise self._changed(resource_id, outcome)
        return reply

    async def delete(self, context: Context, resource_id: str, if_match: str | None) -> Deleted:
        """Remove something that exists."""
        await self.found(context, resource_id)
        answer = Deleted(id=resource_id)
        outcome = await context.services.platform.delete_resource(
            context.tenant,
            self.kind,
            resource_id,
            expected_etag=expected_etag(if_match),
            call=idempotency.answered(context, Reply(value=answer)),
        )
        if isinstance(outcome, ResourceChanged):
            raise self._changed(resource_id, outcome)
        return answer

    def _row(self, context: Context, resource_id: str, given: Body, created_at: int | None = None) -> ResourceRow:
        members = {name: getattr(given, name) for name in self.body.__struct_fields__}
        body: JsonObject = {name: msgspec.to_builtins(value) for name, value in members.items() if value is not None}
        now = context.now_ms()
        return ResourceRow(
            tenant=context.tenant,
            kind=self.kind,
            resource_id=resource_id,
            body=body,
            etag=body_etag(body),
            created_at=now if created_at is None else created_at,
            updated_at=now,
            updated_by=context.principal.id,
        )

    def _changed(self, resource_id: str, outcome: ResourceChanged) -> Conflict | NotFound:
        if outcome.current_etag is None:
            told = f"the {self.kind} {resource_id} was deleted in between"
            return NotFound(f"{self.kind.upper()}_NOT_FOUND", told, f"create it with {self.kind}.create")
        told = f"the {self.kind} {resource_id} was changed in between; its ETag is {outcome.current_etag} now"
        return Conflict("PRECONDITION_FAILED", told, "read it again, and apply the change to that version")
