"""What a case expects of its run, and the comparison.

    {"status": "completed"}                                    the status of the run; completed unless said otherwise
    {"error": "AGENT_TURNS_SPENT"}                             it fails with this code
    {"exact": {"text": "Yes."}}                                the output is equal to this
    {"schema": {"type": "object", "required": ["text"]}}       the output fits
    {"jq": [".output.total > 3", ".input.id == .output.id"]}   each is true for {input, output, status, error}
    {"similarity": {"to": "It was sent.", "at_least": 0.8}}    of a text in the output, which `at` finds with jq
    {"judge": {"rubric": "Is it polite?", "at_least": 0.7}}    a model gives a score; see `judging`

All that is said has to hold. A comparison gives a score between 0 and 1, and holds or not.

Above it: `dataset` reads them, `running` compares. Below it: `similarity`, jq and schemas. It calls no model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.base.json import JsonObject, JsonValue
from penstock.cli.evaluation.similarity import similarity
from penstock.definitions.jq.expressions import (
    Evaluated,
    Evaluator,
    Expression,
    ExpressionProblem,
    compile_expression,
)
from penstock.definitions.schemas.compiled import CompiledSchema, SchemaProblem, compile_schema
from penstock.definitions.source.findings import suggestion

__all__ = ["Check", "Expectation", "JudgeWanted", "Outcome", "checks_of", "mistake_in", "read_expectation"]

_MEMBERS = ("status", "error", "exact", "schema", "jq", "similarity", "judge")
_AT_LEAST_SIMILAR, _AT_LEAST_JUDGED = 0.8, 0.5
_ANY_TEXT = '.output | if type == "object" and (.text | type) == "string" then .text else . end'
_VIOLATIONS_SHOWN = 5
_STATUSES = ("completed", "failed", "cancelled", "waiting_input", "waiting_approval", "waiting_activity")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityWanted:
    """A text that the output has to be similar to."""

    to: str
    at_least: float
    at: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeWanted:
    """What a judge decides by."""

    rubric: str
    at_least: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a case expects. `exact` is a tuple with the value, so that null can be expected."""

    status: str = "completed"
    error: str | None = None
    exact: tuple[JsonValue] | None = None
    schema: CompiledSchema | None = None
    jq: tuple[Expression, ...] = ()
    similarity: SimilarityWanted | None = None
    judge: JudgeWanted | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the run of a case ended, or its current status."""

    status: str
    output: JsonValue = None
    error: JsonObject | None = None
    waits_for: str | None = None
    """What it waits for, if it has not ended."""

    @property
    def code(self) -> str | None:
        """The code of the error."""
        found = (self.error or {}).get("code")
        return found if isinstance(found, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One comparison. `message` says what is wrong if it does not hold, and what a judge said in any case."""

    kind: str
    passed: bool
    score: float
    message: str = ""

    def to_json(self) -> JsonObject:
        """The comparison for programs."""
        return {"kind": self.kind, "passed": self.passed, "score": round(self.score, 4), "message": self.message}


class _Mistake(Exception):
    """An expectation that cannot be used."""


def mistake_in(expect: JsonValue) -> str | None:
    """What is wrong with an expectation as it is written; None if nothing is."""
    found = read_expectation(expect)
    return found if isinstance(found, str) else None


def read_expectation(expect: JsonValue) -> Expectation | str:
    """Return the expectation, or what is wrong with it."""
    try:
        return _read(expect)
    except _Mistake as mistake:
        return str(mistake)


def _read(expect: JsonValue) -> Expectation:
    if expect is None:
        return Expectation()
    if not isinstance(expect, dict):
        raise _Mistake("`expect` must be an object")
    unknown = [name for name in expect if name not in _MEMBERS]
    if unknown:
        raise _Mistake(f"`expect` has no member {unknown[0]!r}; there are {', '.join(_MEMBERS)}")
    error, status = expect.get("error"), expect.get("status")
    if error is not None and not isinstance(error, str):
        raise _Mistake("`expect.error` must be the code of an error")
    default = "completed" if error is None else "failed"
    if status is not None and status not in _STATUSES:
        meant = suggestion(status, _STATUSES) if isinstance(status, str) else None
        message = f"`expect.status` must be one of {', '.join(_STATUSES)}"
        raise _Mistake(f"{message}; {meant}" if meant else message)
    return Expectation(
        status=default if status is None else str(status),
        error=error,
        exact=(expect["exact"],) if "exact" in expect else None,
        schema=_schema(expect["schema"]) if "schema" in expect else None,
        jq=tuple(_programs(expect["jq"])) if "jq" in expect else (),
        similarity=_similarity(expect["similarity"]) if "similarity" in expect else None,
        judge=_judge(expect["judge"]) if "judge" in expect else None,
    )


def _schema(value: JsonValue) -> CompiledSchema:
    compiled = compile_schema(value) if isinstance(value, dict) else SchemaProblem("it must be an object", "")
    if isinstance(compiled, SchemaProblem):
        raise _Mistake(f"`expect.schema`{compiled.path}: {compiled.message}")
    return compiled


def _program(text: JsonValue, place: str) -> Expression:
    found = compile_expression(text) if isinstance(text, str) else ExpressionProblem("it must be a text")
    if isinstance(found, ExpressionProblem):
        raise _Mistake(f"`{place}`: {found.message}" + (f" ({found.hint})" if found.hint else ""))
    return found


