"""The visits of every golden history: after each record they agree with the state that the engine folds."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.folding.evolve import apply as apply_to_state
from penstock.engine.records import Record, commands
from penstock.engine.state import Activation, RunState
from penstock.engine.status import run_status
from penstock.engine.transitions import FINISHED_PHASES, Phase, RunStatus
from penstock.engine.visits import RunVisits, VisitStatus, WaitKind, apply, fold, visits_of
from tests.golden.history import golden_files, read
from tests.together import together

FILES = golden_files()
OVER = {VisitStatus.COMPLETED, VisitStatus.FAILED, VisitStatus.CANCELLED}
# The phases in which somebody or something outside has the next word, and the word of the run for each.
WAITS: dict[Phase, tuple[set[WaitKind], VisitStatus, str]] = {
    Phase.INTERRUPTED: ({WaitKind.INPUT, WaitKind.APPROVAL}, VisitStatus.WAITING, "waiting_input"),
    Phase.ASKING: ({WaitKind.INPUT}, VisitStatus.WAITING, "waiting_input"),
    Phase.OUTCOME_UNKNOWN: ({WaitKind.DECISION}, VisitStatus.WAITING, "waiting_decision"),
    Phase.REQUESTED: ({WaitKind.ACTIVITY}, VisitStatus.RUNNING, "waiting_activity"),
    Phase.AWAITING_SIGNAL: ({WaitKind.SIGNAL}, VisitStatus.WAITING, "waiting_signal"),
    Phase.CHILD_RUNNING: ({WaitKind.CHILD}, VisitStatus.WAITING, "waiting_child"),
    Phase.SLEEPING: ({WaitKind.TIMER}, VisitStatus.WAITING, "waiting_timer"),
    Phase.BACKING_OFF: ({WaitKind.RETRY}, VisitStatus.RETRYING, "waiting_timer"),
}
WORDS = {kind: word for kinds, _, word in WAITS.values() for kind in kinds} | {WaitKind.APPROVAL: "waiting_approval"}
RANKS = ["waiting_input", "waiting_approval", *(word for _, _, word in WAITS.values())]

each = together(FILES)


@cache
def history(path: Path) -> tuple[Record, ...]:
    return tuple(read(path).records())


def same(visits: RunVisits, state: RunState) -> None:
    """What both know is the same."""
    assert (visits.run_id, visits.seq, visits.updated_at) == (state.run_id, state.seq, state.updated_at)
    assert (visits.status, visits.paused, visits.compensating) == (state.status, state.paused, state.compensating)
    assert visits.ending == (None if state.ending is None else state.ending.outcome)
    assert {node_id: node.visits for node_id, node in visits.nodes.items()} == state.visits
    under_way = [item for item in state.activations() if item.phase not in {*FINISHED_PHASES, Phase.FAILED}]
    assert set(visits.open) == {item.key for item in under_way}
    for activation in under_way:
        same_visit(visits, state, activation)


def same_visit(visits: RunVisits, state: RunState, activation: Activation) -> None:
    visit, scope = visits.open[activation.key], state.scope_of(activation.key)
    assert scope is not None
    lies_in = visits.scopes[visit.scope]
    assert (visit.scope, lies_in.index, lies_in.branch or "") == (scope.serial, scope.index, scope.name)
    parent = visits.parent(visit)
    owner = None if scope.parent is None else state.scopes[scope.parent].activation
    assert (parent and parent.key) == (owner and owner.key)
    assert (visit.begun_at, visit.attempts) == (activation.scheduled_at, activation.attempt)
    kinds, status, _ = WAITS.get(activation.phase, (set(), None, ""))
    if kinds:
        assert visit.wait is not None
        assert visit.wait.kind in kinds
        assert visit.status is status
        due = activation.due_at if activation.phase in (Phase.SLEEPING, Phase.BACKING_OFF) else activation.deadline
        if activation.phase is not Phase.OUTCOME_UNKNOWN:
            assert visit.wait.until == due
    else:
        # A question whose state is kept first is known before it is open.
        assert (visit.wait is not None) <= (activation.phase in (Phase.RAISED, Phase.RETRYING))
        assert visit.status is (VisitStatus.RETRYING if activation.phase is Phase.RETRYING else VisitStatus.RUNNING)
    if activation.phase is Phase.CHILD_RUNNING:
        assert visit.child_run_id == (activation.external or {}).get("childExecutionId")


def word_of(visits: RunVisits) -> str:
    """The status of a run, made of nothing but its visits."""
    if visits.status is not RunStatus.RUNNING:
        return str(visits.status)
    if visits.paused:
        return "paused"
    if visits.ending is not None:
        return "cancelling" if visits.ending == "cancelled" else "compensating"
    words = {WORDS[visit.wait.kind] for visit in visits.open.values() if visit.wait is not None}
    return next((word for word in RANKS if word in words), "running")


@each
def test_after_every_record_the_visits_agree_with_the_state_of_the_engine(path: Path) -> None:
    visits, state = RunVisits(), RunState()
    for record in history(path):
        apply(visits, record, record.body)
        apply_to_state(state, record)
        same(visits, state)
        if not state.unsettled:
            assert word_of(visits) == run_status(state)


@each
def test_a_visit_ends_once_and_what_ended_stays_as_it_was(path: Path) -> None:
    visits, ended = RunVisits(), dict[tuple[str, int], object]()
    for record in history(path):
        apply(visits, record, record.body)
        failed = record.body_as(commands.FailNode)
        for key, visit in visits.visits.items():
            assert (visit.status in OVER) == (key not in visits.open) == (visit.ended_seq is not None)
            now = (visit.status, visit.ended_seq, visit.ended_at, visit.next, visit.error)
            # A limit that ends a run fails the visit at which it was found, though that had completed.
            is_failed_late = failed is not None and (failed.node_id, visit.ended_seq) == (visit.node_id, record.seq)
            if not visit.is_open and not is_failed_late:
                assert ended.setdefault(key, now) == now
            elif not visit.is_open:
                ended[key] = now
    scopes = [scope for scope in visits.scopes.values() if scope.owner is not None]
    assert sorted(key for scope in visits.scopes.values() for key in scope.visits) == sorted(visits.visits)
    opened = [serial for indexed in visits.open_scopes.values() for serial in indexed.values()]
    assert sorted(scope.serial for scope in scopes if scope.is_open) == sorted(opened)


@settings(max_examples=60)
@given(st.data())
def test_a_history_in_parts_gives_what_it_gives_as_a_whole(data: st.DataObject) -> None:
    records = history(data.draw(st.sampled_from(FILES)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(records)), max_size=4)))
    visits = RunVisits()
    for first, last in zip([0, *cuts], [*cuts, len(records)], strict=True):
        before = visits.copy()
        later = fold(visits, records[first:last])
        assert visits == before, "what was folded before is not touched"
        visits = later
    assert visits == visits_of(records)
