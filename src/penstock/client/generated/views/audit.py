"""What operations on audit answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = [
    "AuditKeyView",
    "AuditPageView",
    "AuditRecordView",
    "CheckpointPage",
    "CheckpointView",
    "ConsistencyProof",
    "Export",
    "HoldPage",
    "HoldView",
    "InclusionProof",
    "Redacted",
    "RemovedPart",
    "StoredStamp",
    "Verified",
]


class AuditKeyView(msgspec.Struct, frozen=True, kw_only=True):
    """The public key that verifies checkpoints, and how it follows earlier ones."""

    public_key: str
    """A C2SP verifier key: name, id and key."""
    statements: list[str]
    """For each change of the key a note that both keys signed."""


class AuditRecordView(msgspec.Struct, frozen=True, kw_only=True):
    """One record. `count` is above one when equal reads were gathered."""

    seq: int
    at: str | None
    principal: str
    surface: str
    operation: str
    outcome: str
    code: str | None
    subject: str | None
    request_id: str | None
    arguments_digest: str | None
    count: int
    details: dict[str, Any]
    principal_kind: str | None
    principal_name: str | None
    acting_for: list[str] | None
    credential: str | None
    client: str | None
    remote: str | None
    trace_id: str | None
    reasons: list[str] | None
    policy_version: str | None
    run_id: str | None
    draft_id: str | None
    approval_id: str | None
    salt: str | None
    redacted: dict[str, dict[str, str]] | None
    previous_hash: str
    hash: str


class AuditPageView(msgspec.Struct, frozen=True, kw_only=True):
    """A page of records."""

    items: list[AuditRecordView]
    next_cursor: str | None


class CheckpointView(msgspec.Struct, frozen=True, kw_only=True):
    """A signed checkpoint. `note` is the text to keep elsewhere: it proves all records up to `size`."""

    size: int
    at: str | None
    note: str
    stamped_at: str | None = None
    stamp: str | None = None


class CheckpointPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of checkpoints, newest first."""

    items: list[CheckpointView]
    next_cursor: str | None


class ConsistencyProof(msgspec.Struct, frozen=True, kw_only=True):
    """The proof that a later checkpoint only added records to an earlier one."""

    from_size: int
    size: int
    proof: list[str]
    from_checkpoint: str
    checkpoint: str


class RemovedPart(msgspec.Struct, frozen=True, kw_only=True):
    """Records in a row that retention removed. Without leaves: removed before trees were kept."""

    first_seq: int
    last_seq: int
    previous_hash: str | None = None
    last_hash: str | None = None
    leaves: str | None = None


class StoredStamp(msgspec.Struct, frozen=True, kw_only=True):
    """A stamp on the checkpoint of a size, as the authority encoded it (a TimeStampResp of RFC 3161)."""

    size: int
    at: int
    token: str


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """Records oldest first, with everything that is needed to verify them elsewhere."""

    tenant: str
    items: list[AuditRecordView]
    removed: list[RemovedPart]
    checkpoints: list[str]
    last_seq: int | None
    has_more: bool
    events: list[dict[str, Any]] = msgspec.field(default_factory=list)
    stamps: list[StoredStamp] = msgspec.field(default_factory=list)


class HoldView(msgspec.Struct, frozen=True, kw_only=True):
    """A legal hold."""

    hold_id: str
    reason: str
    subject: str | None
    principal: str | None
    since: str | None
    until: str | None
    created_at: str | None
    created_by: str | None


class HoldPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of holds."""

    items: list[HoldView]
    next_cursor: str | None


class InclusionProof(msgspec.Struct, frozen=True, kw_only=True):
    """A record, and the proof that the checkpoint covers it. Hashes are base64, as in RFC 6962."""

    tenant: str
    record: AuditRecordView
    redacted_in: int | None
    leaf: str
    index: int
    size: int
    proof: list[str]
    checkpoint: str


class Redacted(msgspec.Struct, frozen=True, kw_only=True):
    """How many records changed. Held records, and records of earlier releases, stay as they were."""

    erased: int
    kept: int
    next_after_seq: int | None


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the trail is intact; if not, the first record at which it is not, or which end is missing.      Keep a
    checkpoint elsewhere: with it a later call finds that the whole trail was put back. `last_seq`, `last_hash`
    and `first_seq` are of your own trail, `broken_at` and `reason` of the one in `broken_tenant`.
    """

    intact: bool
    records: int
    last_seq: int | None
    last_hash: str | None
    first_seq: int | None = None
    broken_at: int | None = None
    reason: str | None = None
    broken_tenant: str | None = None
    tenants: int = 1
    checkpoints: int = 0
    removed: int = 0
    redacted: int = 0
    unrecorded_redactions: int = 0
    anchor_at: str | None = None