def _programs(value: JsonValue) -> Iterator[Expression]:
    listed = value if isinstance(value, list) else [value]
    if not listed:
        raise _Mistake("`expect.jq` must have at least one expression")
    for index, text in enumerate(listed):
        yield _program(text, f"expect.jq[{index}]" if isinstance(value, list) else "expect.jq")


def _members(value: JsonValue, place: str, text: str, others: tuple[str, ...]) -> JsonObject:
    """An object with one text that it must have; a text alone stands for such an object."""
    members: JsonObject = value if isinstance(value, dict) else {text: value}
    unknown = [name for name in members if name not in (text, *others)]
    if unknown:
        raise _Mistake(f"`{place}` has no member {unknown[0]!r}; there are {', '.join((text, *others))}")
    found = members.get(text)
    if not isinstance(found, str) or not found.strip():
        raise _Mistake(f"`{place}.{text}` must be a text")
    return members


def _at_least(value: JsonValue, default: float, place: str) -> float:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise _Mistake(f"`{place}.at_least` must be a number between 0 and 1")
    return float(value)


def _similarity(value: JsonValue) -> SimilarityWanted:
    place = "expect.similarity"
    members = _members(value, place, "to", ("at_least", "at"))
    return SimilarityWanted(
        to=str(members["to"]),
        at_least=_at_least(members.get("at_least"), _AT_LEAST_SIMILAR, place),
        at=_program(members.get("at", _ANY_TEXT), f"{place}.at"),
    )


def _judge(value: JsonValue) -> JudgeWanted:
    members = _members(value, "expect.judge", "rubric", ("at_least",))
    least = _at_least(members.get("at_least"), _AT_LEAST_JUDGED, "expect.judge")
    return JudgeWanted(rubric=str(members["rubric"]), at_least=least)


# --- comparing ---------------------------------------------------------------------------------------


def checks_of(wanted: Expectation, given: JsonValue, outcome: Outcome, evaluator: Evaluator) -> list[Check]:
    """Compare what came out with all that is expected but the judge's verdict."""
    checks = [_status(wanted, outcome)]
    if not checks[0].passed:
        return checks  # there is no output to look at, or it is not the one that was meant
    if wanted.exact is not None:
        checks.append(_exact(wanted.exact[0], outcome.output))
    if wanted.schema is not None:
        checks.append(_fits(wanted.schema, outcome.output, evaluator))
    root: JsonObject = {
        "input": given,
        "output": outcome.output,
        "status": outcome.status,
        "error": outcome.error,
    }
    checks += [_holds(program, root, evaluator) for program in wanted.jq]
    if wanted.similarity is not None:
        checks.append(_similar(wanted.similarity, root, evaluator))
    return checks


def _check(kind: str, *, passed: bool, message: str) -> Check:
    return Check(kind=kind, passed=passed, score=float(passed), message="" if passed else message)


def _status(wanted: Expectation, outcome: Outcome) -> Check:
    told = "" if outcome.error is None else f" with {outcome.code}: {outcome.error.get('message')}"
    if outcome.waits_for is not None:
        told += f": {outcome.waits_for}"
    passed = outcome.status == wanted.status and wanted.error in (None, outcome.code)
    meant = wanted.status if wanted.error is None else f"{wanted.status} with {wanted.error}"
    return _check("status", passed=passed, message=f"expected {meant}, and it is {outcome.status}{told}")


def _exact(wanted: JsonValue, output: JsonValue) -> Check:
    # As JSON, 1 and 1.0 are one number, and true is not 1.
    passed = _comparable(wanted) == _comparable(output)
    return _check("exact", passed=passed, message=f"expected {_text(wanted)}, and it is {_text(output)}")


def _comparable(value: JsonValue) -> Any:
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    return {name: _comparable(item) for name, item in value.items()} if isinstance(value, dict) else value


def _fits(schema: CompiledSchema, output: JsonValue, evaluator: Evaluator) -> Check:
    found = evaluator.violations(schema, output)
    told = "; ".join(f"{item.instance_path or '/'} {item.message}" for item in found[:_VIOLATIONS_SHOWN])
    return _check("schema", passed=not found, message=told)


def _holds(program: Expression, root: JsonObject, evaluator: Evaluator) -> Check:
    found = evaluator.evaluate(program, root)
    if isinstance(found, Evaluated):
        return _check("jq", passed=found.value is True, message=f"{program.text} gives {_text(found.value)}")
    return _check("jq", passed=False, message=f"{program.text} fails: {found.message}")


def _similar(wanted: SimilarityWanted, root: JsonObject, evaluator: Evaluator) -> Check:
    found = evaluator.evaluate(wanted.at, root)
    if not isinstance(found, Evaluated):
        return _check("similarity", passed=False, message=f"{wanted.at.text} fails: {found.message}")
    text = found.value if isinstance(found.value, str) else _text(found.value)
    score = similarity(wanted.to, text)
    passed = score >= wanted.at_least
    told = f"{score:.2f} similar, and at least {wanted.at_least:.2f} is expected: {_text(text)}"
    return Check(kind="similarity", passed=passed, score=score, message="" if passed else told)


def _text(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)
