"""What the models below each run spend.

A row says which run is above it, so the way up is one lookup for each level. The row of a run that was deleted stays as
long as a run below it has one: its limits hold for those.

Above it: `runs`, which delete it with a run. Below it: `codec`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import astuple

from penstock.base.errors import CorruptHistory
from penstock.definitions.model import AgentLimits
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.transactions import Reader, Row, Transaction
from penstock.runtime.spending import RunSpending, Spent, SpentLimit, caller_of, find_spent_limit
from penstock.runtime.tables.codec import labels_of

__all__ = ["drop_spending", "lock_spending", "read_spending", "spend"]

_AMOUNTS = Spent.__struct_fields__
_LIMITS = ("turns_max", "tokens_max", "cost_max", "time_ms_max")
_COLUMNS = ", ".join(
    ("above", "ends_at", *_LIMITS, *(f"own_{name}" for name in _AMOUNTS), *(f"below_{name}" for name in _AMOUNTS))
)
_READ = f"SELECT {_COLUMNS} FROM run_spending WHERE run_id = ?"
_OWN_AT = 2 + len(_LIMITS)
_BELOW_AT = _OWN_AT + len(_AMOUNTS)
_ADD = {
    share: f"UPDATE run_spending SET {', '.join(f'{share}_{name} = {share}_{name} + ?' for name in _AMOUNTS)}"
    " WHERE run_id = ?"
    for share in ("own", "below")
}
_LIMIT = (
    "UPDATE run_spending SET turns_max = ?, tokens_max = ?, cost_max = ?, time_ms_max = ?, ends_at = ? WHERE run_id = ?"
)
_DROP = (
    "DELETE FROM run_spending WHERE run_id = ? AND NOT EXISTS"
    " (SELECT 1 FROM run_spending AS below WHERE below.above = run_spending.run_id) RETURNING above"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Level:
    """One run on the way up."""

    run_id: str
    above: str | None
    ends_at: int | None
    limits: AgentLimits
    spending: RunSpending


async def spend(
    database: Database,
    run_id: str,
    amount: Spent,
    *,
    at: int,
    limits: AgentLimits | None = None,
    checked: bool = False,
) -> SpentLimit | None:
    """Count what a run uses, for the run and for every run above it, in one transaction.

    `limits` are those of the run itself; they are noted when it first spends something, and its time begins then. With
    `checked`, nothing is counted if the run or one above it has no room left; that limit is returned.
    """

    def change(transaction: Transaction) -> SpentLimit | None:
        lock_spending(transaction, [run_id])
        levels = list(_way_up(transaction, run_id, limits, at))
        if checked:
            for level in levels:
                used = level.spending.own + level.spending.below
                kind = find_spent_limit(level.limits, used, amount, ends_at=level.ends_at, at=at)
                if kind is not None:
                    return SpentLimit(run_id=level.run_id, kind=kind, limits=level.limits, used=used)
        for level in levels:
            share = "own" if level.run_id == run_id else "below"
            transaction.execute(_ADD[share], (*astuple(amount), level.run_id))
        return None

    return await database.write(change)


async def read_spending(database: Database, run_id: str) -> RunSpending | None:
    """Return what was counted for a run; None if nothing was."""
    found = await database.rows(_READ, (run_id,))
    return _level_of(run_id, found[0]).spending if found else None


def lock_spending(transaction: Transaction, run_ids: Sequence[str]) -> None:
    """Lock the rows of runs and of all runs above them. The run above a run never changes."""
    names: set[str] = set()
    for run_id in run_ids:
        wanted: str | None = run_id
        while wanted is not None and wanted not in names:
            names.add(wanted)
            level = _read_level(transaction, wanted)
            try:
                wanted = _find_above(transaction, wanted) if level is None else level.above
            except CorruptHistory:  # what changes the run finds that out, too
                wanted = None
    for name in sorted(names):
        transaction.lock(f"spending/{name}")


def drop_spending(transaction: Transaction, run_id: str) -> None:
    """Forget what a deleted run spent, unless a run below it needs its limits; then the last of those forgets both."""
    wanted: str | None = run_id
    while wanted is not None:
        found = transaction.one(_DROP, (wanted,))
        wanted = None if found is None else found[0]
        if wanted is not None and transaction.one("SELECT 1 FROM runs WHERE run_id = ?", (wanted,)) is not None:
            return


def _way_up(transaction: Transaction, run_id: str, limits: AgentLimits | None, at: int) -> Iterator[_Level]:
    """Yield the run, the run above it, and so on. Rows that are missing are made."""
    wanted: str | None = run_id
    seen: set[str] = set()
    while wanted is not None and wanted not in seen:
        seen.add(wanted)
        level = _read_level(transaction, wanted)
        if level is None:
            made = (wanted, _find_above(transaction, wanted))
            transaction.execute("INSERT INTO run_spending (run_id, above) VALUES (?,?)", made)
        if limits is not None and wanted == run_id and (level is None or level.limits == AgentLimits()):
            ends_at = None if limits.time_ms is None else at + limits.time_ms
            given = (limits.turns, limits.tokens, limits.cost, limits.time_ms, ends_at)
            transaction.execute(_LIMIT, (*given, run_id))
            level = None
        level = level or _read_level(transaction, wanted)
        if level is None:
            raise TypeError(f"the row of {wanted} was not made")
        yield level
        wanted = level.above


def _find_above(reader: Reader, run_id: str) -> str | None:
    """Return the run above a run, as the index of runs says."""
    found = reader.one("SELECT tenant, parent_run_id, labels FROM runs WHERE run_id = ?", (run_id,))
    return None if found is None else caller_of(found[0], found[1], labels_of(found[2]))


def _read_level(reader: Reader, run_id: str) -> _Level | None:
    found = reader.one(_READ, (run_id,))
    return None if found is None else _level_of(run_id, found)


def _level_of(run_id: str, found: Row) -> _Level:
    turns, tokens, cost, time_ms = found[2:_OWN_AT]
    return _Level(
        run_id=run_id,
        above=found[0],
        ends_at=found[1],
        limits=AgentLimits(turns=turns, tokens=tokens, cost=cost, time_ms=time_ms),
        spending=RunSpending(
            own=Spent(**dict(zip(_AMOUNTS, found[_OWN_AT:_BELOW_AT], strict=True))),
            below=Spent(**dict(zip(_AMOUNTS, found[_BELOW_AT:], strict=True))),
        ),
    )
