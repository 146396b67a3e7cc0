"""One mechanism for every registry: turns a declaration into five operations and their input and output types.

A registry stores each entry of a tenant under an id: its body, without members that are `None`. The hash of the body is
the ETag. A module for each registry declares which members its body has and what must hold for them. The
names of the types here are those in the JSON Schemas that callers read.

Above it: a module for each registry. Below it: `stored_resources`, the platform store's resources.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Conflict
from penstock.base.json import JsonObject, JsonValue
from penstock.operations.catalogue.capability import Capability, DefinitionKind, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Cursor, Deleted, IfMatch, Limit, instant
from penstock.operations.gate.context import Context
from penstock.operations.permissions.authorship import written_by
from penstock.operations.permissions.kept_names import (
    deleted_kind,
    kept_protection,
    refuse_loosening,
    write_protection,
)
from penstock.operations.runs.proposals import AuthorView, ProposalView, author_view, proposals_of
from penstock.operations.stored_resources import BesideDeletion, ResourceTable, expected_etag
from penstock.runtime.ports.platform import ANY_ETAG, ResourceRow
from penstock.runtime.ports.transactions import Transaction
from penstock.runtime.tables.resources import read_resource

__all__ = ["Body", "ListRegistered", "Registry", "RegistryTexts", "resource_id_type"]

# Needs no escapes in a path, and can be read aloud.
_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$"
_IF_MATCH = "Send the ETag that you read as If-Match; the call is then refused if the entry has changed since."


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody registers, without its id."""


