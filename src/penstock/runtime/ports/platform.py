"""The platform store port, for everything but runs: keys, idempotent answers, the audit log, resources, deliveries.

Everything belongs to a tenant. Changes that can race return a closed outcome instead of an error. The audit log is a
chain per tenant: the store numbers the entries and lets `seal` compute each link inside the transaction, so that two
writers can never fork it.

Above it: `operations`, `app`. Below it: adapters in `runtime.stores`; one conformance suite defines what they must do.
It decides nothing: who may do what, and what an entry means, is decided above.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec

from penstock.base.json import JsonObject, JsonValue
from penstock.base.limits import AUDIT_SUBJECT_CHARACTERS_MAX
from penstock.definitions.canonical import canonical_json
from penstock.engine.outcomes import Accepted
from penstock.governance.audit.chain import RemovedRecords
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
from penstock.runtime.ports.usage import CallUses, StartQuota

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
    """What was entered for policies that count calls; the gate removes it if the call is not made."""
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
    """The resource is stored; `created` says whether it is new."""

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


def body_etag(body: JsonObject) -> str:
    """Return the ETag of a body."""
    return hashlib.sha256(canonical_json(body, exact_integers=True)).hexdigest()[:32]
