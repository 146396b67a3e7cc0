"""The demo ledger as stored data: one ledger, its transactions, and what the app of a caller may see of them.

Every tenant has the ledger `ledger_main` with the transaction `txn_1` from the start; what is changed is stored. Nobody
but the owner of the data policy (`records.DataPolicy`) is limited: a caller without an app sees all of its tenant.

Above it: `transactions`. Below it: `records`, the resources of the platform store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeVar

import msgspec

from penstock.base import limits
from penstock.base.errors import Conflict, Denied, NotFound, Rejected
from penstock.base.json import JsonObject
from penstock.definitions.durations import format_instant
from penstock.operations.agent_profile.records import AppRecord, DataPolicy, app_of_caller
from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.runtime.ports.platform import ResourceChanged, ResourceRow, body_etag
from penstock.runtime.stored_bodies import decode_body
from penstock.runtime.tables.resources import list_resources, put_resource, read_resource

__all__ = ["LEDGER_ID", "Found", "LedgerView", "Range", "Transaction", "View", "change", "moment_of", "view_of"]

LEDGER_ID = "ledger_main"
_KIND = "demo_transaction"
T = TypeVar("T")
_REDACTED = "[redacted]"
_FIRST_DAY_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z


class LedgerView(msgspec.Struct, frozen=True, kw_only=True):
    """A ledger."""

    id: str
    name: str
    currency_home: str
    tz: str
    organization_id: str


class Transaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction of a ledger."""

    id: str
    ledger_id: str
    kind: Literal["income", "expense", "transfer", "adjustment"]
    title: str
    amount_home: float | int
    currency_home: str
    date: str
    notes: str | None = None
    is_deleted: bool = False
    created_at: str | None = None
    updated_at: str | None = None


_FIRST = Transaction(
    id="txn_1",
    ledger_id=LEDGER_ID,
    kind="expense",
    title="Train to Vienna",
    amount_home=42,
    currency_home="USD",
    date="2026-01-15T00:00:00.000Z",
    created_at=format_instant(_FIRST_DAY_MS),
    updated_at=format_instant(_FIRST_DAY_MS),
)


@dataclass(frozen=True, slots=True)
class Range:
    """The days of a list, as instants; None for an open end."""

    start: datetime | None
    end: datetime | None

    def contains(self, text: str) -> bool:
        """Whether an instant lies within."""
        moment = moment_of(text)
        if moment is None:
            return self.start is None and self.end is None
        return (self.start is None or self.start <= moment) and (self.end is None or moment <= self.end)


@dataclass(frozen=True, slots=True)
class Found:
    """A transaction, and its row in the store; None for one that nobody has changed yet."""

    transaction: Transaction
    row: ResourceRow | None


