"""Audit records as stores keep them: the entry, its place in its chain, and queries for records.

The seal leaves out fields with the value `None`, so later releases can add fields.

Above it: `platform`, whose store keeps them; `operations.gate.audit_log`, which makes them. Below it: `governance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from penstock.base.errors import CorruptHistory
from penstock.base.json import JsonValue
from penstock.base.limits import AUDIT_REASON_CHARACTERS_MAX, AUDIT_REASONS_MAX
from penstock.governance.audit.chain import ChainSeal
from penstock.governance.principals import PrincipalKind

__all__ = [
    "AuditChains",
    "AuditEntry",
    "AuditHold",
    "AuditOutcome",
    "AuditPage",
    "AuditQuery",
    "AuditRecord",
    "AuditRecordUnreadable",
    "Seal",
    "bounded_reasons",
]

AuditOutcome: TypeAlias = Literal["allowed", "refused", "failed", "held", "approved", "rejected", "executed"]
"""The outcome of a call.

- allowed: it was made.
- refused: it was not allowed.
- failed: it failed, possibly after it changed something.
- held: it waits for a person, or for its draft to be committed; nothing was changed.
- approved, rejected: a person decided about a held call, or about a question of a workflow to approve or decline.
- executed: a held call was made, after it was approved.
"""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody did or was refused. `count` is above one if equal reads were aggregated.

    `CallRecord.note` fills in what only becomes known during a call.
    """

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
    details: dict[str, JsonValue] = msgspec.field(default_factory=dict)
    principal_kind: PrincipalKind | None = None
    principal_name: str | None = None
    acting_for: tuple[str, ...] | None = None
    """Those on whose behalf the principal acted, the nearest first."""
    credential: str | None = None
    """The id of the key, token or secret that authenticated the caller; never the secret."""
    client: str | None = None
    """The program that called, as it names itself."""
    remote: str | None = None
    """The address that the call came from. In a record of various refusals: some of the addresses."""
    trace_id: str | None = None
    """The trace that the caller sent, as W3C Trace Context defines it."""
    reasons: tuple[str, ...] | None = None
    """Why it was decided like this: the ids of the policies that decided."""
    policy_version: str | None = None
    run_id: str | None = None
    draft_id: str | None = None
    approval_id: str | None = None
    salt: str | None = None
    """Hides personal fields in the hash of the record, in hexadecimal. Records of earlier releases have none."""
    redacted: dict[str, dict[str, str]] | None = None
    """What stands for erased fields; see `governance.audit.leaves`."""


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An entry in its chain: `hash` covers the entry, its number and the previous hash."""

    seq: int
    entry: AuditEntry
    previous_hash: str
    hash: str


class AuditRecordUnreadable(CorruptHistory):
    """A stored record cannot be read. It is the first such record among the requested ones."""

    def __init__(self, tenant: str, seq: int, reason: str) -> None:
        message = f"audit record {seq:,} of {tenant!r} cannot be read: {reason}"
        super().__init__(
            "STORE_CORRUPT", message, "run `penstock server check`, and restore a backup with `penstock server restore`"
        )
        self.seq, self.reason = seq, reason


Seal: TypeAlias = ChainSeal
"""Seals the entries that stores append, inside their transactions."""


class AuditHold(msgspec.Struct, frozen=True, kw_only=True):
    """A legal hold: records that it covers are neither removed nor erased.

    It covers records that match every given field.
    """

    hold_id: str
    reason: str
    subject: str | None = None
    principal: str | None = None
    since: int | None = None
    until: int | None = None

    def covers(self, entry: AuditEntry) -> bool:
        """Whether a record is held."""
        return (
            self.subject in (None, entry.subject)
            and self.principal in (None, entry.principal)
            and (self.since is None or entry.at >= self.since)
            and (self.until is None or entry.at <= self.until)
        )


class AuditChains(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the chains in a store: how many there are, and how many there should be."""

    found: int
    sealed: int | None
    seal: str | None


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which records of one tenant, newest first unless `oldest_first`.

    All given conditions must hold; times are exclusive.
    """

    tenant: str
    after_seq: int | None = None
    before_seq: int | None = None
    operation: str | None = None
    not_operation: str | None = None
    principal: str | None = None
    subject: str | None = None
    outcome: str | None = None
    since: int | None = None
    until: int | None = None
    not_held_by: tuple[AuditHold, ...] = ()
    """Only records that none of these holds covers."""
    oldest_first: bool = False
    limit: int = 50


class AuditPage(msgspec.Struct, frozen=True):
    """Records of one tenant; `has_more` says that the limit cut them off, and the last `seq` where to continue."""

    records: tuple[AuditRecord, ...]
    has_more: bool


def bounded_reasons(reasons: Sequence[str]) -> tuple[str, ...]:
    """Return the reasons of a decision as a record keeps them."""
    return tuple(reason[:AUDIT_REASON_CHARACTERS_MAX] for reason in reasons[:AUDIT_REASONS_MAX])
