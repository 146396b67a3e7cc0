"""Compiling and evaluating jq, compared with libjq itself where it is the authority."""

import json
import sys
from collections.abc import Callable
from threading import Thread
from typing import Any

import jq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base import limits
from penstock.base.json import JsonValue
from penstock.definitions.jq.expressions import (
    Evaluated,
    EvaluationFailed,
    Expression,
    ExpressionProblem,
    InProcessEvaluator,
    compile_expression,
    evaluate_expression,
)

ROOT: JsonValue = {
    "input": {"order_id": "A-1042", "amount": 180.5, "items": [{"price": 1}, {"price": 2}]},
    "order": {"total": 200, "note": None},
    "now": 5,
}


def compiled(text: str) -> Expression:
    expression = compile_expression(text)
    assert isinstance(expression, Expression), expression
    return expression


def problem(text: str) -> ExpressionProblem:
    found = compile_expression(text)
    assert isinstance(found, ExpressionProblem), found
    return found


def value_of(text: str, root: JsonValue = ROOT) -> JsonValue:
    outcome = evaluate_expression(compiled(text), root)
    assert isinstance(outcome, Evaluated), outcome
    return outcome.value


def failure_of(text: str, root: JsonValue = ROOT) -> str:
    outcome = evaluate_expression(compiled(text), root)
    assert isinstance(outcome, EvaluationFailed), outcome
    return outcome.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("empty", None),
        (".input.amount", 180.5),
        (".missing.path", None),
        (".input.items[].price", [1, 2]),
        ("[]", []),
        ("[1]", [1]),
        (".order.total > .input.amount", True),
        (".input.items | map(.price) | add", 3),
        ('"\\(.input.order_id): \\(.input.amount)"', "A-1042: 180.5"),
        (".now", 5),
        ('.order.note // "none"', "none"),
        ("def twice: . * 2; .order.total | twice", 400),
    ],
)
def test_no_output_is_null_one_is_the_value_several_are_a_list(text: str, expected: JsonValue) -> None:
    assert value_of(text) == expected


def test_a_path_hands_its_value_on_untouched() -> None:
    root: JsonValue = {"big": 2**64 + 1, "float": 1.0, "deep": {"list": [1.0, 2**60 + 1]}}
    assert repr(value_of(".big", root)) == repr(2**64 + 1)
    assert repr(value_of(".float", root)) == "1.0"
    assert repr(value_of(".deep", root)) == repr({"list": [1.0, 2**60 + 1]})
    assert value_of(".", root) is root


def test_computed_numbers_are_doubles_and_whole_ones_come_back_as_integers() -> None:
    assert repr(value_of("[.a, .b, .c]", {"a": 1.0, "b": 1, "c": 2.5})) == "[1, 1, 2.5]"
    assert repr(value_of(".a + 0.5", {"a": 0.5})) == "1"
    assert value_of("[.a]", {"a": 2**53 + 1}) == [2**53]
    assert repr(value_of("[.a]", {"a": -0.0})) == "[0]"


@pytest.mark.parametrize(
    "text",
    [
        "nan",
        "infinite",
        "[nan]",
        "{a: {b: [-infinite]}}",
        "1e1000",
        ".a * 1e308",
        "[.a, nan]",
        "10 | log | [., nan]",
        '"nan" | fromjson',
        '["1e1000" | tonumber]',
        "[-1e1000, 1]",
    ],
)
def test_numbers_that_json_cannot_hold_are_failures(text: str) -> None:
    assert "a number that JSON cannot hold" in failure_of(text, {"a": 1e308})


def test_the_largest_double_is_a_number_like_any_other() -> None:
    largest = sys.float_info.max
    assert value_of("[.a, .b]", {"a": largest, "b": "1.7976931348623157e308"}) == [
        int(largest),
        "1.7976931348623157e308",
    ]
    assert value_of(".a + 0", {"a": -largest}) == -int(largest)


