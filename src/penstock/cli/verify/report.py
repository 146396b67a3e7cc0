"""What a run of the kit found: for people, and as JSON.

Above it: the command. Below it: `checks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.base.json import JsonObject, JsonValue
from penstock.base.text import clean
from penstock.cli.verify.checks import CheckResult

__all__ = ["Tally", "failure_lines", "report_json", "summary_lines", "tallies"]

_PASSED = "passed"
_FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The results of one profile, counted."""

    profile: str
    passed: int
    failed: int
    not_applicable: int

    @property
    def checks(self) -> int:
        """All of its checks."""
        return self.passed + self.failed + self.not_applicable

    @property
    def text(self) -> str:
        """The tally in a few words: `core 35/35`."""
        left = f" ({self.not_applicable} n/a)" if self.not_applicable else ""
        return f"{self.profile} {self.passed}/{self.checks}{left}"


def tallies(results: Iterable[CheckResult]) -> list[Tally]:
    """Return the results of each profile, counted, in the order in which the profiles occur."""
    by_profile: dict[str, list[CheckResult]] = {}
    for result in results:
        by_profile.setdefault(result.check.profile, []).append(result)
    return [
        Tally(
            profile=profile,
            passed=sum(result.status == _PASSED for result in found),
            failed=sum(result.status == _FAILED for result in found),
            not_applicable=sum(result.status == "not_applicable" for result in found),
        )
        for profile, found in by_profile.items()
    ]


def failure_lines(result: CheckResult) -> list[str]:
    """Return what is wrong, what was expected, what was seen, and why it matters."""
    return [
        f"✗ {result.check.id}: {result.check.requirement}",
        f"    expected  {clean(result.expected or '')}",
        f"    seen      {clean(result.seen or '')}",
        f"    matters   {result.check.why}",
    ]


def summary_lines(results: Sequence[CheckResult]) -> list[str]:
    """Return the report for people: failures, then what could not be tried, then a line of counts."""
    lines: list[str] = []
    for result in results:
        if result.status == _FAILED:
            lines += [*failure_lines(result), ""]
    reasons: dict[str, list[str]] = {}
    for result in results:
        if result.status == "not_applicable":
            reasons.setdefault(result.reason or "", []).append(result.check.id)
    for reason, ids in reasons.items():
        lines.append(f"- not applicable: {clean(reason)}")
        lines += [f"    {check_id}" for check_id in ids]
    lines.append(" · ".join(tally.text for tally in tallies(results)))
    return lines


def report_json(results: Sequence[CheckResult]) -> JsonObject:
    """Return the report for programs. `ok` means that nothing failed and something passed."""
    counted = tallies(results)
    profiles: JsonObject = {
        tally.profile: {
            "checks": tally.checks,
            "passed": tally.passed,
            "failed": tally.failed,
            "not_applicable": tally.not_applicable,
        }
        for tally in counted
    }
    listed: list[JsonValue] = [_result_json(result) for result in results]
    return {
        "ok": not any(tally.failed for tally in counted) and any(tally.passed for tally in counted),
        "profiles": profiles,
        "results": listed,
    }


def _result_json(result: CheckResult) -> JsonObject:
    found: JsonObject = {
        "id": result.check.id,
        "status": result.status,
        "requirement": result.check.requirement,
        "why": result.check.why,
        "seconds": round(result.seconds, 3),
    }
    more = {"expected": result.expected, "seen": result.seen, "reason": result.reason}
    return {**found, **{name: value for name, value in more.items() if value is not None}}
