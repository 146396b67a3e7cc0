"""Reads of graphs: run a compiled statement on a view, within limits, and explain it.

Most reads take less time than the hop to a thread and back. They are tried on the event loop first, for a moment; what
takes longer starts again on a thread.

One transaction has the check that the view still exists, the choice of text indexes and the read. So neither garbage
collection nor a schema change comes in between.

Above it: `store`. Below it: `statements`, `searching`, `catalogue`, sqlite3.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, TypeVar

from penstock.base import limits
from penstock.graph.sql.statement import Statement, decode_row
from penstock.graph.typing.model import CheckedQuery
from penstock.runtime.ports.graphs import (
    Explanation,
    PageWanted,
    PlanStep,
    ReadLimits,
    ReadRows,
    ReadStopped,
    View,
)
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.graphs.searching.corpora import Corpora
from penstock.runtime.stores.sqlite.graphs.versions import chain_parameters

__all__ = [
    "ShortReads",
    "explain_read",
    "in_snapshot",
    "is_gone",
    "is_interrupted",
    "run_read",
    "snapshot",
    "time_limit",
]

T = TypeVar("T")

# How many steps of SQLite's machine pass between two looks at the clock: some tens of microseconds. Where texts are
# searched, a single step may take milliseconds. On the event loop everybody waits, also for a function of ours.
_STEPS_BETWEEN_LOOKS = 5_000
_STEPS_BETWEEN_LOOKS_ON_LOOP = 250
_STEPS_BETWEEN_LOOKS_IN_SEARCHES = 50
_ROWS_AT_ONCE = 256
_ALIAS = re.compile(r"\b(g\d+_\d+(?:_out|_in)?) AS (\w+)")
_HOPS = ("_out", "_in")
_TEXTS = (str, bytes)


@contextmanager
def time_limit(connection: sqlite3.Connection, seconds: float, steps: int = _STEPS_BETWEEN_LOOKS) -> Iterator[None]:
    """Interrupt statements on a connection after a time. `steps` pass between two looks at the clock."""
    deadline = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > deadline, steps)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)


def is_interrupted(error: sqlite3.Error) -> bool:
    """Whether a statement was ended by `time_limit`."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT


def is_gone(connection: sqlite3.Connection, view: View) -> bool:
    """Whether the rows of a view may have been removed."""
    branch, seq = view.chain[0]
    statement = (
        "SELECT 1 FROM graph_branches AS b JOIN graphs AS g ON g.graph = b.graph"
        " WHERE b.branch = ? AND g.deleted = 0 AND b.oldest_seq <= ? AND g.oldest_schema <= ?"
    )
    return connection.execute(statement, (branch, seq, view.schema_version)).fetchone() is None


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Several statements that see the same state of the file."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def in_snapshot(query: Callable[[sqlite3.Connection], T]) -> Callable[[sqlite3.Connection], T]:
    """A query all of whose statements see the same state of the file."""

    def run(connection: sqlite3.Connection) -> T:
        with snapshot(connection):
            return query(connection)

    return run


def run_read(
    connection: sqlite3.Connection,
    view: View,
    statement: Statement,
    values: dict[str, Any],
    corpora: Corpora,
    wanted: tuple[ReadLimits, PageWanted],
) -> ReadRows | ReadStopped:
    """Run a read, in the transaction in which it was compiled. `values` are the bound values of the query itself."""
    read_limits, page = wanted
    if _is_short(read_limits) and statement.searched:  # only on a reader thread: a single step may take long
        return ReadStopped("GRAPH_QUERY_SECONDS", read_limits.seconds)
    first, most = _window(statement, read_limits, page)
    given: dict[str, Any] = {**values, **chain_parameters(view.chain), "row_limit": most + 1, "row_offset": first}
    try:
        with time_limit(connection, read_limits.seconds, _steps_between_looks(statement, read_limits)):
            for each in statement.corpora:
                given[each.placeholder] = corpora.statistics(connection, each, view.chain, values[each.query])
            rows = _fetch(connection.execute(statement.text, given), statement, read_limits.result_bytes, most + 1)
    except sqlite3.OperationalError as error:
        if not is_interrupted(error):
            raise
        return ReadStopped("GRAPH_QUERY_SECONDS", read_limits.seconds)
    if rows is None:
        return ReadStopped("GRAPH_RESULT_BYTES_MAX", read_limits.result_bytes)
    has_more = len(rows) > most and (statement.limit is None or first + most < statement.limit)
    return ReadRows(statement.columns, tuple(rows[:most]), has_more)


def _steps_between_looks(statement: Statement, read_limits: ReadLimits) -> int:
    if statement.searched:
        return _STEPS_BETWEEN_LOOKS_IN_SEARCHES
    return _STEPS_BETWEEN_LOOKS_ON_LOOP if _is_short(read_limits) else _STEPS_BETWEEN_LOOKS


def _is_short(read_limits: ReadLimits) -> bool:
    """Whether a read is tried on the event loop."""
    return read_limits.seconds <= limits.GRAPH_SHORT_READ_SECONDS


@dataclass(slots=True)
class _Tried:
    """How a query did on the event loop. The query is kept, so that no other one gets its identity."""

    query: object
    on_thread: int = 0
    """How many of its next reads go to a thread at once."""
    after_a_miss: int = 1
    """How many do so after it took too long the next time."""


