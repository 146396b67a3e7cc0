"""What a token must say to count here."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base import limits
from penstock.governance.tokens.claims import check_claims, expiry_ms
from penstock.governance.tokens.rules import IssuerRules

NOW = 1_800_000_000.0
RULES = IssuerRules(name="company", issuer="https://login.example", audiences=frozenset({"https://flows.example/mcp"}))
GOOD: dict[str, Any] = {
    "iss": "https://login.example",
    "aud": "https://flows.example/mcp",
    "exp": NOW + 10,
    "sub": "ada",
}
_TIMES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(int(NOW) - 200, int(NOW) + 200),
    st.floats(),
    st.text(max_size=5),
    st.just(10**400),
)
_AUDIENCES = st.one_of(
    st.none(),
    st.sampled_from(["https://flows.example/mcp", "https://flows.example/mcp/", "https://flows.example", ""]),
    st.lists(st.one_of(st.text(max_size=5), st.just("https://flows.example/mcp"), st.integers()), max_size=3),
    st.integers(),
)


@given(
    st.sampled_from(["https://login.example", "https://login.example/", "", None]), _AUDIENCES, _TIMES, _TIMES, _TIMES
)
def test_a_token_passes_only_from_its_issuer_for_us_and_in_time(
    issuer: Any, audience: Any, expires: Any, begins: Any, issued: Any
) -> None:
    claims = {"iss": issuer, "aud": audience, "exp": expires, "nbf": begins, "iat": issued, "sub": "ada"}
    given_claims = {name: value for name, value in claims.items() if value is not None}
    if check_claims(RULES, given_claims, NOW) is None:
        assert issuer == RULES.issuer
        named = [audience] if isinstance(audience, str) else audience
        assert any(item.rstrip("/") == "https://flows.example/mcp" for item in named)
        assert math.isfinite(expires)
        assert expires > NOW - limits.TOKEN_LEEWAY_SECONDS
        assert begins is None or begins <= NOW + limits.TOKEN_LEEWAY_SECONDS
        assert issued is None or issued <= NOW + limits.TOKEN_LEEWAY_SECONDS


@pytest.mark.parametrize("audience", ["https://flows.example/mcp/", ["other", "https://flows.example/mcp"]])
def test_the_audience_counts_with_a_slash_and_in_a_list(audience: Any) -> None:
    assert check_claims(RULES, {**GOOD, "aud": audience}, NOW) is None


@pytest.mark.parametrize("audience", [[], {}, [7], "https://flows.example/mcpx", "https://flows.example", None, 7])
def test_an_audience_that_is_not_this_server_is_refused(audience: Any) -> None:
    assert check_claims(RULES, {**GOOD, "aud": audience}, NOW) is not None


def test_a_minute_of_difference_between_clocks_is_forgiven() -> None:
    assert check_claims(RULES, {**GOOD, "exp": NOW - 59}, NOW) is None
    late = check_claims(RULES, {**GOOD, "exp": NOW - 61}, NOW)
    assert late is not None
    assert late.code == "TOKEN_EXPIRED"
    assert check_claims(RULES, {**GOOD, "nbf": NOW + 59}, NOW) is None
    assert check_claims(RULES, {**GOOD, "nbf": NOW + 61}, NOW) is not None
    assert expiry_ms(GOOD) == int((NOW + 10 + limits.TOKEN_LEEWAY_SECONDS) * 1000)


@pytest.mark.parametrize("claim", [{"nonce": "x"}, {"at_hash": "x"}, {"c_hash": "x"}, {"events": {}}, {"typ": "ID"}])
def test_a_token_for_another_purpose_is_refused(claim: dict[str, Any]) -> None:
    assert check_claims(RULES, {**GOOD, **claim}, NOW) is not None


def test_a_header_that_says_access_token_allows_a_nonce() -> None:
    assert check_claims(RULES, {**GOOD, "nonce": "x"}, NOW, is_typed=True) is None
    assert check_claims(RULES, {**GOOD, "typ": "ID"}, NOW, is_typed=True) is not None


def test_a_token_that_is_bound_to_a_key_is_no_bearer_token() -> None:
    assert check_claims(RULES, {**GOOD, "cnf": {"jkt": "x"}}, NOW, is_typed=True) is not None


def test_only_what_an_issuer_says_about_a_token_may_leave_the_expiry_out() -> None:
    without = {name: value for name, value in GOOD.items() if name != "exp"}
    assert check_claims(RULES, without, NOW) is not None
    assert check_claims(RULES, without, NOW, needs_expiry=False) is None
    assert check_claims(RULES, {**without, "nbf": NOW + 100}, NOW, needs_expiry=False) is not None
