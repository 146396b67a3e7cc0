"""The official suite's scenarios about authorization, with our client of other MCP servers: a few of them.

All of them run with `scripts/conformance-mcp --client-auth`, which takes minutes.
"""

import pytest

from tests.conformance.mcp_suite.oauth_suite import EXTENSIONS, required_scenarios, run_scenario
from tests.conformance.mcp_suite.suite import REVISIONS

NEWEST = REVISIONS[-1]
SOME = ("auth/basic-cimd", "auth/scope-step-up", "auth/iss-wrong-issuer", "auth/authorization-server-migration")


@pytest.mark.parametrize("name", [*SOME, "auth/client-credentials-jwt"])
def test_a_scenario_passes_without_a_warning(name: str) -> None:
    found = run_scenario(name, NEWEST)
    assert (found.result, found.failures, found.warnings) == ("passed", (), ())


def test_what_runs_here_is_part_of_what_is_required() -> None:
    assert set(SOME) <= set(required_scenarios(NEWEST))
    assert len(required_scenarios(NEWEST)) == 25
    assert EXTENSIONS[1] == "auth/client-credentials-jwt"
