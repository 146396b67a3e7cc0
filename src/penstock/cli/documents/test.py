"""`penstock test`: the test cases of workflow documents, run in memory with mocked activities.

Cases are in the document under `tests`, or in a file NAME.tests.yaml beside it (the published format has no place for
them). Child workflows are found by name among the given documents and in the folder of the document.

Exit codes: 0 when every case holds, 1 when one does not, 2 when a file cannot be read or has mistakes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from penstock.base.json import JsonObject, JsonValue
from penstock.base.text import clean
from penstock.cli.declaration import Argument, Exit, Option, echo
from penstock.cli.documents.reading import choose_files, read_project_settings
from penstock.cli.terminal.console import Console, console_for, count_words, print_problem
from penstock.cli.terminal.files import SourceText, Unreadable, read_path, read_sources
from penstock.cli.terminal.findings import print_findings
from penstock.cli.terminal.styled_text import Text
from penstock.cli.terminal.traces import trace_text
from penstock.definitions.jq.expressions import Evaluator
from penstock.definitions.model import Workflow
from penstock.definitions.source.document import SourceDocument, read_source
from penstock.definitions.start_needs import start_needs
from penstock.definitions.validate import load_workflow
from penstock.runtime.sandbox.evaluator import SandboxedEvaluator
from penstock.runtime.simulation.cases import CaseReport, Difference, run_case
from penstock.runtime.simulation.dry_run import SimulationReport

__all__ = ["cases_command"]

_CASES_SUFFIX = ".tests.yaml"
_INLINE_CHARACTERS_MAX = 100
_NANOSECONDS_PER_MILLISECOND = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Suite:
    """A workflow with its cases, or why it has none."""

    label: str
    workflow: Workflow | None = None
    cases: tuple[JsonObject, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    report: CaseReport
    elapsed_ms: float
    strict: bool

    @property
    def word(self) -> str:
        if self.report.skipped:
            return "skipped"
        return "passed" if self.report.passed and not (self.strict and self.report.unused) else "failed"

    def to_json(self) -> JsonObject:
        """The outcome for programs."""
        return {
            "name": self.report.name,
            "outcome": self.word,
            "elapsed_ms": round(self.elapsed_ms, 3),
            "differences": [item.to_json() for item in self.report.differences],
            "unused": list(self.report.unused),
        }


@dataclass(slots=True, kw_only=True)
class _Tally:
    words: list[str] = field(default_factory=list)
    problems: int = 0

    def text(self) -> str:
        """How it went, in one line."""
        counts = [f"{self.words.count(word)} {word}" for word in ("passed", "failed", "skipped") if word in self.words]
        return ", ".join(counts) or "no cases"

    def exit_code(self) -> int:
        """2 when a suite could not be run, 1 when a case failed, else 0."""
        return 2 if self.problems else 1 if "failed" in self.words else 0


def cases_command(
    paths: Annotated[
        list[str] | None,
        Argument(
            metavar="FILE", help="Workflow files, or directories to search for them. Without any, those of the project."
        ),
    ] = None,
    *,
    name_part: Annotated[str | None, Option("-k", metavar="TEXT", help="Only cases whose name contains this.")] = None,
    trace: Annotated[bool, Option("--trace", help="Show every step of a case that fails.")] = False,
    strict: Annotated[
        bool, Option("--strict", help="Also fail cases with mocks, answers or signals that nothing asked for.")
    ] = False,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Run the test cases of workflows in memory, with mocks.

    With --json: ok, passed, failed, skipped and files (each with file, workflow, problem and cases, and these with
    name, outcome, elapsed_ms, differences and unused).

    Exits with 0 when every case holds, 1 when one does not, 2 when a file cannot be read or has mistakes.
    """
    console = console_for(sys.stdout)
    project = None if paths else read_project_settings(as_json=as_json)
    suites = _suites(choose_files(paths, project, as_json=as_json))
    known = {suite.workflow.name: suite.workflow for suite in suites if suite.workflow is not None}
    tally, files = _Tally(), list[JsonValue]()
    with SandboxedEvaluator() as evaluator:
        for suite in suites:
            outcomes = list(_outcomes(suite, known, evaluator, name_part=name_part, strict=strict))
            tally.words += [outcome.word for outcome in outcomes]
            tally.problems += suite.problem is not None
            if outcomes or suite.problem is not None or name_part is None:
                files.append(_file_json(suite, outcomes))
            if not as_json:
                _print_suite(console, suite, outcomes, trace=trace)
    if name_part is not None and not tally.words:
        tally.problems += 1  # a misspelt name must not look like success
        print_problem(f"no case has {name_part!r} in its name")
    _finish(console, tally, files, as_json=as_json)


def _outcomes(
    suite: _Suite, known: Mapping[str, Workflow], evaluator: Evaluator, *, name_part: str | None, strict: bool
) -> Iterator[_Outcome]:
    if suite.workflow is None:
        return
    workflows = {**_neighbours(suite), **known}
    for case in suite.cases:
        if name_part is not None and name_part not in str(case.get("name")):
            continue
        began = time.perf_counter_ns()
        report = run_case(suite.workflow, case, workflows=workflows, evaluator=evaluator)
        elapsed_ms = (time.perf_counter_ns() - began) / _NANOSECONDS_PER_MILLISECOND
        yield _Outcome(report=report, elapsed_ms=elapsed_ms, strict=strict)


