"""Any input at any time: the engine takes it or refuses it, and never does anything else."""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.pending import pending
from penstock.engine.replay import Replayed, replay
from penstock.engine.status import published_phase
from penstock.engine.transitions import Phase
from penstock.engine.walk.timers import timers_of
from tests.unit.engine.runs import Run, begin, native, step

BRANCHES: list[JsonValue] = [
    {
        "name": "x",
        "nodes": [{"id": "ask", "type": "interrupt", "message": "?", "timeout": "2s", "on_timeout": "$exit"}],
    },
    {"name": "y", "nodes": [{"id": "sig", "type": "wait", "signal": "go", "timeout": "3s"}]},
    {"name": "z", "nodes": [{"id": "sub", "type": "subworkflow", "workflow": "other", "retry": {"max_attempts": 2}}]},
]
DOUBTFUL: JsonObject = {
    "effects": "at_most_once",
    "timeout": "2s",
    "retry": {"max_attempts": 3, "initial_interval": "1s", "jitter": True},
    "compensate": {"handler": "undo", "timeout": "1s", "retry": {"max_attempts": 2}},
}
WORKFLOW: Workflow = native(
    step("a", **DOUBTFUL, on_error={"code": "E_ROUTED", "next": "p"}),
    {"id": "p", "type": "parallel", "join": "n_of_m", "n": 2, "branches": BRANCHES, "on_error": {"fallback": 1}},
    {"id": "me", "type": "emit", "run": "${ .run.id }", "signal": "go"},
    {"id": "each", "type": "for_each", "items": "[1, 2]", "concurrency": 2, "nodes": [step("b", **DOUBTFUL)]},
    {"id": "w", "type": "wait", "duration": "1s"},
    {"id": "again", "type": "switch", "cases": [{"when": ".state.n == null", "next": "set"}], "default": "end"},
    {"id": "set", "type": "set_state", "set": {"n": 1}, "next": "a"},
    timeout="1m",
)
NODES = st.sampled_from(["a", "b", "ask", "sig", "sub", "me", "w", "each", "p", "compensate:a", "compensate:b", "no"])
VISITS = st.sampled_from([1, 2, 3])
SOME_VISITS = st.sampled_from([None, 1, 2])
VALUES = st.sampled_from([None, 1, {"ok": True}, [1]])
CODES = st.sampled_from([None, "E_ROUTED", "FATAL"])
AT = st.just(0)
CHILDREN = st.sampled_from(["run:sub:sub", "run:sub:sub:1.2", "run:sub:sub:2", "other"])
STATUSES = st.sampled_from(["completed", "failed", "cancelled"])
INPUTS: st.SearchStrategy[inputs.Input] = st.one_of(
    st.builds(
        inputs.CompleteActivity,
        at=AT,
        node_id=NODES,
        result=VALUES,
        visit=SOME_VISITS,
        attempt=SOME_VISITS,
        extra=st.none(),
    ),
    st.builds(
        inputs.FailActivity,
        at=AT,
        node_id=NODES,
        error=st.just("no"),
        code=CODES,
        visit=SOME_VISITS,
        attempt=SOME_VISITS,
        retryable=st.booleans(),
    ),
    st.builds(
        inputs.AskInActivity,
        at=AT,
        node_id=NODES,
        question=st.just("?"),
        answer_schema=st.sampled_from([{}, {"type": "object"}, {"type": "nonsense"}]),
        resume=VALUES,
        visit=SOME_VISITS,
        attempt=SOME_VISITS,
        round=SOME_VISITS,
    ),
    st.builds(inputs.ReportOutcomeUnknown, at=AT, node_id=NODES, visit=SOME_VISITS, attempt=st.none()),
    st.builds(inputs.RetryActivity, at=AT, node_id=NODES, visit=SOME_VISITS, by=st.none()),
    st.builds(
        inputs.AnswerInterrupt,
        at=AT,
        answer=VALUES,
        node_id=st.none() | NODES,
        visit=st.none(),
        by=st.none(),
    ),
    st.builds(
        inputs.SendSignal,
        at=AT,
        name=st.sampled_from(["go", "other"]),
        payload=VALUES,
        signal_id=st.sampled_from([None, "one"]),
    ),
    st.builds(
        inputs.FireTimer,
        at=AT,
        kind=st.sampled_from(["wait", "retry", "timeout", "run", "odd"]),
        node_id=NODES,
        visit=VISITS,
    ),
    st.just(inputs.FireTimer(at=0, kind="run")),
    st.builds(
        inputs.FinishChild,
        at=AT,
        child_id=CHILDREN,
        status=STATUSES,
        result=VALUES,
        final_state=st.none(),
        error=st.none(),
        code=CODES,
    ),
    st.builds(
        inputs.AcknowledgeEmit,
        at=AT,
        node_id=NODES,
        visit=VISITS,
        delivered=st.booleans(),
        code=st.none(),
        error=st.none(),
    ),
    st.builds(inputs.CancelRun, at=AT, reason=st.none()),
    st.just(inputs.PauseRun(at=0)),
    st.just(inputs.ResumeRun(at=0)),
    st.just(inputs.ContinueRun(at=0)),
)
# Mostly small steps forward, sometimes a jump over every deadline, sometimes a clock that goes back.
STEPS_MS = st.sampled_from([0, 0, 0, 10, 1_000, 2_500, 100_000, -3_000])