@dataclass(frozen=True, slots=True)
class View:
    """The ledger as one caller may see it."""

    context: Context
    app: AppRecord | None

    @property
    def policy(self) -> DataPolicy:
        """What the caller's app may touch."""
        return DataPolicy() if self.app is None else self.app.policy.data

    def ledgers(self) -> list[LedgerView]:
        """Return the ledgers that the caller may see."""
        tenant = self.context.tenant
        main = LedgerView(id=LEDGER_ID, name="Main", currency_home="USD", tz="UTC", organization_id=tenant)
        return [main] if self._allows(LEDGER_ID) else []

    def check_ledger(self, ledger_id: str) -> None:
        """Refuse a ledger that is not there, or that the caller's app may not touch; both look the same."""
        if not self._allows(ledger_id) or ledger_id != LEDGER_ID:
            message = f"the ledger {ledger_id[:100]} does not exist, or is not for this app"
            raise Denied("POLICY_DENIED", message, "list the ledgers, and use an id from the list")

    def _allows(self, ledger_id: str) -> bool:
        allowed, tenants = self.policy.allowed_ledger_ids, self.policy.allowed_org_ids
        within = tenants is None or self.context.tenant in tenants
        return within and (allowed is None or ledger_id in allowed)

    def shown(self, transaction: Transaction) -> Transaction:
        """Return a transaction without the fields that the caller may not see."""
        if self.policy.allow_sensitive_fields:
            return transaction
        return msgspec.structs.replace(transaction, title=_REDACTED, notes=None)

    async def find(self, transaction_id: str, *, deleted: bool = False) -> Found:
        """Return a transaction that the caller may touch; raise NotFound for one that is not there."""
        platform = self.context.services.platform
        row = await read_resource(platform, self.context.tenant, _KIND, transaction_id)
        found = _FIRST if row is None and transaction_id == _FIRST.id else _read(row)
        if found is None or (found.is_deleted and not deleted):
            message = f"there is no transaction {transaction_id[:100]}"
            raise NotFound("TRANSACTION_NOT_FOUND", message, "list the transactions, and use an id from the list")
        self.check_ledger(found.ledger_id)
        return Found(found, row)

    async def listed(self, ledger_id: str, days: Range) -> list[Transaction]:
        """Return the transactions of a ledger within some days, the newest first."""
        self.check_ledger(ledger_id)
        platform, tenant, cursor = self.context.services.platform, self.context.tenant, None
        found: dict[str, Transaction] = {_FIRST.id: _FIRST}
        while True:
            page = await list_resources(platform, tenant, _KIND, limit=limits.PAGE_LIMIT_MAX, cursor=cursor)
            for row in page.rows:
                found.pop(row.resource_id, None)
                if (transaction := _read(row)) is not None:
                    found[row.resource_id] = transaction
            cursor = page.next_cursor
            if cursor is None:
                break
        kept = [item for item in found.values() if not item.is_deleted and days.contains(item.date)]
        return sorted(kept, key=lambda item: (item.date, item.created_at or "", item.id), reverse=True)

    def days(self, start: str | None, end: str | None) -> Range:
        """Return the days of a list; refuse more than the caller may see. Without any, those are the last ones."""
        first, last = _day(start, "startDate"), _day(end, "endDate", ends=True)
        days_max = self.policy.max_days
        if days_max is None:
            return Range(first, last)
        now = datetime.fromtimestamp(self.context.now_ms() / 1000, UTC)
        last = last or now
        first = first or last - timedelta(days=days_max)
        if last - first > timedelta(days=days_max):
            message = f"this app may see {days_max} days at once"
            raise Denied("POLICY_DENIED", message, "ask for fewer days")
        return Range(first, last)


async def view_of(context: Context) -> View:
    """Return the ledger as the caller may see it."""
    return View(context, await app_of_caller(context.services, context.principal))


async def change(
    context: Context, found: Found | None, changed: Transaction, answer: Callable[[Transaction], T]
) -> Reply[T]:
    """Store a transaction in place of the one that was found, with the answer of the call."""
    now = context.now_ms()
    changed = msgspec.structs.replace(changed, updated_at=format_instant(now))
    body: JsonObject = msgspec.to_builtins(changed)
    row = None if found is None else found.row
    reply = Reply(value=answer(changed))
    context.call.about(changed.id)
    stored = await put_resource(
        context.services.platform,
        ResourceRow(
            tenant=context.tenant,
            kind=_KIND,
            resource_id=changed.id,
            body=body,
            etag=body_etag(body),
            created_at=now if row is None else row.created_at,
            updated_at=now,
            updated_by=context.principal.id,
        ),
        expected_etag=None if row is None else row.etag,
        call=idempotency.answered(context, reply),
    )
    if isinstance(stored, ResourceChanged):
        raise Conflict(
            "PRECONDITION_FAILED",
            f"the transaction {changed.id} was changed by another call",
            "read the state again, and send its new hash",
        )
    return reply


def _read(row: ResourceRow | None) -> Transaction | None:
    """Return the transaction in a row; None for one that was deleted for good."""
    return None if row is None or "id" not in row.body else decode_body(row, Transaction)


def moment_of(text: str) -> datetime | None:
    """Return the instant that a text stands for; None if it stands for none."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _day(text: str | None, name: str, *, ends: bool = False) -> datetime | None:
    if text is None:
        return None
    found = moment_of(text)
    if found is None:
        raise Rejected("INVALID_ARGUMENTS", f"{name}: {text[:40]!r} is not a date", "write it like 2026-01-31")
    is_day = ends and len(text) == len("2026-01-31")
    return found + timedelta(days=1) - timedelta(milliseconds=1) if is_day else found
