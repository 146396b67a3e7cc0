"""Records and their published row form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import CorruptHistory
from penstock.base.json import JsonObject, JsonValue
from penstock.engine.records import RECORD_SCHEMA_VERSION, Kind, Record, identity, record_of, row_of

RECORD = Record(seq=3, kind="command", name="ScheduleNode", payload={"nodeId": "a"}, at=1_760_000_000_123)
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
    record = Record(seq=seq, kind=kind, name="Name", payload={"nodeId": "a", "list": [1, None, "é"]}, at=at)
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
