"""Policies as text: each has an id and a line, and mistakes name both."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.governance.policy.source import parse_policies

PERMIT = '@id("all") permit (principal, action, resource);'


def problems(text: str) -> list[str]:
    return [str(item) for item in parse_policies(text, "p.cedar").problems]


def test_semicolons_in_strings_and_comments_end_no_policy() -> None:
    text = (
        f'// one; two\n{PERMIT}\n@id("b") forbid (principal, action, resource) when {{ principal.name == "a;\\"b" }};'
    )
    parsed = parse_policies(text)
    assert [(item.id, item.line) for item in parsed.policies] == [("all", 2), ("b", 3)]
    assert parsed.problems == ()


def test_a_mistake_is_reported_with_the_line_of_its_policy() -> None:
    assert problems(f'{PERMIT}\n\n@id("b") forbid (principal action);') == [
        "p.cedar:3 (b): not a Cedar policy: unexpected token `action`"
    ]


def test_one_mistake_does_not_hide_another() -> None:
    assert len(problems("permit (principal);\nforbid (principal);")) == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("permit (principal, action, resource);", "has no @id"),
        ('@id("") permit (principal, action, resource);', "has no @id"),
        ('@id("a b") permit (principal, action, resource);', "is not a name"),
        (f"{PERMIT}{PERMIT}", "another policy with this id"),
        ('@id("t") permit (principal == ?principal, action, resource);', "templates"),
        ('@id("x") @outcom("approval") forbid (principal, action, resource);', "did you mean @outcome?"),
        ('@id("x") @outcome("allow") @approvers("a") forbid (principal, action, resource);', "only outcome"),
        ('@id("x") @outcome("approval") forbid (principal, action, resource);', "needs @approvers"),
        ('@id("x") @outcome("approval") @approvers("a") permit (principal, action, resource);', "belongs on a forbid"),
        ('@id("x") @approvers("a") forbid (principal, action, resource);', 'needs @outcome("approval")'),
        ('@id("x") @outcome("approval") @approvers("a") @quorum("0") forbid (principal, action, resource);', "@quorum"),
        (
            '@id("x") @outcome("approval") @approvers("a") @escalate_to("b") forbid (principal, action, resource);',
            "belong together",
        ),
        (
            '@id("x") @outcome("approval") @approvers("a") @escalate_after("soon") @escalate_to("b") '
            "forbid (principal, action, resource);",
            "@escalate_after is 'soon'",
        ),
        (
            '@id("x") @outcome("approval") @approvers("a") @escalate_after("1h") @escalate_to(" ") '
            "forbid (principal, action, resource);",
            "@escalate_to is empty",
        ),
        (
            '@id("x") @escalate_after("1h") @escalate_to("b") forbid (principal, action, resource);',
            '@escalate_to needs @outcome("approval")',
        ),
        ('@id("x") @mode("off") forbid (principal, action, resource);', "@mode"),
        ('@id("x") @history("often") forbid (principal, action, resource);', "cannot be read"),
        (
            '@id("x") @history("n: sum of workflow:pay by principal within 1h") forbid (principal, action, resource);',
            "sum of FIELD of ACTION",
        ),
    ],
)
def test_mistakes_are_named(text: str, told: str) -> None:
    assert any(told in item for item in problems(text)), problems(text)


def test_annotations_are_read() -> None:
    (policy,) = parse_policies(
        '@id("x") @outcome("approval") @approvers("leads, finance") @quorum("2") @mode("shadow") @description("why")'
        ' @history("refunds: count of workflow:refund by principal within 24h") forbid (principal, action, resource);'
    ).policies
    asked = policy.annotations
    assert (asked.approvers, asked.quorum, asked.mode, asked.description) == (("leads", "finance"), 2, "shadow", "why")
    (counter,) = asked.history
    assert (counter.name, counter.action, counter.subject, counter.window_ms) == (
        "refunds",
        "workflow:refund",
        "principal",
        86_400_000,
    )


def test_an_escalation_is_read() -> None:
    (policy,) = parse_policies(
        '@id("x") @outcome("approval") @approvers("leads") @escalate_after("1h") @escalate_to("directors, board")'
        " forbid (principal, action, resource);"
    ).policies
    asked = policy.annotations
    assert (asked.escalate_after_ms, asked.escalate_to) == (3_600_000, ("directors", "board"))


def test_a_sum_names_the_argument_and_may_be_of_a_run() -> None:
    (policy,) = parse_policies(
        '@id("x") @history("spent: sum of order.total of workflow:buy by run within 7d")'
        " forbid (principal, action, resource);"
    ).policies
    (counter,) = policy.annotations.history
    assert (counter.field, counter.action, counter.subject) == (("order", "total"), "workflow:buy", "run")
    assert counter.is_sum


@given(st.text())
def test_any_text_is_read_or_reported(text: str) -> None:
    parsed = parse_policies(text)
    assert parsed.policies or parsed.problems or not text.strip() or text.lstrip().startswith("//") or "\n" in text
