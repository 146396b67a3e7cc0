"""The platform store port, for everything but runs: keys, idempotent answers, the audit log, resources, deliveries.

Everything belongs to a tenant. Changes that can race return a closed outcome instead of an error. The audit log is a
chain per tenant: the store numbers the entries and lets `seal` compute each link inside the transaction, so that two
writers can never fork it.

Above it: `operations`, `app`. Below it: adapters in `runtime.stores`; one conformance suite defines what they must do.
It decides nothing: who may do what, and what an entry means, is decided above.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from penstock.base.json import JsonObject, JsonValue
from penstock.base.limits import AUDIT_SUBJECT_CHARACTERS_MAX
from penstock.definitions.canonical import canonical_json
from penstock.engine.outcomes import Accepted
from penstock.governance.audit.chain import ChainHead, RemovedRecords
from penstock.governance.authorship import Author
from penstock.governance.principals import KeyKind
from penstock.runtime.ports.audit import (
    AuditChains,
    AuditEntry,
    AuditHold,
    AuditOutcome,
    AuditPage,
    AuditQuery,
    AuditRecord,
    Seal,
    bounded_reasons,
)
from penstock.runtime.ports.usage import CallUses, StartQuota, UsageStore

__all__ = [
    "ANY_ETAG",
    "RESTORED_MARK",
    "AuditChains",
    "AuditEntry",
    "AuditHold",
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
    "RemovedRecords",
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
"""The mark by which a restored file says that it replaced another one, until its audit logs record it."""


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """An API key as stored: never the secret, only a keyed hash of it. Times are epoch milliseconds."""

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
    """The tools that its holder is offered; None for the server's default."""
    kind: KeyKind = "service"
    """What its holder is: a person, an agent or a service."""
    groups: tuple[str, ...] = ()
    """The groups that its holder belongs to."""
    subject: str | None = None
    """The person or machine that it was made for; None if the key stands for itself."""
    lineage: tuple[str, ...] = ()
    """The subjects that made it, or a key before it, or made theirs."""
    first_key: str | None = None
    """The first of the keys that it replaced, one after the other; None if it replaced none."""

    @property
    def principal_id(self) -> str:
        """The id of the principal that the key stands for."""
        return f"key:{self.key_id}"

    @property
    def subject_id(self) -> str:
        """The person or machine behind it."""
        return self.subject or self.principal_id


class KeyPage(msgspec.Struct, frozen=True):
    """A page of keys; `next_cursor` continues it."""

    rows: tuple[KeyRow, ...]
    next_cursor: str | None


class KeyReplaced(msgspec.Struct, frozen=True):
    """The successor is stored, and the old key ends as requested."""


class KeyNotReplaced(msgspec.Struct, frozen=True):
    """Nothing was changed: the key was revoked or replaced in between, or does not exist. `successor` replaces it."""

    successor: str | None


class IdempotencyClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A call that claims its idempotency key. `digest` is of its arguments.

    `in_flight_until` lies after `now`, and so distinguishes a claim from the one that it took over.
    """

    tenant: str
    principal: str
    operation: str
    key: str
    digest: str
    now: int
    in_flight_until: int
    """After this time an unfinished call counts as lost (its process died) and may be made again."""
    keep_until: int
    takes_over: bool = False
    """Whether the call continues one that was lost: that call changed something, and has no answer."""


class Claimed(msgspec.Struct, frozen=True):
    """The record of the call is stored: the key is its own."""


class InFlight(msgspec.Struct, frozen=True):
    """Another call with this key is in progress until a time; after it, the call is lost. `digest` is of that call."""

    digest: str
    until: int


class Finished(msgspec.Struct, frozen=True):
    """A call with this key was answered before; `digest` is of its arguments."""

    digest: str
    answer: JsonObject


ClaimOutcome: TypeAlias = Claimed | InFlight | Finished


@dataclass(slots=True, kw_only=True, eq=False)
class CallRecord:
    """What a call leaves behind: its audit entry and, with an idempotency key, its claim and its answer.

    It is stored with the first change that the call makes: both or neither. A store makes that change only if no other
    call has the key, otherwise it raises `Conflict` with the code IDEMPOTENCY_IN_FLIGHT; and only if the entry can be
    written, otherwise it raises `Unavailable` with the code AUDIT_UNAVAILABLE. If the change is not made, nothing is
    stored. Later changes of the call find the record `stored`, and add only the answer.

    A call that changes several things at once has an entry for each of them.
    """

    entry: AuditEntry | None = None
    more: tuple[AuditEntry, ...] = ()
    """The entries of its other changes, after the first."""
    seal: Seal | None = None
    claim: IdempotencyClaim | None = None
    answer: JsonObject | None = None
    answer_of: Callable[[Accepted], JsonObject | None] | None = None
    """Builds the answer of a call that changes a run from the run's decision; None if the decision is not enough."""
    notes_of: Callable[[CallRecord, Accepted], None] | None = None
    """Adds to the entry what the decision of a run says, before it is stored with it. It gets this record, so that it
    need not hold it: nothing would free such a cycle but the garbage collector."""
    answer_from: Callable[[Any], JsonObject] | None = None
    """Builds the answer from the outcome of the store, in its transaction. It may run in a thread, and again if the
    transaction is repeated."""
    provisional: bool = False
    """Whether the answer is preliminary: it is replaced when the call knows its final one."""
    noted: dict[str, Any] = field(default_factory=dict)
    """What `note` was given: fields of the entry, by name."""
    quota: StartQuota | None = None
    """The quotas of the run that the call starts, counted with the first record of that run."""
    uses: CallUses = field(default_factory=CallUses)
    """What was entered for policies that count calls; the gate takes it back if the call is not made."""
    stored: bool = False
    answered: bool = False
    """Whether the final answer is stored too."""

    def decided(self, decision: Accepted) -> None:
        """Build the answer from a run's decision, to be stored with it. Every host calls this before it stores."""
        if self.notes_of is not None and not self.stored:
            self.notes_of(self, decision)
        if self.answer_of is not None and not self.answered:
            self.answer = self.answer_of(decision)

    def changed(self, outcome: object) -> None:
        """Build the answer from the outcome of a change, to be stored with it. Every store calls this before that."""
        if self.answer_from is not None and self.claim is not None and not self.answered:
            self.answer = self.answer_from(outcome)

    @property
    def entries(self) -> tuple[AuditEntry, ...]:
        """Every entry that is not stored yet."""
        return () if self.entry is None or self.stored else (self.entry, *self.more)

    def about(self, subject: str | None, **details: JsonValue) -> None:
        """Add to the entry what the call turned out to be about, before it is stored."""
        if self.entry is not None:
            self.entry = _entry_about(self.entry, subject, details)

    def note(
        self,
        *,
        outcome: AuditOutcome | None = None,
        reasons: Sequence[str] | None = None,
        policy_version: str | None = None,
        run_id: str | None = None,
        draft_id: str | None = None,
        approval_id: str | None = None,
    ) -> None:
        """Fill in fields of the entry as soon as they are known, by the gate or by a handler.

        It works before the entry exists, for example for a call that is refused by a policy, and until it is stored.
        """
        noted = self.noted
        if outcome is not None:
            noted["outcome"] = outcome
        if reasons is not None:
            noted["reasons"] = bounded_reasons(reasons)
        if policy_version is not None:
            noted["policy_version"] = policy_version
        if run_id is not None:
            noted["run_id"] = run_id
        if draft_id is not None:
            noted["draft_id"] = draft_id
        if approval_id is not None:
            noted["approval_id"] = approval_id
        if self.entry is not None:
            self.entry = msgspec.structs.replace(self.entry, **noted)

    def each(self, changed: Iterable[tuple[str, JsonObject]]) -> None:
        """Make an entry for each thing that the call changes at once, with its details."""
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
    author: Author | None = None
    """Who wrote the version, and who accepted it; None if that was not recorded."""


