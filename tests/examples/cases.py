"""The example workflows with their test cases, and a strict comparison of a dry run with what a case expects."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.model import Workflow
from penstock.definitions.source import SourceDocument, read_source
from penstock.definitions.validate import load_workflow
from penstock.runtime.simulation import SimulationReport

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SUFFIXES = (".yaml", ".json")
# The published format has no place for test cases; they stand in a file beside the workflow.
CASES_SUFFIX = ".tests.yaml"


@dataclass(frozen=True)
class Case:
    """One test case of one example."""

    example: str
    value: JsonObject

    @property
    def name(self) -> str:
        return f"{self.example}: {self.value['name']}"


def example_names() -> list[str]:
    files = [path for path in EXAMPLES.iterdir() if path.suffix in SUFFIXES and not path.name.endswith(CASES_SUFFIX)]
    return sorted(path.name for path in files)


def read_document(path: Path) -> JsonObject:
    source = read_source(path.read_text(encoding="utf-8"), file=path.name)
    assert isinstance(source, SourceDocument), source
    assert isinstance(source.value, dict)
    return source.value


@cache
def load_example(name: str) -> Workflow:
    loaded = load_workflow((EXAMPLES / name).read_text(encoding="utf-8"), file=name)
    assert loaded.findings == ()
    assert loaded.workflow is not None
    return loaded.workflow


def workflows_by_name() -> dict[str, Workflow]:
    return {workflow.name: workflow for workflow in map(load_example, example_names())}


def cases_of(name: str) -> list[Case]:
    document = read_document(EXAMPLES / name)
    beside = (EXAMPLES / name).with_suffix(CASES_SUFFIX)
    tests = read_document(beside)["tests"] if beside.exists() else document.get("tests", [])
    assert isinstance(tests, list)
    return [Case(name, test) for test in tests if isinstance(test, dict)]


def all_cases() -> list[Case]:
    return [case for name in example_names() for case in cases_of(name)]


def misses(expect: JsonObject, report: SimulationReport) -> list[str]:
    """Everything in which a dry run differs from what a case expects; a word that is not understood is a miss too."""
    found: list[str] = []
    for key, wanted in expect.items():
        compare = COMPARISONS.get(key)
        found.extend(compare(wanted, report) if compare else [f"{key}: not understood"])
    return found


def _equal(what: str, wanted: JsonValue, given: JsonValue) -> Iterator[str]:
    if wanted != given or type(wanted) is not type(given):
        yield f"{what}: expected {wanted!r}, got {given!r}"


def _status(wanted: JsonValue, report: SimulationReport) -> Iterator[str]:
    yield from _equal("status", wanted, report.status)


def _output(wanted: JsonValue, report: SimulationReport) -> Iterator[str]:
    yield from _equal("output", wanted, report.result)


def _path(wanted: JsonValue, report: SimulationReport) -> Iterator[str]:
    yield from _equal("path", wanted, list(report.path))


def _error(wanted: JsonValue, report: SimulationReport) -> Iterator[str]:
    if not isinstance(wanted, dict) or report.error is None:
        yield f"error: expected {wanted!r}, got {report.error!r}"
        return
    for key, value in wanted.items():
        if key in ("code", "message"):
            yield from _equal(f"error.{key}", value, report.error[key])
        else:
            yield f"error.{key}: not understood"


def _state(wanted: JsonValue, report: SimulationReport) -> Iterator[str]:
    state = report.state
    if not isinstance(wanted, dict) or not isinstance(state, dict):
        yield f"state: expected {wanted!r}, got {state!r}"
        return
    for key, value in wanted.items():
        yield from _equal(f"state.{key}", value, state.get(key))


COMPARISONS: dict[str, Callable[[JsonValue, SimulationReport], Iterator[str]]] = {
    "status": _status,
    "output": _output,
    "path": _path,
    "error": _error,
    "state": _state,
}
