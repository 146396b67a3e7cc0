"""Verifies an exported trail with nothing but public keys, as third parties do.

A trail is a sequence of records and of stretches that retention removed, oldest first, with the checkpoints that were
signed over it. `TrailVerifier` takes the parts one by one, computes the Merkle tree as it goes, and compares its root
with every checkpoint. So it finds records that were altered, inserted, moved or left out, as far as a checkpoint covers
them; and records missing at the end, if a checkpoint that was kept elsewhere covers more. What came after the last
checkpoint is only checked for gaps.

Removed records count as intact if their leaves fit the checkpoints and a later record says that retention removed them.
Erased fields count as redacted if a later record says so (`redactions`). These later records must be authentic
themselves: a checkpoint covers them, or the caller verified the seal of every record (`is_sealed`).

Records say which checkpoints were signed, so a checkpoint that was deleted is missed.

Above it: operations and the command line, which read the parts. Below it: `leaves`, `redactions`, `tree` and
`checkpoints`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from penstock.governance.audit.chain import GENESIS_HASH
from penstock.governance.audit.checkpoints import Checkpoint, Note, VerifierKey, tenant_of
from penstock.governance.audit.leaves import leaf_hash
from penstock.governance.audit.redactions import Redaction, RedactionLedger, is_made
from penstock.governance.audit.tree import HASH_BYTES, Frontier, grown

__all__ = [
    "FORGET_AUDIT",
    "SIGN_AUDIT",
    "Allowances",
    "Checkpoints",
    "RemovedPart",
    "TrailProblem",
    "TrailReport",
    "TrailVerifier",
    "checkpoints_by_tenant",
    "removed_leaves",
    "unknown_leaves",
]

FORGET_AUDIT = "retention.forget_audit"
"""The operation in the record of a removal. Its details say before which number records were removed."""
SIGN_AUDIT = "audit.checkpoint"
"""The operation in the record of a checkpoint. Its details say how many records were signed."""

ProblemKind: TypeAlias = Literal[
    "altered",
    "gap",
    "reordered",
    "wrong_link",
    "truncated",
    "removed_unrecorded",
    "redaction_unrecorded",
    "uncovered",
    "checkpoint_missing",
    "malformed",
    "unknown_key",
    "fork",
    "unsigned",
    "stamp",
]
"""What is wrong with a trail.

- altered: the records up to a checkpoint are not those that were signed.
- gap: records are missing.
- reordered: a record comes too early, too late or twice.
- wrong_link: a record does not follow the one before it.
- truncated: the trail ends before a checkpoint that was signed.
- removed_unrecorded: records are gone, and no record says that retention removed them.
- redaction_unrecorded: fields were erased, and no record says so with their commitments.
- uncovered: records were removed or fields erased, and no checkpoint covers the record that says so.
- checkpoint_missing: a record says that a checkpoint was signed, and it is not there.
- malformed: a part cannot be read.
- unknown_key: a checkpoint is not signed by a trusted key.
- fork: two checkpoints of one size have different roots.
- stamp: a stamp of a time-stamping authority is not valid, or not of a checkpoint of this trail.
- unsigned: no checkpoint covers any of it.
"""


class TrailProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem and its place."""

    kind: ProblemKind
    message: str
    seq: int | None = None
    """The record at which the problem was found."""


class Allowances(msgspec.Struct, frozen=True, kw_only=True):
    """What a person accepts as intact although it cannot be verified."""

    uncovered: bool = False
    """What no checkpoint covers: a whole trail, the record of a removal or redaction, a checkpoint that is missing."""
    unrecorded_redactions: bool = False
    """Redactions that no record names with their commitments, as earlier releases made them."""


class RemovedPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Records in a row that retention removed. Without leaves: removed before trees were kept."""

    first_seq: int
    last_seq: int
    previous_hash: str | None = None
    last_hash: str | None = None
    leaves: str | None = None
    """Base64."""


class TrailReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in one tenant's trail."""

    tenant: str
    records: int
    last_seq: int
    removed: int
    redacted: int
    checkpoints: int
    """Checkpoints that are signed by a trusted key and fit the records."""
    covered: int
    """How far the last of them reaches."""
    covered_at: str | None
    """When it was signed."""
    problems: tuple[TrailProblem, ...]
    unrecorded_redactions: int = 0
    """Redacted records that no record names with their commitments."""
    stamps: int = 0
    """Stamps of a time-stamping authority that were verified with its certificate."""
    stamped: int = 0
    """How far the last checkpoint with such a stamp reaches."""
    stamped_at: str | None = None
    """When it was stamped, as the authority says."""
    unverified_stamps: int = 0
    """Stamps that were not verified, because no certificate was given."""

    @property
    def intact(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def unknown_leaves(first_seq: int, last_seq: int) -> list[bytes]:
    """Return the leaves that stand for records of which nothing is known but that they were removed."""
    return [hashlib.sha256(b"\x00removed %d" % seq).digest() for seq in range(first_seq, last_seq + 1)]


def removed_leaves(part: RemovedPart) -> list[bytes]:
    """Return the leaves of removed records; raise ValueError if they are not as many as the records."""
    if part.leaves is None:
        return unknown_leaves(part.first_seq, part.last_seq)
    try:
        joined = base64.b64decode(part.leaves, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("the leaves of removed records are not base64") from error
    if base64.b64encode(joined).decode() != part.leaves:
        raise ValueError("the leaves of removed records are not written as base64 is")
    if len(joined) != (part.last_seq - part.first_seq + 1) * HASH_BYTES:
        raise ValueError("the leaves of removed records are not as many as the records")
    return [joined[start : start + HASH_BYTES] for start in range(0, len(joined), HASH_BYTES)]


_SIGN = "sign the trail with `penstock audit checkpoint` and export it again, or accept this with --allow-uncovered"
_RECORD = (
    "earlier releases recorded only the number: put it on record with `penstock audit redact --seq`, or accept it with"
    " --allow-unrecorded-redactions"
)
Checkpoints: TypeAlias = dict[str, list[tuple[Checkpoint, Note]]]


def checkpoints_by_tenant(notes: Iterable[Note]) -> Checkpoints:
    """Return the checkpoints among the notes, by tenant; raise ValueError if one cannot be read."""
    found: Checkpoints = {}
    for note in notes:
        checkpoint = Checkpoint.parse(note.text)
        found.setdefault(tenant_of(checkpoint.origin), []).append((checkpoint, note))
    return found


class TrailVerifier:
    """Verifies the trail of one tenant: add its parts oldest first, then ask for the report."""

    def __init__(
        self,
        tenant: str,
        keys: frozenset[VerifierKey],
        checkpoints: Iterable[tuple[Checkpoint, Note]],
        *,
        is_sealed: bool = False,
        allowed: Allowances | None = None,
    ) -> None:
        self._tenant = tenant
        self._is_sealed = is_sealed
        """Whether the caller verified the seal of every record, so that none needs a checkpoint."""
        self._allowed = allowed or Allowances()
        self._problems: list[TrailProblem] = []
        self._waiting: dict[int, Checkpoint] = {}
        # The pages of an export repeat the checkpoint at their border.
        for checkpoint, note in {str(note): (checkpoint, note) for checkpoint, note in checkpoints}.values():
            self._expect(checkpoint, note, keys)
        self._given = frozenset(self._waiting)
        self._tree = Frontier()
        self._last_hash: str | None = GENESIS_HASH
        self._records = self._removed = 0
        self._fitting = self._covered = 0
        self._covered_at: str | None = None
        self._gone: list[tuple[int, int]] = []
        self._removals: list[tuple[int, int]] = []
        """Records that say what retention removed: their number, and the number before which records may be gone."""
        self._signings: list[tuple[int, int]] = []
        """Records that say what was signed: their number, and the size of the checkpoint."""
        self._redactions = RedactionLedger()
        self._is_lost = False
        """Whether a part was missing or out of place, so that no later root can fit."""
        self._compare()

    def _expect(self, checkpoint: Checkpoint, note: Note, keys: frozenset[VerifierKey]) -> None:
        size = checkpoint.size
        if not any(note.is_signed_by(key) for key in keys):
            self._add("unknown_key", f"the checkpoint of {size:,} records is not signed by a trusted key", size)
            return
        known = self._waiting.setdefault(size, checkpoint)
        if known.root != checkpoint.root:
            self._add("fork", f"two signed checkpoints of {size:,} records have different roots", size)

    def _add(self, kind: ProblemKind, message: str, seq: int | None = None) -> None:
        self._problems.append(TrailProblem(kind=kind, message=message, seq=seq))

    def add_record(self, seq: int, fields: Mapping[str, Any], previous_hash: str, own_hash: str) -> None:
        """Add a record. `fields` are those of its entry that are set, with the tenant and with `at` as a number."""
        if not self._follows(seq, previous_hash):
            return
        try:
            leaf = leaf_hash(fields, seq)
            self._redactions.add(seq, fields)
        except (ValueError, TypeError, AttributeError) as error:
            self.add_unreadable(seq, str(error))
            return
        self._grow(leaf)
        self._records += 1
        self._last_hash = own_hash
        for operation, member, said in (
            (FORGET_AUDIT, "before_seq", self._removals),
            (SIGN_AUDIT, "size", self._signings),
        ):
            if is_made(fields, operation):
                details = fields.get("details")
                number = details.get(member) if isinstance(details, Mapping) else None
                if type(number) is int:
                    said.append((seq, number))

    def add_unreadable(self, seq: int, reason: str) -> None:
        """Say that a record cannot be read, or cannot have been recorded like that. What follows is not verified."""
        if not self._is_lost:
            self._is_lost = True
            self._add("malformed", f"record {seq:,} cannot have been recorded like this: {reason}", seq)

    def add_removed(self, part: RemovedPart) -> None:
        """Add records in a row that retention removed."""
        if not self._follows(part.first_seq, part.previous_hash):
            return
        try:
            leaves = removed_leaves(part)
        except ValueError as error:
            self._is_lost = True
            self._add("malformed", str(error), part.first_seq)
            return
        for leaf in leaves:
            self._grow(leaf)
        self._removed += part.last_seq - part.first_seq + 1
        self._last_hash = part.last_hash
        self._gone.append((part.first_seq, part.last_seq))

    def _follows(self, seq: int, previous_hash: str | None) -> bool:
        """Whether a part is the next one. If not, later parts cannot be verified, and only the first is reported."""
        if self._is_lost:
            return False
        expected = self._tree.size + 1
        if seq != expected:
            self._is_lost = True
            kind: ProblemKind = "gap" if seq > expected else "reordered"
            said = f"record {expected:,} is missing" if kind == "gap" else f"record {seq:,} is out of place"
            self._add(kind, said, min(seq, expected))
            return False
        if self._last_hash is not None and previous_hash is not None and previous_hash != self._last_hash:
            self._is_lost = True
            self._add("wrong_link", f"record {seq:,} does not follow the record before it", seq)
            return False
        return True

    def _grow(self, leaf: bytes) -> None:
        self._tree = grown(self._tree, (leaf,))
        self._compare()

    def _compare(self) -> None:
        """Compare the tree with the checkpoint of its size."""
        size = self._tree.size
        checkpoint = self._waiting.pop(size, None)
        if checkpoint is None or self._is_lost:
            return
        if checkpoint.root != self._tree.root:
            self._is_lost = True
            first = self._covered + 1
            self._add("altered", f"the records {first:,} to {size:,} are not those that were signed", first)
            return
        self._fitting += 1
        self._covered, self._covered_at = size, checkpoint.at

    def report(self) -> TrailReport:
        """Return what was found. No parts can be added after this."""
        redactions = self._redactions.redactions()
        if not self._is_lost:
            self._judge_removals()
            self._judge_redactions(redactions)
            if self._waiting:
                most = max(self._waiting)
                said = f"the trail ends with record {self._tree.size:,}, but {most:,} were signed"
                self._add("truncated", said, self._tree.size + 1)
            self._judge_coverage()
        return TrailReport(
            tenant=self._tenant,
            records=self._records,
            last_seq=self._tree.size,
            removed=self._removed,
            redacted=len(redactions),
            checkpoints=self._fitting,
            covered=self._covered,
            covered_at=self._covered_at,
            problems=tuple(self._problems),
            unrecorded_redactions=sum(1 for item in redactions if item.recorded_in is None),
        )

    def _is_authentic(self, seq: int) -> bool:
        """Whether what a record says counts: anybody can write a record after the last checkpoint."""
        return self._is_sealed or self._allowed.uncovered or seq <= self._covered

    def _judge_removals(self) -> None:
        counted = max((before for seq, before in self._removals if self._is_authentic(seq)), default=0)
        claimed = max((before for _, before in self._removals), default=0)
        for first, last in self._gone:
            what = f"the records {first:,} to {last:,} are gone"
            if last >= claimed:
                self._add("removed_unrecorded", f"{what}, and no record says that they were removed", first)
            elif last >= counted and first <= self._covered:
                self._add("uncovered", f"{what}, and no checkpoint covers the record that says so; {_SIGN}", first)

    def _judge_redactions(self, redactions: Iterable[Redaction]) -> None:
        for item in redactions:
            what = f"record {item.seq:,}: {', '.join(item.fields)} erased"
            if item.recorded_in is None:
                if not self._allowed.unrecorded_redactions:
                    said = f"{what}, and no record says so with the commitments; {_RECORD}"
                    self._add("redaction_unrecorded", said, item.seq)
            elif item.seq <= self._covered and not self._is_authentic(item.recorded_in):
                said = f"{what}, and no checkpoint covers record {item.recorded_in:,}, which says so; {_SIGN}"
                self._add("uncovered", said, item.seq)

    def _judge_coverage(self) -> None:
        """Find checkpoints that were signed and are gone, and a trail without any."""
        if self._allowed.uncovered or self._problems:
            return
        for seq, size in self._signings:
            if size not in self._given if self._is_sealed else size > self._covered:
                said = f"record {seq:,} says that {size:,} records were signed, but that checkpoint is missing"
                self._add("checkpoint_missing", said, seq)
                return
        if self._records and not self._covered and not self._is_sealed:
            self._add("unsigned", f"no checkpoint covers any of its {self._records:,} records", 1)
