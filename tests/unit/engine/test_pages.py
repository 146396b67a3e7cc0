"""Records of moves are made as bodies where a body says what was stored, and as payloads where it does not."""

import msgspec
import pytest

from penstock.base.json import JsonObject, JsonValue
from penstock.engine.pages import Field, Move, RecordShape, Shape, expand

COMPLETED = (Field("nodeId", "constant", "a"), Field("visit", "given", 0), Field("output", "given", 1))
LAST = (Field("next", "constant", "b"), Field("executionId", "run"))


def payload_in(fields: tuple[Field, ...], *values: JsonValue) -> tuple[bool, JsonObject]:
    """Whether a record was made as a body, and its payload; both ways to write it must agree."""
    record = expand(Shape((RecordShape("command", "CompleteNode", fields),)), "run", 3, 9, values)[0]
    assert msgspec.json.encode(record.content) == msgspec.json.encode(record.payload)
    return not isinstance(record.content, dict), record.payload


@pytest.mark.parametrize("output", [None, 0, {"deep": [1]}, "text"])
def test_a_move_of_this_release_is_read_as_bodies(output: JsonValue) -> None:
    told: JsonObject = {"nodeId": "a", "visit": 2, "output": output, "next": "b", "executionId": "run"}
    made, payload = payload_in((*COMPLETED, *LAST), 2, output)
    assert made
    assert list(payload.items()) == list(told.items())


@pytest.mark.parametrize(
    "fields",
    [
        (*COMPLETED, Field("later", "constant", 1), *LAST),  # a key of another release
        (*COMPLETED, *reversed(LAST)),  # another order
        (COMPLETED[0], COMPLETED[2], *LAST),  # a key is missing that we always write
        (COMPLETED[1], COMPLETED[2], *LAST),  # no node
        (*COMPLETED, Field("next", "constant", None), LAST[1]),  # a null that we would leave out
        (*COMPLETED, Field("next", "given", 1), LAST[1]),  # one that may be null
        (*COMPLETED, Field("", "members", 2), *LAST),  # any keys at all
    ],
    ids=["another key", "another order", "no visit", "no node", "a null", "perhaps a null", "members"],
)
def test_a_move_that_says_more_or_less_than_a_body_is_read_as_payloads(fields: tuple[Field, ...]) -> None:
    made, payload = payload_in(fields, 2, None, {"more": 1})
    assert not made
    expected = {"members": ["more"]}
    assert list(payload) == [key for field in fields for key in expected.get(field.source, [field.name])]


def test_a_move_of_an_unknown_record_is_read_all_the_same() -> None:
    shape = Shape((RecordShape("event", "Unheard", (Field("n", "given", 0),)),))
    assert expand(shape, "run", 1, 0, (5,))[0].payload == {"n": 5}


def test_one_record_of_a_move_is_the_one_among_all() -> None:
    shapes = (
        RecordShape("event", "Unheard", (Field("n", "given", 0), Field("executionId", "run"))),
        RecordShape("command", "CompleteNode", (*COMPLETED, *LAST)),
        RecordShape("event", "Late", (Field("at", "after", 5),)),
    )
    move = Move(Shape(shapes), "run", 7, 100, (2, None), b"2,null")
    assert [move.record(number) for number in range(3)] == list(move.records)
    assert [record.seq for record in move.records] == [7, 8, 9]
