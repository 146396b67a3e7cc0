"""The actions of the demo ledger: list, create, update, delete, export.

They are capabilities like any other, so everything that the gate does with a call is done with these. What changes
something has a preview and a witness of the state that it was decided on.

Above it: the agent profile, MCP. Below it: `ledger`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.durations import format_instant
from penstock.operations.agent_profile.ledger import LedgerView, Transaction, View, change, moment_of, view_of
from penstock.operations.catalogue.capability import Capability, Reply
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context

__all__ = ["LEDGER_OPERATIONS", "POPULATOR"]

POPULATOR = "demo"
"""The populator of the demo ledger's capabilities."""
_HEADER = ("id", "date", "kind", "title", "amount_home", "currency_home", "created_at", "updated_at")

LedgerId = Annotated[str, Meta(description="The ledger.", min_length=1, max_length=100)]
TransactionId = Annotated[str, Meta(description="The transaction.", min_length=1, max_length=100)]
Text = Annotated[str, Meta(max_length=500)]
Title = Annotated[str, Meta(min_length=1, max_length=200)]
Currency = Annotated[str, Meta(pattern=r"^[A-Z]{3}$")]
When = Annotated[str, Meta(description="A date or an instant, e.g. 2026-02-13.", min_length=4, max_length=40)]
Amount = Annotated[float, Meta(ge=-1e12, le=1e12)] | Annotated[int, Meta(ge=-(10**12), le=10**12)]
Kind = Literal["income", "expense", "transfer", "adjustment"]


class NoInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing."""


class Ledgers(msgspec.Struct, frozen=True, kw_only=True):
    """The ledgers that the caller may see."""

    items: list[LedgerView]


class ListTransactions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which transactions, and which page of them."""

    ledgerId: LedgerId  # noqa: N815  # the profile's name
    startDate: When | None = None  # noqa: N815
    endDate: When | None = None  # noqa: N815
    page: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    pageSize: Annotated[int, Meta(ge=1, le=limits.APP_PAGE_MAX)] = limits.PAGE_LIMIT_DEFAULT  # noqa: N815


class Transactions(msgspec.Struct, frozen=True, kw_only=True):
    """A page of transactions."""

    items: list[Transaction]
    total: int
    page: int
    pageSize: int  # noqa: N815  # the profile's name
    hasMore: bool  # noqa: N815


class CreateTransaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The new transaction."""

    ledgerId: LedgerId  # noqa: N815  # the profile's name
    kind: Kind
    title: Title
    amount_home: Amount
    currency_home: Currency = "USD"
    date: When
    notes: Text | None = None


class UpdateTransaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which transaction, and what is different from now on."""

    transactionId: TransactionId  # noqa: N815  # the profile's name
    kind: Kind | None = None
    title: Title | None = None
    amount_home: Amount | None = None
    currency_home: Currency | None = None
    date: When | None = None
    notes: Text | None = None


class OneTransaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which transaction."""

    transactionId: TransactionId  # noqa: N815  # the profile's name


class ExportTransactions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which transactions, and how many at most."""

    ledgerId: LedgerId  # noqa: N815  # the profile's name
    startDate: When | None = None  # noqa: N815
    endDate: When | None = None  # noqa: N815
    limit: Annotated[int, Meta(ge=1, le=limits.APP_EXPORT_ROWS_MAX)] = limits.APP_EXPORT_ROWS_DEFAULT


