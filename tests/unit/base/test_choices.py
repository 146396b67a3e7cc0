"""Refusals of words that are not among the choices."""

import pytest

from penstock.base.choices import list_choices, refuse_choice


@pytest.mark.parametrize(
    ("value", "choices", "message"),
    [
        ("warn", ["info", "warning"], "unknown value `warn`; did you mean `warning`?"),
        ("WARNING", ["info", "warning"], "unknown value `WARNING`; did you mean `warning`?"),
        ("zzz", ["info", "warning", "error"], "unknown value `zzz`; use `info`, `warning` or `error`"),
        ("zzz", [f"word{number}" for number in range(100)], "unknown value `zzz`"),
        ("zzz", [], "unknown value `zzz`"),
    ],
)
def test_an_unknown_word_is_named_with_the_nearest_choice_or_a_short_list(
    value: str, choices: list[str], message: str
) -> None:
    assert refuse_choice(value, choices) == message


def test_choices_are_listed_as_words_of_a_sentence() -> None:
    assert list_choices(["a"]) == "`a`"
    assert list_choices(["a", "b", "c"]) == "`a`, `b` or `c`"
