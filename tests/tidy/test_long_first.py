"""Long tests begin first, whichever worker has them, and each that is listed exists."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.long_first import LONG, arranged, pieces

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", LONG)
def test_a_long_test_exists(name: str) -> None:
    path, _, function = name.partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert function in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_each_worker_begins_with_its_share_of_the_long_ones_the_longest_first() -> None:
    others = [f"o{number}" for number in range(17)]
    found = arranged(["l0", "l1", "l2", "l3"], others, 3)
    assert pieces(21, 3) == [7, 7, 7]
    assert (found[:2], found[7], found[14]) == (["l0", "l3"], "l1", "l2")
    assert [name for name in found if name.startswith("o")] == others


@given(st.integers(0, 30), st.integers(0, 60), st.integers(1, 8))
def test_every_test_runs_once(long: int, others: int, workers: int) -> None:
    assert sum(pieces(long + others, workers)) == long + others
    found = arranged(list(range(long)), list(range(1_000, 1_000 + others)), workers)
    assert sorted(found) == [*range(long), *range(1_000, 1_000 + others)]
