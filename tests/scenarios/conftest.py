"""Runs the suites of governance twice: on a plain server, and on one with everything on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fixtures.everything_on import Neighborhood, neighborhood
from tests.surroundings import EVERYTHING_ON, PLAIN, surrounded_by

GOVERNANCE = frozenset(
    {
        "test_agent_budgets",
        "test_agent_memory",
        "test_agents",
        "test_approved_reach",
        "test_authenticating_once",
        "test_authority",
        "test_authority_table",
        "test_authorship",
        "test_authorship_table",
        "test_credentials",
        "test_decisions",
        "test_draft_reviews",
        "test_escalations",
        "test_explained_verdicts",
        "test_graph_policies",
        "test_graph_review",
        "test_held_access",
        "test_held_calls",
        "test_held_unknown",
        "test_injections",
        "test_kept_names",
        "test_operator_files",
        "test_parts_of_agents",
        "test_policies",
        "test_preflights",
        "test_refused_before_asking",
        "test_separated_authors",
        "test_shown_proposals",
        "test_start_scopes",
        "test_subjects",
        "test_trigger_ids",
        "test_waiting_approvals",
        "test_weaker_author",
    }
)
"""The suites of governance, by the name of their module."""

PLAIN_ONLY: dict[str, str] = {
    "test_credentials::test_a_key_that_is_replaced_with_a_token_does_not_last_for_ever": (
        "needs a key without an end, and new keys end by themselves where everything is on"
    ),
    "test_subjects::test_whoever_has_seen_the_secret_of_a_key_is_never_somebody_else_than_its_holder": (
        "needs keys that end at the same time, and each ends a while after it was made where everything is on"
    ),
}
"""Tests of those suites that say nothing about a server with everything on, and why."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Try each test of the suites of governance in both surroundings."""
    module = metafunc.module.__name__.rpartition(".")[2]
    if module in GOVERNANCE and f"{module}::{metafunc.function.__name__}" not in PLAIN_ONLY:
        metafunc.parametrize("surroundings", [PLAIN, EVERYTHING_ON], indirect=True)


@pytest.fixture(scope="session")
def around(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neighborhood]:
    """Everybody else, for the servers with everything on."""
    with neighborhood(tmp_path_factory.mktemp("around")) as found:
        yield found


@pytest.fixture(autouse=True)
def surroundings(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let the test open servers with everything on, if it is its turn."""
    if getattr(request, "param", PLAIN) == PLAIN:
        yield
        return
    with surrounded_by(request.getfixturevalue("around")):
        yield