class TransactionStored(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction, as it is now."""

    transaction: Transaction


class DeletedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """Which transaction was deleted, and whether for good."""

    id: str
    deleted: bool = True
    hard: bool = False


class TransactionDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction was deleted."""

    deleted: DeletedTransaction


class ExportedRows(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of an export; `truncated` says that more rows exist."""

    format: str
    ledgerId: str  # noqa: N815  # the profile's name
    rowCount: int  # noqa: N815
    truncated: bool
    csv: str


class TransactionsExported(msgspec.Struct, frozen=True, kw_only=True):
    """An export."""

    export: ExportedRows


@operation("ledger.list", route=None, scopes=("ledger.read",), reads=True)
async def ledger_list(context: Context, given: NoInput) -> Ledgers:
    """List the ledgers that this app may see."""
    return Ledgers(items=(await view_of(context)).ledgers())


@operation(
    "transaction.list",
    route=None,
    scopes=("transaction.read",),
    reads=True,
    subject="ledgerId",
    errors=("POLICY_DENIED",),
)
async def transaction_list(context: Context, given: ListTransactions) -> Transactions:
    """List the transactions of a ledger, the newest first."""
    view = await view_of(context)
    found = await view.listed(given.ledgerId, view.days(given.startDate, given.endDate))
    start = (given.page - 1) * given.pageSize
    return Transactions(
        items=[view.shown(item) for item in found[start : start + given.pageSize]],
        total=len(found),
        page=given.page,
        pageSize=given.pageSize,
        hasMore=start + given.pageSize < len(found),
    )


@operation(
    "transaction.create",
    route=None,
    scopes=("transaction.write",),
    risk="medium",
    subject="ledgerId",
    errors=("POLICY_DENIED", "INVALID_ARGUMENTS"),
)
async def transaction_create(context: Context, given: CreateTransaction) -> Reply[TransactionStored]:
    """Create a transaction."""
    view = await view_of(context)
    view.check_ledger(given.ledgerId)
    made = Transaction(
        id=f"txn_{context.services.new_id().lower()}",
        ledger_id=given.ledgerId,
        kind=given.kind,
        title=given.title,
        amount_home=given.amount_home,
        currency_home=given.currency_home,
        date=_dated(given.date),
        notes=given.notes,
        created_at=format_instant(context.now_ms()),
    )
    return await change(context, None, made, partial(_stored, view))


@operation(
    "transaction.update",
    route=None,
    scopes=("transaction.write",),
    risk="medium",
    subject="transactionId",
    errors=("POLICY_DENIED", "TRANSACTION_NOT_FOUND", "PRECONDITION_FAILED"),
)
async def transaction_update(context: Context, given: UpdateTransaction) -> Reply[TransactionStored]:
    """Change a transaction; members that are left out stay as they are."""
    view = await view_of(context)
    found = await view.find(given.transactionId)
    changed = msgspec.structs.replace(found.transaction, **_changes(given))
    return await change(context, found, changed, partial(_stored, view))


@operation(
    "transaction.delete",
    route=None,
    scopes=("transaction.delete",),
    destructive=True,
    risk="high",
    subject="transactionId",
    errors=("POLICY_DENIED", "TRANSACTION_NOT_FOUND", "PRECONDITION_FAILED"),
)
async def transaction_delete(context: Context, given: OneTransaction) -> Reply[TransactionDeleted]:
    """Delete a transaction; the owner of the file can bring it back."""
    found = await (await view_of(context)).find(given.transactionId)
    changed = msgspec.structs.replace(found.transaction, is_deleted=True)
    return await change(context, found, changed, _deleted)


@operation(
    "transaction.hard_delete",
    route=None,
    scopes=("transaction.delete",),
    destructive=True,
    risk="high",
    subject="transactionId",
    errors=("POLICY_DENIED", "TRANSACTION_NOT_FOUND", "PRECONDITION_FAILED"),
)
async def transaction_hard_delete(context: Context, given: OneTransaction) -> Reply[TransactionDeleted]:
    """Delete a transaction for good: nothing but its id is kept."""
    found = await (await view_of(context)).find(given.transactionId, deleted=True)
    emptied = msgspec.structs.replace(
        found.transaction, title="", notes=None, amount_home=0, is_deleted=True, date="1970-01-01T00:00:00.000Z"
    )
    return await change(context, found, emptied, _deleted_for_good)


@operation(
    "transactions.export_csv",
    route=None,
    scopes=("transaction.read", "transaction.export"),
    risk="high",
    subject="ledgerId",
    errors=("POLICY_DENIED",),
)
async def transactions_export_csv(context: Context, given: ExportTransactions) -> TransactionsExported:
    """Export transactions as CSV; an app gets no more rows than its grant allows."""
    view = await view_of(context)
    rows = await view.listed(given.ledgerId, view.days(given.startDate, given.endDate))
    most = given.limit if view.app is None else min(given.limit, view.app.auto_execute.high_risk.max_export_rows)
    kept = [view.shown(row) for row in rows[:most]]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_HEADER)
    writer.writerows([_cell(getattr(row, name)) for name in _HEADER] for row in kept)
    exported = ExportedRows(
        format="csv",
        ledgerId=given.ledgerId,
        rowCount=len(kept),
        truncated=len(rows) > len(kept),
        csv=text.getvalue().rstrip("\n"),
    )
    return TransactionsExported(export=exported)


def _stored(view: View, changed: Transaction) -> TransactionStored:
    return TransactionStored(transaction=view.shown(changed))


def _deleted(changed: Transaction) -> TransactionDeleted:
    return TransactionDeleted(deleted=DeletedTransaction(id=changed.id))


def _deleted_for_good(changed: Transaction) -> TransactionDeleted:
    return TransactionDeleted(deleted=DeletedTransaction(id=changed.id, hard=True))


def _cell(value: JsonValue) -> JsonValue:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _dated(text: str) -> str:
    if moment_of(text) is None:
        raise Rejected("INVALID_ARGUMENTS", f"date: {text[:40]!r} is not a date", "write it like 2026-02-13")
    return text


def _changes(given: UpdateTransaction) -> dict[str, JsonValue]:
    members = {name: getattr(given, name) for name in given.__struct_fields__ if name != "transactionId"}
    if given.date is not None:
        members["date"] = _dated(given.date)
    return {name: value for name, value in members.items() if value is not None}


async def _witness_of_ledger(context: Context, given: CreateTransaction | ExportTransactions) -> JsonValue:
    """Refuse a ledger that the caller may not touch, before somebody is asked; nothing else is witnessed."""
    view = await view_of(context)
    view.check_ledger(given.ledgerId)
    if isinstance(given, ExportTransactions):
        view.days(given.startDate, given.endDate)
    return None


async def _witness_of_transaction(context: Context, given: UpdateTransaction | OneTransaction) -> JsonValue:
    """Return the version of a transaction; refuse one that is not there, or that the caller may not touch."""
    deleted = context.capability.name == transaction_hard_delete.name
    found = (await (await view_of(context)).find(given.transactionId, deleted=deleted)).transaction
    return {
        "kind": "resource_version",
        "resource": "transaction",
        "id": found.id,
        "ledger_id": found.ledger_id,
        "updated_at": found.updated_at,
        "is_deleted": found.is_deleted,
    }


async def _impact_on_transaction(context: Context, given: UpdateTransaction | OneTransaction) -> JsonObject:
    """Return the transaction that a call would change, as far as the caller may see it."""
    view = await view_of(context)
    found = await view.find(given.transactionId, deleted=context.capability.name == transaction_hard_delete.name)
    return {"transaction": msgspec.to_builtins(view.shown(found.transaction))}


_WITNESSES: Mapping[str, Callable[[Context, Any], Awaitable[JsonValue]]] = {
    transaction_create.name: _witness_of_ledger,
    transactions_export_csv.name: _witness_of_ledger,
    transaction_update.name: _witness_of_transaction,
    transaction_delete.name: _witness_of_transaction,
    transaction_hard_delete.name: _witness_of_transaction,
}


def _demo(capability: Capability) -> Capability:
    """Return a capability of the demo's populator, which MCP offers under its plain name."""
    metadata: Mapping[str, JsonValue] = MappingProxyType({"tool": capability.name})
    witness = _WITNESSES.get(capability.name)
    impact = _impact_on_transaction if witness is _witness_of_transaction else None
    return replace(capability, populator=POPULATOR, metadata=metadata, witness=witness, impact=impact)


LEDGER_OPERATIONS: tuple[Capability, ...] = tuple(
    _demo(capability)
    for capability in (
        ledger_list,
        transaction_list,
        transaction_create,
        transaction_update,
        transaction_delete,
        transaction_hard_delete,
        transactions_export_csv,
    )
)
