"""What the models below each run spend, in the SQLite file.

A row says which run is above it, so the way up is one lookup for each level. The row of a run that was deleted stays as
long as a run below it has one: its limits hold for those.

Above it: `runs.store`, `runs.appending`, which delete with a run. Below it: `codec`, sqlite3.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import astuple

from penstock.definitions.model import AgentLimits
from penstock.runtime.spending import RunSpending, Spent, SpentLimit, caller_of, find_spent_limit
from penstock.runtime.tables.codec import labels_of

__all__ = ["drop_spending", "read_spending", "spend"]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Level:
    """One run on the way up."""

    run_id: str
    above: str | None
    ends_at: int | None
    limits: AgentLimits
    spending: RunSpending


def spend(
    connection: sqlite3.Connection,
    run_id: str,
    amount: Spent,
    *,
    at: int,
    limits: AgentLimits | None,
    checked: bool,
) -> SpentLimit | None:
    """Count what a run uses, for it and for every run above it; with `checked`, only if all of them have room."""
    levels = list(_way_up(connection, run_id, limits, at))
    if checked:
        for level in levels:
            used = level.spending.own + level.spending.below
            kind = find_spent_limit(level.limits, used, amount, ends_at=level.ends_at, at=at)
            if kind is not None:
                return SpentLimit(run_id=level.run_id, kind=kind, limits=level.limits, used=used)
    for level in levels:
        share = "own" if level.run_id == run_id else "below"
        connection.execute(_ADD[share], (*astuple(amount), level.run_id))
    return None


def _way_up(connection: sqlite3.Connection, run_id: str, limits: AgentLimits | None, at: int) -> Iterator[_Level]:
    """Yield the run, the run above it, and so on. Rows that are missing are made."""
    wanted: str | None = run_id
    seen: set[str] = set()
    while wanted is not None and wanted not in seen:
        seen.add(wanted)
        level = _level(connection, wanted)
        if level is None:
            connection.execute(
                "INSERT INTO run_spending (run_id, above) VALUES (?,?)", (wanted, _above(connection, wanted))
            )
        if limits is not None and wanted == run_id and (level is None or level.limits == AgentLimits()):
            ends_at = None if limits.time_ms is None else at + limits.time_ms
            given = (limits.turns, limits.tokens, limits.cost, limits.time_ms, ends_at)
            connection.execute(_LIMIT, (*given, run_id))
            level = None
        level = level or _level(connection, wanted)
        if level is None:
            raise sqlite3.DatabaseError(f"the row of {wanted} was not made")
        yield level
        wanted = level.above


def _above(connection: sqlite3.Connection, run_id: str) -> str | None:
    """Return the run above a run, as the index of runs says."""
    found = connection.execute("SELECT tenant, parent_run_id, labels FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    return None if found is None else caller_of(found[0], found[1], labels_of(found[2]))


def _level(connection: sqlite3.Connection, run_id: str) -> _Level | None:
    found = connection.execute(_READ, (run_id,)).fetchone()
    if found is None:
        return None
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


def read_spending(connection: sqlite3.Connection, run_id: str) -> RunSpending | None:
    """What was counted for a run; None if nothing was."""
    level = _level(connection, run_id)
    return None if level is None else level.spending


def drop_spending(connection: sqlite3.Connection, run_id: str) -> None:
    """Forget what a deleted run spent, unless a run below it needs its limits; then the last of those forgets both."""
    unused = "NOT EXISTS (SELECT 1 FROM run_spending AS below WHERE below.above = run_spending.run_id)"
    wanted: str | None = run_id
    while wanted is not None:
        statement = f"DELETE FROM run_spending WHERE run_id = ? AND {unused} RETURNING above"
        found = connection.execute(statement, (wanted,)).fetchone()
        wanted = None if found is None else found[0]
        if wanted is not None and connection.execute("SELECT 1 FROM runs WHERE run_id = ?", (wanted,)).fetchone():
            return
