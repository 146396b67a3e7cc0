"""JSON pointers, the depth check, and what JSON cannot hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.json import JsonValue, exceeds_depth, exceeds_values, json_pointer, json_problem

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
    problem = json_problem(value, depth_max)
    assert (problem is not None and problem.is_depth) == (depth(value) > depth_max)
    assert problem is None or problem.is_depth


def held(value: JsonValue) -> int:
    """How many values a value holds, on every level."""
    items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return len(items) + sum(map(held, items))


@given(json_values, st.integers(min_value=0, max_value=12))
def test_values_are_counted_on_every_level(value: JsonValue, values_max: int) -> None:
    assert exceeds_values(value, values_max) == (held(value) > values_max)


def test_a_value_deeper_than_the_interpreter_stack_is_refused_not_fatal() -> None:
    value: JsonValue = []
    for _ in range(100_000):
        value = [value]
    assert exceeds_depth(value, 64)
    problem = json_problem(value, 64)
    assert problem is not None
    assert problem.is_depth
    # Taken apart by hand: dropping it at once would recurse as deeply as it nests.
    while isinstance(value, list) and value:
        value = value[0]


class Subclass(str):
    pass


@pytest.mark.parametrize(
    ("value", "path", "word"),
    [
        (float("nan"), "", "nan"),
        ({"a": [1, {"b/c": float("inf")}]}, "/a/1/b~1c", "inf"),
        ([0.5, float("-inf")], "/1", "-inf"),
        ({"a": {1: 2}}, "/a", "key 1"),
        ({None: 2}, "", "key None"),
        ([{1, 2}], "/0", "set"),
        ({"a": b"x"}, "/a", "bytes"),
        ({"a": (1, 2)}, "/a", "tuple"),
        ([Subclass("x")], "/0", "Subclass"),
        ({"a": object()}, "/a", "object"),
    ],
)
def test_what_json_cannot_hold_is_found_with_its_place(value: object, path: str, word: str) -> None:
    problem = json_problem(value, 64)
    assert problem is not None
    assert (problem.path, problem.is_depth) == (path, False)
    assert word in problem.message


@pytest.mark.parametrize("times", [1, 2])
def test_a_value_that_contains_itself_is_found(times: int) -> None:
    circle: list[object] = []
    circle += [circle] * times
    problem = json_problem(circle, 64)
    assert problem is not None
    assert problem.is_depth
    circle.append(float("nan"))
    assert json_problem(circle, 64) is not None
