"""Reducers: overwrite, append and merge, for every kind of previous value."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.json import JsonObject, JsonValue
from penstock.engine.reducers import merge_state

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=2), JSON, max_size=3)


@pytest.mark.parametrize(
    ("reducer", "previous", "value", "merged"),
    [
        ("overwrite", 1, 2, 2),
        ("overwrite", [1], [2], [2]),
        ("overwrite", {"a": 1}, {"b": 2}, {"b": 2}),
        ("overwrite", 1, None, None),
        ("append", [1], 2, [1, 2]),
        ("append", [1], [2, 3], [1, 2, 3]),
        ("append", [1], [], [1]),
        ("append", [1], [[2]], [1, [2]]),
        ("append", [1], None, [1, None]),
        ("append", [1], {"a": 1}, [1, {"a": 1}]),
        ("append", "text", 2, [2]),
        ("append", None, 2, [2]),
        ("append", {"a": 1}, [2], [2]),
        ("merge", {"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ("merge", {"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}),
        ("merge", {"a": {"x": 1}}, {"a": 3}, {"a": 3}),
        ("merge", {"a": [1]}, {"a": [2]}, {"a": [2]}),
        ("merge", {"a": 1}, {"a": None}, {"a": None}),
        ("merge", [1], {"a": 1}, {"a": 1}),
        ("merge", {"a": 1}, [2], [2]),
        ("merge", None, {"a": 1}, {"a": 1}),
    ],
)
def test_a_reducer_joins_the_previous_value_and_the_new_one(
    reducer: str, previous: JsonValue, value: JsonValue, merged: JsonValue
) -> None:
    assert merge_state({"k": previous, "other": 1}, {"k": value}, {"k": reducer}) == {"k": merged, "other": 1}


@pytest.mark.parametrize(("reducer", "merged"), [("overwrite", 5), ("append", [5]), ("merge", 5)])
def test_a_key_that_was_not_there_begins_with_the_new_value(reducer: str, merged: JsonValue) -> None:
    assert merge_state({}, {"k": 5}, {"k": reducer}) == {"k": merged}


def test_a_key_without_a_reducer_is_overwritten() -> None:
    assert merge_state({"k": [1]}, {"k": [2]}, {}) == {"k": [2]}


@pytest.mark.parametrize("state", [None, 3, "text", [1]])
def test_a_state_that_is_no_object_counts_as_empty(state: JsonValue) -> None:
    assert merge_state(state, {"k": 1}, {}) == {"k": 1}


@given(OBJECTS, OBJECTS, st.sampled_from(["overwrite", "append", "merge"]))
def test_nothing_is_changed_in_place(state: JsonObject, output: JsonObject, reducer: str) -> None:
    before = copy.deepcopy((state, output))
    merge_state(state, output, dict.fromkeys(output, reducer))
    assert (state, output) == before


@given(st.lists(st.lists(st.integers(), max_size=3), max_size=5))
def test_appending_piece_by_piece_is_appending_everything(pieces: list[list[int]]) -> None:
    state: JsonObject = {}
    for piece in pieces:
        state = merge_state(state, {"log": list(piece)}, {"log": "append"})
    flat: list[JsonValue] = [item for piece in pieces for item in piece]
    assert state.get("log", []) == flat


@given(OBJECTS, OBJECTS)
def test_merging_keeps_every_key_of_both_sides(first: JsonObject, second: JsonObject) -> None:
    merged = merge_state({"k": first}, {"k": second}, {"k": "merge"})["k"]
    assert isinstance(merged, dict)
    assert set(merged) == set(first) | set(second)
    assert merge_state({"k": merged}, {"k": second}, {"k": "merge"})["k"] == merged
