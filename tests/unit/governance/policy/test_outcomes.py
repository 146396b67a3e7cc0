"""When approvals are enough."""

from __future__ import annotations

from penstock.governance.policy.outcomes import ApprovalRequired, ApprovalRequirement, approvals_suffice

_LEADS = ApprovalRequirement(policy_id="large-refund", approvers=("support-leads",), quorum=2)
_FINANCE = ApprovalRequirement(policy_id="month-end", approvers=("finance", "board"))


def test_a_quorum_counts_different_people() -> None:
    once = ("ada", frozenset({"support-leads"}))
    assert not approvals_suffice([_LEADS], [once, once])
    assert approvals_suffice([_LEADS], [once, ("ben", frozenset({"support-leads"}))])


def test_every_requirement_has_to_be_met() -> None:
    leads = [("ada", frozenset({"support-leads"})), ("ben", frozenset({"support-leads"}))]
    assert not approvals_suffice([_LEADS, _FINANCE], leads)
    assert approvals_suffice([_LEADS, _FINANCE], [*leads, ("cyd", frozenset({"board"}))])


def test_one_person_may_meet_several_requirements() -> None:
    both = frozenset({"support-leads", "finance"})
    assert approvals_suffice([_LEADS, _FINANCE], [("ada", both), ("ben", frozenset({"support-leads"}))])


def test_people_outside_the_groups_do_not_count() -> None:
    assert not approvals_suffice([_FINANCE], [("ada", frozenset({"support-leads"})), ("ben", frozenset[str]())])


def test_those_who_were_asked_next_count_like_those_who_were_asked_first() -> None:
    asked = ApprovalRequirement(
        policy_id="x", approvers=("leads",), quorum=2, escalate_after_ms=1, escalate_to=("directors",)
    )
    both = [("ada", frozenset({"leads"})), ("ben", frozenset({"directors"}))]
    assert approvals_suffice([asked], both)
    assert not approvals_suffice([asked], both[:1])


def test_an_outcome_names_policies_and_groups_of_all_requirements() -> None:
    required = ApprovalRequired(policy_version="v", requirements=(_LEADS, _FINANCE))
    assert required.policy_ids == ("large-refund", "month-end")
    assert required.approvers == ("support-leads", "finance", "board")
    assert required.quorum == 2
