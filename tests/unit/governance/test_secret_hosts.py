"""Secrets go to the hosts that the operator bound them to, and nowhere else."""

from __future__ import annotations

import pytest

from penstock.governance.secret_hosts import allowed_hosts, fits_host, unbound_secret

BOUND = {"A": ("api.example.com", "*.shop.example"), "B": ("api.example.com",)}


def test_several_secrets_go_only_where_all_of_them_may() -> None:
    assert allowed_hosts(["A", "B"], BOUND) == ("api.example.com",)
    assert allowed_hosts(["A", "C"], BOUND) == BOUND["A"]
    assert allowed_hosts(["C"], BOUND) is None
    assert allowed_hosts(["B", "D"], {**BOUND, "D": ("other.example",)}) == ()
    assert unbound_secret(["A", "C"], BOUND) == "C"
    assert unbound_secret(["A", "B"], BOUND) is None


@pytest.mark.parametrize(
    ("host", "fits"),
    [
        ("api.example.com", True),
        ("API.Example.COM.", True),
        ("eu.shop.example", True),
        ("shop.example", False),
        ("evilshop.example", False),
        ("api.example.com.evil.example", False),
        ("", False),
    ],
)
def test_a_pattern_stands_for_the_hosts_below_it(host: str, fits: bool) -> None:
    assert fits_host(host, BOUND["A"]) is fits
