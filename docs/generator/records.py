"""The page about histories: every command and event with the keys of its payload.

Names, meanings and keys come from the types in `engine/records`; `tests/docs` runs the examples and compares the keys.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import fields

from docs.generator.markdown import code, page, table
from docs.generator.states import RUN_MOVES, VISIT_MOVES
from penstock.engine.records import COMMANDS, EVENTS, RECORD_SCHEMA_VERSION, TYPES, Body
from penstock.engine.records.body import is_always_written

__all__ = ["KEYS", "RECORDS", "history_page"]


class Note(NamedTuple):
    """What a record means, and its keys; keys that may be missing end in `?`."""

    meaning: str
    keys: str


def _note(kind: type[Body]) -> Note:
    """A type of record as the page shows it: the first line of its docstring, and its keys."""
    known = (field for field in fields(kind) if field.name != "execution_id" and field.name not in kind.theirs)
    keys = (field.encode_name if is_always_written(field) else f"{field.encode_name}?" for field in known)
    return Note((kind.__doc__ or "").partition("\n")[0], " ".join(keys))


RECORDS: Mapping[str, Note] = {name: _note(kind) for name, kind in TYPES.items()}

KEYS: Mapping[str, str] = {
    "nodeId": "the node; `compensate:<id>` while a node is undone",
    "visit": "how often the run came to the node, counted from 1",
    "scope": "the branch, item or round in which this happens; the root has none",
    "attempt": "how often the work was tried in this visit, counted from 1",
    "round": "how many questions the activity has asked in this visit, counted from 1",
    "holder": "the host that has the work",
    "leaseUntil": "until when nobody else may take the work, in milliseconds since 1970",
    "resume": "what the performer of the activity needs to continue after the answer; opaque to the engine",
    "usage": "what the attempt has cost: tokens, requests, money",
    "deadline": "when it times out, in milliseconds since 1970",
    "chainDeadline": "when the run, or whichever continues it then, times out: what the starter gave",
    "continuedFrom": "the run that this one continues",
    "generation": "which run of its chain it is, from 2 on",
    "runsWithoutWait": "how many runs of the chain directly before this one waited for nothing",
    "startedBy": "who started the run: a key, a user of the machine, a schedule, a webhook, a program",
    "starter": "more about them: `kind`, `credential` (the id of a key, never the secret), `onBehalfOf`, "
    "`authority` (what they might do, if they have no key)",
    "untrusted": "true where somebody outside said what it holds; the run is untrusted from there on",
    "carriedSignals": "signals that nobody in the runs before took",
    "carriedSignalIds": "ids of signals that the runs before know; they count once",
    "successorExecutionId": "the run that goes on in place of this one",
    "version": "the definition of the next run: `pinned` or `newest`",
    "output": "what later nodes read",
    "next": "the node that follows; missing at the end of a body",
    "compensation": "the rendered arguments of the activity that undoes this node, or the error that kept them from "
    "being rendered",
    "compensates": "the visit that is undone",
    "fallback": "the error for which the output stands in",
    "handledBy": "whose error route was taken: `node` or `workflow`",
    "fatal": "the failure ends the run whatever is around it",
    "arguments": "the rendered arguments; secrets are masked",
    "secrets": "the places of secrets in the arguments, as JSON pointers, with the text of the document",
    "idempotencyKey": "the key for the receiver, if the document gives one",
    "parallelSpan": "the branch, in the published form",
    "input": "the whole input; of a child run, that of the child",
    "state": "the whole state",
    "checkpoint": "a checkpoint of the state follows",
    "definitionHash": "the hash of the definition that the run is pinned to",
    "context": "for a history that the definition could not have made: the command `expected` and the one found",
    "compensationFailures": "undo steps that failed for good",
}


def history_page() -> str:
    """Every record of a history."""
    return page("Histories", "`engine/records`, `engine/transitions.py` and `docs/generator/records.py`", _parts())


def _parts() -> Iterator[str]:
    yield (
        "The history of a run is a list of rows that only grows. A **command** says what the engine decided, an "
        "**event** what happened. Names and keys are those of the published format; where that format leaves something "
        "out that a run needs to continue, there are keys and records of our own. A row:"
    )
    row = (
        '{"executionId": "r_1", "seq": 7, "kind": "event", "name": "NodeScheduled",\n'
        ' "payload": {"executionId": "r_1", "nodeId": "ask", "visit": 1},\n'
        f' "createdAt": "2026-01-01T00:00:00.000Z", "recordSchemaVersion": {RECORD_SCHEMA_VERSION}}}'
    )
    yield f"```json\n{row}\n```"
    yield (
        "Every payload has `executionId`, which is not listed below. A key with `?` may be missing. Where records lead "
        "is drawn in [States of the engine](engine-states.md)."
    )
    for title, known in (("Commands", COMMANDS), ("Events", EVENTS)):
        yield f"## {title}"
        notes = {name: note for name, note in RECORDS.items() if name in known}
        yield table(["Name", "What it says", "Payload", "Leads to"], _rows(notes))
    yield "## Keys"
    yield table(["Key", "What it is"], ([code(key), meaning] for key, meaning in KEYS.items()))


def _rows(notes: Mapping[str, Note]) -> Iterator[list[str]]:
    for name, note in notes.items():
        yield [code(name), note.meaning, " ".join(map(code, note.keys.split())), _target(name)]


def _target(name: str) -> str:
    found = {
        str(target): None
        for table_of in (VISIT_MOVES, RUN_MOVES)
        for record, (_, target) in table_of.items()
        if record.partition(":")[0] == name
    }
    return ", ".join(map(code, found))
