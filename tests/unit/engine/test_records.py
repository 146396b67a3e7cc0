"""Records and their published row form."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import CorruptHistory
from penstock.base.json import JsonObject, JsonValue
from penstock.engine.records import (
    RECORD_SCHEMA_VERSION,
    Kind,
    Record,
    changed,
    commands,
    events,
    identity,
    made,
    made_with,
    payload_of,
    record_of,
    row_of,
)

RECORD = Record(seq=3, kind="command", name="ScheduleNode", content={"nodeId": "a"}, at=1_760_000_000_123)
ROW: JsonObject = {
    "executionId": "run",
    "seq": 3,
    "kind": "command",
    "name": "ScheduleNode",
    "payload": {"nodeId": "a"},
    "createdAt": "2025-10-09T08:53:20.123Z",
    "recordSchemaVersion": 1,
}


def test_a_row_has_the_published_keys() -> None:
    assert row_of("run", RECORD) == ROW
    assert RECORD_SCHEMA_VERSION == 1


def test_a_record_comes_back_from_its_row() -> None:
    assert record_of(ROW) == RECORD


@given(st.integers(1, 10**6), st.sampled_from(["command", "event"]), st.integers(0, 10**13))
def test_every_row_is_read_back_as_it_was(seq: int, kind: Kind, at: int) -> None:
    record = Record(seq=seq, kind=kind, name="Name", content={"nodeId": "a", "list": [1, None, "é"]}, at=at)
    assert record_of(row_of("run", record)) == record


@pytest.mark.parametrize("version", [2, 99, "1", None])
def test_a_row_of_a_newer_version_is_refused_with_what_to_do(version: JsonValue) -> None:
    with pytest.raises(CorruptHistory) as caught:
        record_of({**ROW, "recordSchemaVersion": version})
    assert caught.value.code == "RECORD_VERSION_UNSUPPORTED"
    assert "newer" in str(caught.value)


@pytest.mark.parametrize("broken", [{"kind": "thought"}, {"name": 3}, {"payload": []}, {"payload": None}, {"kind": 1}])
def test_a_row_without_kind_name_or_payload_is_refused(broken: JsonObject) -> None:
    with pytest.raises(CorruptHistory) as caught:
        record_of({**ROW, **broken})
    assert caught.value.code == "RECORD_MALFORMED"


def test_a_foreign_row_gets_number_and_time_from_its_reader() -> None:
    foreign: JsonObject = {"kind": "event", "name": "NodeScheduled", "payload": {"nodeId": "a"}}
    assert record_of(foreign, seq=7, at=9) == Record(7, "event", "NodeScheduled", {"nodeId": "a"}, 9)
    assert record_of({**foreign, "createdAt": "not a time", "seq": True}, seq=7, at=9).at == 9


def test_replay_compares_a_command_by_its_name_and_node() -> None:
    assert identity(RECORD) == {"name": "ScheduleNode", "nodeId": "a"}
    assert identity(Record(1, "command", "CancelExecution", {"reason": "x"}, 0)) == {"name": "CancelExecution"}


def test_a_record_that_was_made_is_the_one_that_is_read_back() -> None:
    record = made(3, commands.ScheduleNode("a", 2, scope=1), 9, "run")
    assert record.payload == {"nodeId": "a", "visit": 2, "scope": 1, "executionId": "run"}
    assert list(record.payload) == ["nodeId", "visit", "scope", "executionId"]
    read = record_of(row_of("run", record), at=9)
    assert read.body == record.body
    assert msgspec.json.encode(read.content) == msgspec.json.encode(record.content)


def test_a_null_is_written_where_it_is_meant_and_left_out_where_it_is_not() -> None:
    assert made(1, commands.CompleteNode("a", 1, output=None), 0, "run").payload == {
        "nodeId": "a",
        "visit": 1,
        "output": None,
        "executionId": "run",
    }
    assert "next" not in payload_of(commands.FailNode("a", 1))
    assert payload_of(commands.FailNode("a", 1, next=None))["next"] is None


def test_keys_that_another_engine_wrote_beside_ours_stay_as_they_were() -> None:
    payload: JsonObject = {"zeal": 1, "nodeId": "a", "deadline": "tomorrow", "executionId": "run"}
    read = Record(1, "event", "InterruptResumed", payload, 0)
    assert read.body == events.InterruptResumed("a", execution_id="run")
    assert read.payload is payload
    moved = changed(read, execution_id="fork", deadline=5)
    assert msgspec.json.encode(moved) == (
        b'[1,"event","InterruptResumed",{"zeal":1,"nodeId":"a","deadline":5,"executionId":"fork"},0]'
    )


def test_a_record_of_a_visit_that_names_no_node_is_refused() -> None:
    for payload in ({}, {"nodeId": None}, {"nodeId": 3}):
        with pytest.raises(CorruptHistory, match="RECORD_MALFORMED") as caught:
            _ = Record(4, "event", "NodeScheduled", dict(payload), 0).body
        assert "row 4 (NodeScheduled)" in str(caught.value)


def test_what_is_added_to_a_record_stands_where_it_should_and_changes_nothing() -> None:
    record = made(1, events.ActivityFailed("a", 1, attempt=1, error="no", code="X"), 0, "run")
    added = made_with(record, {"usage": {"tokens": 1}, "code": "Y", "mine": 2}, behind="error")
    assert list(added.payload) == ["nodeId", "visit", "attempt", "error", "usage", "mine", "code", "executionId"]
    body = added.body
    assert isinstance(body, events.ActivityFailed)
    assert (body.code, body.usage) == ("X", {"tokens": 1})


def test_a_payload_that_is_not_read_yet_is_read_as_what_is_asked_for() -> None:
    text = b'{"zeal":[1.50],"nodeId":"a","deadline":5,"executionId":"run"}'
    unread = Record(1, "event", "InterruptResumed", msgspec.Raw(text), 0)
    assert unread.body == events.InterruptResumed("a", deadline=5, execution_id="run")
    assert unread.payload == {"zeal": [1.5], "nodeId": "a", "deadline": 5, "executionId": "run"}
    assert unread == Record(1, "event", "InterruptResumed", unread.payload, 0)
    assert msgspec.json.encode(unread) == b'[1,"event","InterruptResumed",' + text + b",0]"
    assert Record(1, "event", "Unheard", msgspec.Raw(text), 0).body is None
    odd = Record(1, "event", "InterruptResumed", msgspec.Raw(b'{"nodeId":"a","deadline":"soon"}'), 0)
    assert odd.body == events.InterruptResumed("a")


@pytest.mark.parametrize("text", [b"[]", b"3", b'{"nodeId":"\\ud800"}', b'{"nodeId":"\xff"}'])
def test_a_payload_that_is_no_object_is_refused_with_its_row(text: bytes) -> None:
    unread = Record(8, "event", "NodeScheduled", msgspec.Raw(text), 0)
    for read in (lambda: unread.payload, lambda: unread.body):
        with pytest.raises(CorruptHistory, match="RECORD_MALFORMED") as caught:
            read()
        assert "row 8" in str(caught.value)
