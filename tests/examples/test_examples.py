"""The examples are what they say: without findings, tested by their own cases, drawn, and run by the command line."""

import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from penstock.definitions.canonical import definition_hash
from penstock.definitions.source.document import SourceDocument, read_source
from penstock.definitions.validate import validate_source
from penstock.drawing.mermaid import to_mermaid
from penstock.drawing.svg import to_svg
from penstock.runtime.simulation.cases import run_case
from penstock.runtime.simulation.dry_run import SimulationReport
from tests.examples.cases import (
    EXAMPLES,
    ROOT,
    Case,
    all_cases,
    cases_of,
    example_names,
    load_example,
    read_document,
    workflows_by_name,
)
from tests.waiting import SECONDS_MAX

CASES_MIN = 3
NAMES = example_names()
# A waiting or failed run is a negative result, which the command line reports as 1.
EXIT_CODES = {"completed": 0, "waits": 1, "failed": 1}


def test_there_are_the_examples_that_people_look_for() -> None:
    assert NAMES == [
        "account-setup.yaml",
        "code-review.yaml",
        "daily-report.yaml",
        "document-review-loop.yaml",
        "employee-onboarding.yaml",
        "graph-review.yaml",
        "incident-response.yaml",
        "invoice-batch.yaml",
        "nightly-report.yaml",
        "publish-report.yaml",
        "refund-with-approval.yaml",
        "research-fan-out.yaml",
        "review-diff.yaml",
        "saga-booking.yaml",
        "subscription.yaml",
        "support-agent.yaml",
        "ticket-routing.json",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_has_no_findings_not_even_warnings(name: str) -> None:
    findings = validate_source((EXAMPLES / name).read_text(encoding="utf-8"), file=name)
    assert [f"{finding.location} {finding.code} {finding.message}" for finding in findings] == []


@pytest.mark.parametrize("name", NAMES)
def test_an_example_introduces_itself(name: str) -> None:
    workflow = load_example(name)
    assert workflow.description
    assert workflow.title or not workflow.native
    assert workflow.input_schema_json


@pytest.mark.parametrize("name", NAMES)
def test_an_example_shows_success_another_way_and_a_wait_or_a_timeout(name: str) -> None:
    cases = cases_of(name)
    assert len(cases) >= CASES_MIN
    assert len({case.name for case in cases}) == len(cases)
    expected = [case.value["expect"] for case in cases]
    statuses = {str(expect["status"]) for expect in expected if isinstance(expect, dict)}
    assert "completed" in statuses
    assert any(status.startswith("waiting_") for status in statuses) or any("time_outs" in case.value for case in cases)


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_a_case_of_an_example_holds_and_scripts_nothing_in_vain(case: Case) -> None:
    report = run_case(load_example(case.example), case.value, workflows=workflows_by_name())
    assert isinstance(report.run, SimulationReport), report
    assert report.differences == ()
    assert report.unused == ()
    assert report.passed


@pytest.mark.parametrize("name", NAMES)
def test_an_example_means_the_same_in_json(name: str) -> None:
    document = read_document(EXAMPLES / name)
    source = read_source(json.dumps(document, ensure_ascii=False), file=f"{name}.json")
    assert isinstance(source, SourceDocument)
    assert source.value == document
    assert isinstance(source.value, dict)
    assert definition_hash(source.value) == definition_hash(document) == load_example(name).hash


@pytest.mark.parametrize("name", NAMES)
def test_an_example_can_be_drawn(name: str) -> None:
    document = read_document(EXAMPLES / name)
    mermaid = to_mermaid(document)
    assert mermaid.startswith("flowchart TD\n")
    drawn = ElementTree.fromstring(to_svg(document))
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
    for node_id in load_example(name).nodes:
        assert node_id in mermaid


@dataclass(frozen=True)
class Command:
    """A command of examples/README.md, and how it says that the run ends."""

    text: str
    ends: str


def readme_commands() -> list[Command]:
    """The rows of the table: what it shows, the command, how the run ends."""
    rows = (EXAMPLES / "README.md").read_text(encoding="utf-8").splitlines()
    simulated = [row for row in rows if "`penstock workflow simulate " in row]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in simulated]
    return [Command(re.sub("^`|`$", "", row[2]), row[3]) for row in cells]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS_MAX)


def installed(program: str) -> str:
    return str(Path(sys.executable).with_name(program))


def test_the_readme_has_a_command_for_every_example() -> None:
    spoken_of = "\n".join(command.text for command in readme_commands())
    assert [name for name in NAMES if f"examples/{name}" not in spoken_of] == []


@pytest.mark.parametrize("command", readme_commands(), ids=lambda command: command.text)
def test_a_command_of_the_readme_ends_as_it_says(command: Command) -> None:
    program, *arguments = shlex.split(command.text)
    finished = run([installed(program), *arguments])
    assert finished.returncode == EXIT_CODES[command.ends], finished.stdout + finished.stderr
    assert finished.stderr == ""
    last_status = [line for line in finished.stdout.splitlines() if " of simulated time, " in line]
    assert len(last_status) == 1
    assert last_status[0].startswith("waiting_" if command.ends == "waits" else command.ends)


def test_the_demo_survives_being_killed_and_finishes() -> None:
    finished = run([str(ROOT / "scripts" / "demo"), "--yes"])
    assert finished.returncode == 0, finished.stdout + finished.stderr
    told = (
        "waiting for an approval",
        "killed the process (SIGKILL)",
        "found in penstock.db",
        "trying again",
        "completed in",
    )
    places = [finished.stdout.index(part) for part in told]
    assert places == sorted(places)


def test_the_tour_of_the_demo_runs() -> None:
    finished = run([str(ROOT / "scripts" / "demo"), "--tour"])
    assert finished.returncode == 0, finished.stdout + finished.stderr
    for told in ("refund_order", "waiting for an approval", "trying again", "RF-88121", "breaking"):
        assert told in finished.stdout
