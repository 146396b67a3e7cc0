"""What a worker logs, and how."""

import json
import logging

from penstock.base.errors import Unavailable
from penstock.base.json import JsonObject
from penstock.cli.server.logs import LineFormatter, LogEvent, OutageFilter, record_event
from penstock.engine.state import RunState

STATE = RunState(run_id="r1", workflow_name="greet")


def event_of(name: str, payload: JsonObject) -> LogEvent | None:
    return record_event(STATE, name, 7, lambda: {"executionId": "r1", **payload})


def line(message: str, fields: JsonObject | None = None, *, as_json: bool = False) -> str:
    entry = logging.LogRecord("penstock.step", logging.WARNING, "x.py", 1, message, None, None)
    entry.created, entry.msecs = 0.5, 500.0
    if fields is not None:
        entry.fields = fields
    return LineFormatter(as_json=as_json).format(entry)


def test_a_failed_attempt_is_logged_with_its_code_and_without_its_data() -> None:
    payload: JsonObject = {"nodeId": "pay", "visit": 1, "attempt": 2, "code": "X", "error": "no", "result": {"card": 1}}
    event = event_of("ActivityFailed", payload)
    assert event is not None
    assert (event.level, event.name) == (logging.WARNING, "activity_failed")
    assert event.fields == {
        "run_id": "r1",
        "workflow": "greet",
        "node": "pay",
        "visit": 1,
        "attempt": 2,
        "code": "X",
        "error": "no",
    }


def test_inputs_and_results_are_not_logged() -> None:
    for name, payload in (("ExecutionStarted", {"input": "s3cret"}), ("ExecutionCompleted", {"result": "s3cret"})):
        event = event_of(name, dict(payload))
        assert event is not None
        assert "s3cret" not in json.dumps(event.fields)
    assert event_of("StateUpdated", {"state": 1}) is None


def test_a_line_of_text_stays_one_line() -> None:
    told = line("run_failed", {"run_id": "r1", "error": "a b\n\x1b[31m", "count": 3})
    assert told == '1970-01-01T00:00:00.500Z warning run_failed run_id=r1 error="a b\\n\\u001b[31m" count=3'


def test_a_line_of_json_has_the_same() -> None:
    told = json.loads(line("run_failed", {"run_id": "r1"}, as_json=True))
    assert told == {"time": "1970-01-01T00:00:00.500Z", "level": "warning", "event": "run_failed", "run_id": "r1"}


def test_a_line_of_json_takes_any_text_and_number() -> None:
    fields: JsonObject = {"half": "\ud83d", "large": 2**80}
    told = json.loads(line("odd", fields, as_json=True))
    assert (told["half"], told["large"]) == ("\ud83d", 2**80)


def test_messages_of_steps_and_libraries_are_logged_too() -> None:
    assert line("careful") == "1970-01-01T00:00:00.500Z warning log logger=penstock.step message=careful"


def test_an_outage_is_one_line_a_minute_which_counts_what_was_left_out() -> None:
    outages = OutageFilter()
    error = Unavailable("STORE_FULL", "the disk is full", "free some space")
    passed = []
    for second in range(121):
        entry = logging.LogRecord(
            "penstock.gate", logging.ERROR, "x.py", 1, "no record", None, (Unavailable, error, None)
        )
        entry.created = float(second)
        if outages.filter(entry):
            passed.append(LineFormatter(as_json=False).format(entry))
    assert len(passed) == 3
    assert all("STORE_FULL" in told and "traceback" not in told for told in passed)
    assert "59 more" in passed[1]
    bug = logging.LogRecord("penstock.gate", logging.ERROR, "x.py", 1, "a bug", None, (ValueError, ValueError(), None))
    assert outages.filter(bug)
    assert bug.exc_info is not None
