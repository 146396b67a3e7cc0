"""The platform store in SQLite: API keys, idempotent calls, the audit log, resources and deliveries.

It shares the database of a run store: its changes go into the same transactions as the decisions of runs. A key is read
on the event loop's thread. That takes a few microseconds, a fraction of a round trip to another thread.

Above it: `app` and the conformance suite. Below it: `database`, and one module for each table.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Collection, Mapping, Sequence

from penstock.base.json import JsonValue
from penstock.governance.audit.chain import ChainHead, RemovedRecords
from penstock.governance.quotas import UsageRow
from penstock.runtime.ports.platform import (
    AuditChains,
    AuditEntry,
    AuditHold,
    AuditPage,
    AuditQuery,
    CallRecord,
    Claimed,
    ClaimOutcome,
    DeliveryPage,
    DeliveryRow,
    Finished,
    IdempotencyClaim,
    InFlight,
    KeyNotReplaced,
    KeyPage,
    KeyReplaced,
    KeyRow,
    ResourceChanged,
    ResourceDeleted,
    ResourcePage,
    ResourcePut,
    ResourceRow,
    Seal,
)
from penstock.runtime.ports.usage import BucketLevel, BucketUse, PolicyTotal, PolicyUse, TakenUses
from penstock.runtime.stores.rules.listings import platform_page_size
from penstock.runtime.stores.sqlite.codec import encode_json
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.platform import api_keys, call_records, policy_uses
from penstock.runtime.stores.sqlite.platform import deliveries as delivery_rows
from penstock.runtime.stores.sqlite.platform import resources as resource_rows
from penstock.runtime.stores.sqlite.platform import usage as usage_rows
from penstock.runtime.stores.sqlite.platform.audit import heads, records, removal

__all__ = ["SqlitePlatformStore"]

# Sealing takes tens of microseconds per entry. More entries than this would noticeably block the event loop.
_ENTRIES_ON_LOOP_MAX = 100


class SqlitePlatformStore:
    """The platform store in a database that a run store opens and closes."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    # --- keys ------------------------------------------------------------------------------------

    async def put_key(self, key: KeyRow, *, call: CallRecord | None = None) -> None:
        """Store a key, or update the key with the same id."""
        await call_records.change(self._database.writer, lambda connection: api_keys.put_key(connection, key), call)

    async def replace_key(
        self, ended: KeyRow, successor: KeyRow, *, call: CallRecord | None = None
    ) -> KeyReplaced | KeyNotReplaced:
        """Store a successor and end the key that it replaces."""
        return await call_records.change(
            self._database.writer, lambda connection: api_keys.replace_key(connection, ended, successor), call
        )

    async def key(self, key_id: str) -> KeyRow | None:
        """The current row of a key, by id."""
        try:
            return self._database.read_on_loop(lambda connection: api_keys.read_key(connection, key_id))
        except UnicodeEncodeError:
            return None  # half of a surrogate pair: no key contains it
        except sqlite3.Error:
            # The file is locked, or worse. A reader thread can wait, and it explains the error.
            return await self._database.read(lambda connection: api_keys.read_key(connection, key_id))

    def change_mark(self) -> int | None:
        """A number that changes once any process has committed anything to the file."""
        return self._database.change_mark()

    async def keys(
        self, *, tenant: str | None, limit: int, cursor: str | None = None, ids: Collection[str] | None = None
    ) -> KeyPage:
        """Keys of a tenant (None: of all), newest first; with `ids`, only those."""
        return await self._database.read(
            lambda connection: api_keys.read_keys(connection, tenant=tenant, limit=limit, cursor=cursor, ids=ids)
        )

    async def touch_keys(self, used_at: Mapping[str, int]) -> None:
        """Record when keys were last used."""
        given = dict(used_at)
        if given:
            await self._database.writer.submit(lambda connection: api_keys.touch_keys(connection, given))

    # --- calls -----------------------------------------------------------------------------------

    async def stored_call(self, claim: IdempotencyClaim) -> InFlight | Finished | None:
        """The state of another call with this key; read on the event loop's thread, as keys are."""
        try:
            return self._database.read_on_loop(lambda connection: call_records.stored_call(connection, claim))
        except (sqlite3.Error, UnicodeEncodeError):
            return await self._database.read(lambda connection: call_records.stored_call(connection, claim))

    async def record_call(self, call: CallRecord) -> ClaimOutcome:
        """Store the record of a call that changes nothing else."""
        outcome = await self._database.writer.submit(lambda connection: call_records.record_call(connection, call))
        if isinstance(outcome, Claimed):
            call.committed()
        return outcome

    async def release_call(self, claim: IdempotencyClaim) -> None:
        """Free the key of a call that did not happen."""
        await self._database.writer.submit(lambda connection: call_records.release_call(connection, claim))

    async def forget_calls(self, *, now: int, limit: int) -> int:
        """Drop expired calls."""
        return await self._database.writer.submit(
            lambda connection: call_records.forget_calls(connection, self._database.set_aside, now=now, limit=limit),
            is_long=True,
        )

    # --- audit -----------------------------------------------------------------------------------

    def append_audit(self, entries: Sequence[AuditEntry], *, seal: Seal) -> Awaitable[None]:
        """Append to the chains of the entries' tenants, all in one job."""
        given = tuple(entries)
        return self._database.writer.submit(
            lambda connection: records.append_audit(connection, given, seal),
            is_long=len(given) > _ENTRIES_ON_LOOP_MAX,
        )

    async def audit(self, query: AuditQuery) -> AuditPage:
        """Records of a tenant."""
        return await self._database.read(lambda connection: records.read_audit(connection, query))

    async def audit_head(self, tenant: str) -> ChainHead | None:
        """The sealed ends of a tenant's chain."""
        return await self._database.read(lambda connection: heads.read_head(connection, tenant))

    async def audit_chains(self) -> AuditChains:
        """The number of chains found and the number sealed."""
        return await self._database.read(heads.read_chains)

    async def forget_audit(
        self,
        *,
        tenant: str,
        before_seq: int,
        seal: Seal,
        holds: Sequence[AuditHold] = (),
        call: CallRecord | None = None,
    ) -> int:
        """Remove the oldest records of a chain that nothing holds."""
        return await call_records.change(
            self._database.writer,
            lambda connection: removal.forget_audit(
                connection, self._database.set_aside, tenant=tenant, before_seq=before_seq, seal=seal, holds=holds
            ),
            call,
            happened=bool,
            is_long=True,
        )

    async def audit_removed(self, tenant: str, *, after_seq: int = 0, limit: int) -> tuple[RemovedRecords, ...]:
        """What was removed of a chain."""
        size = platform_page_size(limit)
        return await self._database.read(lambda connection: removal.read_removed(connection, tenant, after_seq, size))

    async def redact_audit(
        self,
        *,
        tenant: str,
        seqs: Sequence[int],
        names: Collection[str],
        holds: Sequence[AuditHold] = (),
        call: CallRecord | None = None,
    ) -> int:
        """Erase fields of records that nothing holds."""
        return await call_records.change(
            self._database.writer,
            lambda connection: removal.redact_audit(connection, tenant=tenant, seqs=seqs, names=names, holds=holds),
            call,
            happened=bool,
            is_long=True,
        )

    async def audit_tenants(self) -> tuple[str, ...]:
        """Every tenant that has records."""
        return await self._database.read(records.audit_tenants)

    # --- resources -------------------------------------------------------------------------------

    async def put_resource(
        self, resource: ResourceRow, *, expected_etag: str | None, call: CallRecord | None = None
    ) -> ResourcePut | ResourceChanged:
        """Store a resource if its etag is the expected one."""
        body = encode_json(resource.body)
        return await call_records.change(
            self._database.writer,
            lambda connection: resource_rows.put_resource(connection, resource, body, expected_etag),
            call,
        )

    async def put_resources(self, resources: Sequence[ResourceRow], *, call: CallRecord | None = None) -> None:
        """Store resources over whatever is there."""
        given = [(resource, encode_json(resource.body)) for resource in resources]
        await call_records.change(
            self._database.writer,
            lambda connection: resource_rows.put_resources(connection, given),
            call,
            is_long=len(given) > _ENTRIES_ON_LOOP_MAX,
        )

    async def resource(self, tenant: str, kind: str, resource_id: str) -> ResourceRow | None:
        """A resource by id."""
        return await self._database.read(
            lambda connection: resource_rows.read_resource(connection, tenant, kind, resource_id),
        )

    async def resources(
        self, tenant: str, kind: str, *, limit: int, cursor: str | None = None, prefix: str | None = None
    ) -> ResourcePage:
        """Resources of a kind, ordered by id."""
        return await self._database.read(
            lambda connection: resource_rows.read_resources(
                connection, tenant, kind, limit=limit, cursor=cursor, prefix=prefix or ""
            )
        )

    async def all_resources(self, kind: str) -> tuple[ResourceRow, ...]:
        """Resources of a kind of every tenant."""
        return await self._database.read(lambda connection: resource_rows.read_all_resources(connection, kind))

    async def delete_resource(
        self, tenant: str, kind: str, resource_id: str, *, expected_etag: str, call: CallRecord | None = None
    ) -> ResourceDeleted | ResourceChanged:
        """Remove a resource if its etag is the expected one."""
        return await call_records.change(
            self._database.writer,
            lambda connection: resource_rows.delete_resource(connection, tenant, kind, resource_id, expected_etag),
            call,
        )

    # --- deliveries ------------------------------------------------------------------------------

    async def add_deliveries(self, deliveries: Sequence[DeliveryRow], *, call: CallRecord | None = None) -> int:
        """Queue deliveries that are not known yet."""
        given = [(delivery, encode_json(delivery.event)) for delivery in deliveries]
        return await call_records.change(
            self._database.writer,
            lambda connection: delivery_rows.add_deliveries(connection, given),
            call,
            happened=bool,
        )

    async def due_deliveries(self, *, now: int, limit: int) -> tuple[DeliveryRow, ...]:
        """Pending deliveries that are due."""
        return await self._database.read(lambda connection: delivery_rows.read_due(connection, now=now, limit=limit))

    async def next_delivery_at(self) -> int | None:
        """When the next pending delivery is due."""
        return await self._database.read(delivery_rows.next_delivery_at)

    async def save_delivery(self, delivery: DeliveryRow, *, call: CallRecord | None = None) -> None:
        """Store the result of an attempt."""
        await call_records.change(
            self._database.writer, lambda connection: delivery_rows.save_delivery(connection, delivery), call
        )

    async def delivery(self, tenant: str, delivery_id: str) -> DeliveryRow | None:
        """A delivery by id."""
        return await self._database.read(
            lambda connection: delivery_rows.read_delivery(connection, tenant, delivery_id)
        )

    async def deliveries(
        self,
        tenant: str,
        *,
        endpoint_id: str | None = None,
        state: str | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> DeliveryPage:
        """Deliveries of a tenant, the most recently queued first."""
        return await self._database.read(
            lambda connection: delivery_rows.read_deliveries(
                connection, tenant, endpoint_id=endpoint_id, state=state, limit=limit, cursor=cursor
            )
        )

    async def forget_deliveries(self, *, before: int, limit: int) -> int:
        """Drop deliveries that ended before a given time."""
        return await self._database.writer.submit(
            lambda connection: delivery_rows.forget_deliveries(
                connection, self._database.set_aside, before=before, limit=limit
            ),
            is_long=True,
        )

    # --- marks -----------------------------------------------------------------------------------

    async def usage(self, tenant: str, subject: str, *, at: int) -> UsageRow:
        """What a subject used on the day of a time, and how many of its runs have not ended."""
        return await self._database.read(lambda connection: usage_rows.usage(connection, tenant, subject, at))

    async def forget_usage(self, *, before_day: int, now: int) -> int:
        """Delete the counts of days before a day, and buckets that are full again."""
        return await self._database.writer.submit(
            lambda connection: usage_rows.forget_usage(
                connection, self._database.set_aside, before_day=before_day, now=now
            )
        )

    async def storage_bytes(self, tenant: str) -> int:
        """How many bytes a tenant stores."""
        return await self._database.read(lambda connection: usage_rows.storage_bytes(connection, tenant))

    async def exchange_buckets(self, taken: Sequence[BucketUse], *, at: int) -> tuple[BucketLevel, ...]:
        """Take from token buckets that the processes of this file share."""
        return await self._database.writer.submit(lambda connection: usage_rows.exchange_buckets(connection, taken, at))

    async def take_uses(self, uses: Sequence[PolicyUse], asked: Sequence[PolicyTotal]) -> TakenUses:
        """Enter calls that policies count, and return totals."""
        if not uses:
            return await self._database.read(lambda connection: policy_uses.take_uses(connection, (), asked))
        return await self._database.writer.submit(lambda connection: policy_uses.take_uses(connection, uses, asked))

    async def release_uses(self, ids: Collection[int]) -> None:
        """Take back calls that were not made."""
        await self._database.writer.submit(lambda connection: policy_uses.release_uses(connection, ids))

    async def mark(self, name: str) -> JsonValue:
        """The small value stored under a name."""
        return await self._database.read(lambda connection: resource_rows.read_mark(connection, name))

    async def set_mark(self, name: str, value: JsonValue) -> None:
        """Store a small value under a name."""
        encoded = encode_json(value)
        await self._database.writer.submit(lambda connection: resource_rows.set_mark(connection, name, encoded))

    async def drop_mark(self, name: str, *, call: CallRecord | None = None) -> bool:
        """Delete the value under a name."""
        return await call_records.change(
            self._database.writer, lambda connection: resource_rows.drop_mark(connection, name), call, is_long=True
        )
