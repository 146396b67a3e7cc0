"""What people see of a conversation with an agent."""

from __future__ import annotations

import pytest

from penstock.base.json import JsonObject
from penstock.cli.agents.screens import TextScreen

TURN: JsonObject = {"execution_id": "r_1", "node_id": "turn", "visit": 1}


def test_an_answer_that_was_written_as_json_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    screen = TextScreen()
    written = '{"city":"K\u00f6ln"}'
    screen.event("delta", {**TURN, "text": written[:5], "offset": 0})
    screen.event("delta", {**TURN, "text": written[5:], "offset": 5})
    screen.event("turn", {**TURN, "text": written, "tool_calls": 0})
    screen.event("output", {"output": {"city": "K\u00f6ln"}})
    assert capsys.readouterr().out == f"{written}\n"


def test_an_answer_that_nobody_wrote_is_shown_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    screen = TextScreen()
    screen.event("turn", {**TURN, "text": "Done.", "tool_calls": 0})
    screen.event("output", {"output": {"city": "K\u00f6ln"}})
    assert capsys.readouterr().out == 'Done.\n{"city": "K\u00f6ln"}\n'
