"""Reports: counted, written as JSON, and compared with those of other versions."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from penstock.base.json import JsonObject
from penstock.cli.evaluation.dataset import BadLine
from penstock.cli.evaluation.expectations import Check
from penstock.cli.evaluation.report import CaseResult, Earlier, Report, Spent, earlier_report, report_text, spent_of
from penstock.cli.terminal.values import UsageError


def result(case_id: str, *scores: float, cost: str | None = "0.01", ended: bool = True) -> CaseResult:
    first = Check(kind="status", passed=ended, score=float(ended))
    others = tuple(Check(kind="similarity", passed=score >= 0.5, score=score) for score in scores)
    return CaseResult(
        case_id=case_id,
        line=1,
        run_id=f"c-{case_id}",
        given={},
        expect=None,
        status="completed",
        checks=(first, *others),
        spent=Spent(tokens=3, cost=None if cost is None else Decimal(cost)),
    )


def report(*results: CaseResult, **more: object) -> Report:
    members: dict[str, object] = {"bad_lines": (), "fail_under": 1.0, "results": results, **more}
    target = {"name": "support", "version": "1.0.0", "hash": "sha256:0"}
    return Report(evaluation="first", target=target, dataset="x", digest="0", **members)  # type: ignore[arg-type]  # a test's shorthand


def test_a_report_counts_and_says_whether_the_threshold_is_reached() -> None:
    found = report(result("a", 1.0), result("b", 0.2), result("c", 0.9, ended=False), result("d"), fail_under=0.5)
    assert (found.passed, found.pass_rate, found.ok) == (2, 0.5, True)
    assert found.score == pytest.approx((1 + 0.2 + 0 + 1) / 4)
    assert found.spent == Spent(tokens=12, cost=Decimal("0.04"))
    assert not report(result("a"), result("b", 0.1), fail_under=0.51).ok


def test_a_bad_line_a_stop_or_no_case_at_all_is_not_ok() -> None:
    assert report(result("a")).ok
    assert not report(result("a"), bad_lines=(BadLine(3, "no"),)).ok
    assert not report(result("a"), stopped="spent").ok
    assert not report(fail_under=0.0).ok


def test_a_cost_that_is_not_known_stays_unknown() -> None:
    assert report(result("a"), result("b", cost=None)).spent.cost is None
    assert spent_of(None) == Spent()
    used: JsonObject = {"input_tokens": 5, "output_tokens": 2, "cost": {"amount": "0.5", "currency": "USD"}}
    assert spent_of(used) == Spent(tokens=7, cost=Decimal("0.5"))
    assert spent_of({**used, "cost": None}) == Spent(tokens=7, cost=None)


def test_cases_are_compared_with_another_version_by_their_ids() -> None:
    before = report(result("same", 0.8), result("up", 0.2), result("down", 0.9), result("less", 0.9), result("gone"))
    now = report(
        result("same", 0.8),
        result("up", 0.7),
        result("down", 0.4),
        result("less", 0.6),
        result("new"),
        earlier=Earlier.of(json.loads(report_text(before))),
    )
    found = {item.case_id: str(item.change) for item in now.differences}
    assert found == {"same": "same", "up": "better", "down": "worse", "less": "worse", "new": "new", "gone": "gone"}
    told = json.loads(report_text(now))["baseline"]
    assert {name: told[name] for name in ("better", "worse", "same", "new", "gone")} == {
        "better": 1,
        "worse": 2,
        "same": 1,
        "new": 1,
        "gone": 1,
    }
    assert told["pass_rate"] == before.pass_rate


def test_a_report_is_read_back_from_its_file_and_another_file_is_none(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text(report_text(report(result("a"))))
    found = earlier_report(file)
    assert found is not None
    assert (found.evaluation, list(found.cases)) == ("first", ["a"])
    file.write_text('{"penstock": "v1", "cases": []}')
    assert earlier_report(file) is None
    file.write_text("penstock: v1")
    assert earlier_report(file) is None
    with pytest.raises(UsageError):
        earlier_report(tmp_path / "none.json")
