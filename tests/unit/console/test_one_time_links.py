"""One-time links."""

from __future__ import annotations

from penstock.app.gate import local_owner
from penstock.base import limits
from penstock.console.one_time_links import OneTimeLinks


def test_a_link_works_once_and_not_for_long() -> None:
    links = OneTimeLinks(local_owner())
    first, second = (links.path(1_000).rpartition("/")[2] for _ in range(2))
    assert first != second
    assert not links.redeem("guessed", 1_000)
    assert links.redeem(first, 1_000)
    assert not links.redeem(first, 1_000)
    assert not links.redeem(second, 1_000 + limits.CONSOLE_LINK_MS)
    assert not links.redeem(second, 1_000)  # it was tried, and is gone
