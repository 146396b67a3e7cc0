"""Who may answer a question: the one function, as a table."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.base.json import JsonObject
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.approvers import (
    Approvers,
    Identity,
    Requester,
    Voter,
    approvers_of,
    escalated,
    identity_of_vote,
    is_same_person,
    refuse_answer,
)
from penstock.engine.decide import decide
from penstock.engine.folding.evolve import fold
from penstock.engine.fork import fork
from penstock.engine.outcomes import Accepted, Refused
from penstock.engine.pending import next_wake_up_at
from penstock.engine.records import commands, events
from penstock.engine.replay import Replayed, replay
from penstock.engine.state import RunState
from penstock.engine.status import run_status
from penstock.engine.walk.timers import timers_of

ROBOT = Requester(principal="key:robot", owner="key:boss", acting_for=("key:ann",))


@pytest.mark.parametrize(
    ("approvers", "voter", "code"),
    [
        (None, Voter(principal="key:ada", kind="person", groups=()), None),
        (None, Voter(principal="key:bot", kind="agent", groups=(), by_model=True), "PERSON_REQUIRED"),
        (None, Voter(principal="key:bot", kind="agent", groups=()), None),  # a person, in a form that an agent shows
        ({"group": "leads"}, Voter(principal="key:ada", kind="person", groups=("leads",)), None),
        ({"group": "leads"}, Voter(principal="key:ada", kind="person", groups=("*",)), None),
        ({"group": "leads"}, Voter(principal="key:ada", kind="person", groups=("other",)), "APPROVER_REQUIRED"),
        ({"groups": ["leads", "finance"]}, Voter(principal="key:ada", kind="person", groups=("finance",)), None),
        ({"users": ["key:ada"]}, Voter(principal="key:ada", kind="person", groups=()), None),
        ({"users": ["key:ada"]}, Voter(principal="key:bob", kind="person", groups=("*",)), "APPROVER_REQUIRED"),
        ({"group": "leads"}, Voter(principal="key:bot", kind="agent", groups=("leads",)), "PERSON_REQUIRED"),
        ({"group": "leads"}, Voter(principal="key:ada", groups=("leads",), by_model=True), "PERSON_REQUIRED"),
        ({"not_requester": True}, Voter(principal="key:robot", groups=()), "APPROVER_REQUIRED"),
        ({"not_requester": True}, Voter(principal="key:boss", groups=()), "APPROVER_REQUIRED"),
        ({"not_requester": True}, Voter(principal="key:ann", groups=()), "APPROVER_REQUIRED"),
        ({"not_requester": True}, Voter(principal="key:x", groups=(), acting_for=("key:robot",)), "APPROVER_REQUIRED"),
        ({"not_requester": True}, Voter(principal="key:x", groups=(), owner="key:robot"), "APPROVER_REQUIRED"),
        ({"not_requester": True}, Voter(principal="key:x", groups=(), owner="key:boss"), None),
        ({"not_requester": False}, Voter(principal="key:robot", groups=()), None),
        ({"group": "leads"}, Voter(), None),  # the program that owns the host
    ],
)
def test_who_may_answer(approvers: JsonObject | None, voter: Voter, code: str | None) -> None:
    refused = refuse_answer("ask:1", approvers_of(approvers), voter, ROBOT)
    assert (refused.code if refused is not None else None) == code


@given(st.builds(Voter, kind=st.just("agent"), groups=st.just(("*",)), by_model=st.booleans()), st.booleans())
def test_an_agent_approves_nothing_whatever_the_question_says(voter: Voter, anyone: bool) -> None:
    assert refuse_answer("ask:1", Approvers(), voter, Requester(), anyone=anyone) is not None


def test_who_made_whose_key_is_the_same_person() -> None:
    ada = Voter(principal="key:ada", owner="key:boss")
    assert is_same_person(ada, Identity(principal="key:ada"))
    assert is_same_person(ada, Identity(principal="key:boss"))
    assert is_same_person(Voter(principal="key:boss"), Identity(principal="key:ada", owner="key:boss"))
    assert not is_same_person(ada, Identity(principal="key:bob", owner="key:boss"))
    assert not is_same_person(Voter(), Identity())


def test_keys_of_one_subject_and_keys_along_a_lineage_are_one_person() -> None:
    ada = Voter(principal="key:new", subject="person:ada", owner="key:boss", lineage=("key:boss", "os:root"))
    assert is_same_person(ada, Identity(principal="key:old", subject="person:ada"))
    assert is_same_person(ada, Identity(principal="key:other", subject="os:root"))
    assert is_same_person(Identity(principal="key:third", lineage=("person:ada",)), ada)
    assert not is_same_person(ada, Identity(principal="key:bob", subject="person:bob", lineage=("key:boss", "os:root")))
    assert is_same_person(ada, identity_of_vote({"by": "key:x", "subject": "person:ada"}))
    assert is_same_person(ada, identity_of_vote({"by": "key:x", "lineage": ["person:ada"]}))
    assert is_same_person(ada, identity_of_vote({"by": "pipe:x", "actingFor": ["os:root"]}))


@pytest.mark.parametrize("kind", ["service", "agent", "schedule", "webhook", "system", "anonymous"])
def test_only_people_approve_and_services_where_the_question_says_so(kind: str) -> None:
    asked: JsonObject = {"group": "leads"}
    voter = Voter(principal="key:x", kind=kind, groups=("leads",))
    refused = refuse_answer("agree:1", approvers_of(asked), voter, Requester())
    assert refused is not None
    assert refused.code == "PERSON_REQUIRED"
    allowed = refuse_answer("agree:1", approvers_of({**asked, "services": True}), voter, Requester())
    assert (allowed is None) is (kind == "service")
    for person in ("person", "local", None):
        assert refuse_answer("agree:1", approvers_of(asked), replace(voter, kind=person), Requester()) is None


# --- votes ----------------------------------------------------------------------------------------------------------

AT = 1_767_225_600_000
WORKFLOW = build_workflow(
    {
        "penstock": "v1",
        "name": "pay",
        "nodes": [
            {
                "id": "agree",
                "type": "interrupt",
                "message": "Pay?",
                "answer": {
                    "type": "object",
                    "required": ["approved"],
                    "properties": {"approved": {"type": "boolean"}, "amount": {"type": "integer"}},
                },
                "approvers": {"group": "leads", "count": 2},
            },
            {"id": "done", "type": "end", "output": "${ .agree }"},
        ],
    }
)
HOUR = 3_600_000


def escalating(**more: Any) -> Workflow:
    """A question to the leads that goes to the directors after an hour, and is given up after two."""
    escalate = {"after": "1h", "to": {"groups": ["directors"]}, **more}
    node: JsonObject = {
        "id": "agree",
        "type": "interrupt",
        "message": "Pay?",
        "answer": {"type": "object", "required": ["approved"], "properties": {"approved": {"type": "boolean"}}},
        "approvers": {"group": "leads", "not_requester": True, "escalate": escalate},
        "timeout": "2h",
    }
    return build_workflow({"penstock": "v1", "name": "pay", "nodes": [node, {"id": "done", "type": "end"}]})


def begun() -> RunState:
    decision = decide(WORKFLOW, RunState(), inputs.StartRun(at=AT, run_id="r", input={}))
    assert isinstance(decision, Accepted)
    return decision.state


def vote(state: RunState, by: str, answer: Any, **more: Any) -> Accepted | Refused:
    who = inputs.AnswerInterrupt(at=AT + 1, answer=answer, by=by, kind="person", groups=("leads",), **more)
    return decide(WORKFLOW, state, who)


def test_a_run_that_waits_for_an_approval_says_so() -> None:
    assert run_status(begun()) == "waiting_approval"


def test_each_vote_is_a_record_and_the_last_one_answers() -> None:
    first = vote(begun(), "key:ada", {"approved": True})
    assert isinstance(first, Accepted)
    assert [type(record.body) for record in first.records] == [events.InterruptVoted]
    second = vote(first.state, "key:bob", {"approved": True})
    assert isinstance(second, Accepted)
    answered = second.records[0].body_as(commands.ResumeInterrupt)
    assert answered is not None
    assert answered.approver is not None
    assert (answered.answered_by, answered.approver["kind"], answered.approver["groups"]) == (
        "key:bob",
        "person",
        ["leads"],
    )
    assert len(str(answered.approver["shown"])) == 64
    assert second.state.result == {"approved": True}


def test_the_same_vote_twice_counts_once_and_another_is_refused() -> None:
    first = vote(begun(), "key:ada", {"approved": True})
    assert isinstance(first, Accepted)
    again = vote(first.state, "key:ada", {"approved": True})
    assert isinstance(again, Accepted)
    assert again.records == ()
    changed = vote(first.state, "key:ada", {"approved": False})
    assert isinstance(changed, Refused)
    assert changed.code == "ALREADY_VOTED"
    puppet = vote(first.state, "key:puppet", {"approved": True}, owner="key:ada")
    assert isinstance(puppet, Refused)
    assert puppet.code == "ALREADY_VOTED"


def test_all_have_to_agree_to_the_same_and_one_who_declines_ends_it() -> None:
    first = vote(begun(), "key:ada", {"approved": True, "amount": 100})
    assert isinstance(first, Accepted)
    other = vote(first.state, "key:bob", {"approved": True, "amount": 200})
    assert isinstance(other, Refused)
    assert (other.code, other.details) == ("VOTES_DIFFER", {"answer": {"approved": True, "amount": 100}})
    no = vote(first.state, "key:bob", {"approved": False, "amount": 5})
    assert isinstance(no, Accepted)
    assert no.state.result == {"approved": False, "amount": 5}
    at_once = vote(begun(), "key:bob", {"approved": False})
    assert isinstance(at_once, Accepted)
    assert at_once.state.terminal


# --- escalation ------------------------------------------------------------------------------------------------------


def started(workflow: Workflow) -> Accepted:
    decision = decide(workflow, RunState(), inputs.StartRun(at=AT, run_id="r", input={}, started_by="key:robot"))
    assert isinstance(decision, Accepted)
    return decision


def answered(workflow: Workflow, state: RunState, by: str, *groups: str) -> Accepted | Refused:
    given = inputs.AnswerInterrupt(at=state.updated_at, answer={"approved": True}, by=by, kind="person", groups=groups)
    return decide(workflow, state, given)


def code(outcome: Accepted | Refused) -> str | None:
    return outcome.code if isinstance(outcome, Refused) else None


def fired(workflow: Workflow, state: RunState, at: int) -> Accepted:
    decision = decide(workflow, state, inputs.FireTimer(at=at, kind="escalation", node_id="agree", visit=1))
    assert isinstance(decision, Accepted)
    return decision


def test_an_escalation_is_a_timer_of_the_run_beside_its_timeout() -> None:
    state = started(escalating()).state
    assert [(timer.kind, timer.due_at) for timer in timers_of(state)] == [
        ("escalation", AT + HOUR),
        ("timeout", AT + 2 * HOUR),
    ]
    assert next_wake_up_at(state) == AT + HOUR
    early = decide(escalating(), state, inputs.FireTimer(at=AT + 1, kind="escalation", node_id="agree", visit=1))
    assert code(early) == "TIMER_NOT_DUE"


@pytest.mark.parametrize(("more", "leads"), [({}, None), ({"instead": True}, "APPROVER_REQUIRED")])
def test_others_may_answer_only_once_the_escalation_is_recorded(more: JsonObject, leads: str | None) -> None:
    workflow = escalating(**more)
    state = started(workflow).state
    assert code(answered(workflow, state, "key:boss", "directors")) == "APPROVER_REQUIRED"
    after = fired(workflow, state, AT + HOUR)
    assert [type(record.body) for record in after.records] == [events.InterruptEscalated]
    assert code(answered(workflow, after.state, "key:boss", "directors")) is None
    assert code(answered(workflow, after.state, "key:lead", "leads")) == leads
    assert code(answered(workflow, after.state, "key:robot", "directors")) == "APPROVER_REQUIRED"
    assert code(answered(workflow, after.state, "key:passer-by", "guests")) == "APPROVER_REQUIRED"
    assert [timer.kind for timer in timers_of(after.state)] == ["timeout"]
    assert run_status(after.state) == "waiting_approval"


def test_an_escalation_is_replayed_from_its_record() -> None:
    workflow = escalating()
    first = started(workflow)
    second = fired(workflow, first.state, AT + HOUR + 5)
    third = answered(workflow, second.state, "key:boss", "directors")
    assert isinstance(third, Accepted)
    history = (*first.records, *second.records, *third.records)
    found = replay(workflow, history)
    assert isinstance(found, Replayed)
    assert (found.missing, found.state) == ((), third.state)
    assert fold(history) == third.state


def test_votes_given_before_an_escalation_count_and_as_many_are_needed_after_it() -> None:
    approvers: JsonObject = {"group": "leads", "count": 2, "escalate": {"after": "1h", "to": {"users": ["key:boss"]}}}
    assert escalated(approvers) == {"groups": ["leads"], "users": ["key:boss"], "count": 2}
    assert escalated({**approvers, "escalate": {"to": {"group": "board"}, "instead": True}}) == {
        "groups": ["board"],
        "count": 2,
    }


def test_an_answer_ends_the_timer_of_the_escalation() -> None:
    workflow = escalating()
    done = answered(workflow, started(workflow).state, "key:lead", "leads")
    assert isinstance(done, Accepted)
    assert timers_of(done.state) == []


def test_a_fork_leaves_those_who_were_asked_first_the_time_they_had() -> None:
    workflow = escalating()
    first = started(workflow)
    forked = fork(first.records, at_seq=len(first.records), run_id="copy", at=AT + 7 * HOUR)
    (escalation, _) = timers_of(fold(forked))
    assert escalation.due_at == AT + 8 * HOUR
