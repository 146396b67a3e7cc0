"""How a command that was refused says so."""

from __future__ import annotations

import pytest

from penstock.base.errors import Denied, Rejected
from penstock.base.json import JsonValue
from penstock.cli.terminal.exits import report_problem


def test_every_mistake_is_told_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    mistakes: list[JsonValue] = [{"pointer": "/a", "message": "too small"}, {"pointer": "", "message": "b is missing"}]
    refusal = Rejected("INVALID_ARGUMENTS", "/a too small (and 1 more)", "see `errors`", {"errors": mistakes})
    report_problem(refusal, as_json=False)
    told = capsys.readouterr().err
    assert told == "error: INVALID_ARGUMENTS: /a too small (and 1 more)\n  - /a: too small\n  - /: b is missing\n"


def test_who_has_no_key_is_told_where_commands_look_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    report_problem(Denied("UNAUTHENTICATED", "no key was sent", "send a header"), as_json=False)
    told = capsys.readouterr().err
    assert "PENSTOCK_API_KEY" in told
    assert "send a header" not in told
