"""Listings of the SQLite file: newest first, a page at a time, always from an index.

Keys are in order of creation, so every index gives its runs newest first, and a page costs the same wherever it begins.
One filter leads: its index is walked, and the other filters are checked run by run. With several filters, each is asked
how many runs it has, up to a bound, and the one with the fewest leads. Text leads only when few runs match it; when it
matches many, a page of them is found soonest by walking the newest runs.

Above it: `sqlite`. Below it: `sqlite_keys`, `sqlite_rows`; the indexes are in `sqlite_schema`.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from penstock.runtime.ports import RunPage, RunQuery
from penstock.runtime.stores.sqlite_keys import KEY_MAX, KEYS_PER_MS, first_key_of
from penstock.runtime.stores.sqlite_rows import RUN_COLUMNS, labels_of, run_of
from penstock.runtime.stores.store_rules import begins_with, cursor_of, folded, folded_id, page_size, position_of

__all__ = ["list_runs", "prepare_reader", "statement_of"]

# A filter with fewer runs than this is walked to its end in no time; counting further tells nothing new.
_PROBE_ROWS_MAX = 300

_CHARACTER_MAX = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)

Parameters = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Source:
    """Where runs are found: the table with the index, the name of the key there, and a condition the index answers."""

    table: str
    key: str
    condition: str
    parameters: Parameters
    joined: str = ""  # the runs themselves, when the index is of another table


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filter:
    """One condition in two forms: where runs are found by it, and how a run that was found otherwise is checked."""

    sources: tuple[_Source, ...]
    check: str
    parameters: Parameters


@dataclass(frozen=True, slots=True)
class _Span:
    """The keys among which a page lies, and the exact times: keys are only as exact as their range."""

    low: int
    high: int
    check: str
    parameters: Parameters


def prepare_reader(connection: sqlite3.Connection) -> None:
    """Teach a connection what text matches."""

    def matches(run_id: str, labels: str | None, text: str) -> bool:
        return begins_with(run_id, labels_of(labels).values(), text)

    connection.create_function("begins_with", 3, matches, deterministic=True)


def list_runs(connection: sqlite3.Connection, query: RunQuery) -> RunPage:
    """One page of a listing."""
    size = page_size(query)
    statement, parameters = statement_of(connection, query)
    found = connection.execute(statement, (*parameters, size + 1)).fetchall()
    page = found[:size]
    return RunPage(tuple(run_of(row) for row in page), cursor_of(page[-1][-1]) if len(found) > size else None)


def statement_of(connection: sqlite3.Connection, query: RunQuery) -> tuple[str, Parameters]:
    """The statement of a listing and its parameters, all but the last: how many rows."""
    filters, span = _filters(query), _span(query)
    leader = _leader(connection, filters, query.text, span)
    sources = leader.sources if leader is not None else (_Source("runs NOT INDEXED", "key", "1", ()),)
    conditions, checked = span.check, span.parameters
    for item in filters:
        if item is not leader:
            conditions += f" AND {item.check}"
            checked += item.parameters
    if query.text:
        # Also when text leads: its spans may hold a little more, as NOCASE puts letters among other characters.
        conditions += " AND begins_with(run_id, labels, ?)"
        checked += (query.text,)
    statements: list[str] = []
    parameters: Parameters = ()
    for source in sources:
        where = f"{source.condition} AND {source.key} BETWEEN ? AND ?{conditions}"
        statements.append(
            f"SELECT {RUN_COLUMNS}, {source.key} AS position FROM {source.table}{source.joined} WHERE {where}"
        )
        parameters += (*source.parameters, span.low, span.high, *checked)
    return f"{' UNION ALL '.join(statements)} ORDER BY position DESC LIMIT ?", parameters


def _filters(query: RunQuery) -> list[_Filter]:
    filters: list[_Filter] = []
    if query.label is not None:
        name, value = query.label
        given: Parameters = (folded(value), name, value)
        condition = "folded = ? AND name = ? AND value = ?"
        source = _Source("labels", "run", condition, given, " CROSS JOIN runs ON key = run")
        check = f"EXISTS (SELECT 1 FROM labels WHERE {condition} AND run = key)"
        filters.append(_Filter(sources=(source,), check=check, parameters=given))
    if query.parent_run_id is not None:
        filters.append(_by_column("parent_run_id", "runs_by_parent", (query.parent_run_id,)))
    if query.workflow_name is not None:
        filters.append(_by_column("workflow_name", "runs_by_workflow", (query.workflow_name,)))
    if query.statuses:
        filters.append(_by_column("status", "runs_by_status", tuple(dict.fromkeys(query.statuses))))
    return filters


def _by_column(column: str, index: str, values: tuple[str, ...]) -> _Filter:
    """A column that has one of some values. Each value is walked by itself: only then is a walk in order of keys."""
    sources = tuple(_Source(f"runs INDEXED BY {index}", "key", f"{column} = ?", (value,)) for value in values)
    # The plus keeps SQLite from choosing this index when another filter leads.
    return _Filter(sources=sources, check=f"+{column} IN ({', '.join('?' * len(values))})", parameters=values)


def _span(query: RunQuery) -> _Span:
    low, high, check = 0, KEY_MAX, ""
    parameters: Parameters = ()
    position = position_of(query.cursor)
    if position is not None:
        high = min(high, position - 1)
    if query.created_after is not None:
        low = first_key_of(query.created_after + 1)
        check += " AND created_at > ?"
        parameters += (query.created_after,)
    if query.created_before is not None:
        high = min(high, first_key_of(query.created_before - 1) + KEYS_PER_MS - 1)
        check += " AND created_at < ?"
        parameters += (query.created_before,)
    return _Span(low, high, check, parameters)


def _leader(connection: sqlite3.Connection, filters: list[_Filter], text: str | None, span: _Span) -> _Filter | None:
    """The filter with the fewest runs; with no choice, the only one."""
    if len(filters) <= 1 and not text:
        return filters[0] if filters else None
    best, fewest = None, _PROBE_ROWS_MAX
    if text:
        spans = (
            _prefix_span("SELECT key FROM runs WHERE", "run_id COLLATE NOCASE", folded_id(text)),
            _prefix_span("SELECT run FROM labels WHERE", "folded", folded(text)),
        )
        count = sum(_counted(connection, statement, parameters) for statement, parameters in spans)
        if count < fewest:
            source = _Source("runs", "key", f"key IN ({spans[0][0]} UNION {spans[1][0]})", spans[0][1] + spans[1][1])
            best, fewest = _Filter(sources=(source,), check="", parameters=()), count
    for item in filters:
        count = 0
        for source in item.sources:
            statement = f"SELECT 1 FROM {source.table} WHERE {source.condition} AND {source.key} BETWEEN ? AND ?"
            count += _counted(connection, statement, (*source.parameters, span.low, span.high))
        if best is None or count < fewest:
            best, fewest = item, count
    return best


def _counted(connection: sqlite3.Connection, statement: str, parameters: Parameters) -> int:
    limited = f"SELECT count(*) FROM ({statement} LIMIT ?)"
    (count,) = connection.execute(limited, (*parameters, _PROBE_ROWS_MAX)).fetchone()
    return int(count)


def _prefix_span(select: str, column: str, prefix: str) -> tuple[str, Parameters]:
    after = _after(prefix)
    if after is None:
        return f"{select} {column} >= ?", (prefix,)
    return f"{select} {column} >= ? AND {column} < ?", (prefix, after)


def _after(prefix: str) -> str | None:
    """The first text that comes after every text with this prefix; None when there is none."""
    prefix = prefix.rstrip(chr(_CHARACTER_MAX))
    if not prefix:
        return None
    following = ord(prefix[-1]) + 1
    return prefix[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)
