"""The table of runs: whole columns, or none."""

import sys

import pytest

from penstock.base.json import JsonObject
from penstock.cli.runs.reports import print_row_table

ROW: JsonObject = {
    "execution_id": "r_01M7TW1EVF65W4J27NQHS5VZTH",
    "workflow_id": "refund_order",
    "workflow_version": "1.0.0",
    "status": "waiting_approval",
    "created_at": "2026-11-19T21:40:00Z",
    "sequence": 8,
    "labels": {"team": "support"},
}


def printed(capsys: pytest.CaptureFixture[str], row: JsonObject = ROW) -> list[str]:
    print_row_table([row], 1_795_124_412_000)
    return capsys.readouterr().out.splitlines()


def test_a_terminal_shows_the_columns_that_fit_and_names_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    heading, row, note = printed(capsys)
    assert heading.split() == ["RUN", "WORKFLOW", "STATUS", "STARTED"]
    assert row == "r_01M7TW1EVF65W4J27NQHS5VZTH  refund_order 1.0.0  waiting_approval  12 s ago"
    assert note == "too wide for this terminal: records, labels; --json shows everything"


def test_a_pipe_gets_every_column(capsys: pytest.CaptureFixture[str]) -> None:
    heading, row = printed(capsys)
    assert heading.split() == ["RUN", "WORKFLOW", "STATUS", "STARTED", "RECORDS", "LABELS"]
    assert row.endswith("8        team=support")


def test_a_column_that_no_run_has_a_value_for_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    heading, _ = printed(capsys, {**ROW, "labels": {}})
    assert heading.split() == ["RUN", "WORKFLOW", "STATUS", "STARTED", "RECORDS"]
