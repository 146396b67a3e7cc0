"""How similar texts are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.evaluation.similarity import similarity

TEXTS = st.text(max_size=60)


@given(TEXTS, TEXTS)
def test_it_is_between_0_and_1_and_the_same_in_both_directions(first: str, second: str) -> None:
    found = similarity(first, second)
    assert 0 <= found <= 1
    assert found == similarity(second, first)


@given(TEXTS)
def test_a_text_is_fully_similar_to_itself_and_to_itself_in_capitals_with_other_spaces(text: str) -> None:
    assert similarity(text, text) == 1
    assert similarity("The order was sent.", "  the ORDER\n\twas   sent. ") == 1


def test_a_small_change_costs_little_and_another_text_nearly_everything() -> None:
    assert similarity("The order was sent.", "The order was sent!") > 0.8
    assert similarity("The order was sent.", "Refunds take three days.") < 0.3
    assert similarity("abc", "xyz") == 0


def test_the_measure_is_the_dice_coefficient_of_trigrams_with_their_ends() -> None:
    # ab with its ends has ||a, |ab, ab|, b||; abc has ||a, |ab, abc, bc|, c||.
    assert similarity("ab", "abc") == pytest.approx(2 * 2 / (4 + 5))


def test_nothing_is_similar_to_nothing_but_nothing() -> None:
    assert similarity("", "") == 1
    assert similarity("", "a") == 0
