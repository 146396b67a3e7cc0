"""The program that keeps the results of an agent's calls: it runs inside the server, and means what it says."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.base import limits
from penstock.base.json import JsonValue
from penstock.definitions.jq.agent_results import KEEP_RESULTS
from penstock.definitions.jq.expressions import Evaluated, Expression, evaluate_expression, load_expression


def kept(name: str, result: JsonValue) -> Any:
    """The entry for one call."""
    program = load_expression(KEEP_RESULTS)
    assert isinstance(program, Expression)
    turn: JsonValue = {"tool_calls": [{"id": "c1", "name": name, "arguments": {}}]}
    found = evaluate_expression(program, {"turn": turn, "calls": [result], "state": {"conversation": []}})
    assert isinstance(found, Evaluated), found
    assert isinstance(found.value, list)
    [entry] = found.value
    return entry


def test_it_is_evaluated_inside_the_server_and_reads_the_calls_only() -> None:
    program = load_expression(KEEP_RESULTS)
    assert isinstance(program, Expression)
    assert program.bounded
    assert program.reads is not None
    assert set(program.reads.members) == {"turn", "calls"}


@pytest.mark.parametrize(
    ("name", "result", "more"),
    [
        ("workflow:x", {"a": 1}, {"content": {"a": 1}}),
        ("workflow:x", {"error": {"code": "C", "message": "m"}}, {"error": "C: m"}),
        ("workflow:x", {"error": "no"}, {"content": {"error": "no"}}),
        ("workflow:x", {"answer": "y", "person": True}, {"content": {"answer": "y", "person": True}}),
        ("ask_user", {"answer": "y"}, {"content": "y", "person": True}),
    ],
)
def test_a_result_becomes_an_entry(name: str, result: JsonValue, more: dict[str, Any]) -> None:
    assert kept(name, result) == {"role": "tool", "id": "c1", "name": name, **more}


def test_a_long_result_is_cut_off() -> None:
    said = kept("workflow:x", "a" * (limits.AGENT_RESULT_CHARACTERS_MAX + 1))["content"]
    assert len(said) < limits.AGENT_RESULT_CHARACTERS_MAX + 100
    assert "cut off" in said