def test_a_comment_at_the_end_does_not_swallow_the_check_for_numbers() -> None:
    assert value_of(".a + 1 # comment", {"a": 1}) == 2
    assert value_of(".a + 1 # comment \\", {"a": 1}) == 2


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_finite_results_pass_the_check_for_numbers(number: float) -> None:
    assert value_of("{a: (.a + 0)}", {"a": number}) == {"a": number}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (".input.amount.x", "Cannot index number"),
        (".input + 1", "cannot be added"),
        ('error("no stock")', "no stock"),
        ("error({code: 5})", '{"code": 5}'),
        (".input | .[0]", "Cannot index object with number"),
    ],
)
def test_failures_are_told_in_one_line(text: str, words: str) -> None:
    message = failure_of(text)
    assert words in message
    assert "\n" not in message


def test_a_path_through_something_else_than_an_object_fails_as_in_jq() -> None:
    assert "Cannot index" in failure_of(".a.b", {"a": [1]})
    assert "Cannot index" in failure_of(".a", "text")
    assert value_of(".a.b", {"a": None}) is None
    assert value_of(".a", None) is None


def test_outputs_are_limited_in_number_and_size() -> None:
    assert "10,000 outputs" in failure_of("range(10001)")
    assert len(value_of("range(10000)")) == 10_000  # type: ignore[arg-type]
    assert "1,048,576 bytes" in failure_of('[range(5000)] | map("=" * 300)')
    assert "1,048,576 bytes" in failure_of('"=" * 60000 | [., ., ., ., ., ., ., ., ., ., ., ., ., ., ., ., ., .] | add')


def test_long_messages_are_shortened() -> None:
    assert len(failure_of('error("x" * 5000)')) <= 500


def test_data_that_cannot_be_written_as_json_is_a_failure() -> None:
    deep: JsonValue = []
    for _ in range(5000):
        deep = [deep]
    assert "nested too deeply" in failure_of("[.]", deep)
    assert "not Unicode" in failure_of("[.a]", {"a": "\ud800"})


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "is empty", "write `.`"),
        (".a |", "unexpected end of file (column 4)", "missing at the end"),
        (".a &&\n.b", "line 1, column 4", '"and" and "or"'),
        ("'x'", "unexpected character", "double quotes"),
        ("maps(.x)", "maps/1 is not defined", "did you mean `map`?"),
        ("map", "map/0 is not defined", "`map` takes 1 argument"),
        (".order-id", "id/0 is not defined", '.["…-id"]'),
        ("zzzqqq", "zzzqqq/0 is not defined", "write `.zzzqqq` for a field"),
        ("$x", "$x is not defined", "as $name"),
        ("@bas64", "no format `@bas64`", "did you mean `base64`?"),
        ("now", "`now` is not allowed in an expression", ".run.started_at"),
        ("[now, env, now]", "`now` and `env` are not allowed", "data"),
        ('"x" * 1e9', "multiplies a text", "less often"),
        (".a\0", "character that jq cannot read", "remove"),
        ("." + "a" * 20_000, "longer than", "step"),
    ],
)
def test_problems_are_one_line_with_a_hint(text: str, message: str, hint: str) -> None:
    found = problem(text)
    assert message in found.message
    assert "\n" not in found.message
    assert found.hint is not None
    assert hint in found.hint


def test_programs_are_compiled_once() -> None:
    assert compile_expression(".a + .b") is compile_expression(".a + .b")
    assert compile_expression.cache_info().maxsize == limits.JQ_CACHE_ENTRIES_MAX


def test_expressions_are_equal_when_their_texts_are() -> None:
    first = compiled(".a + .b")
    compile_expression.cache_clear()
    assert compiled(".a + .b") == first
    assert repr(first) == "Expression(text='.a + .b', bounded=True)"


def test_the_in_process_evaluator_evaluates() -> None:
    assert InProcessEvaluator().evaluate(compiled(".a + 1"), {"a": 1}) == Evaluated(2)


