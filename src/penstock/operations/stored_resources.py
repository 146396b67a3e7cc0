"""What a tenant stores under ids, each with an ETag: find, store and delete one, and refuse outdated changes.

Above it: the registries, the webhooks that are sent. Below it: the resources of the platform store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from penstock.base.errors import Conflict, NotFound
from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import Reply
from penstock.operations.catalogue.fields import Deleted
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.permissions.authorship import author_of
from penstock.runtime.ports.platform import (
    ANY_ETAG,
    ResourceChanged,
    ResourceDeleted,
    ResourcePage,
    ResourceRow,
    body_etag,
)
from penstock.runtime.ports.transactions import Transaction
from penstock.runtime.tables.resources import (
    list_resources,
    lock_resource,
    put_resource,
    read_resource,
    stored_resource,
    write_deletion,
)

__all__ = ["ResourceTable", "expected_etag"]

_APPLY_AGAIN = "read it again, and apply the change to that version"


def expected_etag(if_match: str | None) -> str:
    """Return the version that an If-Match header names; any version if there is no header."""
    if if_match is None or if_match.strip() == ANY_ETAG:
        return ANY_ETAG
    return if_match.strip().removeprefix("W/").strip('"')


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTable:
    """The resources of one kind, and the words that callers see for them."""

    kind: str
    """The kind under which they are stored."""
    noun: str
    """What callers call them: the first part of the names of their operations."""
    deleted_hint: str | None = None
    """The hint for a resource that was deleted in the meantime."""
    delete_hint: str = _APPLY_AGAIN
    """The hint for a resource that was changed before it could be deleted."""

    @property
    def not_found_code(self) -> str:
        """The error code for a resource that does not exist."""
        return f"{self.noun.upper()}_NOT_FOUND"

    async def find(self, context: Context, resource_id: str) -> ResourceRow:
        """Return a resource of the caller's tenant; raise NotFound if it does not exist."""
        row = await read_resource(context.services.platform, context.tenant, self.kind, resource_id)
        if row is None:
            message = f"there is no {self.noun} {resource_id}"
            raise NotFound(self.not_found_code, message, f"list them with {self.noun}.list")
        return row

    def finder(self, member: str) -> Callable[[Context, Any], Awaitable[ResourceRow]]:
        """Return the function that finds the resource that a member of a call's input names."""

        async def find(context: Context, given: Any) -> ResourceRow:
            return await self.find(context, getattr(given, member))

        return find

    async def page(
        self, context: Context, *, limit: int, cursor: str | None, prefix: str | None = None
    ) -> ResourcePage:
        """Return a page of the caller's tenant's resources, in order of their ids."""
        return await list_resources(
            context.services.platform, context.tenant, self.kind, limit=limit, cursor=cursor, prefix=prefix
        )

    def row(
        self, context: Context, resource_id: str, body: JsonObject, *, was: ResourceRow | None = None
    ) -> ResourceRow:
        """Return a new version of a resource, made now by the caller; `was` is the version before it."""
        now = context.now_ms()
        return ResourceRow(
            tenant=context.tenant,
            kind=self.kind,
            resource_id=resource_id,
            body=body,
            etag=body_etag(body),
            created_at=now if was is None else was.created_at,
            updated_at=now,
            updated_by=context.principal.id,
            author=author_of(context),
        )

    async def put(
        self, context: Context, row: ResourceRow, expected: str | None, reply: Reply[Any]
    ) -> ResourceChanged | None:
        """Store a version with the answer of the call; return the conflict if it is not the expected one."""
        outcome = await put_resource(
            context.services.platform, row, expected_etag=expected, call=idempotency.answered(context, reply)
        )
        return outcome if isinstance(outcome, ResourceChanged) else None

    async def store(self, context: Context, row: ResourceRow, expected: str | None, reply: Reply[Any]) -> None:
        """Store a version in place of the expected one (None: there must be none); raise if another one is stored."""
        changed = await self.put(context, row, expected, reply)
        if changed is not None:
            raise self._too_late(row.resource_id, changed, _APPLY_AGAIN)

    async def delete(
        self,
        context: Context,
        resource_id: str,
        if_match: str | None,
        *,
        told: str | None = None,
        beside: Callable[[Transaction, ResourceRow], None] | None = None,
    ) -> Deleted:
        """Delete a resource; raise NotFound if it does not exist.

        `told` is its id for callers, if that differs. `beside` gets what is deleted, and stores something with it.
        """
        await self.find(context, resource_id)
        answer = Deleted(id=resource_id if told is None else told)

        def change(transaction: Transaction) -> ResourceDeleted | ResourceChanged:
            lock_resource(transaction, context.tenant, self.kind, resource_id)
            row = stored_resource(transaction, context.tenant, self.kind, resource_id)
            outcome = write_deletion(transaction, context.tenant, self.kind, resource_id, expected_etag(if_match))
            if row is not None and isinstance(outcome, ResourceDeleted) and beside is not None:
                beside(transaction, row)
            return outcome

        call = idempotency.answered(context, Reply(value=answer))
        outcome = await context.services.platform.write(change, call=call)
        if isinstance(outcome, ResourceChanged):
            raise self._too_late(resource_id, outcome, self.delete_hint)
        return answer

    def _too_late(self, resource_id: str, outcome: ResourceChanged, hint: str) -> Conflict | NotFound:
        if outcome.current_etag is None:
            message = f"the {self.noun} {resource_id} was deleted by another call"
            return NotFound(self.not_found_code, message, self.deleted_hint)
        message = f"the {self.noun} {resource_id} was changed by another call; its ETag is {outcome.current_etag} now"
        return Conflict("PRECONDITION_FAILED", message, hint)
