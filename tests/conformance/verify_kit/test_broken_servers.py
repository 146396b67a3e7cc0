"""The kit can fail: each mistake that servers have made is caught by the checks that were written for it."""

from __future__ import annotations

import asyncio

import pytest

from tests.conformance.verify_kit.breakages import BREAKAGES, Breakage
from tests.conformance.verify_kit.running import checks_named, results_of


def test_there_are_at_least_ten_mistakes_with_names_of_their_own() -> None:
    assert len(BREAKAGES) >= 10
    assert len({breakage.name for breakage in BREAKAGES}) == len(BREAKAGES)


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.name)
def test_a_mistake_is_caught(breakage: Breakage) -> None:
    results = asyncio.run(results_of(checks_named(*breakage.caught_by), breakage))
    unnoticed = [result.check.id for result in results if result.status != "failed"]
    assert not unnoticed, f"{breakage.about} It was not noticed by {unnoticed}"


def test_a_server_without_a_mistake_passes_the_same_checks() -> None:
    ids = {check_id for breakage in BREAKAGES for check_id in breakage.caught_by}
    results = asyncio.run(results_of(checks_named(*ids)))
    assert [(result.check.id, result.seen or result.reason) for result in results if result.status != "passed"] == []
