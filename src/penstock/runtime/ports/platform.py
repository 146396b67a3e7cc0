"""The port for what is kept beside runs: keys, idempotent answers, the audit trail, registries, deliveries.

Everything belongs to a tenant. Changes that can race say so with a closed outcome instead of an error. The audit trail
is a chain per tenant: the store numbers the entries and lets `seal` compute each link inside the transaction, so that
two writers can never fork it.

Above it: `operations`, `app`. Below it: adapters in `runtime.stores`; one conformance suite says what they must do.
It decides nothing: who may do what, and what an entry means, is decided above.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import msgspec

from penstock.base.json import JsonObject, JsonValue
from penstock.base.limits import AUDIT_SUBJECT_CHARACTERS_MAX
from penstock.definitions.canonical import canonical_json
from penstock.engine.outcomes import Accepted
from penstock.governance.audit_chain import ChainHead, ChainSeal

__all__ = [
    "ANY_ETAG",
    "RESTORED_MARK",
    "AuditChains",
    "AuditEntry",
    "AuditOutcome",
    "AuditPage",
    "AuditQuery",
    "AuditRecord",
    "CallRecord",
    "ClaimOutcome",
    "Claimed",
    "DeliveryPage",
    "DeliveryRow",
    "Finished",
    "IdempotencyClaim",
    "InFlight",
    "KeyNotReplaced",
    "KeyPage",
    "KeyReplaced",
    "KeyRow",
    "PlatformStore",
    "ResourceChanged",
    "ResourceDeleted",
    "ResourcePage",
    "ResourcePut",
    "ResourceRow",
    "Seal",
    "body_etag",
]

ANY_ETAG = "*"
RESTORED_MARK = "restored"
"""Under this name a file says that it was put in the place of another one, until that is in its audit trails."""


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """An API key as kept: never the secret, only a keyed hash of it. Times are epoch milliseconds."""

    key_id: str
    tenant: str
    name: str
    secret_hash: str
    scopes: tuple[str, ...]
    created_at: int
    created_by: str | None = None
    expires_at: int | None = None
    revoked_at: int | None = None
    last_used_at: int | None = None
    replaces: str | None = None
    toolset: str | None = None
    """The tools that its holder is offered; None for those that the server offers."""


class KeyPage(msgspec.Struct, frozen=True):
    """A page of keys; `next_cursor` continues it."""

    rows: tuple[KeyRow, ...]
    next_cursor: str | None


class KeyReplaced(msgspec.Struct, frozen=True):
    """The successor is kept, and the old key ends as it was said to."""


class KeyNotReplaced(msgspec.Struct, frozen=True):
    """Nothing was changed: the key was ended or replaced in between, or there is none. `successor` replaces it."""

    successor: str | None


class IdempotencyClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A call that wants to be the only one with its key. `digest` is of its arguments.

    `in_flight_until` lies after `now`, and so tells a claim from the one that it took over.
    """

    tenant: str
    principal: str
    operation: str
    key: str
    digest: str
    now: int
    in_flight_until: int
    """After this moment an unfinished call counts as lost (its process died) and may be made again."""
    keep_until: int


class Claimed(msgspec.Struct, frozen=True):
    """What the call leaves is stored: the key is its own."""


class InFlight(msgspec.Struct, frozen=True):
    """Another call with this key is under way, or counts as such until a moment. `digest` is of that call."""

    digest: str
    until: int


class Finished(msgspec.Struct, frozen=True):
    """A call with this key was answered before; `digest` says with which arguments."""

    digest: str
    answer: JsonObject


ClaimOutcome: TypeAlias = Claimed | InFlight | Finished


