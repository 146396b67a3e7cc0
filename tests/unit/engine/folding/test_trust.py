"""A run is untrusted from the first word of somebody outside on, and so is whatever it hands that word to."""

from __future__ import annotations

import pytest

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.engine import inputs
from penstock.engine.folding.evolve import evolve, fold
from penstock.engine.folding.trust import from_outside
from penstock.engine.fork import fork
from penstock.engine.outcomes import Accepted
from penstock.engine.records import Record
from penstock.engine.replay import Replayed, replay
from penstock.engine.state import RunState
from penstock.engine.walk.starting import successor_start
from penstock.runtime.activities.performing import ActivityDone, ActivityOutcome
from penstock.runtime.host.memory import MemoryHost
from tests.unit.engine.runs import END, T0, compiled, native, step

ANSWER: JsonObject = {"type": "object"}
LLM: JsonObject = {"id": "ask", "type": "llm_call", "model": "default", "prompt": "Hello"}
OUTSIDE: list[JsonObject] = [
    LLM,
    {"id": "ask", "type": "tool_call", "server": "web", "tool": "fetch"},
    {"id": "ask", "type": "http", "method": "GET", "url": "https://example.com/"},
    {"id": "ask", "type": "agent_delegate", "agent_id": "clerk"},
]
WAITS: JsonObject = {"id": "news", "type": "wait", "signal": "news"}
QUESTION: JsonObject = {"id": "sure", "type": "interrupt", "message": "?", "answer": ANSWER, "answered_by": "anyone"}


class Performer:
    """Does whatever is asked for at once."""

    def perform(self, state: RunState, effect: object) -> ActivityOutcome:
        return ActivityDone({"ok": True})


def hosted(*documents: JsonObject) -> MemoryHost:
    known = {str(document["name"]): compiled(document) for document in documents}
    return MemoryHost(clock=lambda: T0, performer=Performer(), resolve=lambda name, pin: known.get(name))


def named(name: str, *nodes: JsonObject) -> JsonObject:
    return {"penstock": "v1", "name": name, "nodes": [*nodes, END]}


def begun(*nodes: JsonObject, untrusted: bool = False) -> tuple[MemoryHost, RunState]:
    host = hosted()
    host.start(native(*nodes), inputs.StartRun(at=T0, run_id="r", input={}, untrusted=untrusted))
    return host, host.runs["r"].state


def states(records: list[Record]) -> list[RunState]:
    found = [RunState()]
    for record in records:
        found.append(evolve(found[-1], record))
    return found


@pytest.mark.parametrize("node", OUTSIDE, ids=lambda node: str(node["type"]))
@pytest.mark.parametrize("before", [(), (step("own"),)], ids=["first", "in a move"])
def test_a_run_is_untrusted_from_the_first_request_to_somebody_outside_on(
    node: JsonObject, before: tuple[JsonObject, ...]
) -> None:
    host, _ = begun(*before, node, step("after"))
    host.drive("r", activities=True)
    run = host.runs["r"]
    assert run.state.terminal
    assert run.state.untrusted
    marks = [state.untrusted for state in states(run.records)]
    assert marks == sorted(marks)  # once untrusted, always untrusted
    first = next(
        item for item in run.records if item.payload.get("nodeId") == "ask" and item.name == "ActivityRequested"
    )
    assert marks.index(True) == first.seq
    assert not any("untrusted" in record.payload for record in run.records)


def test_the_operators_own_code_is_as_trusted_as_its_run() -> None:
    host, _ = begun(step("one"), step("two"))
    host.drive("r", activities=True)
    assert host.runs["r"].state.terminal
    assert not host.runs["r"].state.untrusted
    own, _ = begun(step("one"), untrusted=True)
    own.drive("r", activities=True)
    assert own.runs["r"].state.untrusted


def test_a_start_from_outside_is_recorded_and_one_from_within_as_before() -> None:
    outside, state = begun(WAITS, untrusted=True)
    assert state.untrusted
    assert outside.runs["r"].records[0].payload["untrusted"] is True
    within, state = begun(WAITS)
    assert not state.untrusted
    assert "untrusted" not in within.runs["r"].records[0].payload


@pytest.mark.parametrize("is_awaited", [True, False])
def test_a_signal_from_outside_marks_the_run_that_gets_it(is_awaited: bool) -> None:
    host, _ = begun(WAITS if is_awaited else {"id": "nap", "type": "wait", "duration": "1h"})
    signal = inputs.SendSignal(at=T0, name="news", payload="obey")
    host.send("r", signal if not is_awaited else from_outside(signal))
    assert host.runs["r"].state.untrusted is is_awaited
    if not is_awaited:
        host.send("r", from_outside(inputs.SendSignal(at=T0, name="news")))
        assert host.runs["r"].state.untrusted


@pytest.mark.parametrize("by_model", [True, False])
def test_an_answer_marks_the_run_if_a_model_gave_it(by_model: bool) -> None:
    host, _ = begun(QUESTION)
    given = inputs.AnswerInterrupt(at=T0, answer={}, by_model=by_model)
    assert isinstance(host.send("r", from_outside(given)), Accepted)
    assert host.runs["r"].state.untrusted is by_model


