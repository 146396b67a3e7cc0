"""What calls store in the SQLite file: audit entries, idempotency keys and answers, together with their changes.

All functions take a connection. Those that write run inside a transaction of the file's only writer. No other process
can write during it, so what they read cannot change before they finish. In a row without an answer, `until` is when the
call stops being in flight; in a row with one, it is when the answer expires.

Above it: both stores and `runs.appending`, whose changes are stored together with these. Below it: `audit.records`,
`codec`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.runtime.ports.platform import (
    CallRecord,
    Claimed,
    ClaimOutcome,
    Finished,
    IdempotencyClaim,
    InFlight,
)
from penstock.runtime.stores.rules.writes import claim_lost, is_refusal
from penstock.runtime.stores.sqlite.checksums import row_checksum
from penstock.runtime.stores.sqlite.codec import decode_json, encode_json
from penstock.runtime.stores.sqlite.group_commit import GroupCommitWriter
from penstock.runtime.stores.sqlite.platform.audit.records import append_audit
from penstock.runtime.stores.sqlite.set_aside import ExpiredRows, SetAside

__all__ = ["change", "forget_calls", "keep_calls", "record_call", "release_call", "stored_call"]

T = TypeVar("T")

_NAMED = "tenant = :tenant AND principal = :principal AND operation = :operation AND key = :key"
_INSERT_CALL = (
    "INSERT INTO calls (tenant, principal, operation, key, digest, until, answer, checksum)"
    " VALUES (:tenant, :principal, :operation, :key, :digest, :until, :answer, :checksum)"
    " ON CONFLICT (tenant, principal, operation, key) DO UPDATE SET"
    " digest = excluded.digest, until = excluded.until, answer = excluded.answer, checksum = excluded.checksum"
)
_OWN = "answer IS NULL AND until = :own"
# Rows of the same claim: in flight, or already answered by it. A later answer replaces an earlier one.
_SAME = f"(({_OWN}) OR until = :kept)"
_CLAIM_CALL = f"{_INSERT_CALL} WHERE until < :now RETURNING 1"
_COMPLETE_CALL = f"{_INSERT_CALL} WHERE {_SAME} RETURNING 1"
_READ_CALL = f"SELECT digest, until, answer FROM calls WHERE {_NAMED}"
_RELEASE_CALL = f"DELETE FROM calls WHERE {_NAMED} AND {_OWN}"
# A claim without an answer says that a process died during the call.
_EXPIRED = "until < ? AND (answer IS NOT NULL OR until < ?)"
_KIND = "answers"

_ANSWER = msgspec.json.Decoder(dict[str, Any])


def stored_call(connection: sqlite3.Connection, claim: IdempotencyClaim) -> InFlight | Finished | None:
    """The state of another call with this key; None if the key is free."""
    found = connection.execute(_READ_CALL, _names_of(claim)).fetchall()
    if not found:
        return None
    digest, until, answer = found[0]
    if answer is None:
        return InFlight(digest, until)
    return None if until < claim.now else Finished(digest, decode_json(_ANSWER, answer))


def record_call(connection: sqlite3.Connection, call: CallRecord) -> ClaimOutcome:
    """Store the record of a call, or return the state of the other call with the same key."""
    if call.claim is not None and not _hold(connection, call.claim, call):
        # A claim of the same millisecond that is not this call's counts as in flight too.
        found = stored_call(connection, msgspec.structs.replace(call.claim, now=0))
        return found or InFlight(call.claim.digest, call.claim.in_flight_until)
    _write_entries(connection, (call,))
    return Claimed()


def keep_calls(connection: sqlite3.Connection, given: Sequence[CallRecord | None]) -> None:
    """Store the records of calls within the transaction of their changes. Raises if one cannot be stored."""
    calls = [call for call in given if call is not None]
    for call in calls:
        if call.claim is not None and not _hold(connection, call.claim, call):
            raise claim_lost()  # which rolls the change back
    _write_entries(connection, calls)


def _write_entries(connection: sqlite3.Connection, calls: Sequence[CallRecord]) -> None:
    """Append the audit entries of calls that are not stored yet."""
    pending = [(entry, call.seal) for call in calls for entry in call.entries]
    for seal in dict.fromkeys(seal for _, seal in pending if seal is not None):
        append_audit(connection, [entry for entry, own in pending if own is seal], seal)


def _hold(connection: sqlite3.Connection, claim: IdempotencyClaim, call: CallRecord) -> bool:
    """Store that a call holds its key, with the answer if there is one. False if another call holds the key."""
    if call.stored and call.answer is None:
        return True
    until = claim.in_flight_until if call.answer is None else claim.keep_until
    answer = None if call.answer is None else encode_json(call.answer)
    given = {**_names_of(claim), "digest": claim.digest, "until": until, "answer": answer}
    given["checksum"] = row_checksum([*given.values()])
    if call.stored:
        same = {"own": claim.in_flight_until, "kept": claim.keep_until}
        return bool(connection.execute(_COMPLETE_CALL, {**given, **same}).fetchall())
    return bool(connection.execute(_CLAIM_CALL, {**given, "now": claim.now}).fetchall())


async def change(
    writer: GroupCommitWriter,
    apply: Callable[[sqlite3.Connection], T],
    call: CallRecord | None,
    *,
    happened: Callable[[T], bool] | None = None,
    is_long: bool = False,
) -> T:
    """Make a change and store the record of the call that makes it: both or neither.

    `happened` tells whether an outcome means that something changed.
    """
    if call is None:
        return await writer.submit(apply, is_long=is_long)
    record, is_made = call, happened or (lambda outcome: not is_refusal(outcome))

    def both(connection: sqlite3.Connection) -> T:
        outcome = apply(connection)
        if is_made(outcome):
            record.changed(outcome)
            keep_calls(connection, (record,))
        return outcome

    outcome = await writer.submit(both, is_long=is_long)
    if is_made(outcome):
        record.committed()
    return outcome


def release_call(connection: sqlite3.Connection, claim: IdempotencyClaim) -> None:
    """Free the key of a call, unless another call holds it by now."""
    connection.execute(_RELEASE_CALL, {**_names_of(claim), "own": claim.in_flight_until})


def forget_calls(connection: sqlite3.Connection, set_aside: SetAside, *, now: int, limit: int) -> int:
    """Drop expired calls; those without an answer later."""
    expired = ExpiredRows(
        table="calls",
        key="rowid",
        condition=_EXPIRED,
        parameters=(now, now - limits.IDEMPOTENCY_UNANSWERED_MS),
        order="ORDER BY until LIMIT ?",
        order_parameters=(limit,),
    )
    return set_aside.delete_expired(connection, _KIND, expired)


def _names_of(claim: IdempotencyClaim) -> JsonObject:
    return {
        "tenant": claim.tenant,
        "principal": claim.principal,
        "operation": claim.operation,
        "key": claim.key,
    }
