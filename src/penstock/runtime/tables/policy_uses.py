"""Calls that policies count: a row for each, with the one number that a policy adds up."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from penstock.base.limits import POLICY_HISTORY_WINDOW_MS_MAX
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.set_aside import ExpiredRows
from penstock.runtime.ports.transactions import Reader, Transaction
from penstock.runtime.ports.usage import PolicyTotal, PolicyUse, TakenUses

__all__ = ["expired_uses", "release_uses", "take_uses"]

_INSERT = (
    "INSERT INTO policy_uses (tenant, action, field, principal, resource, run, amount, at) VALUES (?,?,?,?,?,?,?,?)"
    " RETURNING id"
)
_WHERE = "FROM policy_uses WHERE tenant = ? AND action = ? AND field = ? AND at > ?"
_MAX = 2**63 - 1
# Sums of floats are not exact, so there is a margin: from here on a sum of integers might not fit.
_SUM_MAX = 9.0e18


async def take_uses(database: Database, uses: Sequence[PolicyUse], asked: Sequence[PolicyTotal]) -> TakenUses:
    """Enter calls that policies count, and return the totals, in one transaction.

    A total that needs more than 63 bits is the largest number of 63 bits.
    """
    if not uses:
        return await database.read(lambda reader: TakenUses((), _add_up_all(reader, asked)))

    def change(transaction: Transaction) -> TakenUses:
        # Of two calls at once, one has to see the other.
        counted = {(use.tenant, use.action, use.field) for use in uses}
        counted |= {(item.tenant, item.action, item.field) for item in asked}
        for name in sorted(f"uses/{'/'.join(names)}" for names in counted):
            transaction.lock(name)
        ids = []
        for use in uses:
            values = (use.tenant, use.action, use.field, use.principal, use.resource, use.run, use.amount, use.at)
            ((number,),) = transaction.rows(_INSERT, values)
            ids.append(int(number))
        return TakenUses(tuple(ids), _add_up_all(transaction, asked))

    return await database.write(change)


def _add_up_all(reader: Reader, asked: Sequence[PolicyTotal]) -> tuple[int, ...]:
    return tuple([_add_up(reader, item) for item in asked])


def _add_up(reader: Reader, asked: PolicyTotal) -> int:
    where, values = _WHERE, [asked.tenant, asked.action, asked.field, asked.since]
    for column, value in (("principal", asked.principal), ("resource", asked.resource), ("run", asked.run)):
        if value is not None:
            where, values = f"{where} AND {column} = ?", [*values, value]
    ((about,),) = reader.rows(f"SELECT coalesce(sum(amount * 1.0), 0) {where}", values)
    if about > _SUM_MAX:
        return _MAX
    ((exact,),) = reader.rows(f"SELECT coalesce(sum(amount), 0) {where}", values)
    return int(exact)


async def release_uses(database: Database, ids: Collection[int]) -> None:
    """Take back calls that were entered and not made."""
    given = [(number,) for number in sorted(ids)]
    await database.write(lambda transaction: transaction.many("DELETE FROM policy_uses WHERE id = ?", given))


def expired_uses(now: int) -> ExpiredRows:
    """Return the calls that are before every window."""
    before = now - POLICY_HISTORY_WINDOW_MS_MAX
    return ExpiredRows(table="policy_uses", key=("id",), condition="at < ?", parameters=(before,))