def test_a_question_to_the_calling_program_marks_the_run_and_one_to_a_person_does_not() -> None:
    roots: JsonObject = {"kind": "roots", "request": {}}
    for ask, expected in ((roots, True), (None, False)):
        host, _ = begun(step("own"))
        asked = inputs.AskInActivity(at=T0, node_id="own", question="?", answer_schema={}, ask=ask)
        assert isinstance(host.send("r", asked), Accepted)
        host.send("r", inputs.AnswerInterrupt(at=T0, answer={}, by_model=expected))
        assert host.runs["r"].state.untrusted is expected
        assert not any("untrusted" in record.payload for record in host.runs["r"].records)


@pytest.mark.parametrize("ok", [True, False])
def test_a_result_from_outside_marks_the_run_whatever_the_node(ok: bool) -> None:
    host, _ = begun(step("own", on_error={"next": "after"}), step("after"))
    given: inputs.Input = inputs.CompleteActivity(at=T0, node_id="own", result="x", extra={"usage": {}})
    if not ok:
        given = inputs.FailActivity(at=T0, node_id="own", error="no")
    assert isinstance(host.send("r", from_outside(given)), Accepted)
    state = host.runs["r"].state
    assert (state.untrusted, state.activation("after") is not None) == (True, True)


@pytest.mark.parametrize("child_nodes", [(LLM,), (step("own"),)], ids=["untrusted", "trusted"])
def test_a_parent_takes_the_mark_over_from_its_child(child_nodes: tuple[JsonObject, ...]) -> None:
    parent = named("parent", {"id": "below", "type": "subworkflow", "workflow": "child"}, step("after"))
    host = hosted(parent, named("child", *child_nodes))
    host.start(compiled(parent), inputs.StartRun(at=T0, run_id="r", input={}))
    host.drive("r", activities=True)
    assert host.runs["r"].state.terminal
    assert host.runs["r"].state.untrusted is (child_nodes == (LLM,))


@pytest.mark.parametrize("first", [LLM, step("own")], ids=["untrusted", "trusted"])
def test_a_child_takes_the_mark_over_from_its_parent(first: JsonObject) -> None:
    parent = named("parent", first, {"id": "below", "type": "subworkflow", "workflow": "child"})
    host = hosted(parent, named("child", step("own")))
    host.start(compiled(parent), inputs.StartRun(at=T0, run_id="r", input={}))
    host.drive("r", activities=True)
    child = next(run for run_id, run in host.runs.items() if run_id != "r")
    assert child.state.untrusted is (first == LLM)


def test_a_signal_of_an_untrusted_run_carries_the_mark() -> None:
    hears = named("hears", WAITS)
    emits = named("emits", LLM, {"id": "tell", "type": "emit", "signal": "news", "run": "hearer"})
    host = hosted(hears, emits)
    host.start(compiled(hears), inputs.StartRun(at=T0, run_id="hearer", input={}))
    host.start(compiled(emits), inputs.StartRun(at=T0, run_id="r", input={}))
    host.drive("r", activities=True)
    assert host.runs["hearer"].state.untrusted


def test_a_run_that_continues_an_untrusted_one_is_untrusted() -> None:
    document: JsonObject = {
        "penstock": "v1",
        "name": "again",
        "nodes": [LLM, {"id": "more", "type": "continue_as_new"}],
    }
    workflow = build_workflow(document)
    host = hosted()
    host.start(workflow, inputs.StartRun(at=T0, run_id="r", input={}))
    host.send("r", inputs.CompleteActivity(at=T0, node_id="ask", result={}))
    assert successor_start(workflow, host.runs["r"].state, at=T0).untrusted


def test_a_fork_has_the_mark_of_what_it_carries_and_of_who_asks_for_it() -> None:
    host, _ = begun(step("own"), LLM)
    host.drive("r", activities=True)
    records = host.runs["r"].records
    assert not fold(fork(records, at_seq=2, run_id="f")).untrusted
    assert fold(fork(records, at_seq=len(records), run_id="f")).untrusted
    assert fold(fork(records, at_seq=2, run_id="f", untrusted=True)).untrusted
    started, _ = begun(step("own"), untrusted=True)
    assert fold(fork(started.runs["r"].records, at_seq=1, run_id="f")).untrusted


def test_replay_comes_to_the_same_mark() -> None:
    workflow = native(WAITS, QUESTION, step("own"))
    sent: list[list[inputs.Input]] = [
        [inputs.SendSignal(at=T0, name="news", untrusted=True)],
        [inputs.SendSignal(at=T0, name="news"), inputs.AnswerInterrupt(at=T0, answer={}, by_model=True)],
        [inputs.SendSignal(at=T0, name="news"), inputs.AnswerInterrupt(at=T0, answer={})],
    ]
    found: list[JsonValue] = []
    for given in sent:
        host = hosted()
        host.start(workflow, inputs.StartRun(at=T0, run_id="r", input={}))
        for one in given:
            host.send("r", one)
        replayed = replay(workflow, host.runs["r"].records)
        assert isinstance(replayed, Replayed)
        assert replayed.state.untrusted is host.runs["r"].state.untrusted
        found.append(replayed.state.untrusted)
    assert found == [True, True, False]
