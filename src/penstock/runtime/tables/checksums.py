"""Checksums of rows: what a row was when it was written, so that a changed byte is found later.

`CHECKED` has the columns that the checksum of a table covers, in their order. The rows of graphs have tables of their
own, whose columns come and go with the schema; `cells_checksum` covers what is in them by name.

A checksum finds damage, not forgery: everybody can compute one. Audit records have seals for that.

Above it: everything that writes rows, `maintenance.checksums`, which compares. Below it: sqlite3, msgspec, zlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from zlib import crc32

from penstock.base.encoding import SafePacker
from penstock.runtime.ports.audit import AuditEntry

__all__ = [
    "CHECKED",
    "checked_columns",
    "row_checksum",
]

_ENCODER = SafePacker()

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


def checked_columns(table: str) -> str:
    """The columns that the checksum of a table covers, as SQL."""
    return ", ".join(CHECKED[table])