class ShortReads:
    """Tries reads on the event loop first, unless they took too long for it lately.

    One read that is late, because the machine was busy or a page had to come from the disk, says little. So the first
    one sends only the next read to a thread, and each further one twice as many.
    """

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._tried: OrderedDict[int, _Tried] = OrderedDict()

    async def read(
        self, query: CheckedQuery, read_limits: ReadLimits, run: Callable[[sqlite3.Connection, ReadLimits], T]
    ) -> T:
        """Run a read in a transaction of its own. It is run twice if it turns out to be long."""
        if self._is_expected_to_be_short(query):
            seconds = min(read_limits.seconds, limits.GRAPH_SHORT_READ_SECONDS)
            short = replace(read_limits, seconds=seconds)
            try:
                found = self._database.read_on_loop(in_snapshot(lambda connection: run(connection, short)))
            except (sqlite3.Error, UnicodeEncodeError):
                pass  # a thread can wait for locks, and explains errors
            else:
                if not isinstance(found, ReadStopped):
                    self._was_short(query)
                    return found
                self._was_long(query)
        return await self._database.read_slowly(in_snapshot(lambda connection: run(connection, read_limits)))

    def _is_expected_to_be_short(self, query: CheckedQuery) -> bool:
        known = self._tried.get(id(query))
        if known is None or known.query is not query or known.on_thread == 0:
            return True
        known.on_thread -= 1
        return False

    def _was_short(self, query: CheckedQuery) -> None:
        known = self._tried.get(id(query))
        if known is not None and known.query is query:
            known.after_a_miss = max(known.after_a_miss // 2, 1)

    def _was_long(self, query: CheckedQuery) -> None:
        known = self._tried.get(id(query))
        if known is None or known.query is not query:
            known = self._tried[id(query)] = _Tried(query)
        known.on_thread = known.after_a_miss
        known.after_a_miss = min(2 * known.after_a_miss, limits.GRAPH_SHORT_READ_MISSES_MAX)
        while len(self._tried) > limits.GRAPH_STATEMENTS_KEPT_MAX:
            self._tried.popitem(last=False)


def _window(statement: Statement, read_limits: ReadLimits, page: PageWanted) -> tuple[int, int]:
    """The first row that is wanted and how many."""
    first = max(page.first, 0)
    most = read_limits.rows if page.size is None else max(min(page.size, read_limits.rows), 0)
    if statement.limit is not None:
        most = max(min(most, statement.limit - first), 0)
    return first, most


def _fetch(cursor: sqlite3.Cursor, statement: Statement, bytes_max: int, rows_max: int) -> list[tuple[Any, ...]] | None:
    """The rows of an answer; None if they are too large together."""
    found: list[tuple[Any, ...]] = []
    size = 0
    is_plain, cells = statement.is_plain, statement.cells
    for row in islice(cursor, rows_max):  # one by one: a few hundred large rows would be more than a whole answer
        for cell in row:
            size += len(cell) if isinstance(cell, _TEXTS) else 8
        if size > bytes_max:
            return None
        found.append(row if is_plain else decode_row(cells, row))
    return found


def explain_read(
    connection: sqlite3.Connection,
    view: View,
    statement: Statement,
    values: dict[str, Any],
    entities: dict[str, str],
    *,
    run: Callable[[], ReadRows | ReadStopped] | None,
) -> Explanation | ReadStopped:
    """How a statement is run. `entities` has the types of tables; `run` runs it, to measure."""
    unknown: dict[str, Any] = dict.fromkeys(each.placeholder for each in statement.corpora)
    given = {**values, **unknown, **chain_parameters(view.chain), "row_limit": limits.GRAPH_ROWS_MAX, "row_offset": 0}
    listed = connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", given).fetchall()
    tables = {alias: table for table, alias in _ALIAS.findall(statement.text)}
    found = (_plan_step(str(detail), tables, entities) for _, _, _, detail in listed)
    steps = tuple(step for step in found if step is not None)
    rows: int | None = None
    milliseconds: float | None = None
    if run is not None:
        began = time.perf_counter()
        outcome = run()
        if not isinstance(outcome, ReadRows):
            return outcome
        rows, milliseconds = len(outcome.rows), (time.perf_counter() - began) * 1000
    scans = sum(step.access == "scan" for step in steps)
    cost: Literal["lookup", "scan", "product of scans"] = (
        "lookup" if scans == 0 else "scan" if scans == 1 else "product of scans"
    )
    return Explanation(
        statement=statement.text,
        steps=steps,
        estimated_cost=cost,
        rows=rows,
        milliseconds=milliseconds,
    )


def _plan_step(detail: str, tables: dict[str, str], entities: dict[str, str]) -> PlanStep | None:
    """One line of SQLite's plan, if it is about a table; results of other steps are read as a whole anyway."""
    words = detail.split()
    if words[0] not in ("SEARCH", "SCAN") or words[1] not in tables:
        return None
    name = tables[words[1]]
    index = next((word for word in words if word.startswith(f"{name}_")), name if name.endswith(_HOPS) else None)
    access: Literal["lookup", "scan"] = "lookup" if words[0] == "SEARCH" else "scan"
    return PlanStep(entities.get("_".join(name.split("_")[:2]), words[1]), access, index, detail)