AuditOutcome: TypeAlias = Literal["allowed", "refused", "failed"]
"""A call that was made, one that was not, and one that was let in and then went wrong, here or after it changed
something."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody did or was refused. `count` is above one when equal reads were gathered."""

    at: int
    tenant: str
    principal: str
    surface: str
    operation: str
    outcome: AuditOutcome
    code: str | None = None
    subject: str | None = None
    request_id: str | None = None
    arguments_digest: str | None = None
    count: int = 1
    details: JsonObject = msgspec.field(default_factory=dict)


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An entry in its chain: `hash` covers the entry, its number and the hash before it."""

    seq: int
    entry: AuditEntry
    previous_hash: str
    hash: str


Seal: TypeAlias = ChainSeal
"""Seals what stores append, inside their transactions."""


class AuditChains(msgspec.Struct, frozen=True, kw_only=True):
    """How the chains stand that a store keeps: how many there are, and how many it says there should be."""

    found: int
    sealed: int | None
    seal: str | None


@dataclass(slots=True, kw_only=True, eq=False)
class CallRecord:
    """What a call leaves behind: its audit entry and, with an idempotency key, its claim and its answer.

    It is stored with the first change that the call makes, both or neither. A store makes that change only if no other
    call has the key, and raises `Conflict` with the code IDEMPOTENCY_IN_FLIGHT otherwise; and only if the entry can be
    written, else it raises `Unavailable` with the code AUDIT_UNAVAILABLE. A change that is not made stores nothing.
    Later changes of the call find the record `stored`, and add no more than the answer.

    A call that changes several things at once has an entry for each of them.
    """

    entry: AuditEntry | None = None
    more: tuple[AuditEntry, ...] = ()
    """The entries of what else it changes, after the first."""
    seal: Seal | None = None
    claim: IdempotencyClaim | None = None
    answer: JsonObject | None = None
    answer_of: Callable[[Accepted], JsonObject | None] | None = None
    """Makes the answer of a call that changes a run, of what the run decides; None where that does not say enough."""
    provisional: bool = False
    """Whether that answer counts only until the call knows how it goes on: it is replaced then."""
    stored: bool = False
    answered: bool = False
    """Whether the answer is stored too, and is the last word."""

    def decided(self, decision: Accepted) -> None:
        """Make the answer of what a run decided, to be stored with that. Every host tells the call before it stores."""
        if self.answer_of is not None and not self.answered:
            self.answer = self.answer_of(decision)

    @property
    def entries(self) -> tuple[AuditEntry, ...]:
        """Every entry that is not stored yet."""
        return () if self.entry is None or self.stored else (self.entry, *self.more)

    def about(self, subject: str | None, **details: JsonValue) -> None:
        """Say in the entry what the call turned out to be about, before it is stored."""
        if self.entry is not None:
            self.entry = _entry_about(self.entry, subject, details)

    def each(self, changed: Iterable[tuple[str, JsonObject]]) -> None:
        """Leave an entry for each thing that the call changes at once, with what there is to say of it."""
        entry = self.entry
        if entry is not None:
            made = [_entry_about(entry, subject, details) for subject, details in changed]
            self.entry, self.more = made[0], tuple(made[1:])

    def committed(self) -> None:
        """Note that a transaction with this record was committed."""
        self.stored = True
        is_last_word = self.claim is not None and self.answer is not None and not self.provisional
        self.answered = self.answered or is_last_word


def _entry_about(entry: AuditEntry, subject: str | None, details: Mapping[str, JsonValue]) -> AuditEntry:
    named = entry.subject if subject is None else subject[:AUDIT_SUBJECT_CHARACTERS_MAX]
    return msgspec.structs.replace(entry, subject=named, details={**entry.details, **details})


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which records of one tenant, newest first unless `oldest_first`. Everything given must hold; times exclusive."""

    tenant: str
    after_seq: int | None = None
    before_seq: int | None = None
    operation: str | None = None
    principal: str | None = None
    subject: str | None = None
    outcome: str | None = None
    since: int | None = None
    until: int | None = None
    oldest_first: bool = False
    limit: int = 50


