"""Events of runs, read from records: what is told, what is not, and that it is the same whenever it is read."""

from __future__ import annotations

import pytest

from penstock.base.json import JsonObject
from penstock.engine.records import EVENTS, Record
from penstock.runtime.ports.runs import RunRow
from penstock.runtime.webhooks.events import EVENT_TYPES, cloud_event, probe_event, run_events

AT = 1_767_225_600_000
ROW = RunRow(
    run_id="acme~.one",
    workflow_name="refund",
    workflow_version="1.0.0",
    definition_hash="hash",
    status="completed",
    seq=9,
    created_at=AT,
    updated_at=AT,
    labels={"team": "red", "penstock.chain": "acme~.one"},
    parent_run_id="acme~.parent",
    tenant="acme",
)


def record(seq: int, name: str, **payload: object) -> Record:
    members: JsonObject = {"executionId": "one", **payload}  # type: ignore[dict-item]
    return Record(seq, "event", name, members, AT + seq)


@pytest.mark.parametrize(
    ("name", "event_type", "status"),
    [
        ("ExecutionStarted", "run.started", "running"),
        ("ExecutionCompleted", "run.completed", "completed"),
        ("ExecutionFailed", "run.failed", "failed"),
        ("ExecutionCancelled", "run.cancelled", "cancelled"),
        ("ExecutionContinued", "run.continued", "completed"),
        ("ExecutionPaused", "run.paused", "paused"),
        ("ExecutionResumed", "run.resumed", "running"),
        ("InterruptRaised", "run.waiting", "waiting_input"),
        ("InterruptEscalated", "run.waiting", "waiting_approval"),
        ("ActivityAsked", "run.waiting", "waiting_input"),
        ("ActivityOutcomeUnknown", "run.waiting", "waiting_decision"),
        ("SignalWaitStarted", "run.waiting", "waiting_signal"),
    ],
)
def test_these_records_are_events(name: str, event_type: str, status: str) -> None:
    assert name in EVENTS
    (event,) = run_events([record(4, name)])
    assert (event.type, event.status, event.seq, event.at) == (event_type, status, 4, AT + 4)
    assert event.type in EVENT_TYPES


def test_everything_else_is_not_told() -> None:
    told = {name for name in EVENTS if run_events([record(2, name)])}
    assert len(told) == 12


def test_a_signal_that_was_there_already_is_not_waited_for() -> None:
    started = record(4, "SignalWaitStarted", nodeId="pay", visit=1)
    taken = record(5, "SignalReceived", nodeId="pay", visit=1)
    other = record(5, "SignalReceived", nodeId="pay", visit=2)
    assert run_events([started, taken]) == []
    assert [event.type for event in run_events([started, other])] == ["run.waiting"]


def test_a_fork_tells_that_it_began_and_what_it_did_itself() -> None:
    carried = [
        record(1, "ExecutionStarted", forkedFrom={"executionId": "zero", "seq": 3, "at": AT + 500}),
        record(2, "ExecutionPaused"),
        record(3, "ExecutionResumed"),
    ]
    events = run_events([*carried, record(4, "ExecutionCompleted", result=1)])
    assert [(event.type, event.at) for event in events] == [("run.started", AT + 500), ("run.completed", AT + 4)]


def test_an_event_is_a_cloudevent_with_the_ids_that_callers_know() -> None:
    (event,) = run_events(
        [record(7, "ExecutionFailed", error="no money", code="POOR", nodeId="charge", details={"a": 1})]
    )
    made = cloud_event(ROW, event, source="https://p.example/api/v0", include_output=True)
    assert made["specversion"] == "1.0"
    assert made["id"] == "one/7"
    assert made["subject"] == "one"
    assert made["source"] == "https://p.example/api/v0/workflows/refund"
    assert made["type"] == "penstock.run.failed"
    assert made["time"] == "2026-01-01T00:00:00.007Z"
    assert made["data"] == {
        "execution_id": "one",
        "workflow_id": "refund",
        "workflow_version": "1.0.0",
        "definition_hash": "hash",
        "status": "failed",
        "sequence": 7,
        "created_at": "2026-01-01T00:00:00.000Z",
        "parent_id": "parent",
        "labels": {"team": "red"},
        "error": {"code": "POOR", "message": "no money", "node_id": "charge"},
    }


def test_inputs_prompts_and_answers_are_not_told() -> None:
    secret = "do not tell"
    records = [
        record(1, "ExecutionStarted", input={"a": secret}, state={"b": secret}),
        record(2, "InterruptRaised", nodeId="ask", visit=1, prompt=secret, answerSchema={"title": secret}),
        record(3, "ExecutionCompleted", result={"c": secret}),
    ]
    for event in run_events(records):
        assert secret not in str(cloud_event(ROW, event, source="", include_output=False))


def test_a_large_output_is_left_out() -> None:
    for size, told in ((10, "output"), (100_000, "output_omitted")):
        (event,) = run_events([record(3, "ExecutionCompleted", result="x" * size)])
        data = cloud_event(ROW, event, source="", include_output=True)["data"]
        assert isinstance(data, dict)
        assert told in data


def test_a_continued_run_names_the_one_that_goes_on() -> None:
    (event,) = run_events([record(3, "ExecutionContinued", successorExecutionId="acme~.one~2")])
    data = cloud_event(ROW, event, source="", include_output=False)["data"]
    assert isinstance(data, dict)
    assert data["continued_as"] == "one~2"


def test_a_test_event_says_nothing_about_runs() -> None:
    made = probe_event("acme", "wh_1", "dlv_1", source="", at=AT)
    assert (made["type"], made["id"], made["subject"]) == ("penstock.webhook.test", "dlv_1", "wh_1")
