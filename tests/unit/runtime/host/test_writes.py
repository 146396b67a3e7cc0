"""The index row after a plain move is the one that the state as a whole leads to."""

from penstock.base.json import JsonValue
from penstock.definitions.jq.expressions import InProcessEvaluator
from penstock.engine import inputs
from penstock.engine.effects import PerformActivity
from penstock.engine.moves.plan import Plan
from penstock.engine.moves.taking import take
from penstock.engine.outcomes import Accepted
from penstock.engine.pages import Move
from penstock.engine.state import RunState
from penstock.runtime.host.writes import first_row, first_write, next_move, next_write
from tests.unit.engine.runs import T0, native, step


def taken(plan: Plan, state: RunState, given: inputs.Input) -> tuple[Accepted, tuple[PerformActivity, ...]]:
    decision = take(plan, state, given, InProcessEvaluator())
    assert decision is not None
    assert isinstance(decision.page, Move)
    return decision, tuple(effect for effect in decision.effects or () if isinstance(effect, PerformActivity))


def test_status_timers_and_work_after_a_move_are_those_of_the_state() -> None:
    timeouts: list[JsonValue] = [None, "5s", "2h", None]
    nodes = [
        step(f"s{number}") if timeout is None else step(f"s{number}", timeout=timeout)
        for number, timeout in enumerate(timeouts)
    ]
    for top in ({}, {"timeout": "1h"}):
        plan = Plan(native(*nodes, **top))
        for mode in ("in_process", "host_mediated"):
            start = inputs.StartRun(at=T0, run_id="r", input={}, mode=mode)
            decision, effects = taken(plan, RunState(), start)
            row = first_row(decision.state, effects, created_at=T0, labels={}, owner="me")
            assert first_write(row, decision).history == decision.records
            while effects:
                state = decision.state
                result = inputs.CompleteActivity(
                    at=T0 + 7, node_id=effects[0].node_id, visit=1, attempt=1, result={"n": 1}
                )
                decision, effects = taken(plan, state, result)
                as_records = Accepted(decision.records, decision.state, decision.effects)
                by_move = next_write(row, state.seq, decision, effects, owner="me")
                by_state = next_write(row, state.seq, as_records, effects, owner="me")
                if row.has_work:  # as on the flat path
                    assert isinstance(decision.page, Move)
                    assert next_move(row, decision.page, decision) == by_move
                assert by_move.row == by_state.row
                assert by_move.same_index == by_state.same_index
                assert by_move.history == by_state.records
                row = by_move.row
            assert (row.status, row.terminal, row.has_work) == ("completed", True, False)
