"""What calls store: audit entries, idempotency keys and answers, together with their changes.

The driver writes them once per commit, for all changes in it. In a row without an answer, `until` is when the call
stops being in flight; in a row with one, it is when the answer expires.

Above it: drivers, the gate. Below it: `audit`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

import msgspec

from penstock.base import limits
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import (
    AuditEntry,
    CallRecord,
    Claimed,
    ClaimOutcome,
    Finished,
    IdempotencyClaim,
    InFlight,
    Seal,
)
from penstock.runtime.ports.set_aside import ExpiredRows
from penstock.runtime.ports.transactions import Reader, Transaction
from penstock.runtime.tables.audit.records import append_entries
from penstock.runtime.tables.checksums import row_checksum
from penstock.runtime.tables.codec import decode_json, encode_json
from penstock.runtime.tables.outcomes import claim_lost, is_text

__all__ = ["append_audit", "find_call", "forget_calls", "record_call", "release_call", "write_calls"]

_NAMES = ("tenant", "principal", "operation", "key")
_NAMED = " AND ".join(f"{name} = :{name}" for name in _NAMES)
_INSERT = (
    "INSERT INTO calls (tenant, principal, operation, key, digest, until, answer, checksum)"
    " VALUES (:tenant, :principal, :operation, :key, :digest, :until, :answer, :checksum)"
    " ON CONFLICT (tenant, principal, operation, key) DO UPDATE SET"
    " digest = excluded.digest, until = excluded.until, answer = excluded.answer, checksum = excluded.checksum"
)
_OWN = "calls.answer IS NULL AND calls.until = :own"
_CLAIM = f"{_INSERT} WHERE calls.until < :now RETURNING 1"
# Rows of the same claim: in flight, or already answered by it. A later answer replaces an earlier one.
_COMPLETE = f"{_INSERT} WHERE ({_OWN}) OR calls.until = :kept RETURNING 1"
_READ = f"SELECT digest, until, answer FROM calls WHERE {_NAMED}"
_RELEASE = f"DELETE FROM calls WHERE {_NAMED} AND {_OWN}"
# A claim without an answer says that a process died during the call.
_EXPIRED = "until < ? AND (answer IS NOT NULL OR until < ?)"
_KIND = "answers"
# Sealing takes tens of microseconds per entry. More entries than this would noticeably block the event loop.
_ENTRIES_AT_ONCE_MAX = 100

_ANSWER = msgspec.json.Decoder(dict[str, Any])


async def find_call(database: Database, claim: IdempotencyClaim) -> InFlight | Finished | None:
    """Return what is known of another call with a key; None if the key is free.

    An answer after its `keep_until` does not count. A call that has none is `InFlight`, also after its time.
    """
    names = _names_of(claim)
    if not all(map(is_text, names.values())):
        return None
    return _as_outcome(await database.one(_READ, names), claim.now)


def _stored_call(reader: Reader, claim: IdempotencyClaim, now: int) -> InFlight | Finished | None:
    return _as_outcome(reader.one(_READ, _names_of(claim)), now)


def _as_outcome(found: tuple[Any, ...] | None, now: int) -> InFlight | Finished | None:
    if found is None:
        return None
    digest, until, answer = found
    if answer is None:
        return InFlight(digest, until)
    return None if until < now else Finished(digest, decode_json(_ANSWER, answer))


async def record_call(database: Database, call: CallRecord) -> ClaimOutcome:
    """Store the record of a call that changes nothing else, or its answer after its change was stored.

    All of it or, if another call has the key, nothing.
    """

    def change(transaction: Transaction) -> ClaimOutcome:
        if call.claim is not None and not _hold(transaction, call.claim, call):
            # A claim of the same millisecond that is not this call's counts as in flight too.
            found = _stored_call(transaction, call.claim, 0)
            return found or InFlight(call.claim.digest, call.claim.in_flight_until)
        _write_entries(transaction, (call,))
        return Claimed()

    outcome = await database.write(change)
    if isinstance(outcome, Claimed):
        call.committed()
    return outcome


def append_audit(database: Database, entries: Sequence[AuditEntry], *, seal: Seal) -> Awaitable[None]:
    """Append to the chains of the entries' tenants, all or none. Returns at once; done when it is durable."""
    given = tuple(entries)
    record = CallRecord(entry=given[0], more=given[1:], seal=seal) if given else None
    return database.write(lambda _: None, call=record, is_long=len(entries) > _ENTRIES_AT_ONCE_MAX)


def write_calls(transaction: Transaction, calls: Sequence[CallRecord]) -> None:
    """Store the records of calls within the transaction of their changes. Raises if one cannot be stored."""
    held = [(call.claim, call) for call in calls if call.claim is not None]
    # In the order of their keys: of two transactions with several calls, neither waits for the other.
    for claim, call in sorted(held, key=lambda item: tuple(_names_of(item[0]).values())):
        if not _hold(transaction, claim, call):
            raise claim_lost()  # which rolls the change back
    _write_entries(transaction, calls)


def _write_entries(transaction: Transaction, calls: Sequence[CallRecord]) -> None:
    """Append the audit entries of calls that are not stored yet."""
    pending = [(entry, call.seal) for call in calls for entry in call.entries]
    for seal in dict.fromkeys(seal for _, seal in pending if seal is not None):
        append_entries(transaction, [entry for entry, own in pending if own is seal], seal)


def _hold(transaction: Transaction, claim: IdempotencyClaim, call: CallRecord) -> bool:
    """Store that a call holds its key, with the answer if there is one. False if another call holds the key."""
    if call.stored and call.answer is None:
        return True
    until = claim.in_flight_until if call.answer is None else claim.keep_until
    answer = None if call.answer is None else encode_json(call.answer)
    given: dict[str, object] = {**_names_of(claim), "digest": claim.digest, "until": until, "answer": answer}
    given["checksum"] = row_checksum([*given.values()])
    if call.stored:
        same = {"own": claim.in_flight_until, "kept": claim.keep_until}
        return bool(transaction.rows(_COMPLETE, {**given, **same}))
    return bool(transaction.rows(_CLAIM, {**given, "now": claim.now}))


async def release_call(database: Database, claim: IdempotencyClaim) -> None:
    """Release the key of a call that did not happen, unless another call has it by now."""
    given = {**_names_of(claim), "own": claim.in_flight_until}
    await database.write(lambda transaction: transaction.execute(_RELEASE, given))


async def forget_calls(database: Database, *, now: int, limit: int) -> int:
    """Delete expired answers, and claims without one that are a day older; at most `limit`. Return how many."""
    expired = ExpiredRows(
        table="calls",
        key=_NAMES,
        condition=_EXPIRED,
        parameters=(now, now - limits.IDEMPOTENCY_UNANSWERED_MS),
        order="ORDER BY until LIMIT ?",
        order_parameters=(limit,),
    )
    set_aside = database.set_aside
    return await database.write(lambda transaction: set_aside.delete_expired(transaction, _KIND, expired), is_long=True)


def _names_of(claim: IdempotencyClaim) -> dict[str, str]:
    return {
        "tenant": claim.tenant,
        "principal": claim.principal,
        "operation": claim.operation,
        "key": claim.key,
    }
