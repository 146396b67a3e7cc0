"""`penstock workflow simulate`: a dry run of a workflow in memory, with a step-by-step trace.

Exit codes: 0 when the run completed, 1 when it failed or waits for something that was not given, 2 when a file or an
option could not be read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Annotated

from penstock.base.json import JsonObject
from penstock.cli.declaration import Argument, Exit, Option, echo
from penstock.cli.documents.reading import load_runnable
from penstock.cli.terminal.console import Console, console_for, print_problem
from penstock.cli.terminal.styled_text import Text
from penstock.cli.terminal.traces import trace_text
from penstock.cli.terminal.values import UsageError, parse_pairs, parse_value
from penstock.definitions.durations import format_duration
from penstock.definitions.model import Workflow
from penstock.runtime.sandbox.evaluator import SandboxedEvaluator
from penstock.runtime.simulation.cases import script_of_case
from penstock.runtime.simulation.dry_run import Script, Signal, SimulationRefused, SimulationReport, simulate

__all__ = ["simulate_command"]


def simulate_command(  # noqa: PLR0913  # every option is one the user can give
    file: Annotated[str, Argument(metavar="FILE", help="The workflow (YAML or JSON), or - for standard input.")],
    *,
    given: Annotated[
        str | None, Option("--input", help="The run's input: JSON, or @FILE (YAML or JSON).", metavar="JSON")
    ] = None,
    mock: Annotated[
        list[str] | None,
        Option(
            "--mock",
            metavar="NODE=JSON",
            help='What an activity gives: a value, {"error": {"code": …}}, {"sequence": […]}; or @FILE with all.',
        ),
    ] = None,
    answer: Annotated[
        list[str] | None, Option("--answer", metavar="NODE=JSON", help="The answer to an interrupt.")
    ] = None,
    signal: Annotated[
        list[str] | None,
        Option("--signal", metavar="NAME=JSON", help="A signal to send when the run waits for it."),
    ] = None,
    time_out: Annotated[
        list[str] | None, Option("--time-out", metavar="NODE", help="Let this node run into its timeout.")
    ] = None,
    other: Annotated[
        list[str] | None,
        Option("--with", metavar="FILE", help="Another workflow that this one starts, found by its name."),
    ] = None,
    case: Annotated[
        str | None, Option("--case", metavar="NAME", help="Take input, mocks and answers from this test case.")
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Run a workflow in memory with mocked activities and show every step.

    Nothing is called and nothing is stored. Exits with 0 when the run completed, 1 when it failed or waits for
    something that was not given, 2 when a file or an option cannot be read.
    """
    try:
        workflow = load_runnable(file)
        chosen = _case(workflow, case)
        scripted = script_of_case(chosen)
        script = Script(
            mocks={**scripted.mocks, **parse_pairs(mock, "--mock")},
            answers={**scripted.answers, **parse_pairs(answer, "--answer")},
            signals=(*scripted.signals, *_signals(signal)),
            time_outs=scripted.time_outs | frozenset(time_out or ()),
            workflows=dict(_named(path) for path in other or ()),
        )
        value = chosen.get("input", {}) if given is None else parse_value(given, "--input")
    except UsageError as error:
        print_problem(str(error))
        raise Exit(2) from None
    with SandboxedEvaluator() as evaluator:
        report = simulate(workflow, value, script, evaluator=evaluator)
    _show(workflow, report, as_json=as_json)
    if isinstance(report, SimulationRefused) or report.status != "completed":
        raise Exit(1)


def _named(path: str) -> tuple[str, Workflow]:
    workflow = load_runnable(path)
    return workflow.name, workflow


def _case(workflow: Workflow, name: str | None) -> JsonObject:
    if name is None:
        return {}
    for test in workflow.tests:
        if test.get("name") == name:
            return test
    known = ", ".join(f"`{test.get('name')}`" for test in workflow.tests) or "none"
    raise UsageError(f"{workflow.name} has no test case `{name}`; its cases: {known}")


def _signals(options: Iterable[str] | None) -> list[Signal]:
    signals = []
    for text in options or ():
        name, separator, value = text.partition("=")
        signals.append(Signal(name=name, payload=parse_value(value, f"--signal {name}") if separator else None))
    return signals


def _show(workflow: Workflow, report: SimulationReport | SimulationRefused, *, as_json: bool) -> None:
    if isinstance(report, SimulationRefused):
        if as_json:
            error: JsonObject = {"code": report.code, "message": report.message, "hint": report.hint}
            echo(json.dumps({"ok": False, "workflow": workflow.name, "status": "refused", "error": error}, indent=2))
        else:
            print_problem(f"{report.code}: {report.message}" + (f"\nhint: {report.hint}" if report.hint else ""))
        return
    if as_json:
        body: JsonObject = {"ok": report.status == "completed", "workflow": workflow.name, "hash": workflow.hash}
        echo(json.dumps({**body, **report.to_json()}, indent=2, ensure_ascii=False))
        return
    console = console_for(sys.stdout)
    console.print(Text.assemble(("● ", "bold"), (workflow.name, "bold"), f"  {workflow.version}  dry run"))
    begin = report.trace[0].at if report.trace else 0
    width = max((len(line.node_id) for line in report.trace), default=0)
    for line in report.trace:
        console.print(trace_text(line, begin, width))
    _show_end(console, report)


def _show_end(console: Console, report: SimulationReport) -> None:
    style = "green" if report.status == "completed" else "red" if report.status == "failed" else "yellow"
    summary = Text.assemble((report.status, style))
    summary.append(f" after {format_duration(report.elapsed_ms)} of simulated time, {len(report.records)} records")
    console.print(summary)
    for item in report.waiting_for:
        hint = f"; {item['hint']}" if "hint" in item else ""
        console.print(Text(f"  waiting at {item['node']} for {item['for']}{hint}"))
