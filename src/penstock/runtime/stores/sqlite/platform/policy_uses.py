"""Calls that policies count, in the SQLite file: a row for each, with the one number that a policy adds up.

Above it: `platform.store`. Below it: sqlite3.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

from penstock.base.limits import POLICY_HISTORY_WINDOW_MS_MAX
from penstock.runtime.ports.usage import PolicyTotal, PolicyUse, TakenUses
from penstock.runtime.stores.sqlite.set_aside import ExpiredRows, SetAside

__all__ = ["forget_uses", "release_uses", "take_uses"]

_INSERT = (
    "INSERT INTO policy_uses (tenant, action, field, principal, resource, run, amount, at) VALUES (?,?,?,?,?,?,?,?)"
)
_WHERE = "FROM policy_uses WHERE tenant = ? AND action = ? AND field = ? AND at > ?"
_MAX = 2**63 - 1
# Sums of floats are not exact, so there is a margin: from here on a sum of integers might not fit.
_SUM_MAX = 9.0e18


def take_uses(connection: sqlite3.Connection, uses: Sequence[PolicyUse], asked: Sequence[PolicyTotal]) -> TakenUses:
    """Enter calls, and return totals."""
    ids = []
    for use in uses:
        values = (use.tenant, use.action, use.field, use.principal, use.resource, use.run, use.amount, use.at)
        ids.append(int(connection.execute(_INSERT, values).lastrowid or 0))
    return TakenUses(tuple(ids), tuple(_total(connection, item) for item in asked))


def _total(connection: sqlite3.Connection, asked: PolicyTotal) -> int:
    where, values = _WHERE, [asked.tenant, asked.action, asked.field, asked.since]
    for column, value in (("principal", asked.principal), ("resource", asked.resource), ("run", asked.run)):
        if value is not None:
            where, values = f"{where} AND {column} = ?", [*values, value]
    (about,) = connection.execute(f"SELECT total(amount) {where}", values).fetchone()
    if about > _SUM_MAX:
        return _MAX
    (exact,) = connection.execute(f"SELECT coalesce(sum(amount), 0) {where}", values).fetchone()
    return int(exact)


def release_uses(connection: sqlite3.Connection, ids: Collection[int]) -> None:
    """Delete calls that were not made."""
    connection.executemany("DELETE FROM policy_uses WHERE id = ?", [(number,) for number in ids])


def forget_uses(connection: sqlite3.Connection, set_aside: SetAside, now: int) -> None:
    """Delete calls that are before every window."""
    before = now - POLICY_HISTORY_WINDOW_MS_MAX
    old = ExpiredRows(table="policy_uses", key="rowid", condition="at < ?", parameters=(before,))
    set_aside.delete_expired(connection, "counted calls", old)