def test_one_program_can_be_used_by_several_threads() -> None:
    expression = compiled("[.items[] | . * 2] | add")
    wrong: list[Any] = []

    def work(number: int) -> None:
        for _ in range(200):
            outcome = evaluate_expression(expression, {"items": [number, number + 1]})
            if outcome != Evaluated(4 * number + 2):
                wrong.append(outcome)

    threads = [Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


roots: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "a", "b", "xyz"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)
objects = st.dictionaries(st.sampled_from("abc"), roots, max_size=3)
paths = st.sampled_from(
    [".", ".a", ".b", ".a.b", '.["c"]', ".a[0]", ".a[]?", ".b.c?", "$x", "$x.a", "1", '"t"', "null"]
)


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(inner, inner)
    shapes: list[Callable[[tuple[str, str]], str]] = [
        lambda pair: f"({pair[0]} | {pair[1]})",
        lambda pair: f"({pair[0]}, {pair[1]})",
        lambda pair: f"({pair[0]} + {pair[1]})",
        lambda pair: f"({pair[0]} == {pair[1]})",
        lambda pair: f"({pair[0]} // {pair[1]})",
        lambda pair: f"(if {pair[0]} then {pair[1]} else .c end)",
        lambda pair: f"[{pair[0]}, {pair[1]}]",
        lambda pair: f"{{a: {pair[0]}, b: {pair[1]}, c}}",
        lambda pair: f"({pair[0]} as $x | {pair[1]})",
        lambda pair: f"(try {pair[0]} catch {pair[1]})",
        lambda pair: f"(reduce {pair[0]} as $x (0; {pair[1]}))",
        lambda pair: f"([{pair[0]}] | map({pair[1]}))",
        lambda pair: f"({pair[0]} | select({pair[1]}))",
        lambda pair: f"first({pair[0]}, {pair[1]})",
        lambda pair: f"any({pair[0]}; {pair[1]})",
        lambda pair: f"({pair[0]} | empty, {pair[1]})",
        lambda pair: f"({pair[0]} | length, {pair[1]})",
        lambda pair: f'"<\\({pair[0]})\\({pair[1]})>"',
        lambda pair: f"({pair[0]} as {{a: $x}} | {pair[1]})",
        lambda pair: f"({pair[0]} | to_entries | map({pair[1]}))",
        lambda pair: f"({pair[0]} | sort_by({pair[1]}))",
        lambda pair: f"({pair[0]} | tojson | [., {pair[1]}])",
    ]
    return st.tuples(st.sampled_from(shapes), pairs).map(lambda made: made[0](made[1]))


programs = st.recursive(paths, grown, max_leaves=6).map(lambda program: f"null as $x | {program}")


def outcome_of_libjq(program: str, root: JsonValue) -> Evaluated | EvaluationFailed:
    try:
        outputs = jq.compile(program).input_text(json.dumps(root)).all()
    except ValueError as error:
        return EvaluationFailed(" ".join(str(error).split()))
    return Evaluated(None if not outputs else outputs[0] if len(outputs) == 1 else outputs)


@settings(max_examples=3 * settings().max_examples)
@given(programs, objects)
def test_reading_only_parts_of_the_root_changes_nothing(program: str, root: dict[str, JsonValue]) -> None:
    assert evaluate_expression(compiled(program), root) == outcome_of_libjq(program, root)


@settings(max_examples=3 * settings().max_examples)
@given(programs, objects)
def test_results_of_bounded_programs_are_not_much_larger_than_their_input(
    program: str, root: dict[str, JsonValue]
) -> None:
    expression = compiled(program)
    outcome = evaluate_expression(expression, root)
    if expression.bounded and isinstance(outcome, Evaluated):
        assert len(json.dumps(outcome.value)) <= 100_000 + 128 * len(json.dumps(root))
