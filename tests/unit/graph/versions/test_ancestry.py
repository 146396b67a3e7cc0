"""The common ancestor of two commits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.graph.versions.ancestry import common_ancestor


def test_the_fork_point_is_the_common_ancestor() -> None:
    parents = {1: [], 2: [1], 3: [2], 4: [2], 5: [4]}
    assert common_ancestor(3, 5, parents.__getitem__) == 2


def test_after_a_merge_the_merged_commit_is_the_common_ancestor() -> None:
    parents = {1: [], 2: [1], 3: [1], 4: [3, 2], 5: [2], 6: [4]}
    assert common_ancestor(5, 6, parents.__getitem__) == 2


def test_a_commit_is_its_own_ancestor() -> None:
    parents: dict[int, list[int]] = {1: [], 2: [1]}
    assert common_ancestor(2, 2, parents.__getitem__) == 2
    assert common_ancestor(2, 1, parents.__getitem__) == 1


def test_commits_without_a_common_ancestor_have_none() -> None:
    parents: dict[int, list[int]] = {1: [], 2: []}
    assert common_ancestor(1, 2, parents.__getitem__) is None


@given(st.data())
def test_it_is_the_greatest_commit_that_leads_to_both(data: st.DataObject) -> None:
    parents: dict[int, list[int]] = {1: []}
    for commit in range(2, data.draw(st.integers(2, 12)) + 1):
        parents[commit] = data.draw(st.lists(st.integers(1, commit - 1), min_size=1, max_size=2, unique=True))

    def leads_to(commit: int) -> set[int]:
        return {commit}.union(*(leads_to(parent) for parent in parents[commit]))

    one, other = (data.draw(st.sampled_from(sorted(parents))) for _ in range(2))
    assert common_ancestor(one, other, parents.__getitem__) == max(leads_to(one) & leads_to(other))
