"""Idempotent calls in the SQLite file: who is at it, what was answered, and answers that come with a change.

Functions of a connection. Those that write run inside a transaction of the file's one writer, which no other process
can share: what they look at cannot change before they are done. Without an answer a call is in flight until a moment;
with one, the answer is kept until a moment.

Above it: `sqlite_platform`, and `sqlite` for changes that come with their answers. Below it: `sqlite_rows`, sqlite3;
the table is in `sqlite_platform_tables`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from penstock.base.json import JsonObject
from penstock.runtime.platform import (
    Claimed,
    ClaimOutcome,
    Finished,
    IdempotencyClaim,
    InFlight,
    KeyNotReplaced,
    Receipt,
    ResourceChanged,
)
from penstock.runtime.ports import DefinitionChanged, DefinitionNameTaken
from penstock.runtime.stores.platform_rules import claim_lost
from penstock.runtime.stores.sqlite_rows import decode_json, encode_json

__all__ = ["claim_call", "complete_call", "forget_calls", "release_call", "with_receipt"]

T = TypeVar("T")

_NAMED = "tenant = :tenant AND principal = :principal AND operation = :operation AND key = :key"
_INSERT_CALL = (
    "INSERT INTO calls (tenant, principal, operation, key, digest, until, answer)"
    " VALUES (:tenant, :principal, :operation, :key, :digest, :until, :answer)"
    " ON CONFLICT (tenant, principal, operation, key) DO UPDATE SET"
    " digest = excluded.digest, until = excluded.until, answer = excluded.answer"
)
_OWN = "answer IS NULL AND until = :own"
_CLAIM_CALL = f"{_INSERT_CALL} WHERE until < :now RETURNING 1"
_COMPLETE_CALL = f"{_INSERT_CALL} WHERE {_OWN} RETURNING 1"
_READ_CALL = f"SELECT digest, until, answer FROM calls WHERE {_NAMED}"
_RELEASE_CALL = f"DELETE FROM calls WHERE {_NAMED} AND {_OWN}"
_FORGET_CALLS = "DELETE FROM calls WHERE rowid IN (SELECT rowid FROM calls WHERE until < ? ORDER BY until LIMIT ?)"

_ANSWER = msgspec.json.Decoder(dict[str, Any])


def claim_call(connection: sqlite3.Connection, claim: IdempotencyClaim) -> ClaimOutcome:
    """Be the one call with a key, or learn what became of the other."""
    names = _names_of(claim)
    given = {**names, "digest": claim.digest, "until": claim.in_flight_until, "answer": None, "now": claim.now}
    if connection.execute(_CLAIM_CALL, given).fetchall():
        return Claimed()
    ((digest, until, answer),) = connection.execute(_READ_CALL, names).fetchall()
    return InFlight(digest, until) if answer is None else Finished(digest, decode_json(_ANSWER, answer))


def complete_call(connection: sqlite3.Connection, claim: IdempotencyClaim, answer: bytes) -> bool:
    """Keep the answer to a call, unless the claim was lost to another one; whether it is kept."""
    given = {"digest": claim.digest, "until": claim.keep_until, "answer": answer, "own": claim.in_flight_until}
    return bool(connection.execute(_COMPLETE_CALL, {**_names_of(claim), **given}).fetchall())


def with_receipt(
    apply: Callable[[sqlite3.Connection], T], receipt: Receipt | None, happened: Callable[[T], bool] | None = None
) -> Callable[[sqlite3.Connection], T]:
    """A job that makes a change and keeps the answer that tells of it, both or neither.

    `happened` says whether an outcome means that there is something to tell of.
    """
    if receipt is None:
        return apply
    claim, answer, is_made = receipt.claim, encode_json(receipt.answer), happened or _is_made

    def both(connection: sqlite3.Connection) -> T:
        outcome = apply(connection)
        if is_made(outcome) and not complete_call(connection, claim, answer):
            raise claim_lost()  # and with that the change is taken back
        return outcome

    return both


def _is_made(outcome: object) -> bool:
    refusals = ResourceChanged | DefinitionChanged | DefinitionNameTaken | KeyNotReplaced
    return outcome is not False and not isinstance(outcome, refusals)


def release_call(connection: sqlite3.Connection, claim: IdempotencyClaim) -> None:
    """Let the key of a call go, unless another one has it by now."""
    connection.execute(_RELEASE_CALL, {**_names_of(claim), "own": claim.in_flight_until})


def forget_calls(connection: sqlite3.Connection, *, now: int, limit: int) -> int:
    """Drop what is past its time."""
    return connection.execute(_FORGET_CALLS, (now, limit)).rowcount


def _names_of(claim: IdempotencyClaim) -> JsonObject:
    return {
        "tenant": claim.tenant,
        "principal": claim.principal,
        "operation": claim.operation,
        "key": claim.key,
    }
