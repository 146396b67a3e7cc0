"""What tenants and keys use, and the token buckets that processes share.

Counts are rows by tenant, subject and day. The runs of a tenant that have not ended are in the index of runs; those of
a key are listed in a table of their own, from which the ended ones are taken when it is read.

Starts and results count in the transactions that store them.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from penstock.governance.quotas import TENANT_SUBJECT, UsageRow, check_quota, day_of
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.models import model_subject
from penstock.runtime.ports.set_aside import ExpiredRows
from penstock.runtime.ports.transactions import Reader, Transaction
from penstock.runtime.ports.usage import BucketLevel, BucketUse, RunUsage, StartQuota
from penstock.runtime.tables.policy_uses import expired_uses

__all__ = [
    "add_usage",
    "count_start",
    "exchange_buckets",
    "forget_usage",
    "measure_storage_bytes",
    "read_usage",
]

_READ = "SELECT runs, tokens, cost FROM usage_counts WHERE tenant = ? AND subject = ? AND day = ?"
_ADD = (
    "INSERT INTO usage_counts (tenant, subject, day, runs, tokens, cost) VALUES (?,?,?,?,?,?)"
    " ON CONFLICT (tenant, subject, day) DO UPDATE SET"
    " runs = usage_counts.runs + excluded.runs, tokens = usage_counts.tokens + excluded.tokens,"
    " cost = usage_counts.cost + excluded.cost"
)
_OWN_RUNS = "FROM quota_runs AS own WHERE own.tenant = ? AND own.subject = ?"
_ENDED = "NOT EXISTS (SELECT 1 FROM runs WHERE runs.run_id = own.run_id AND runs.terminal = 0)"
_DROP_ENDED = (
    "DELETE FROM quota_runs WHERE tenant = ? AND subject = ? AND"
    " NOT EXISTS (SELECT 1 FROM runs WHERE runs.run_id = quota_runs.run_id AND runs.terminal = 0)"
)
# Every status but those of ended runs, as ranges of the index by tenant and status.
_TENANT_RUNS = " UNION ALL ".join(
    f"SELECT count(*) AS runs FROM runs WHERE tenant = :tenant AND {open_range}"
    for open_range in (
        "status < 'cancelled'",
        "status > 'cancelled' AND status < 'completed'",
        "status > 'completed' AND status < 'failed'",
        "status > 'failed'",
    )
)
_STORED = (
    "SELECT (SELECT coalesce(sum(length(h.records)), 0) FROM runs AS r JOIN history AS h ON h.run = r.key"
    " WHERE r.tenant = :tenant)"
    " + (SELECT coalesce(sum(length(p.content)), 0) FROM payloads AS p WHERE p.hash IN"
    " (SELECT u.hash FROM runs AS r JOIN payload_uses AS u ON u.run = r.key WHERE r.tenant = :tenant))"
    " + (SELECT coalesce(sum(length(body)), 0) FROM resources WHERE tenant = :tenant)"
    " + (SELECT coalesce(sum(length(document)), 0) FROM definitions WHERE hash IN"
    " (SELECT hash FROM definition_versions WHERE tenant = :tenant))"
)
_BUCKET = "SELECT tokens, at FROM rate_buckets WHERE bucket = ?"
_KEEP_BUCKET = (
    "INSERT INTO rate_buckets (bucket, tokens, at, full_at) VALUES (?,?,?,?) ON CONFLICT (bucket) DO UPDATE SET"
    " tokens = excluded.tokens, at = excluded.at, full_at = excluded.full_at"
)
_KEEP_RUN = "INSERT INTO quota_runs (tenant, subject, run_id) VALUES (?,?,?) ON CONFLICT DO NOTHING"


async def read_usage(database: Database, tenant: str, subject: str, *, at: int) -> UsageRow:
    """Return what a subject used on the day of a time, and how many of its runs have not ended."""
    return await database.read(lambda reader: _read_subject(reader, tenant, subject, at))


def _read_subject(reader: Reader, tenant: str, subject: str, at: int) -> UsageRow:
    runs, tokens, cost = reader.one(_READ, (tenant, subject, day_of(at))) or (0, 0, 0)
    if subject == TENANT_SUBJECT:
        now = sum(count for (count,) in reader.rows(_TENANT_RUNS, {"tenant": tenant}))
    else:
        ((now,),) = reader.rows(f"SELECT count(*) {_OWN_RUNS} AND NOT {_ENDED}", (tenant, subject))
    return UsageRow(runs=runs, tokens=tokens, cost=cost, runs_now=now)


def count_start(transaction: Transaction, quota: StartQuota, run_id: str) -> None:
    """Count the start of a run for every subject of its quotas, within the transaction that stores the run.

    Raises if it is above one of them, which rolls the start back. The run is stored already, so the index has it.
    """
    # In the order of their names, as results do: of two transactions, neither waits for the other.
    ordered = sorted(quota.subjects, key=lambda item: item.subject)
    for item in ordered:
        transaction.lock(f"quota/{quota.tenant}/{item.subject}")
    for item in quota.subjects:
        used = _read_subject(transaction, quota.tenant, item.subject, quota.at)
        if item.subject == TENANT_SUBJECT:
            used = replace(used, runs_now=max(0, used.runs_now - 1))
        check_quota(item.limits, used, item.subject, quota.at)
    for item in ordered:
        transaction.execute(_ADD, (quota.tenant, item.subject, day_of(quota.at), 1, 0, 0))
        if item.subject != TENANT_SUBJECT:
            transaction.execute(_DROP_ENDED, (quota.tenant, item.subject))
            transaction.execute(_KEEP_RUN, (quota.tenant, item.subject, run_id))


def add_usage(transaction: Transaction, used: RunUsage) -> None:
    """Count what a result reports, for its tenant, for whom it was performed, and for each model."""
    counted = [(subject, used.tokens, used.cost) for subject in (TENANT_SUBJECT, *used.subjects)]
    counted += [(model_subject(model.name), model.tokens, model.cost) for model in used.models]
    for subject, tokens, cost in sorted(counted):
        transaction.execute(_ADD, (used.tenant, subject, day_of(used.at), 0, tokens, cost))


async def forget_usage(database: Database, *, before_day: int, now: int) -> int:
    """Delete counts of days before a day, full buckets, and calls before every window; return how many counts."""
    set_aside = database.set_aside
    full = ExpiredRows(
        table="rate_buckets",
        key=("bucket",),
        condition="full_at < ?",
        parameters=(now,),
        order="ORDER BY bucket",
        is_each_alone=True,
    )
    old = ExpiredRows(
        table="usage_counts", key=("tenant", "subject", "day"), condition="day < ?", parameters=(before_day,)
    )

    def change(transaction: Transaction) -> int:
        set_aside.delete_expired(transaction, "counted calls", expired_uses(now))
        set_aside.delete_expired(transaction, "rates", full)
        return set_aside.delete_expired(transaction, "usage", old)

    return await database.write(change)


async def measure_storage_bytes(database: Database, tenant: str) -> int:
    """Return how many bytes a tenant stores. This reads much: not for a call that somebody waits for."""
    ((total,),) = await database.rows(_STORED, {"tenant": tenant})
    return int(total)


async def exchange_buckets(database: Database, taken: Sequence[BucketUse], *, at: int) -> tuple[BucketLevel, ...]:
    """Take from token buckets that processes share; return what is left in each, in order."""

    ordered = sorted(enumerate(taken), key=lambda item: item[1].bucket)

    def change(transaction: Transaction) -> tuple[BucketLevel, ...]:
        for name in sorted({use.bucket for use in taken}):
            transaction.lock(f"bucket/{name}")
        left = {place: _take_from(transaction, use, at) for place, use in ordered}
        return tuple([left[place] for place in range(len(taken))])

    return await database.write(change)


def _take_from(transaction: Transaction, use: BucketUse, at: int) -> BucketLevel:
    """Take from a bucket. What is taken may be more than what is left: then it is owed."""
    before, since = transaction.one(_BUCKET, (use.bucket,)) or (use.burst, at)  # one that does not exist is full
    left = min(use.burst, before + max(0, at - since) * use.per_minute / 60_000) - use.amount
    latest = max(since, at)
    full_at = latest + (use.burst - left) * 60_000 / use.per_minute
    transaction.execute(_KEEP_BUCKET, (use.bucket, left, latest, full_at))
    return BucketLevel(use.bucket, left)
