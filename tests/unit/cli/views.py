"""Runs for the tests of views: simulated in memory, so that their records are real."""

from penstock.base.json import JsonObject, JsonValue
from penstock.cli.run.rendering import RenderContext, header_of, lines_of, text_of
from penstock.cli.run.view import RunView
from penstock.definitions.model import Workflow
from penstock.definitions.validate import load_workflow
from penstock.engine.records import Record
from penstock.runtime.simulation.cases import script_of_case
from penstock.runtime.simulation.dry_run import SimulationReport, simulate


def workflow_of(text: str) -> Workflow:
    loaded = load_workflow(text)
    assert loaded.workflow is not None, loaded.findings
    return loaded.workflow


def records_of(workflow: Workflow, case: JsonObject, given: JsonValue = None) -> list[Record]:
    report = simulate(workflow, {} if given is None else given, script_of_case(case))
    assert isinstance(report, SimulationReport), report
    return list(report.records)


def view_of(workflow: Workflow, records: list[Record]) -> RunView:
    view = RunView(workflow=workflow)
    view.take(records)
    return view


def screen(view: RunView, *, later_ms: int = 0, lines_max: int | None = None) -> list[str]:
    """What is drawn, some time after the last record."""
    sheet = RenderContext.for_workflow(view.workflow, now=view.visits.updated_at + later_ms)
    lines = lines_of(view, sheet, lines_max=lines_max)
    return [header_of(view, sheet).plain, *(text_of(line, sheet).plain for line in lines)]
