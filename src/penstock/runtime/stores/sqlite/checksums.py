"""Checksums of rows: what a row was when it was written, so that a changed byte is found later.

`CHECKED` has the columns that the checksum of a table covers, in their order. The rows of graphs have tables of their
own, whose columns come and go with the schema; `cells_checksum` covers what is in them by name.

A checksum finds damage, not forgery: everybody can compute one. Audit records have seals for that.

Above it: everything that writes rows, `maintenance.checksums`, which compares. Below it: sqlite3, msgspec, zlib.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple
from zlib import crc32

from penstock.base.encoding import SafePacker
from penstock.runtime.ports.audit import AuditEntry

__all__ = [
    "CHECKED",
    "GraphRow",
    "cells_checksum",
    "checked_columns",
    "graph_rows",
    "graph_tables_of",
    "renew_checksums",
    "row_checksum",
]

_ENCODER = SafePacker()
# Of a table of nodes or edges, beside identifiers, ends and properties.
_OF_VERSION = frozenset({"rid", "later", "br", "c_from", "c_to", "dead", "checksum"})
_ENDS = ("id", "src", "dst")

CHECKED: Final[dict[str, tuple[str, ...]]] = {
    "resources": ("kind", "tenant", "resource_id", "body", "etag", "updated_at", "updated_by", "author"),
    "schedules": ("schedule_id", "workflow_name", "spec", "next_at", "paused", "last_run_id", "tenant"),
    "deliveries": (
        "tenant",
        "delivery_id",
        "endpoint_id",
        "run_id",
        "event",
        "state",
        "attempts",
        "next_at",
        "created_at",
        "updated_at",
        "last_status",
        "last_error",
    ),
    "calls": ("tenant", "principal", "operation", "key", "digest", "until", "answer"),
    # Without when it was last used or revoked, which is written by itself.
    "api_keys": (
        "key_id",
        "tenant",
        "name",
        "secret_hash",
        "scopes",
        "created_at",
        "created_by",
        "expires_at",
        "replaces",
        "toolset",
        "kind",
        "groups",
        "subject",
        "lineage",
        "first_key",
    ),
    "definition_versions": ("tenant", "name", "hash", "created_at", "created_by", "author"),
    "marks": ("name", "value"),
    "audit": ("seq", "previous_hash", "hash", *AuditEntry.__struct_fields__),
    "audit_heads": ("tenant", "first_seq", "first_previous_hash", "last_seq", "last_hash", "seal"),
    "audit_removed": ("tenant", "first_seq", "last_seq", "previous_hash", "last_hash", "leaves", "seal"),
    "memory_entries": (
        "tenant",
        "scope",
        "owner",
        "session",
        "name",
        "value",
        "size",
        "created_at",
        "updated_at",
        "updated_by",
        "expires_at",
        "untrusted",
        "place",
        "words",
    ),
    "graphs": ("tenant", "name", "created_at", "created_by"),
    "graph_schemas": ("graph", "version", "seq", "source", "schema", "layout"),
    "graph_branches": ("graph", "name", "created_at", "created_by"),
    "graph_commits": (
        "graph",
        "seq",
        "commit_id",
        "branch",
        "kind",
        "parent_seq",
        "merged_seq",
        "actor",
        "message",
        "at",
    ),
}
"""The tables whose rows have a checksum, and what it covers."""


def row_checksum(values: Sequence[object]) -> int:
    """The checksum of the values of `CHECKED`, as SQLite returns them.

    It does not cover what is missing at the end: a column that is added there leaves the checksums of older rows valid.
    """
    end = len(values)
    while end and values[end - 1] is None:
        end -= 1
    return crc32(_ENCODER.encode(values[:end]))


def cells_checksum(identity: Sequence[object], cells: Iterable[tuple[str, object]]) -> int:
    """The checksum of a row of a graph: its identifier and ends, and every column that has a value, in order."""
    return crc32(_ENCODER.encode((identity, [cell for cell in cells if cell[1] is not None])))


def checked_columns(table: str) -> str:
    """The columns that the checksum of a table covers, as SQL."""
    return ", ".join(CHECKED[table])


class GraphRow(NamedTuple):
    """A row of a graph, as it is read to be compared with its checksum."""

    rid: int
    checksum: int | None
    identity: tuple[object, ...]
    cells: list[tuple[str, object]]


def graph_tables_of(connection: sqlite3.Connection) -> tuple[str, ...]:
    """The tables of nodes and edges of every graph."""
    statement = "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'g[0-9]*_[0-9]*' ORDER BY name"
    found = (str(name) for (name,) in connection.execute(statement).fetchall())
    return tuple(name for name in found if name.count("_") == 1 and name.partition("_")[2].isdigit())


def graph_rows(connection: sqlite3.Connection, table: str, rids: Sequence[int] | None = None) -> Iterator[GraphRow]:
    """The rows of a table of nodes or edges, or some of them, in order."""
    known = [str(name) for _, name, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall()]
    ends = [name for name in _ENDS if name in known]
    properties = sorted(name for name in known if name not in _OF_VERSION and name not in _ENDS)
    some = "" if rids is None else " WHERE rid IN (SELECT value FROM json_each(?))"
    given = () if rids is None else (json.dumps([*rids]),)
    listed = ", ".join(["rid", "checksum", *ends, *properties])
    for rid, checksum, *values in connection.execute(f"SELECT {listed} FROM {table}{some} ORDER BY rid", given):
        cells = list(zip(properties, values[len(ends) :], strict=True))
        yield GraphRow(rid, checksum, tuple(values[: len(ends)]), cells)


def renew_checksums(connection: sqlite3.Connection, table: str, rids: Sequence[int]) -> None:
    """Write the checksums of rows of a graph that were changed in place. Rows that had none get none."""
    changed = [row for row in graph_rows(connection, table, rids) if row.checksum is not None]
    given = [(cells_checksum(row.identity, row.cells), row.rid) for row in changed]
    connection.executemany(f"UPDATE {table} SET checksum = ? WHERE rid = ?", given)