class ResourcePage(msgspec.Struct, frozen=True):
    """A page of resources of one kind, ordered by id."""

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
    """One event on its way to one endpoint. The id is derived from both, so that an event is queued once per tenant.

    `next_at` is the time of the next attempt; a pending delivery without it is due since it was created.
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
    """A page of deliveries, last queued first."""

    rows: tuple[DeliveryRow, ...]
    next_cursor: str | None


class PlatformStore(UsageStore, Protocol):
    """Keeps everything but runs. When a method returns, its effect is stored; when it raises, nothing was."""

    async def put_key(self, key: KeyRow, *, call: CallRecord | None = None) -> None:
        """Store a key, or change the one with that id.

        Writing a stale row undoes neither a revocation nor a later use: `revoked_at` stays once it is set, and
        `last_used_at` never goes back.
        """

    async def replace_key(
        self, ended: KeyRow, successor: KeyRow, *, call: CallRecord | None = None
    ) -> KeyReplaced | KeyNotReplaced:
        """Store a successor and end the key that it replaces, both or neither.

        Of several concurrent calls, one succeeds. Not if the old key is revoked by then, or already has a successor.
        """

    async def key(self, key_id: str) -> KeyRow | None:
        """Return a key by id, as it is now: a change by any process shows at once."""

    def change_mark(self) -> int | None:
        """Return a number that changes once any process has changed this store; None if that cannot be known."""

    async def keys(
        self, *, tenant: str | None, limit: int, cursor: str | None = None, ids: Collection[str] | None = None
    ) -> KeyPage:
        """Return keys of a tenant (None: of all), newest first; with `ids`, only those that have one of them."""

    async def touch_keys(self, used_at: Mapping[str, int]) -> None:
        """Note when keys were last used; unknown ids are ignored, and earlier times change nothing."""

    async def stored_call(self, claim: IdempotencyClaim) -> InFlight | Finished | None:
        """Return what is known of another call with a key; None if the key is free.

        An answer after its `keep_until` does not count. A call that has none is `InFlight`, also after its time.
        """

    def record_call(self, call: CallRecord) -> Awaitable[ClaimOutcome]:
        """Store the record of a call that changes nothing else, or its answer after its change was stored.

        All of it or, if another call has the key, nothing. Returns at once; done when durable.
        """

    async def release_call(self, claim: IdempotencyClaim) -> None:
        """Release the key of a call that did not happen, unless another call has it by now."""

    async def forget_calls(self, *, now: int, limit: int) -> int:
        """Delete expired answers, and claims without one that are a day older; at most `limit`. Return how many."""

    def append_audit(self, entries: Sequence[AuditEntry], *, seal: Seal) -> Awaitable[None]:
        """Append to the chains of the entries' tenants, all or none. Returns at once; done when durable.

        `seal` may be called in another thread, and again if a transaction is retried.
        """

    async def audit(self, query: AuditQuery) -> AuditPage:
        """Return records of a tenant."""

    async def audit_head(self, tenant: str) -> ChainHead | None:
        """Return the sealed ends of a tenant's chain, or None if it has none."""

    async def audit_chains(self) -> AuditChains:
        """Return how many chains there are, and how many were sealed."""

    async def forget_audit(
        self,
        *,
        tenant: str,
        before_seq: int,
        seal: Seal,
        holds: Sequence[AuditHold] = (),
        call: CallRecord | None = None,
    ) -> int:
        """Remove the oldest records of a chain that no hold covers; what is left of them is in `audit_removed`.

        The rest still verifies from its new first end, which is sealed again. The newest record always stays, because
        the chain continues from it. Removes `AUDIT_REMOVED_AT_ONCE_MAX` at most; 0 means that nothing is left.
        """

    async def audit_removed(self, tenant: str, *, after_seq: int = 0, limit: int) -> tuple[RemovedRecords, ...]:
        """Return the stretches of a chain that were removed and that end after a number, oldest first."""

    async def redact_audit(
        self,
        *,
        tenant: str,
        seqs: Sequence[int],
        names: Collection[str],
        holds: Sequence[AuditHold] = (),
        call: CallRecord | None = None,
    ) -> int:
        """Erase fields of records (`governance.audit.leaves.PERSONAL`) and return how many records changed.

        Records that a hold covers, and records of earlier releases, stay as they are. The chain still verifies.
        """

    async def audit_tenants(self) -> tuple[str, ...]:
        """Return every tenant that has records, by name."""

    async def put_resource(
        self, resource: ResourceRow, *, expected_etag: str | None, call: CallRecord | None = None
    ) -> ResourcePut | ResourceChanged:
        """Store a resource if its etag is the expected one: `ANY_ETAG` for any or none, None for none.

        `created_at` keeps its value from when the resource was first stored.
        """

    async def put_resources(self, resources: Sequence[ResourceRow], *, call: CallRecord | None = None) -> None:
        """Store resources, replacing existing ones: all of them, or none."""

    async def resource(self, tenant: str, kind: str, resource_id: str) -> ResourceRow | None:
        """Return a resource by id."""

    async def resources(
        self, tenant: str, kind: str, *, limit: int, cursor: str | None = None, prefix: str | None = None
    ) -> ResourcePage:
        """Return resources of a kind, ordered by id; with `prefix`, only those whose ids begin with it."""

    async def all_resources(self, kind: str) -> tuple[ResourceRow, ...]:
        """Return resources of a kind of every tenant, ordered by tenant and id."""

    async def delete_resource(
        self, tenant: str, kind: str, resource_id: str, *, expected_etag: str, call: CallRecord | None = None
    ) -> ResourceDeleted | ResourceChanged:
        """Delete a resource if its etag is the expected one (`ANY_ETAG` for any)."""

    async def add_deliveries(self, deliveries: Sequence[DeliveryRow], *, call: CallRecord | None = None) -> int:
        """Queue deliveries and return how many were new; known ids are ignored."""

    async def due_deliveries(self, *, now: int, limit: int) -> tuple[DeliveryRow, ...]:
        """Return pending deliveries that are due, longest due first, then in the order of queueing."""

    async def next_delivery_at(self) -> int | None:
        """Return when the next pending delivery is due."""

    async def save_delivery(self, delivery: DeliveryRow, *, call: CallRecord | None = None) -> None:
        """Store the outcome of an attempt. Event, endpoint and run do not change; unknown ids are ignored."""

    async def delivery(self, tenant: str, delivery_id: str) -> DeliveryRow | None:
        """Return a delivery by id."""

    async def deliveries(
        self,
        tenant: str,
        *,
        endpoint_id: str | None = None,
        state: str | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> DeliveryPage:
        """Return deliveries of a tenant, last queued first."""

    async def forget_deliveries(self, *, before: int, limit: int) -> int:
        """Delete deliveries that ended (delivered or dead) before a time, oldest first; return how many."""

    async def mark(self, name: str) -> JsonValue:
        """Return the small value stored under a name, or None."""

    async def set_mark(self, name: str, value: JsonValue) -> None:
        """Store a small value under a name."""

    async def drop_mark(self, name: str, *, call: CallRecord | None = None) -> bool:
        """Delete the value under a name and return whether it existed."""


def body_etag(body: JsonObject) -> str:
    """Return the ETag of a body."""
    return hashlib.sha256(canonical_json(body, exact_integers=True)).hexdigest()[:32]
