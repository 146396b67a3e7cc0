"""Answers of this program as a history stores them: JSON, and nothing that JSON does not have."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from penstock.base import limits
from penstock.base.json import json_problem
from penstock.engine.values import plain_json

TEXTS = st.text(st.characters(exclude_categories=()))  # halves of surrogate pairs, too
ANSWERS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(TEXTS, inner),
    max_leaves=30,
)


class Answer(msgspec.Struct):
    """An answer with members that JSON has no type for."""

    names: tuple[str, ...]
    pairs: list[tuple[int, tuple[int, ...]]]
    kinds: frozenset[str]
    more: Any


def as_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: as_lists(item) for name, item in value.items()}
    return [as_lists(item) for item in value] if isinstance(value, list | tuple) else value


@given(ANSWERS)
def test_tuples_become_lists_and_nothing_else_changes(value: Any) -> None:
    before = repr(value)
    assert plain_json(value) == as_lists(value)
    assert repr(value) == before
    assert json_problem(plain_json(value), limits.JSON_DEPTH_MAX) is None


def test_members_of_answers_are_stored_as_json() -> None:
    answer = Answer(names=("a",), pairs=[(1, (2, 3))], kinds=frozenset({"k"}), more={"deep": ({"er": ()},)})
    assert plain_json(answer) == {
        "names": ["a"],
        "pairs": [[1, [2, 3]]],
        "kinds": ["k"],
        "more": {"deep": [{"er": []}]},
    }


def test_half_of_a_surrogate_pair_stays_as_a_tool_sent_it() -> None:
    assert plain_json(("\ud800",)) == ["\ud800"]
