"""`penstock eval`: run a data set against a workflow or an agent, and compare.

Exit codes: 0 when the threshold is reached; 1 when it is missed, or not all cases could be run; 2 when a file, an
option or a line of the data set cannot be used; 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.cli.declaration import Argument, Option, echo
from penstock.cli.evaluation.dataset import BadLine, Case, DataSet, read_dataset
from penstock.cli.evaluation.judging import judge_of
from penstock.cli.evaluation.opening import EvaluationFiles
from penstock.cli.evaluation.page import html_page
from penstock.cli.evaluation.places import FilePlace, Place, Version
from penstock.cli.evaluation.printing import Progress, print_bad_lines, print_report
from penstock.cli.evaluation.report import CaseResult, Earlier, Report, report_text
from penstock.cli.evaluation.running import Bounds, CaseRunner
from penstock.cli.evaluation.server import open_place
from penstock.cli.runs.client import RunOptions
from penstock.cli.targets.selection import FileTarget, ServerTarget, choose_target
from penstock.cli.targets.settings import ConfigOption, command_settings
from penstock.cli.targets.workspace import SecretsOption, StepsOption, Workspace
from penstock.cli.terminal.console import console_for, count_words
from penstock.cli.terminal.event_loop import Interrupted, exit_with_async, hold_signals, until_interrupted
from penstock.cli.terminal.exits import INTERRUPTED, command_text, print_json
from penstock.cli.terminal.values import UsageError
from penstock.definitions.durations import parse_native_duration_ms
from penstock.runtime.sandbox.evaluator import SandboxedEvaluator
from penstock.runtime.system import new_run_id

__all__ = ["eval_command"]

_UNUSABLE_EXIT = 2
_BASELINE = "baseline"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The request on the command line."""

    dataset: DataSet
    against: str
    evaluation: str
    judge: str | None
    bounds: Bounds
    fail_under: float
    baseline: str | None
    html: Path | None
    as_json: bool
    files: EvaluationFiles
    place: Place


@dataclass(frozen=True, slots=True)
class _Ran:
    """The cases of one version, run."""

    results: tuple[CaseResult, ...]
    stopped: str | None


_Against = Annotated[
    str,
    Option(
        "--against",
        metavar="FILE|NAME",
        help="The workflow or agent: a file, or the name of one of the project; on a server NAME or NAME@VERSION.",
    ),
]
_Baseline = Annotated[
    str | None,
    Option(
        "--baseline",
        metavar="VERSION|REPORT",
        help="Compare with a report, an earlier evaluation by its id, another file of the workflow, or a stored "
        "version of it.",
    ),
]
_Concurrency = Annotated[
    int,
    Option("--concurrency", metavar="N", min=1, max=limits.EVALUATION_AT_ONCE_MAX, help="Cases that run at once."),
]


