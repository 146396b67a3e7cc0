"""Golden histories: what earlier releases recorded is read, replayed and written again to the byte, for ever."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from penstock.base.json import JsonObject
from penstock.definitions.model import NodeType, Workflow
from penstock.engine.decide import decide
from penstock.engine.folding.evolve import fold
from penstock.engine.outcomes import Accepted
from penstock.engine.records import COMMANDS, EVENTS, payload_of
from penstock.engine.replay import Replayed, replay
from penstock.engine.state import RunState
from penstock.engine.status import is_status, run_status
from tests.golden.history import Golden, due_ids, golden_files, limited, portrait, read, row_bytes
from tests.together import together

FILES = golden_files()
HISTORIES_MIN = 100
# What only documents of the native format can lead to.
NATIVE_RECORDS = {
    "ActivityOutcomeUnknown",
    "ActivityRetried",
    "EmitSignal",
    "ExecutionContinued",
    "ForEachStarted",
    "InterruptEscalated",
    "InterruptVoted",
    "LoopStarted",
    "SignalEmitted",
    "StartCompensation",
}
PUBLISHED_NODES = {
    NodeType.AGENT_DELEGATE,
    NodeType.END,
    NodeType.INTERRUPT,
    NodeType.LLM_CALL,
    NodeType.PARALLEL,
    NodeType.SET_STATE,
    NodeType.START,
    NodeType.STEP,
    NodeType.SUBWORKFLOW,
    NodeType.SWITCH,
    NodeType.TOOL_CALL,
    NodeType.WAIT,
}

each = together(FILES)
golden = cache(read)


@cache
def compiled(path: Path) -> Workflow:
    return golden(path).workflow()


def names_in(form: str) -> set[str]:
    found = [golden(path) for path in FILES]
    return {record.name for item in found if item.heading.format == form for record in item.records()}


def nodes_in(form: str) -> set[NodeType]:
    found = [path for path in FILES if golden(path).heading.format == form]
    return {node.type for path in found for node in compiled(path).nodes.values()}


def drawn(workflow: Workflow, state: RunState, item: Golden) -> JsonObject:
    """The portrait of a run; an approval is called a question where it was recorded so.

    The status is derived from the records and not one of them: histories from before `waiting_approval` read as ever,
    and are told in the new word. Nothing else may differ, and histories that were recorded since then have the word.
    """
    found, recorded = portrait(workflow, state, item.steps[-1].input().at), str(item.portrait["status"])
    return {**found, "status": recorded} if is_status(recorded, str(found["status"])) else found


def test_there_are_histories_of_every_record_in_both_formats() -> None:
    assert len(FILES) >= HISTORIES_MIN
    assert names_in("native") == COMMANDS | EVENTS
    assert names_in("published") >= (COMMANDS | EVENTS) - NATIVE_RECORDS


def test_there_are_histories_of_every_node_type() -> None:
    assert nodes_in("native") == set(NodeType) - {NodeType.START}
    assert nodes_in("published") >= PUBLISHED_NODES


@each
def test_the_document_has_the_hash_that_its_runs_are_pinned_to(path: Path) -> None:
    item = golden(path)
    assert compiled(path).hash == item.heading.definition_hash


@each
def test_a_history_is_read_to_the_same_state_and_written_to_the_same_bytes(path: Path) -> None:
    item = golden(path)
    workflow, state = compiled(path), RunState()
    with limited(item.heading.limits):
        for step in item.steps:
            state = fold(step.records(), state)
            assert is_status(step.status, run_status(state))
            assert due_ids(workflow, state, step.input().at) == step.due
        assert drawn(workflow, state, item) == item.portrait
    written = [row_bytes(state.run_id, record) for record in item.records()]
    assert written == [bytes(row) for step in item.steps for row in step.rows]


@each
def test_the_same_inputs_lead_to_the_same_rows(path: Path) -> None:
    item = golden(path)
    workflow, state = compiled(path), RunState()
    with limited(item.heading.limits):
        for step in item.steps:
            decision = decide(workflow, state, step.input())
            assert isinstance(decision, Accepted), decision
            rows = [row_bytes(decision.state.run_id, record) for record in decision.records]
            recorded = [bytes(row) for row in step.rows]
            assert rows[: len(recorded)] == recorded
            assert step.cut or rows == recorded
            state = fold(step.records(), state) if step.cut else decision.state
            assert is_status(step.status, run_status(state))
    assert drawn(workflow, state, item) == item.portrait


@each
def test_every_record_has_a_type_that_gives_its_payload_to_the_byte(path: Path) -> None:
    for record in golden(path).records():
        body = record.body
        assert body is not None, record.name
        assert type(body).record_kind == record.kind
        written = msgspec.json.encode(record.payload)
        assert msgspec.json.encode(body) == written
        assert msgspec.json.encode(payload_of(body)) == written


@each
def test_a_history_replays_without_divergence(path: Path) -> None:
    item = golden(path)
    with limited(item.heading.limits):
        outcome = replay(compiled(path), item.records())
    assert isinstance(outcome, Replayed), outcome
    assert is_status(str(item.portrait["status"]), run_status(outcome.state))
    assert outcome.state.result == item.portrait["result"]


def test_a_changed_byte_is_a_difference() -> None:
    item = golden(FILES[0])
    first = item.steps[0]
    changed = bytes(first.rows[0]).replace(b'"seq":1', b'"seq":2')
    forged = msgspec.structs.replace(first, rows=(msgspec.Raw(changed), *first.rows[1:]))
    assert _rows(item) != _rows(msgspec.structs.replace(item, steps=(forged, *item.steps[1:])))


def _rows(item: Golden) -> list[bytes]:
    return [row_bytes("run", record) for record in item.records()]
