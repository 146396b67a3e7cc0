"""What every store does with plain moves: it gives back the records that they stand for."""

import msgspec
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.engine.pages import Field, Move, RecordShape, Shape
from penstock.engine.records import Record
from penstock.runtime.ports.runs import Appended, RunWrite, SequenceConflict
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.stores import AT, on_every_store, start

DONE = (Field("nodeId", "constant", "a"), Field("visit", "given", 0), Field("result", "given", 1))
RUN = Field("executionId", "run")
SHAPE = Shape(
    (
        RecordShape("event", "ActivityCompleted", (*DONE, RUN)),
        RecordShape("command", "CompleteNode", (Field("output", "given", 1), RUN)),
        RecordShape("event", "ActivityRequested", (Field("deadline", "after", 500), RUN)),
    )
)


def moved(before: RunWrite, *values: JsonValue, shape: Shape = SHAPE) -> RunWrite:
    """A move that follows another decision."""
    seq = before.row.seq
    encoded = msgspec.json.encode(values)[1:-1]
    move = Move(shape, before.row.run_id, seq + 1, AT + seq, values, encoded)
    row = replace(before.row, seq=move.last_seq)
    return RunWrite(expected_seq=seq, row=row, move=move, same_index=True)


def records_of(run_id: str, first: int, at: int, visit: int, result: JsonValue) -> list[Record]:
    done: JsonObject = {"nodeId": "a", "visit": visit, "result": result, "executionId": run_id}
    return [
        Record(first, "event", "ActivityCompleted", done, at),
        Record(first + 1, "command", "CompleteNode", {"output": result, "executionId": run_id}, at),
        Record(first + 2, "event", "ActivityRequested", {"deadline": at + 500, "executionId": run_id}, at),
    ]


@on_every_store
async def test_a_move_is_read_as_the_records_that_it_stands_for(store: RunStore) -> None:
    first = start("r_1")
    second = moved(first, 1, {"ok": True})
    third = moved(second, 2, "ü")
    for write in (first, second, third):
        assert isinstance(await store.append(write), Appended)
    wanted = [
        *first.records,
        *records_of("r_1", 3, AT + 2, 1, {"ok": True}),
        *records_of("r_1", 6, AT + 5, 2, "ü"),
    ]
    loaded = await store.load("r_1")
    assert loaded is not None
    assert list(loaded.records) == wanted
    assert loaded.row.seq == 8
    assert [list(record.payload) for record in loaded.records] == [list(record.payload) for record in wanted]
    for after in range(9):
        for limit in range(1, 9):
            found = await store.history("r_1", after_seq=after, limit=limit)
            assert list(found) == wanted[after : after + limit]


@on_every_store
async def test_a_move_that_was_decided_on_an_outdated_state_is_not_stored(store: RunStore) -> None:
    first = start("r_1")
    await store.append(first)
    await store.append(moved(first, 1, "one"))
    assert isinstance(await store.append(moved(first, 1, "other")), SequenceConflict)
    loaded = await store.load("r_1")
    assert loaded is not None
    assert list(loaded.records[2:]) == records_of("r_1", 3, AT + 2, 1, "one")


@on_every_store
async def test_a_large_result_of_a_move_is_read_back(store: RunStore) -> None:
    first = start("r_1")
    large = "x" * (limits.PAYLOAD_INLINE_BYTES_MAX + 1)
    await store.append(first)
    assert isinstance(await store.append(moved(first, 1, large)), Appended)
    loaded = await store.load("r_1")
    assert loaded is not None
    assert list(loaded.records[2:]) == records_of("r_1", 3, AT + 2, 1, large)


@on_every_store
async def test_what_was_stored_names_the_records_of_a_move(store: RunStore) -> None:
    first = start("r_1")
    await store.append(first)
    await store.append(moved(first, 1, "one"))
    page = await store.changes(after=None, since=0, limit=10)
    assert [(change.first_seq, change.last_seq) for change in page.changes] == [(1, 2), (3, 5)]
