"""What a waiting execution says in words: who answers, and where."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.mcp_surface.content.waiting_text import is_for_person, status_line, where_answered, who_answers
from penstock.operations.runs.waits import QuestionView

PAGE = "https://penstock.test/answer"


def question(**more: Any) -> QuestionView:
    return QuestionView(
        **{"interrupt_id": "ask:1", "node_id": "ask", "visit": 1, "prompt": "May I?", "answer_schema": {}, **more}
    )


def view(status: str, *unknown: str) -> Any:
    activities = [SimpleNamespace(node_id=name, outcome_unknown=True) for name in unknown]
    return SimpleNamespace(status=status, execution_id="r_1", waiting_for=SimpleNamespace(activities=activities))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (question(), "Only a person can answer this; a tool call cannot."),
        (question(answered_by="anyone"), "Anyone who may answer"),
        (
            question(approvers={"group": "leads"}),
            "an approval by leads. Only a person can give it; a tool call cannot.",
        ),
        (
            question(approvers={"not_requester": True}),
            "an approval, but not by the starter of the run. Only a person",
        ),
        (
            question(approvers={"group": "leads"}, escalates_at="2026-01-01T06:00:00.000Z"),
            "others are asked at 2026-01-01T06:00:00.000Z",
        ),
        (
            question(approvers={"groups": ["leads", "board"]}, escalated_at="2026-01-01T06:00:00.000Z"),
            "by leads or board. Only a person can give it; a tool call cannot. It was escalated at 2026-01-01T06:00",
        ),
        (question(ask={"kind": "sampling", "request": {}}), "That client answers, or a person"),
    ],
)
def test_it_is_said_whose_answer_is_wanted(asked: QuestionView, told: str) -> None:
    assert told in who_answers(asked)


def test_it_is_said_where_and_until_when() -> None:
    asked = question(expires_at="2026-12-01T00:00:00Z", execution_id="r_1:sub:child")
    assert where_answered("r_1", asked, PAGE) == (
        "They can answer at https://penstock.test/answer?execution=r_1:sub:child&question=ask:1 with a key of their"
        " own, with `penstock runs answer r_1:sub:child` or over REST until 2026-12-01T00:00:00Z."
    )
    assert where_answered("r_1", question(), None) == ("They can answer with `penstock runs answer r_1` or over REST.")


def test_a_line_begins_with_the_status_and_what_a_person_is_asked() -> None:
    sampled = question(interrupt_id="think:1", ask={"kind": "sampling", "request": {}})
    line = status_line(view("waiting_input"), [sampled, question(prompt="May\nI " + "x" * 500)], None)
    assert line.startswith("waiting_input: May I xxx")
    assert "x…" in line
    assert line.endswith("(1 more questions are open.)")


@pytest.mark.parametrize(
    ("status", "questions", "waits"),
    [
        ("waiting_input", [question()], True),
        ("waiting_child", [question()], True),
        ("waiting_decision", [], True),
        ("waiting_child", [], False),
        ("waiting_timer", [], False),
        ("running", [question()], False),
        ("cancelling", [question()], False),
        ("completed", [], False),
    ],
)
def test_what_goes_on_by_itself_waits_for_nobody(status: str, questions: list[QuestionView], waits: bool) -> None:
    assert is_for_person(status, questions) is waits


def test_what_an_operator_has_to_do_is_said_with_its_command() -> None:
    doubt = status_line(view("waiting_decision", "pay"), [], PAGE)
    assert "nobody knows whether pay happened" in doubt
    assert "`penstock runs retry r_1`" in doubt
    assert "`penstock runs resume r_1`" in status_line(view("paused"), [], PAGE)
    assert status_line(view("running"), [], PAGE) == "running"
