"""What tenants and keys use, in the SQLite file, and the token buckets that processes share.

Counts are rows by tenant, subject and day. The runs of a tenant that have not ended are in the index of runs; those of
a key are listed in a table of their own, from which the ended ones are taken when it is read.

Above it: `platform.store`, `runs.appending`, which count in the transactions of their changes. Below it: sqlite3.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msgspec.structs import replace

from penstock.governance.quotas import TENANT_SUBJECT, UsageRow, check_quota, day_of
from penstock.runtime.ports.models import model_subject
from penstock.runtime.ports.usage import BucketLevel, BucketUse, RunUsage, StartQuota
from penstock.runtime.stores.sqlite.platform.policy_uses import forget_uses
from penstock.runtime.stores.sqlite.set_aside import ExpiredRows, SetAside

__all__ = ["add_usage", "count_start", "exchange_buckets", "forget_usage", "storage_bytes", "usage"]

_READ = "SELECT runs, tokens, cost FROM usage_counts WHERE tenant = ? AND subject = ? AND day = ?"
_ADD = (
    "INSERT INTO usage_counts (tenant, subject, day, runs, tokens, cost) VALUES (?,?,?,?,?,?)"
    " ON CONFLICT DO UPDATE SET"
    " runs = runs + excluded.runs, tokens = tokens + excluded.tokens, cost = cost + excluded.cost"
)
_OWN_RUNS = "FROM quota_runs AS own WHERE own.tenant = ? AND own.subject = ?"
_ENDED = "NOT EXISTS (SELECT 1 FROM runs WHERE runs.run_id = own.run_id AND runs.terminal = 0)"
_DROP_ENDED = (
    "DELETE FROM quota_runs WHERE tenant = ?1 AND subject = ?2 AND"
    " NOT EXISTS (SELECT 1 FROM runs WHERE runs.run_id = quota_runs.run_id AND runs.terminal = 0)"
)
# Every status but those of ended runs, as ranges of the index by tenant and status.
_TENANT_RUNS = " UNION ALL ".join(
    f"SELECT count(*) AS runs FROM runs WHERE tenant = ?1 AND {open_range}"
    for open_range in (
        "status < 'cancelled'",
        "status > 'cancelled' AND status < 'completed'",
        "status > 'completed' AND status < 'failed'",
        "status > 'failed'",
    )
)
_STORED = (
    "SELECT (SELECT coalesce(sum(length(h.records)), 0) FROM runs AS r JOIN history AS h ON h.run = r.key"
    " WHERE r.tenant = ?1)"
    " + (SELECT coalesce(sum(length(p.content)), 0) FROM payloads AS p WHERE p.hash IN"
    " (SELECT u.hash FROM runs AS r JOIN payload_uses AS u ON u.run = r.key WHERE r.tenant = ?1))"
    " + (SELECT coalesce(sum(length(body)), 0) FROM resources WHERE tenant = ?1)"
    " + (SELECT coalesce(sum(length(document)), 0) FROM definitions WHERE hash IN"
    " (SELECT hash FROM definition_versions WHERE tenant = ?1))"
)
# A bucket that does not exist is full. What is taken may be more than what is left: then it is owed.
_LEFT = "min(:burst, tokens + max(0, :at - at) * :per_minute / 60000.0) - :amount"
_TAKE = (
    "INSERT INTO rate_buckets (bucket, tokens, at, full_at)"
    " VALUES (:bucket, :burst - :amount, :at, :at + max(0, :amount) * 60000.0 / :per_minute)"
    f" ON CONFLICT DO UPDATE SET tokens = {_LEFT}, at = max(at, :at),"
    f" full_at = max(at, :at) + (:burst - ({_LEFT})) * 60000.0 / :per_minute"
    " RETURNING tokens"
)


def usage(connection: sqlite3.Connection, tenant: str, subject: str, at: int) -> UsageRow:
    """What a subject used on the day of a time, and how many of its runs have not ended."""
    found = connection.execute(_READ, (tenant, subject, day_of(at))).fetchone() or (0, 0, 0)
    if subject == TENANT_SUBJECT:
        now = sum(count for (count,) in connection.execute(_TENANT_RUNS, (tenant,)))
    else:
        (now,) = connection.execute(f"SELECT count(*) {_OWN_RUNS} AND NOT {_ENDED}", (tenant, subject)).fetchone()
    return UsageRow(runs=found[0], tokens=found[1], cost=found[2], runs_now=now)


def count_start(connection: sqlite3.Connection, quota: StartQuota, run_id: str) -> None:
    """Count the start of a run for every subject of its quotas, within the transaction that stores the run.

    Raises if it is above one of them, which rolls the start back. The run is stored already, so the index has it.
    """
    for item in quota.subjects:
        used = usage(connection, quota.tenant, item.subject, quota.at)
        if item.subject == TENANT_SUBJECT:
            used = replace(used, runs_now=max(0, used.runs_now - 1))
        check_quota(item.limits, used, item.subject, quota.at)
        connection.execute(_ADD, (quota.tenant, item.subject, day_of(quota.at), 1, 0, 0))
        if item.subject != TENANT_SUBJECT:
            connection.execute(_DROP_ENDED, (quota.tenant, item.subject))
            connection.execute("INSERT OR IGNORE INTO quota_runs VALUES (?,?,?)", (quota.tenant, item.subject, run_id))


def add_usage(connection: sqlite3.Connection, used: RunUsage) -> None:
    """Count what a result reports, for its tenant, for whom it was performed, and for each model."""
    for subject in (TENANT_SUBJECT, *used.subjects):
        connection.execute(_ADD, (used.tenant, subject, day_of(used.at), 0, used.tokens, used.cost))
    for model in used.models:
        subject = model_subject(model.name)
        connection.execute(_ADD, (used.tenant, subject, day_of(used.at), 0, model.tokens, model.cost))


def forget_usage(connection: sqlite3.Connection, set_aside: SetAside, *, before_day: int, now: int) -> int:
    """Delete the counts of days before a day, buckets that are full again, and calls that are before every window."""
    forget_uses(connection, set_aside, now)
    full = ExpiredRows(table="rate_buckets", key="bucket", condition="full_at < ?", parameters=(now,))
    set_aside.delete_expired(connection, "rates", full)
    old = ExpiredRows(table="usage_counts", key="tenant, subject, day", condition="day < ?", parameters=(before_day,))
    return set_aside.delete_expired(connection, "usage", old)


def storage_bytes(connection: sqlite3.Connection, tenant: str) -> int:
    """How many bytes a tenant stores: histories, large values, resources and definitions."""
    (total,) = connection.execute(_STORED, (tenant,)).fetchone()
    return int(total)


def exchange_buckets(connection: sqlite3.Connection, taken: Sequence[BucketUse], at: int) -> tuple[BucketLevel, ...]:
    """Take from buckets that processes share, and return what is left in each."""
    found: list[BucketLevel] = []
    for item in taken:
        given = {"bucket": item.bucket, "burst": item.burst, "amount": item.amount, "per_minute": item.per_minute}
        (tokens,) = connection.execute(_TAKE, {**given, "at": at}).fetchone()
        found.append(BucketLevel(item.bucket, tokens))
    return tuple(found)
