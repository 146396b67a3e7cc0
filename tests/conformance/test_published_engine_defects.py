"""One test per known defect of the published engine, on documents of our own: this engine does not have it.

The defects were seen by running that engine (version 1.0.0), or read in its code, and are numbered. Numbers 16 (one
transaction per row), 17 (listing reads all history) and 18 (no lock between processes) are about the durable store and
are tested with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.model import Workflow
from penstock.definitions.signature import sign_definition
from penstock.definitions.validate import validate_document
from penstock.engine.effects import PerformActivity
from penstock.engine.folding.evolve import fold
from penstock.engine.records import Record
from penstock.engine.replay import Replayed, replay
from penstock.engine.state import RunState
from penstock.runtime.activities.performing import ActivityDone, ActivityError, ActivityOutcome, Unconfigured
from penstock.runtime.control_plane.functions import CallProblem, CallResult, ControlPlane
from penstock.runtime.control_plane.hosts import MemoryControl
from penstock.runtime.host.memory import MemoryHost

TOOL: JsonObject = {"server": "shop", "tool": "look"}
TERMINAL = {"ExecutionCompleted", "ExecutionFailed", "ExecutionCancelled"}


@dataclass
class Scripted:
    """Answers every activity with what a function says."""

    answer: Callable[[PerformActivity], ActivityOutcome]
    calls: list[PerformActivity] = field(default_factory=list)

    def perform(self, state: RunState, activity: PerformActivity) -> ActivityOutcome:
        self.calls.append(activity)
        return self.answer(activity)


@dataclass
class Desk:
    """A control plane over a host in memory, with a clock that a test moves."""

    children: dict[str, JsonObject] = field(default_factory=dict)
    performer: Scripted | Unconfigured = field(default_factory=Unconfigured)
    now: int = 1_760_000_000_000
    host: MemoryHost = field(init=False)
    plane: ControlPlane = field(init=False)

    def __post_init__(self) -> None:
        self.host = MemoryHost(clock=lambda: self.now, performer=self.performer, resolve=self._resolve)
        self.plane = ControlPlane(host=MemoryControl(self.host), new_id=lambda: "minted")

    def _resolve(self, reference: str, version_pin: str | None) -> Workflow | None:
        document = self.children.get(reference)
        return None if document is None else build_workflow(document)

    def call(self, tool: str, **arguments: JsonValue) -> CallResult | CallProblem:
        return asyncio.run(self.plane.call(f"workflow_{tool}", {"execution_id": "run", **arguments}))

    def ok(self, tool: str, **arguments: JsonValue) -> JsonObject:
        reply = self.call(tool, **arguments)
        assert isinstance(reply, CallResult), reply
        return reply.body

    def problem(self, tool: str, **arguments: JsonValue) -> CallProblem:
        reply = self.call(tool, **arguments)
        assert isinstance(reply, CallProblem), reply
        return reply

    def start(self, definition: JsonObject, given: JsonValue = None, mode: str = "host_mediated") -> JsonObject:
        return self.ok("start", definition=definition, input=given or {}, activity_execution_mode=mode)

    def submit(self, node_id: str, result: JsonValue, **arguments: JsonValue) -> JsonObject:
        return self.ok("submit_activity", node_id=node_id, outcome={"ok": True, "result": result}, **arguments)

    def records(self, run_id: str = "run") -> list[Record]:
        return self.host.runs[run_id].records

    def names(self) -> list[str]:
        return [record.name for record in self.records()]

    def crash(self) -> Desk:
        """The process dies; another one reads the histories and goes on."""
        other = Desk(children=self.children, performer=self.performer, now=self.now)
        for run_id, run in self.host.runs.items():
            other.host.adopt(run_id, run.workflow, fold(run.records), run.records)
        return other


def published(nodes: list[JsonObject], edges: list[tuple[str, str]], state: JsonObject | None = None) -> JsonObject:
    return {
        "document": {"schema": "https://example.com/schema", "name": "sample", "version": "1.0.0"},
        "state_schema": state or {"type": "object"},
        "nodes": [{"id": "s", "type": "start"}, *nodes, {"id": "e", "type": "end"}],
        "edges": [{"source": source, "target": target} for source, target in [("__start__", "s"), *edges]],
    }


def linear(*nodes: JsonObject, state: JsonObject | None = None) -> JsonObject:
    names = ["s", *(str(node["id"]) for node in nodes), "e"]
    return published(list(nodes), list(pairwise(names)), state)


def tool(node_id: str, **fields: JsonValue) -> JsonObject:
    return {"id": node_id, "type": "tool_call", "config": dict(TOOL), **fields}


def question(node_id: str = "ask", **config: JsonValue) -> JsonObject:
    schema: JsonObject = {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}}
    return {"id": node_id, "type": "interrupt", "config": {"prompt": "Go?", "resume_schema": schema, **config}}


def fork(node_id: str, *entries: str, join: str = "all") -> JsonObject:
    branches: list[JsonValue] = [{"name": f"b{index}", "entry": entry} for index, entry in enumerate(entries)]
    return {"id": node_id, "type": "parallel", "config": {"join": join, "branches": branches}}


def appending(*names: str) -> JsonObject:
    return {"type": "object", "properties": {name: {"type": "array", "reducer": "append"} for name in names}}


def looping(rounds: int) -> JsonObject:
    gate: JsonObject = {"cases": [{"when": f"(.log | length) < {rounds}", "target": "a"}], "default": "e"}
    nodes: list[JsonObject] = [tool("a"), {"id": "again", "type": "switch", "config": gate}]
    return published(nodes, [("s", "a"), ("a", "again")], appending("log"))


def test_defect_01_each_iteration_keeps_its_own_result_after_replay() -> None:
    desk = Desk()
    definition = looping(3)
    desk.start(definition, {"log": []})
    for number in (1, 2):
        desk.submit("a", {"log": [number]})
        desk = desk.crash()
    assert desk.submit("a", {"log": [3]})["result"] == {"log": [1, 2, 3]}
    outcome = replay(build_workflow(definition), desk.records())
    assert isinstance(outcome, Replayed)
    assert outcome.state.values == {"log": [1, 2, 3]}


def test_defect_02_a_parallel_after_a_question_goes_on_with_each_submit() -> None:
    definition = published(
        [question(), fork("p", "a", "b"), tool("a"), tool("b")],
        [("s", "ask"), ("ask", "p"), ("p", "e"), ("a", "e"), ("b", "e")],
    )
    desk = Desk()
    assert desk.start(definition)["status"] == "interrupted"
    waiting = desk.ok("resume", resume_payload={"ok": True})
    assert (waiting["status"], waiting["node_id"]) == ("awaiting_activity", "a")
    waiting = desk.submit("a", {"x": 1}, parallel_span=waiting["parallel_span"])
    assert (waiting["status"], waiting["node_id"]) == ("awaiting_activity", "b")
    done = desk.submit("b", {"y": 2}, parallel_span=waiting["parallel_span"])
    assert (done["status"], done["result"]) == ("completed", {"ok": True, "x": 1, "y": 2})


def test_defect_03_a_signal_in_a_branch_leaves_the_other_branches_and_the_join_to_run() -> None:
    wait: JsonObject = {"id": "w", "type": "wait", "config": {"kind": "signal", "signal": "go"}}
    definition = published(
        [fork("p", "w", "b"), wait, tool("b"), tool("after")],
        [("s", "p"), ("p", "after"), ("w", "after"), ("b", "after"), ("after", "e")],
    )
    desk = Desk()
    assert desk.start(definition)["status"] == "awaiting_signal"
    waiting = desk.ok("signal", signal_name="go", payload={"x": 1})
    assert (waiting["status"], waiting["node_id"]) == ("awaiting_activity", "b")
    assert desk.submit("b", {"y": 2}, parallel_span=waiting["parallel_span"])["node_id"] == "after"
    assert desk.submit("after", {"z": 3})["result"] == {"x": 1, "y": 2, "z": 3}
    assert "JoinParallel" in desk.names()


CHILD_CALL: JsonObject = {
    "id": "sub",
    "type": "subworkflow",
    "config": {"workflow_ref": "urn:child", "input_mapping": {}},
}


def test_defect_04_a_child_that_waits_for_a_signal_is_not_taken_for_completed() -> None:
    wait: JsonObject = {"id": "w", "type": "wait", "config": {"kind": "signal", "signal": "go"}}
    desk = Desk({"urn:child": linear(wait)})
    assert desk.start(linear(CHILD_CALL))["status"] == "running"
    assert desk.ok("status", execution_id="run:sub:sub")["phase"] == "awaiting_signal"
    desk.ok("signal", execution_id="run:sub:sub", signal_name="go", payload={"x": 1})
    done = desk.ok("status")
    assert (done["phase"], done["result"]) == ("completed", {"x": 1})


def test_defect_04_a_child_with_host_mediated_work_does_not_fail_its_parent() -> None:
    desk = Desk({"urn:child": linear(tool("a"))})
    waiting = desk.start(linear(CHILD_CALL))
    assert waiting["status"] == "running"
    [pending] = waiting["pending_activities"] if isinstance(waiting["pending_activities"], list) else []
    assert isinstance(pending, dict)
    assert (pending["execution_id"], pending["node_id"]) == ("run:sub:sub", "a")
    desk.submit("a", {"x": 1}, execution_id="run:sub:sub")
    assert desk.ok("status")["result"] == {"x": 1}


def test_defect_05_the_status_after_a_resume_is_that_of_the_next_wait() -> None:
    desk = Desk()
    desk.start(linear(question(), tool("a")))
    assert desk.ok("status")["phase"] == "interrupted"
    desk.ok("resume", resume_payload={"ok": True})
    status = desk.ok("status")
    assert (status["phase"], status["current_node_id"]) == ("awaiting_activity", "a")


def test_defect_06_a_failed_branch_under_any_writes_no_terminal_event_while_the_run_lives() -> None:
    definition = published(
        [fork("p", "a", "b", join="any"), tool("a"), tool("b")],
        [("s", "p"), ("p", "e"), ("a", "e"), ("b", "e")],
    )
    desk = Desk()
    waiting = desk.start(definition)
    waiting = desk.ok(
        "submit_activity",
        node_id="a",
        outcome={"ok": False, "error": "no", "code": "E_NO"},
        parallel_span=waiting["parallel_span"],
    )
    assert (waiting["status"], waiting["node_id"]) == ("awaiting_activity", "b")
    assert desk.ok("status")["phase"] == "awaiting_activity"
    assert not TERMINAL & set(desk.names())
    assert desk.submit("b", {"y": 2}, parallel_span=waiting["parallel_span"])["status"] == "completed"
    assert [name for name in desk.names() if name in TERMINAL] == ["ExecutionCompleted"]


@pytest.mark.parametrize("payload", [{}, {"ok": "yes"}, None, "text", []], ids=repr)
def test_defect_07_an_invalid_answer_is_refused_and_the_question_stays_open(payload: JsonValue) -> None:
    desk = Desk()
    desk.start(linear(question()))
    before = list(desk.records())
    problem = desk.problem("resume", resume_payload=payload)
    assert (problem.code, problem.details["execution_id"]) == ("INVALID_RESUME_PAYLOAD", "run")
    assert desk.records() == before
    assert desk.ok("status")["phase"] == "interrupted"
    assert desk.ok("resume", resume_payload={"ok": True})["status"] == "completed"


def test_defect_08_a_wait_lasts_as_long_as_it_was_meant_to_even_after_a_crash() -> None:
    wait: JsonObject = {"id": "w", "type": "wait", "config": {"kind": "duration", "duration_ms": 300_000}}
    definition = linear(wait)
    desk = Desk()
    assert desk.start(definition)["status"] == "running"  # the call does not wait
    desk.now += 200_000
    desk = desk.crash()
    again: JsonObject = {"definition": definition, "input": {}, "allow_existing_execution_id": True}
    assert desk.ok("start", **again)["status"] == "running"
    desk.now += 99_999
    assert desk.ok("start", **again)["status"] == "running"
    desk.now += 1
    assert desk.ok("start", **again)["status"] == "completed"
    assert desk.names().count("TimerStarted") == 1


def test_defect_09_a_signed_definition_runs_and_continues() -> None:
    definition = linear(question(), tool("a"))
    signed = sign_definition(definition, key_id="k", private_key=Ed25519PrivateKey.generate())
    desk = Desk()
    assert desk.start(signed)["status"] == "interrupted"
    assert desk.ok("resume", definition=signed, resume_payload={"ok": True})["status"] == "awaiting_activity"
    # The signature is no part of what was signed: the same definition without it is the same definition.
    assert desk.submit("a", {"x": 1}, definition=definition)["status"] == "completed"


def test_defect_09_state_keys_that_sound_like_secrets_do_not_stop_a_run() -> None:
    given: JsonObject = {"password": "p", "api_key": "k", "token": {"secret": 1}}
    desk = Desk()
    desk.start(linear(tool("a"), question(), tool("b")), given)
    desk.submit("a", {"authorization": "x"}, input=given)
    desk.ok("resume", resume_payload={"ok": True})
    done = desk.submit("b", {}, input=given)
    assert done["result"] == {**given, "authorization": "x", "ok": True}


def test_defect_10_another_definition_is_refused_from_the_first_call_on() -> None:
    definition, other = linear(tool("a")), linear(tool("a"), tool("b"))
    desk = Desk()
    desk.start(definition)
    assert "CheckpointWritten" not in desk.names()
    outcome: JsonObject = {"ok": True, "result": {}}
    swapped = desk.problem("submit_activity", node_id="a", outcome=outcome, definition=other)
    assert swapped.code == "SUBMIT_VALIDATION_ERROR"
    assert desk.problem("signal", signal_name="go", definition=other).code == "SIGNAL_VALIDATION_ERROR"
    assert desk.problem("start", definition=other, input={}, allow_existing_execution_id=True).details["execution_id"]
    assert desk.submit("a", {"x": 1}, definition=definition)["status"] == "completed"


def test_defect_10_a_completed_run_is_not_walked_again() -> None:
    definition = linear(tool("a"))
    desk = Desk()
    desk.start(definition)
    desk.submit("a", {"x": 1})
    before = list(desk.records())
    again = desk.ok("start", definition=definition, input={}, allow_existing_execution_id=True)
    assert (again["status"], again["result"]) == ("completed", {"x": 1})
    outcome: JsonObject = {"ok": True, "result": {"x": 2}}
    assert desk.problem("submit_activity", node_id="a", outcome=outcome).code == "ACTIVITY_SUBMIT_NOT_AWAITING"
    assert desk.problem("resume", resume_payload={}).code == "INVALID_RESUME_PAYLOAD"
    assert desk.problem("cancel").code == "CANCEL_NOT_ALLOWED"
    assert desk.records() == before


def test_defect_11_a_switch_inside_a_branch_validates_and_runs() -> None:
    gate: JsonObject = {"cases": [{"when": ".n > 1", "target": "a"}], "default": "e"}
    definition = published(
        [fork("p", "sw", "b"), {"id": "sw", "type": "switch", "config": gate}, tool("a"), tool("b")],
        [("s", "p"), ("p", "e"), ("a", "e"), ("b", "e")],
    )
    assert [finding for finding in validate_document(definition) if finding.severity == "error"] == []
    desk = Desk()
    waiting = desk.start(definition, {"n": 5})
    assert waiting["node_id"] == "a"
    waiting = desk.submit("a", {"x": 1}, parallel_span=waiting["parallel_span"])
    assert desk.submit("b", {"y": 2}, parallel_span=waiting["parallel_span"])["result"] == {"n": 5, "x": 1, "y": 2}


def test_defect_12_a_failed_run_is_reported_with_run_node_code_and_state() -> None:
    desk = Desk(performer=Scripted(lambda activity: ActivityError("card declined", "DECLINED", retryable=False)))
    reply = asyncio.run(desk.plane.call("workflow_start", {"definition": linear(tool("pay")), "input": {"n": 1}}))
    assert isinstance(reply, CallProblem)
    assert reply.code == "ENGINE_FAILURE"
    assert reply.details["execution_id"] == "minted"
    assert reply.details["node_id"] == "pay"
    assert reply.details["cause_code"] == "DECLINED"
    assert reply.details["final_state"] == {"n": 1}
    status = desk.ok("status", execution_id="minted")
    assert (status["phase"], status["last_error"], status["code"]) == ("failed", "card declined", "DECLINED")


def test_defect_12_a_submit_that_exhausts_the_retries_keeps_its_own_code() -> None:
    desk = Desk()
    desk.start(linear(tool("a")))
    problem = desk.problem("submit_activity", node_id="a", outcome={"ok": False, "error": "no", "code": "E_NO"})
    assert (problem.details["cause_code"], problem.details["node_id"]) == ("E_NO", "a")


def test_defect_13_the_status_has_state_timeout_span_and_what_the_question_needs() -> None:
    definition = published(
        [fork("p", "a"), tool("a", timeout="5s", retry={"max_attempts": 2}), question()],
        [("s", "p"), ("p", "ask"), ("a", "ask"), ("ask", "e")],
    )
    desk = Desk()
    desk.start(definition, {"n": 1})
    status = desk.ok("status")
    span: JsonObject = {
        "parallel_node_id": "p",
        "join_target_id": "ask",
        "branch_name": "b0",
        "branch_entry_node_id": "a",
    }
    assert (status["state"], status["timeout_ms"], status["attempt"]) == ({"n": 1}, 5_000, 1)
    assert status["parallel_span"] == span
    desk.submit("a", {"x": 1}, parallel_span=span)
    status = desk.ok("status")
    assert status["prompt"] == "Go?"
    assert isinstance(status["resume_schema"], dict)
    desk.ok("resume", resume_payload={"ok": True})
    assert desk.ok("status")["result"] == {"n": 1, "x": 1, "ok": True}


def test_defect_14_a_duplicate_id_is_refused_with_its_place() -> None:
    definition = published([tool("a"), tool("a")], [("s", "a"), ("a", "e")])
    problem = Desk().problem("start", definition=definition, input={})
    assert problem.code == "VALIDATION_ERROR"
    findings = problem.details["findings"]
    assert isinstance(findings, list)
    places = [(item["code"], item["path"]) for item in findings if isinstance(item, dict)]
    assert ("DUPLICATE_ID", "/nodes/2/id") in places


def test_defect_15_a_retry_is_a_timer_and_no_call_waits_for_it() -> None:
    retry: JsonObject = {"max_attempts": 2, "initial_interval": "10m"}
    desk = Desk()
    desk.start(linear(tool("a", retry=retry)))
    failed: JsonObject = {"ok": False, "error": "busy", "code": "E_BUSY"}
    assert desk.ok("submit_activity", node_id="a", outcome=failed)["status"] == "running"
    desk = desk.crash()
    desk.now += 600_000
    waiting = desk.ok("start", definition=linear(tool("a", retry=retry)), input={}, allow_existing_execution_id=True)
    assert (waiting["status"], waiting["attempt"]) == ("awaiting_activity", 2)
    assert desk.submit("a", {"x": 1})["status"] == "completed"


def test_defect_19_an_endless_loop_is_ended_by_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STEPS_PER_RUN_MAX", 100)
    count: JsonObject = {"id": "c", "type": "set_state", "config": {"assignments": {"n": {"jq": ".n + 1"}}}}
    gate: JsonObject = {"cases": [{"when": ".n > 0", "target": "c"}], "default": "e"}
    definition = published([count, {"id": "again", "type": "switch", "config": gate}], [("s", "c"), ("c", "again")])
    problem = Desk().problem("start", definition=definition, input={"n": 1})
    assert problem.details["cause_code"] == "RUN_LIMIT_EXCEEDED"


def test_defect_20_a_delegation_is_retried() -> None:
    delegate: JsonObject = {
        "id": "d",
        "type": "agent_delegate",
        "config": {"agent_id": "clerk", "protocol": "a2a", "input_mapping": {}},
        "retry": {"max_attempts": 3},
    }
    performer = Scripted(
        lambda call: ActivityDone({"x": 1}) if call.attempt == 3 else ActivityError("busy", "A2A_TASK_FAILED")
    )
    desk = Desk(performer=performer)
    assert desk.start(linear(delegate), mode="in_process")["result"] == {"x": 1}
    assert [call.attempt for call in performer.calls] == [1, 2, 3]


def test_defect_20_the_schema_of_the_input_is_enforced() -> None:
    definition = linear(tool("a"))
    nodes = definition["nodes"]
    assert isinstance(nodes, list)
    nodes[0] = {"id": "s", "type": "start", "config": {"input_schema": {"type": "object", "required": ["n"]}}}
    desk = Desk()
    assert desk.problem("start", definition=definition, input={}).code == "VALIDATION_ERROR"
    assert desk.start(definition, {"n": 1})["status"] == "awaiting_activity"


def test_defect_20_the_schema_of_the_output_is_enforced() -> None:
    definition = linear(tool("a"))
    nodes = definition["nodes"]
    assert isinstance(nodes, list)
    nodes[-1] = {"id": "e", "type": "end", "config": {"output_schema": {"type": "object", "required": ["x"]}}}
    desk = Desk()
    desk.start(definition)
    problem = desk.problem("submit_activity", node_id="a", outcome={"ok": True, "result": {"y": 1}})
    assert problem.details["cause_code"] == "OUTPUT_SCHEMA_VIOLATION"


def test_defect_20_a_question_times_out_and_shows_its_prompt_reference() -> None:
    ask: JsonObject = {
        "id": "ask",
        "type": "interrupt",
        "config": {"prompt_ref": "prompts/go", "resume_schema": {"type": "object"}, "timeout": "5s"},
    }
    definition = linear(ask)
    desk = Desk()
    assert desk.start(definition)["prompt_ref"] == "prompts/go"
    desk.now += 5_000
    problem = desk.problem("start", definition=definition, input={}, allow_existing_execution_id=True)
    assert problem.details["cause_code"] == "INTERRUPT_TIMEOUT"


def test_defect_20_a_parallel_times_out() -> None:
    both = fork("p", "a")
    config = both["config"]
    assert isinstance(config, dict)
    config["timeout"] = "5s"
    definition = published([both, tool("a")], [("s", "p"), ("p", "e"), ("a", "e")])
    desk = Desk()
    desk.start(definition)
    desk.now += 5_000
    problem = desk.problem("start", definition=definition, input={}, allow_existing_execution_id=True)
    assert problem.details["cause_code"] == "TIMEOUT"


def test_defect_21_an_answer_goes_through_the_reducers() -> None:
    ask: JsonObject = {"id": "ask", "type": "interrupt", "config": {"prompt": "?", "resume_schema": {"type": "object"}}}
    desk = Desk()
    desk.start(linear(ask, state=appending("l")), {"l": [1]})
    assert desk.ok("resume", resume_payload={"l": [2]})["result"] == {"l": [1, 2]}


@pytest.mark.parametrize(
    "node",
    [
        tool("a"),
        {"id": "a", "type": "step", "config": {"handler": "urn:h"}},
        {"id": "a", "type": "llm_call", "config": {"model": "m", "prompt": "p"}},
        {"id": "a", "type": "agent_delegate", "config": {"agent_id": "x", "protocol": "a2a", "input_mapping": {}}},
    ],
    ids=lambda node: str(node["type"]),
)
def test_defect_22_work_that_nobody_is_configured_for_fails_and_says_so(node: JsonObject) -> None:
    problem = Desk().problem("start", definition=linear(node), input={}, activity_execution_mode="in_process")
    assert problem.details["cause_code"] == "COMPOSITE_EXECUTOR_NOT_CONFIGURED"
    assert str(node["type"]) in str(problem.details["cause"])