class ListRegistered(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page."""

    prefix: Annotated[str, Meta(description="Only ids with this prefix.", min_length=1, max_length=128)] | None = None
    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryTexts:
    """The texts in the documentation of a registry's operations."""

    create: str
    get: str
    delete: str
    list: str
    whole: str = "entry"
    """What an update replaces."""


def resource_id_type(kind: str, example: str) -> Any:
    """Return the type of the id of a registered resource."""
    return Annotated[str, Meta(description=f"The id of the {kind}.", pattern=_ID_PATTERN, examples=[example])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """The declaration of a registry."""

    kind: str
    """The prefix of its operations; `{kind}s` is its path."""
    stores: DefinitionKind
    """What an entry is, for the rules about who may write it."""
    article: str = "a"
    body: type[Body]
    example_id: str
    create_example: JsonObject
    """A body that works, for the documentation."""
    update_example: JsonObject
    texts: RegistryTexts
    check: Callable[[Context, Any], Awaitable[None]] | None = None
    """Refuses a body that fits its schema but is not acceptable."""
    check_errors: tuple[str, ...] = ()
    """The codes that `check` and `prepare` refuse with."""
    prepare: Callable[[Context, JsonObject, ResourceRow | None], Awaitable[JsonObject]] | None = None
    """Returns the body to store in place of the one that was sent; it gets the entry that is replaced, if any."""
    changed: Callable[[Context], None] | None = None
    """Called after an entry was stored or deleted."""
    shown: tuple[tuple[str, Any] | tuple[str, Any, Any], ...] = ()
    """Members that callers see and do not send, with their types, and what they are if an entry says nothing."""
    show: Callable[[ResourceRow], JsonObject] | None = None
    """Returns the values of `shown`."""
    configured: Callable[[Context], Mapping[str, JsonObject]] | None = None
    """Returns what the settings have of this kind, by id: members of its view. Callers see it and do not change it."""

    @property
    def table(self) -> ResourceTable:
        """The table that stores the entries."""
        return ResourceTable(kind=self.kind, noun=self.kind, deleted_hint=f"create it with {self.kind}.create")

    def operations(self) -> tuple[Capability, ...]:
        """Return its five operations: create, get, list, update, delete."""
        return _RegistryOperations(self).all()


class _RegistryOperations:
    """The types and handlers of one registry."""

    def __init__(self, declared: Registry) -> None:
        self._declared, self._table = declared, declared.table
        self._id = f"{declared.kind}_id"
        self._path = f"/{declared.kind}s"
        self._one_path = f"{self._path}/{{{self._id}}}"
        self._define_types()

    def _define_types(self) -> None:
        kind, article, body = self._declared.kind, self._declared.article, self._declared.body
        name, a_kind = kind.capitalize(), f"{article.capitalize()} {kind}"
        id_type = resource_id_type(kind, self._declared.example_id)
        named, matched = (self._id, id_type), ("if_match", IfMatch, None)
        strict = {"forbid_unknown_fields": True}
        self._create = _struct(f"Create{name}", "An id, and what it stands for.", [("id", id_type)], body, **strict)
        self._one = _struct(f"One{name}", f"Which {kind}.", [named], **strict)
        self._update = _struct(f"Update{name}", f"Which {kind}, and what it is now.", [named, matched], body, **strict)
        about_delete = f"Which {kind}, and perhaps which version of it."
        self._delete = _struct(f"Delete{name}", about_delete, [matched], self._one, **strict)
        self._view = _struct(
            f"{name}View",
            f"{a_kind}, and since when it is as it is.",
            [
                ("id", str),
                ("etag", str),
                ("created_at", str | None),
                ("updated_at", str | None),
                ("updated_by", str | None),
                ("author", AuthorView | None, None),
                *self._declared.shown,
            ],
            body,
        )
        items = ("items", list[self._view])  # type: ignore[name-defined]  # a type that is made here
        self._page = _struct(
            f"{name}Page",
            f"A page of {kind}s.",
            [items, ("next_cursor", str | None), ("proposals", list[ProposalView], [])],
        )
        self._reply_type = Reply[self._view]  # type: ignore[name-defined]  # a type that is made here

    def all(self) -> tuple[Capability, ...]:
        """Return every operation of the registry."""
        created, updated, deleted = self._changing()
        got, listed = self._reading()
        return created, got, listed, updated, deleted

    def _reading(self) -> tuple[Capability, Capability]:
        declared, texts, kind = self._declared, self._declared.texts, self._declared.kind
        return (
            operation(
                f"{kind}.get",
                route=Route(method="GET", path=self._one_path, etag=True),
                scopes=(f"{kind}:read",),
                reads=True,
                subject=self._id,
                errors=(self._table.not_found_code,),
                examples=(Example(arguments={self._id: declared.example_id}),),
                takes=self._one,
                gives=self._reply_type,
                words=f"Get {declared.article} {kind}.\n\n{texts.get}",
            )(self._got),
            operation(
                f"{kind}.list",
                route=Route(method="GET", path=self._path, query=("prefix", "limit", "cursor")),
                scopes=(f"{kind}:read",),
                reads=True,
                errors=("INVALID_LIST_CURSOR",),
                examples=(Example(arguments={"limit": 20}),),
                takes=ListRegistered,
                gives=self._page,
                words=f"List {kind}s.\n\n{texts.list}",
            )(self._listed),
        )

    def _changing(self) -> tuple[Capability, Capability, Capability]:
        declared, texts, kind = self._declared, self._declared.texts, self._declared.kind
        a_kind, not_found = f"{declared.article} {kind}", self._table.not_found_code
        match_header = {"If-Match": "if_match"}
        return (
            operation(
                f"{kind}.create",
                route=Route(method="POST", path=self._path, status=201, etag=True),
                scopes=(f"{kind}:write",),
                risk="medium",
                stores=declared.stores,
                subject="id",
                find=self._find_new,
                impact=self._impact,
                errors=(f"{kind.upper()}_EXISTS", *declared.check_errors),
                examples=(Example(arguments={"id": declared.example_id, **declared.create_example}),),
                takes=self._create,
                gives=self._reply_type,
                words=f"Register {a_kind}.\n\n{texts.create} Refused if the id is taken.",
            )(self._created),
            operation(
                f"{kind}.update",
                route=Route(method="PUT", path=self._one_path, headers=match_header, etag=True),
                scopes=(f"{kind}:write",),
                idempotent=True,
                risk="medium",
                stores=declared.stores,
                subject=self._id,
                witness=self._witness,
                find=self._find_changed,
                impact=self._impact,
                errors=(not_found, "PRECONDITION_FAILED", *declared.check_errors),
                examples=(Example(arguments={self._id: declared.example_id, **declared.update_example}),),
                takes=self._update,
                gives=self._reply_type,
                words=f"Change {a_kind}.\n\nReplaces the whole {texts.whole}. {_IF_MATCH}",
            )(self._updated),
            operation(
                f"{kind}.delete",
                route=Route(method="DELETE", path=self._one_path, headers=match_header),
                scopes=(f"{kind}:delete",),
                destructive=True,
                risk="medium",
                subject=self._id,
                witness=self._witness,
                find=self._table.finder(self._id),
                errors=(not_found, "PRECONDITION_FAILED"),
                takes=self._delete,
                gives=Deleted,
                words=f"Delete {a_kind}.\n\n{texts.delete}",
            )(self._deleted),
        )

    async def _witness(self, context: Context, given: Any) -> JsonObject:
        """Return the version that a call would change."""
        resource_id: str = getattr(given, self._id)
        row = await read_resource(context.services.platform, context.tenant, self._table.kind, resource_id)
        return {"kind": self._declared.kind, "id": resource_id, "etag": None if row is None else row.etag}

    async def _find_new(self, context: Context, given: Any) -> None:
        """Refuse an entry that cannot be stored, before anybody is asked to accept it."""
        await self._check(context, given)
        if await read_resource(context.services.platform, context.tenant, self._table.kind, given.id) is not None:
            raise self._exists(given.id)
        await self._checked_body(context, given, None)

    async def _find_changed(self, context: Context, given: Any) -> None:
        await self._check(context, given)
        await self._checked_body(context, given, await self._table.find(context, getattr(given, self._id)))

    async def _impact(self, context: Context, given: Any) -> JsonObject:
        """Return who wrote an entry, and what of the stored one it would change."""
        resource_id: str = given.id if isinstance(given, self._create) else getattr(given, self._id)
        was = await read_resource(context.services.platform, context.tenant, self._table.kind, resource_id)
        before = await self._protecting(context, resource_id, was)
        after = await self._prepared(context, given, was)
        changes: list[JsonValue] = [
            {"path": f"/{name}", "before": before.get(name), "after": after.get(name)}
            for name in sorted({*before, *after})
            if before.get(name) != after.get(name)
        ]
        diff: JsonObject = {"same": not changes, "changes": changes}
        return {self._declared.kind: resource_id, "written_by": written_by(context), "diff": diff}

    def _exists(self, resource_id: str) -> Conflict:
        kind = self._declared.kind
        message = f"the {kind} {resource_id} already exists"
        return Conflict(f"{kind.upper()}_EXISTS", message, f"change it with {kind}.update")

    async def _created(self, context: Context, given: Any) -> Reply[Any]:
        await self._check(context, given)
        row = self._table.row(context, given.id, await self._checked_body(context, given, None))
        reply = self._reply(context, row, location=f"{self._path}/{given.id}")
        if await self._table.put(context, row, None, reply) is not None:
            raise self._exists(given.id)
        self._changed(context)
        return reply

    async def _got(self, context: Context, given: Any) -> Reply[Any]:
        configured = self._configured(context)
        if (chosen := getattr(given, self._id)) in configured:
            return Reply(value=configured[chosen])
        return self._reply(context, await self._table.find(context, chosen))

    async def _listed(self, context: Context, given: ListRegistered) -> Any:
        page = await self._table.page(context, limit=given.limit, cursor=given.cursor, prefix=given.prefix)
        begins, configured = given.prefix or "", self._configured(context)
        first = configured if given.cursor is None else {}
        items = [view for name, view in first.items() if name.startswith(begins)]
        items += [self._view_of(context, row) for row in page.rows if row.resource_id not in configured]
        kind = self._declared.stores
        proposals = await proposals_of(context, kind, cursor=given.cursor, prefix=given.prefix)
        return self._page(items=items, next_cursor=page.next_cursor, proposals=proposals)

    def _configured(self, context: Context) -> dict[str, Any]:
        """Return the views of what the settings have, by id and in their order."""
        if self._declared.configured is None:
            return {}
        unknown: JsonObject = {"etag": "", "created_at": None, "updated_at": None, "updated_by": None}
        found = sorted(self._declared.configured(context).items())
        return {name: msgspec.convert({**unknown, **members, "id": name}, self._view) for name, members in found}

    async def _updated(self, context: Context, given: Any) -> Reply[Any]:
        await self._check(context, given)
        current = await self._table.find(context, getattr(given, self._id))
        body = await self._checked_body(context, given, current)
        row = self._table.row(context, current.resource_id, body, was=current)
        reply, expected = self._reply(context, row), expected_etag(given.if_match)
        if self._declared.prepare is not None and expected == ANY_ETAG:
            expected = current.etag  # the new body was made of this one
        await self._table.store(context, row, expected, reply)
        self._changed(context)
        return reply

    async def _deleted(self, context: Context, given: Any) -> Deleted:
        def write_kept(transaction: Transaction, deleted: ResourceRow) -> None:
            write_protection(transaction, context, deleted)

        beside = BesideDeletion(deleted_kind(self._table.kind), write_kept)
        answer = await self._table.delete(context, getattr(given, self._id), given.if_match, beside=beside)
        self._changed(context)
        return answer

    async def _protecting(self, context: Context, resource_id: str, was: ResourceRow | None) -> JsonObject:
        """Return what protects a name: the entry that is stored, or what is kept of a deleted one."""
        return await kept_protection(context, self._declared.kind, resource_id) if was is None else was.body

    async def _checked_body(self, context: Context, given: Any, was: ResourceRow | None) -> JsonObject:
        """Return the body to store; refuse one without a scope that protects its name, if the caller lacks that."""
        resource_id: str = given.id if was is None else was.resource_id
        body, before = await self._prepared(context, given, was), await self._protecting(context, resource_id, was)
        refuse_loosening(context, f"{self._declared.kind} {resource_id}", before, body)
        return body

    def _changed(self, context: Context) -> None:
        if self._declared.changed is not None:
            self._declared.changed(context)

    async def _check(self, context: Context, given: Any) -> None:
        if self._declared.check is not None:
            await self._declared.check(context, given)

    async def _prepared(self, context: Context, given: Any, was: ResourceRow | None) -> JsonObject:
        body, prepare = self._body_of(given), self._declared.prepare
        return body if prepare is None else await prepare(context, body, was)

    def _body_of(self, given: Any) -> JsonObject:
        members = {name: getattr(given, name) for name in self._declared.body.__struct_fields__}
        return {name: msgspec.to_builtins(value) for name, value in members.items() if value is not None}

    def _view_of(self, context: Context, row: ResourceRow) -> Any:
        known: JsonObject = {
            "id": row.resource_id,
            "etag": row.etag,
            "created_at": instant(row.created_at),
            "updated_at": instant(row.updated_at),
            "updated_by": row.updated_by,
            "author": msgspec.to_builtins(author_view(context.services, row.author)),
            **({} if self._declared.show is None else self._declared.show(row)),
        }
        return msgspec.convert({**row.body, **known}, self._view)

    def _reply(self, context: Context, row: ResourceRow, *, location: str | None = None) -> Reply[Any]:
        return Reply(value=self._view_of(context, row), etag=row.etag, location=location)


def _struct(
    name: str,
    description: str,
    members: list[Any],
    base: Any = msgspec.Struct,
    *,
    forbid_unknown_fields: bool = False,
) -> Any:
    """Make a struct type; its name and description are those of its JSON Schema."""
    return msgspec.defstruct(
        name,
        members,
        bases=(base,),
        namespace={"__doc__": description},
        module=__name__,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=forbid_unknown_fields,
    )
