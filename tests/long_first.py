"""A pytest plugin that begins long tests first: a long one that begins last keeps one worker busy while others idle.

xdist gives each worker a piece of the list of tests at the beginning, and a worker that has finished takes tests from
the end of another's piece. So the long tests stand at the beginning of the pieces, the longest first.

Above it: `conftest.py`, which registers it. Below it: pytest and xdist. It does nothing in a run without workers, and
nothing in one with a deadline, which begins with the tests that are nearest to a change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pytest

__all__ = ["LONG", "LongFirst", "arranged", "pieces"]

LONG: tuple[str, ...] = (
    "tests/live/rest/test_conformance.py::test_every_answer_is_as_the_document_says_and_nothing_makes_the_server_fail",
    "tests/scenarios/test_authority_sweep.py::test_nobody_gets_in_by_any_surface_with_less_than_the_table_asks_for",
    "tests/live/mcp/test_official_suite.py::test_everything_that_is_required_passes",
)
"""The tests that take longest, the longest first; with all of their parameters."""

_Item = TypeVar("_Item")


class LongFirst:
    """Arranges the tests that a worker has collected. All workers of a run arrange them alike."""

    def __init__(self, workers: int) -> None:
        self._workers = workers

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Called when all tests are collected."""
        ranks = {name: rank for rank, name in enumerate(LONG)}
        named = [(ranks.get(item.nodeid.partition("[")[0]), item) for item in items]
        long = sorted((pair for pair in named if pair[0] is not None), key=lambda pair: pair[0] or 0)
        others = [item for rank, item in named if rank is None]
        items[:] = arranged([item for _, item in long], others, self._workers)


def pieces(count: int, workers: int) -> list[int]:
    """How many of `count` tests xdist gives to each worker at the beginning."""
    sizes: list[int] = []
    for left in range(workers, 0, -1):
        sizes.append((count - sum(sizes)) // left)
    return sizes


def arranged(long: Sequence[_Item], others: Sequence[_Item], workers: int) -> list[_Item]:
    """All of them, in an order in which each worker's piece begins with its share of the long ones."""
    found: list[_Item] = []
    taken = 0
    for number, size in enumerate(pieces(len(long) + len(others), workers)):
        first = long[number::workers][:size]
        rest = others[taken : taken + size - len(first)]
        taken += len(rest)
        found += [*first, *rest]
    left = [item for number in range(workers) for item in long[number::workers] if item not in found]
    return [*found, *left, *others[taken:]]
