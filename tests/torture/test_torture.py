"""A short torture in every test run; `scripts/torture` and `scripts/two-processes` are the long ones."""

from __future__ import annotations

import json

import pytest

from penstock.base.json import JsonObject
from tests.torture import pair, torture


def test_nothing_is_lost_when_the_process_is_killed_again_and_again(capsys: pytest.CaptureFixture[str]) -> None:
    code = torture.main(["--rounds", "3", "--runs", "80", "--kills", "3"])
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert code == 0, report
    assert report["kills"] > 0
    assert report["runs"] == 240


def test_two_processes_share_a_file_and_one_takes_over_from_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    code = pair.main(["--seconds", "5"])
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert code == 0, report
    assert report["taken_over"] > 0


def test_an_activity_that_overlaps_itself_is_counted() -> None:
    twice: list[JsonObject] = [
        {"effect": "r/a/1/1", "process": 1, "from": 1.0, "to": 2.0},
        {"effect": "r/a/1/1", "process": 2, "from": 1.5, "to": 2.5},
        {"effect": "r/b/1/1", "process": 2, "from": 1.5, "to": 2.5},
    ]
    assert pair.overlaps(twice) == 1


def test_a_lost_effect_and_a_doubled_charge_are_counted() -> None:
    count = torture.Count()
    torture.examine_ledger([{"key": "r/charge/1"}, {"key": "r/charge/1"}], {}, count)
    assert count.doubled_effects == 1
    assert not count.ok
