"""Cases that are tried together are all tried, and each failure is named."""

from __future__ import annotations

from typing import Any

import pytest

from tests.together import together


def parts_of(test: Any) -> list[list[int]]:
    (mark,) = test.pytestmark
    found: list[list[int]] = mark.args[1]
    return found


@pytest.mark.parametrize("count", [0, 1, 5, 50])
def test_every_case_is_in_one_group(count: int) -> None:
    tested = together(range(count), groups=4)(lambda case: None)
    assert sorted(case for part in parts_of(tested) for case in part) == list(range(count))


def test_every_failure_is_told_with_its_case() -> None:
    seen: list[int] = []

    def odd_ones_fail(case: int) -> None:
        seen.append(case)
        assert case % 2 == 0

    tested = together(range(4), groups=1)(odd_ones_fail)
    with pytest.raises(ExceptionGroup) as caught:
        tested(parts_of(tested)[0])
    assert seen == [0, 1, 2, 3]
    assert [error.__notes__[-1] for error in caught.value.exceptions] == ["of 1", "of 3"]
    assert tested.__name__ == "odd_ones_fail"
