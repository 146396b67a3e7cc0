"""What a store accepts, and the errors for what it refuses: the same in every store."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from penstock.base.errors import Conflict, Rejected, Unavailable
from penstock.runtime.ports.platform import (
    ANY_ETAG,
    KeyNotReplaced,
    KeyRow,
    ResourceChanged,
)
from penstock.runtime.ports.runs import (
    ANY,
    AnyHash,
    DefinitionChanged,
    RunWrite,
)

__all__ = [
    "audit_unavailable",
    "check_text",
    "check_write",
    "claim_lost",
    "definition_conflict",
    "is_text",
    "key_conflict",
    "resource_conflict",
    "text_not_unicode",
]


def check_write(write: RunWrite) -> None:
    """Refuse a decision that could not be read back: one with a gap in its sequence numbers, or text that is not
    Unicode.
    """
    row, move, records = write.row, write.move, write.records
    if move is not None:
        fits = move.first_seq == write.expected_seq + 1 and move.first_seq + len(move.shape.records) == row.seq + 1
    else:
        fits = bool(records) and records[0].seq == write.expected_seq + 1 and records[-1].seq == row.seq
    if not fits:
        raise ValueError(f"run {row.run_id!r}: the records do not lead from row {write.expected_seq} to row {row.seq}")
    if write.expected_seq == 0:
        _check_unicode("the run id", row.run_id)
        for name, value in row.labels.items():
            _check_unicode("a label", name)
            _check_unicode(f"the label {name}", value)


def _check_unicode(what: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        message = f"{what} has one half of a surrogate pair, which no Unicode text can contain"
        raise Rejected("TEXT_NOT_UNICODE", message, "send well-formed text") from None


def is_text(text: str) -> bool:
    """Whether a text is Unicode: half of a surrogate pair is not, and no store has it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_text(row: msgspec.Struct) -> None:
    """Refuse a row with text that is not Unicode, as a database does."""
    try:
        for value in msgspec.structs.astuple(row):
            if isinstance(value, str):
                value.encode()
    except UnicodeEncodeError:
        raise text_not_unicode() from None


def text_not_unicode() -> Rejected:
    """The error of a text that no database can store."""
    return Rejected("TEXT_NOT_UNICODE", "a text has one half of a surrogate pair", "send well-formed text")


def definition_conflict(expected_hash: str | AnyHash | None, current_hash: str | None) -> DefinitionChanged | None:
    """The conflict if a name does not stand for the expected definition; else None."""
    return None if expected_hash is ANY or expected_hash == current_hash else DefinitionChanged(current_hash)


def resource_conflict(expected_etag: str | None, current_etag: str | None) -> ResourceChanged | None:
    """The conflict if a resource does not have the expected etag; else None."""
    return None if expected_etag in (ANY_ETAG, current_etag) else ResourceChanged(current_etag)


def key_conflict(current: KeyRow | None, successors: Sequence[str]) -> KeyNotReplaced | None:
    """The refusal if an API key is gone, revoked or already replaced (by the first of its successors); else None."""
    if successors or current is None or current.revoked_at is not None:
        return KeyNotReplaced(successors[0] if successors else None)
    return None


def claim_lost() -> Conflict:
    """The error of a call that took too long, so that another call took over its idempotency key."""
    message = "another call with this idempotency key was faster"
    return Conflict(
        "IDEMPOTENCY_IN_FLIGHT", message, "send the same call again in a second", {"retry_after_seconds": 1}
    )


def audit_unavailable(error: Exception | None = None) -> Unavailable:
    """The error of a call whose audit record cannot be written. Its change is not made either."""
    message = "the audit record of the call cannot be written, so nothing was done"
    hint = "check /readyz and the server's log, then send the same call again"
    return Unavailable("AUDIT_UNAVAILABLE", message, hint, None if error is None else {"reason": type(error).__name__})