class AuditPage(msgspec.Struct, frozen=True):
    """Records of one tenant; `has_more` says that the limit cut them off, and the last `seq` where to go on."""

    records: tuple[AuditRecord, ...]
    has_more: bool


class ResourceRow(msgspec.Struct, frozen=True, kw_only=True):
    """Something a tenant registered: a schema, a model, a tool, an agent, a webhook endpoint. `etag` is of its body."""

    tenant: str
    kind: str
    resource_id: str
    body: JsonObject
    etag: str
    created_at: int
    updated_at: int
    updated_by: str | None = None


class ResourcePage(msgspec.Struct, frozen=True):
    """A page of resources of one kind, by id."""

    rows: tuple[ResourceRow, ...]
    next_cursor: str | None


class ResourcePut(msgspec.Struct, frozen=True):
    """The resource is stored; `created` says that there was none before."""

    created: bool


class ResourceDeleted(msgspec.Struct, frozen=True):
    """The resource is gone."""


class ResourceChanged(msgspec.Struct, frozen=True):
    """Nothing was changed: the resource has another etag than expected, or none because it does not exist."""

    current_etag: str | None


class DeliveryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One event on its way to one endpoint. The id is made from both, so that an event is queued once by its tenant.

    `next_at` is when it is tried next; a pending one without it is due since it was made.
    """

    delivery_id: str
    tenant: str
    endpoint_id: str
    run_id: str
    event: JsonObject
    state: Literal["pending", "delivered", "dead"] = "pending"
    attempts: int = 0
    next_at: int | None = None
    created_at: int
    updated_at: int
    last_status: int | None = None
    last_error: str | None = None


class DeliveryPage(msgspec.Struct, frozen=True):
    """A page of deliveries, the one that was queued last first."""

    rows: tuple[DeliveryRow, ...]
    next_cursor: str | None


class PlatformStore(Protocol):
    """Keeps what is not a run. Every method either happened when it returns, or raises and did not."""

    async def put_key(self, key: KeyRow, *, call: CallRecord | None = None) -> None:
        """Keep a key, or change the one of that id.

        Whoever writes what it read a moment ago undoes neither a revocation nor a later use: `revoked_at` stays once
        it is set, and `last_used_at` never goes back.
        """

    async def replace_key(
        self, ended: KeyRow, successor: KeyRow, *, call: CallRecord | None = None
    ) -> KeyReplaced | KeyNotReplaced:
        """Keep a successor and end the key that it replaces, both or neither: of many at once one does.

        Not if the old key was revoked by then, or has a successor already.
        """

    async def key(self, key_id: str) -> KeyRow | None:
        """A key by id, as it is now: a change by any process shows at once."""

    def change_mark(self) -> int | None:
        """Another number once anybody, in any process, has changed what is kept here; None if that cannot be told."""

    async def keys(self, *, tenant: str | None, limit: int, cursor: str | None = None) -> KeyPage:
        """Keys of a tenant (None: of all), newest first."""

    async def touch_keys(self, used_at: Mapping[str, int]) -> None:
        """Note when keys were last used; unknown ids are passed over, earlier moments change nothing."""

    async def stored_call(self, claim: IdempotencyClaim) -> InFlight | Finished | None:
        """What is known of another call with a key; None if the key is free.

        An answer after its `keep_until`, or a call after its `in_flight_until`, is none.
        """

    def record_call(self, call: CallRecord) -> Awaitable[ClaimOutcome]:
        """Store what a call leaves that changes nothing else, or its answer after its change was stored.

        All of it or, when another call has the key, nothing. Returns at once; done when durable.
        """

    async def release_call(self, claim: IdempotencyClaim) -> None:
        """The call did not happen; the key may be used again, unless another call has it by now."""

    async def forget_calls(self, *, now: int, limit: int) -> int:
        """Drop answers and lost calls past their time, at most `limit`; how many."""

    def append_audit(self, entries: Sequence[AuditEntry], *, seal: Seal) -> Awaitable[None]:
        """Append to the chains of the entries' tenants, all or none. Returns at once; done when durable.

        `seal` may be called in another thread, and again when a transaction is tried again.
        """

    async def audit(self, query: AuditQuery) -> AuditPage:
        """Records of a tenant."""

    async def audit_head(self, tenant: str) -> ChainHead | None:
        """The sealed ends of a tenant's chain; None if it has none."""

    async def audit_chains(self) -> AuditChains:
        """How many chains there are, and how many were sealed."""

    async def forget_audit(self, *, tenant: str, before_seq: int, seal: Seal, call: CallRecord | None = None) -> int:
        """Drop the oldest records of a chain; the rest still verifies from its new first end, which is sealed anew.

        The newest record stays whatever is asked: the chain goes on from it. May stop sooner to keep one piece of work
        short; 0 means that there is nothing left to drop.
        """

    async def audit_tenants(self) -> tuple[str, ...]:
        """Every tenant that has records, by name."""

    async def put_resource(
        self, resource: ResourceRow, *, expected_etag: str | None, call: CallRecord | None = None
    ) -> ResourcePut | ResourceChanged:
        """Store a resource if its etag is the expected one: `ANY_ETAG` for whatever is there or not, None for nothing.

        `created_at` stays what it was when the resource was stored first.
        """

    async def put_resources(self, resources: Sequence[ResourceRow], *, call: CallRecord | None = None) -> None:
        """Store resources over whatever is there: all of them, or none."""

    async def resource(self, tenant: str, kind: str, resource_id: str) -> ResourceRow | None:
        """A resource by id."""

    async def resources(
        self, tenant: str, kind: str, *, limit: int, cursor: str | None = None, prefix: str | None = None
    ) -> ResourcePage:
        """Resources of a kind, by id; with `prefix` only those whose ids begin so."""

    async def all_resources(self, kind: str) -> tuple[ResourceRow, ...]:
        """Resources of a kind of every tenant, by tenant and id."""

    async def delete_resource(
        self, tenant: str, kind: str, resource_id: str, *, expected_etag: str, call: CallRecord | None = None
    ) -> ResourceDeleted | ResourceChanged:
        """Remove a resource if its etag is the expected one (`ANY_ETAG` for whatever is there)."""

    async def add_deliveries(self, deliveries: Sequence[DeliveryRow], *, call: CallRecord | None = None) -> int:
        """Queue deliveries; ids that are known are passed over. How many were new."""

    async def due_deliveries(self, *, now: int, limit: int) -> tuple[DeliveryRow, ...]:
        """Pending deliveries whose time has come, longest due first; of the same moment, in the order of queueing."""

    async def next_delivery_at(self) -> int | None:
        """When the next pending delivery is due."""

    async def save_delivery(self, delivery: DeliveryRow, *, call: CallRecord | None = None) -> None:
        """Keep what came of an attempt. Its event, endpoint and run do not change; unknown ids are passed over."""

    async def delivery(self, tenant: str, delivery_id: str) -> DeliveryRow | None:
        """A delivery by id."""

    async def deliveries(
        self,
        tenant: str,
        *,
        endpoint_id: str | None = None,
        state: str | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> DeliveryPage:
        """Deliveries of a tenant, the one that was queued last first."""

    async def forget_deliveries(self, *, before: int, limit: int) -> int:
        """Drop deliveries that ended (delivered or dead) before a moment, longest ago first; how many."""

    async def mark(self, name: str) -> JsonValue:
        """A small value kept under a name; None when there is none."""

    async def set_mark(self, name: str, value: JsonValue) -> None:
        """Keep a small value under a name."""

    async def drop_mark(self, name: str, *, call: CallRecord | None = None) -> bool:
        """Forget the value under a name; whether there was one."""


def body_etag(body: JsonObject) -> str:
    """The ETag of a body."""
    return hashlib.sha256(canonical_json(body, exact_integers=True)).hexdigest()[:32]
