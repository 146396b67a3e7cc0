"""Records of a history: one type for each (`commands`, `events`), and the rows that carry them (`record`).

Above it: everything in the engine creates or folds records; stores keep rows; views match on the types of bodies. It
uses only `base`. Read `record` first.
"""

from penstock.engine.records import commands, events
from penstock.engine.records.body import Body, Kind, VisitBody, given
from penstock.engine.records.record import (
    COMMANDS,
    EVENTS,
    RECORD_SCHEMA_VERSION,
    TYPES,
    Record,
    changed,
    identity,
    keys_of,
    made,
    made_with,
    payload_of,
    record_of,
    row_of,
)

__all__ = [
    "COMMANDS",
    "EVENTS",
    "RECORD_SCHEMA_VERSION",
    "TYPES",
    "Body",
    "Kind",
    "Record",
    "VisitBody",
    "changed",
    "commands",
    "events",
    "given",
    "identity",
    "keys_of",
    "made",
    "made_with",
    "payload_of",
    "record_of",
    "row_of",
]
