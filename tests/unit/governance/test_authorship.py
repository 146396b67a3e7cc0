"""Whose versions are proposed, and who answers for a version that was stored twice."""

from __future__ import annotations

from typing import get_args

import pytest

from penstock.governance.authorship import (
    Author,
    AuthorshipRules,
    acts_as_agent,
    has_to_propose,
    is_proposed,
    proposed_message,
    takes_over,
)
from penstock.governance.principals import PrincipalKind

KINDS = get_args(PrincipalKind)
CAREFUL = AuthorshipRules(enforced=True)
STRICTER = AuthorshipRules(enforced=True, services_propose=True)
OPEN = AuthorshipRules()
AGENT = Author(principal="key:a", kind="agent")
ACCEPTED = Author(principal="key:a", kind="agent", accepted_by=("key:p",), draft_id="r_1")
SERVICE = Author(principal="key:s", kind="service")
PERSON = Author(principal="key:p", kind="person")


@pytest.mark.parametrize("kind", KINDS)
def test_only_people_owners_and_the_server_itself_are_trusted_for_sure(kind: PrincipalKind) -> None:
    trusted = kind in ("person", "local", "system")
    assert has_to_propose(kind, STRICTER, by_model=False) is not trusted
    assert has_to_propose(kind, CAREFUL, by_model=False) is not (trusted or kind == "service")
    assert has_to_propose(kind, CAREFUL, by_model=True)
    assert not has_to_propose(kind, OPEN, by_model=True)


def test_a_version_is_proposed_until_somebody_or_a_grant_accepts_it() -> None:
    assert is_proposed(AGENT, CAREFUL)
    assert not is_proposed(ACCEPTED, CAREFUL)
    assert not is_proposed(Author(principal="key:a", kind="agent", granted=True), CAREFUL)
    assert not is_proposed(None, STRICTER)
    assert (is_proposed(SERVICE, CAREFUL), is_proposed(SERVICE, STRICTER)) == (False, True)
    assert is_proposed(Author(principal="key:p", kind="person", by_model=True), CAREFUL)


def test_accepting_a_version_does_not_change_its_author() -> None:
    assert acts_as_agent(ACCEPTED)
    assert acts_as_agent(Author(principal="key:p", kind="person", by_model=True))
    assert not acts_as_agent(PERSON)
    assert not acts_as_agent(None)


def test_whoever_more_stands_behind_takes_a_version_over() -> None:
    ranked = [AGENT, ACCEPTED, SERVICE, PERSON]
    for weaker, stored in enumerate(ranked):
        for stronger, new in enumerate(ranked):
            assert takes_over(stored, new) is (stronger > weaker)
    assert takes_over(ACCEPTED, None)
    assert not takes_over(None, PERSON)


def test_the_message_names_the_version_the_draft_and_the_author() -> None:
    said = Author(principal="key:a", kind="agent", draft_id="r_1")
    assert proposed_message("workflow pay", said, "0123456789abcdef") == (
        "version 0123456789ab of workflow pay is proposed, and a person must accept it (draft r_1); key:a wrote it"
    )
