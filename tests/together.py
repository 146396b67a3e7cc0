"""Very many like cases as few tests: a test of its own for each would cost more than what it looks at.

    @together(FILES, groups=16)
    def test_a_history_replays(path: Path) -> None: ...

All cases are tried. A failure names its case, and a group goes on after it, so that all failures are seen at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

__all__ = ["together"]

T = TypeVar("T")


def together(cases: Sequence[T], *, groups: int = 16) -> Callable[[Callable[[T], None]], Callable[[list[T]], None]]:
    """Turn a test of one case into a few tests, each of a part of the cases."""
    parts = [list(cases[first::groups]) for first in range(groups)]

    def decorate(test: Callable[[T], None]) -> Callable[[list[T]], None]:
        @pytest.mark.parametrize("cases", parts, ids=range(1, groups + 1))
        def tested(cases: list[T]) -> None:
            failures: list[Exception] = []
            for case in cases:
                try:
                    test(case)
                except Exception as error:
                    error.add_note(f"of {case}")
                    failures.append(error)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(cases)} cases", failures)

        # Not `functools.wraps`: pytest would then ask for the arguments of the test of one case.
        tested.__name__, tested.__qualname__, tested.__doc__ = test.__name__, test.__qualname__, test.__doc__
        tested.__module__ = test.__module__
        return tested

    return decorate
