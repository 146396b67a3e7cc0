"""Listings of runs in the SQLite file: newest first, a page at a time, always from an index.

Keys are in order of creation, so every index returns its runs newest first, and a page costs the same wherever it
starts. One filter leads: its index is walked, and the other filters are checked run by run. With several filters, the
runs of each are counted up to a bound, and the filter with the fewest leads. The indexes of statuses, of workflows
and of starters are ordered by tenant first. Without a tenant, the runs of all tenants are merged. No index has the
order of updates: a listing by update sorts all runs of its filters.

Above it: `store`. Below it: `row_keys`, `codec`, `text_index`; the indexes are in `schema.migrations`.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from penstock.base import limits
from penstock.runtime.ports.runs import RunPage, RunQuery
from penstock.runtime.stores.sqlite.runs.row_keys import KEY_MAX, KEYS_PER_MS, first_key_of
from penstock.runtime.stores.sqlite.runs.text_index import match_query
from penstock.runtime.tables.codec import RUN_COLUMNS, run_of
from penstock.runtime.tables.listings import (
    cut_page,
    number_cursor,
    number_position,
    runs_page_size,
    update_cursor,
    update_position,
)
from penstock.runtime.tables.search_rules import folded, search_words

__all__ = ["is_short", "list_runs", "statement_of"]

# A filter with fewer runs than this is walked to its end quickly, so there is no point in counting further.
_PROBE_ROWS_MAX = 300
# Walks that are merged into one listing; SQLite allows up to 500. With more tenants than this, an operator's query
# without a tenant walks the newest runs instead.
_WALKS_MAX = 200
# Every tenant that has runs, with one index lookup for each.
_TENANTS = (
    "WITH RECURSIVE tenants (name) AS (SELECT min(tenant) FROM runs UNION ALL"
    " SELECT (SELECT min(tenant) FROM runs WHERE tenant > name) FROM tenants WHERE name IS NOT NULL)"
    " SELECT name FROM tenants WHERE name IS NOT NULL LIMIT ?"
)

Parameters = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Source:
    """Where runs are found: the table with the index, its key column, and a condition that the index answers."""

    table: str
    key: str
    condition: str
    parameters: Parameters
    joined: str = ""  # the join to the runs, if the index is on another table


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filter:
    """One condition in two forms: the sources that find runs by it, and the check of a run that was found otherwise.

    A filter without sources can only be checked. A filter that `repeats` is checked even when it leads.
    """

    sources: tuple[_Source, ...]
    check: str
    parameters: Parameters
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class _Span:
    """The range of keys that contains a page, and the exact times: keys are less exact than times."""

    low: int
    high: int
    check: str
    parameters: Parameters


def list_runs(connection: sqlite3.Connection, query: RunQuery) -> RunPage:
    """One page of a listing."""
    size = runs_page_size(query.limit)
    statement, parameters = statement_of(connection, query)
    found = connection.execute(statement, (*parameters, size + 1)).fetchall()
    page, next_cursor = cut_page(found, size, lambda columns: _cursor(query, columns))
    return RunPage(tuple(map(run_of, page)), next_cursor, _total(connection, query) if query.counted else None)


def _cursor(query: RunQuery, columns: tuple[Any, ...]) -> str:
    position = columns[-1]
    return update_cursor(run_of(columns).updated_at, position) if query.by_update else number_cursor(position)


def _total(connection: sqlite3.Connection, query: RunQuery) -> int:
    statement, parameters = statement_of(connection, replace(query, cursor=None))
    (total,) = connection.execute(
        f"SELECT count(*) FROM ({statement})", (*parameters, limits.RUNS_COUNTED_MAX)
    ).fetchone()
    return int(total)


def is_short(query: RunQuery) -> bool:
    """True if a page is a walk over only as many adjacent rows as it has, wherever it starts."""
    return query.limit <= limits.LISTED_AT_ONCE and query == RunQuery(
        limit=query.limit, cursor=query.cursor, tenant=query.tenant
    )


def statement_of(connection: sqlite3.Connection, query: RunQuery) -> tuple[str, Parameters]:
    """The statement of a listing and its parameters, without the last one: the number of rows."""
    filters, span = _filters(connection, query), _span(query)
    leader = _leader(connection, [item for item in filters if item.sources], span)
    sources = leader.sources if leader is not None else (_Source("runs NOT INDEXED", "key", "1", ()),)
    conditions, checked = span.check, span.parameters
    for item in filters:
        if item is not leader or item.repeats:
            conditions += f" AND {item.check}"
            checked += item.parameters
    statements: list[str] = []
    parameters: Parameters = ()
    for source in sources:
        where = f"{source.condition} AND {source.key} BETWEEN ? AND ?{conditions}"
        statements.append(
            f"SELECT {RUN_COLUMNS}, {source.key} AS position FROM {source.table}{source.joined} WHERE {where}"
        )
        parameters += (*source.parameters, span.low, span.high, *checked)
    order = "updated_at DESC, position DESC" if query.by_update else "position DESC"
    return f"{' UNION ALL '.join(statements)} ORDER BY {order} LIMIT ?", parameters


def _filters(connection: sqlite3.Connection, query: RunQuery) -> list[_Filter]:
    filters: list[_Filter] = []
    if query.label is not None:
        name, value = query.label
        given: Parameters = (folded(value), name, value)
        condition = "folded = ? AND name = ? AND value = ?"
        source = _Source("labels", "run", condition, given, " CROSS JOIN runs ON key = run")
        check = f"EXISTS (SELECT 1 FROM labels WHERE {condition} AND run = key)"
        filters.append(_Filter(sources=(source,), check=check, parameters=given))
    if query.parent_run_id is not None:
        source = _Source("runs INDEXED BY runs_by_parent", "key", "parent_run_id = ?", (query.parent_run_id,))
        filters.append(_Filter(sources=(source,), check="+parent_run_id = ?", parameters=source.parameters))
    words = search_words(query.text or "")
    if words:
        joined = " CROSS JOIN runs ON key = runs_text.rowid"
        source = _Source("runs_text", "runs_text.rowid", "runs_text MATCH ?", (match_query(connection, words),), joined)
        check = "text_matches(tenant, run_id, workflow_name, labels, ?)"
        filters.append(_Filter(sources=(source,), check=check, parameters=(query.text,), repeats=True))
    if query.workflow_name is not None:
        filters.append(_by_column(connection, query, "workflow_name", "runs_by_workflow", (query.workflow_name,)))
    if query.started_by is not None:  # nobody is stored as an empty text, and is not found by it
        filters.append(_by_column(connection, query, "started_by", "runs_by_starter", (query.started_by or None,)))
    if query.statuses:
        statuses = tuple(dict.fromkeys(query.statuses))
        filters.append(_by_column(connection, query, "status", "runs_by_status", statuses))
    if query.tenant is not None:
        # The indexes of statuses, workflows and starters start with the tenant anyway.
        is_needed = query.workflow_name is None and query.started_by is None and not query.statuses
        source = _Source("runs INDEXED BY runs_by_tenant", "key", "tenant = ?", (query.tenant,))
        sources = (source,) if is_needed else ()
        filters.append(_Filter(sources=sources, check="+tenant = ?", parameters=(query.tenant,)))
    return filters


def _by_column(
    connection: sqlite3.Connection, query: RunQuery, column: str, index: str, values: tuple[str | None, ...]
) -> _Filter:
    """A filter on a column with one of several values. Each value is walked alone, to keep the order of keys."""
    most = _WALKS_MAX // len(values)
    tenants = _tenants(connection, most + 1) if query.tenant is None else [query.tenant]
    sources = tuple(
        _Source(f"runs INDEXED BY {index}", "key", f"tenant = ? AND {column} = ?", (tenant, value))
        for tenant in tenants
        for value in values
    )
    # The plus keeps SQLite from choosing this index when another filter leads.
    check = f"+{column} IN ({', '.join('?' * len(values))})"
    return _Filter(sources=sources if len(tenants) <= most else (), check=check, parameters=values)


def _tenants(connection: sqlite3.Connection, limit: int) -> list[str]:
    return [str(name) for (name,) in connection.execute(_TENANTS, (limit,))]


def _span(query: RunQuery) -> _Span:
    low, high, check = 0, KEY_MAX, ""
    parameters: Parameters = ()
    if query.by_update:
        moved = update_position(query.cursor)
        if moved is not None:
            check += " AND (updated_at, key) < (?, ?)"
            parameters += (moved[0], min(moved[1], KEY_MAX))
    elif (position := number_position(query.cursor)) is not None:
        high = min(high, position - 1)
    if query.updated_after is not None:
        check += " AND updated_at > ?"
        parameters += (query.updated_after,)
    if query.created_after is not None:
        low = first_key_of(query.created_after + 1)
        check += " AND created_at > ?"
        parameters += (query.created_after,)
    if query.created_before is not None:
        high = min(high, first_key_of(query.created_before - 1) + KEYS_PER_MS - 1)
        check += " AND created_at < ?"
        parameters += (query.created_before,)
    return _Span(low, high, check, parameters)


def _leader(connection: sqlite3.Connection, filters: list[_Filter], span: _Span) -> _Filter | None:
    """The filter with the fewest runs. A single filter always leads."""
    if len(filters) <= 1:
        return filters[0] if filters else None
    best, fewest = None, _PROBE_ROWS_MAX
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