def eval_command(  # noqa: PLR0913  # every option is one the user can give
    dataset: Annotated[Path, Argument(metavar="DATASET", help="The cases: a file with one JSON object on each line.")],
    *,
    against: _Against,
    evaluation: Annotated[
        str | None,
        Option("--id", metavar="ID", help="The evaluation. An existing one continues, and nothing is paid twice."),
    ] = None,
    judge: Annotated[
        str | None, Option("--judge", metavar="MODEL", help="The model that judges, as documents name it.")
    ] = None,
    baseline: _Baseline = None,
    fail_under: Annotated[
        float, Option("--fail-under", metavar="SHARE", min=0, max=1, help="The share of cases that must pass.")
    ] = 1.0,
    concurrency: _Concurrency = limits.EVALUATION_AT_ONCE_DEFAULT,
    max_cost: Annotated[
        float | None,
        Option("--max-cost", metavar="DOLLARS", min=0, help="Start no case once this much is spent."),
    ] = None,
    timeout: Annotated[str, Option("--timeout", metavar="TIME", help="How long a case may take.")] = "10m",
    scripted: Annotated[
        bool, Option("--scripted", help="Ask no model but the judge: every case must have a script.")
    ] = False,
    skip_bad_lines: Annotated[
        bool, Option("--skip-bad-lines", help="Run the other lines if some cannot be used.")
    ] = False,
    html: Annotated[Path | None, Option("--html", metavar="FILE", help="Write the report as a page.")] = None,
    other: Annotated[
        list[str] | None,
        Option("--with", metavar="FILE", help="Another workflow that this one calls, found by its name."),
    ] = None,
    steps: StepsOption = None,
    secret_folder: SecretsOption = None,
    config: ConfigOption = None,
    options: RunOptions,
) -> None:
    """Run a data set against a workflow or an agent, and compare.

    Each case is a durable run, in a file of the evaluation's own beside the database: to continue an interrupted
    evaluation, repeat the command with its --id. The report is kept beside it, and compared with --baseline.

    With --server or --profile, each case is a run on the server, which has the workflow already. It starts with your
    key, and its effects are real.

    With --json, progress goes to standard error, and the last line on standard output is the report.

    Exits with 0 when enough cases pass, and with 1 when they do not, or when not all could be run. Exits with 2 when a
    file, an option or a line of the data set cannot be used, and with 130 after Ctrl-C.
    """

    async def work() -> int:
        flags = {"storage.path": options.database, "steps.modules": steps or None}
        settings = command_settings(config, flags, as_json=options.as_json).settings
        workspace = Workspace.configured(settings, config=config, secret_folder=secret_folder)
        files = EvaluationFiles.beside(workspace.database)
        in_file = FilePlace(workspace=workspace, files=files, with_files=tuple(other or ()), scripted=scripted)
        asked = _Asked(
            dataset=read_dataset(dataset),
            against=against,
            evaluation=EvaluationFiles.checked(evaluation or f"e-{new_run_id()[2:]}"),
            judge=judge,
            bounds=_bounds(concurrency, max_cost, timeout),
            fail_under=fail_under,
            baseline=baseline,
            html=html,
            as_json=options.as_json,
            files=files,
            place=in_file,
        )
        match choose_target(options.server, options.profile, options.database):
            case FileTarget():
                return await _evaluate(asked, skips=skip_bad_lines)
            case ServerTarget() as server:
                _refuse_file_options(
                    {"--scripted": scripted, "--with": other, "--steps": steps, "--secret-file": secret_folder}, server
                )
                async with open_place(server) as place:
                    return await _evaluate(replace(asked, place=place), skips=skip_bad_lines)

    exit_with_async(work, as_json=options.as_json)


def _refuse_file_options(given: Mapping[str, object], server: ServerTarget) -> None:
    """Refuse options that say how this process performs runs: a server does that itself."""
    named = [option for option, value in given.items() if value]
    if named:
        message = f"{' and '.join(named)}: {server.server} performs the cases itself, with what it has"
        raise UsageError(f"{message}; to evaluate in a file, name one with --db")


def _bounds(concurrency: int, max_cost: float | None, timeout: str) -> Bounds:
    timeout_ms = parse_native_duration_ms(timeout)
    if not timeout_ms:
        raise UsageError(f"--timeout takes a length of time such as 30s or 10m, not {timeout!r}")
    cost = None if max_cost is None else Decimal(str(max_cost))
    return Bounds(at_once=concurrency, cost=cost, timeout_seconds=timeout_ms / 1000)


async def _evaluate(asked: _Asked, *, skips: bool) -> int:
    target = await asked.place.target(asked.against)
    checked = _checked(asked, target)
    if checked.bad_lines:
        if not asked.as_json or skips:
            print_bad_lines(checked.name, checked.bad_lines)
        if not skips:
            return _refused(checked, as_json=asked.as_json)
    if not checked.cases:
        raise UsageError(f"{checked.name} has no cases")
    asked = replace(asked, dataset=checked)
    if asked.judge is None and any(case.wanted.judge is not None for case in checked.cases):
        raise UsageError("cases have a rubric for a judge; name the model that judges with --judge")
    before: Version | Earlier | None = None
    if asked.baseline is not None:
        before = await asked.place.baseline(asked.baseline, target, asked.files)
    hold_signals()
    console = console_for(sys.stderr if asked.as_json else sys.stdout)
    title = f"evaluation {asked.evaluation}: {count_words(len(checked.cases), 'case')} of {checked.name} against"
    console.print(f"{title} {target.name} {target.version}{asked.place.title}")
    outcome = await until_interrupted(_both(asked, target, before))
    if isinstance(outcome, Interrupted):
        again = command_text("eval", "…", "--id", asked.evaluation)
        console.print(f"left; finished cases are kept. To continue, repeat the command with --id: {again}")
        return INTERRUPTED
    _write(asked, outcome)
    return 0 if outcome.ok else 1


