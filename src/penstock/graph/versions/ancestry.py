"""The commit that two branches have in common.

Commits are numbered so that a parent has a smaller number than its children. Of several common ancestors, the one with
the greatest number counts: no other common ancestor comes after it.

Above it: merges in the stores. Below it: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

__all__ = ["common_ancestor"]

_ONE, _OTHER = 1, 2


def common_ancestor(one: int, other: int, parents_of: Callable[[int], Iterable[int]]) -> int | None:
    """The last commit that leads to both; None if they share no commit. It looks only at commits that came after it."""
    reached = {one: _ONE}
    reached[other] = reached.get(other, 0) | _OTHER
    waiting = [-commit for commit in reached]
    waiting.sort()
    while waiting:
        commit = -heappop(waiting)
        marks = reached[commit]
        if marks == _ONE | _OTHER:
            return commit
        for parent in parents_of(commit):
            if parent not in reached:
                heappush(waiting, -parent)
            reached[parent] = reached.get(parent, 0) | marks
    return None
