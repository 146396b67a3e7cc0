"""Which answer it is to decline a question."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.definitions.decline_answers import decided_by, declined_answer
from penstock.definitions.validate import validate_document

BOOLEAN = {"type": "boolean"}
TEXT = {"type": "string"}


def schema(*required: str, **members: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": members}


@pytest.mark.parametrize(
    ("asked", "declined"),
    [
        (schema("approve", approve=BOOLEAN, comment=TEXT), {"approve": False}),
        (schema("merge", "approved", merge=BOOLEAN, approved=BOOLEAN), None),
        (schema("granted", granted=BOOLEAN, urgent=BOOLEAN), {"granted": False}),
        (schema(publish=BOOLEAN), {"publish": False}),
        (schema(approved=BOOLEAN, comment=TEXT), {"approved": False}),
        (BOOLEAN, False),
        (schema("verdict", verdict={"enum": ["approve", "reject"]}), {"verdict": "reject"}),
        (schema("verdict", verdict={"oneOf": [{"const": "yes"}, {"const": "No", "title": "Nein"}]}), {"verdict": "No"}),
    ],
)
def test_what_has_to_be_given_and_can_say_no_says_no(asked: dict[str, Any], declined: Any) -> None:
    assert declined_answer(asked) == declined


@pytest.mark.parametrize(
    "asked",
    [
        schema("name", name=TEXT),
        schema("name", "urgent", name=TEXT, urgent=BOOLEAN),
        schema(comment=TEXT, urgent=BOOLEAN),
        schema("buy", "wrap", buy=BOOLEAN, wrap=BOOLEAN),
        schema("agree", agree={"type": "boolean", "const": True}),
        schema("mood", mood={"enum": ["good", "bad"]}),
        schema("verdict", verdict={"enum": ["yes", "reject", "decline"]}),
        TEXT,
        {},
        None,
    ],
)
def test_where_nothing_says_no_there_is_no_answer(asked: Any) -> None:
    assert declined_answer(asked) is None


@pytest.mark.parametrize("name", ["reject", "skip_review", "doNotPublish", "VETO", "disagree", "without_approval"])
def test_nobody_agrees_by_declining(name: str) -> None:
    assert declined_answer(schema(name, **{name: BOOLEAN})) is None


def test_the_document_has_the_last_word_and_an_answer_that_does_not_fit_is_none() -> None:
    asked = schema("approve", approve=BOOLEAN, comment=TEXT)
    assert declined_answer(asked, {"approve": False, "comment": "no"}) == {"approve": False, "comment": "no"}
    assert declined_answer(asked, {"approve": "no"}) is None


def test_an_answer_for_declining_that_no_question_would_take_is_found() -> None:
    ask = {
        "id": "ask",
        "type": "interrupt",
        "message": "?",
        "answer": schema("ok", ok=BOOLEAN),
        "decline": {"ok": "no"},
    }
    document: Any = {"penstock": "v1", "name": "asks", "nodes": [ask, {"id": "done", "type": "end"}]}
    assert [(item.code, item.path) for item in validate_document(document)] == [
        ("DECLINE_INVALID", "/nodes/0/decline/ok")
    ]
    ask["decline"] = {"ok": False}
    assert validate_document(document) == ()


@pytest.mark.parametrize(
    ("asked", "declared", "answer", "decided"),
    [
        (schema("ok", ok=BOOLEAN), None, {"ok": True}, "approved"),
        (schema("ok", ok=BOOLEAN), None, {"ok": False}, "declined"),
        (BOOLEAN, None, True, "approved"),
        (BOOLEAN, None, False, "declined"),
        (schema("ok", ok=BOOLEAN, why=TEXT), {"ok": False, "why": "no"}, {"ok": False, "why": "late"}, "declined"),
        (schema("ok", ok=BOOLEAN, why=TEXT), {"ok": False, "why": "no"}, {"ok": True, "why": "no"}, "approved"),
        (schema("skip", skip=BOOLEAN), None, {"skip": True}, "answered"),
        (schema("skip", skip=BOOLEAN), None, {"skip": False}, "answered"),
        (schema("why", why=TEXT), None, {"why": "no"}, "answered"),
        (schema("say", say={"enum": ["yes", "no"]}), None, {"say": "no"}, "declined"),
        (schema("say", say={"enum": ["yes", "no"]}), None, {"say": "yes"}, "answered"),
        (None, None, {"ok": False}, "answered"),
    ],
)
def test_what_an_answer_decides(asked: Any, declared: Any, answer: Any, decided: str) -> None:
    assert decided_by(asked, declared, answer) == decided
