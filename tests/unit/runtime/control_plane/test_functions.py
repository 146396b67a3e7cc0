"""The published control plane where a host does the activities: leases, attempts, branches, and questions of agents."""

import asyncio
from dataclasses import dataclass, field

import pytest

from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.activities.performing import ActivityAsks, ActivityDone, ActivityOutcome, Performer, Unconfigured
from penstock.runtime.control_plane.functions import CallProblem, CallResult, ControlPlane
from penstock.runtime.control_plane.hosts import MemoryControl
from penstock.runtime.host.memory import MemoryHost
from tests.conformance.harness.kernel import Kernel

WORK: JsonObject = {
    "penstock": "v1",
    "name": "work",
    "nodes": [
        {"id": "a", "type": "step", "handler": "a", "with": {"n": 1}, "retry": {"max_attempts": 2}},
        {"id": "e", "type": "end", "output": "${ .a }"},
    ],
}
BRANCHES: JsonObject = {
    "penstock": "v1",
    "name": "branches",
    "nodes": [
        {
            "id": "both",
            "type": "parallel",
            "branches": [{"name": "x", "nodes": [{"id": "a", "type": "step", "handler": "a"}]}],
        },
        {"id": "e", "type": "end"},
    ],
}
SPAN: JsonObject = {
    "parallel_node_id": "both",
    "join_target_id": "e",
    "branch_name": "x",
    "branch_entry_node_id": "a",
}
DONE: JsonObject = {"ok": True, "result": {"n": 2}}


@dataclass
class Desk:
    """A control plane over a host in memory, with a clock that a test moves."""

    performer: Performer = field(default_factory=Unconfigured)
    now: int = 1_760_000_000_000
    control: MemoryControl = field(init=False)

    def __post_init__(self) -> None:
        self.control = MemoryControl(MemoryHost(clock=lambda: self.now, performer=self.performer))

    def call(self, tool: str, **arguments: JsonValue) -> CallResult | CallProblem:
        plane = ControlPlane(host=self.control, new_id=lambda: "minted")
        return asyncio.run(plane.call(f"workflow_{tool}", {"execution_id": "r", **arguments}))

    def ok(self, tool: str, **arguments: JsonValue) -> JsonObject:
        reply = self.call(tool, **arguments)
        assert isinstance(reply, CallResult), reply
        return reply.body

    def problem(self, tool: str, **arguments: JsonValue) -> CallProblem:
        reply = self.call(tool, **arguments)
        assert isinstance(reply, CallProblem), reply
        return reply


def mediated(document: JsonObject) -> Desk:
    desk = Desk()
    desk.ok("start", definition=document, input={}, activity_execution_mode="host_mediated")
    return desk


def pending(desk: Desk) -> JsonObject:
    listed = desk.ok("status")["pending_activities"]
    assert isinstance(listed, list)
    [entry] = listed
    assert isinstance(entry, dict)
    return entry


def test_a_pending_activity_has_everything_a_host_needs() -> None:
    desk = mediated(WORK)
    desk.ok("status", lease={"node_id": "a", "holder": "ada", "seconds": 60})
    assert pending(desk) == {
        "execution_id": "r",
        "node_id": "a",
        "node_type": "step",
        "visit": 1,
        "attempt": 1,
        "idempotency_key": "r/a/1",
        "config": {"handler": "a", "with": {"n": 1}},
        "arguments": {"n": 1},
        "lease": {"holder": "ada", "until": desk.now + 60_000},
    }


def test_a_second_host_is_told_who_has_the_activity_and_until_when() -> None:
    desk = mediated(WORK)
    desk.ok("status", lease={"node_id": "a", "holder": "ada", "seconds": 60})
    problem = desk.problem("status", lease={"node_id": "a", "holder": "bob", "seconds": 60})
    assert problem.code == "ACTIVITY_LEASED"
    assert (problem.details["holder"], problem.details["lease_until"]) == ("ada", desk.now + 60_000)
    desk.now += 60_000
    desk.ok("status", lease={"node_id": "a", "holder": "bob", "seconds": 60})
    late = desk.problem("submit_activity", node_id="a", outcome=DONE, lease_holder="ada")
    assert late.code == "ACTIVITY_LEASE_LOST"
    assert desk.problem("status", lease={"node_id": "a", "holder": "ada", "seconds": 60, "extend": True}).code == (
        "ACTIVITY_LEASE_LOST"
    )
    assert desk.ok("submit_activity", node_id="a", outcome=DONE, lease_holder="bob")["status"] == "completed"


def test_a_submit_without_any_lease_works_as_published() -> None:
    assert mediated(WORK).ok("submit_activity", node_id="a", outcome=DONE)["result"] == {"n": 2}