def _checked(asked: _Asked, target: Version) -> DataSet:
    """The data set, without the cases that cannot be run at the place."""
    cases: list[Case] = []
    bad = list(asked.dataset.bad_lines)
    for case in asked.dataset.cases:
        mistake = asked.place.mistake(target, case)
        if mistake is None:
            cases.append(case)
        else:
            bad.append(BadLine(case.line, mistake))
    bad.sort(key=lambda line: line.line)
    return replace(asked.dataset, cases=tuple(cases), bad_lines=tuple(bad))


def _refused(dataset: DataSet, *, as_json: bool) -> int:
    told = f"{count_words(len(dataset.bad_lines), 'line')} of {dataset.name} cannot be used; nothing was run"
    if as_json:
        listed: JsonObject = {"bad_lines": [line.to_json() for line in dataset.bad_lines]}
        print_json(
            {"ok": False, "error": {"code": "DATASET_INVALID", "message": told, "hint": None, "details": listed}}
        )
    else:
        console_for(sys.stderr).print(f"{told}; correct them, or run the others with --skip-bad-lines")
    return _UNUSABLE_EXIT


async def _both(asked: _Asked, target: Version, before: Version | Earlier | None) -> Report:
    """Run the other version, if it is to be run, and then the target."""
    earlier = before if isinstance(before, Earlier) else None
    if isinstance(before, Version):
        named = f"{asked.evaluation}.{_BASELINE}"
        ran = await _run(asked, before, named, label=f"{_BASELINE} ")
        first = _report(asked, before, named, ran)
        _save(asked.files.report(named), report_text(first))
        earlier = Earlier.of(first.to_json())
    return _report(asked, target, asked.evaluation, await _run(asked, target, asked.evaluation), earlier)


async def _run(asked: _Asked, target: Version, evaluation: str, *, label: str = "") -> _Ran:
    cases = asked.dataset.cases
    rubrics = {case.wanted.judge.rubric: case.wanted.judge for case in cases if case.wanted.judge is not None}
    judges = {rubric: judge_of(wanted, asked.judge or "default") for rubric, wanted in rubrics.items()}
    progress = Progress.to(cases, as_json=asked.as_json, label=label)
    with SandboxedEvaluator() as evaluator:
        async with asked.place.opened(evaluation, target, cases, judges) as runs:
            runner = CaseRunner(runs=runs, evaluator=evaluator, bounds=asked.bounds, done=progress.done)
            try:
                results = await runner.run(cases)
            except BaseExceptionGroup as group:  # the first failure of a case is the one to tell
                raise group.exceptions[0] from None
    progress.finish(results)
    return _Ran(results, runner.stopped)


def _report(asked: _Asked, target: Version, evaluation: str, ran: _Ran, earlier: Earlier | None = None) -> Report:
    return Report(
        evaluation=evaluation,
        target=target.to_json(),
        dataset=asked.dataset.name,
        digest=asked.dataset.digest,
        results=ran.results,
        bad_lines=asked.dataset.bad_lines,
        fail_under=asked.fail_under,
        stopped=ran.stopped,
        earlier=earlier,
    )


def _save(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or type(error).__name__}") from None


def _write(asked: _Asked, report: Report) -> None:
    place = asked.files.report(asked.evaluation)
    _save(place, report_text(report))
    if asked.html is not None:
        _save(asked.html, html_page(report))
    if asked.as_json:
        echo(report_text(report))
        return
    print_report(report)
    console = console_for(sys.stdout)
    console.print(f"report: {place}" + ("" if asked.html is None else f", {asked.html}"))
