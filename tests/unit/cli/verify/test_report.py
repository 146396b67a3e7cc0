"""The report of the kit: failures with what was expected and seen, and never a pass for what was not tried."""

from __future__ import annotations

from penstock.cli.verify.checks import Check, CheckResult
from penstock.cli.verify.report import report_json, summary_lines


async def nothing(kit: object) -> None:
    """Check nothing."""


def result(name: str, status: str, **more: str) -> CheckResult:
    check = Check(id=f"core.{name}", profile="core", requirement="It works.", why="Otherwise it does not.", run=nothing)
    return CheckResult(check=check, status=status, **more)  # type: ignore[arg-type]


def test_a_failure_says_what_was_expected_what_was_seen_and_why_it_matters() -> None:
    lines = summary_lines([result("a", "passed"), result("b", "failed", expected="401", seen="200")])
    assert lines[:4] == [
        "✗ core.b: It works.",
        "    expected  401",
        "    seen      200",
        "    matters   Otherwise it does not.",
    ]
    assert lines[-1] == "core 1/2"


def test_what_could_not_be_tried_is_not_counted_as_passed() -> None:
    results = [result("a", "passed"), result("b", "not_applicable", reason="there is no MCP here")]
    assert summary_lines(results)[-1] == "core 1/2 (1 n/a)"
    assert report_json(results)["profiles"] == {"core": {"checks": 2, "passed": 1, "failed": 0, "not_applicable": 1}}


def test_a_run_without_a_pass_is_not_ok() -> None:
    assert report_json([result("a", "passed")])["ok"]
    assert not report_json([result("a", "passed"), result("b", "failed")])["ok"]
    assert not report_json([result("a", "not_applicable")])["ok"]
    assert not report_json([])["ok"]


def test_what_a_server_sends_cannot_control_the_terminal() -> None:
    lines = summary_lines([result("a", "failed", expected="x", seen="\x1b[31mred\x07")])
    assert "\x1b" not in "".join(lines)
