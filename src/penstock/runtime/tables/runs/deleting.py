"""Deletes runs that have ended, with everything that belongs to them.

You can delete a run that has ended and has no pending work, unless its parent may still ask for it. The first run of a
chain stays until all later runs are gone: its id names the chain, and a second chain of that name would collide with
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from penstock.base import limits
from penstock.base.errors import CorruptHistory
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.run_index import RunText
from penstock.runtime.ports.runs import RunRow
from penstock.runtime.ports.transactions import Row, Transaction, none_of
from penstock.runtime.tables.codec import RUN_COLUMNS, labels_of, run_of
from penstock.runtime.tables.runs.payloads import drop_payloads, lock_payloads
from penstock.runtime.tables.search_rules import folded
from penstock.runtime.tables.spending import drop_spending, lock_spending

__all__ = ["delete_ended", "delete_runs", "forget_runs", "list_ended"]

# The ids of the later runs of a chain lie in the index between two bounds that are easy to compute.
_DELETABLE = (
    "terminal = 1 AND has_work = 0 AND NOT EXISTS"
    " (SELECT 1 FROM runs AS parent WHERE parent.run_id = runs.parent_run_id AND parent.terminal = 0)"
    " AND NOT EXISTS (SELECT 1 FROM runs AS later WHERE later.run_id >= runs.run_id || '~1'"
    " AND later.run_id < runs.run_id || '~:'"
    " AND ltrim(substr(later.run_id, length(runs.run_id) + 2), '0123456789') = '')"
)
_DELETE = f"DELETE FROM runs WHERE run_id = ? AND {_DELETABLE} RETURNING key, tenant, run_id, workflow_name, labels"
_DROP_LABEL = "DELETE FROM labels WHERE folded = ? AND name = ? AND run = ?"
_KIND = "runs"
"""The kind of what could not be deleted."""
_LABELS = RUN_COLUMNS.replace(" ", "").split(",").index("labels")


async def delete_runs(database: Database, run_ids: Sequence[str], *, call: CallRecord | None = None) -> int:
    """Delete runs and return how many were deleted. `call` is the record about the first one."""

    def change(transaction: Transaction) -> list[int]:
        _lock_runs(transaction, run_ids)
        return [_delete_run(database, transaction, run_id) for run_id in run_ids]

    def happened(deleted: list[int]) -> bool:
        return deleted[:1] == [1]

    deleted = await database.write(change, call=call, happened=happened, is_long=True)
    return sum(deleted)


async def forget_runs(database: Database, run_ids: Sequence[str], *, call: CallRecord | None = None) -> int:
    """Delete runs like `delete_runs`, but set those aside that are damaged. `call` is about all of them."""

    def change(transaction: Transaction) -> int:
        return _delete_each(database, transaction, run_ids)

    return await database.write(change, call=call, happened=bool, is_long=True)


async def list_ended(database: Database, *, before: int, limit: int) -> tuple[RunRow, ...]:
    """Return at most `limit` runs that `forget_runs` would delete, oldest end first; fewer if they are long."""
    statement, values = _select_ended(database, RUN_COLUMNS, before, limit)
    rows = [_ended_run(found) for found in await database.rows(statement, values)]
    return tuple(rows[: _fitting([row.seq for row in rows])])


async def delete_ended(database: Database, *, before: int, limit: int) -> int:
    """Delete runs that ended before a time; oldest end first, at most `limit`.

    May stop early to keep one transaction short; 0 means that nothing is left.
    """

    def change(transaction: Transaction) -> int:
        statement, values = _select_ended(database, "run_id, seq", before, limit)
        found = transaction.rows(statement, values)
        return _delete_each(database, transaction, [run_id for run_id, _ in found[: _fitting([s for _, s in found])]])

    return await database.write(change, is_long=True)


def _select_ended(database: Database, columns: str, before: int, limit: int) -> tuple[str, Row]:
    """Select what can be deleted, in the order of the index of ended runs, whose column the statement bounds."""
    aside = database.set_aside.names(_KIND)
    chosen = f"{_DELETABLE} AND updated_at < ? AND {none_of('run_id', aside)}"
    return f"SELECT {columns} FROM runs WHERE {chosen} ORDER BY updated_at LIMIT ?", (before, *aside, limit)


def _fitting(weights: Sequence[int]) -> int:
    """Return how many runs to delete at once. A few long histories are as much work as many short ones."""
    return max(1, sum(total <= limits.RETENTION_BATCH_RECORDS_MAX for total in accumulate(weights)))


def _ended_run(found: Sequence[Any]) -> RunRow:
    try:
        return run_of(found)
    except CorruptHistory:  # without the labels; what cannot be read cannot be deleted either, which says why
        return run_of((*found[:_LABELS], None, *found[_LABELS + 1 :]))


def _delete_each(database: Database, transaction: Transaction, run_ids: Sequence[str]) -> int:
    _lock_runs(transaction, run_ids)
    return database.set_aside.delete_each(
        transaction, _KIND, run_ids, lambda run_id: _delete_run(database, transaction, run_id)
    )


def _lock_runs(transaction: Transaction, run_ids: Sequence[str]) -> None:
    """Lock what runs share with others: two deletions may have the same runs in another order."""
    lock_payloads(transaction, run_ids)
    lock_spending(transaction, run_ids)


def _delete_run(database: Database, transaction: Transaction, run_id: str) -> int:
    """Delete a run and everything that belongs to it."""
    found = transaction.rows(_DELETE, (run_id,))
    for key, tenant, _, workflow_name, encoded in found:
        labels = labels_of(encoded)
        transaction.execute("DELETE FROM history WHERE run = ?", (key,))
        drop_payloads(transaction, [key])
        drop_spending(transaction, run_id)
        for name, value in labels.items():
            transaction.execute(_DROP_LABEL, (folded(value), name, key))
        text = RunText(tenant=tenant, run_id=run_id, workflow_name=workflow_name, label_values=tuple(labels.values()))
        database.run_index.forget(transaction, key, text)
    return len(found)
