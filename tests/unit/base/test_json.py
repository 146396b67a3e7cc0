"""JSON pointers and the depth check."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.json import JsonValue, exceeds_depth, json_pointer

json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("parts", "pointer"),
    [
        ((), ""),
        (("a", 0, "b"), "/a/0/b"),
        (("a/b", "c~d"), "/a~1b/c~0d"),
        (("~1",), "/~01"),
        (("",), "/"),
    ],
)
def test_pointers_escape_slashes_and_tildes(parts: tuple[str | int, ...], pointer: str) -> None:
    assert json_pointer(parts) == pointer


@given(st.lists(st.text(), max_size=5))
def test_a_pointer_can_be_taken_apart_again(parts: list[str]) -> None:
    pointer = json_pointer(parts)
    taken_apart = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    assert taken_apart == parts


def depth(value: JsonValue) -> int:
    if isinstance(value, dict):
        return 1 + max((depth(member) for member in value.values()), default=0)
    if isinstance(value, list):
        return 1 + max((depth(item) for item in value), default=0)
    return 0


@given(json_values, st.integers(min_value=0, max_value=8))
def test_depth_counts_lists_and_objects(value: JsonValue, depth_max: int) -> None:
    assert exceeds_depth(value, depth_max) == (depth(value) > depth_max)


def test_a_value_deeper_than_the_interpreter_stack_is_refused_not_fatal() -> None:
    value: JsonValue = []
    for _ in range(100_000):
        value = [value]
    assert exceeds_depth(value, 64)
    # Taken apart by hand: dropping it at once would recurse as deeply as it nests.
    while isinstance(value, list) and value:
        value = value[0]
