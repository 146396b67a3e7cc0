"""Ids of runs, and of the runs that continue them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import (
    DEFAULT_TENANT,
    chain_of,
    generation_of,
    id_for_callers,
    id_in_tenant,
    next_in_chain,
    run_id_of,
)


def test_ids_made_later_sort_later() -> None:
    assert run_id_of(1, bytes(10)) < run_id_of(2, bytes(10)) < run_id_of(1_000_000, bytes(10))


def test_an_id_needs_ten_random_bytes() -> None:
    with pytest.raises(ValueError, match="10 random bytes"):
        run_id_of(1, b"too few")


@pytest.mark.parametrize(
    ("run_id", "chain", "generation"),
    [
        ("order-7", "order-7", 1),
        ("order-7~2", "order-7", 2),
        ("order-7~310", "order-7", 310),
        ("order-7:sub:child", "order-7:sub:child", 1),
        ("order-7~2:sub:child", "order-7~2:sub:child", 1),
        ("order-7~2:sub:child~4", "order-7~2:sub:child", 4),
        ("order~x", "order~x", 1),
        ("order~02", "order~02", 1),
        ("~2", "~2", 1),
        ("a\nb~2", "a\nb", 2),
    ],
)
def test_an_id_names_its_chain_and_its_place_in_it(run_id: str, chain: str, generation: int) -> None:
    assert (chain_of(run_id), generation_of(run_id)) == (chain, generation)


@given(st.text(min_size=1).filter(lambda text: chain_of(text) == text), st.integers(min_value=1, max_value=50))
def test_every_run_of_a_chain_leads_back_to_the_first(first: str, steps: int) -> None:
    run_id = first
    for _ in range(steps):
        run_id = next_in_chain(run_id)
    assert (chain_of(run_id), generation_of(run_id)) == (first, steps + 1)


@given(st.sampled_from(["acme", "a-1", "2"]), st.text(min_size=1))
def test_what_callers_name_is_unique_in_their_tenant_and_told_by_the_name_they_gave(tenant: str, name: str) -> None:
    stored = id_in_tenant(tenant, name)
    assert id_in_tenant(tenant, stored) == stored
    assert id_for_callers(tenant, stored) == name.removeprefix(f"{tenant}~.")
    assert id_in_tenant(DEFAULT_TENANT, name) == id_for_callers(DEFAULT_TENANT, name) == name


def test_a_name_in_a_tenant_is_not_a_run_of_a_chain() -> None:
    assert chain_of(id_in_tenant("acme", "2")) == "acme~.2"
    assert next_in_chain(id_in_tenant("acme", "2")) == "acme~.2~2"
