"""The report of an evaluation: for programs as JSON, and compared with that of another version.

Above it: `command`, `page`, `printing`. Below it: `expectations`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from pathlib import Path

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.cli.evaluation.dataset import BadLine
from penstock.cli.evaluation.expectations import Check
from penstock.cli.terminal.values import UsageError, parse_json

__all__ = [
    "CaseResult",
    "Change",
    "Difference",
    "Earlier",
    "Report",
    "Spent",
    "earlier_report",
    "is_report",
    "report_text",
    "spent_of",
]

FORMAT = "penstock-evaluation-1"
_ALMOST_EQUAL = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What the models of runs used. `cost` is in US dollars; None if some of it is not known."""

    tokens: int = 0
    cost: Decimal | None = Decimal(0)

    def __add__(self, other: Spent) -> Spent:
        """Both together."""
        known = None if self.cost is None or other.cost is None else self.cost + other.cost
        return Spent(tokens=self.tokens + other.tokens, cost=known)

    def to_json(self) -> JsonObject:
        """For programs."""
        return {"tokens": self.tokens, "cost": None if self.cost is None else f"{self.cost.normalize():f}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """How one case went. Without `checks`, it was not run."""

    case_id: str
    line: int
    run_id: str
    given: JsonValue
    expect: JsonValue
    status: str
    checks: tuple[Check, ...] = ()
    output: JsonValue = None
    error: JsonObject | None = None
    judge_run_id: str | None = None
    milliseconds: int | None = None
    spent: Spent = field(default_factory=Spent)

    @property
    def passed(self) -> bool:
        """Whether it was run, and all that is expected holds."""
        return bool(self.checks) and all(check.passed for check in self.checks)

    @property
    def score(self) -> float:
        """The mean of the scores of its comparisons; 0 if it did not end as it should."""
        if not self.checks or not self.checks[0].passed:
            return 0.0
        others = self.checks[1:]
        return sum(check.score for check in others) / len(others) if others else 1.0

    def to_json(self) -> JsonObject:
        """The case for programs."""
        return {
            "id": self.case_id,
            "line": self.line,
            "run": self.run_id,
            "status": self.status,
            "passed": self.passed,
            "score": round(self.score, 4),
            "checks": [check.to_json() for check in self.checks],
            "input": self.given,
            "expect": self.expect,
            "output": self.output,
            "error": self.error,
            "judge_run": self.judge_run_id,
            "milliseconds": self.milliseconds,
            **self.spent.to_json(),
        }


class Change(StrEnum):
    """How a case went, compared with the other version."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    NEW = "new"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A case in both versions."""

    case_id: str
    change: Change
    passed_before: bool | None
    passed_now: bool | None
    score_before: float | None
    score_now: float | None
    output_before: JsonValue = None

    def to_json(self) -> JsonObject:
        """The difference for programs."""
        return {
            "id": self.case_id,
            "change": str(self.change),
            "passed_before": self.passed_before,
            "passed_now": self.passed_now,
            "score_before": self.score_before,
            "score_now": self.score_now,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """The report of another version, as far as it is compared."""

    evaluation: str
    target: JsonObject
    pass_rate: float
    score: float
    cases: Mapping[str, JsonObject]

    @classmethod
    def of(cls, report: JsonObject) -> Earlier:
        """From a report as JSON."""
        listed = report.get("cases")
        cases = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
        return cls(
            evaluation=str(report.get("evaluation")),
            target=object_or_empty(report.get("target")),
            pass_rate=_number(report.get("pass_rate")),
            score=_number(report.get("score")),
            cases={str(item.get("id")): item for item in cases},
        )


def _number(value: JsonValue) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """An evaluation."""

    evaluation: str
    target: JsonObject
    dataset: str
    digest: str
    results: tuple[CaseResult, ...]
    bad_lines: tuple[BadLine, ...]
    fail_under: float
    stopped: str | None = None
    """Why not all cases were run."""
    earlier: Earlier | None = None

    @property
    def passed(self) -> int:
        """How many cases passed."""
        return sum(result.passed for result in self.results)

    @property
    def pass_rate(self) -> float:
        """The share of the cases that passed; those that were not run count as failed."""
        return self.passed / len(self.results) if self.results else 0.0

    @property
    def score(self) -> float:
        """The mean score of the cases."""
        return sum(result.score for result in self.results) / len(self.results) if self.results else 0.0

    @property
    def spent(self) -> Spent:
        """What all cases used."""
        return sum((result.spent for result in self.results), start=Spent())

    @property
    def ok(self) -> bool:
        """Whether the threshold is reached, with every line of the data set."""
        reached = self.pass_rate >= self.fail_under - _ALMOST_EQUAL
        return bool(self.results) and reached and not self.bad_lines and self.stopped is None

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The comparison with the other version, case by case."""
        return () if self.earlier is None else tuple(_differences(self.results, self.earlier))

    def to_json(self) -> JsonObject:
        """The report for programs."""
        counted = [difference.change for difference in self.differences]
        baseline: JsonObject | None = None
        if self.earlier is not None:
            baseline = {
                "evaluation": self.earlier.evaluation,
                "target": self.earlier.target,
                "pass_rate": self.earlier.pass_rate,
                "score": self.earlier.score,
                **{str(change): counted.count(change) for change in Change},
                "cases": [difference.to_json() for difference in self.differences],
            }
        return {
            "ok": self.ok,
            "format": FORMAT,
            "evaluation": self.evaluation,
            "target": self.target,
            "dataset": {"name": self.dataset, "digest": self.digest},
            "total": len(self.results),
            "passed": self.passed,
            "failed": sum(bool(result.checks) and not result.passed for result in self.results),
            "not_run": sum(not result.checks for result in self.results),
            "pass_rate": round(self.pass_rate, 4),
            "score": round(self.score, 4),
            "fail_under": self.fail_under,
            "stopped": self.stopped,
            **self.spent.to_json(),
            "bad_lines": [line.to_json() for line in self.bad_lines],
            "baseline": baseline,
            "cases": [result.to_json() for result in self.results],
        }


def _differences(results: Iterable[CaseResult], earlier: Earlier) -> Iterable[Difference]:
    left = dict(earlier.cases)
    for result in results:
        before = left.pop(result.case_id, None)
        if before is None:
            yield _difference(result.case_id, Change.NEW, None, result)
            continue
        yield _difference(result.case_id, _change(before, result), before, result)
    for case_id, before in left.items():
        yield _difference(case_id, Change.GONE, before, None)


def _change(before: JsonObject, now: CaseResult) -> Change:
    passed = before.get("passed") is True
    if passed != now.passed:
        return Change.BETTER if now.passed else Change.WORSE
    gained = now.score - _number(before.get("score"))
    if abs(gained) < 10 * _ALMOST_EQUAL + 0.0001:  # scores in reports are rounded
        return Change.SAME
    return Change.BETTER if gained > 0 else Change.WORSE


def _difference(case_id: str, change: Change, before: JsonObject | None, now: CaseResult | None) -> Difference:
    return Difference(
        case_id=case_id,
        change=change,
        passed_before=None if before is None else before.get("passed") is True,
        passed_now=None if now is None else now.passed,
        score_before=None if before is None else _number(before.get("score")),
        score_now=None if now is None else round(now.score, 4),
        output_before=None if before is None else before.get("output"),
    )


def is_report(value: JsonValue) -> bool:
    """Whether a value is the report of an evaluation."""
    return isinstance(value, dict) and value.get("format") == FORMAT


def earlier_report(path: Path) -> Earlier | None:
    """Read the report in a file; None if it has something else. Raises `UsageError` if it cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(limits.EVALUATION_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or type(error).__name__}") from None
    if len(data) > limits.EVALUATION_FILE_BYTES_MAX:
        raise UsageError(f"{path}: it is larger than {limits.EVALUATION_FILE_BYTES_MAX} bytes")
    try:
        value = parse_json(data.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return Earlier.of(value) if isinstance(value, dict) and is_report(value) else None


def spent_of(usage: JsonValue) -> Spent:
    """Return what the usage of an execution, as `execution.status` shows it, means."""
    if not isinstance(usage, dict):
        return Spent()
    tokens = int(_number(usage.get("input_tokens")) + _number(usage.get("output_tokens")))
    amount = object_or_empty(usage.get("cost")).get("amount")
    try:
        return Spent(tokens=tokens, cost=Decimal(str(amount)) if amount is not None else None)
    except InvalidOperation:
        return Spent(tokens=tokens, cost=None)


def report_text(report: Report) -> str:
    """Return the report as JSON on one line."""
    return json.dumps(report.to_json(), ensure_ascii=False)
