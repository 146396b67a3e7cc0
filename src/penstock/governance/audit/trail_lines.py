"""The lines of an exported trail: as JSON objects, and as CloudEvents 1.0.

A line is a record: its fields beside `seq`, `previous_hash` and `hash`, without fields that are not set. Or it is a
stretch of removed records (`removed`), a signed checkpoint (`checkpoint`), a stamp of a time-stamping authority on one
(`stamp`), or a statement about a key (`key_statement`). Each has the `tenant` whose trail it belongs to. A CloudEvent
has such a line as its `data`, and its other members follow from the line.

Every line has exactly one form. A line that says the same in another way is refused: people and other programs might
read it differently.

Above it: exports, and the verification of exports. Below it: `trails`. It reads no files.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from penstock.base.json import JsonObject
from penstock.definitions.durations import format_instant
from penstock.governance.audit.checkpoints import Checkpoint, Note, parse_notes
from penstock.governance.audit.trails import RemovedPart, TrailVerifier

__all__ = ["add_line", "line_in", "notes_in", "to_event"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TYPE = "dev.penstock.audit."
_SINGLE = ("checkpoint", "stamp", "removed", "key_statement")
_CHAIN = ("seq", "previous_hash", "hash")


def to_event(line: JsonObject, *, source: str) -> JsonObject:
    """Return a line as a CloudEvent. Its id is unique within the source, and the same at every export."""
    tenant = str(line["tenant"])
    event: JsonObject = {
        "specversion": "1.0",
        "source": source,
        "datacontenttype": "application/json",
        "data": line,
    }
    if "checkpoint" in line:
        (note,) = parse_notes(str(line["checkpoint"]))
        checkpoint = Checkpoint.parse(note.text)
        event |= {"type": f"{_TYPE}checkpoint", "id": f"{tenant}/checkpoint/{checkpoint.size}"}
        return event | ({"time": checkpoint.at} if checkpoint.at else {})
    if "stamp" in line:
        stamp = line["stamp"]
        size = stamp["size"] if isinstance(stamp, dict) else 0
        return event | {"type": f"{_TYPE}stamp", "id": f"{tenant}/stamp/{size}"}
    if "removed" in line:
        removed = line["removed"]
        first = removed["first_seq"] if isinstance(removed, dict) else 0
        return event | {"type": f"{_TYPE}removed", "id": f"{tenant}/removed/{first}"}
    if "key_statement" in line:
        return event | {"type": f"{_TYPE}key", "id": f"{tenant}/key/{hash_of(str(line['key_statement']))}"}
    event |= {"type": f"{_TYPE}{line['outcome']}", "id": f"{tenant}/{line['seq']}", "time": line["at"]}
    return event | ({"subject": line["subject"]} if line.get("subject") else {})


def hash_of(text: str) -> str:
    """Return a short name for a text."""
    return parse_notes(text)[0].signatures[-1][1].hex()


def line_in(parsed: Any) -> Mapping[str, Any]:
    """Return the line in what was read: itself, or the data of an event; raise ValueError if it is neither."""
    event = parsed if isinstance(parsed, dict) and parsed.get("specversion") == "1.0" else None
    line = parsed if event is None else event.get("data")
    if not isinstance(line, dict) or not isinstance(line.get("tenant"), str):
        raise ValueError("this is not a line of an audit trail")  # noqa: TRY004  # callers handle one error
    for name in _SINGLE:
        if name in line and line.keys() != {"tenant", name}:
            raise ValueError(f"a line with `{name}` has other members")
    if event is not None:
        _check_event(event, line)
    return line


def _check_event(event: Mapping[str, Any], line: JsonObject) -> None:
    """Raise ValueError unless an event is the one that `to_event` makes of its line."""
    try:
        made = to_event(line, source=str(event.get("source")))
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError("the data of the event is not a line of an audit trail") from error
    if different := sorted(name for name in {*event, *made} if event.get(name) != made.get(name)):
        raise ValueError(f"{different[0]} of the event does not follow from its data")


def notes_in(line: Mapping[str, Any]) -> tuple[list[Note], list[Note]]:
    """Return the checkpoints and the statements about keys in a line; raise ValueError if they cannot be read."""
    found: tuple[list[Note], list[Note]] = ([], [])
    for notes, name in zip(found, ("checkpoint", "key_statement"), strict=True):
        if name in line:
            if not isinstance(line[name], str):
                raise ValueError(f"`{name}` is not a text")
            notes.extend(parse_notes(line[name]))
    return found


def add_line(verifier: TrailVerifier, line: Mapping[str, Any]) -> None:
    """Add a record or a removed stretch to a verifier; raise ValueError if the line is neither."""
    if "removed" in line:
        try:
            verifier.add_removed(msgspec.convert(line["removed"], RemovedPart))
        except msgspec.ValidationError as error:
            raise ValueError(f"this is not a stretch of removed records: {error}") from error
        return
    if "checkpoint" in line or "key_statement" in line or "stamp" in line:
        return
    seq, previous_hash, own_hash = (line.get(name) for name in _CHAIN)
    if type(seq) is not int or not isinstance(previous_hash, str) or not isinstance(own_hash, str):
        raise ValueError("this is not a record of an audit trail")
    if type(line.get("count")) is not int:
        raise ValueError("the count of a record is not a whole number")
    fields = {name: value for name, value in line.items() if name not in _CHAIN}
    verifier.add_record(seq, {**fields, "at": _milliseconds(fields.get("at"))}, previous_hash, own_hash)


def _milliseconds(text: object) -> int:
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError("a record has no time")
    found = (moment - _EPOCH) // timedelta(milliseconds=1)
    if format_instant(found) != text:
        raise ValueError(f"the time of a record is written as {format_instant(found)}")
    return found
