"""Rows of the SQLite file as values of the ports, and the statement of a listing.

Above it: `sqlite`. It runs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.base.errors import Rejected
from penstock.engine.records import Record
from penstock.runtime.ports import DefinitionRow, RunQuery, RunRow, ScheduleRow

__all__ = ["RUN_COLUMNS", "definition_of", "encode_records", "listing", "records_of", "run_of", "schedule_of"]

RUN_COLUMNS = (
    "run_id, workflow_name, workflow_version, definition_hash, status, seq, created_at, updated_at, parent_run_id,"
    " labels, wake_at, has_work, owner, terminal"
)

_RECORDS = msgspec.json.Decoder(list[tuple[int, Any, str, dict[str, Any], int]])
_LABELS = msgspec.json.Decoder(dict[str, str])
_ENCODER = msgspec.json.Encoder()


def encode_records(records: Sequence[Record]) -> bytes:
    """The records of one decision as one page."""
    return _ENCODER.encode(records)


def records_of(page: bytes) -> list[Record]:
    """The records of a page."""
    return [Record(*columns) for columns in _RECORDS.decode(page)]


def run_of(found: Sequence[Any]) -> RunRow:
    """A run from the columns of `RUN_COLUMNS`."""
    return RunRow(
        run_id=found[0],
        workflow_name=found[1],
        workflow_version=found[2],
        definition_hash=found[3],
        status=found[4],
        seq=found[5],
        created_at=found[6],
        updated_at=found[7],
        parent_run_id=found[8],
        labels=_LABELS.decode(found[9]) if found[9] else {},
        wake_at=found[10],
        has_work=bool(found[11]),
        owner=found[12],
        terminal=bool(found[13]),
    )


def definition_of(found: Sequence[Any]) -> DefinitionRow:
    """A definition from its columns."""
    return DefinitionRow(
        hash=found[0], name=found[1], version=found[2], document=msgspec.json.decode(found[3]), created_at=found[4]
    )


def schedule_of(found: Sequence[Any]) -> ScheduleRow:
    """A schedule from its columns."""
    return ScheduleRow(
        schedule_id=found[0],
        workflow_name=found[1],
        spec=msgspec.json.decode(found[2]),
        next_at=found[3],
        paused=bool(found[4]),
        last_run_id=found[5],
    )


def listing(query: RunQuery) -> tuple[str, list[object]]:
    """The statement that lists runs newest first, one more than asked for to know whether there are more."""
    conditions: list[str] = []
    parameters: list[object] = []

    def where(condition: str, *values: object) -> None:
        if values:
            conditions.append(condition)
            parameters.extend(values)

    if query.statuses:
        where(f"status IN ({', '.join('?' * len(query.statuses))})", *query.statuses)
    where("workflow_name = ?", *_given(query.workflow_name))
    where("parent_run_id = ?", *_given(query.parent_run_id))
    if query.label is not None:
        where("key IN (SELECT run FROM labels WHERE value = ? AND name = ?)", query.label[1], query.label[0])
    where("created_at > ?", *_given(query.created_after))
    where("created_at < ?", *_given(query.created_before))
    if query.text is not None:
        pattern = query.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        where(
            "(run_id LIKE ? ESCAPE '\\' OR key IN (SELECT run FROM labels WHERE value LIKE ? ESCAPE '\\'))",
            pattern,
            pattern,
        )
    where("key < ?", *_given(_position(query.cursor)))
    condition = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    parameters.append(query.limit + 1)
    return f"SELECT {RUN_COLUMNS}, key FROM runs{condition} ORDER BY key DESC LIMIT ?", parameters


def _given(value: object) -> tuple[object, ...]:
    return () if value is None else (value,)


def _position(cursor: str | None) -> int | None:
    if cursor is not None and not cursor.isdecimal():
        raise Rejected("INVALID_LIST_CURSOR", "the cursor is not one that a listing returned")
    return None if cursor is None else int(cursor)
