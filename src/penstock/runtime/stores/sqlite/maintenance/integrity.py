"""The integrity check of a store: damage to the file, runs that contradict their histories, dangling references.

Every history is folded, and the resulting state must match the index. A run that waits for a timer must be listed under
it, or it would never wake. Problems are returned, not raised: an operator wants to see all of them.

Above it: `backups`. Below it: the pure engine. It changes nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from zlib import crc32

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.definitions.canonical import definition_hash
from penstock.engine.folding.evolve import fold
from penstock.engine.pending import next_wake_up_at
from penstock.engine.status import run_status
from penstock.runtime.ports.maintenance import IntegrityProblem, IntegrityReport
from penstock.runtime.ports.runs import DEFAULT_TENANT, RunRow
from penstock.runtime.ports.transactions import RowError, StatementError
from penstock.runtime.stores.sqlite.maintenance.checksums import RowChecks
from penstock.runtime.stores.sqlite.runs.text_index import is_indexed
from penstock.runtime.stores.sqlite.transaction import SqliteTransaction
from penstock.runtime.tables.audit.heads import broken_heads
from penstock.runtime.tables.audit.records import broken_links
from penstock.runtime.tables.codec import RUN_COLUMNS, definition_of, run_of
from penstock.runtime.tables.runs.history import PAGES, HistoryReader
from penstock.runtime.tables.runs.payloads import altered_payloads
from penstock.runtime.tables.runs.shapes import ShapeReader, altered_shapes
from penstock.runtime.tables.search_rules import folded

__all__ = ["altered_values", "audit", "damaged_report"]

# The value for a run in a file that is older than the column.
_ABSENT = {"tenant": f"'{DEFAULT_TENANT}'", "epoch": "0", "started_by": "''"}
# Rows whose parent row must exist: the query that counts them, and the message.
_DANGLING_REFERENCES: tuple[tuple[str, str], ...] = (
    ("SELECT count(DISTINCT run) FROM history WHERE run NOT IN (SELECT key FROM runs)", "histories belong to no run"),
    ("SELECT count(*) FROM labels WHERE run NOT IN (SELECT key FROM runs)", "labels belong to no run"),
    (
        "SELECT count(*) FROM runs WHERE definition_hash NOT IN (SELECT hash FROM definitions)",
        "runs belong to a definition that is not there",
    ),
    (
        "SELECT count(*) FROM workflows WHERE hash NOT IN (SELECT hash FROM definitions)",
        "workflows name a definition that is not there",
    ),
)

_PAGE_CHECKSUMS = "SELECT first_seq, records, checksum FROM history WHERE run = ? ORDER BY first_seq"
_LOOSE_PAYLOADS: tuple[tuple[str, str], ...] = (
    (
        "SELECT count(*) FROM payloads WHERE hash NOT IN (SELECT hash FROM payload_uses)",
        "large values belong to no run",
    ),
    (
        "SELECT count(*) FROM payload_uses WHERE run NOT IN (SELECT key FROM runs)",
        "uses of large values belong to no run",
    ),
)


@dataclass(slots=True)
class _Seen:
    rows: RowChecks
    runs: int = 0
    records: int = 0
    definitions: int = 0
    shapes: ShapeReader = field(default_factory=ShapeReader)
    has_texts: bool = False  # older files have no text index
    has_starters: bool = False  # and do not say who started a run
    has_checksums: bool = False
    unchecked: int = 0
    """Pages of history without a checksum."""


def damaged_report(error: PenstockError) -> IntegrityReport:
    """The report on a file that cannot be read at all."""
    problem = IntegrityProblem(code=error.code, message=error.message)
    return IntegrityReport(runs=0, records=0, definitions=0, problems=(problem,), complete=False)


def audit(connection: sqlite3.Connection) -> IntegrityReport:
    """Check everything, inside the transaction that the caller has started."""
    seen = _Seen(RowChecks(connection))
    problems: list[IntegrityProblem] = []
    complete = True
    try:
        problems += islice(_problems(connection, seen), limits.INTEGRITY_PROBLEMS_MAX + 1)
    except (sqlite3.DatabaseError, RowError, StatementError) as error:
        problems.append(IntegrityProblem(code="STORE_CORRUPT", message=f"the file cannot be read to its end: {error}"))
        complete = False
    if len(problems) > limits.INTEGRITY_PROBLEMS_MAX:
        problems, complete = problems[: limits.INTEGRITY_PROBLEMS_MAX], False
    return IntegrityReport(
        runs=seen.runs,
        records=seen.records,
        definitions=seen.definitions,
        problems=tuple(problems),
        complete=complete,
        unchecked_pages=seen.unchecked,
        unchecked_rows=seen.rows.unchecked,
    )


def _problems(connection: sqlite3.Connection, seen: _Seen) -> Iterator[IntegrityProblem]:
    for (found,) in connection.execute(f"PRAGMA integrity_check({limits.INTEGRITY_PROBLEMS_MAX})"):
        if found != "ok":
            yield IntegrityProblem(code="STORE_CORRUPT", message=str(found))
    loose_ends = (
        _DANGLING_REFERENCES + _LOOSE_PAYLOADS if "payloads" in _table_names(connection) else _DANGLING_REFERENCES
    )
    for statement, message in loose_ends:
        (count,) = connection.execute(statement).fetchone()
        if count:
            yield IntegrityProblem(code="STORE_INCONSISTENT", message=f"{count} {message}")
    for code, message in chain(altered_values(connection), _broken_links(connection), seen.rows.problems()):
        yield IntegrityProblem(code=code, message=message)
    documents = "SELECT hash, name, version, document, created_at, NULL, NULL, NULL FROM definitions"
    for columns in connection.execute(documents):
        seen.definitions += 1
        yield from _definition_problems(columns)
    seen.has_texts = bool(connection.execute("PRAGMA table_info(runs_text)").fetchone())
    seen.has_starters = any(name == "started_by" for _, name, *_ in connection.execute("PRAGMA table_info(runs)"))
    seen.has_checksums = any(name == "checksum" for _, name, *_ in connection.execute("PRAGMA table_info(history)"))
    for key, *columns in connection.execute(f"SELECT key, {_run_columns(connection)} FROM runs ORDER BY key"):
        seen.runs += 1
        yield from _run_problems(connection, key, columns, seen)


def _definition_problems(columns: tuple[object, ...]) -> Iterator[IntegrityProblem]:
    name = f"the definition {str(columns[0])[:12]} ({columns[1]})"
    try:
        definition = definition_of(columns)
    except PenstockError as error:
        yield IntegrityProblem(code=error.code, message=f"{name}: {error.message}")
        return
    except (TypeError, ValueError) as error:
        yield IntegrityProblem(code="DEFINITION_CHANGED", message=f"{name} cannot be read: {error}")
        return
    if definition_hash(definition.document) != definition.hash:
        yield IntegrityProblem(code="DEFINITION_CHANGED", message=f"{name} does not match its hash")
    elif (definition.name, definition.version) != _name_and_version(definition.document):
        message = f"table definitions: {name} has another name or version than its document"
        yield IntegrityProblem(code="INDEX_DIFFERS", message=message)


def _name_and_version(document: JsonObject) -> tuple[str, str]:
    """The name and the version that a document gives itself, as its workflow has them."""
    about = document.get("document")
    if isinstance(about, dict):  # the published format
        return str(about.get("name", "")), str(about.get("version", ""))
    return str(document.get("name", "")), str(document.get("version", "0.0.0"))


def _run_problems(
    connection: sqlite3.Connection, key: int, columns: list[object], seen: _Seen
) -> Iterator[IntegrityProblem]:
    run_id = str(columns[0])
    try:
        row = run_of(columns)
        reader = HistoryReader(SqliteTransaction(connection), run_id, seen.shapes)
        yield from _page_problems(connection, key, run_id, seen)
        pages = connection.execute(PAGES, (key,))
        records = [record for first, page in pages for record in reader.records(first, page)]
        seen.records += len(records)
        state = fold(records)
    except PenstockError as error:
        yield IntegrityProblem(code=error.code, message=error.message, run_id=run_id)
        return
    except (KeyError, TypeError, ValueError) as error:
        message = f"a record lacks what its name promises ({type(error).__name__}: {error})"
        yield IntegrityProblem(code="RECORD_MALFORMED", message=message, run_id=run_id)
        return
    for what, indexed, folded_value in (
        ("id", row.run_id, state.run_id),
        ("number of records", row.seq, state.seq),
        ("status", row.status, run_status(state)),
        ("end", row.terminal, state.terminal),
        ("next timer", row.wake_at, next_wake_up_at(state)),
        ("definition", row.definition_hash, state.definition_hash),
        ("workflow", row.workflow_name, state.workflow_name),
        ("version", row.workflow_version, state.workflow_version),
        ("parent", row.parent_run_id, state.parent_run_id),
        ("tenant", row.tenant, state.tenant),
        *((("starter", row.started_by, state.started_by),) if seen.has_starters else ()),
    ):
        if indexed != folded_value:
            message = f"the index says {what} {indexed!r}, the history says {folded_value!r}"
            yield IntegrityProblem(code="INDEX_DIFFERS", message=message, run_id=run_id)
    if _indexed_labels(connection, key, row) != row.labels:
        yield IntegrityProblem(code="INDEX_DIFFERS", message="its labels cannot be searched for", run_id=run_id)
    if seen.has_texts and not is_indexed(connection, key, row):
        yield IntegrityProblem(code="INDEX_DIFFERS", message="it cannot be found by its text", run_id=run_id)
    if reader.payload_hashes - _noted_payloads(connection, key, reader):
        message = "its large values may be forgotten while it needs them"
        yield IntegrityProblem(code="INDEX_DIFFERS", message=message, run_id=run_id)


def _page_problems(connection: sqlite3.Connection, key: int, run_id: str, seen: _Seen) -> Iterator[IntegrityProblem]:
    """Compare pages of history with their checksums. Pages of earlier releases have none, and are counted."""
    if not seen.has_checksums:
        return
    for first_seq, page, checksum in connection.execute(_PAGE_CHECKSUMS, (key,)):
        if checksum is None:
            seen.unchecked += 1
        elif not isinstance(page, bytes) or crc32(page) != checksum:
            message = f"table history, record {first_seq}: the page is not what was written"
            yield IntegrityProblem(code="PAGE_CHANGED", message=message, run_id=run_id)


def _noted_payloads(connection: sqlite3.Connection, key: int, reader: HistoryReader) -> set[str]:
    if not reader.payload_hashes:
        return set()
    found = connection.execute("SELECT hash FROM payload_uses WHERE run = ?", (key,))
    return {bytes(name).hex() for (name,) in found}


def _indexed_labels(connection: sqlite3.Connection, key: int, row: RunRow) -> dict[str, str]:
    statement = "SELECT name, value FROM labels WHERE folded = ? AND name = ? AND run = ?"
    found = (connection.execute(statement, (folded(value), name, key)).fetchone() for name, value in row.labels.items())
    return {name: value for name, value in filter(None, found)}


def _run_columns(connection: sqlite3.Connection) -> str:
    """`RUN_COLUMNS` for a file of any format: older formats lack some of them."""
    known = {str(name) for _, name, *_ in connection.execute("PRAGMA table_info(runs)")}
    return ", ".join(name if name in known else _ABSENT[name] for name in RUN_COLUMNS.split(", "))


def _broken_links(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """Problems of the audit trails, as far as a file of any format has them."""
    tables, reader = _table_names(connection), SqliteTransaction(connection)
    if "audit" in tables:
        yield from broken_links(reader, has_removed="audit_removed" in tables)
    if "audit_heads" in tables:
        for message in broken_heads(reader):
            yield "AUDIT_CHAIN_BROKEN", message


def altered_values(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """Find large values and shapes that are altered or missing, as far as a file of any format has them."""
    tables, reader = _table_names(connection), SqliteTransaction(connection)
    if "payloads" in tables:
        yield from altered_payloads(reader)
    if "shapes" in tables:
        yield from altered_shapes(reader)


def _table_names(connection: sqlite3.Connection) -> set[str]:
    return {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
