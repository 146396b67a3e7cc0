"""The platform store in memory: the reference for what a platform store does, and the one that tests use.

Above it: `app` and the conformance suite. Nothing survives the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from msgspec import json
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.json import JsonValue
from penstock.governance.audit.chain import ChainHead, RemovedRecords
from penstock.governance.audit.leaves import redact_entry
from penstock.governance.audit.redactions import removable
from penstock.governance.quotas import UsageRow
from penstock.runtime.ports.platform import (
    ANY_ETAG,
    AuditChains,
    AuditEntry,
    AuditHold,
    AuditPage,
    AuditQuery,
    AuditRecord,
    CallRecord,
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
from penstock.runtime.stores.memory.call_records import MemoryCallRecords
from penstock.runtime.stores.rules.listings import (
    cut_page,
    id_cursor,
    id_position,
    key_cursor,
    key_position,
    number_cursor,
    number_position,
    platform_page_size,
)
from penstock.runtime.stores.rules.writes import check_text, due_at, key_conflict, resource_conflict

__all__ = ["MemoryPlatformStore"]

_ResourceName: TypeAlias = tuple[str, str, str]


@dataclass(slots=True)
class MemoryPlatformStore:
    """Rows in dictionaries. A test can make any write fail with `before_write`."""

    before_write: Callable[[str], None] = lambda operation: None
    _keys: dict[str, KeyRow] = field(default_factory=dict)
    calls: MemoryCallRecords = field(default_factory=MemoryCallRecords)
    """Shared with the run store, so that its changes are stored together with the records of calls."""
    _resources: dict[_ResourceName, ResourceRow] = field(default_factory=dict)
    _deliveries: dict[tuple[str, str], tuple[int, DeliveryRow]] = field(default_factory=dict)
    _queued: int = 0
    _marks: dict[str, JsonValue] = field(default_factory=dict)

    # --- keys ------------------------------------------------------------------------------------

    async def put_key(self, key: KeyRow, *, call: CallRecord | None = None) -> None:
        """Store a key, or update the key with the same id. A revocation is final, and the last use never goes back."""
        self.before_write("put_key")
        check_text(key)
        self.calls.check(call)
        self._put_key(key)
        self.calls.keep(call)

    def _put_key(self, key: KeyRow) -> None:
        kept = self._keys.get(key.key_id)
        if kept is not None:
            revoked_at = key.revoked_at if kept.revoked_at is None else kept.revoked_at
            key = replace(key, revoked_at=revoked_at, last_used_at=_later(kept.last_used_at, key.last_used_at))
        self._keys[key.key_id] = key

    async def replace_key(
        self, ended: KeyRow, successor: KeyRow, *, call: CallRecord | None = None
    ) -> KeyReplaced | KeyNotReplaced:
        """Store a successor and end the key that it replaces."""
        self.before_write("replace_key")
        check_text(successor)
        current = self._keys.get(ended.key_id)
        found = [key for key in self._keys.values() if (key.tenant, key.replaces) == (ended.tenant, ended.key_id)]
        found.sort(key=lambda key: (key.created_at, key.key_id))
        conflict = key_conflict(current, [key.key_id for key in found])
        if conflict is not None:
            return conflict
        self.calls.check(call)
        self._put_key(successor)
        self._put_key(ended)
        self.calls.keep(call)
        return KeyReplaced()

    async def key(self, key_id: str) -> KeyRow | None:
        """A key by id."""
        return self._keys.get(key_id)

    def change_mark(self) -> int | None:
        """Return None: this store counts no changes, because a lookup here costs as little as a check for changes."""
        return None

    async def keys(
        self, *, tenant: str | None, limit: int, cursor: str | None = None, ids: Collection[str] | None = None
    ) -> KeyPage:
        """Keys of a tenant (None: of all), newest first; with `ids`, only those."""
        size, before = platform_page_size(limit), key_position(cursor)
        found = [
            key
            for key in self._keys.values()
            if tenant in (None, key.tenant)
            and (ids is None or key.key_id in ids)
            and (before is None or (key.created_at, key.key_id) < before)
        ]
        found.sort(key=lambda key: (key.created_at, key.key_id), reverse=True)
        page, next_cursor = cut_page(found, size, lambda key: key_cursor(key.created_at, key.key_id))
        return KeyPage(tuple(page), next_cursor)

    async def touch_keys(self, used_at: Mapping[str, int]) -> None:
        """Note when keys were last used."""
        self.before_write("touch_keys")
        for key_id, moment in used_at.items():
            kept = self._keys.get(key_id)
            if kept is not None:
                self._keys[key_id] = replace(kept, last_used_at=_later(kept.last_used_at, moment))

    # --- calls -----------------------------------------------------------------------------------

    async def stored_call(self, claim: IdempotencyClaim) -> InFlight | Finished | None:
        """The state of another call with this key."""
        return self.calls.stored(claim)

    async def record_call(self, call: CallRecord) -> ClaimOutcome:
        """Store the record of a call that changes nothing else."""
        self.before_write("record_call")
        for kept in (call.claim, *call.entries):
            if kept is not None:
                check_text(kept)
        return self.calls.record(call)

    async def release_call(self, claim: IdempotencyClaim) -> None:
        """Free the key of a call that did not happen."""
        self.before_write("release_call")
        self.calls.release(claim)

    async def forget_calls(self, *, now: int, limit: int) -> int:
        """Drop expired calls."""
        self.before_write("forget_calls")
        return self.calls.forget(now=now, limit=limit)

    # --- audit -----------------------------------------------------------------------------------

    def append_audit(self, entries: Sequence[AuditEntry], *, seal: Seal) -> Awaitable[None]:
        """Append to the chains of the entries' tenants."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self.before_write("append_audit")
            self.calls.append(entries, seal)
            done.set_result(None)
        except Exception as error:  # raised when the caller awaits it, as by a store that writes later
            done.set_exception(error)
        return done

    async def audit(self, query: AuditQuery) -> AuditPage:
        """Records of a tenant."""
        size = platform_page_size(query.limit)
        chain = self.calls.chains.get(query.tenant, [])
        ordered: Iterable[AuditRecord] = chain if query.oldest_first else reversed(chain)
        found = tuple(islice((record for record in ordered if _matches(record, query)), size + 1))
        return AuditPage(found[:size], len(found) > size)

    async def audit_head(self, tenant: str) -> ChainHead | None:
        """The sealed ends of a tenant's chain."""
        return self.calls.heads.get(tenant)

    async def audit_chains(self) -> AuditChains:
        """The chains that should exist. Nothing can remove one from memory, so there is nothing to compare."""
        count = len(self.calls.heads)
        return AuditChains(found=count, sealed=count or None, seal=None)

    async def forget_audit(
        self,
        *,
        tenant: str,
        before_seq: int,
        seal: Seal,
        holds: Sequence[AuditHold] = (),
        call: CallRecord | None = None,
    ) -> int:
        """Remove the oldest records of a chain that nothing holds, all but the newest."""
        self.before_write("forget_audit")
        chain = self.calls.chains.get(tenant, [])
        older = (record for record in chain[:-1] if record.seq < before_seq and not _is_held(record, holds))
        found = list(islice(older, limits.AUDIT_REMOVED_AT_ONCE_MAX))
        removed = removable(found, {record.seq for record in chain}.__contains__)
        if removed:
            self.calls.check(call)
            self.calls.remove(tenant, removed, seal)
            self.calls.keep(call)
        return len(removed)

    async def audit_removed(self, tenant: str, *, after_seq: int = 0, limit: int) -> tuple[RemovedRecords, ...]:
        """What was removed of a chain."""
        found = (stretch for stretch in self.calls.removed.get(tenant, []) if stretch.last_seq > after_seq)
        return tuple(islice(found, platform_page_size(limit)))

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
        self.before_write("redact_audit")
        chain = self.calls.chains.get(tenant, [])
        changed = {}
        for index, record in enumerate(chain):
            if record.seq in seqs and not _is_held(record, holds):
                entry = redact_entry(record.entry, names)
                if entry is not None:
                    changed[index] = replace(record, entry=entry)
        if changed:
            self.calls.check(call)
            for index, record in changed.items():
                chain[index] = record
            self.calls.keep(call, len(changed))
        return len(changed)

    async def audit_tenants(self) -> tuple[str, ...]:
        """Every tenant that has records."""
        return tuple(sorted(self.calls.chains))

    # --- resources -------------------------------------------------------------------------------

    async def put_resource(
        self, resource: ResourceRow, *, expected_etag: str | None, call: CallRecord | None = None
    ) -> ResourcePut | ResourceChanged:
        """Store a resource if its etag is the expected one."""
        self.before_write("put_resource")
        check_text(resource)
        name = (resource.kind, resource.tenant, resource.resource_id)
        kept = self._resources.get(name)
        current_etag = None if kept is None else kept.etag
        conflict = resource_conflict(expected_etag, current_etag)
        if conflict is not None:
            return conflict
        self.calls.check(call)
        self._put_resource(resource)
        self.calls.keep(call)
        return ResourcePut(created=kept is None)

    async def put_resources(self, resources: Sequence[ResourceRow], *, call: CallRecord | None = None) -> None:
        """Store resources over whatever is there."""
        self.before_write("put_resources")
        for resource in resources:
            check_text(resource)
        self.calls.check(call)
        for resource in resources:
            self._put_resource(resource)
        self.calls.keep(call)

    def _put_resource(self, resource: ResourceRow) -> None:
        name = (resource.kind, resource.tenant, resource.resource_id)
        kept = self._resources.get(name)
        self._resources[name] = resource if kept is None else replace(resource, created_at=kept.created_at)

    async def resource(self, tenant: str, kind: str, resource_id: str) -> ResourceRow | None:
        """A resource by id."""
        return self._resources.get((kind, tenant, resource_id))

    async def resources(
        self, tenant: str, kind: str, *, limit: int, cursor: str | None = None, prefix: str | None = None
    ) -> ResourcePage:
        """Resources of a kind, by id."""
        size, after = platform_page_size(limit), id_position(cursor)
        found = [
            resource
            for _, resource in sorted(self._resources.items())
            if (resource.kind, resource.tenant) == (kind, tenant)
            and (after is None or resource.resource_id > after)
            and resource.resource_id.startswith(prefix or "")
        ]
        page, next_cursor = cut_page(found, size, lambda resource: id_cursor(resource.resource_id))
        return ResourcePage(tuple(page), next_cursor)

    async def all_resources(self, kind: str) -> tuple[ResourceRow, ...]:
        """Resources of a kind of every tenant."""
        return tuple(resource for name, resource in sorted(self._resources.items()) if name[0] == kind)

    async def delete_resource(
        self, tenant: str, kind: str, resource_id: str, *, expected_etag: str, call: CallRecord | None = None
    ) -> ResourceDeleted | ResourceChanged:
        """Remove a resource if its etag is the expected one."""
        self.before_write("delete_resource")
        kept = self._resources.get((kind, tenant, resource_id))
        if kept is None or expected_etag not in (ANY_ETAG, kept.etag):
            return ResourceChanged(None if kept is None else kept.etag)
        self.calls.check(call)
        del self._resources[kind, tenant, resource_id]
        self.calls.keep(call)
        return ResourceDeleted()

    # --- deliveries ------------------------------------------------------------------------------

    async def add_deliveries(self, deliveries: Sequence[DeliveryRow], *, call: CallRecord | None = None) -> int:
        """Queue deliveries that are not known yet."""
        self.before_write("add_deliveries")
        for delivery in deliveries:
            check_text(delivery)
        if all((delivery.tenant, delivery.delivery_id) in self._deliveries for delivery in deliveries):
            return 0
        self.calls.check(call)
        before = len(self._deliveries)
        for delivery in deliveries:
            self._queued += 1
            self._deliveries.setdefault((delivery.tenant, delivery.delivery_id), (self._queued, delivery))
        self.calls.keep(call)
        return len(self._deliveries) - before

    async def due_deliveries(self, *, now: int, limit: int) -> tuple[DeliveryRow, ...]:
        """Pending deliveries whose time has come."""
        due = [(due_at(row), number, row) for number, row in self._pending() if due_at(row) <= now]
        return tuple(row for _, _, row in sorted(due, key=lambda item: item[:2])[:limit])

    async def next_delivery_at(self) -> int | None:
        """When the next pending delivery is due."""
        return min((due_at(row) for _, row in self._pending()), default=None)

    def _pending(self) -> list[tuple[int, DeliveryRow]]:
        return [(number, row) for number, row in self._deliveries.values() if row.state == "pending"]

    async def save_delivery(self, delivery: DeliveryRow, *, call: CallRecord | None = None) -> None:
        """Store the result of an attempt."""
        self.before_write("save_delivery")
        self.calls.check(call)
        name = (delivery.tenant, delivery.delivery_id)
        if name in self._deliveries:
            number, kept = self._deliveries[name]
            self._deliveries[name] = (number, _attempted(kept, delivery))
        self.calls.keep(call)

    async def delivery(self, tenant: str, delivery_id: str) -> DeliveryRow | None:
        """A delivery by id."""
        found = self._deliveries.get((tenant, delivery_id))
        return None if found is None else found[1]

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
        size, before = platform_page_size(limit), number_position(cursor)
        found = [
            (number, row)
            for number, row in self._deliveries.values()
            if row.tenant == tenant
            and endpoint_id in (None, row.endpoint_id)
            and state in (None, row.state)
            and (before is None or number < before)
        ]
        found.sort(key=lambda item: -item[0])
        page, next_cursor = cut_page(found, size, lambda numbered: number_cursor(numbered[0]))
        return DeliveryPage(tuple(row for _, row in page), next_cursor)

    async def forget_deliveries(self, *, before: int, limit: int) -> int:
        """Drop deliveries that ended before a given time."""
        self.before_write("forget_deliveries")
        ended = [
            (row.updated_at, number, name)
            for name, (number, row) in self._deliveries.items()
            if row.state != "pending" and row.updated_at < before
        ]
        for _, _, name in sorted(ended)[:limit]:
            del self._deliveries[name]
        return min(len(ended), limit)

    # --- marks -----------------------------------------------------------------------------------

    async def usage(self, tenant: str, subject: str, *, at: int) -> UsageRow:
        """What a subject used on the day of a time, and how many of its runs have not ended."""
        return self.calls.usage.of(tenant, subject, at)

    async def forget_usage(self, *, before_day: int, now: int) -> int:
        """Drop the counts of days before a day, and buckets that are full again."""
        self.before_write("forget_usage")
        return self.calls.usage.forget(before_day=before_day, now=now)

    async def storage_bytes(self, tenant: str) -> int:
        """How many bytes the resources of a tenant take; nothing else of this store is ever written as bytes."""
        return sum(len(json.encode(row.body)) for row in self._resources.values() if row.tenant == tenant)

    async def exchange_buckets(self, taken: Sequence[BucketUse], *, at: int) -> tuple[BucketLevel, ...]:
        """Take from token buckets."""
        self.before_write("exchange_buckets")
        return self.calls.usage.exchange(taken, at)

    async def take_uses(self, uses: Sequence[PolicyUse], asked: Sequence[PolicyTotal]) -> TakenUses:
        """Enter calls that policies count, and return totals."""
        if uses:
            self.before_write("take_uses")
        return self.calls.usage.take(uses, asked)

    async def release_uses(self, ids: Collection[int]) -> None:
        """Take back calls that were not made."""
        self.before_write("release_uses")
        self.calls.usage.release(ids)

    async def mark(self, name: str) -> JsonValue:
        """The small value stored under a name."""
        return self._marks.get(name)

    async def set_mark(self, name: str, value: JsonValue) -> None:
        """Store a small value under a name."""
        self.before_write("set_mark")
        self._marks[name] = value

    async def drop_mark(self, name: str, *, call: CallRecord | None = None) -> bool:
        """Delete the value under a name."""
        self.before_write("drop_mark")
        if name not in self._marks:
            return False
        self.calls.check(call)
        del self._marks[name]
        self.calls.keep(call)
        return True


def _later(one: int | None, other: int | None) -> int | None:
    return max((moment for moment in (one, other) if moment is not None), default=None)


def _is_held(record: AuditRecord, holds: Sequence[AuditHold]) -> bool:
    return any(hold.covers(record.entry) for hold in holds)


def _matches(record: AuditRecord, query: AuditQuery) -> bool:
    entry = record.entry
    return (
        (query.after_seq is None or record.seq > query.after_seq)
        and (query.before_seq is None or record.seq < query.before_seq)
        and query.operation in (None, entry.operation)
        and query.not_operation != entry.operation
        and query.principal in (None, entry.principal)
        and query.subject in (None, entry.subject)
        and query.outcome in (None, entry.outcome)
        and (query.since is None or entry.at > query.since)
        and (query.until is None or entry.at < query.until)
        and not _is_held(record, query.not_held_by)
    )


def _attempted(kept: DeliveryRow, delivery: DeliveryRow) -> DeliveryRow:
    """The row after one more attempt. Only the delivery state changes, never the message."""
    return replace(
        kept,
        state=delivery.state,
        attempts=delivery.attempts,
        next_at=delivery.next_at,
        updated_at=delivery.updated_at,
        last_status=delivery.last_status,
        last_error=delivery.last_error,
    )
