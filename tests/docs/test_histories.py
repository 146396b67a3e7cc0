"""The page about histories is complete: what runs really record is compared with what it says."""

from collections.abc import Iterator

import pytest

from docs.generator.records import RECORDS
from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.definitions.build.workflow import build_workflow
from penstock.engine import inputs
from penstock.engine.decide import decide
from penstock.engine.outcomes import Accepted
from penstock.engine.records import COMMANDS, EVENTS, Record
from penstock.engine.state import RunState
from penstock.engine.walk.starting import successor_start
from penstock.runtime.simulation.cases import script_of_case
from penstock.runtime.simulation.dry_run import SimulationReport, simulate
from tests.examples.cases import all_cases, load_example, workflows_by_name


def records_of_the_examples() -> Iterator[Record]:
    workflows = workflows_by_name()
    for case in all_cases():
        script = script_of_case(case.value, workflows)
        report = simulate(load_example(case.example), case.value.get("input", {}), script)
        assert isinstance(report, SimulationReport)
        yield from report.records


def records_of_interventions() -> Iterator[Record]:
    """What no example shows, because a person does it to a run: pausing, deciding about a doubt, cancelling."""
    workflow, state = load_example("refund-with-approval.yaml"), RunState()
    given: list[inputs.Input] = [
        inputs.StartRun(at=0, run_id="r", input={"order_id": "A-1", "amount": 20}, mode="host_mediated"),
        inputs.PauseRun(at=1, reason="a look at the books"),
        inputs.SendSignal(at=2, name="unexpected", payload=None, signal_id="s1"),
        inputs.ResumeRun(at=3),
        inputs.LeaseActivity(at=3, node_id="order", holder="desk", lease_ms=1_000),
        inputs.AskInActivity(at=3, node_id="order", question="Which shop?", answer_schema={"type": "string"}),
        inputs.AnswerInterrupt(at=3, answer="the old one", by="grace"),
        inputs.CompleteActivity(at=4, node_id="order", result={"total": 50}),
        inputs.ReportOutcomeUnknown(at=5, node_id="pay"),
        inputs.RetryActivity(at=6, node_id="pay", by="grace"),
        inputs.CancelRun(at=7, reason="wrong customer"),
    ]
    for item in given:
        decision = decide(workflow, state, item)
        assert isinstance(decision, Accepted), decision
        state = decision.state
        yield from decision.records


def records_of_votes() -> Iterator[Record]:
    """What no example shows: an approval that takes two people, and goes to others after a while."""
    escalate: JsonObject = {"after": 1, "to": {"group": "directors"}}
    approvers: JsonObject = {"groups": ["leads"], "count": 2, "escalate": escalate}
    answer: JsonObject = {"type": "object", "properties": {"approve": {"type": "boolean"}}}
    ask: JsonObject = {"id": "ask", "type": "interrupt", "message": "May it?", "answer": answer, "approvers": approvers}
    workflow = build_workflow({"penstock": "v1", "name": "agree", "nodes": [ask, {"id": "done", "type": "end"}]})
    state = RunState()
    given: list[inputs.Input] = [inputs.StartRun(at=0, run_id="r", input={})]
    given.append(inputs.FireTimer(at=1, kind="escalation", node_id="ask", visit=1))
    given += [inputs.AnswerInterrupt(at=1, answer={"approve": True}, by=name, groups=("leads",)) for name in ("a", "b")]
    for item in given:
        decision = decide(workflow, state, item)
        assert isinstance(decision, Accepted), decision
        state = decision.state
        yield from decision.records


def records_of_a_chain() -> Iterator[Record]:
    """What no example shows, because it takes too long: the next run of a chain, and a history that is full."""
    workflow = load_example("subscription.yaml")
    given = inputs.StartRun(at=0, run_id="r", input={"customer": "ada", "price": 3}, timeout_ms=2**40)
    first = decide(workflow, RunState(), given)
    assert isinstance(first, Accepted), first
    state = first.state
    for item in (
        inputs.SendSignal(at=1, name="unexpected", signal_id="s1"),
        inputs.CompleteActivity(at=2, node_id="charge", result={}),
        inputs.FireTimer(at=2**35, kind="wait", node_id="month", visit=1),
    ):
        decision = decide(workflow, state, item)
        assert isinstance(decision, Accepted), decision
        state = decision.state
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(limits, "HISTORY_ROWS_MAX", 1)
        second = decide(workflow, RunState(), successor_start(workflow, state, at=2**35))
    assert isinstance(second, Accepted), second
    yield from (*first.records, *second.records)


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return [*records_of_the_examples(), *records_of_interventions(), *records_of_votes(), *records_of_a_chain()]


def documented(name: str) -> tuple[set[str], set[str]]:
    """The keys that a record always has, and all that it may have."""
    keys = RECORDS[name].keys.split()
    return {key for key in keys if not key.endswith("?")}, {key.removesuffix("?") for key in keys}


def own_keys(payload: JsonObject) -> set[str]:
    assert "executionId" in payload
    return set(payload) - {"executionId"}


def test_no_record_has_a_key_that_is_not_described(records: list[Record]) -> None:
    unknown = {
        (record.name, key) for record in records for key in own_keys(record.payload) - documented(record.name)[1]
    }
    assert unknown == set()


def test_no_record_lacks_a_key_that_it_always_has(records: list[Record]) -> None:
    missing = {
        (record.name, key) for record in records for key in documented(record.name)[0] - own_keys(record.payload)
    }
    assert missing == set()


def test_every_command_and_event_was_seen(records: list[Record]) -> None:
    assert (COMMANDS | EVENTS) - {record.name for record in records} == set()
