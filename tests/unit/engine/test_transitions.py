"""The tables of states and transitions agree with each other and with the code that reads them."""

from penstock.engine.folding.evolve import _HANDLERS
from penstock.engine.records import COMMANDS, EVENTS, TYPES, Body, commands, events
from penstock.engine.status import _WAITS
from penstock.engine.transitions import (
    ACTIVATION_TRANSITIONS,
    FINISHED_PHASES,
    READY_PHASES,
    RUN_TRANSITIONS,
    TERMINAL_STATUSES,
    Phase,
    RunStatus,
)
from penstock.engine.walk.advance import _MOVES, _OVER

# Ready by what is in them: bodies that can start or join, signals that wait in the buffer.
SOMETIMES_READY = {Phase.FORKED, Phase.AWAITING_SIGNAL}
# Records about the run as a whole, about scopes, or about several activations at once.
RUN_LEVEL = {
    *RUN_TRANSITIONS,
    commands.CancelExecution,
    events.HistoryLimitReached,
    commands.StartCompensation,
    commands.PauseExecution,
    events.ExecutionPaused,
    commands.ResumeExecution,
    events.ExecutionResumed,
    commands.ScheduleNode,
    events.ScopeOpened,
    events.ScopeCompleted,
    events.ScopeFailed,
    commands.CancelParallelBranch,
    events.ParallelBranchCancelled,
    events.SignalBuffered,
}


def kinds_with_transitions() -> set[type[Body]]:
    return {kind for kind, _ in ACTIVATION_TRANSITIONS}


def test_every_ready_phase_has_a_move_and_only_those() -> None:
    assert {phase for moves in _MOVES.values() for phase in moves} == READY_PHASES | SOMETIMES_READY


def test_every_phase_that_is_not_ready_is_a_wait_with_a_name() -> None:
    waiting = set(Phase) - READY_PHASES
    assert waiting - {Phase.FORKED} == {phase for phase, _, _, _ in _WAITS}


def test_every_type_of_record_has_a_handler_and_every_handler_a_type() -> None:
    assert set(_HANDLERS) == set(TYPES.values())
    assert set(TYPES) == COMMANDS | EVENTS
    assert not COMMANDS & EVENTS


def test_every_record_that_is_about_a_visit_has_a_transition() -> None:
    assert set(_HANDLERS) - RUN_LEVEL == kinds_with_transitions()
    assert set(_HANDLERS) >= RUN_LEVEL


def test_a_record_has_either_one_transition_or_several_with_variants() -> None:
    for kind in kinds_with_transitions():
        variants = [variant for found, variant in ACTIVATION_TRANSITIONS if found is kind]
        assert variants == [""] or all(variants), kind


def test_every_phase_is_reached_from_the_first() -> None:
    reached = {Phase.SCHEDULING}
    growing = True
    while growing:
        found = {target for sources, target in ACTIVATION_TRANSITIONS.values() if sources & reached}
        growing = not found <= reached
        reached |= found
    assert reached == set(Phase)


def test_from_every_phase_a_visit_can_come_to_its_end() -> None:
    ends = {*FINISHED_PHASES, Phase.FAILED}
    growing = True
    while growing:
        found = {phase for sources, target in ACTIVATION_TRANSITIONS.values() if target in ends for phase in sources}
        growing = not found <= ends
        ends |= found
    assert ends == set(Phase)


def test_no_transition_stays_where_it_is() -> None:
    stays = {key for key, (sources, target) in ACTIVATION_TRANSITIONS.items() if target in sources}
    # A limit can strike at a visit that has failed or was routed already; a lease says who does work that waits; a vote
    # leaves the question open for the others, and so does asking others.
    assert stays <= {
        (commands.FailNode, "routed"),
        (commands.FailNode, "final"),
        (events.ActivityLeased, ""),
        (events.InterruptVoted, ""),
        (events.InterruptEscalated, ""),
    }


def test_the_finished_phases_are_those_after_which_a_scope_goes_on() -> None:
    assert FINISHED_PHASES | {Phase.FAILED} == _OVER
    assert FINISHED_PHASES <= READY_PHASES


def test_a_run_begins_pending_and_never_leaves_a_terminal_status() -> None:
    sources = {status for before, _ in RUN_TRANSITIONS.values() for status in before}
    targets = {after for _, after in RUN_TRANSITIONS.values()}
    assert sources == {RunStatus.PENDING, RunStatus.RUNNING}
    assert targets == {RunStatus.RUNNING, *TERMINAL_STATUSES}
    assert set(RunStatus) == {RunStatus.PENDING, RunStatus.RUNNING, *TERMINAL_STATUSES}