def _finish(console: Console, tally: _Tally, files: list[JsonValue], *, as_json: bool) -> None:
    if as_json:
        counts: JsonObject = {word: tally.words.count(word) for word in ("passed", "failed", "skipped")}
        report: JsonObject = {"ok": tally.exit_code() == 0, **counts, "files": files}
        echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        style = "bold red" if tally.exit_code() else "bold green"
        console.print(Text.assemble((tally.text(), style)))
    if tally.exit_code():
        raise Exit(tally.exit_code())


def _file_json(suite: _Suite, outcomes: list[_Outcome]) -> JsonObject:
    return {
        "file": suite.label,
        "workflow": None if suite.workflow is None else suite.workflow.name,
        "problem": suite.problem,
        "cases": [outcome.to_json() for outcome in outcomes],
    }


# --- finding cases -------------------------------------------------------------------------------


def _suites(paths: list[str]) -> list[_Suite]:
    sources = [source for source in read_sources(paths) if not source.label.endswith(_CASES_SUFFIX)]
    return [_suite(source) for source in sources]


def _suite(source: SourceText | Unreadable) -> _Suite:
    if isinstance(source, Unreadable):
        return _Suite(label=source.label, problem=source.message)
    loaded = load_workflow(source.text, file=source.label)
    if loaded.workflow is None:
        print_findings(console_for(sys.stderr), loaded.findings, label=source.label, text=source.text)
        return _Suite(label=source.label, problem="it has mistakes; correct them first")
    beside = Path(source.label).with_suffix(_CASES_SUFFIX)
    if not beside.exists():
        return _Suite(label=source.label, workflow=loaded.workflow, cases=loaded.workflow.tests)
    cases = _cases_beside(str(beside))
    if isinstance(cases, str):
        return _Suite(label=source.label, problem=cases)
    return _Suite(label=source.label, workflow=loaded.workflow, cases=(*loaded.workflow.tests, *cases))


def _cases_beside(path: str) -> tuple[JsonObject, ...] | str:
    """The cases in a file of their own, or what is wrong with it."""
    source = read_path(path)
    if isinstance(source, Unreadable):
        return f"{path}: {source.message}"
    document = read_source(source.text, file=path)
    if not isinstance(document, SourceDocument):
        return f"{document[0].location}: {document[0].message}"
    listed = document.value.get("tests") if isinstance(document.value, dict) else None
    if not isinstance(listed, list):
        return f"{path}: there is no list of `tests` in it"
    return tuple(case for case in listed if isinstance(case, dict))


def _neighbours(suite: _Suite) -> Mapping[str, Workflow]:
    """Workflows in the same folder, for documents that start others."""
    workflow = suite.workflow
    if workflow is None or not start_needs(workflow.document).children:
        return {}
    return {other.name: other for other in _in_folder(str(Path(suite.label).parent))}


def _in_folder(folder: str) -> Iterator[Workflow]:
    for source in read_sources([folder]):
        if isinstance(source, SourceText):
            loaded = load_workflow(source.text, file=source.label)
            if loaded.workflow is not None:
                yield loaded.workflow


# --- printing ------------------------------------------------------------------------------------


def _print_suite(console: Console, suite: _Suite, outcomes: list[_Outcome], *, trace: bool) -> None:
    if suite.problem is not None:
        print_problem(f"{suite.label}: {suite.problem}")
        return
    if not outcomes:
        return
    name = suite.workflow.name if suite.workflow is not None else ""
    console.print(Text.assemble((suite.label, "bold"), f"  {name}, {count_words(len(outcomes), 'case')}"))
    for outcome in outcomes:
        _print_outcome(console, outcome)
        run = outcome.report.run
        if trace and outcome.word == "failed" and isinstance(run, SimulationReport):
            width = max((len(line.node_id) for line in run.trace), default=0)
            for line in run.trace:
                console.print(Text.assemble("      ", trace_text(line, run.trace[0].at, width)))


def _print_outcome(console: Console, outcome: _Outcome) -> None:
    mark, style = {"passed": ("✓", "green"), "failed": ("✗", "red"), "skipped": ("-", "yellow")}[outcome.word]
    took = "skipped" if outcome.report.skipped else f"{outcome.elapsed_ms:.1f} ms"
    console.print(Text.assemble("  ", (mark, style), f" {clean(outcome.report.name)}", (f"  {took}", "dim")))
    for difference in outcome.report.differences:
        _print_difference(console, difference)
    for part in outcome.report.unused:
        console.print(Text.assemble("      ", ("never used", "yellow"), f": the {clean(part)}"))


def _print_difference(console: Console, difference: Difference) -> None:
    note = f" ({clean(difference.note)})" if difference.note else ""
    console.print(Text.assemble("      ", (clean(difference.place), "bold"), note))
    if difference.note != "not expected":
        _print_value(console, "expected", difference.expected, "green")
    if difference.note != "missing":
        _print_value(console, "     got", difference.actual, "red")


def _print_value(console: Console, label: str, value: JsonValue, style: str) -> None:
    text = json.dumps(value, ensure_ascii=False)
    lines = (
        [text] if len(text) <= _INLINE_CHARACTERS_MAX else json.dumps(value, indent=2, ensure_ascii=False).split("\n")
    )
    console.print(Text.assemble(f"        {label}  ", (clean(lines[0]), style)))
    for line in lines[1:]:
        indent = len(line) - len(line.lstrip())
        console.print(Text.assemble(" " * (18 + indent), (clean(line), style)))
