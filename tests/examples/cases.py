"""The example workflows with their test cases."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from penstock.base.json import JsonObject
from penstock.definitions.model import Workflow
from penstock.definitions.source.document import SourceDocument, read_source
from penstock.definitions.validate import load_workflow

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
