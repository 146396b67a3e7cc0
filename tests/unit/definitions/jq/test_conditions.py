"""Conditions that need no libjq answer as libjq does, or leave the answer to it."""

from __future__ import annotations

import json
from typing import Any

import jq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.base.json import JsonValue
from penstock.definitions.jq.conditions import condition_of
from penstock.definitions.jq.expressions import Evaluated, Expression, compile_expression, evaluate_expression
from penstock.definitions.jq.syntax import parse_program

NAMES = ("a", "b", "c")
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-3, max_value=3),
    st.sampled_from([0.5, 1.0, -0.0, 2**52, 2**53 + 1, 1e300, 10**400]),
    st.sampled_from(["", "a", "b", "1", "true", "ä", "\u2028"]),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
)
ROOTS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3)
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(
    lambda names: "".join(f".{name}" for name in names)
)
CONSTANTS = st.one_of(
    st.sampled_from(["null", "true", "false", "[]", "{}", "0", "1", "-1", "2.5", "9007199254740993", "1e1000"]),
    st.sampled_from(['""', '"a"', '"1"', '"ä"', '"\\u00e4"', '"x\\(1)"']),
)
OPERANDS = st.recursive(
    PATHS | CONSTANTS,
    lambda inner: st.tuples(inner, st.sampled_from(["//", "+", "-"]), inner).map(lambda parts: f"({' '.join(parts)})"),
    max_leaves=3,
)
COMPARED = st.tuples(OPERANDS, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), OPERANDS).map(" ".join)
PROGRAMS = st.recursive(
    COMPARED | PATHS,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda parts: f"({' '.join(parts)})")
        | inner.map(lambda part: f"(({part}) | not)")
    ),
    max_leaves=4,
)


def by_libjq(program: str, root: JsonValue) -> Any:
    """What libjq gives; the error if it gives one."""
    try:
        return jq.compile(program).input_text(json.dumps(root)).all()
    except ValueError as error:
        return str(error)


@given(PROGRAMS, ROOTS)
@example(".a == true", {"a": 1})
@example(".a == 1", {"a": True})
@example(".a.b // 1 == 1", {"a": "text"})
@example(".a and .b.c == 1", {"a": False, "b": "text"})
@example(".a < .b", {"a": "b", "b": "a"})
@example(".a + .b > 0", {"a": 2**52, "b": 2**52})
def test_a_condition_answers_as_libjq_or_not_at_all(program: str, root: dict[str, Any]) -> None:
    tree = parse_program(program)
    condition = None if tree is None else condition_of(tree)
    answer = None if condition is None else condition(root)
    if answer is not None:
        assert by_libjq(program, root) == [answer]


@pytest.mark.parametrize(
    ("program", "root", "answer"),
    [
        (".turn.tool_calls == [] and .turn.problem == null", {"turn": {"tool_calls": [], "problem": None}}, True),
        (".turn.tool_calls == [] and .turn.problem == null", {"turn": {"tool_calls": [{"id": "1"}]}}, False),
        (".loop.index + 1 >= 50", {"loop": {"index": 48}}, False),
        (".loop.index + 1 >= 50", {"loop": {"index": 49}}, True),
        (".input.amount > 100", {"input": {"amount": 100.5}}, True),
        ('.call.name == "find"', {"call": {"name": "find"}}, True),
        ("(.input.rounds // 200) > 100", {"input": {}}, True),
        (".ok | not", {}, True),
        (".a.b.c != null", {}, False),
    ],
)
def test_usual_conditions_need_no_libjq(program: str, root: dict[str, Any], answer: bool) -> None:
    tree = parse_program(program)
    assert tree is not None
    condition = condition_of(tree)
    assert condition is not None
    assert condition(root) is answer
    assert by_libjq(program, root) == [answer]


@pytest.mark.parametrize(
    "program", [".a", "1", ".a + 1", ".a, .b == 1", ".a[0] == 1", "[.a] == [1]", "length == 1", ".a == -1", "$x == 1"]
)
def test_what_is_no_plain_condition_is_left_to_libjq(program: str) -> None:
    tree = parse_program(program)
    assert tree is None or condition_of(tree) is None


@pytest.mark.parametrize(
    ("program", "root"),
    [
        (".a.b == 1", {"a": "text"}),
        (".a == .b", {"a": [1], "b": [1.0]}),
        (".a < 1", {"a": None}),
        (".a == 9007199254740993", {"a": 9007199254740992}),
        ('.a == "ä"', {"a": "ä"}),
    ],
)
def test_values_that_libjq_treats_in_its_own_way_are_left_to_it(program: str, root: dict[str, Any]) -> None:
    tree = parse_program(program)
    assert tree is not None
    condition = condition_of(tree)
    assert condition is not None
    assert condition(root) is None


def test_an_expression_uses_its_condition() -> None:
    expression = compile_expression(".a == 1")
    assert isinstance(expression, Expression)
    assert evaluate_expression(expression, {"a": 1}) == Evaluated(value=True)
    unusable = Expression(expression.text, True, None, None, None, lambda _root: False)
    assert evaluate_expression(unusable, {"a": 1}) == Evaluated(value=False)
