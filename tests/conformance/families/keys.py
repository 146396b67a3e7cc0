"""API keys, idempotency keys and answers."""

from __future__ import annotations

from penstock.base.limits import IDEMPOTENCY_UNANSWERED_MS
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.tables.api_keys import list_keys, put_key, read_key, replace_key, touch_keys, write_revocations
from penstock.runtime.tables.call_records import find_call, forget_calls, record_call, release_call
from penstock.runtime.tables.listings import key_cursor
from tests.conformance.families.family import Family
from tests.conformance.platform_stores import AT, SEAL, claim, claimed, completed, entry, key_row

__all__ = ["CALLS", "KEYS"]

FIRST, SECOND, THIRD = "aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc"
LONG_AGO = AT - 2 * IDEMPOTENCY_UNANSWERED_MS


async def revoke(database: Database) -> list[str]:
    """Revoke what the first key made."""
    made = await database.write(lambda transaction: write_revocations(transaction, "acme", f"key:{FIRST}", AT + 9))
    return sorted(made)


KEYS = Family(
    given=[
        lambda database: put_key(database, key_row(FIRST)),
        lambda database: put_key(database, key_row(SECOND, created_at=AT + 1, created_by=f"key:{FIRST}")),
    ],
    changes={
        "put_key: renamed": lambda database: put_key(database, key_row(FIRST, name="renamed")),
        "put_key: revoked": lambda database: put_key(database, key_row(FIRST, revoked_at=AT + 5)),
        "put_key: new": lambda database: put_key(database, key_row(THIRD, name="new", replaces=FIRST)),
        "replace_key: by the third": lambda database: replace_key(
            database, key_row(FIRST, revoked_at=AT + 7), key_row(THIRD, replaces=FIRST)
        ),
        "replace_key: by a fourth": lambda database: replace_key(
            database, key_row(FIRST, revoked_at=AT + 8), key_row("dddddddddddd", replaces=FIRST)
        ),
        "replace_key: the other": lambda database: replace_key(
            database, key_row(SECOND, revoked_at=AT + 8), key_row(FIRST, replaces=SECOND)
        ),
        "write_revocations": revoke,
        "touch_keys: both": lambda database: touch_keys(database, {SECOND: AT + 1, FIRST: AT + 2}),
        "touch_keys: later": lambda database: touch_keys(database, {FIRST: AT + 1, SECOND: AT + 2}),
    },
    reads={
        "read_key": lambda database: read_key(database, FIRST),
        "list_keys": lambda database: list_keys(
            database, tenant="acme", limit=1, cursor=key_cursor(AT, "a"), ids=[FIRST, SECOND]
        ),
        "list_keys: all": lambda database: list_keys(database, tenant=None, limit=9),
    },
)


async def lost_and_answered(database: Database) -> None:
    """Leave a call whose answer expired, one that was lost, and one in flight."""
    await claimed(database, claim("old", now=LONG_AGO))
    await completed(database, claim("old", now=LONG_AGO), {"status": 200})
    await claimed(database, claim("lost", now=LONG_AGO))
    await claimed(database, claim("open"))


CALLS = Family(
    given=[lost_and_answered],
    changes={
        "record_call: new": lambda database: claimed(database, claim("new")),
        "record_call: another": lambda database: claimed(database, claim("new", digest="digest-2")),
        "record_call: expired": lambda database: claimed(database, claim("old", digest="digest-2")),
        "record_call: lost": lambda database: claimed(database, claim("lost", digest="digest-2")),
        "record_call: answer": lambda database: completed(database, claim("open"), {"status": 200}),
        "record_call: audited": lambda database: record_call(
            database, CallRecord(entry=entry(7), seal=SEAL, claim=claim("new"))
        ),
        "release_call": lambda database: release_call(database, claim("open")),
        "forget_calls": lambda database: forget_calls(database, now=AT, limit=5),
    },
    reads={
        "find_call": lambda database: find_call(database, claim("open")),
        "find_call: unknown": lambda database: find_call(database, claim("unknown")),
    },
)
