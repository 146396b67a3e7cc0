"""Which redactions of a trail are on record: a later record names the record, the fields and their commitments.

Anybody who has an export can compute commitments, so an erased field alone proves nothing. The erasing call
(`audit.redact`) leaves a record whose details have the commitments of every field that it erased. `RedactionLedger`
compares the two. A record counts only if it is authentic itself: its seal is valid, or a checkpoint covers it. The
caller says which records are.

Releases before that recorded only how many records were redacted. `audit.redact` for the same records and fields puts
such redactions on record afterwards.

Above it: `trails`, the operations that verify and prove. Below it: `leaves`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from penstock.governance.audit.chain import ChainedRecord
from penstock.governance.audit.leaves import PERSONAL, entry_fields, erased_commitments, redact

__all__ = [
    "REDACT_AUDIT",
    "Redaction",
    "RedactionLedger",
    "claimed_redactions",
    "is_made",
    "redaction_claim",
    "removable",
]

R = TypeVar("R", bound=ChainedRecord)
REDACT_AUDIT: Final = "audit.redact"
"""The operation whose records say what was erased, in `details.commitments`: by record, then by field."""


def is_made(fields: Mapping[str, Any], operation: str) -> bool:
    """Whether a record says that a call of an operation was made, at once or after it was held."""
    return fields.get("operation") == operation and fields.get("outcome") in ("allowed", "executed")


def redaction_claim(entry: msgspec.Struct, names: Collection[str]) -> dict[str, str]:
    """Return the commitments to fields of a record that are to be erased, or were; empty if it cannot be redacted."""
    fields = entry_fields(entry)
    erased = redact(fields, names) or fields
    return {name: text for name, text in erased_commitments(erased).items() if name in names}


def claimed_redactions(fields: Mapping[str, Any]) -> dict[int, dict[str, str]]:
    """Return what a record says was erased, by the numbers of the records; empty if it is of another call."""
    details = fields.get("details")
    claimed = details.get("commitments") if is_made(fields, REDACT_AUDIT) and isinstance(details, Mapping) else None
    if not isinstance(claimed, Mapping):
        return {}
    return {
        int(seq): {name: text for name, text in named.items() if name in PERSONAL and isinstance(text, str)}
        for seq, named in claimed.items()
        if isinstance(seq, str) and seq.isascii() and seq.isdecimal() and isinstance(named, Mapping)
    }


def removable(records: Sequence[R], exists: Callable[[int], bool]) -> list[R]:
    """Return the records, oldest first, that retention may remove together.

    It omits records that name the redactions of records which stay, because those depend on them.
    """
    going = {record.seq for record in records}
    for record in records:  # one that is named comes before the one that names it, so it is decided already
        named = claimed_redactions(entry_fields(record.entry))
        if any(seq not in going and exists(seq) for seq in named):
            going.discard(record.seq)
    return [record for record in records if record.seq in going]


class Redaction(msgspec.Struct, frozen=True, kw_only=True):
    """A record in which something was erased, and the record that says so; None if none does."""

    seq: int
    recorded_in: int | None
    fields: tuple[str, ...]


class RedactionLedger:
    """Takes the records of a trail, oldest first, and tells which redactions are on record."""

    def __init__(self) -> None:
        self._open: dict[int, dict[str, str]] = {}
        """Redactions that are not on record yet."""
        self._recorded: dict[int, int] = {}
        """The record that says the last of what was erased in a record."""
        self._fields: dict[int, tuple[str, ...]] = {}

    def add(self, seq: int, fields: Mapping[str, Any]) -> None:
        """Add a record; raise ValueError if it cannot have been redacted like this."""
        if erased := erased_commitments(fields):
            self._open[seq], self._fields[seq] = dict(erased), tuple(sorted(erased))
        for named, claimed in claimed_redactions(fields).items():
            waiting = self._open.get(named)
            if waiting is None or named >= seq:
                continue
            fitting = [name for name, text in claimed.items() if waiting.get(name) == text]
            for name in fitting:
                del waiting[name]
            if fitting:
                self._recorded[named] = seq
            if not waiting:
                del self._open[named]

    def redactions(self) -> Sequence[Redaction]:
        """Return every redaction, oldest first, also those that are not on record."""
        return [
            Redaction(
                seq=seq,
                recorded_in=None if seq in self._open else self._recorded[seq],
                fields=tuple(sorted(self._open.get(seq, names))),
            )
            for seq, names in sorted(self._fields.items())
        ]
