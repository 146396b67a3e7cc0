"""Listings of runs: newest first, a page at a time, always from an index.

Keys are in order of creation, so every index returns its runs newest first, and a page costs the same wherever it
starts. One filter leads: its index is walked, and the other filters are checked run by run. With several filters, the
runs of each are counted up to a bound, and the filter with the fewest leads. The indexes of statuses, of workflows
and of starters are ordered by tenant first. Without a tenant, the runs of all tenants are merged. No index has the
order of updates: a listing by update sorts all runs of its filters.

Above it: `store`. Below it: `row_keys`, `codec`, and the run index of the driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from penstock.base import limits
from penstock.runtime.ports.run_index import RunIndex
from penstock.runtime.ports.runs import RunPage, RunQuery
from penstock.runtime.ports.transactions import Reader
from penstock.runtime.tables.codec import RUN_COLUMNS, run_of
from penstock.runtime.tables.listings import (
    cut_page,
    number_cursor,
    number_position,
    runs_page_size,
    update_cursor,
    update_position,
)
from penstock.runtime.tables.runs.row_keys import KEY_MAX, KEYS_PER_MS, first_key_of
from penstock.runtime.tables.search_rules import folded, search_words

__all__ = ["is_short", "list_runs", "statement_of"]

# A filter with fewer runs than this is walked to its end quickly, so there is no point in counting further.
_PROBE_ROWS_MAX = 300
# Walks that are merged into one listing. With more tenants than this, an operator's query
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


def list_runs(reader: Reader, index: RunIndex, query: RunQuery) -> RunPage:
    """One page of a listing."""
    size = runs_page_size(query.limit)
    statement, parameters = statement_of(reader, index, query)
    found = reader.rows(statement, (*parameters, size + 1))
    page, next_cursor = cut_page(found, size, lambda columns: _cursor(query, columns))
    return RunPage(tuple(map(run_of, page)), next_cursor, _count_all(reader, index, query) if query.counted else None)


def _cursor(query: RunQuery, columns: tuple[Any, ...]) -> str:
    position = columns[-1]
    return update_cursor(run_of(columns).updated_at, position) if query.by_update else number_cursor(position)


def _count_all(reader: Reader, index: RunIndex, query: RunQuery) -> int:
    statement, parameters = statement_of(reader, index, replace(query, cursor=None))
    found = reader.one(f"SELECT count(*) FROM ({statement}) AS listed", (*parameters, limits.RUNS_COUNTED_MAX))
    return 0 if found is None else int(found[0])


def is_short(query: RunQuery) -> bool:
    """True if a page is a walk over only as many adjacent rows as it has, wherever it starts."""
    return query.limit <= limits.LISTED_AT_ONCE and query == RunQuery(
        limit=query.limit, cursor=query.cursor, tenant=query.tenant
    )


def statement_of(reader: Reader, index: RunIndex, query: RunQuery) -> tuple[str, Parameters]:
    """The statement of a listing and its parameters, without the last one: the number of rows."""
    filters, span = _filters(reader, index, query), _span(query)
    leader = _leader(reader, [item for item in filters if item.sources], span)
    sources = leader.sources if leader is not None else (_Source("runs", "key", "1 = 1", ()),)
    conditions, checked = span.check, span.parameters
    for item in filters:
        if item is not leader or item.repeats:
            conditions += f" AND {item.check}"
            checked += item.parameters
    statements: list[str] = []
    parameters: Parameters = ()
    for source in sources:
        where = f"{source.condition} AND {source.key} BETWEEN ? AND ?{conditions}"
        statements.append(f"SELECT {RUN_COLUMNS}, {source.key} AS position FROM {source.table} WHERE {where}")
        parameters += (*source.parameters, span.low, span.high, *checked)
    order = "updated_at DESC, position DESC" if query.by_update else "position DESC"
    return f"{' UNION ALL '.join(statements)} ORDER BY {order} LIMIT ?", parameters


def _filters(reader: Reader, index: RunIndex, query: RunQuery) -> list[_Filter]:
    filters: list[_Filter] = []
    if query.label is not None:
        name, value = query.label
        given: Parameters = (folded(value), name, value)
        condition = "folded = ? AND name = ? AND value = ? AND run = key"
        source = _Source("labels CROSS JOIN runs", "run", condition, given)
        check = f"EXISTS (SELECT 1 FROM labels WHERE {condition})"
        filters.append(_Filter(sources=(source,), check=check, parameters=given))
    if query.parent_run_id is not None:
        source = _Source("runs", "key", "parent_run_id = ?", (query.parent_run_id,))
        filters.append(_Filter(sources=(source,), check="parent_run_id || '' = ?", parameters=source.parameters))
    words = search_words(query.text or "")
    if words:
        found = index.find(reader, query.text or "", words)
        source = _Source(found.tables, found.key, found.condition, found.values)
        filters.append(_Filter(sources=(source,), check=found.check, parameters=found.check_values, repeats=True))
    if query.workflow_name is not None:
        filters.append(_by_column(reader, query, "workflow_name", (query.workflow_name,)))
    if query.started_by is not None:  # nobody is stored as an empty text, and is not found by it
        filters.append(_by_column(reader, query, "started_by", (query.started_by or None,)))
    if query.statuses:
        statuses = tuple(dict.fromkeys(query.statuses))
        filters.append(_by_column(reader, query, "status", statuses))
    if query.tenant is not None:
        # The indexes of statuses, workflows and starters start with the tenant anyway.
        is_needed = query.workflow_name is None and query.started_by is None and not query.statuses
        source = _Source("runs", "key", "tenant = ?", (query.tenant,))
        sources = (source,) if is_needed else ()
        filters.append(_Filter(sources=sources, check="tenant || '' = ?", parameters=(query.tenant,)))
    return filters


def _by_column(reader: Reader, query: RunQuery, column: str, values: tuple[str | None, ...]) -> _Filter:
    """A filter on a column with one of several values. Each value is walked alone, to keep the order of keys."""
    most = _WALKS_MAX // len(values)
    tenants = _list_tenants(reader, most + 1) if query.tenant is None else [query.tenant]
    sources = tuple(
        _Source("runs", "key", f"tenant = ? AND {column} = ?", (tenant, value))
        for tenant in tenants
        for value in values
    )
    # An expression keeps a database from choosing this index when another filter leads.
    check = f"{column} || '' IN ({', '.join('?' * len(values))})"
    return _Filter(sources=sources if len(tenants) <= most else (), check=check, parameters=values)


def _list_tenants(reader: Reader, limit: int) -> list[str]:
    return [str(name) for (name,) in reader.rows(_TENANTS, (limit,))]


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


def _leader(reader: Reader, filters: list[_Filter], span: _Span) -> _Filter | None:
    """The filter with the fewest runs. A single filter always leads."""
    if len(filters) <= 1:
        return filters[0] if filters else None
    best, fewest = None, _PROBE_ROWS_MAX
    for item in filters:
        count = 0
        for source in item.sources:
            statement = f"SELECT 1 FROM {source.table} WHERE {source.condition} AND {source.key} BETWEEN ? AND ?"
            count += _count(reader, statement, (*source.parameters, span.low, span.high))
        if best is None or count < fewest:
            best, fewest = item, count
    return best


def _count(reader: Reader, statement: str, parameters: Parameters) -> int:
    found = reader.one(f"SELECT count(*) FROM ({statement} LIMIT ?) AS probed", (*parameters, _PROBE_ROWS_MAX))
    return 0 if found is None else int(found[0])
