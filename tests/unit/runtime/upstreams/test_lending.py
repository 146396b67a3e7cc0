"""What the settings lend to a server, for which tenant."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.upstreams.lending import Lending, LendingRules, SamplingTerms, token_step

TERMS = SamplingTerms(model="cheap", requests_per_call=1, max_tokens=1, timeout_ms=1, tenants=("acme",))


def test_each_tenant_is_lent_its_own_and_what_all_are_lent() -> None:
    rules = LendingRules(sampling=TERMS, folders={"*": ("/all",), "acme": ("/acme", "/all")})
    assert rules.lent_to("acme") == Lending(sampling=TERMS, folders=("/all", "/acme"))
    assert rules.lent_to("default") == Lending(folders=("/all",))
    assert LendingRules(sampling=TERMS, folders={"acme": ("/acme",)}).lent_to("default") is None


@given(st.integers(1, 100_000), st.integers(1, 100_000))
def test_tokens_are_rounded_down_by_less_than_a_fifth(wanted: int, most: int) -> None:
    step = token_step(wanted, most)
    assert min(wanted, most) * 0.8 < step <= min(wanted, most)


def test_a_server_can_choose_from_few_numbers_of_tokens() -> None:
    assert len({token_step(wanted, 100_000) for wanted in range(1, 100_001)}) < 70