# Which of the fitting inputs to give; None gives the random one.
CHOICES = st.none() | st.integers(0, 9)


def fitting(run: Run) -> list[inputs.Input]:
    """Inputs that the run waits for."""
    found: list[inputs.Input] = []
    for activation in run.state.activations():
        node_id, visit = activation.key
        match activation.phase:
            case Phase.REQUESTED | Phase.OUTCOME_UNKNOWN:
                found.append(inputs.CompleteActivity(at=0, node_id=node_id, visit=visit, result={"n": visit}))
                found.append(inputs.FailActivity(at=0, node_id=node_id, visit=visit, error="no", code="E_BUSY"))
                asked = inputs.AskInActivity(at=0, node_id=node_id, visit=visit, question="?", answer_schema={})
                found.append(asked)
            case Phase.INTERRUPTED | Phase.ASKING:
                found.append(inputs.AnswerInterrupt(at=0, answer={}, node_id=node_id, visit=visit))
            case Phase.AWAITING_SIGNAL:
                found.append(inputs.SendSignal(at=0, name="go", payload=visit))
            case Phase.EMITTING:
                found.append(inputs.AcknowledgeEmit(at=0, node_id=node_id, visit=visit))
            case _:
                pass
    for child_id in run.state.children:
        found.append(inputs.FinishChild(at=0, child_id=child_id, status="completed", result=1))
    for timer in timers_of(run.state):
        found.append(inputs.FireTimer(at=0, kind=timer.kind, node_id=timer.node_id, visit=timer.visit))
    return found


@settings(max_examples=2 * settings().max_examples)
@given(st.lists(st.tuples(CHOICES, INPUTS, STEPS_MS), max_size=40))
def test_any_input_at_any_time_is_taken_or_refused(moves: list[tuple[int | None, inputs.Input, int]]) -> None:
    run = begin(WORKFLOW)
    for choice, random_input, step_ms in moves:
        wanted = fitting(run)
        given_input = random_input if choice is None or not wanted else wanted[choice % len(wanted)]
        run.after(step_ms).send(given_input)  # which checks that a refusal changes nothing and a fold gives the state
        pending(run.workflow, run.state, run.now)
        assert published_phase(run.state)
    outcome = replay(run.workflow, run.records)
    assert isinstance(outcome, Replayed), outcome
    assert (outcome.state, list(outcome.records)) == (run.state, run.records)