def test_a_late_submit_for_an_earlier_attempt_is_refused() -> None:
    desk = mediated(WORK)
    failed: JsonObject = {"ok": False, "error": "no", "code": "NO", "external_task_id": "t1"}
    assert desk.ok("submit_activity", node_id="a", outcome=failed, attempt=1)["attempt"] == 2
    late = desk.problem("submit_activity", node_id="a", outcome=DONE, visit=1, attempt=1)
    assert late.code == "ACTIVITY_SUBMIT_NOT_AWAITING"
    assert desk.problem("submit_activity", node_id="a", outcome=DONE, visit=2).code == "ACTIVITY_SUBMIT_NODE_MISMATCH"
    assert desk.ok("submit_activity", node_id="a", outcome=DONE, visit=1, attempt=2)["status"] == "completed"
    [record] = [item for item in desk.control.host.runs["r"].records if item.name == "ActivityFailed"]
    assert record.payload["externalTaskId"] == "t1"


@pytest.mark.parametrize(
    "wrong",
    [
        {"node_id": "a", "outcome": {}},
        {"node_id": "a", "outcome": DONE, "visit": "1"},
        {"node_id": "a", "outcome": DONE, "attempt": 0},
        {"node_id": "a", "outcome": DONE, "lease_holder": 1},
        {"outcome": DONE},
    ],
)
def test_a_submit_that_says_nothing_is_refused(wrong: dict[str, JsonValue]) -> None:
    assert mediated(WORK).problem("submit_activity", **wrong).code == "SUBMIT_VALIDATION_ERROR"


@pytest.mark.parametrize(
    "wrong",
    [
        {"node_id": "a", "holder": "ada"},
        {"node_id": "a", "holder": "ada", "seconds": True},
        {"holder": "ada", "seconds": 1},
        {"node_id": "a", "holder": "ada", "seconds": 1, "visit": "1"},
        {"node_id": "a", "holder": "ada", "seconds": 1e300},
        "ada",
    ],
)
def test_a_lease_that_says_nothing_is_refused(wrong: JsonValue) -> None:
    assert mediated(WORK).problem("status", lease=wrong).code == "VALIDATION_ERROR"


def test_the_branch_is_checked_on_both_surfaces_by_the_same_words() -> None:
    desk = mediated(BRANCHES)
    told = {
        (problem.code, problem.message)
        for span in (None, {**SPAN, "branch_name": "y"})
        for problem in [desk.problem("submit_activity", node_id="a", outcome=DONE, parallel_span=span)]
    }
    camel: JsonObject = {
        "parallelNodeId": "both",
        "joinTargetId": "e",
        "branchName": "y",
        "branchEntryNodeId": "a",
    }
    kernel = Kernel(host=desk.control)
    for span in (None, camel):
        given: JsonObject = {"execution_id": "r", "node_id": "a", "outcome": DONE, "parallel_span": span}
        refused = asyncio.run(kernel.submit(given))
        assert (refused["code"], refused["error"]) in told
    assert {code for code, _ in told} == {"ACTIVITY_SUBMIT_PARALLEL_MISMATCH"}
    assert desk.ok("submit_activity", node_id="a", outcome=DONE, parallel_span=SPAN)["status"] == "completed"


class Asking:
    """Asks twice, then tells what it was answered."""

    def __init__(self) -> None:
        self.heard: list[JsonValue] = []

    def perform(self, state: object, activity: object) -> ActivityOutcome:
        answer = getattr(activity, "answer", None)
        if answer is not None:
            self.heard.append(answer)
        if len(self.heard) < 2:
            return ActivityAsks(f"question {len(self.heard) + 1}?", {"type": "string"})
        return ActivityDone({"heard": self.heard})


def test_the_question_of_an_activity_is_answered_with_resume() -> None:
    desk = Desk(performer=Asking())
    body = desk.ok("start", definition=WORK, input={})
    assert (body["status"], body["node_id"], body["prompt"]) == ("interrupted", "a", "question 1?")
    assert (body["resume_schema"], body["interrupt_id"]) == ({"type": "string"}, "a:1:1")
    assert desk.problem("resume", resume_payload=1).code == "INVALID_RESUME_PAYLOAD"
    assert desk.ok("resume", resume_payload="one", interrupt_id="a:1:1")["interrupt_id"] == "a:1:2"
    assert desk.ok("status")["phase"] == "interrupted"
    assert desk.problem("resume", resume_payload="late", interrupt_id="a:1:1").code == "INVALID_RESUME_PAYLOAD"
    assert desk.ok("resume", resume_payload="two")["result"] == {"heard": ["one", "two"]}


def test_an_activity_that_asks_is_cancelled_with_its_run() -> None:
    desk = Desk(performer=Asking())
    desk.ok("start", definition=WORK, input={})
    assert desk.ok("cancel")["status"] == "cancelled"
